//! The driver of runs whose decisions a model of this service makes: a participant like an agent outside, over the
//! same functions.
//!
//! ```text
//!   lease a decision --> conversation --> ask the model --reply--------> submit --> the next turn of the step
//!          ^                                   |  \--cut by its limit--> submit as cut: it is corrected
//!          |                                   +--no answer--> the run waits on `model`, offered again later
//!          +-- lease lost, drained: the connection is closed, another process takes the turn
//! ```

mod ask;

use crate::participant::{LeasedStep, MODEL_NAME, Participants, StepScene, Submission};
use ask::{Answer, Ask, ask};
use chrono::TimeDelta;
use std::sync::Arc;
use std::time::Duration;
use surety_common::clock;
use surety_common::domain::execution::StepProgress;
use surety_common::domain::fault::{Fault, FaultCode, Reason};
use surety_common::domain::identity::Role;
use surety_common::domain::model::AwayEndpoint;
use surety_common::wire::caller::Caller;
use surety_model::{Endpoints, ModelUse};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use crate::participant::HeldWait;

/// How long the loop waits for a lease before it looks whether it is to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause after an error of the database.
const AFTER_ERROR: Duration = Duration::from_millis(500);
/// How long a stored reply is followed whose turn takes long, before its lease is given back.
const FOLLOWED: Duration = Duration::from_secs(3600);
/// The shortest and the longest time until an endpoint that does not answer is asked again for one wait.
const SHORTEST_PAUSE: TimeDelta = TimeDelta::milliseconds(500);
const LONGEST_PAUSE: TimeDelta = TimeDelta::seconds(30);

/// What the loop works with.
pub(crate) struct ModelLoop {
    /// The participants of this process.
    pub(crate) participants: Participants,
    /// The models.
    pub(crate) endpoints: Endpoints,
    /// How many steps the models work on at a time.
    pub(crate) turns: usize,
    /// How long a run waits for an endpoint that does not answer.
    pub(crate) model_wait: Duration,
    /// For how long calls under way go on once the process drains.
    pub(crate) grace: Duration,
}

/// What follows for the step.
enum Follows {
    /// It goes on under the same lease.
    Turn(Box<StepScene>),
    /// The lease is over, or was given back.
    Nothing,
}

impl ModelLoop {
    /// Leases decisions and makes them until `drain`; then waits for the calls under way.
    pub(crate) async fn run(self, drain: CancellationToken) {
        let Some(caller) = caller() else {
            tracing::error!(
                "model: SubmitDecision has no rule, so no model decides; report the error"
            );
            return;
        };
        let driver = Arc::new(Driver { given: self, caller, drain: drain.clone() });
        let places = Arc::new(Semaphore::new(driver.given.turns));
        let tasks = TaskTracker::new();
        while !drain.is_cancelled() {
            let place = tokio::select! {
                () = drain.cancelled() => break,
                place = Arc::clone(&places).acquire_owned() => place,
            };
            // The semaphore is never closed.
            let Ok(place) = place else { break };
            let leased = tokio::select! {
                leased = driver.given.participants.lease_for_model(PATIENCE) => leased,
                () = ends(&drain) => break,
            };
            match leased {
                Ok(Some(leased)) => {
                    let driver = Arc::clone(&driver);
                    tasks.spawn(async move {
                        driver.work(leased).await;
                        drop(place);
                    });
                }
                Ok(None) => {}
                Err(fault) => {
                    tracing::warn!(%fault, "model: no decision could be leased; retrying");
                    sleep(AFTER_ERROR).await;
                }
            }
        }
        tasks.close();
        tasks.wait().await;
    }
}

/// Completes a while after the process begins to drain: the offers have ended by then.
async fn ends(drain: &CancellationToken) {
    drain.cancelled().await;
    sleep(AFTER_ERROR).await;
}

fn caller() -> Option<Caller> {
    Caller::internal(MODEL_NAME, Role::Driver, "/surety.v1.ExecutorService/SubmitDecision")
}

struct Driver {
    given: ModelLoop,
    caller: Caller,
    drain: CancellationToken,
}

impl Driver {
    /// Takes the turns of a leased step, until its lease is over.
    async fn work(&self, leased: LeasedStep) {
        let LeasedStep { lease, mut scene } = leased;
        let (run_id, lease_epoch) = (lease.run_id, lease.lease_epoch);
        loop {
            let Some(wait_id) = scene.progress().wait.as_deref().map(|wait| wait.id) else {
                return;
            };
            let held = HeldWait { run_id, wait_id, lease_epoch };
            match self.turn(held, &scene).await {
                Ok(Follows::Turn(next)) => scene = *next,
                Ok(Follows::Nothing) => return,
                Err(fault) if is_over(&fault) => return,
                Err(fault) => {
                    tracing::warn!(%run_id, %fault, "model: a turn could not be taken; it is offered again");
                    self.release(held).await;
                    return;
                }
            }
        }
    }

