//! Bad input, each with a code of its own, over gRPC.

use anyhow::{Context, Result};
use serde_json::json;
use surety_common::domain::json::sha256_hex;
use surety_common::wire::client::channel;
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::executor_service_client::ExecutorServiceClient;
use surety_common::wire::v1::planner_service_client::PlannerServiceClient;
use surety_common::wire::value::whole_seconds;
use surety_e2e::agent;
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{noop, plan, request, step};
use tonic::{Code, Status};

/// The gRPC code, our reason, and the field of a refusal.
fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> Result<(Code, String, String)> {
    let status = answer.err().context("it was not refused")?;
    let fault = from_status(&status);
    let field = fault.field.unwrap_or_default();
    Ok((status.code(), fault.reason.as_str().to_owned(), field))
}

fn good() -> serde_json::Value {
    plan(&[step("only", &[], &[noop()])])
}

fn labelled(labels: Vec<(String, String)>) -> v1::CreateRunRequest {
    v1::CreateRunRequest { labels: labels.into_iter().collect(), ..request(&good(), "") }
}

#[tokio::test]
async fn each_bad_order_is_refused_with_its_code_and_makes_no_run() -> Result<()> {
    let deployment = Deployment::start().await?;
    let cycle = plan(&[step("a", &["b"], &[noop()]), step("b", &["a"], &[noop()])]);
    let limits = |limits| v1::CreateRunRequest { limits: Some(limits), ..request(&good(), "") };
    let policy = |policy| v1::CreateRunRequest { policy: Some(policy), ..request(&good(), "") };
    let cases = [
        (request(&cycle, ""), "dependency_cycle", None),
        (request(&plan(&[step("a", &["z"], &[noop()])]), ""), "unknown_dependency", None),
        (request(&plan(&[]), ""), "steps_empty", None),
        (request(&good(), "some/folder"), "type_mismatch", Some("workspace")),
        (v1::CreateRunRequest::default(), "field_missing", Some("goal")),
        (
            limits(v1::Limits { max_replans: Some(11), ..v1::Limits::default() }),
            "limit_out_of_range",
            Some("limits.max_replans"),
        ),
        (
            limits(v1::Limits { run_deadline: Some(whole_seconds(0)), ..v1::Limits::default() }),
            "limit_out_of_range",
            Some("limits.run_deadline"),
        ),
        (
            limits(v1::Limits { token_budget: Some(0), ..v1::Limits::default() }),
            "limit_out_of_range",
            Some("limits.token_budget"),
        ),
        (
            limits(v1::Limits { confirm_ttl: Some(whole_seconds(0)), ..v1::Limits::default() }),
            "limit_out_of_range",
            Some("limits.confirm_ttl"),
        ),
        (
            policy(v1::Policy { on_budget: 77, ..v1::Policy::default() }),
            "type_mismatch",
            Some("policy.on_budget"),
        ),
        (
            policy(v1::Policy { confirm_tools: vec!["no op".into()], ..v1::Policy::default() }),
            "type_mismatch",
            Some("policy.confirm_tools[0]"),
        ),
        (
            v1::CreateRunRequest { request_id: "r".repeat(201), ..request(&good(), "") },
            "too_large",
            Some("request_id"),
        ),
        (
            v1::CreateRunRequest { driver: 99, ..request(&good(), "") },
            "type_mismatch",
            Some("driver"),
        ),
    ];
    for (request, code, field) in cases {
        let answer = deployment.runs()?.create_run(request).await;
        let (class, reason, at) = refusal(answer).with_context(|| code.to_owned())?;
        assert_eq!((class, reason.as_str()), (Code::InvalidArgument, code));
        if let Some(field) = field {
            assert_eq!(at, field, "{code}");
        }
    }
    let answer = deployment.runs()?.create_run(request(&cycle, "")).await;
    let message = answer.err().context("a cycle was taken")?.message().to_owned();
    assert!(message.contains('a') && message.contains("->"), "no cycle named: {message}");
    let listed = deployment.runs()?.list_runs(v1::ListRunsRequest::default()).await?;
    assert!(listed.into_inner().runs.is_empty());
    deployment.finish().await
}

