//! What the API promises beside what each call does: what is served, repeated calls, pages, and fields
//! that are filled.

use anyhow::{Context, Result, ensure};
use futures::stream;
use prost::Message;
use prost_types::FileDescriptorSet;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write;
use surety_common::domain::identity::{Role, rule_of};
use surety_common::wire::FILE_DESCRIPTOR_SET;
use surety_common::wire::client::channel;
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::server_info_service_client::ServerInfoServiceClient;
use surety_e2e::harness::{self, Deployment, Process};
use surety_e2e::script::{self, Trail, noop, plan, shell, step};
use tempfile::NamedTempFile;
use tonic::{Code, Request, Status};

fn processes(deployment: &Deployment) -> impl Iterator<Item = &Process> {
    deployment.executors.iter().take(1).chain([&deployment.planner, &deployment.gate])
}

async fn info(process: &Process, token: &Token) -> Result<v1::GetServerInfoResponse> {
    let mut client = ServerInfoServiceClient::new(channel(&process.url(), Some(token))?);
    let answer = client.get_server_info(v1::GetServerInfoRequest::default()).await;
    Ok(answer?.into_inner())
}

/// Every call of the API, as `surety.v1.RunService/GetRun`.
fn calls() -> Result<Vec<String>> {
    let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET)?;
    let services = files.file.iter().filter(|file| file.package() == "surety.v1");
    let services = services.flat_map(|file| &file.service);
    let calls = services.flat_map(|service| {
        let name = service.name().to_owned();
        service.method.iter().map(move |call| format!("surety.v1.{name}/{}", call.name()))
    });
    Ok(calls.collect())
}

fn secret(role: Role) -> String {
    format!("{role}-0123456789abcdef0123456789abcdef")
}

/// A token file with an identity for each role.
fn token_file() -> Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    for role in Role::ALL {
        writeln!(file, "{} {role} {role} *", secret(role))?;
    }
    Ok(file)
}

/// A token of a role that may make the call.
fn token_for(call: &str) -> Result<Token> {
    let rule = rule_of(&format!("/{call}")).with_context(|| format!("no rule for {call}"))?;
    let role = rule.grants.first().context("a rule with a role")?.role;
    Ok(Token::new(&secret(role))?)
}

/// The error of a call with an empty request; none when it succeeds.
async fn outcome(process: &Process, call: &str) -> Result<Option<Status>> {
    let mut client = tonic::client::Grpc::new(channel(&process.url(), Some(&token_for(call)?))?);
    client.ready().await?;
    let path = format!("/{call}").parse()?;
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    let request = Request::new(stream::iter([()]));
    let ended = match client.streaming(request, path, codec).await {
        Ok(answer) => answer.into_inner().message().await.err(),
        Err(status) => Some(status),
    };
    Ok(ended)
}

#[tokio::test]
async fn every_call_is_served_or_declared_as_not_served() -> Result<()> {
    let file = token_file()?;
    let path = file.path().to_string_lossy().into_owned();
    let mut deployment = Deployment::start_with(&[("SURETY_TOKEN_FILE", &path)]).await?;
    let viewer = Token::new(&secret(Role::Viewer))?;
    deployment.use_token(viewer.clone());
    let mut asked = BTreeSet::new();
    for process in processes(&deployment) {
        let info = info(process, &viewer).await?;
        for call in calls()? {
            let (service, name) = call.split_once('/').context("a service and a call")?;
            if !info.services.iter().any(|served| served == service) {
                continue;
            }
            let ended = outcome(process, &call).await?;
            let refused = ended.as_ref().is_some_and(|status| status.code() == Code::Unimplemented);
            let declared = info.not_served.contains(&call);
            ensure!(refused == declared, "{call}: declared {declared}, answered {ended:?}");
            if let Some(status) = ended.filter(|_| refused) {
                assert_eq!(from_status(&status).reason.as_str(), "unimplemented");
                assert!(status.message().contains(name), "{status:?}");
            }
            asked.insert(call);
        }
    }
    assert_eq!(asked.into_iter().collect::<Vec<_>>(), {
        let mut all = calls()?;
        all.sort();
        all
    });
    deployment.finish().await
}

