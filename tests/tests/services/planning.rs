//! Planning agents over the API: corrections of refused plans, their limits, clipped plans, changed environments,
//! and runs without planning.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use surety_common::domain::fault::Reason;
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::planner_service_client::PlannerServiceClient;
use surety_common::wire::v1::submit_plan_request::PlanSource;
use surety_e2e::agent::{AGENT, Agent, OTHER, PERSON, call, next_plan, secret, token_file};
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{plan, request};
use tempfile::NamedTempFile;
use tonic::Status;

struct Stage {
    deployment: Deployment,
    agent: Agent,
    planner: PlannerServiceClient<ServiceChannel>,
    _tokens: NamedTempFile,
}

impl Stage {
    async fn start() -> Result<Self> {
        let tokens = token_file()?;
        let path = tokens.path().to_string_lossy().into_owned();
        let mut deployment =
            Deployment::start_idle(Database::create().await?, &[("SURETY_TOKEN_FILE", &path)])
                .await?;
        deployment.use_token(Token::new(&secret(PERSON))?);
        deployment.add_executor(&[]).await?;
        let executor = deployment.executors.first().context("an executor")?;
        let agent = Agent::new(executor, AGENT, "worker-1")?;
        let token = Token::new(&secret(OTHER))?;
        let channel = channel(&deployment.planner.url(), Some(&token))?;
        let planner = PlannerServiceClient::new(channel);
        Ok(Self { deployment, agent, planner, _tokens: tokens })
    }

    /// A run that an agent drives, without a plan.
    async fn goal(&self, limits: v1::Limits) -> Result<String> {
        let request = v1::CreateRunRequest {
            goal: "look around".to_owned(),
            driver: v1::Driver::Remote.into(),
            limits: Some(limits),
            ..v1::CreateRunRequest::default()
        };
        Ok(self.deployment.create_run(request).await?.id)
    }

    async fn lease(&self, run_id: &str) -> Result<(v1::PlanLease, v1::PlanContext)> {
        let request = v1::LeasePlanRequest {
            planner_id: "planner-1".to_owned(),
            run_id: run_id.to_owned(),
            wait: Some(prost_types::Duration { seconds: 30, nanos: 0 }),
            ..v1::LeasePlanRequest::default()
        };
        let leased = self.planner.clone().lease_plan(request).await?.into_inner();
        leased.lease.zip(leased.context).context("the run needs a plan")
    }

    async fn submit(
        &self,
        lease: &v1::PlanLease,
        revision: u32,
        source: PlanSource,
    ) -> Result<v1::SubmitPlanResponse, Status> {
        let request = v1::SubmitPlanRequest {
            run_id: lease.run_id.clone(),
            expected_revision: revision,
            plan_source: Some(source),
            lease_epoch: lease.lease_epoch,
            usage: Some(v1::Usage {
                input_tokens: 3,
                output_tokens: 2,
                cost_micros: 7,
                model: "m".to_owned(),
            }),
            ..v1::SubmitPlanRequest::default()
        };
        Ok(self.planner.clone().submit_plan(request).await?.into_inner())
    }

    /// Leases the plan of a run, and submits one that is refused.
    async fn refused(&self, run_id: &str, revision: u32, source: PlanSource) -> Result<String> {
        let (lease, _) = self.lease(run_id).await?;
        let refused = refusal(self.submit(&lease, revision, source.clone()).await)?;
        let again = refusal(self.submit(&lease, revision, source).await)?;
        ensure!(again == "lease_lost" || again == "run_terminal", "the lease goes on: {again}");
        Ok(refused)
    }

    /// The usage that planning agents stated is counted once for each of so many plans, and marked as reported.
    async fn has_usage_of(&self, run_id: &str, plans: u64) -> Result<()> {
        let counters = self.deployment.run(run_id).await?.counters.context("counters")?;
        let stated = (counters.reported_tokens, counters.reported_cost_micros);
        ensure!(stated == (5 * plans, 7 * plans), "{plans} plans: {counters:#?}");
        ensure!((counters.tokens, counters.cost_micros) == stated, "{counters:#?}");
        Ok(())
    }

    async fn ended(&self, run_id: &str) -> Result<v1::StopReason> {
        let run = self.deployment.wait_for_end(run_id).await?;
        Ok(run.terminal.context("an end")?.stop_reason())
    }

