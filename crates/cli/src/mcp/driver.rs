//! The tools of an agent that drives runs: it decides, and the executor carries out and records every call.
//!
//! ```text
//!   surety_lease  --> LeaseStep       a step that waits for a decision, with the context of its next turn
//!   surety_decide --> SubmitDecision  the outcome, and the context of the turn after it
//!                     Heartbeat       while the step is held
//!   surety_release -> ReleaseStep     the step goes back
//!
//! Asked for the steps of one run, surety_lease answers what that run waits for, or how it ended.
//! ```

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use surety_common::config::{ClientConfig, read_client_token};
use surety_common::wire::client::{ServiceChannel, Transport, channel_over, is_loopback};
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::executor_service_client::ExecutorServiceClient;
use surety_common::wire::v1::submit_decision_request::DecisionSource;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::arguments::{Decide, Lease, Release, within};
use super::leases::{
    HeldPlan, LONGEST_WAIT, MARGIN, Planner, bounded, interval, is_meant, within_time,
};
use super::observer::Answer;
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::output::note;
use crate::text::{one_line, outcome, run_state};
use crate::wire_json;

/// The longest decision in bytes.
const MOST_DECISION: usize = 1 << 20;
/// The largest message of the executor in bytes.
const MOST_ANSWER: usize = 256 << 20;

/// What an agent does with a leased step.
const ANSWER: &str = "Answer with surety_decide.";

/// Where `surety up` serves the planner.
const PLANNER_URL: &str = "http://127.0.0.1:7401";

type Executor = ExecutorServiceClient<ServiceChannel>;

/// An agent that drives steps.
#[derive(Debug)]
pub struct Driver {
    executor: Executor,
    url: String,
    planner: Planner,
    planner_url: String,
    name: String,
    /// The step that it has leased. One at a time: an agent has one train of thought.
    held: Arc<Mutex<Option<Held>>>,
    /// The plan that it has leased.
    plan: Mutex<Option<HeldPlan>>,
    ended: CancellationToken,
}

/// The right to the step that an agent has leased. Calls about it are one at a time.
pub(super) type HeldStep = OwnedMutexGuard<Option<Held>>;

/// A leased step.
#[derive(Debug)]
pub(super) struct Held {
    fence: v1::StepFence,
    turn: u32,
    beating: JoinHandle<()>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.beating.abort();
    }
}

impl Driver {
    /// A driver of the executor at `url`, with the configured token, else with that of the data folder's drivers. Plans
    /// go to the planner at the configured address, else at that of the data folder.
    ///
    /// # Errors
    /// The address or the token cannot be used.
    pub fn open(
        url: &str,
        client: &ClientConfig,
        ended: CancellationToken,
    ) -> Result<Self, Failure> {
        let given = client.token()?;
        let is_given = given.is_some();
        let secret = match given {
            Some(secret) => Some(secret),
            None => {
                let file = DataFolder::choose(&client.folder)?.driver_token();
                let is_own = is_loopback(url) && file.exists();
                is_own.then(|| read_client_token(&file)).transpose()?
            }
        };
        let token = secret.map(|secret| Token::new(secret.expose())).transpose()?;
        let transport = Transport::of_client(&client.tls)?;
        let channel = channel_over(url, token.as_ref(), &transport)?;
        let executor = Executor::new(channel).max_decoding_message_size(MOST_ANSWER);
        let noted = || DataFolder::choose(&client.folder).ok()?.noted_endpoint();
        let planner_url = client.address.url.clone().or_else(noted);
        let planner_url = planner_url.unwrap_or_else(|| PLANNER_URL.to_owned());
        let is_for = may_have_token(&planner_url, is_given, client.address.url.is_some());
        let channel = channel_over(&planner_url, token.as_ref().filter(|_| is_for), &transport)?;
        let planner = Planner::new(channel).max_decoding_message_size(MOST_ANSWER);
        let (url, name) = (url.to_owned(), format!("surety-mcp-{}", std::process::id()));
        let (held, plan) = (Arc::default(), Mutex::new(None));
        Ok(Self { executor, url, planner, planner_url, name, held, plan, ended })
    }

