//! The driver of runs whose decisions a model of this service makes: a participant like an agent outside, over the
//! same functions. The loop is that of [`surety_model::serve`]; here is what it leases, and what follows for a step.

mod schema;

pub(crate) use crate::participant::HeldWait;

use crate::participant::{
    LeasedStep, Participants, StepScene, Submission, first_words, step_messages,
};
use schema::decision_schema;
use std::time::Duration;
use surety_common::clock;
use surety_common::domain::execution::StepProgress;
use surety_common::domain::fault::{Fault, FaultCode, Reason};
use surety_common::domain::identity::Role;
use surety_common::domain::model::MODEL_NAME;
use surety_common::wire::caller::Caller;
use surety_model::ReplyPart;
use surety_model::{
    Answer, Draining, Endpoints, Held, ModelUse, Question, ReplySchema, Reserved, Said, Supplier,
    ask, retry_at, serve, waits_for,
};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// How long a lease is given back before it is left to expire.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a stored reply is followed whose turn takes long, before its lease is given back.
const FOLLOWED: Duration = Duration::from_secs(3600);

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
        let Some(caller) =
            Caller::internal(MODEL_NAME, Role::Driver, "/surety.v1.ExecutorService/SubmitDecision")
        else {
            tracing::error!(
                "model: SubmitDecision has no rule, so no model decides; report the error"
            );
            return;
        };
        let begin = first_words(&self.participants.workshop);
        for (profile, said) in self.endpoints.without_room(&begin) {
            tracing::warn!(
                profile,
                code = "model_context_too_long",
                "executor: runs that need this model profile end as aborted: {said}"
            );
        }
        let (turns, draining) = (self.turns, Draining { begun: drain, grace: self.grace });
        let driver = Driver { given: self, caller, schema: decision_schema() };
        serve(driver, turns, draining).await;
    }
}

struct Driver {
    given: ModelLoop,
    caller: Caller,
    schema: ReplySchema,
}

impl Supplier for Driver {
    type Leased = LeasedStep;

    async fn lease(&self, patience: Duration) -> Result<Option<LeasedStep>, Fault> {
        self.given.participants.lease_for_model(patience).await
    }

    /// Takes the turns of a leased step, until its lease is over.
    async fn work(&self, leased: LeasedStep, drain: &Draining) {
        let LeasedStep { lease, mut scene } = leased;
        let (run_id, lease_epoch) = (lease.run_id, lease.lease_epoch);
        loop {
            let Some(wait_id) = scene.progress().wait.as_deref().map(|wait| wait.id) else {
                return;
            };
            let held = HeldWait { run_id, wait_id, lease_epoch };
            match self.turn(held, &scene, drain).await {
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
}

impl Driver {
    /// One turn: asks the model, and submits what it said.
    async fn turn(
        &self,
        held: HeldWait,
        scene: &StepScene,
        drain: &Draining,
    ) -> Result<Follows, Fault> {
        let progress = scene.progress();
        let ModelLoop { participants, endpoints, model_wait, .. } = &self.given;
        let model = endpoints
            .for_use(use_of(&progress))
            .map_err(|error| Fault::new(FaultCode::Internal, error.to_string()))?;
        let words = participants.words(held);
        let spec = &scene.record.spec;
        let reserved = Reserved {
            tokens: spec.limits.token_budget.map(|_| progress.reserved.tokens),
            cost_micros: spec.limits.cost_budget_micros.map(|_| progress.reserved.cost_micros),
            is_most: false,
        };
        let mut question = Question {
            service: "executor",
            spec,
            prompt: &participants.workshop.prompt,
            messages: &step_messages(scene, &participants.workshop),
            schema: Some(&self.schema),
            reserved,
        };
        let cancel = CancellationToken::new();
        let mut arrives = |part: ReplyPart<'_>| words.take(part);
        let answer = loop {
            let asking = ask(&*model, &question, &mut arrives, &cancel);
            match drain.while_held(asking, participants.lease_lost(held)).await {
                Held::Done(Answer::Short(need)) => {
                    let Some(part) = participants.reserve_for_reply(held, need).await? else {
                        return Ok(Follows::Nothing);
                    };
                    question.reserved = reserved.raised(part);
                }
                Held::Done(answer) => break answer,
                Held::Lost => return Ok(Follows::Nothing),
                Held::OutOfTime => {
                    self.release(held).await;
                    return Ok(Follows::Nothing);
                }
            }
        };
        match answer {
            Answer::Said(said) => self.submit(held, submission(held, scene, said), drain).await,
            // It was answered above.
            Answer::Short(_) => Ok(Follows::Nothing),
            Answer::Busy => {
                let now = clock::now();
                participants.give_back(held, Some(retry_at(now, now))).await?;
                Ok(Follows::Nothing)
            }
            Answer::TooLong(too_long) => {
                let used = too_long.used;
                participants.model_gives_up(held, (too_long.abort(), used)).await?;
                Ok(Follows::Nothing)
            }
            Answer::Away(away) => {
                let wait = progress.wait.as_deref().and_then(|wait| wait.model.as_deref());
                let before = wait.and_then(|model| model.away.as_ref());
                let waiting = waits_for(away, before, *model_wait, clock::now());
                participants.model_away(held, waiting).await?;
                Ok(Follows::Nothing)
            }
        }
    }

    /// Submits a reply, and follows its turn to the end.
    async fn submit(
        &self,
        held: HeldWait,
        submission: Submission,
        drain: &Draining,
    ) -> Result<Follows, Fault> {
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
            let paused = result.record.execution.paused.is_some() || drain.is_begun();
            match result.next {
                Some(_) if paused => {
                    self.release(held).await;
                    return Ok(Follows::Nothing);
                }
                Some(next) => return Ok(Follows::Turn(Box::new(next))),
                None if !result.is_pending => return Ok(Follows::Nothing),
                None if Instant::now() >= deadline || drain.is_begun() => {
                    return Ok(Follows::Nothing);
                }
                None => {}
            }
        }
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
}

fn submission(held: HeldWait, scene: &StepScene, said: Said) -> Submission {
    let Said { text, usage, trace_parent, model } = said;
    Submission {
        run_id: held.run_id,
        step_id: scene.step().id,
        lease_epoch: held.lease_epoch,
        turn: scene.progress().rounds.saturating_add(1),
        text,
        usage: Some(usage),
        trace_parent,
        model: Some(Box::new(model)),
    }
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
    fn a_second_try_is_a_use_of_its_own() {
        let of = |corrections, attempt| {
            use_of(&StepProgress { corrections, attempt, ..StepProgress::default() })
        };
        assert_eq!(of(0, 1), ModelUse::Step);
        assert_eq!(of(1, 1), ModelUse::Retry);
        assert_eq!(of(0, 2), ModelUse::Retry);
    }
}
