//! A step's own checks are decided by probes at the end of the step.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;
use surety_common::wire::v1;
use surety_e2e::harness::Deployment;
use surety_e2e::script::{self, plan, scoped, shell, step, write};

async fn end(deployment: &Deployment, workspace: &Path, steps: &[Value]) -> Result<v1::Run> {
    let mut request = script::request(&plan(steps), &workspace.display().to_string());
    request.limits = Some(v1::Limits {
        max_repairs: Some(0),
        step_deadline: Some(prost_types::Duration { seconds: 10, nanos: 0 }),
        ..Default::default()
    });
    let run = deployment.create_run(request).await?;
    deployment.wait_for_end(&run.id).await
}

async fn receipts(deployment: &Deployment, run: &v1::Run) -> Result<Vec<v1::EvidenceReceipt>> {
    let request = v1::ListReceiptsRequest { run_id: run.id.clone(), ..Default::default() };
    Ok(deployment.runs()?.list_receipts(request).await?.into_inner().receipts)
}

fn is_probe(receipt: &&v1::EvidenceReceipt) -> bool {
    !receipt.step_id.is_empty() && receipt.source() == v1::EvidenceSource::Probe
}

fn ended_at(receipt: &v1::EvidenceReceipt) -> (i64, i32) {
    receipt.finished_at.as_ref().map_or((0, 0), |at| (at.seconds, at.nanos))
}

#[tokio::test]
async fn each_attempt_to_end_a_step_has_probes_of_its_own() -> Result<()> {
    let deployment = Deployment::start().await?;
    let workspace = tempfile::tempdir()?;
    let look = json!({"argv": ["grep", "-q", "good", "a.txt"]});
    let look = json!({"name": "run_command", "arguments": look});
    let mut one = step("one", &[], &[write("a.txt", "good"), look, write("b.txt", "later")]);
    one["verify"] = json!([
        {"kind": "command_success", "target": "grep -q good a.txt"},
        {"id": "later", "kind": "file_exists", "target": "b.txt"},
    ]);
    let run = end(&deployment, workspace.path(), &[one]).await?;
    assert_eq!(
        run.state(),
        v1::RunState::Done,
        "a write after the command does not matter: {run:#?}"
    );
    let listed = receipts(&deployment, &run).await?;
    let probes: Vec<_> = listed.iter().filter(is_probe).collect();
    let found: Vec<_> = probes
        .iter()
        .map(|probe| (probe.step_id.as_str(), probe.check_id.as_str(), probe.round, probe.success))
        .collect();
    assert_eq!(found, [("one", "command_success", 1, true), ("one", "later", 1, true)]);

    let mut wrong = step("wrong", &[], &[write("a.txt", "bad")]);
    wrong["verify"] = json!([{"kind": "command_success", "target": "grep -q good a.txt"}]);
    let run = end(&deployment, workspace.path(), &[wrong]).await?;
    let reason = run.terminal.as_ref().context("an end")?.stop_reason();
    assert_eq!(reason, v1::StopReason::MaxConsecutiveCorrections, "{run:#?}");
    let listed = receipts(&deployment, &run).await?;
    let rounds: Vec<_> = listed.iter().filter(is_probe).map(|probe| probe.round).collect();
    assert_eq!(rounds, [1, 2, 3]);
    deployment.finish().await
}

#[tokio::test]
async fn a_step_of_a_script_says_what_its_plan_says_that_it_does() -> Result<()> {
    let deployment = Deployment::start().await?;
    let workspace = tempfile::tempdir()?;
    let mut one = step("one", &[], &[write("a.txt", "good")]);
    one["verify"] = json!([{"kind": "output_only"}]);
    one["done_when"] = json!("a.txt says good");
    let run = end(&deployment, workspace.path(), &[one.clone()]).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    one["done_when"] = json!("");
    let run = end(&deployment, workspace.path(), &[one]).await?;
    let reason = run.terminal.as_ref().context("an end")?.stop_reason();
    assert_eq!(reason, v1::StopReason::MaxConsecutiveCorrections, "{run:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn what_a_steps_check_writes_is_dropped() -> Result<()> {
    let deployment = Deployment::start().await?;
    let workspace = tempfile::tempdir()?;
    let mut one = step("one", &[], &[write("a.txt", "good")]);
    one["verify"] = json!([{"kind": "command_success", "target": "cp a.txt b.txt"}]);
    let run = end(&deployment, workspace.path(), &[one]).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert!(!workspace.path().join("b.txt").exists());
    deployment.finish().await
}

#[tokio::test]
async fn probes_wait_for_the_call_of_another_step() -> Result<()> {
    let deployment = Deployment::start().await?;
    let workspace = tempfile::tempdir()?;
    let mut one = step("one", &[], &[shell("mkdir a; sleep 0.5; echo good > a/x")]);
    one["verify"] = json!([{"kind": "command_success", "target": "grep -q good a/x"}]);
    let other = step("other", &[], &[shell("mkdir b; sleep 2; echo good > b/x")]);
    let steps = [scoped(one, &["a/**"]), scoped(other, &["b/**"])];
    let run = end(&deployment, workspace.path(), &steps).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    let listed = receipts(&deployment, &run).await?;
    let probe = listed.iter().find(is_probe).context("a probe")?;
    let call = listed.iter().find(|receipt| receipt.step_id == "other").context("a call")?;
    assert!(ended_at(probe) >= ended_at(call), "{probe:#?} {call:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn probes_use_a_copy_beside_a_call_that_takes_long() -> Result<()> {
    let deployment = Deployment::start().await?;
    let workspace = tempfile::tempdir()?;
    let mut one = step("one", &[], &[shell("mkdir a; echo good > a/x")]);
    one["verify"] = json!([{"kind": "command_success", "target": "grep -q good a/x"}]);
    let other = step("other", &[], &[shell("mkdir b; sleep 8; echo good > b/x")]);
    let steps = [scoped(one, &["a/**"]), scoped(other, &["b/**"])];
    let run = end(&deployment, workspace.path(), &steps).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    let listed = receipts(&deployment, &run).await?;
    let probe = listed.iter().find(is_probe).context("a probe")?;
    let call = listed.iter().find(|receipt| receipt.step_id == "other").context("a call")?;
    assert!(ended_at(probe) < ended_at(call), "{probe:#?} {call:#?}");
    deployment.finish().await
}
