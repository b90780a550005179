//! Rows that a superuser rewrites so that they do not read: every reader says where the evidence is broken, and shows the
//! rest.

use super::rewritten_evidence::{signatures, verified};
use super::signed_evidence::{Files, accepted, start, verify};
use anyhow::{Context, Result, ensure};
use sqlx::PgPool;
use surety_common::wire::v1;
use surety_e2e::harness::Deployment;
use surety_e2e::timestamp_authority::TimestampAuthority;
use uuid::Uuid;

/// How a row is rewritten, and what is said of it.
const REWRITTEN: [(&str, &str); 11] = [
    (
        "update journal set signature = '\\xdead' where run_id = $1 and sequence = \
         (select min(sequence) from journal where run_id = $1)",
        "its signature is in no known form",
    ),
    ("update journal set entries = left(entries, 40) where run_id = $1", "its entries do not read"),
    (
        "update execution set progress = '[]' where run_id = $1",
        "execution.progress: it does not read",
    ),
    (
        "update execution set updated_at = 'infinity' where run_id = $1",
        "execution.updated_at: it does not read",
    ),
    (
        "update execution set wait = '{\"zz\":1}', wait_ids = '{}' where run_id = $1",
        "execution.wait: it does not read",
    ),
    (
        "update execution set progress = jsonb_set(progress::jsonb, '{finished}', (progress::jsonb -> 'finished') \
         || (progress::jsonb -> 'finished'))::json where run_id = $1",
        "execution.progress: it does not read",
    ),
    ("update run set labels = '[1]' where id = $1", "run.labels: it does not read"),
    ("update plan set body = '[]' where run_id = $1", "plan.body"),
    ("update run set policy = '[]' where id = $1", "run.policy"),
    ("update journal set at = 'infinity' where run_id = $1", "journal row"),
    ("update verdict set decided_at = 'infinity' where run_id = $1", "verdict on plan revision 1"),
];
const TABLES: [&str; 5] = ["run", "plan", "journal", "verdict", "execution"];

/// Runs a statement as the owner of the database can, without its triggers.
async fn execute(pool: &PgPool, statements: &[String], run_id: Uuid) -> Result<()> {
    let mut transaction = pool.begin().await?;
    sqlx::query("set local session_replication_role = replica").execute(&mut *transaction).await?;
    for statement in statements {
        let statement = sqlx::AssertSqlSafe(statement.clone());
        let done = sqlx::query(statement).bind(run_id).execute(&mut *transaction).await?;
        ensure!(done.rows_affected() > 0, "no row was changed");
    }
    Ok(transaction.commit().await?)
}

async fn full(deployment: &Deployment, run_id: &str) -> Result<v1::Run> {
    let request = v1::GetRunRequest { run_id: run_id.to_owned(), view: v1::RunView::Full.into() };
    let response = deployment.runs()?.get_run(request).await?.into_inner();
    response.run.context("a run")
}

#[tokio::test]
async fn a_row_that_does_not_read_is_named_by_every_reader_and_the_rest_is_shown() -> Result<()> {
    let files = Files::new()?;
    let authority = TimestampAuthority::start(&[]).await?;
    let deployment = start(&files, &authority).await?;
    let pool = deployment.database.pool().await?;
    let (run_id, _) = accepted(&deployment).await?;
    let id: Uuid = run_id.parse()?;
    let of = |table: &str| if table == "run" { "id" } else { "run_id" };
    for table in TABLES {
        let keeping = format!("create table kept_{table} as select * from {table}");
        sqlx::query(sqlx::AssertSqlSafe(keeping)).execute(&pool).await?;
    }
    let keys = files.text("trusted.json");
    let whole = full(&deployment, &run_id).await?;
    let mut named = 0;
    for (statement, words) in REWRITTEN {
        execute(&pool, &[statement.to_owned()], id).await?;
        let report = signatures(&deployment, &run_id).await?;
        ensure!(report.state() == v1::SignatureState::Broken, "{statement}: {report:#?}");
        ensure!(report.detail.contains(words), "{statement}: {report:#?}");
        ensure!(report == verified(&deployment, &run_id).await?, "{statement}: {report:#?}");
        let shown = full(&deployment, &run_id).await?;
        ensure!(
            (&shown.id, &shown.goal, shown.state) == (&whole.id, &whole.goal, whole.state),
            "{shown:#?}"
        );
        let shown = deployment.command_line(&["show", &run_id]).await?;
        ensure!(shown.contains("broken: ") && shown.contains(words), "{statement}: {shown}");
        let listed = deployment.runs()?.list_runs(v1::ListRunsRequest::default()).await?;
        let v1::ListRunsResponse { runs, unreadable_run_ids, .. } = listed.into_inner();
        ensure!(runs.len() + unreadable_run_ids.len() == 1, "{statement}: {runs:#?}");
        named += unreadable_run_ids.iter().filter(|id| **id == run_id).count();
        let lines = deployment.command_line(&["receipts", "export", &run_id]).await?;
        let file = files.path("run.ndjson");
        std::fs::write(&file, lines)?;
        let (is_good, said) = verify(&deployment, &[&file.to_string_lossy(), "--keys", &keys])?;
        ensure!(!is_good && said.contains("broken"), "{statement}: {said}");
        let mut restoring: Vec<String> =
            TABLES.map(|table| format!("delete from {table} where {} = $1", of(table))).to_vec();
        restoring.extend(TABLES.map(|table| {
            format!("insert into {table} overriding system value select * from kept_{table} where {} = $1", of(table))
        }));
        execute(&pool, &restoring, id).await?;
    }
    ensure!(named >= 5, "the list of runs named {named} rows that do not read");
    let report = signatures(&deployment, &run_id).await?;
    ensure!(report.state() == v1::SignatureState::Signed, "{report:#?}");
    deployment.finish().await
}
