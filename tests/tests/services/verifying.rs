//! A run that waits for the gate can be ended, paused and released, and one that cannot be
//! evaluated does not block others.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_common::wire::value::whole_seconds;
use surety_e2e::harness::{Deployment, wait_for_yes, wait_until};
use surety_e2e::script::{self, Trail, noop, plan, shell, step, write};
use tokio::net::TcpListener;

/// One executor with one slot, and one place for a run that waits for the gate.
const ONE_SLOT: [(&str, &str); 1] = [("SURETY_EXECUTOR_SLOTS", "1")];

/// What ends the wait of a run for a gate that is away.
#[derive(Debug, Clone, Copy)]
enum By {
    Cancel,
    Pause,
    Deadline,
}

/// Two runs wait for an unavailable gate, so no slot is free until the first has ended.
async fn a_wait_ends(by: By) -> Result<()> {
    let mut deployment = Deployment::start_with(&ONE_SLOT).await?;
    let rows = deployment.database.pool().await?;
    deployment.gate.kill().await?;
    let trail = Trail::new()?;
    let quick = plan(&[step("only", &[], &[noop()])]);
    let mut request = script::request(&quick, "");
    if matches!(by, By::Deadline) {
        let limits = v1::Limits { run_deadline: Some(whole_seconds(5)), ..Default::default() };
        request.limits = Some(limits);
    }
    let first = deployment.create_run(request).await?;
    let verifying = |run: &v1::Run| run.state() == v1::RunState::Verifying;
    deployment.wait_for(&first.id, "being verified", verifying).await?;
    deployment.create(&quick, "").await?;
    wait_for_yes(&rows, "select count(*) = 2 from execution where state = 'VERIFYING'").await?;
    let marking = plan(&[step("only", &[], &[shell(&trail.mark("other"))])]);
    let other = deployment.create(&marking, "").await?;

    let (run_id, reason) = (first.id.clone(), String::new());
    match by {
        By::Cancel => {
            deployment
                .runs()?
                .cancel_run(v1::CancelRunRequest { run_id, reason, ..Default::default() })
                .await?;
        }
        By::Pause => {
            deployment
                .runs()?
                .pause_run(v1::PauseRunRequest { run_id, reason, ..Default::default() })
                .await?;
        }
        By::Deadline => {}
    }
    wait_until("there was room for the other", || trail.marks("other") == 1).await?;
    let ended = |run: &v1::Run| match by {
        By::Cancel => run.state() == v1::RunState::Cancelled,
        By::Pause => run.state() == v1::RunState::Blocked,
        By::Deadline => run.state() == v1::RunState::Failed,
    };
    deployment.wait_for(&first.id, "ended or at rest", ended).await?;
    deployment.start_gate_with(&[]).await?;
    deployment.wait_for_end(&other.id).await?;
    rows.close().await;
    deployment.finish().await
}

#[tokio::test]
async fn a_cancelled_run_waits_for_no_gate() -> Result<()> {
    a_wait_ends(By::Cancel).await
}

#[tokio::test]
async fn a_run_is_paused_although_its_gate_is_away() -> Result<()> {
    a_wait_ends(By::Pause).await
}

#[tokio::test]
async fn a_run_whose_time_is_over_waits_for_no_gate() -> Result<()> {
    a_wait_ends(By::Deadline).await
}

#[tokio::test]
async fn a_run_that_the_gate_cannot_judge_is_left_to_the_operator_and_judged_once_resumed()
-> Result<()> {
    let mut deployment = Deployment::start_with(&ONE_SLOT).await?;
    let rows = deployment.database.pool().await?;
    deployment.gate.kill().await?;
    let quick = plan(&[step("only", &[], &[noop()])]);
    let run = deployment.create(&quick, "").await?;
    wait_for_yes(&rows, "select count(*) = 1 from execution where state = 'VERIFYING'").await?;
    let kept = "create table kept as select * from journal";
    sqlx::query(kept).execute(&rows).await?;
    sqlx::query("update journal set entries = 'no journal'").execute(&rows).await?;
    deployment.start_gate_with(&[]).await?;

    wait_for_yes(&rows, "select count(*) = 1 from execution where state = 'BLOCKED'").await?;
    let held = "select lease_owner is null and ready_at is null from execution";
    assert!(sqlx::query_scalar::<_, bool>(held).fetch_one(&rows).await?, "it is not leased");
    let mended = "update journal set entries = kept.entries from kept
                  where journal.run_id = kept.run_id and journal.sequence = kept.sequence";
    sqlx::query(mended).execute(&rows).await?;
    let blocked = deployment.run(&run.id).await?.blocked.context("it says what it waits for")?;
    assert_eq!(blocked.waiting_on(), v1::WaitingOn::Operator);
    assert_eq!(blocked.returns_to(), v1::RunState::Verifying);
    assert!(blocked.unblocks.contains("ResumeRun"), "{blocked:#?}");
    assert!(blocked.unblocks.contains("internal: "), "the code is named: {blocked:#?}");

    let request = v1::ResumeRunRequest {
        run_id: run.id.clone(),
        reason: "mended".to_owned(),
        ..Default::default()
    };
    deployment.runs()?.resume_run(request).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    rows.close().await;
    deployment.finish().await
}

