//! Statements that store many rows at once compare each with a hashed list of the others, and not with each other.

use sqlx::{AssertSqlSafe, ConnectOptions, Executor, PgPool};
use std::time::Duration;
use surety_common::store::{self, PoolSize};

const WITH_VERDICTS: &str = concat!(
    "with ",
    include_str!("../../src/store/sql/apply_change.sql"),
    "),\n",
    include_str!("../../src/store/sql/apply_moved.sql"),
    ",\n",
    include_str!("../../src/store/sql/apply_verdicts.sql"),
    include_str!("../../src/store/sql/apply_end.sql"),
);
const CREATE: &str = concat!(
    include_str!("../../src/store/sql/create_run.sql"),
    include_str!("../../src/store/sql/create_end.sql")
);

/// How a statement with so many parameters is planned on a connection of the services.
async fn plan_of(pool: &PgPool, statement: &str, parameters: usize) -> String {
    let size = PoolSize { connections: 1, acquire_timeout: Duration::from_secs(30) };
    let url = pool.connect_options().to_url_lossy();
    let services = store::connect(url.as_str(), size).await.unwrap();
    let mut connection = services.acquire().await.unwrap();
    // The database finds the types of those that the statement names.
    let of = |number| match statement.contains(&format!("${number}::")) {
        true => "unknown",
        false => "text",
    };
    let types = (1..=parameters).map(of).collect::<Vec<_>>().join(", ");
    let prepare = AssertSqlSafe(format!("prepare stored ({types}) as {statement}"));
    connection.execute(sqlx::raw_sql(prepare)).await.unwrap();
    let nothing = vec!["null"; parameters].join(", ");
    let explain = format!("explain execute stored({nothing})");
    let lines: Vec<String> = sqlx::query_scalar(AssertSqlSafe(explain))
        .persistent(false)
        .fetch_all(&mut *connection)
        .await
        .unwrap();
    lines.join("\n")
}

#[sqlx::test(migrations = "./migrations")]
async fn no_statement_compares_each_row_of_a_batch_with_each_other(pool: PgPool) {
    for (statement, parameters, lists) in [(WITH_VERDICTS, 48, 1), (CREATE, 39, 3)] {
        let plan = plan_of(&pool, statement, parameters).await;
        assert_eq!(plan.matches("hashed SubPlan").count(), lists, "{plan}");
    }
}