    /// A run whose first step is done, and whose second one failed.
    async fn failed(&self) -> Result<String> {
        let steps = [
            json!({"id": "a", "description": "first", "evidence": "none", "tools_expected": ["glob"]}),
            json!({"id": "b", "description": "second", "dependencies": ["a"]}),
        ];
        let driver = v1::Driver::Remote.into();
        let request = v1::CreateRunRequest { driver, ..request(&plan(&steps), "") };
        let run_id = self.deployment.create_run(request).await?.id;
        let work = self.agent.work(&run_id).await?;
        self.agent.take_turns(work, &[next_plan()]).await?;
        let work = self.agent.work(&run_id).await?;
        let replan = json!({"control": "replan", "reason": "the folder is wrong"}).to_string();
        self.agent.submit(&work, &replan).await?;
        Ok(run_id)
    }

    /// Ends the open step of a run, and waits for its verdict.
    async fn finish(&self, run_id: &str) -> Result<v1::Run> {
        let look = call("glob", json!({"pattern": "*"}));
        let work = self.agent.work(run_id).await?;
        self.agent.take_turns(work, &[look, next_plan()]).await?;
        self.deployment.wait_for_end(run_id).await
    }
}

fn text(text: &str) -> PlanSource {
    PlanSource::PlanText(text.to_owned())
}

fn patch(patch: &Value) -> PlanSource {
    PlanSource::PatchText(patch.to_string())
}

