//! A defect in the work on a run: that run ends with a reason, its lease is released, and the
//! process continues with the others.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use surety_common::wire::v1;
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{noop, plan, request, shell, step};

/// Says more than the journal holds: such an output has places of its own.
const MUCH: &str = "head -c 40000 /dev/zero";

/// Makes an executor with one slot panic once, in the work on a run of this plan, and continue.
async fn goes_on_after_a_panic(point: &str, plan_of_one: &Value) -> Result<()> {
    let mut deployment = Deployment::start_idle(Database::create().await?, &[]).await?;
    let armed = [("SURETY_PANIC_POINT", point), ("SURETY_EXECUTOR_SLOTS", "1")];
    deployment.add_executor(&armed).await?;
    let workspace = tempfile::tempdir()?;
    let folder = workspace.path().to_string_lossy();
    let run = deployment.create_run(request(plan_of_one, &folder)).await?;
    let run = deployment.wait_for_end(&run.id).await.with_context(|| point.to_owned())?;
    let terminal = run.terminal.clone().unwrap_or_default();
    assert_eq!(terminal.stop_reason(), v1::StopReason::InternalError, "{point}: {run:#?}");
    assert!(run.lease.is_none(), "{point}: {run:#?}");
    let other = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
    let other = deployment.wait_for_end(&other.id).await.context("its slot is lost")?;
    assert_eq!(other.state(), v1::RunState::Done, "{point}: {other:#?}");
    let executor = deployment.first_executor()?;
    assert!(!executor.has_ended()?, "{point}: the process ended");
    let panicked = |line: &&String| line.contains("the work on a run panicked");
    assert_eq!(executor.log().iter().filter(panicked).count(), 1, "{point}");
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test]
async fn a_defect_in_a_step_ends_its_run_and_nothing_else() -> Result<()> {
    let writes = plan(&[step("only", &[], &[shell("true")])]);
    goes_on_after_a_panic("executor.after_intent", &writes).await
}

#[tokio::test]
async fn a_defect_outside_a_step_ends_its_run_and_nothing_else() -> Result<()> {
    let mut looks = plan(&[step("only", &[], &[noop()])]);
    // The steps say little, so the first large output is that of the check.
    looks["verify"] = json!([{"kind": "command_success", "target": MUCH}]);
    goes_on_after_a_panic("executor.before_output", &looks).await
}
