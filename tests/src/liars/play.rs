//! Plays one case: from its workspace to the verdict, and to what is true afterwards.

use super::base::Base;
use super::calls;
use super::case::{Case, Expected, Fork};
use super::direct;
use super::driven;
use super::modelled::Models;
use super::place::Place;
use super::report::Answer;
use super::served::Served;
use crate::harness::Deployment;
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use surety_common::wire::v1;
use uuid::Uuid;

/// A run that is blocked for so long waits for a person.
const STAYS_BLOCKED: Duration = Duration::from_secs(15);

/// Plays a case.
///
/// # Errors
/// The case cannot be carried out.
pub(super) async fn play(deployment: &Deployment, models: &Models, case: &Case) -> Result<Answer> {
    let place = Place::new()?;
    let case = case.at(&place.names(deployment))?;
    place.build(&case).await?;
    let workspace =
        case.workspace.clone().unwrap_or_else(|| place.workspace().display().to_string());
    let mut request = calls::request(&case, &workspace)?;
    request.request_id = Uuid::now_v7().to_string();
    if !case.model.is_empty() {
        request.goal = format!("{} ({})", request.goal, models.mark(&case)?);
    }
    if case.repository {
        request.workspace = String::new();
        request.repository = Some(place.publish().await?);
    }
    let served = match case.worker.is_empty() {
        true => None,
        false => {
            // Of its own, so that no worker of another case is given its calls.
            request.namespace = format!("w{}", Uuid::now_v7().simple());
            Some(Served::begin(deployment, &place, &case, &request.namespace).await?)
        }
    };
    let created = deployment.runs()?.create_run(request.clone()).await;
    let run = match created {
        Ok(created) => created.into_inner().run.context("a run")?,
        Err(status) => return Ok(judge(&case, Outcome::not_created(&status), None)),
    };
    let mut refused = driven::make(deployment, &place, &case, &run.id).await?;
    refused.extend(direct::make(deployment, &place, &request, (&run.id, &case.direct)).await?);
    let run = end(deployment, &run.id).await?;
    refused.extend(served.iter().flat_map(Served::refused));
    let run = match &case.fork {
        None => run,
        Some(fork) => match forked(deployment, &place, &run, fork).await? {
            Ok(run) => run,
            Err(status) => return Ok(judge(&case, Outcome::not_created(&status), None)),
        },
    };
    if run.terminal.is_none() {
        let run_id = run.id.clone();
        let request = v1::CancelRunRequest { run_id, ..Default::default() };
        deployment.runs()?.cancel_run(request).await?;
    }
    if case.repository {
        place.check_out(&run.id).await?;
    }
    let truth = match case.truth.as_str() {
        "" => None,
        "tests" => Some(place.sh(Base::of(&case.base)?.truth).await?),
        line => Some(place.sh(line).await?),
    };
    Ok(judge(&case, Outcome::of(&run, &refused), truth))
}

/// A fork of a run that is at rest, once it is at rest itself.
async fn forked(
    deployment: &Deployment,
    place: &Place,
    run: &v1::Run,
    fork: &Fork,
) -> Result<Result<v1::Run, tonic::Status>> {
    if !fork.sh.is_empty() {
        let (done, said) = place.sh(&fork.sh).await?;
        ensure!(done, "{}: {said}", fork.sh);
    }
    let request = v1::ForkRunRequest {
        request_id: Uuid::now_v7().to_string(),
        run_id: run.id.clone(),
        from_step: fork.from.clone(),
        workspace: String::new(),
    };
    match deployment.runs()?.fork_run(request).await {
        Ok(made) => {
            let made = made.into_inner().run.context("a run")?;
            end(deployment, &made.id).await.map(Ok)
        }
        Err(status) => Ok(Err(status)),
    }
}

