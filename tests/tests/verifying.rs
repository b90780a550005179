//! What a run is spared while it waits for the gate: it can be ended, paused and handed back, and one
//! that cannot be judged keeps nobody else from being worked on.

use anyhow::{Context, Result};
use serde_json::json;
use surety_common::wire::v1;
use surety_common::wire::value::whole_seconds;
use surety_e2e::harness::{Deployment, wait_for_yes, wait_until};
use surety_e2e::script::{self, Trail, noop, plan, shell, step};
use tokio::net::TcpListener;

/// One executor that works on one run at a time, and has one place aside.
const ONE_SLOT: [(&str, &str); 1] = [("SURETY_EXECUTOR_SLOTS", "1")];

/// What ends the wait of a run for a gate that is away.
#[derive(Debug, Clone, Copy)]
enum By {
    Cancel,
    Pause,
    Deadline,
}

/// Two runs wait for a gate that is away, so there is room for no other until the first is ended.
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
            deployment.runs()?.cancel_run(v1::CancelRunRequest { run_id, reason }).await?;
        }
        By::Pause => {
            deployment.runs()?.pause_run(v1::PauseRunRequest { run_id, reason }).await?;
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
    assert!(sqlx::query_scalar::<_, bool>(held).fetch_one(&rows).await?, "it is held by nobody");
    let mended = "update journal set entries = kept.entries from kept
                  where journal.run_id = kept.run_id and journal.sequence = kept.sequence";
    sqlx::query(mended).execute(&rows).await?;
    let blocked = deployment.run(&run.id).await?.blocked.context("it says what it waits for")?;
    assert_eq!(blocked.waiting_on(), v1::WaitingOn::Operator);
    assert_eq!(blocked.returns_to(), v1::RunState::Verifying);
    assert!(blocked.unblocks.contains("ResumeRun"), "{blocked:#?}");
    assert!(blocked.unblocks.contains("internal: "), "the code is named: {blocked:#?}");

    let request = v1::ResumeRunRequest { run_id: run.id.clone(), reason: "mended".to_owned() };
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
    // It is asked, and never answers.
    let (_asked, _) = probed.accept().await?;
    deployment.first_executor()?.stop().await?;
    // No verdict is there yet: the probe was not given up before the drain was over.
    let handed_back = "select lease_owner is null and ready_at is not null
                              and state = 'VERIFYING' from execution";
    assert!(sqlx::query_scalar::<_, bool>(handed_back).fetch_one(&rows).await?);
    let request = v1::CancelRunRequest { run_id: run.id.clone(), reason: String::new() };
    deployment.runs()?.cancel_run(request).await?;
    deployment.wait_for_end(&run.id).await?;
    rows.close().await;
    deployment.finish().await
}