#[tokio::test]
async fn each_service_says_what_it_is() -> Result<()> {
    let deployment = Deployment::start().await?;
    let mut names = Vec::new();
    for process in processes(&deployment) {
        let info = info(process, &harness::token()?).await?;
        assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(info.drivers, [v1::Driver::Script, v1::Driver::Remote].map(i32::from));
        // Only the executor starts commands; its level is that of the machine.
        let (level, none) = (info.sandbox(), v1::SandboxLevel::None);
        assert!(level == none || info.service == "executor", "{info:?}");
        assert_eq!(level == v1::SandboxLevel::Partial, !info.sandbox_missing.is_empty());
        assert!(!info.stateless && info.schema_version.is_some_and(|version| version > 0));
        assert!(info.features.contains(&"request_id".to_owned()), "{info:?}");
        assert!(info.namespace_policy_keys.contains(&"four_eyes".to_owned()), "{info:?}");
        assert!(info.limits.iter().any(|limit| limit.name == "step_deadline"), "{info:?}");
        assert!(info.limits.iter().any(|limit| limit.name == "token_budget"), "{info:?}");
        names.push(info.service);
    }
    assert_eq!(names, ["executor", "planner", "acceptgate"]);
    deployment.finish().await
}

/// A run that waits for a plan, and so stays as it is until a call moves it.
async fn resting(deployment: &Deployment) -> Result<v1::Run> {
    let goal = v1::CreateRunRequest { goal: "rest".to_owned(), ..Default::default() };
    deployment.create_run(goal).await
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> Result<(Code, String)> {
    let status = answer.err().context("it was not refused")?;
    Ok((status.code(), from_status(&status).reason.as_str().to_owned()))
}

#[tokio::test]
async fn a_repeated_call_changes_nothing_and_is_answered_as_the_first_one() -> Result<()> {
    let deployment = Deployment::start().await?;
    let run = resting(&deployment).await?;
    let mut runs = deployment.runs()?;
    let pause = |reason: &str| v1::PauseRunRequest {
        run_id: run.id.clone(),
        reason: reason.to_owned(),
        request_id: "pause-1".to_owned(),
        ..Default::default()
    };
    let first = runs.pause_run(pause("lunch")).await?.into_inner();
    let resume = v1::ResumeRunRequest { run_id: run.id.clone(), ..Default::default() };
    let resumed = runs.resume_run(resume).await?.into_inner().run.context("a run")?;
    let again = futures::future::try_join_all((0..6).map(|_| {
        let (mut runs, pause) = (runs.clone(), pause("lunch"));
        async move { runs.pause_run(pause).await }
    }));
    for again in again.await? {
        assert_eq!(again.into_inner(), first, "the first outcome");
    }
    assert_eq!(deployment.run(&run.id).await?.version, resumed.version, "nothing changed");
    let other = refusal(runs.pause_run(pause("dinner")).await)?;
    assert_eq!(other, (Code::AlreadyExists, "request_id_conflict".to_owned()));
    let cancel = v1::CancelRunRequest {
        run_id: run.id.clone(),
        request_id: "pause-1".to_owned(),
        ..Default::default()
    };
    assert_eq!(refusal(runs.cancel_run(cancel).await)?.1, "request_id_conflict");
    deployment.finish().await
}

#[tokio::test]
async fn a_repeated_plan_and_a_repeated_answer_are_taken_once() -> Result<()> {
    let deployment = Deployment::start().await?;
    let run = resting(&deployment).await?;
    let submit = v1::SubmitPlanRequest {
        run_id: run.id.clone(),
        plan_source: Some(v1::submit_plan_request::PlanSource::PlanText(
            plan(&[step("only", &[], &[noop()])]).to_string(),
        )),
        request_id: "plan-1".to_owned(),
        expected_version: Some(run.version),
        ..Default::default()
    };
    let mut plans = deployment.plans()?;
    let first = plans.submit_plan(submit.clone()).await?.into_inner();
    assert_eq!(first.run.as_ref().map(|run| run.plan_revision), Some(1));
    let ended = deployment.wait_for_end(&run.id).await?;
    assert_eq!(ended.state(), v1::RunState::Done, "{ended:#?}");
    assert_eq!(plans.submit_plan(submit).await?.into_inner(), first);
    assert_eq!(deployment.run(&run.id).await?.version, ended.version);
    deployment.finish().await
}

#[tokio::test]
async fn a_call_that_expects_another_version_is_refused() -> Result<()> {
    let deployment = Deployment::start().await?;
    let run = resting(&deployment).await?;
    let stale = Some(run.version + 1);
    let run_id = || run.id.clone();
    let mut runs = deployment.runs()?;
    let pause =
        v1::PauseRunRequest { run_id: run_id(), expected_version: stale, ..Default::default() };
    let cancel =
        v1::CancelRunRequest { run_id: run_id(), expected_version: stale, ..Default::default() };
    let resume =
        v1::ResumeRunRequest { run_id: run_id(), expected_version: stale, ..Default::default() };
    let replan = v1::RequestReplanRequest {
        run_id: run_id(),
        reason: "no".to_owned(),
        expected_version: stale,
        ..Default::default()
    };
    let refused = [
        refusal(runs.pause_run(pause).await)?,
        refusal(runs.cancel_run(cancel).await)?,
        refusal(runs.resume_run(resume).await)?,
        refusal(deployment.plans()?.request_replan(replan).await)?,
    ];
    for refused in refused {
        assert_eq!(refused, (Code::Aborted, "version_conflict".to_owned()));
    }
    let current = v1::CancelRunRequest {
        run_id: run_id(),
        expected_version: Some(run.version),
        ..Default::default()
    };
    runs.cancel_run(current).await?;
    deployment.finish().await
}

async fn output(
    deployment: &Deployment,
    run_id: &str,
    call_id: &str,
    (offset, length): (u64, u64),
) -> Result<(Vec<u8>, u64)> {
    let (run_id, call_id) = (run_id.to_owned(), call_id.to_owned());
    let request = v1::GetOutputRequest { run_id, call_id, offset, length };
    let mut parts = deployment.runs()?.get_output(request).await?.into_inner();
    let (mut bytes, mut total) = (Vec::new(), 0);
    while let Some(part) = parts.message().await? {
        ensure!(part.offset == offset + u64::try_from(bytes.len())?, "a gap at {}", part.offset);
        bytes.extend(part.data);
        total = part.total_bytes;
    }
    Ok((bytes, total))
}

#[tokio::test]
async fn receipts_turns_and_outputs_are_read_whole_a_page_at_a_time() -> Result<()> {
    let deployment = Deployment::start().await?;
    let mut calls: Vec<_> = (0..4).map(|_| noop()).collect();
    calls.push(shell("printf small"));
    calls.push(shell("yes 0123456789 | head -c 700000"));
    let run = deployment.create(&plan(&[step("only", &[], &calls)]), "").await?;
    deployment.wait_for_end(&run.id).await?;
    let full = v1::GetRunRequest { run_id: run.id.clone(), view: v1::RunView::Full.into() };
    let full = deployment.runs()?.get_run(full).await?.into_inner();
    let (mut receipts, mut turns) = (Vec::new(), Vec::new());
    let mut wanted =
        v1::ListReceiptsRequest { run_id: run.id.clone(), page_size: 2, ..Default::default() };
    loop {
        let page = deployment.runs()?.list_receipts(wanted.clone()).await?.into_inner();
        ensure!(page.receipts.len() <= 2, "{} on a page of 2", page.receipts.len());
        receipts.extend(page.receipts);
        wanted.page_token = page.next_page_token;
        if wanted.page_token.is_empty() {
            break;
        }
    }
    let mut wanted =
        v1::ListTurnsRequest { run_id: run.id.clone(), page_size: 3, ..Default::default() };
    loop {
        let page = deployment.runs()?.list_turns(wanted.clone()).await?.into_inner();
        turns.extend(page.turns);
        wanted.page_token = page.next_page_token;
        if wanted.page_token.is_empty() {
            break;
        }
    }
    assert_eq!((receipts, turns), (full.receipts.clone(), full.turns));
    let large = full.receipts.iter().rfind(|one| one.name == "run_command").context("a command")?;
    let whole = output(&deployment, &run.id, &large.call_id, (0, 0)).await?;
    assert_eq!((whole.0.len(), whole.1), (700_000, 700_000));
    let part = output(&deployment, &run.id, &large.call_id, (300_000, 400_000)).await?;
    assert_eq!(part.0, whole.0[300_000..]);
    let middle = output(&deployment, &run.id, &large.call_id, (11, 5)).await?;
    assert_eq!(middle, (b"01234".to_vec(), 700_000));
    let behind = output(&deployment, &run.id, &large.call_id, (800_000, 0)).await?;
    assert_eq!(behind, (Vec::new(), 700_000));
    let small = full.receipts.iter().find(|one| one.name == "run_command").context("a command")?;
    let small = output(&deployment, &run.id, &small.call_id, (1, 3)).await?;
    assert_eq!(small, (b"mal".to_vec(), 5));
    let none = v1::GetOutputRequest {
        run_id: run.id.clone(),
        call_id: "none".to_owned(),
        ..Default::default()
    };
    let refused = deployment.runs()?.get_output(none).await.map(drop);
    assert_eq!(refusal(refused)?, (Code::NotFound, "artifact_not_found".to_owned()));
    let bad = v1::ListTurnsRequest { run_id: run.id, page_token: "x".into(), ..Default::default() };
    assert_eq!(refusal(deployment.runs()?.list_turns(bad).await)?.1, "page_token_invalid");
    deployment.finish().await
}

#[tokio::test]
async fn every_field_that_is_documented_is_filled() -> Result<()> {
    let trail = Trail::new()?;
    let deployment = Deployment::start().await?;
    let steps = [
        step("first", &[], &[noop()]),
        step("second", &["first"], &[shell(&trail.mark_and_wait("second"))]),
        step("third", &["second"], &[shell("exit 3")]),
    ];
    let mut order = script::request(&plan(&steps), "");
    order.limits = Some(v1::Limits { max_replans: Some(0), ..v1::Limits::default() });
    let run = deployment.create_run(order).await?;
    let runs_second =
        |run: &v1::Run| run.steps.get(1).is_some_and(|step| step.state() == v1::StepState::Running);
    let run = deployment.wait_for(&run.id, "at its second step", runs_second).await?;
    assert_eq!(run.steps[1].lease, run.lease, "who works on the step");
    assert!(run.lease.is_some() && run.steps[0].lease.is_none());
    let seconds = |at: Option<prost_types::Timestamp>| at.map(|at| (at.seconds, at.nanos));
    let first = &run.steps[0];
    assert!(seconds(first.started_at) <= seconds(first.finished_at), "{run:#?}");
    assert!(run.steps[0].finished_at.is_some() && run.steps[1].finished_at.is_none());
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.steps[2].state(), v1::StepState::Failed, "{run:#?}");
    assert!(run.steps[2].reason.contains("exit code 3"), "{run:#?}");
    assert!(run.steps[2].finished_at.is_some(), "{run:#?}");
    let limits = run.limits.context("limits")?;
    assert_eq!((limits.max_replans, limits.planning_retry), (Some(0), Some(1)), "{limits:?}");

    let run = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    let verdict = run.verdict.context("a verdict")?;
    assert_eq!(verdict.plan_digest, run.plan_digest);
    assert!(verdict.decided_at.is_some(), "{verdict:?}");
    assert!(seconds(verdict.decided_at) <= seconds(run.updated_at), "{verdict:?}");
    let asked = v1::GetVerdictRequest { run_id: run.id.clone(), plan_revision: 1 };
    let asked = deployment.gate()?.get_verdict(asked).await?.into_inner();
    assert_eq!(asked.verdict, Some(verdict));
    let turns = v1::ListTurnsRequest { run_id: run.id, ..Default::default() };
    let turns = deployment.runs()?.list_turns(turns).await?.into_inner().turns;
    let outcomes: Vec<_> = turns.iter().map(v1::Turn::outcome).collect();
    assert_eq!(outcomes, [v1::TurnOutcome::Applied, v1::TurnOutcome::StepDone]);
    deployment.finish().await
}

