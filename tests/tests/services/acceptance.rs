//! A verdict in doubt waits for a person, and goes on with what that person says.

use anyhow::{Context, Result};
use serde_json::json;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use surety_common::wire::client::channel;
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::admin_service_client::AdminServiceClient;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use surety_e2e::harness::{Deployment, PATIENCE};
use surety_e2e::script::{plan, request, step, write};
use tempfile::TempDir;
use tonic::Status;

/// A product that says 5, and a test that asks for 4.
const TEST: &str = "grep -q 4 answer.txt\n";
const CHANGED: &str = "grep -q 5 answer.txt\n";

/// A workspace whose test the run changes to fit its answer.
fn workspace() -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("tests"))?;
    std::fs::write(folder.path().join("tests/t.sh"), TEST)?;
    Ok(folder)
}

fn order(workspace: &Path, test: &str) -> v1::CreateRunRequest {
    let calls = [write("answer.txt", "5\n"), write("tests/t.sh", test)];
    let check = v1::AcceptCheck {
        id: "tests".to_owned(),
        kind: "command_success".to_owned(),
        target: "sh tests/t.sh".to_owned(),
        ..v1::AcceptCheck::default()
    };
    let limits = v1::Limits { max_repairs: Some(0), ..v1::Limits::default() };
    let text = plan(&[step("work", &[], &calls)]);
    v1::CreateRunRequest {
        verify: vec![check],
        interactive: true,
        limits: Some(limits),
        ..request(&text, &workspace.display().to_string())
    }
}

/// The wait of a run whose verdict is in doubt.
async fn asked(deployment: &Deployment, run: &v1::Run) -> Result<v1::Wait> {
    let at_rest = |run: &v1::Run| run.blocked.is_some() || run.terminal.is_some();
    deployment.wait_for(&run.id, "asking", at_rest).await?;
    let request = v1::ListWaitsRequest { run_id: run.id.clone(), ..Default::default() };
    let waits = deployment.runs()?.list_waits(request).await?.into_inner().waits;
    waits.into_iter().next().context("a wait")
}

fn answer(wait: &v1::Wait, answer: v1::ConfirmationAnswer) -> v1::ResolveConfirmationRequest {
    v1::ResolveConfirmationRequest {
        wait_id: wait.id.clone(),
        answer: answer.into(),
        call_digest: wait.call_digest.clone(),
        ..Default::default()
    }
}

fn code<T: std::fmt::Debug>(answer: Result<T, Status>) -> Result<String> {
    Ok(from_status(&answer.err().context("it was answered")?).reason.as_str().to_ascii_lowercase())
}

const APPROVE: v1::ConfirmationAnswer = v1::ConfirmationAnswer::Approve;
const DENY: v1::ConfirmationAnswer = v1::ConfirmationAnswer::Deny;

