//! Agents outside the executor drive runs over the API: leases, fences, repeated calls, deaths, and any replica.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, raise};
use serde_json::json;
use std::process::Stdio;
use std::time::Duration;
use surety_common::domain::fault::Reason;
use surety_common::wire::client::channel;
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::planner_service_client::PlannerServiceClient;
use surety_common::wire::v1::submit_decision_request::DecisionSource;
use surety_common::wire::v1::submit_plan_request::PlanSource;
use surety_e2e::agent::{
    AGENT, Agent, OTHER, PERSON, Work, call, fence, next_plan, secret, token_file,
};
use surety_e2e::harness::{Database, Deployment, PATIENCE, wait_until};
use surety_e2e::script::{Trail, plan, request};
use tempfile::NamedTempFile;
use tonic::Status;

/// An agent counts as lost after a second and a half without a sign of life.
const LEASE: (&str, &str) = ("SURETY_EXECUTOR_DRIVER_LEASE_MS", "1500");
/// The longest text that a reply may have, and one byte more.
const TOO_LONG: usize = (1 << 20) + 1;

struct Stage {
    deployment: Deployment,
    _tokens: NamedTempFile,
}

impl Stage {
    async fn with_executors(count: usize) -> Result<Self> {
        let tokens = token_file()?;
        let path = tokens.path().to_string_lossy().into_owned();
        let trails = Trail::parent().to_string_lossy().into_owned();
        let environment =
            [("SURETY_TOKEN_FILE", path.as_str()), LEASE, ("SURETY_SANDBOX_WRITABLE", &trails)];
        let mut deployment =
            Deployment::start_idle(Database::create().await?, &environment).await?;
        deployment.use_token(Token::new(&secret(PERSON))?);
        for _ in 0..count {
            deployment.add_executor(&[]).await?;
        }
        Ok(Self { deployment, _tokens: tokens })
    }

    fn agent(&self, executor: usize, identity: &str) -> Result<Agent> {
        let executor = self.deployment.executors.get(executor).context("no such executor")?;
        Agent::new(executor, identity, "worker-1")
    }

    /// A run of one step that an agent drives.
    async fn run(&self, workspace: &str) -> Result<String> {
        let plan = plan(&[json!({"id": "s", "description": "write out.txt"})]);
        let driver = v1::Driver::Remote.into();
        let request = v1::CreateRunRequest { driver, ..request(&plan, workspace) };
        Ok(self.deployment.create_run(request).await?.id)
    }

    async fn done(&self, run_id: &str) -> Result<()> {
        let run = self.deployment.wait_for_end(run_id).await?;
        ensure!(run.state() == v1::RunState::Done, "{run:#?}");
        Ok(())
    }
}

fn write() -> serde_json::Value {
    call("write_file", json!({"path": "out.txt", "content": "done\n"}))
}

fn reason<T: std::fmt::Debug>(answer: Result<T, Status>) -> Result<String> {
    let status = answer.err().context("the call was answered")?;
    Ok(match from_status(&status).reason {
        Reason::Input(code) => code.as_str().to_owned(),
        Reason::Service(code) => code.as_str().to_owned(),
    })
}