    /// One turn: asks the model, and submits what it said.
    async fn turn(&self, held: HeldWait, scene: &StepScene) -> Result<Follows, Fault> {
        let progress = scene.progress();
        let model = self
            .given
            .endpoints
            .for_use(use_of(&progress))
            .map_err(|error| Fault::new(FaultCode::Internal, error.to_string()))?;
        let participants = &self.given.participants;
        let words = participants.words(held);
        let given = Ask { model: &*model, scene, workshop: &participants.workshop, words: &words };
        let cancel = CancellationToken::new();
        let answered = tokio::select! {
            answered = ask(&given, &cancel) => answered,
            // The connection is closed with the future.
            () = self.given.participants.lease_lost(held) => return Ok(Follows::Nothing),
            () = self.out_of_time() => {
                self.release(held).await;
                return Ok(Follows::Nothing);
            }
        };
        match answered {
            Answer::Said(said) => {
                let submission = Submission {
                    run_id: held.run_id,
                    step_id: scene.step().id,
                    lease_epoch: held.lease_epoch,
                    turn: progress.rounds.saturating_add(1),
                    text: said.text,
                    usage: said.usage,
                    trace_parent: said.trace_parent,
                    model: Some(Box::new(said.model)),
                };
                self.submit(held, submission).await
            }
            Answer::Away { endpoint, why } => {
                let away = self.away(&progress, endpoint, why);
                self.given.participants.model_away(held, away).await?;
                Ok(Follows::Nothing)
            }
        }
    }

    /// Submits a reply, and follows its turn to the end.
    async fn submit(&self, held: HeldWait, submission: Submission) -> Result<Follows, Fault> {
        let deadline = Instant::now() + FOLLOWED;
        loop {
            // A lease that is lost does not undo a stored reply.
            let lost = self.given.participants.lease_lost(held);
            let submitting = self.given.participants.submit(&self.caller, submission.clone());
            let result = tokio::select! {
                result = submitting => result?,
                () = async {
                    lost.await;
                    std::future::pending::<()>().await;
                } => return Ok(Follows::Nothing),
            };
            let paused = result.record.execution.paused.is_some() || self.drain.is_cancelled();
            match result.next {
                Some(_) if paused => {
                    self.release(held).await;
                    return Ok(Follows::Nothing);
                }
                Some(next) => return Ok(Follows::Turn(Box::new(next))),
                None if !result.is_pending => return Ok(Follows::Nothing),
                None if Instant::now() >= deadline || self.drain.is_cancelled() => {
                    return Ok(Follows::Nothing);
                }
                None => {}
            }
        }
    }

    /// Completes once the process has drained for as long as calls may go on.
    async fn out_of_time(&self) {
        self.drain.cancelled().await;
        sleep(self.given.grace).await;
    }

    async fn release(&self, held: HeldWait) {
        let giving = self.given.participants.give_back(held, None);
        match timeout_at(Instant::now() + PATIENCE, giving).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => {
                tracing::warn!(run_id = %held.run_id, %fault, "model: a lease could not be given back; it expires");
            }
            Err(_) => {
                tracing::warn!(run_id = %held.run_id, "model: a lease could not be given back in time; it expires");
            }
        }
    }

    fn away(&self, progress: &StepProgress, endpoint: String, why: String) -> AwayEndpoint {
        let now = clock::now();
        let wait = progress.wait.as_deref().and_then(|wait| wait.model.as_deref());
        let since = wait.and_then(|model| model.away.as_ref()).map_or(now, |away| away.since);
        let model_wait = TimeDelta::from_std(self.given.model_wait).unwrap_or(TimeDelta::MAX);
        let until = since.checked_add_signed(model_wait).unwrap_or(now);
        AwayEndpoint { endpoint, why, since, until, retry_at: now + pause_after(now - since) }
    }
}

/// The longer an endpoint does not answer, the less often it is asked.
fn pause_after(away: TimeDelta) -> TimeDelta {
    (away / 4).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

/// A turn after a correction, and a step that failed before, are second tries.
fn use_of(progress: &StepProgress) -> ModelUse {
    match progress.corrections > 0 || progress.attempt > 1 {
        true => ModelUse::Retry,
        false => ModelUse::Step,
    }
}

/// Whether the run, the step or the lease has ended: there is nothing to give back.
fn is_over(fault: &Fault) -> bool {
    matches!(
        fault.reason,
        Reason::Service(
            FaultCode::LeaseLost
                | FaultCode::RunTerminal
                | FaultCode::RunNotFound
                | FaultCode::StepNotFound
                | FaultCode::TurnConflict
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_asked_less_often_the_longer_it_does_not_answer() {
        for (away_s, pause_ms) in [(0, 500), (4, 1000), (60, 15_000), (3600, 30_000)] {
            let pause = pause_after(TimeDelta::seconds(away_s));
            assert_eq!(pause, TimeDelta::milliseconds(pause_ms), "after {away_s} s");
        }
    }

    #[test]
    fn a_second_try_is_a_use_of_its_own() {
        let of = |corrections, attempt| {
            use_of(&StepProgress { corrections, attempt, ..StepProgress::default() })
        };
        assert_eq!(of(0, 1), ModelUse::Step);
        assert_eq!(of(1, 1), ModelUse::Retry);
        assert_eq!(of(0, 2), ModelUse::Retry);
    }
}