    /// The driver of a session: over the same connections, with leases of its own.
    pub(super) fn of_session(&self, number: u64) -> Self {
        Self {
            executor: self.executor.clone(),
            url: self.url.clone(),
            planner: self.planner.clone(),
            planner_url: self.planner_url.clone(),
            name: format!("{}-{number}", self.name),
            held: Arc::default(),
            plan: Mutex::new(None),
            ended: self.ended.clone(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn planner(&self) -> Planner {
        self.planner.clone()
    }

    pub(super) fn planner_url(&self) -> &str {
        &self.planner_url
    }

    pub(super) const fn plan(&self) -> &Mutex<Option<HeldPlan>> {
        &self.plan
    }

    /// Ends every call.
    #[must_use]
    pub fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Waits for a step, and leases it.
    pub(super) async fn lease(
        &self,
        asked: Lease,
        cancel: &CancellationToken,
    ) -> Result<Answer, Failure> {
        asked.check()?;
        let mut held = self.held()?;
        if held.as_ref().is_some_and(|held| held.beating.is_finished()) {
            // The heartbeats end by themselves only where the lease is lost.
            *held = None;
        }
        if let Some(held) = held.as_ref() {
            let message = format!("the step {} is leased", one_line(&held.fence.step_id));
            let advice = "Decide it with surety_decide, or give it back with surety_release.";
            return Err(Failure::new(Code::ValueInvalid, message, advice));
        }
        let seconds = asked.wait_seconds.min(LONGEST_WAIT);
        let wait = i64::try_from(seconds).unwrap_or_default();
        let request = v1::LeaseStepRequest {
            driver_id: self.name.clone(),
            namespace: asked.namespace,
            run_id: asked.run_id,
            wait: Some(prost_types::Duration { seconds: wait, nanos: 0 }),
            namespaces: asked.namespaces,
            labels: asked.labels,
        };
        let executor = self.executor.clone();
        let request = within_time(request, Duration::from_secs(seconds));
        let mut leasing = executor.clone();
        let leasing = async move { leasing.lease_step(request).await };
        let giver = executor.clone();
        let give_back = |leased| give_back(giver, leased);
        let leased = match self.unless_given_up(cancel, &self.url, leasing, give_back).await {
            Err(Failure::Said(said)) if said.code == "run_terminal" => {
                let value = json!({"leased": false, "ended": said.message});
                return Ok(Answer { text: bounded(said.message), value });
            }
            leased => leased?,
        };
        let (Some(lease), Some(context)) = (&leased.lease, &leased.context) else {
            return Ok(nothing_leased(&leased));
        };
        let fence = v1::StepFence {
            run_id: lease.run_id.clone(),
            step_id: lease.step_id.clone(),
            lease_epoch: lease.lease_epoch,
        };
        let every = interval(lease.expires_at.as_ref());
        let beating = tokio::spawn(beat(executor, self.name.clone(), fence.clone(), every));
        *held = Some(Held { fence, turn: context.turn, beating });
        let value = json!({
            "leased": true,
            "lease": wire_json::message("StepLease", lease).to_serde(),
            "context": wire_json::message("StepContext", context).to_serde(),
            "what_next": ANSWER,
        });
        let text = format!("{}\nlease_epoch {}", context_text(context), lease.lease_epoch);
        Ok(Answer { text: bounded(text), value })
    }

    /// Submits a decision about the next turn of the leased step, to which `held` is the right.
    pub(super) async fn decide(
        &self,
        mut held: HeldStep,
        decided: Decide,
        is_anyones: bool,
        cancel: &CancellationToken,
    ) -> Result<Answer, Failure> {
        let named = decided.lease_epoch;
        let raw = decided.into_text(MOST_DECISION)?;
        let Some(step) = held.as_mut() else { return Err(unleased()) };
        is_meant(step.fence.lease_epoch, named, is_anyones)?;
        let request = v1::SubmitDecisionRequest {
            fence: Some(step.fence.clone()),
            turn: step.turn,
            decision_source: Some(DecisionSource::Raw(raw)),
            usage: None,
        };
        let answer = loop {
            let mut executor = self.executor.clone();
            let submitted = executor.submit_decision(within_time(request.clone(), MARGIN));
            let answer = match self.unless_ended(cancel, &self.url, submitted).await {
                Ok(answer) => answer,
                Err(failure) => {
                    // Under a lost lease the step is another driver's.
                    if matches!(&failure, Failure::Said(said) if said.code == "lease_lost") {
                        *held = None;
                    }
                    return Err(failure);
                }
            };
            if answer.outcome() != v1::TurnOutcome::Pending {
                break answer;
            }
        };
        match &answer.next {
            Some(next) => step.turn = next.turn,
            None => *held = None,
        }
        let mut value = wire_json::message("SubmitDecisionResponse", &answer).to_serde();
        value["what_next"] = json!(next_of(&answer));
        Ok(Answer { text: bounded(answer_text(&answer)), value })
    }

    /// Gives the leased step back, or the leased plan where no step is leased.
    pub(super) async fn release(
        &self,
        release: Release,
        is_anyones: bool,
    ) -> Result<Answer, Failure> {
        within("reason", &release.reason)?;
        let mut held = self.held()?;
        let Some(step) = held.as_ref() else {
            return self.release_plan(release, is_anyones).await?.ok_or_else(unleased);
        };
        if release.lease_epoch.is_some_and(|epoch| self.holds_plan(epoch)) {
            return self.release_plan(release, is_anyones).await?.ok_or_else(unleased);
        }
        is_meant(step.fence.lease_epoch, release.lease_epoch, is_anyones)?;
        let Some(step) = held.take() else { return Err(unleased()) };
        self.give_back(&step, release.reason).await?;
        let text = format!("the step {} is released", one_line(&step.fence.step_id));
        Ok(Answer { text, value: json!({"released": true}) })
    }

    /// Gives back what is leased when the connection ends.
    pub async fn disconnected(&self) {
        self.give_plan_back().await;
        let Some(step) = self.held.lock().await.take() else { return };
        let released = self.give_back(&step, "the connection of the agent ended".to_owned()).await;
        match released {
            Ok(()) => note("surety: the connection ended; the leased step was released"),
            Err(failure) => note(&failure.to_text()),
        }
    }

    async fn give_back(&self, step: &Held, reason: String) -> Result<(), Failure> {
        let request = v1::ReleaseStepRequest { fence: Some(step.fence.clone()), reason };
        let mut executor = self.executor.clone();
        let released = executor.release_step(within_time(request, Duration::ZERO)).await;
        released.map(drop).map_err(|status| self.failure(&status))
    }

    /// The leased step. Calls are one at a time: a decision is about the turn before it.
    pub(super) fn held(&self) -> Result<HeldStep, Failure> {
        Arc::clone(&self.held).try_lock_owned().map_err(|_| under_way())
    }

    /// The leased plan.
    pub(super) fn held_plan(
        &self,
    ) -> Result<tokio::sync::MutexGuard<'_, Option<HeldPlan>>, Failure> {
        self.plan.try_lock().map_err(|_| under_way())
    }

    pub(super) async fn unless_ended<T>(
        &self,
        cancel: &CancellationToken,
        url: &str,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<T, Failure> {
        let answer = tokio::select! {
            answer = call => answer,
            () = cancel.cancelled() => return Err(cancelled()),
            () = self.ended.cancelled() => return Err(cancelled()),
        };
        answer
            .map(tonic::Response::into_inner)
            .map_err(|status| Failure::from_service(url, &status))
    }

    /// As [`Self::unless_ended`], for a call that leases. One that the client gives up goes on, and what it leases is given
    /// back: the agent does not learn of it, and heartbeats would keep it.
    pub(super) async fn unless_given_up<T, F>(
        &self,
        cancel: &CancellationToken,
        url: &str,
        call: impl Future<Output = Result<tonic::Response<T>, Status>> + Send + 'static,
        give_back: impl FnOnce(T) -> F + Send + 'static,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let mut call = tokio::spawn(call);
        let answer = tokio::select! {
            answer = &mut call => Some(answer),
            () = cancel.cancelled() => None,
            () = self.ended.cancelled() => None,
        };
        let is_given_up = cancel.is_cancelled() || self.ended.is_cancelled();
        match answer {
            Some(answer) if !is_given_up => answer
                .map_err(|error| Failure::new(Code::Internal, error.to_string(), ""))?
                .map(tonic::Response::into_inner)
                .map_err(|status| Failure::from_service(url, &status)),
            answer => {
                tokio::spawn(async move {
                    let answer = match answer {
                        Some(answer) => answer,
                        None => call.await,
                    };
                    if let Ok(Ok(leased)) = answer {
                        give_back(leased.into_inner()).await;
                    }
                });
                Err(cancelled())
            }
        }
    }

    fn failure(&self, status: &Status) -> Failure {
        Failure::from_service(&self.url, status)
    }
}

/// Whether the planner gets the token: on this machine always, elsewhere only a token that was given, at an address that
/// was given. That of the data folder is for this machine alone.
fn may_have_token(planner_url: &str, is_given: bool, is_named: bool) -> bool {
    is_loopback(planner_url) || is_given && is_named
}

fn under_way() -> Failure {
    let message = "another call is under way";
    Failure::new(Code::RoundRunning, message, "Wait for its answer, or cancel it.")
}

fn cancelled() -> Failure {
    let advice = "A decision that was sent counts: send it again for its answer.";
    Failure::new(Code::ConnectionLost, "the call was cancelled", advice)
}

fn unleased() -> Failure {
    Failure::new(Code::ValueInvalid, "no step is leased", "Lease one with surety_lease.")
}

/// Gives a step back that a call leased after its client gave it up.
async fn give_back(mut executor: Executor, leased: v1::LeaseStepResponse) {
    let Some(lease) = leased.lease else { return };
    let v1::StepLease { run_id, step_id, lease_epoch, .. } = lease;
    let fence = Some(v1::StepFence { run_id, step_id, lease_epoch });
    let reason = "the call of the agent was cancelled".to_owned();
    let request = v1::ReleaseStepRequest { fence, reason };
    if let Err(status) = executor.release_step(within_time(request, Duration::ZERO)).await {
        note(&format!("surety: a step was leased for a cancelled call and not released: {status}"));
    }
}

async fn beat(mut executor: Executor, driver_id: String, fence: v1::StepFence, every: Duration) {
    let mut ticks = tokio::time::interval(every);
    loop {
        ticks.tick().await;
        let request =
            v1::HeartbeatRequest { driver_id: driver_id.clone(), fences: vec![fence.clone()] };
        match executor.heartbeat(within_time(request, Duration::ZERO)).await {
            // The next call says it.
            Ok(answer) if !answer.get_ref().lost.is_empty() => return,
            // A passing error; the lease lasts longer than one interval.
            Ok(_) | Err(_) => {}
        }
    }
}

/// No step was ready; what the named run does meanwhile.
fn nothing_leased(answer: &v1::LeaseStepResponse) -> Answer {
    let next = "no step needs a decision now; call surety_lease again";
    let mut text = next.to_owned();
    let mut value = json!({"leased": false, "what_next": next});
    if let Ok(state) = v1::RunState::try_from(answer.run_state)
        && state != v1::RunState::Unspecified
    {
        let state = run_state(state);
        text = format!("{text}\nthe run is {state}");
        value["run_state"] = json!(state);
    }
    if let Some(blocked) = &answer.blocked {
        let question = one_line(&blocked.question);
        text = format!("{text}, until: {}\n{question}", one_line(&blocked.unblocks));
        value["blocked"] = wire_json::message("Blocked", blocked).to_serde();
    }
    Answer { text: bounded(text), value }
}

fn context_text(context: &v1::StepContext) -> String {
    let step = context.step.as_ref().map(|step| step.id.as_str()).unwrap_or_default();
    let mut text = format!("step {step}, turn {}\n", context.turn);
    for message in &context.messages {
        text.push_str(&message.text);
        text.push('\n');
    }
    text.push_str(ANSWER);
    text
}

fn answer_text(answer: &v1::SubmitDecisionResponse) -> String {
    let mut lines = vec![format!("outcome {}", outcome(answer.outcome()))];
    let problem = answer.problem.as_ref().map(|it| format!("{}: {}", it.code, it.message));
    let parts =
        [problem.unwrap_or_default(), answer.correction.clone(), answer.observation.clone()];
    lines.extend(parts.into_iter().filter(|part| !part.is_empty()));
    let warnings = answer.warnings.iter();
    lines.extend(warnings.map(|it| format!("{}: {}", it.code, one_line(&it.message))));
    lines.push(next_of(answer));
    lines.join("\n")
}

/// What an agent does after a decision.
fn next_of(answer: &v1::SubmitDecisionResponse) -> String {
    match &answer.next {
        Some(next) => format!("turn {} is next", next.turn),
        None => "the step is no longer leased; call surety_lease, which says how the run goes on"
            .to_owned(),
    }
}

impl Decide {
    /// The decision as text, which the executor reads.
    fn into_text(self, most: usize) -> Result<String, Failure> {
        let text = self.decision.as_str().map_or_else(|| self.decision.to_string(), str::to_owned);
        if text.len() <= most {
            return Ok(text);
        }
        let message = format!("the decision has {} bytes, and {most} are allowed", text.len());
        Err(Failure::new(Code::ValueInvalid, message, "Make it shorter.").at("decision"))
    }
}

#[cfg(test)]
mod tests {
    use super::may_have_token;

    #[test]
    fn the_token_of_the_data_folder_leaves_this_machine_for_no_planner() {
        let (here, there) = ("http://127.0.0.1:7401", "https://planner.example");
        assert!(may_have_token(here, false, false) && may_have_token(here, true, true));
        assert!(may_have_token(there, true, true));
        // Its own token, and an address that the data folder names.
        assert!(!may_have_token(there, false, true) && !may_have_token(there, true, false));
    }
}