#[tokio::test]
async fn an_approved_test_change_is_accepted_and_the_verdict_names_who_approved_what() -> Result<()>
{
    let deployment = Deployment::start().await?;
    let folder = workspace()?;
    let run = deployment.create_run(order(folder.path(), CHANGED)).await?;
    let wait = asked(&deployment, &run).await?;
    assert_eq!(wait.kind(), v1::WaitKind::Acceptance, "{wait:#?}");
    let acceptance = wait.acceptance.clone().context("what is asked")?;
    let codes: Vec<_> = acceptance.cautions.iter().map(|it| it.code.as_str()).collect();
    assert_eq!(codes, ["check_inputs_changed"]);
    let blocked = deployment.run(&run.id).await?;
    assert_eq!((blocked.lease, blocked.verdict), (None, None), "no lease, and no verdict yet");

    let mut runs = deployment.runs()?;
    let other =
        v1::ResolveConfirmationRequest { call_digest: "0".repeat(64), ..answer(&wait, APPROVE) };
    assert_eq!(code(runs.resolve_confirmation(other).await)?, "confirmation_mismatch");
    let none = answer(&wait, v1::ConfirmationAnswer::Unspecified);
    assert_eq!(code(runs.resolve_confirmation(none).await)?, "field_missing");
    let early =
        v1::ResolveConfirmationRequest { expected_version: Some(1), ..answer(&wait, APPROVE) };
    assert_eq!(code(runs.resolve_confirmation(early).await)?, "version_conflict");

    let said = deployment.command_line(&["waits"]).await?;
    assert!(said.contains(&wait.call_digest) && said.contains("surety approve"), "{said}");
    let said = deployment
        .command_line(&["approve", &run.id, "--digest", &wait.call_digest, "--comment", "right"])
        .await?;
    for part in ["-grep -q 4 answer.txt", "+grep -q 5 answer.txt", "approved; run"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let ended = deployment.wait_for_end(&run.id).await?;
    assert_eq!(ended.state(), v1::RunState::Done, "{ended:#?}");
    let verdict = ended.verdict.context("a verdict")?;
    assert_eq!(verdict.round, 2);
    assert_eq!(verdict.approvals.first().map(|it| &it.digest), Some(&wait.call_digest));
    let list =
        v1::ListReceiptsRequest { run_id: run.id.clone(), page_size: 100, ..Default::default() };
    let receipts = runs.list_receipts(list).await?.into_inner().receipts;
    let own: Vec<_> =
        receipts.iter().filter(|it| it.source() == v1::EvidenceSource::Approval).collect();
    assert_eq!(own.len(), 1);
    assert!(own[0].success && own[0].summary.contains("approved"), "{own:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn a_denied_one_is_refused_with_the_caution_and_the_first_answer_counts() -> Result<()> {
    let deployment = Deployment::start().await?;
    let folder = workspace()?;
    let run = deployment.create_run(order(folder.path(), CHANGED)).await?;
    let wait = asked(&deployment, &run).await?;
    let mut runs = deployment.runs()?;
    let denial = v1::ResolveConfirmationRequest {
        request_id: "deny-1".to_owned(),
        comment: "the test was right".to_owned(),
        ..answer(&wait, DENY)
    };
    let first = runs.resolve_confirmation(denial.clone()).await?.into_inner();
    let again = runs.resolve_confirmation(denial).await?.into_inner();
    assert_eq!(first, again, "the first answer");
    let late = runs.resolve_confirmation(answer(&wait, APPROVE)).await;
    assert!(["wait_closed", "wait_not_found"].contains(&code(late)?.as_str()));
    let ended = deployment.wait_for_end(&run.id).await?;
    assert_eq!(ended.state(), v1::RunState::Failed, "{ended:#?}");
    let verdict = ended.verdict.context("a verdict")?;
    let own = verdict.results.into_iter().find(|it| it.name == "tests");
    let reason = own.context("the check")?.reason;
    assert!(reason.starts_with("check_inputs_changed: changed tests/t.sh (test)"), "{reason}");
    assert!(reason.contains("denied by") && reason.contains("the test was right"), "{reason}");
    deployment.finish().await
}

#[tokio::test]
async fn an_approval_is_void_once_the_workspace_is_another() -> Result<()> {
    let deployment = Deployment::start().await?;
    let folder = workspace()?;
    let run = deployment.create_run(order(folder.path(), CHANGED)).await?;
    let wait = asked(&deployment, &run).await?;
    std::fs::write(folder.path().join("tests/t.sh"), "exit 0\n")?;
    deployment.runs()?.resolve_confirmation(answer(&wait, APPROVE)).await?;
    let again = |run: &v1::Run| {
        run.terminal.is_some() || run.blocked.as_ref().is_some_and(|it| it.wait_id != wait.id)
    };
    let run = deployment.wait_for(&run.id, "asking again", again).await?;
    let blocked = run.blocked.context("it asks again")?;
    assert!(blocked.question.starts_with("approval_void: "), "{blocked:#?}");
    // What is left is what was asked about at first: the approval counts again.
    std::fs::write(folder.path().join("tests/t.sh"), TEST)?;
    std::fs::write(folder.path().join("answer.txt"), "4\n")?;
    let list = v1::ListWaitsRequest { run_id: run.id.clone(), ..Default::default() };
    let wait = deployment.runs()?.list_waits(list).await?.into_inner().waits.remove(0);
    deployment.runs()?.resolve_confirmation(answer(&wait, APPROVE)).await?;
    let ended = deployment.wait_for_end(&run.id).await?;
    assert_eq!(ended.state(), v1::RunState::Done, "the original test holds: {ended:#?}");
    assert!(ended.verdict.context("a verdict")?.approvals.is_empty());
    deployment.finish().await
}

#[tokio::test]
async fn a_difference_that_cannot_be_shown_is_denied_or_nothing() -> Result<()> {
    let deployment = Deployment::start().await?;
    let folder = workspace()?;
    std::fs::write(folder.path().join("tests/data.bin"), b"\0\x01")?;
    let calls = json!({"name": "run_command", "arguments": {"argv": [
        "sh", "-c", "printf '\\000\\002' > tests/data.bin; echo 5 > answer.txt; echo 'grep -q 5 answer.txt' > tests/t.sh"
    ]}});
    let mut order = order(folder.path(), CHANGED);
    let text = plan(&[step("work", &[], &[calls])]).to_string();
    order.plan_source = Some(v1::create_run_request::PlanSource::PlanText(text));
    let run = deployment.create_run(order).await?;
    let wait = asked(&deployment, &run).await?;
    let not_shown = wait.acceptance.clone().context("what is asked")?.not_shown;
    assert!(not_shown.contains("tests/data.bin is binary"), "{not_shown}");
    let mut runs = deployment.runs()?;
    let refused = runs.resolve_confirmation(answer(&wait, APPROVE)).await;
    assert_eq!(code(refused)?, "difference_not_shown");
    runs.resolve_confirmation(answer(&wait, DENY)).await?;
    let ended = deployment.wait_for_end(&run.id).await?;
    assert_eq!(ended.state(), v1::RunState::Failed);
    deployment.finish().await
}

fn secret(name: &str) -> String {
    format!("{name}-0123456789abcdef0123456789abcdef")
}

#[tokio::test]
async fn under_four_eyes_the_creator_is_refused_and_another_approver_is_not() -> Result<()> {
    let mut file = tempfile::NamedTempFile::new()?;
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600))?;
    for (name, roles) in [
        ("alice", "viewer,submitter,operator,approver"),
        ("bob", "viewer,approver"),
        ("carol", "viewer,submitter,operator"),
        ("robot", "driver"),
        ("hand", "worker"),
        ("engine", "service"),
    ] {
        writeln!(file, "{} {name} {roles} *", secret(name))?;
    }
    let path = file.path().to_string_lossy().into_owned();
    let mut deployment = Deployment::start_with(&[("SURETY_TOKEN_FILE", &path)]).await?;
    deployment.use_token(Token::new(&secret("alice"))?);
    let url = deployment.planner.url();
    let alice = Token::new(&secret("alice"))?;
    let policy = v1::NamespacePolicy { four_eyes: true, ..v1::NamespacePolicy::default() };
    let set = v1::SetNamespacePolicyRequest {
        namespace: "default".to_owned(),
        policy: Some(policy),
        ..Default::default()
    };
    let folder = workspace()?;
    let run = deployment.create_run(order(folder.path(), CHANGED)).await?;
    let wait = asked(&deployment, &run).await?;
    AdminServiceClient::new(channel(&url, Some(&alice))?).set_namespace_policy(set).await?;
    // A policy holds from one second later on. Until then the creator is told that the digest is another one.
    let deadline = std::time::Instant::now() + PATIENCE;
    let other =
        || v1::ResolveConfirmationRequest { call_digest: "0".repeat(64), ..answer(&wait, APPROVE) };
    let mut as_creator = RunServiceClient::new(channel(&url, Some(&alice))?);
    while code(as_creator.resolve_confirmation(other()).await)? != "permission_denied" {
        anyhow::ensure!(std::time::Instant::now() < deadline, "the policy does not hold");
    }
    for name in ["alice", "carol", "robot", "hand"] {
        let token = Token::new(&secret(name))?;
        let mut runs = RunServiceClient::new(channel(&url, Some(&token))?);
        let refused = runs.resolve_confirmation(answer(&wait, APPROVE)).await;
        assert_eq!(code(refused)?, "permission_denied", "{name}");
    }
    let bob = Token::new(&secret("bob"))?;
    let mut runs = RunServiceClient::new(channel(&url, Some(&bob))?);
    runs.resolve_confirmation(answer(&wait, APPROVE)).await?;
    let ended = deployment.wait_for_end(&run.id).await?;
    assert_eq!(ended.state(), v1::RunState::Done, "{ended:#?}");
    let by = ended.verdict.context("a verdict")?.approvals.remove(0).by;
    assert_eq!(by, "bob");
    deployment.finish().await
}