#[tokio::test]
async fn waits_are_paged_one_by_one_and_runs_are_found_by_how_and_when_they_ended() -> Result<()> {
    let deployment = Deployment::start().await?;
    let mut made = Vec::new();
    for _ in 0..3 {
        let run = resting(&deployment).await?;
        let pause = v1::PauseRunRequest { run_id: run.id.clone(), ..Default::default() };
        deployment.runs()?.pause_run(pause).await?;
        made.push(run);
    }
    let mut waits = Vec::new();
    let mut wanted = v1::ListWaitsRequest { page_size: 1, ..Default::default() };
    loop {
        let page = deployment.runs()?.list_waits(wanted.clone()).await?.into_inner();
        ensure!(page.waits.len() <= 1, "{} waits on a page of one", page.waits.len());
        waits.extend(page.waits);
        wanted.page_token = page.next_page_token;
        if wanted.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(waits.iter().map(|wait| &wait.id).collect::<BTreeSet<_>>().len(), 6, "{waits:#?}");
    assert!(waits.iter().all(|wait| wait.expires_at.is_some()), "{waits:#?}");
    let only = v1::ListWaitsRequest {
        waiting_on: vec![v1::WaitingOn::Operator.into()],
        page_size: 2,
        ..Default::default()
    };
    let page = deployment.runs()?.list_waits(only).await?.into_inner();
    assert_eq!(page.waits.len(), 2);
    assert!(page.waits.iter().all(|wait| wait.waiting_on() == v1::WaitingOn::Operator));
    let cancel = v1::CancelRunRequest { run_id: made[1].id.clone(), ..Default::default() };
    deployment.runs()?.cancel_run(cancel).await?;
    let listed = |request: v1::ListRunsRequest| async {
        let page = deployment.runs()?.list_runs(request).await?.into_inner();
        anyhow::Ok(page.runs.into_iter().map(|run| run.id).collect::<Vec<_>>())
    };
    let stop_reasons = vec![v1::StopReason::Cancelled.into()];
    let cancelled = v1::ListRunsRequest { stop_reasons, ..Default::default() };
    assert_eq!(listed(cancelled).await?, [made[1].id.clone()]);
    let later = v1::ListRunsRequest { created_from: made[1].created_at, ..Default::default() };
    assert_eq!(listed(later).await?, [made[2].id.clone(), made[1].id.clone()]);
    let before = v1::ListRunsRequest { created_before: made[1].created_at, ..Default::default() };
    assert_eq!(listed(before).await?, [made[0].id.clone()]);
    let none = v1::ListRunsRequest { stop_reasons: vec![999], ..Default::default() };
    assert_eq!(refusal(deployment.runs()?.list_runs(none).await)?.1, "type_mismatch");
    deployment.finish().await
}

#[tokio::test]
async fn a_turn_says_that_its_step_waits_failed_or_ended_the_run() -> Result<()> {
    let deployment = Deployment::start().await?;
    let unknown = json!({"name": "no_such_tool", "arguments": {}});
    let limits = v1::Limits { max_replans: Some(0), ..v1::Limits::default() };
    let order = |calls: &[serde_json::Value]| v1::CreateRunRequest {
        limits: Some(limits),
        ..script::request(&plan(&[step("only", &[], calls)]), "")
    };
    for (calls, last) in [
        (vec![shell("exit 1")], v1::TurnOutcome::Applied),
        (vec![unknown], v1::TurnOutcome::RunEnded),
    ] {
        let run = deployment.create_run(order(&calls)).await?;
        deployment.wait_for_end(&run.id).await?;
        let turns = v1::ListTurnsRequest { run_id: run.id, ..Default::default() };
        let turns = deployment.runs()?.list_turns(turns).await?.into_inner().turns;
        assert_eq!(turns.last().map(v1::Turn::outcome), Some(last), "{turns:#?}");
    }
    deployment.finish().await
}