#[tokio::test]
async fn a_text_that_cannot_be_stored_is_refused_by_its_name() -> Result<()> {
    let deployment = Deployment::start().await?;
    let in_namespace =
        |name: &str| v1::CreateRunRequest { namespace: name.into(), ..request(&good(), "") };
    let cases = [
        (in_namespace(&"n".repeat(201)), "too_large", "namespace"),
        (request(&good(), &format!("/{}", "w".repeat(4096))), "too_large", "workspace"),
        (labelled(vec![("l".repeat(201), String::new())]), "too_large", "labels"),
        (labelled(vec![("l".into(), "v".repeat(2001))]), "too_large", "labels.l"),
        (
            labelled((0..65).map(|n| (format!("l{n}"), String::new())).collect()),
            "too_large",
            "labels",
        ),
        (in_namespace("a\0b"), "type_mismatch", "namespace"),
        (in_namespace("*"), "type_mismatch", "namespace"),
        (in_namespace("a,b"), "type_mismatch", "namespace"),
        (in_namespace("default\u{200b}"), "type_mismatch", "namespace"),
        (
            v1::CreateRunRequest { request_id: "a\0b".into(), ..request(&good(), "") },
            "type_mismatch",
            "request_id",
        ),
        (
            v1::CreateRunRequest { goal: "a\0b".into(), ..request(&good(), "") },
            "type_mismatch",
            "goal",
        ),
        (request(&good(), "/a\0b"), "type_mismatch", "workspace"),
        (labelled(vec![("l".into(), "a\0b".into())]), "type_mismatch", "labels.l"),
    ];
    for (request, code, field) in cases {
        let answer = deployment.runs()?.create_run(request).await;
        let (class, reason, at) = refusal(answer).with_context(|| field.to_owned())?;
        assert_eq!((class, reason.as_str(), at.as_str()), (Code::InvalidArgument, code, field));
    }
    let namespace = "a\0b".to_owned();
    let list = v1::ListRunsRequest { namespace: namespace.clone(), ..Default::default() };
    let waits = v1::ListWaitsRequest { namespace, ..Default::default() };
    let mut runs = deployment.runs()?;
    for refused in [refusal(runs.list_runs(list).await)?, refusal(runs.list_waits(waits).await)?] {
        assert_eq!((refused.1.as_str(), refused.2.as_str()), ("type_mismatch", "namespace"));
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_text_beyond_its_bound_is_refused_with_its_size() -> Result<()> {
    let tokens = agent::token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let environment = [("SURETY_TOKEN_FILE", path.as_str())];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&agent::secret(agent::PERSON))?);
    deployment.add_executor(&[]).await?;
    let goal = |bytes| v1::CreateRunRequest { goal: "g".repeat(bytes), ..request(&good(), "") };
    let planned = |key: &str, bytes| {
        let mut plan = good();
        plan[key] = "p".repeat(bytes).into();
        request(&plan, "")
    };
    let of_step = plan(&[step(&"s".repeat(201), &[], &[noop()])]);
    let large = v1::PlanStep {
        id: "s".to_owned(),
        description: "d".repeat(2 << 20),
        ..v1::PlanStep::default()
    };
    let large = v1::Plan { title: "t".to_owned(), steps: vec![large], ..v1::Plan::default() };
    let large = v1::CreateRunRequest {
        plan_source: Some(v1::create_run_request::PlanSource::Plan(large)),
        driver: v1::Driver::Remote.into(),
        ..v1::CreateRunRequest::default()
    };
    for (request, field, words) in [
        (goal((64 << 10) + 1), "goal", "is 65537 bytes long, longer than 65536 bytes"),
        (planned("goal", (64 << 10) + 1), "goal", "is 65537 bytes long"),
        (planned("title", 2001), "title", "is 2001 bytes long, longer than 2000 bytes"),
        (request(&of_step, ""), "steps[0].id", "is 201 bytes long, longer than 200 bytes"),
        (large, "plan", "longer than 2097152 bytes"),
    ] {
        let answer = deployment.runs()?.create_run(request).await;
        let message = answer.as_ref().err().map(|status| status.message().to_owned());
        let (class, reason, at) = refusal(answer).with_context(|| field.to_owned())?;
        let expected = (Code::InvalidArgument, "too_large", field);
        assert_eq!((class, reason.as_str(), at.as_str()), expected);
        assert!(message.is_some_and(|message| message.contains(words)), "{field}");
    }
    let run = deployment.create_run(goal(64 << 10)).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.goal.len(), 64 << 10);
    // It waits for a plan.
    let run = deployment.create_run(v1::CreateRunRequest {
        goal: "a goal".to_owned(),
        driver: v1::Driver::Remote.into(),
        ..v1::CreateRunRequest::default()
    });
    let run = run.await?;
    for (reason, code) in [("r".repeat(2001), "too_large"), ("a\0b".to_owned(), "type_mismatch")] {
        let refused = reasons(&mut deployment, &run.id, &reason).await?;
        let expected = (Code::InvalidArgument, code.to_owned(), "reason".to_owned());
        assert_eq!(refused, vec![expected; 7]);
    }
    let reason = format!(" {}\n", "r".repeat(2000));
    let cancel = v1::CancelRunRequest { run_id: run.id.clone(), reason, ..Default::default() };
    deployment.runs()?.cancel_run(cancel).await?;
    deployment.finish().await
}