#[tokio::test]
async fn without_a_person_it_is_refused_and_a_policy_may_allow_it_or_name_more() -> Result<()> {
    let deployment = Deployment::start().await?;
    let with = |in_doubt: v1::InDoubt, refuse_on: &[&str], folder: &TempDir| {
        let refuse_on = refuse_on.iter().map(|code| (*code).to_owned()).collect();
        let policy = v1::Policy { in_doubt: in_doubt.into(), refuse_on, ..Default::default() };
        let order = order(folder.path(), CHANGED);
        v1::CreateRunRequest { policy: Some(policy), interactive: false, ..order }
    };
    for (in_doubt, state) in [
        (v1::InDoubt::Unspecified, v1::RunState::Failed),
        (v1::InDoubt::Refuse, v1::RunState::Failed),
        (v1::InDoubt::Allow, v1::RunState::Done),
    ] {
        let folder = workspace()?;
        let run = deployment.create_run(with(in_doubt, &[], &folder)).await?;
        let ended = deployment.wait_for_end(&run.id).await?;
        assert_eq!(ended.state(), state, "{in_doubt:?}: {ended:#?}");
        let verdict = ended.verdict.context("a verdict")?;
        assert!(verdict.cautions.iter().any(|it| it.code == "check_inputs_changed"));
    }
    let folder = workspace()?;
    let unknown = with(v1::InDoubt::Ask, &["flakey"], &folder);
    let refused =
        from_status(&deployment.runs()?.create_run(unknown).await.err().context("refused")?);
    assert_eq!(refused.field.as_deref(), Some("policy.refuse_on[0]"), "{refused:?}");
    deployment.finish().await
}

