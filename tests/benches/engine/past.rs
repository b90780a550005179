//! A past: a database filled with finished and with waiting runs.
//!
//! It is copied inside Postgres from runs that were really made, row by row, under ids of the last
//! twelve weeks.

use crate::load;
use crate::stand::Stand;
use anyhow::Result;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use surety_common::store;
use surety_e2e::harness::Database;
use uuid::Uuid;

/// As long ago as the first finished run was made.
const PAST: TimeDelta = TimeDelta::weeks(12);
/// The partitions of the journal in that time.
const WEEK: TimeDelta = TimeDelta::weeks(1);
/// Runs copied in one statement.
const BATCH: i64 = 20_000;
/// What a waiting run's row says otherwise than a ready one's.
const WAITING: [(&str, &str); 6] = [
    ("state", "'BLOCKED'"),
    ("blocked_from", "'EXECUTING'"),
    ("ready_at", "null"),
    (
        "wait",
        r#"'{"id":"00000000-0000-7000-8000-000000000000","waiting_on":"user","since":"2026-01-01T00:00:00Z","unblocks":"an answer","question":"Which?"}'"#,
    ),
    ("wait_ids", "array[gen_random_uuid()]"),
    ("deadline_at", "now() + interval '1 day'"),
];
/// The tables of a run, each with its column of the run's id.
const TABLES: [(&str, &str); 5] = [
    ("run", "id"),
    ("plan", "run_id"),
    ("verdict", "run_id"),
    ("execution", "run_id"),
    ("journal", "run_id"),
];

/// Copies runs until there are so many; answers how many bytes they take.
pub(crate) async fn fill(
    stand: &Stand<'_>,
    database: &Database,
    finished: usize,
    waiting: usize,
) -> Result<f64> {
    let (done, ready) = templates(stand, database).await?;
    let rows = database.pool().await?;
    let now = Utc::now();
    let weeks = i32::try_from(PAST.num_weeks())?;
    for week in 0..weeks {
        store::prepare_partitions(&rows, now - PAST + WEEK * week, WEEK).await?;
    }
    rows.close().await;
    let mut connection = PgConnection::connect(database.url()).await?;
    for setting in ["synchronous_commit = off", "session_replication_role = replica"] {
        sqlx::query(AssertSqlSafe(format!("set {setting}"))).execute(&mut connection).await?;
    }
    copy(&mut connection, now, &Copies { template: done, count: finished, overrides: &[] }).await?;
    copy(&mut connection, now, &Copies { template: ready, count: waiting, overrides: &WAITING })
        .await?;
    sqlx::query("delete from execution where run_id = $1")
        .bind(ready)
        .execute(&mut connection)
        .await?;
    let bytes: i64 = sqlx::query_scalar("select pg_database_size(current_database())")
        .fetch_one(&mut connection)
        .await?;
    connection.close().await?;
    Ok(f64::from(u32::try_from(bytes / (1 << 20))?) * f64::from(1 << 20))
}

/// Leaves a database as one that has rested: nothing of what was done to it is still to be done.
pub(crate) async fn rest(database: &Database) -> Result<()> {
    let mut connection = PgConnection::connect(database.url()).await?;
    for statement in ["vacuum (analyze)", "checkpoint"] {
        sqlx::query(statement).execute(&mut connection).await?;
    }
    Ok(connection.close().await?)
}

/// One run that ended, and one that waits.
async fn templates(stand: &Stand<'_>, database: &Database) -> Result<(Uuid, Uuid)> {
    let mut deployment = stand.deploy_on(Database::at(database.url())?, 1).await?;
    let done = load::follow(&mut deployment.runs()?, load::chain()).await?.run.id;
    deployment.first_executor()?.stop().await?;
    let ready = deployment.create_run(load::chain()).await?.id;
    Ok((done.parse()?, ready.parse()?))
}

/// Copies of one run.
struct Copies<'a> {
    template: Uuid,
    count: usize,
    /// Columns of its execution that the copies have otherwise.
    overrides: &'a [(&'a str, &'a str)],
}

async fn copy(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
    copies: &Copies<'_>,
) -> Result<()> {
    let count = i64::try_from(copies.count)?;
    let step_ms = PAST.num_milliseconds() / count.max(1);
    let from_ms = (now - PAST).timestamp_millis();
    // The last digits distinguish the copies of the two templates.
    let tail = copies.template.as_u128() & 0xffff;
    let id = format!(
        "(lpad(to_hex({from_ms} + n * {step_ms}), 12, '0') || '70008{tail:03x}'
          || lpad(to_hex(n), 12, '0'))::uuid",
        tail = tail & 0xfff,
    );
    let mut statements = Vec::new();
    for (table, key) in TABLES {
        statements.push(statement(connection, copies, (table, key), &id).await?);
    }
    for first in (1..=count).step_by(usize::try_from(BATCH)?) {
        for statement in &statements {
            sqlx::query(AssertSqlSafe(statement.as_str()))
                .bind(first)
                .bind(count.min(first + BATCH - 1))
                .execute(&mut *connection)
                .await?;
        }
        if first % (BATCH * 10) == 1 {
            eprintln!("  {first} of {count} runs are copied");
        }
    }
    Ok(())
}

/// Whatever columns the table has, they are copied.
async fn statement(
    connection: &mut PgConnection,
    copies: &Copies<'_>,
    (table, key): (&str, &str),
    id: &str,
) -> Result<String> {
    let columns: Vec<String> = sqlx::query_scalar(
        "select attname::text from pg_attribute
         where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum",
    )
    .bind(table)
    .fetch_all(&mut *connection)
    .await?;
    let value = |column: &String| match copies.overrides.iter().find(|(name, _)| name == column) {
        _ if column == key => id.to_owned(),
        Some((_, text)) if table == "execution" => (*text).to_owned(),
        Some(_) | None => format!("template.{column}"),
    };
    let values: Vec<String> = columns.iter().map(value).collect();
    Ok(format!(
        "insert into {table} ({}) select {} from generate_series($1, $2) as n
         cross join (select * from {table} where {key} = '{}') as template",
        columns.join(", "),
        values.join(", "),
        copies.template
    ))
}
