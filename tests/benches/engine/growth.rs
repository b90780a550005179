//! Whether the past makes the present dearer: the same work in an empty database and in one that is
//! full of finished and of waiting runs.
//!
//! The past is copied inside Postgres from one run that was really carried, row by row, under ids of
//! the last twelve weeks.

use crate::latency::{self, Times};
use crate::load;
use crate::processes;
use crate::report::{Report, Row};
use crate::stand::Stand;
use crate::throughput::{self, Arrival, Sample};
use anyhow::{Context, Result};
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
const TABLES: [(&str, &str); 4] =
    [("run", "id"), ("plan", "run_id"), ("execution", "run_id"), ("journal", "run_id")];

/// What was measured in one database.
struct Measured {
    samples: Vec<Sample>,
    alone: Times,
    /// MiB resident of planner, executor and gate.
    memory: [f64; 3],
}

/// The same work in both, turn about.
pub(crate) async fn measure(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    let full = stand.database().await?;
    let (steps, waiting) = (stand.options.finished_steps(), stand.options.waiting_runs());
    let bytes = fill(stand, &full, steps / load::STEPS, waiting).await?;
    report.add(Row::new(
        format!("a database of {steps} finished steps and {waiting} waiting runs, GiB"),
        format!("{:.1}", bytes / f64::from(1 << 30)),
    ));
    let empty = stand.database().await?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for _ in 0..stand.options.repeat() {
        before.push(sample(stand, &empty).await?);
        after.push(sample(stand, &full).await?);
    }
    let before = alone(stand, &empty, before).await?;
    let after = alone(stand, &full, after).await?;
    compare(report, &before, &after, waiting);
    if stand.options.profile {
        for database in [&empty, &full] {
            let deployed = Database::at(database.url())?;
            throughput::sample_on(stand, deployed, Arrival::Waiting, 1, Some(report)).await?;
        }
    }
    empty.drop().await?;
    full.drop().await
}

async fn sample(stand: &Stand<'_>, database: &Database) -> Result<Sample> {
    let database = Database::at(database.url())?;
    throughput::sample_on(stand, database, Arrival::Waiting, 1, None).await
}

async fn alone(stand: &Stand<'_>, database: &Database, samples: Vec<Sample>) -> Result<Measured> {
    let deployment = stand.deploy_on(Database::at(database.url())?, 1).await?;
    let alone = latency::lone_runs(stand, &deployment, &load::chain()).await?;
    let resident = |pid: nix::unistd::Pid| processes::resident_mib(pid.as_raw());
    let memory = [
        resident(deployment.planner.pid()?)?,
        resident(deployment.executors.first().context("no executor runs")?.pid()?)?,
        resident(deployment.gate.pid()?)?,
    ];
    Ok(Measured { samples, alone, memory })
}

fn compare(report: &mut Report, before: &Measured, after: &Measured, waiting: usize) {
    let speed =
        |measured: &Measured| throughput::middle(&measured.samples, |one| one.steps_per_second);
    let shown =
        |measured: &Measured| throughput::spread(&measured.samples, |one| one.steps_per_second);
    report.add(Row::new("steps/s in the empty database", shown(before)));
    report.add(Row::new("steps/s in the full one", shown(after)).beside(format!(
        "{:.0} % of the empty one; target 95 %",
        100.0 * speed(after) / speed(before)
    )));
    let cost = |measured: &Measured| {
        throughput::middle(&measured.samples, |one| {
            one.usage.spent.postgres.as_secs_f64() * 1000.0 / one.steps
        })
    };
    report.add(
        Row::new("  CPU ms of Postgres per step in the full one", format!("{:.3}", cost(after)))
            .beside(format!("{:.3} in the empty one", cost(before))),
    );
    report.add(Row::new("one run of 10 steps in the full one, ms", after.alone.shown()).beside(
        format!(
            "{} in the empty one; its p50 is {:.0} % of this; target 95 %",
            before.alone.shown(),
            100.0 * before.alone.percentile_ms(50) / after.alone.percentile_ms(50)
        ),
    ));
    let names = ["planner", "executor", "acceptgate"];
    for ((name, before), after) in names.into_iter().zip(before.memory).zip(after.memory) {
        report.add(
            Row::new(
                format!("{name} with {waiting} waiting runs, MiB resident"),
                format!("{after:.1}"),
            )
            .beside(format!("{before:.1} without")),
        );
    }
}

/// Copies runs until there are so many, and leaves the database as one that has rested.
async fn fill(
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
    for statement in ["vacuum (analyze)", "checkpoint"] {
        sqlx::query(statement).execute(&mut connection).await?;
    }
    let bytes: i64 = sqlx::query_scalar("select pg_database_size(current_database())")
        .fetch_one(&mut connection)
        .await?;
    connection.close().await?;
    Ok(f64::from(u32::try_from(bytes / (1 << 20))?) * f64::from(1 << 20))
}

/// One run that was carried to its end, and one that nobody took up.
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
    // The last digits tell the copies of one template from those of another.
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