#[tokio::test]
async fn no_killed_service_loses_a_wait_or_its_answer() -> Result<()> {
    for point in ["gate.before_verdict", "gate.after_verdict"] {
        let mut deployment = Deployment::start().await?;
        deployment.replace_gate_with(&[("SURETY_CRASH_POINT", point)]).await?;
        let folder = workspace()?;
        let run = deployment.create_run(order(folder.path(), CHANGED)).await?;
        deployment.gate.wait_for_exit().await?;
        deployment.start_gate_with(&[]).await?;
        let wait = asked(&deployment, &run).await?;
        assert!(wait.acceptance.is_some(), "{point}: {wait:#?}");

        // The executor and the planner die while it waits, and the planner once more on each side of the answer.
        deployment.first_executor()?.kill().await?;
        for point in ["planner.before_submit", "planner.after_submit"] {
            deployment.replace_planner_with(&[("SURETY_CRASH_POINT", point)]).await?;
            let request_id = "approve-1".to_owned();
            let approval = v1::ResolveConfirmationRequest { request_id, ..answer(&wait, APPROVE) };
            assert!(deployment.runs()?.resolve_confirmation(approval).await.is_err(), "{point}");
            deployment.planner.wait_for_exit().await?;
        }
        deployment.replace_planner().await?;
        let request_id = "approve-1".to_owned();
        let approval = v1::ResolveConfirmationRequest { request_id, ..answer(&wait, APPROVE) };
        deployment.runs()?.resolve_confirmation(approval).await?;
        deployment.add_executor(&[]).await?;
        let ended = deployment.wait_for_end(&run.id).await?;
        assert_eq!(ended.state(), v1::RunState::Done, "{point}: {ended:#?}");
        assert_eq!(ended.verdict.context("a verdict")?.approvals.len(), 1);
        deployment.finish().await?;
    }
    Ok(())
}