#[tokio::test]
async fn a_drain_does_not_wait_for_a_verdict_under_way() -> Result<()> {
    let probed = TcpListener::bind("127.0.0.1:0").await?;
    let address = probed.local_addr()?.to_string();
    let mut deployment = Deployment::start_with(&[("SURETY_GATE_PROBE_ALLOW", &address)]).await?;
    let rows = deployment.database.pool().await?;
    let mut plan = plan(&[step("only", &[], &[noop()])]);
    plan["verify"] = json!([{"kind": "http_probe", "target": format!("http://{address}/")}]);
    let run = deployment.create(&plan, "").await?;
    // The probe is sent and never answered.
    let (_asked, _) = probed.accept().await?;
    deployment.first_executor()?.stop().await?;
    // There is no verdict yet: the probe was still running when the drain was over.
    let handed_back = "select lease_owner is null and ready_at is not null
                              and state = 'VERIFYING' from execution";
    assert!(sqlx::query_scalar::<_, bool>(handed_back).fetch_one(&rows).await?);
    let request = v1::CancelRunRequest {
        run_id: run.id.clone(),
        reason: String::new(),
        ..Default::default()
    };
    deployment.runs()?.cancel_run(request).await?;
    deployment.wait_for_end(&run.id).await?;
    rows.close().await;
    deployment.finish().await
}

/// The code by which the gate refuses to decide over a run.
async fn refusal(deployment: &Deployment, run_id: &str, lease_epoch: u64) -> Result<String> {
    let request = v1::EvaluateRunRequest { run_id: run_id.to_owned(), lease_epoch };
    let status = deployment.internal()?.evaluate_run(request).await.err().context("it decided")?;
    Ok(from_status(&status).reason.as_str().to_owned())
}

fn repairs(run: &v1::Run) -> u32 {
    run.counters.as_ref().map_or(0, |counters| counters.repairs)
}

/// A check's command that waits for leave in each of its rounds, fails the first and holds the second.
/// With `-n`, as a step runs it, it does nothing and succeeds.
fn slow_check(trail: &Trail) -> Result<String> {
    let (file, marks) = (trail.path("check.sh"), trail.path("round"));
    let (folder, marks) = (trail.path("").display().to_string(), marks.display().to_string());
    let script = format!(
        "[ \"$1\" = -n ] && exit 0\necho round >> '{marks}'\nn=$(($(wc -l < '{marks}')))\n\
         while [ -d '{folder}' ] && [ ! -e '{folder}/go'$n ]; do sleep 0.02; done\n[ $n -ge 2 ]\n"
    );
    std::fs::write(&file, script)?;
    Ok(format!("sh {}", file.display()))
}