#[tokio::test]
async fn an_agent_carries_a_run_to_its_verdict_and_every_repeated_call_has_its_first_answer()
-> Result<()> {
    let stage = Stage::with_executors(1).await?;
    let folder = tempfile::tempdir()?;
    let agent = stage.agent(0, AGENT)?;
    let run_id = stage.run(&folder.path().to_string_lossy()).await?;
    let first = agent.work(&run_id).await?;
    ensure!(first.context.turn == 1 && first.context.steps_remaining == 1, "{first:#?}");
    ensure!(first.context.tools.iter().any(|tool| tool.name == "write_file"), "{first:#?}");
    ensure!(first.context.messages.len() == 2, "system and user: {first:#?}");
    let fenced = format!("I will write it.\n```json\n{}\n```", write());
    let wrote = agent.submit(&first, &fenced).await?;
    ensure!(wrote.outcome() == v1::TurnOutcome::Applied, "{wrote:#?}");
    ensure!(wrote.receipts.len() == 1 && wrote.observation.contains("out.txt"), "{wrote:#?}");
    ensure!(wrote.validations.iter().all(|said| said.passed), "{wrote:#?}");
    let context = wrote.next.clone().context("the lease goes on")?;
    ensure!(context.turn == 2 && context.messages.len() == 4, "{context:#?}");
    ensure!(agent.submit(&first, &fenced).await? == wrote, "a repeated call has the first answer");
    let other = reason(agent.submit(&first, "{}").await)?;
    ensure!(other == "turn_conflict", "{other}");
    let second = Work { context, ..first.clone() };
    let refused = agent.submit(&second, "{\"action\": \"fly\"}").await?;
    ensure!(refused.outcome() == v1::TurnOutcome::NoDecision, "{refused:#?}");
    ensure!(
        refused.problem.is_some() && refused.correction.contains("action_unknown"),
        "{refused:#?}"
    );
    let context = refused.next.context("the lease goes on")?;
    let third = Work { context, ..first.clone() };
    let ending = v1::ExecuteDecision {
        action: v1::DecisionAction::NextPlan.into(),
        goal_check: "out.txt is there".to_owned(),
        ..v1::ExecuteDecision::default()
    };
    let ended = agent.send(&third, DecisionSource::Decision(ending.clone())).await?;
    ensure!(ended.outcome() == v1::TurnOutcome::StepDone && ended.next.is_none(), "{ended:#?}");
    ensure!(ended.step_state() == v1::StepState::Done, "{ended:#?}");
    stage.done(&run_id).await?;
    let again = agent.send(&third, DecisionSource::Decision(ending)).await?;
    ensure!(again == ended, "the first answer after the end: {again:#?}");
    let later = Work { context: v1::StepContext { turn: 4, ..third.context }, ..third };
    let lost = reason(agent.submit(&later, &write().to_string()).await)?;
    ensure!(lost == "lease_lost", "{lost}");
    let events = stage.deployment.events(&run_id).await?;
    let tokens = events.iter().filter_map(|event| match &event.kind {
        Some(v1::event::Kind::Turn(turn)) => Some(turn.tokens),
        _ => None,
    });
    ensure!(tokens.sum::<u64>() == 3 * 7, "what the replies cost is recorded");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_decision_that_arrives_twice_at_a_time_is_one_turn_at_whichever_executors() -> Result<()>
{
    let stage = Stage::with_executors(2).await?;
    let folder = tempfile::tempdir()?;
    let run_id = stage.run(&folder.path().to_string_lossy()).await?;
    let agents = [stage.agent(0, AGENT)?, stage.agent(1, AGENT)?];
    let mut work = agents[0].work(&run_id).await?;
    // Each executor knows the step from a turn before, and one of them knows an older one.
    for turn in 0..12 {
        let path = format!("{turn}.txt");
        let reply = match turn % 2 {
            0 => call("list_dir", json!({"path": "."})),
            _ => call("write_file", json!({"path": path, "content": "once\n"})),
        };
        let reply = reply.to_string();
        let (first, second) = (&agents[turn / 2 % 2], &agents[turn / 4 % 2]);
        let (one, other) = tokio::join!(first.submit(&work, &reply), second.submit(&work, &reply));
        let (one, other) = (one?, other?);
        ensure!(one == other, "one outcome for both: {one:#?} {other:#?}");
        ensure!(one.outcome() == v1::TurnOutcome::Applied && one.receipts.len() == 1, "{one:#?}");
        work.context = one.next.context("the lease goes on")?;
        ensure!(usize::try_from(work.context.turn)? == turn + 2, "{:#?}", work.context);
    }
    agents[1].submit(&work, &next_plan().to_string()).await?;
    stage.done(&run_id).await?;
    let events = stage.deployment.events(&run_id).await?;
    let wrote = events.iter().filter(|event| match &event.kind {
        Some(v1::event::Kind::Receipt(receipt)) => receipt.name == "write_file",
        _ => false,
    });
    ensure!(wrote.count() == 6, "each file is written once");
    stage.deployment.finish().await
}

#[tokio::test]
async fn no_caller_acts_under_a_lease_that_it_does_not_hold() -> Result<()> {
    let stage = Stage::with_executors(1).await?;
    let (agent, other) = (stage.agent(0, AGENT)?, stage.agent(0, OTHER)?);
    let run_id = stage.run("").await?;
    let work = agent.work(&run_id).await?;
    let text = write().to_string();
    let with = |change: fn(&mut Work)| {
        let mut changed = work.clone();
        change(&mut changed);
        changed
    };
    for (what, answer, expected) in [
        ("another identity", other.submit(&work, &text).await, "lease_lost"),
        (
            "an old fence",
            agent.submit(&with(|work| work.lease.lease_epoch -= 1), &text).await,
            "lease_lost",
        ),
        (
            "a fence that was never given",
            agent.submit(&with(|work| work.lease.lease_epoch = u64::MAX), &text).await,
            "lease_lost",
        ),
        (
            "a later turn",
            agent.submit(&with(|work| work.context.turn = 2), &text).await,
            "turn_conflict",
        ),
        (
            "the turn zero",
            agent.submit(&with(|work| work.context.turn = 0), &text).await,
            "turn_conflict",
        ),
        (
            "another step",
            agent.submit(&with(|work| work.lease.step_id = "t".to_owned()), &text).await,
            "step_not_found",
        ),
        (
            "another run",
            agent
                .submit(&with(|work| work.lease.run_id = uuid::Uuid::nil().to_string()), &text)
                .await,
            "run_not_found",
        ),
        (
            "no run",
            agent.submit(&with(|work| work.lease.run_id = "x".to_owned()), &text).await,
            "invalid_id",
        ),
        ("a huge text", agent.submit(&work, &"x".repeat(TOO_LONG)).await, "too_large"),
        ("a text that cannot be stored", agent.submit(&work, "\0").await, "type_mismatch"),
    ] {
        let found = reason(answer).context(what)?;
        ensure!(found == expected, "{what}: {found}");
    }
    let beat = agent.heartbeat(&[fence(&work.lease)]).await?;
    ensure!(beat.lost.is_empty() && beat.expires_at.is_some(), "{beat:#?}");
    let beat = other.heartbeat(&[fence(&work.lease)]).await?;
    ensure!(beat.lost == [fence(&work.lease)], "{beat:#?}");
    ensure!(reason(other.release(&work).await)? == "lease_lost", "another identity released it");
    let script = plan(&[json!({"id": "s", "description": "d", "evidence": "none", "script": []})]);
    let script = stage.deployment.create(&script, "").await?.id;
    ensure!(reason(agent.lease(&script, 1).await)? == "driver_mismatch", "a script is no work");
    let unnamed =
        reason(Agent::at(&stage.deployment.executors[0].url(), AGENT, " ")?.lease("", 1).await)?;
    ensure!(unnamed == "field_missing", "{unnamed}");
    agent.take_turns(work, &[write(), next_plan()]).await?;
    stage.done(&run_id).await?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_lease_of_one_step_is_none_of_another_step_of_its_run() -> Result<()> {
    let stage = Stage::with_executors(1).await?;
    let agent = stage.agent(0, AGENT)?;
    let folder = tempfile::tempdir()?;
    let steps = ["s", "t"].map(|id| json!({"id": id, "description": "write out.txt"}));
    let driver = v1::Driver::Remote.into();
    let request =
        v1::CreateRunRequest { driver, ..request(&plan(&steps), &folder.path().to_string_lossy()) };
    let run_id = stage.deployment.create_run(request).await?.id;
    let work = agent.work(&run_id).await?;
    let mut mixed_up = work.clone();
    mixed_up.lease.step_id = if work.lease.step_id == "s" { "t" } else { "s" }.to_owned();
    let text = write().to_string();
    let refused = tokio::time::timeout(PATIENCE, agent.submit(&mixed_up, &text)).await;
    ensure!(reason(refused.context("the call has no answer")?)? == "lease_lost");
    ensure!(reason(agent.release(&mixed_up).await)? == "lease_lost", "and it is not released");
    agent.take_turns(work, &[write(), next_plan()]).await?;
    agent.take_turns(agent.work(&run_id).await?, &[write(), next_plan()]).await?;
    stage.done(&run_id).await?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_released_or_expired_step_goes_to_another_agent_and_the_late_one_is_refused() -> Result<()>
{
    let stage = Stage::with_executors(2).await?;
    let (one, two) = (stage.agent(0, AGENT)?, stage.agent(1, OTHER)?);
    let run_id = stage.run("").await?;
    let first = one.work(&run_id).await?;
    ensure!(two.lease(&run_id, 0).await?.is_none(), "a leased step is not offered");
    ensure!(one.release(&first).await? == v1::StepState::Waiting);
    ensure!(reason(one.release(&first).await)? == "lease_lost", "released twice");
    let second = two.work(&run_id).await?;
    ensure!(second.lease.lease_epoch > first.lease.lease_epoch, "the token grows");
    let late = reason(one.submit(&first, &write().to_string()).await)?;
    ensure!(late == "lease_lost", "{late}");
    // The second agent falls silent; the first one's long poll gets the step once its lease has expired.
    let third = one.work(&run_id).await?;
    ensure!(third.lease.lease_epoch > second.lease.lease_epoch);
    let late = reason(two.submit(&second, &write().to_string()).await)?;
    ensure!(late == "lease_lost", "{late}");
    one.take_turns(third, &[write(), next_plan()]).await?;
    stage.done(&run_id).await?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_heartbeat_keeps_a_lease_and_says_that_a_run_is_paused() -> Result<()> {
    let stage = Stage::with_executors(1).await?;
    let (agent, other) = (stage.agent(0, AGENT)?, stage.agent(0, OTHER)?);
    let run_id = stage.run("").await?;
    let work = agent.work(&run_id).await?;
    // Twice as long as a silent agent keeps its lease.
    for _ in 0..6 {
        let waiting = other.lease(&run_id, 0).await?;
        ensure!(waiting.is_none(), "the step of a living agent was offered");
        agent.heartbeat(&[fence(&work.lease)]).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let pause = v1::PauseRunRequest { run_id: run_id.clone(), ..Default::default() };
    stage.deployment.runs()?.pause_run(pause).await?;
    let beat = agent.heartbeat(&[fence(&work.lease)]).await?;
    ensure!(beat.stopping == [fence(&work.lease)], "{beat:#?}");
    agent.release(&work).await?;
    ensure!(other.lease(&run_id, 0).await?.is_none(), "a paused run is offered");
    let resume = v1::ResumeRunRequest { run_id: run_id.clone(), ..Default::default() };
    stage.deployment.runs()?.resume_run(resume).await?;
    let work = other.work(&run_id).await?;
    let cancel = v1::CancelRunRequest { run_id: run_id.clone(), ..Default::default() };
    stage.deployment.runs()?.cancel_run(cancel).await?;
    let beat = other.heartbeat(&[fence(&work.lease)]).await?;
    ensure!(beat.lost == [fence(&work.lease)], "{beat:#?}");
    let ended = reason(other.submit(&work, &write().to_string()).await)?;
    ensure!(ended == "run_terminal", "{ended}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_question_ends_the_lease_and_its_answer_is_shown_to_the_next_agent() -> Result<()> {
    let stage = Stage::with_executors(1).await?;
    let agent = stage.agent(0, AGENT)?;
    let run_id = stage.run("").await?;
    let work = agent.work(&run_id).await?;
    let ask = json!({"action": "ask_user", "speak": "Which name?"}).to_string();
    let asked = agent.submit(&work, &ask).await?;
    ensure!(asked.outcome() == v1::TurnOutcome::Waiting && asked.next.is_none(), "{asked:#?}");
    let beat = agent.heartbeat(&[fence(&work.lease)]).await?;
    ensure!(beat.lost.len() == 1, "a question needs no driver: {beat:#?}");
    let question = stage.deployment.question(&run_id).await?;
    stage.deployment.answer(&question.wait_id, "out.txt, please").await?;
    let work = agent.work(&run_id).await?;
    let said = work.context.messages.last().context("a message")?;
    ensure!(said.text.contains("out.txt, please"), "{said:#?}");
    agent.take_turns(work, &[write(), next_plan()]).await?;
    stage.done(&run_id).await?;
    stage.deployment.finish().await
}

/// The points of its protocol at which an agent dies.
const DEATHS: [&str; 5] =
    ["before_lease", "after_lease", "before_submit", "during_the_call", "before_the_answer"];
const DIES_AT: &str = "SURETY_TEST_AGENT_DIES_AT";
const URL: &str = "SURETY_TEST_AGENT_URL";
const RUN: &str = "SURETY_TEST_AGENT_RUN";
const REPLY: &str = "SURETY_TEST_AGENT_REPLY";

/// An agent as a process of its own, which another test starts. It dies where the environment says.
#[tokio::test]
async fn agent_process() -> Result<()> {
    let Ok(dies_at) = std::env::var(DIES_AT) else { return Ok(()) };
    let dies = |at: &str| match dies_at == at {
        true => raise(Signal::SIGKILL).map_err(anyhow::Error::from),
        false => Ok(()),
    };
    let agent = Agent::at(&std::env::var(URL)?, AGENT, "dying")?;
    dies("before_lease")?;
    let work = agent.work(&std::env::var(RUN)?).await?;
    dies("after_lease")?;
    let reply = std::env::var(REPLY)?;
    dies("before_submit")?;
    // The call is under way while the process is killed from outside.
    agent.submit(&work, &reply).await?;
    dies("before_the_answer")
}

#[tokio::test]
async fn an_agent_that_is_killed_at_any_point_of_its_protocol_is_replaced_by_another_one()
-> Result<()> {
    let stage = Stage::with_executors(2).await?;
    let trail = Trail::new()?;
    let other = stage.agent(1, OTHER)?;
    for death in DEATHS {
        let folder = tempfile::tempdir()?;
        let run_id = stage.run(&folder.path().to_string_lossy()).await?;
        let line = match death {
            "during_the_call" => trail.mark_and_wait(death),
            _ => trail.mark(death),
        };
        let argv = json!({"argv": ["sh", "-c", line], "timeout_s": 60});
        let reply = call("run_command", argv).to_string();
        let url = stage.deployment.executors[0].url();
        let mut dying = tokio::process::Command::new(std::env::current_exe()?)
            .args(["--exact", "remote_drivers::agent_process", "--nocapture"])
            .envs([(DIES_AT, death), (URL, &url), (RUN, &run_id), (REPLY, &reply)])
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        if death == "during_the_call" {
            wait_until("the call began", || trail.marks(death) == 1).await?;
            dying.start_kill()?;
            dying.wait().await?;
            trail.let_go()?;
        } else {
            dying.wait().await?;
        }
        let work = other.work(&run_id).await.context(death)?;
        let sent = ["during_the_call", "before_the_answer"].contains(&death);
        let turn = if sent { 2 } else { 1 };
        ensure!(work.context.turn == turn, "{death}: {:#?}", work.context);
        let answer = other.take_turns(work, &[write(), next_plan()]).await.context(death)?;
        ensure!(answer.outcome() == v1::TurnOutcome::StepDone, "{death}: {answer:#?}");
        stage.done(&run_id).await.context(death)?;
        ensure!(trail.marks(death) == usize::from(sent), "{death}: the call was made once");
    }
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_long_poll_gets_the_step_of_a_run_that_is_created_later_and_no_step_twice() -> Result<()>
{
    let stage = Stage::with_executors(2).await?;
    let mut polls = tokio::task::JoinSet::new();
    for number in 0..12 {
        let executor = &stage.deployment.executors[number % 2];
        let agent = Agent::new(executor, AGENT, &format!("worker-{number}"))?;
        polls.spawn(async move {
            let work = agent.lease("", 30).await?.context("no step was offered")?;
            let run_id = work.lease.run_id.clone();
            agent.take_turns(work, &[write(), next_plan()]).await?;
            anyhow::Ok(run_id)
        });
    }
    let mut made = Vec::new();
    for _ in 0..12 {
        made.push(stage.run("").await?);
    }
    let mut taken = Vec::new();
    while let Some(run_id) = polls.join_next().await {
        taken.push(run_id??);
    }
    taken.sort_unstable();
    made.sort_unstable();
    ensure!(taken == made, "each run was driven by one agent");
    for run_id in &made {
        stage.done(run_id).await?;
    }
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_failed_step_of_an_agent_waits_for_a_patch_which_a_planning_agent_leases() -> Result<()> {
    let stage = Stage::with_executors(1).await?;
    let agent = stage.agent(0, AGENT)?;
    let mut plans = PlannerServiceClient::new(channel(
        &stage.deployment.planner.url(),
        Some(&Token::new(&secret(OTHER))?),
    )?);
    let ask = |run_id: &str, wait_s: i64| v1::LeasePlanRequest {
        planner_id: "planner-1".to_owned(),
        run_id: run_id.to_owned(),
        wait: Some(prost_types::Duration { seconds: wait_s, nanos: 0 }),
        ..v1::LeasePlanRequest::default()
    };
    let run_id = stage.run("").await?;
    let none = plans.lease_plan(ask(&run_id, 0)).await?.into_inner();
    ensure!(none.lease.is_none(), "a run with a plan needs none: {none:#?}");
    let patch = json!({"update_steps": [{"id": "s", "description": "write out.txt here"}]});
    let submit = |lease_epoch: u64| v1::SubmitPlanRequest {
        run_id: run_id.clone(),
        expected_revision: 1,
        plan_source: Some(PlanSource::PatchText(patch.to_string())),
        lease_epoch,
        ..v1::SubmitPlanRequest::default()
    };
    let unasked = reason(plans.submit_plan(submit(0)).await)?;
    ensure!(unasked == "plan_not_wanted", "{unasked}");
    let work = agent.work(&run_id).await?;
    let replan = json!({"control": "replan", "reason": "the folder is wrong"}).to_string();
    let failed = agent.submit(&work, &replan).await?;
    ensure!(failed.outcome() == v1::TurnOutcome::StepFailed, "{failed:#?}");
    let leased = plans.lease_plan(ask(&run_id, 30)).await?.into_inner();
    let (lease, context) = leased.lease.zip(leased.context).context("the run needs a plan")?;
    ensure!(context.reason.contains("the folder is wrong"), "{context:#?}");
    ensure!(context.expected_revision == 1 && context.replans_left == 1, "{context:#?}");
    let fence = v1::PlanFence { run_id: run_id.clone(), lease_epoch: lease.lease_epoch };
    let beat = v1::HeartbeatPlanRequest {
        planner_id: "planner-1".to_owned(),
        fences: vec![fence.clone()],
    };
    let kept = plans.heartbeat_plan(beat.clone()).await?.into_inner();
    ensure!(kept.lost.is_empty() && kept.expires_at.is_some(), "{kept:#?}");
    let release = v1::ReleasePlanRequest { fence: Some(fence), reason: String::new() };
    plans.release_plan(release.clone()).await?;
    ensure!(reason(plans.release_plan(release).await)? == "lease_lost", "released twice");
    let lost = plans.heartbeat_plan(beat).await?.into_inner();
    ensure!(lost.lost.len() == 1, "{lost:#?}");
    for lease_epoch in [lease.lease_epoch, 0] {
        let late = reason(plans.submit_plan(submit(lease_epoch)).await)?;
        ensure!(late == "lease_lost", "{lease_epoch}: {late}");
    }
    let again = plans.lease_plan(ask(&run_id, 30)).await?.into_inner();
    let lease = again.lease.context("it is offered again")?;
    let planned = plans.submit_plan(submit(lease.lease_epoch)).await?.into_inner();
    ensure!(planned.plan.is_some_and(|plan| plan.revision == 2), "the patch is stored");
    let work = agent.work(&run_id).await?;
    ensure!(work.lease.plan_revision == 2 && work.context.turn == 1, "{work:#?}");
    agent.take_turns(work, &[write(), next_plan()]).await?;
    stage.done(&run_id).await?;
    stage.deployment.finish().await
}
