//! How the connections of the services plan a statement: other ones find other plans.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, PgPool};
use std::time::Duration;
use surety_common::store::{self, PoolSize};

/// A parameter of a statement: its type, and an expression for its value.
pub(crate) type Parameter<'a> = (&'a str, &'a str);

/// As the store begins the transaction of a statement that is planned for its values.
const FOR_VALUES: &str = "begin read only; set local plan_cache_mode = force_custom_plan";

/// The one plan of a statement for all values.
pub(crate) async fn plan_of(
    pool: &PgPool,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> String {
    explained(pool, ("begin", "explain"), statement, parameters).await
}

/// The plan of a statement that is planned for these values.
pub(crate) async fn plan_for_values(
    pool: &PgPool,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> String {
    explained(pool, (FOR_VALUES, "explain"), statement, parameters).await
}

/// As [`plan_of`], with what the statement read; what it wrote is taken back.
pub(crate) async fn carried_out(
    pool: &PgPool,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> String {
    let analyze = "explain (analyze, costs off, timing off, summary off)";
    explained(pool, ("begin", analyze), statement, parameters).await
}

/// The rows that filters of a plan dropped.
pub(crate) fn read_in_vain(plan: &str) -> u64 {
    let removed = plan.lines().filter_map(|line| line.split_once("Rows Removed by Filter: "));
    removed.map(|(_, count)| count.trim().parse::<u64>().unwrap()).sum()
}

async fn explained(
    pool: &PgPool,
    (begin, explain): (&str, &str),
    statement: &str,
    parameters: &[Parameter<'_>],
) -> String {
    let size = PoolSize { connections: 1, acquire_timeout: Duration::from_secs(30) };
    let url = pool.connect_options().to_url_lossy();
    let services = store::connect(url.as_str(), size).await.unwrap();
    let mut connection = services.acquire().await.unwrap();
    let types: Vec<&str> = parameters.iter().map(|(of, _)| *of).collect();
    let values: Vec<&str> = parameters.iter().map(|(_, value)| *value).collect();
    let (types, values) = match parameters {
        [] => (String::new(), String::new()),
        _ => (format!("({})", types.join(", ")), format!("({})", values.join(", "))),
    };
    carry_out(&mut connection, format!("prepare stored {types} as {statement}")).await;
    carry_out(&mut connection, begin.to_owned()).await;
    let lines: Vec<String> =
        sqlx::query_scalar(AssertSqlSafe(format!("{explain} execute stored {values}")))
            .persistent(false)
            .fetch_all(&mut *connection)
            .await
            .unwrap();
    carry_out(&mut connection, "rollback".to_owned()).await;
    lines.join("\n")
}

async fn carry_out(connection: &mut PgConnection, sql: String) {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.unwrap();
}
