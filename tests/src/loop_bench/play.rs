//! One task under one model: from its project to the verdict, and to what is true afterwards.

use super::project::{Project, Truth};
use super::task::{Base, Task};
use crate::harness::Deployment;
use crate::liars;
use anyhow::{Result, bail};
use std::time::{Duration, Instant};
use surety_common::wire::v1::{self, StopReason, TurnOutcome, WaitingOn};

/// How often a refused verdict may be repaired: a lie is refused twice, and a repair succeeds once or not at all.
const REPAIRS: u32 = 1;
/// How often the run is looked at.
const LOOK: Duration = Duration::from_millis(25);
/// How long a run may go on after its own deadline.
const BEYOND: Duration = Duration::from_secs(60);

/// How a task came out.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Whether the run was accepted.
    pub accepted: bool,
    /// Whether the result is right.
    pub truth: Truth,
    /// Turns of all steps.
    pub turns: u32,
    /// Replies that were refused or held no decision or no plan.
    pub corrections: u32,
    /// Refused verdicts that were repaired.
    pub repairs: u32,
    /// Tokens, as the endpoint counted them.
    pub tokens: u64,
    /// From the first entry of the run's journal to the last.
    pub wall: Duration,
    /// The stop reason, and the checks that do not hold.
    pub why: String,
}

/// Carries a task out. `deadline` is the run's.
///
/// # Errors
/// The project cannot be made, a call failed, or the run does not end.
pub async fn play(
    deployment: &Deployment,
    (task, base): (&Task, &Base),
    deadline: Duration,
) -> Result<Outcome> {
    let project = Project::create(task, base).await?;
    let limits = v1::Limits {
        max_repairs: Some(REPAIRS),
        run_deadline: Some(deadline.try_into()?),
        ..v1::Limits::default()
    };
    let created = deployment
        .create_run(v1::CreateRunRequest {
            goal: task.goal.clone(),
            driver: v1::Driver::Model.into(),
            workspace: project.path().to_string_lossy().into_owned(),
            verify: liars::checks(&task.checks(base))?,
            limits: Some(limits),
            ..v1::CreateRunRequest::default()
        })
        .await?;
    let run = ended(deployment, &created.id, deadline + BEYOND).await?;
    let events = deployment.events(&run.id).await?;
    let truth = project.truth(task, base).await?;
    let counters = run.counters.unwrap_or_default();
    Ok(Outcome {
        accepted: run.state() == v1::RunState::Done,
        truth,
        turns: counters.rounds,
        corrections: corrections(&events),
        repairs: counters.repairs,
        tokens: counters.tokens,
        wall: wall(&events),
        why: why(&run),
    })
}

/// Waits for the end. A run that asks a person is cancelled: none is there.
async fn ended(deployment: &Deployment, run_id: &str, patience: Duration) -> Result<v1::Run> {
    let until = Instant::now() + patience;
    loop {
        let run = deployment.run(run_id).await?;
        if run.terminal.is_some() {
            return Ok(run);
        }
        let blocked = run.blocked.as_ref().map(v1::Blocked::waiting_on);
        if matches!(blocked, Some(WaitingOn::User | WaitingOn::Approver | WaitingOn::Operator)) {
            let request = v1::CancelRunRequest {
                run_id: run_id.to_owned(),
                ..v1::CancelRunRequest::default()
            };
            deployment.runs()?.cancel_run(request).await?;
        }
        if Instant::now() > until {
            bail!("the run did not end within {} s: {run:#?}", patience.as_secs());
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn corrections(events: &[v1::Event]) -> u32 {
    let corrected = |event: &&v1::Event| match &event.kind {
        Some(v1::event::Kind::Turn(turn)) => {
            matches!(turn.outcome(), TurnOutcome::Corrected | TurnOutcome::NoDecision)
        }
        Some(v1::event::Kind::Transition(moved)) => moved.event == "plan_refused",
        _ => false,
    };
    u32::try_from(events.iter().filter(corrected).count()).unwrap_or(u32::MAX)
}

fn wall(events: &[v1::Event]) -> Duration {
    let at = |event: &v1::Event| event.at.and_then(|at| std::time::SystemTime::try_from(at).ok());
    let ends = (events.first().and_then(at), events.last().and_then(at));
    match ends {
        (Some(first), Some(last)) => last.duration_since(first).unwrap_or_default(),
        _ => Duration::ZERO,
    }
}

fn why(run: &v1::Run) -> String {
    let stop = run.terminal.as_ref().map_or(StopReason::Unspecified, v1::Terminal::stop_reason);
    let mut why = vec![stop.as_str_name().trim_start_matches("STOP_REASON_").to_lowercase()];
    let results = run.verdict.iter().flat_map(|verdict| &verdict.results);
    let failed = results.filter(|result| !result.passed && !result.optional);
    why.extend(failed.map(|result| format!("{} {}", result.name, result.reason)));
    let without_verdict = run.terminal.as_ref().filter(|_| run.verdict.is_none());
    why.extend(without_verdict.map(|terminal| terminal.user_message.clone()));
    why.join("; ")
}