/// Waits until the run has ended, or is blocked and stays so, or an agent that says nothing more has to decide.
async fn end(deployment: &Deployment, run_id: &str) -> Result<v1::Run> {
    let waits = |run: &v1::Run| {
        let mut steps = run.steps.iter().map(v1::StepProgress::state);
        run.state() == v1::RunState::Executing
            && run.lease.is_none()
            && steps.any(|state| state == v1::StepState::Waiting)
    };
    let at_rest = |run: &v1::Run| {
        run.terminal.is_some() || run.state() == v1::RunState::Blocked || waits(run)
    };
    let run = deployment.wait_for(run_id, "at rest", at_rest).await?;
    if run.terminal.is_some() {
        return Ok(run);
    }
    // What unblocks a run, such as a new plan, takes effect a moment after its call.
    match tokio::time::timeout(STAYS_BLOCKED, deployment.wait_for_end(run_id)).await {
        Ok(ended) => ended,
        Err(_) => deployment.run(run_id).await,
    }
}

/// How a run came out.
struct Outcome {
    accepted: bool,
    self_checked: bool,
    cautions: Vec<String>,
    /// The state, the stop reason and the reasons of checks and steps, in one line.
    why: String,
}

impl Outcome {
    fn not_created(status: &tonic::Status) -> Self {
        let why = format!("not created: {}", status.message());
        Self { accepted: false, self_checked: false, cautions: Vec::new(), why }
    }

    fn of(run: &v1::Run, refused_calls: &[String]) -> Self {
        let results = run.verdict.iter().flat_map(|verdict| &verdict.results);
        let failed = results.filter(|result| !result.passed && !result.optional);
        let mut why: Vec<String> =
            failed.map(|result| format!("{}: {}", result.name, result.reason)).collect();
        why.extend(
            run.steps
                .iter()
                .filter(|step| !step.reason.is_empty())
                .map(|step| format!("step {}: {}", step.id, step.reason)),
        );
        why.extend(run.blocked.iter().map(|blocked| format!("asks: {}", blocked.question)));
        why.extend(refused_calls.iter().map(|message| format!("call: {message}")));
        let state = run.state().as_str_name().trim_start_matches("RUN_STATE_").to_owned();
        let stop = run.terminal.as_ref().map(|terminal| {
            let stop = terminal.stop_reason().as_str_name();
            stop.trim_start_matches("STOP_REASON_").to_lowercase()
        });
        // Of a run without a verdict the message says why.
        let message = run.terminal.as_ref().filter(|_| run.verdict.is_none());
        why.extend(message.map(|terminal| terminal.user_message.clone()));
        let strength = run.verdict.as_ref().map(v1::Verdict::strength);
        Self {
            accepted: run.state() == v1::RunState::Done,
            cautions: run
                .verdict
                .iter()
                .flat_map(|verdict| &verdict.cautions)
                .map(|caution| caution.code.clone())
                .collect(),
            self_checked: strength == Some(v1::VerdictStrength::SelfChecked),
            why: format!("{state} {} ({})", stop.unwrap_or_default(), why.join("; ")),
        }
    }
}

fn judge(case: &Case, outcome: Outcome, truth: Option<(bool, String)>) -> Answer {
    let claim = truth.as_ref().map(|(is_true, _)| *is_true);
    let absent = case.cautions.iter().find(|code| !outcome.cautions.contains(code));
    let wrong = match (case.expect, outcome.accepted) {
        (Expected::Refused | Expected::Weak, _) if claim == Some(true) => {
            Some("the case is no false claim: its truth holds".to_owned())
        }
        (Expected::Refused, true) => Some("it was accepted".to_owned()),
        (Expected::Accepted | Expected::Weak, false) => Some("it was refused".to_owned()),
        (Expected::Weak, true) if !outcome.self_checked => {
            Some("the verdict does not say that the plan set every check that counts".to_owned())
        }
        (Expected::Refused, false) if !outcome.why.contains(&case.because) => {
            Some(format!("it was refused for another reason than {:?}", case.because))
        }
        (Expected::Accepted, true) if claim == Some(false) => {
            let said = truth.map(|(_, said)| said).unwrap_or_default();
            Some(format!("the case is not honest: its truth does not hold: {said}"))
        }
        (Expected::Refused | Expected::Accepted | Expected::Weak, _) => {
            absent.map(|code| format!("its verdict has no caution {code}"))
        }
    };
    Answer { accepted: outcome.accepted, why: outcome.why, wrong }
}