/// A plan of three steps of which two fit.
fn long(last_is_needed: bool) -> PlanSource {
    let needed: &[&str] = if last_is_needed { &["c"] } else { &[] };
    text(
        &plan(&[
            json!({"id": "a", "description": "first", "dependencies": needed}),
            json!({"id": "b", "description": "second", "dependencies": ["a"]}),
            json!({"id": "c", "description": "third"}),
        ])
        .to_string(),
    )
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> Result<String> {
    let status = answer.err().context("the call was answered")?;
    Ok(match from_status(&status).reason {
        Reason::Input(code) => code.as_str().to_owned(),
        Reason::Service(code) => code.as_str().to_owned(),
    })
}

#[tokio::test]
async fn a_refused_plan_is_corrected_as_often_as_the_limit_says_and_then_the_run_ends() -> Result<()>
{
    let stage = Stage::start().await?;
    let limits = v1::Limits { planning_retry: Some(3), ..v1::Limits::default() };
    let run_id = stage.goal(limits).await?;
    // What a person sends without a lease is answered and counts as nothing.
    for _ in 0..4 {
        let request = v1::SubmitPlanRequest {
            run_id: run_id.clone(),
            plan_source: Some(text("no plan")),
            ..v1::SubmitPlanRequest::default()
        };
        let refused = refusal(stage.deployment.plans()?.submit_plan(request).await)?;
        ensure!(refused == "no_json_object", "{refused}");
    }
    for (source, code, left) in [
        (text("no plan"), "no_json_object", 3),
        // Of a run without a plan there is nothing to patch.
        (patch(&json!({"remove_steps": ["a"], "reason": "x"})), "plan_not_found", 2),
        (text("{\"title\": \"t\", \"steps\": []}"), "steps_empty", 1),
    ] {
        let refused = stage.refused(&run_id, 0, source).await?;
        ensure!(refused == code, "{refused}");
        let (lease, context) = stage.lease(&run_id).await?;
        let correction = context.correction.context("the next planner sees the error")?;
        ensure!(correction.code == code && !correction.message.is_empty(), "{correction:#?}");
        ensure!(context.attempts_left == left, "{left}: {}", context.attempts_left);
        let fence = v1::PlanFence { run_id: run_id.clone(), lease_epoch: lease.lease_epoch };
        let release = v1::ReleasePlanRequest { fence: Some(fence), reason: String::new() };
        stage.planner.clone().release_plan(release).await?;
    }
    let (lease, _) = stage.lease(&run_id).await?;
    let nothing = v1::SubmitPlanRequest {
        run_id: run_id.clone(),
        lease_epoch: lease.lease_epoch,
        ..v1::SubmitPlanRequest::default()
    };
    let refused = refusal(stage.planner.clone().submit_plan(nothing).await)?;
    ensure!(refused == "field_missing", "a call without a plan is no refused plan: {refused}");
    let refused = stage.submit(&lease, 0, text("still no plan")).await;
    let status = refused.err().context("it was taken")?;
    ensure!(status.message().contains("plan_parse_failed"), "{status:?}");
    let ended = stage.ended(&run_id).await?;
    ensure!(ended == v1::StopReason::PlanParseFailed, "{ended:?}");
    stage.has_usage_of(&run_id, 4).await?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_plan_of_an_agent_reserves_a_part_of_the_budget_and_waits_for_a_larger_one() -> Result<()>
{
    let stage = Stage::start().await?;
    let limits = v1::Limits {
        planning_retry: Some(5),
        token_budget: Some(100),
        max_turn_tokens: Some(60),
        ..v1::Limits::default()
    };
    let run_id = stage.goal(limits).await?;
    let submit = |lease_epoch, said: &str| v1::SubmitPlanRequest {
        run_id: run_id.clone(),
        plan_source: Some(text(said)),
        lease_epoch,
        ..v1::SubmitPlanRequest::default()
    };
    for (used, reserved) in [(0, 60), (60, 40)] {
        let counters = stage.deployment.run(&run_id).await?.counters.context("counters")?;
        let seen = (counters.tokens, counters.reserved_tokens);
        ensure!(seen == (used, reserved), "{counters:#?}");
        let (lease, context) = stage.lease(&run_id).await?;
        ensure!(context.turn_tokens == Some(reserved), "{context:#?}");
        ensure!(context.turn_cost_micros.is_none(), "there is no such budget: {context:#?}");
        let refused = stage.planner.clone().submit_plan(submit(lease.lease_epoch, "none")).await;
        ensure!(refusal(refused)? == "no_json_object", "the reservation is charged");
    }
    let run = stage.deployment.run(&run_id).await?;
    let wait = run.blocked.context("a wait")?;
    ensure!(wait.question.contains("token_budget (100) is used up"), "{wait:#?}");
    let request = v1::LeasePlanRequest {
        planner_id: "planner-1".to_owned(),
        run_id: run_id.clone(),
        wait: Some(prost_types::Duration::default()),
        ..v1::LeasePlanRequest::default()
    };
    let offered = stage.planner.clone().lease_plan(request).await?.into_inner();
    ensure!(offered.lease.is_none(), "a plan without a budget is offered: {offered:#?}");
    let more = v1::ExtendBudgetRequest {
        run_id: run_id.clone(),
        add_tokens: 50,
        ..v1::ExtendBudgetRequest::default()
    };
    stage.deployment.runs()?.extend_budget(more).await?;
    let (lease, context) = stage.lease(&run_id).await?;
    ensure!(context.turn_tokens == Some(50), "{context:#?}");
    ensure!(context.correction.is_some(), "why the last plan was refused is kept: {context:#?}");
    let steps = [json!({"id": "a", "description": "first"})];
    stage.submit(&lease, 0, text(&plan(&steps).to_string())).await?;
    let counters = stage.finish(&run_id).await?.counters.context("counters")?;
    ensure!(counters.reported_tokens >= 5 && counters.reserved_tokens == 0, "{counters:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_plan_that_stays_too_long_is_cut_to_its_first_steps_or_ends_the_run() -> Result<()> {
    let stage = Stage::start().await?;
    let limits = v1::Limits { max_plan_steps: Some(2), ..v1::Limits::default() };
    let run_id = stage.goal(limits).await?;
    let refused = stage.refused(&run_id, 0, long(false)).await?;
    ensure!(refused == "plan_too_long", "a shorter one is asked for first: {refused}");
    let (lease, _) = stage.lease(&run_id).await?;
    let taken = stage.submit(&lease, 0, long(false)).await?;
    let clipped: Vec<_> =
        taken.warnings.iter().filter(|warning| warning.code == "plan_clipped").collect();
    ensure!(
        clipped.len() == 1 && clipped[0].field.as_deref() == Some("c"),
        "{:#?}",
        taken.warnings
    );
    ensure!(taken.plan.is_some_and(|plan| plan.steps.len() == 2), "two steps are left");
    stage.has_usage_of(&run_id, 2).await?;
    let run_id = stage.goal(limits).await?;
    stage.refused(&run_id, 0, long(true)).await?;
    let refused = stage.refused(&run_id, 0, long(true)).await?;
    ensure!(refused == "plan_too_long", "{refused}");
    let ended = stage.ended(&run_id).await?;
    ensure!(ended == v1::StopReason::PlanParseFailed, "{ended:?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_refused_patch_is_corrected_once_and_then_a_whole_plan_or_the_end() -> Result<()> {
    let stage = Stage::start().await?;
    let broken = json!({"remove_steps": ["a"], "reason": "again"});
    let run_id = stage.failed().await?;
    let (_, context) = stage.lease(&run_id).await?;
    ensure!(context.cause() == v1::ReplanCause::StepFailed, "{context:#?}");
    ensure!(context.attempts_left == 2 && context.correction.is_none(), "{context:#?}");
    let run_id = stage.failed().await?;
    let refused = stage.refused(&run_id, 1, patch(&broken)).await?;
    ensure!(refused == "done_step_immutable", "{refused}");
    let (lease, context) = stage.lease(&run_id).await?;
    ensure!(
        context.correction.is_some_and(|problem| problem.code == "done_step_immutable"),
        "the error is shown"
    );
    // The second text is no patch; as a whole plan it goes on from what is done.
    let whole = plan(&[
        json!({"id": "a", "description": "first"}),
        json!({"id": "c", "description": "another way", "dependencies": ["a"]}),
    ]);
    let taken = stage.submit(&lease, 1, patch(&whole)).await?;
    let steps = taken.run.context("the run")?.steps;
    let states: Vec<_> = steps.iter().map(|step| (step.id.as_str(), step.state())).collect();
    ensure!(states.first() == Some(&("a", v1::StepState::Done)), "{states:?}");
    let run = stage.finish(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let run_id = stage.failed().await?;
    stage.refused(&run_id, 1, patch(&broken)).await?;
    let refused = stage.refused(&run_id, 1, patch(&broken)).await?;
    ensure!(refused == "done_step_immutable", "{refused}");
    let ended = stage.ended(&run_id).await?;
    ensure!(ended == v1::StopReason::ReplanParseFailed, "{ended:?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_planning_agent_sees_the_fixed_checks_that_are_not_hidden_and_the_tools() -> Result<()> {
    let stage = Stage::start().await?;
    let check = |id: &str, target: &str| v1::AcceptCheck {
        id: id.to_owned(),
        kind: "command_success".to_owned(),
        target: target.to_owned(),
        owner: v1::CheckOwner::User.into(),
        ..v1::AcceptCheck::default()
    };
    let overlay = [("exam.sh".to_owned(), b"true\n".to_vec())].into();
    let request = v1::CreateRunRequest {
        goal: "look around".to_owned(),
        driver: v1::Driver::Remote.into(),
        verify: vec![
            check("seen", "true"),
            v1::AcceptCheck { overlay, ..check("exam", "sh exam.sh") },
        ],
        limits: Some(v1::Limits { max_replans: Some(1), ..v1::Limits::default() }),
        ..v1::CreateRunRequest::default()
    };
    let run_id = stage.deployment.create_run(request).await?.id;
    let is_shown = |context: &v1::PlanContext| {
        let checks: Vec<&str> = context.checks.iter().map(|check| check.id.as_str()).collect();
        let tool = context.tools.iter().find(|tool| tool.name == "write_file");
        checks == ["seen"]
            && context.checks[0].owner() == v1::CheckOwner::User
            && tool
                .is_some_and(|tool| !tool.from_outside && tool.input_schema_json.contains("path"))
    };
    // The executor stores its tools soon after its start.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let lease = loop {
        let (lease, context) = stage.lease(&run_id).await?;
        if is_shown(&context) {
            break lease;
        }
        ensure!(std::time::Instant::now() < deadline, "not in time: {context:#?}");
        let fence = v1::PlanFence { run_id: run_id.clone(), lease_epoch: lease.lease_epoch };
        let request = v1::ReleasePlanRequest { fence: Some(fence), reason: String::new() };
        stage.planner.clone().release_plan(request).await?;
    };
    let first = plan(&[json!({"id": "a", "description": "first"})]);
    stage.submit(&lease, 0, text(&first.to_string())).await?;
    let work = stage.agent.work(&run_id).await?;
    let fails = json!({"control": "replan", "reason": "too hard"}).to_string();
    stage.agent.submit(&work, &fails).await?;
    let (_, context) = stage.lease(&run_id).await?;
    ensure!(context.plan.is_some() && is_shown(&context), "{context:#?}");
    let cancel = v1::CancelRunRequest { run_id: run_id.clone(), ..Default::default() };
    stage.deployment.runs()?.cancel_run(cancel).await?;
    stage.deployment.wait_for_end(&run_id).await?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_changed_environment_is_a_reason_for_another_plan_that_its_planner_sees() -> Result<()> {
    let stage = Stage::start().await?;
    let steps = [json!({"id": "a", "description": "first"})];
    let driver = v1::Driver::Remote.into();
    let request = v1::CreateRunRequest { driver, ..request(&plan(&steps), "") };
    let run_id = stage.deployment.create_run(request).await?.id;
    let held = stage.agent.work(&run_id).await?;
    let ask = |cause: v1::ReplanCause| v1::RequestReplanRequest {
        run_id: run_id.clone(),
        reason: "the server moved".to_owned(),
        cause: cause.into(),
        ..v1::RequestReplanRequest::default()
    };
    let mut plans = stage.deployment.plans()?;
    let refused = refusal(plans.request_replan(ask(v1::ReplanCause::StepFailed)).await)?;
    ensure!(refused == "type_mismatch", "{refused}");
    plans.request_replan(ask(v1::ReplanCause::EnvironmentChanged)).await?;
    // The step begins anew with the next plan: its agent learns at once that its decision has no outcome.
    let late = json!({"action": "next_plan"}).to_string();
    let late = refusal(stage.agent.submit(&held, &late).await)?;
    ensure!(late == "lease_lost", "{late}");
    let (lease, context) = stage.lease(&run_id).await?;
    ensure!(context.cause() == v1::ReplanCause::EnvironmentChanged, "{context:#?}");
    ensure!(context.reason.contains("the server moved"), "{context:#?}");
    let update = json!({"id": "a", "outputs_expected": ["notes.md", "the new address"]});
    let patched = json!({"update_steps": [update], "reason": "the new server"});
    stage.submit(&lease, 1, patch(&patched)).await?;
    let work = stage.agent.work(&run_id).await?;
    let shown: String = work.context.messages.iter().map(|said| said.text.clone()).collect();
    ensure!(shown.contains("It is expected to leave: notes.md; the new address"), "{shown}");
    let run = stage.finish(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_run_without_planning_is_one_step_whose_driver_is_told_to_set_up_its_todos() -> Result<()>
{
    let stage = Stage::start().await?;
    let request = v1::CreateRunRequest {
        goal: "Find out what is here.\nAnd say so.".to_owned(),
        driver: v1::Driver::Remote.into(),
        without_plan: true,
        ..v1::CreateRunRequest::default()
    };
    let mut runs = stage.deployment.runs()?;
    let with_plan = v1::CreateRunRequest {
        plan_source: Some(v1::create_run_request::PlanSource::PlanText("{}".to_owned())),
        ..request.clone()
    };
    ensure!(refusal(runs.create_run(with_plan).await)? == "type_mismatch", "beside a plan");
    let script = v1::CreateRunRequest { driver: v1::Driver::Script.into(), ..request.clone() };
    ensure!(refusal(runs.create_run(script).await)? == "type_mismatch", "a script has no calls");
    let nothing = v1::CreateRunRequest { goal: " ".to_owned(), ..request.clone() };
    ensure!(refusal(runs.create_run(nothing).await)? == "field_missing", "no goal");
    let run = stage.deployment.create_run(request).await?;
    ensure!(run.plan_revision == 1 && run.steps.len() == 1, "{run:#?}");
    let first = stage.agent.work(&run.id).await?;
    let said = first.context.messages.last().context("a message")?;
    ensure!(said.text.contains("todos") && said.text.contains("And say so."), "{said:#?}");
    let look = call("glob", json!({"pattern": "*"}));
    let answer = stage.agent.submit(&first, &look.to_string()).await?;
    let context = answer.next.context("the lease goes on")?;
    let told = context.messages.iter().any(|said| said.text.contains("as a list of todos"));
    ensure!(!told, "only the first turn is reminded: {context:#?}");
    let work = surety_e2e::agent::Work { context, ..first };
    stage.agent.take_turns(work, &[next_plan()]).await?;
    let run = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_person_supplies_plans_and_asks_for_another_by_commands() -> Result<()> {
    let stage = Stage::start().await?;
    let run_id = stage.goal(v1::Limits::default()).await?;
    let folder = tempfile::tempdir()?;
    let file = |name: &str, text: &str| -> Result<String> {
        let path = folder.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.to_string_lossy().into_owned())
    };
    let steps = "steps: [{id: a, description: look, evidence: none}]\n";
    let whole = file("plan.yaml", &format!("title: look\n{steps}"))?;
    let said = stage.deployment.command_line(&["plan", "submit", &run_id, &whole]).await?;
    ensure!(said.contains("revision 1 of the plan: look, 1 step"), "{said}");
    let reason = ["--reason", "the disk is another one", "--environment-changed"];
    let asked = [&["replan", run_id.as_str()], &reason[..]].concat();
    stage.deployment.command_line(&asked).await?;
    let patch = "reason: the disk\nadd_steps: [{id: b, description: look again, evidence: none}]\n";
    let patch = file("patch.yaml", patch)?;
    let said =
        stage.deployment.command_line(&["plan", "submit", "--patch", &run_id, &patch]).await?;
    ensure!(said.contains("revision 2 of the plan: look, 2 steps"), "{said}");
    for _ in 0..2 {
        let work = stage.agent.work(&run_id).await?;
        stage.agent.submit(&work, &next_plan().to_string()).await?;
    }
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    stage.deployment.finish().await
}