#[tokio::test]
async fn no_direct_call_decides_before_the_runner_has_observed_or_spends_a_repair() -> Result<()> {
    let (deployment, trail) = (Deployment::start().await?, Trail::new()?);
    let check = slow_check(&trail)?;
    let argv: Vec<&str> = check.split(' ').chain(["-n"]).collect();
    let lie = json!({"name": "run_command", "arguments": {"argv": argv}});
    let mut plan = plan(&[step("only", &[], &[shell(&trail.mark_and_wait("step")), lie])]);
    plan["verify"] =
        json!([{"id": "tests", "kind": "command_success", "target": check, "owner": "plan"}]);
    let run_id = deployment.create(&plan, "").await?.id;

    wait_until("the step runs", || trail.marks("step") == 1).await?;
    for epoch in [0, 1] {
        assert_eq!(refusal(&deployment, &run_id, epoch).await?, "run_not_verifying");
    }
    trail.let_go()?;
    for round in 1..=2 {
        wait_until("the runner verifies", || trail.marks("round") == round).await?;
        let run = deployment.run(&run_id).await?;
        let epoch = run.lease.as_ref().context("it is leased")?.epoch;
        for epoch in [0, epoch] {
            assert_eq!(refusal(&deployment, &run_id, epoch).await?, "observation_incomplete");
        }
        assert_eq!(refusal(&deployment, &run_id, epoch + 1).await?, "lease_lost");
        let run = deployment.run(&run_id).await?;
        assert_eq!(run.state(), v1::RunState::Verifying, "{run:#?}");
        assert_eq!(usize::try_from(repairs(&run))?, round - 1, "{run:#?}");
        std::fs::write(trail.path(&format!("go{round}")), "")?;
    }
    let run = deployment.wait_for_end(&run_id).await?;
    assert_eq!((run.state(), repairs(&run)), (v1::RunState::Done, 1), "{run:#?}");
    deployment.finish().await
}

/// Ends a run that writes a library with a test of its own, under a plan with these checks.
async fn end_with_library(deployment: &Deployment, test: &str, verify: Value) -> Result<v1::Run> {
    let workspace = tempfile::tempdir()?;
    let manifest =
        "[package]\nname = \"it\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    std::fs::write(workspace.path().join("Cargo.toml"), manifest)?;
    end_in(deployment, workspace.path(), &format!("#[test]\nfn it() {{ {test} }}\n"), verify).await
}

async fn end_in(
    deployment: &Deployment,
    workspace: &Path,
    library: &str,
    verify: Value,
) -> Result<v1::Run> {
    let mut plan = plan(&[step("writes", &[], &[write("src/lib.rs", library)])]);
    plan["verify"] = verify;
    let mut request = script::request(&plan, &workspace.display().to_string());
    request.limits = Some(v1::Limits { max_repairs: Some(0), ..Default::default() });
    let run = deployment.create_run(request).await?;
    deployment.wait_for_end(&run.id).await
}

/// The result of the project's own tests: whether they passed, and the reason.
fn project_tests(run: &v1::Run) -> Option<(bool, &str)> {
    let results = &run.verdict.as_ref()?.results;
    let result = results.iter().find(|result| result.name == "system.project_tests")?;
    assert!(!result.optional, "{result:?}");
    Some((result.passed, &result.reason))
}

#[tokio::test]
async fn a_run_that_writes_and_names_no_command_is_held_to_the_projects_own_tests() -> Result<()> {
    let deployment = Deployment::start().await?;
    let nothing = || json!([{"kind": "output_only", "owner": "plan"}]);
    let broken = end_with_library(&deployment, "assert!(false)", nothing()).await?;
    assert_eq!(broken.state(), v1::RunState::Failed, "{broken:#?}");
    let terminal = broken.terminal.as_ref().context("it says why")?;
    assert_eq!(terminal.stop_reason(), v1::StopReason::AcceptCheckFailed);
    assert!(terminal.user_message.contains("system.project_tests"), "{terminal:?}");
    assert_eq!(project_tests(&broken), Some((false, "project_tests_failed")));

    // A check that decides nothing does not take their place.
    let optional = json!([{"kind": "command_success", "target": "true", "required": false}]);
    let broken = end_with_library(&deployment, "assert!(false)", optional).await?;
    assert_eq!(project_tests(&broken), Some((false, "project_tests_failed")), "{broken:#?}");

    let good = end_with_library(&deployment, "assert!(true)", nothing()).await?;
    assert_eq!(good.state(), v1::RunState::Done, "{good:#?}");
    assert_eq!(project_tests(&good), Some((true, "")));

    // None are found: that is in the runner's receipt, and no result.
    let workspace = tempfile::tempdir()?;
    let skipped = end_in(&deployment, workspace.path(), "", nothing()).await?;
    assert_eq!(skipped.state(), v1::RunState::Done, "{skipped:#?}");
    assert_eq!(project_tests(&skipped), None);
    deployment.finish().await
}
