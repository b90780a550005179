//! The auditor itself: it passes what happened, and sees what did not.

use anyhow::Result;
use sqlx::PgPool;
use surety_common::wire::v1;
use surety_e2e::audit::audit;
use surety_e2e::harness::Deployment;
use surety_e2e::script::{noop, plan, step, write};
use uuid::Uuid;

/// Each forges one thing about the run `$1`.
const FORGERIES: [(&str, &str); 7] = [
    (
        "a missing event",
        "delete from journal where run_id = $1 and sequence =
         (select min(sequence) from journal where run_id = $1 and sequence > 4)",
    ),
    (
        "another state of a step",
        "update journal set entries = replace(entries::text, '\"running\"', '\"waiting\"')::json
         where run_id = $1",
    ),
    (
        "a receipt that says more than it did",
        "update journal set entries = replace(entries::text, 'did nothing', 'did it all')::json
         where run_id = $1",
    ),
    (
        "a receipt count that is too small",
        "update execution set progress = (progress::jsonb || '{\"receipts\": 1}')::json
         where run_id = $1",
    ),
    (
        "a turn that nobody took",
        "update execution set progress = (progress::jsonb || '{\"rounds\": 99}')::json
         where run_id = $1",
    ),
    ("a step that is not done", "update execution set step_states = 'ds' where run_id = $1"),
    ("an end without a journal", "update execution set sequence = sequence + 1 where run_id = $1"),
];

async fn forge(pool: &PgPool, statement: &'static str, run_id: Uuid) -> Result<u64> {
    Ok(sqlx::query(statement).bind(run_id).execute(pool).await?.rows_affected())
}

#[tokio::test]
async fn the_auditor_sees_every_forgery() -> Result<()> {
    let deployment = Deployment::start().await?;
    let pool = deployment.database.pool().await?;
    let steps = [step("a", &[], &[write("a.txt", "x")]), step("b", &["a"], &[noop()])];
    for (what, statement) in FORGERIES {
        let run = deployment.create(&plan(&steps), "").await?;
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
        let run_id = Uuid::parse_str(&run.id)?;
        audit(&pool, run_id).await?;
        assert!(forge(&pool, statement, run_id).await? > 0, "{what} changed nothing");
        assert!(audit(&pool, run_id).await.is_err(), "{what} went unseen");
    }
    deployment.database.drop().await
}