/// What each call with a reason refuses it with.
async fn reasons(
    deployment: &mut Deployment,
    id: &str,
    reason: &str,
) -> Result<Vec<(Code, String, String)>> {
    let (mut runs, mut plans) = (deployment.runs()?, deployment.plans()?);
    let (run_id, reason) = (id.to_owned(), reason.to_owned());
    let cancel = v1::CancelRunRequest {
        run_id: run_id.clone(),
        reason: reason.clone(),
        ..v1::CancelRunRequest::default()
    };
    let pause = v1::PauseRunRequest {
        run_id: run_id.clone(),
        reason: reason.clone(),
        ..v1::PauseRunRequest::default()
    };
    let resume = v1::ResumeRunRequest {
        run_id: run_id.clone(),
        reason: reason.clone(),
        ..v1::ResumeRunRequest::default()
    };
    let replan = v1::RequestReplanRequest {
        run_id: run_id.clone(),
        reason: reason.clone(),
        ..v1::RequestReplanRequest::default()
    };
    let submit = v1::SubmitPlanRequest {
        run_id,
        plan_source: Some(v1::submit_plan_request::PlanSource::PlanText(good().to_string())),
        reason: reason.clone(),
        ..v1::SubmitPlanRequest::default()
    };
    let driver = Token::new(&agent::secret(agent::AGENT))?;
    let to_planner = channel(&deployment.planner.url(), Some(&driver))?;
    let to_executor = channel(&deployment.first_executor()?.url(), Some(&driver))?;
    let of_plan = v1::ReleasePlanRequest { fence: None, reason: reason.clone() };
    let of_step = v1::ReleaseStepRequest { fence: None, reason };
    Ok(vec![
        refusal(runs.cancel_run(cancel).await)?,
        refusal(runs.pause_run(pause).await)?,
        refusal(runs.resume_run(resume).await)?,
        refusal(plans.request_replan(replan).await)?,
        refusal(plans.submit_plan(submit).await)?,
        refusal(PlannerServiceClient::new(to_planner).release_plan(of_plan).await)?,
        refusal(ExecutorServiceClient::new(to_executor).release_step(of_step).await)?,
    ])
}

/// Letters without a pattern, which no index makes shorter.
fn incompressible(bytes: usize) -> String {
    let mut text = String::new();
    while text.len() < bytes {
        text.push_str(&sha256_hex(text.as_bytes()));
    }
    text.truncate(bytes);
    text
}

#[tokio::test]
async fn a_namespace_that_no_index_holds_is_the_callers_fault_and_the_longest_one_works()
-> Result<()> {
    let deployment = Deployment::start().await?;
    let order = |bytes| v1::CreateRunRequest {
        namespace: incompressible(bytes),
        request_id: incompressible(200),
        ..request(&good(), "")
    };
    let answer = deployment.runs()?.create_run(order(3000)).await;
    let (class, reason, field) = refusal(answer)?;
    assert_eq!((class, reason.as_str()), (Code::InvalidArgument, "too_large"));
    assert_eq!(field, "namespace");
    let run = deployment.create_run(order(200)).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test]
async fn an_invalid_id_and_an_unknown_one_have_different_codes_in_every_call() -> Result<()> {
    let deployment = Deployment::start().await?;
    let (wrong, strange) = ("no-uuid", "0199f4d0-0000-7000-8000-000000000001");
    for (id, class, reason) in
        [(wrong, Code::InvalidArgument, "invalid_id"), (strange, Code::NotFound, "run_not_found")]
    {
        let run_id = || id.to_owned();
        let mut runs = deployment.runs()?;
        let get = runs.get_run(v1::GetRunRequest { run_id: run_id(), view: 0 }).await;
        let cancel = runs
            .cancel_run(v1::CancelRunRequest {
                run_id: run_id(),
                reason: String::new(),
                ..Default::default()
            })
            .await;
        let watch = v1::WatchRunRequest {
            run_id: run_id(),
            from_sequence: 1,
            follow: true,
            progress: false,
        };
        let watch = runs.watch_run(watch).await;
        let mut gate = deployment.gate()?;
        let evaluate = v1::EvaluateRunRequest { run_id: run_id(), lease_epoch: 0 };
        let evaluate = deployment.internal()?.evaluate_run(evaluate).await;
        let verdict = v1::GetVerdictRequest { run_id: run_id(), plan_revision: 0 };
        let verdict = gate.get_verdict(verdict).await;
        let mut plans = deployment.plans()?;
        let submit = v1::SubmitPlanRequest {
            run_id: run_id(),
            plan_source: Some(v1::submit_plan_request::PlanSource::PlanText(good().to_string())),
            ..v1::SubmitPlanRequest::default()
        };
        let submit = plans.submit_plan(submit).await;
        let refusals = [
            refusal(get)?,
            refusal(cancel)?,
            refusal(watch.map(|_| ()))?,
            refusal(evaluate)?,
            refusal(verdict)?,
            refusal(submit)?,
        ];
        for (found_class, found, _) in refusals {
            assert_eq!((found_class, found.as_str()), (class, reason), "{id}");
        }
    }
    let answer = |wait_id: &str| v1::AnswerQuestionRequest {
        wait_id: wait_id.to_owned(),
        answer: "yes".to_owned(),
        ..Default::default()
    };
    let mut runs = deployment.runs()?;
    assert_eq!(refusal(runs.answer_question(answer(wrong)).await)?.1, "invalid_id");
    assert_eq!(refusal(runs.answer_question(answer(strange)).await)?.1, "wait_not_found");
    deployment.finish().await
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_by_its_name_and_the_service_goes_on() -> Result<()> {
    let small = [("SURETY_MAX_MESSAGE_BYTES", "2097152")];
    let deployment = Deployment::start_with(&small).await?;
    let big = v1::CreateRunRequest { goal: "g".repeat(3 << 20), ..request(&good(), "") };
    let (class, reason, _) = refusal(deployment.runs()?.create_run(big).await)?;
    assert_eq!((class, reason.as_str()), (Code::ResourceExhausted, "message_too_large"));
    let run = deployment.create(&good(), "").await?;
    deployment.wait_for_end(&run.id).await?;
    deployment.finish().await
}

#[tokio::test]
async fn the_same_request_makes_one_run_and_another_under_its_id_is_refused() -> Result<()> {
    let deployment = Deployment::start().await?;
    let order = |goal: &str| v1::CreateRunRequest {
        request_id: "order-7".to_owned(),
        goal: goal.to_owned(),
        ..request(&good(), "")
    };
    let mut runs = deployment.runs()?;
    let first = runs.create_run(order("one")).await?.into_inner();
    let clients = (0..8).map(|_| {
        let mut runs = runs.clone();
        let order = order("one");
        async move { runs.create_run(order).await }
    });
    for again in futures::future::try_join_all(clients).await? {
        let again = again.into_inner();
        assert!(again.existed && !first.existed);
        assert_eq!(again.run.map(|run| run.id), first.run.as_ref().map(|run| run.id.clone()));
    }
    let (class, reason, field) = refusal(runs.create_run(order("two")).await)?;
    let expected = (Code::AlreadyExists, "request_id_conflict", "request_id");
    assert_eq!((class, reason.as_str(), field.as_str()), expected);
    // In another namespace the id is free.
    let elsewhere = v1::CreateRunRequest { namespace: "other".to_owned(), ..order("two") };
    assert!(!runs.create_run(elsewhere).await?.into_inner().existed);
    for run in runs.list_runs(v1::ListRunsRequest::default()).await?.into_inner().runs {
        deployment.wait_for_end(&run.id).await?;
    }
    deployment.finish().await
}

#[tokio::test]
async fn what_comes_after_the_end_does_not_change_it() -> Result<()> {
    let deployment = Deployment::start().await?;
    let run = deployment.create(&good(), "").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    let cancel = v1::CancelRunRequest {
        run_id: run.id.clone(),
        reason: "late".to_owned(),
        ..Default::default()
    };
    let (class, reason, _) = refusal(deployment.runs()?.cancel_run(cancel).await)?;
    assert_eq!((class, reason.as_str()), (Code::FailedPrecondition, "run_terminal"));
    let submit = v1::SubmitPlanRequest {
        run_id: run.id.clone(),
        expected_revision: 1,
        plan_source: Some(v1::submit_plan_request::PlanSource::PlanText(good().to_string())),
        ..v1::SubmitPlanRequest::default()
    };
    let (class, reason, _) = refusal(deployment.plans()?.submit_plan(submit).await)?;
    assert_eq!((class, reason.as_str()), (Code::FailedPrecondition, "run_terminal"));
    assert_eq!(deployment.run(&run.id).await?.version, run.version);
    deployment.finish().await
}

#[tokio::test]
async fn a_model_without_an_endpoint_is_refused_with_a_code() -> Result<()> {
    let deployment = Deployment::start().await?;
    let driver = v1::Driver::Model.into();
    let driven = v1::CreateRunRequest { driver, ..request(&good(), "") };
    let (class, reason, field) = refusal(deployment.runs()?.create_run(driven).await)?;
    let expected = (Code::Unimplemented, "feature_not_served", "driver");
    assert_eq!((class, reason.as_str(), field.as_str()), expected);
    deployment.finish().await
}

#[tokio::test]
async fn a_run_without_a_plan_waits_for_one_and_goes_on_with_it() -> Result<()> {
    let deployment = Deployment::start().await?;
    let order = v1::CreateRunRequest { goal: "rest".to_owned(), ..Default::default() };
    let run = deployment.create_run(order).await?;
    assert_eq!(run.state(), v1::RunState::Blocked);
    let blocked = run.blocked.context("a blocked run says what it waits for")?;
    assert_eq!(blocked.waiting_on(), v1::WaitingOn::Model);
    assert!(blocked.unblocks.contains("SubmitPlan"), "{}", blocked.unblocks);
    let submit = |text: String| v1::SubmitPlanRequest {
        run_id: run.id.clone(),
        plan_source: Some(v1::submit_plan_request::PlanSource::PlanText(text)),
        ..v1::SubmitPlanRequest::default()
    };
    let mut plans = deployment.plans()?;
    let bad = json!({"title": "t", "steps": []}).to_string();
    assert_eq!(refusal(plans.submit_plan(submit(bad)).await)?.1, "steps_empty");
    plans.submit_plan(submit(good().to_string())).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish().await
}
