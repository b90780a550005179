//! Existing runs: reading, following, pausing, cancelling, answering.

mod budget;
mod confirmation;
mod grant;
mod person;
mod shown;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use budget::Extension;
pub(crate) use confirmation::Confirmation;
pub(crate) use grant::Granted;
pub(crate) use watch::{Watch, Watched};

use crate::call::Call;
use crate::planner::Planner;
use person::Person;
use shown::{check_digest, check_shown};
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::wait_rows::WaitKind;
use surety_common::domain::execution::{Graph, Wait};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::journal::{Actor, Answer};
use surety_common::domain::machine::Refusal;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::run::RunRecord;
use surety_common::domain::stop::{StopReason, WaitingOn};
use surety_common::schema::check_answer;
use surety_common::store::{self, Commit, Outcome, SignedRun, Topic};
use surety_common::telemetry::trace;
use surety_common::wire::run::DatedVerdict;
use surety_common::wire::v1;
use uuid::Uuid;

/// The field of an answer that names the digest of its question.
const QUESTION: &str = "question_digest";

impl Planner {
    /// One run.
    ///
    /// # Errors
    /// `run_not_found`, `database_unavailable`.
    pub async fn find(&self, run_id: Uuid) -> Result<RunRecord, Fault> {
        store::find_run(&self.pool, run_id).await?.ok_or_else(|| not_found(run_id))
    }

    /// The latest verdict on a run, if there is one.
    ///
    /// # Errors
    /// `database_unavailable`.
    pub async fn verdict(&self, record: &RunRecord) -> Result<Option<DatedVerdict>, Fault> {
        match record.execution.counters.verdict_sequence {
            0 => Ok(None),
            sequence => Ok(store::verdict(&self.pool, record.spec.id, sequence).await?),
        }
    }

    /// The rows of a run with their signatures, from its beginning.
    ///
    /// # Errors
    /// `run_not_found`, `database_unavailable`.
    pub(crate) async fn signed(&self, run_id: Uuid) -> Result<SignedRun, Fault> {
        let signed = SignedRun::find(&self.pool, run_id).await?;
        signed.ok_or_else(|| not_found(run_id))
    }

    /// Cancels a run. A cancelled run does not change.
    ///
    /// # Errors
    /// `run_not_found`, `run_terminal` when it ended otherwise, `database_unavailable`.
    pub(crate) async fn cancel(
        &self,
        run_id: Uuid,
        call: &Call,
        reason: &str,
    ) -> Result<v1::Run, Fault> {
        let message = said("cancelled", reason, call.by());
        self.change_once(run_id, call, |record, draft| {
            if record.execution.stop_reason() == Some(StopReason::Cancelled) {
                return Ok(());
            }
            draft.cancel(&graph_of(record), message.clone()).map_err(|_| terminal(record))
        })
        .await
    }

    /// Pauses a run: running turns end, and no new ones start. A paused run does not change.
    ///
    /// # Errors
    /// `run_not_found`, `run_terminal`, `database_unavailable`.
    pub(crate) async fn pause(
        &self,
        run_id: Uuid,
        call: &Call,
        reason: &str,
    ) -> Result<v1::Run, Fault> {
        let cause = said("paused", reason, call.by());
        self.change_once(run_id, call, |record, draft| {
            if record.execution.state.is_terminal() {
                return Err(terminal(record));
            }
            if record.execution.paused.is_some() {
                return Ok(());
            }
            let wait = Wait::new(
                Uuid::now_v7(),
                WaitingOn::Operator,
                draft.now(),
                format!("call ResumeRun; it was {cause}"),
            );
            draft.pause(&graph_of(record), wait, cause.clone()).map_err(|_| terminal(record))
        })
        .await
    }

    /// Resumes a paused run.
    ///
    /// # Errors
    /// `run_not_found`, `run_terminal`, `run_not_paused`, `permission_denied` for a driver of the run,
    /// `database_unavailable`.
    pub(crate) async fn resume(
        &self,
        run_id: Uuid,
        call: &Call,
        reason: &str,
    ) -> Result<v1::Run, Fault> {
        let cause = said("resumed", reason, call.by());
        let person = Person::of(self, run_id, call).await?;
        let resumed = self.change_once(run_id, call, |record, draft| {
            person.check(record)?;
            if record.execution.state.is_terminal() {
                return Err(terminal(record));
            }
            draft.resume(&graph_of(record), cause.clone()).map_err(|_| not_paused(record))
        });
        let run = resumed.await?;
        self.waker.wake_now(Topic::Ready);
        Ok(run)
    }

    /// Answers the question of a waiting run. The first answer counts.
    ///
    /// # Errors
    /// `run_not_found`, `wait_closed`, `type_mismatch` for an answer that is not among the choices,
    /// `answer_invalid` for one that does not fit the schema, `confirmation_mismatch` where another question was shown,
    /// `permission_denied` for a driver of the run, `database_unavailable`.
    pub(crate) async fn answer(
        &self,
        run_id: Uuid,
        wait_id: Uuid,
        call: &Call,
        (answer, question_digest): (String, &str),
    ) -> Result<v1::Run, Fault> {
        let person = Person::of(self, run_id, call).await?;
        let by = Actor(call.by().into());
        let answer = Answer { wait_id, by, text: answer };
        let answered = self.change_once(run_id, call, |record, draft| {
            person.check(record)?;
            give_answer(record, draft, (&answer, question_digest))
        });
        let run = answered.await?;
        self.waker.wake_now(Topic::Ready);
        Ok(run)
    }

    /// Applies one change to the current run, and again when another writer changed it first.
    pub(crate) async fn change(
        &self,
        run_id: Uuid,
        actor: &Actor,
        change: impl Fn(&RunRecord, &mut Draft) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        loop {
            let record = self.find(run_id).await?;
            let mut draft = Draft::new(record.execution.clone(), actor.clone(), self.now());
            change(&record, &mut draft)?;
            if draft.is_empty() {
                return Ok(());
            }
            let span = trace::plan_span("planner", &run_id.to_string(), &record.spec.trace_parent);
            let span_id = trace::span_id(&span);
            let commit = Commit::new(draft.into_write(), span, span_id)
                .notify_on_commit(Topic::Moved(run_id));
            if self.committer.commit(commit).await? == Outcome::Applied {
                return Ok(());
            }
        }
    }
}

fn give_answer(
    record: &RunRecord,
    draft: &mut Draft,
    (answer, question_digest): (&Answer, &str),
) -> Result<(), Fault> {
    let wait =
        record.execution.waits().find(|wait| wait.id == answer.wait_id).ok_or_else(|| {
            Fault::new(FaultCode::WaitClosed, "the wait was already answered; read the run's state")
        })?;
    check_question(record, wait, question_digest)?;
    if !wait.choices.is_empty() && !wait.choices.contains(&answer.text) {
        let choices = wait.choices.join(", ");
        let message = format!("{:?} is not one of the accepted answers: {choices}", answer.text);
        return Err(Problem::at(Code::TypeMismatch, "answer", message).into());
    }
    if !wait.answer_schema.is_empty() {
        check_answer(&wait.answer_schema, &answer.text)?;
    }
    let answerable = wait.step_index.filter(|_| wait.kind() == WaitKind::Question);
    let Some(index) = answerable else {
        return Err(Fault::new(
            FaultCode::WaitClosed,
            format!("this wait accepts no answer; to end it: {}", wait.unblocks),
        ));
    };
    let graph = graph_of(record);
    let closed = |refusal: Refusal| Fault::new(FaultCode::WaitClosed, refusal.to_string());
    draft.answer_step(&graph, index, answer).map_err(closed)
}

/// Refuses an answer to another question than the step asked: `answered` is the digest of the one that the user was shown,
/// where the client names it.
fn check_question(record: &RunRecord, wait: &Wait, answered: &str) -> Result<(), Fault> {
    if wait.kind() != WaitKind::Question {
        return Ok(());
    }
    let shown = wait.digest_of_question();
    // A wait that an earlier version opened has no digest.
    let asked = match wait.question_digest.as_str() {
        "" => shown.clone(),
        kept => kept.to_owned(),
    };
    if !answered.is_empty() {
        check_digest(&asked, answered, QUESTION)?;
    }
    check_shown(&asked, Some(shown), QUESTION)?;
    // The wait of a blocked run is a copy of that of a step, and `GetRun` and webhooks show its question.
    match record.execution.wait.as_ref().filter(|copy| copy.id == wait.id) {
        Some(copy) => check_shown(&asked, Some(copy.digest_of_question()), QUESTION),
        None => Ok(()),
    }
}

fn graph_of(record: &RunRecord) -> Graph {
    record.plan.as_deref().map(Graph::of).unwrap_or_default()
}

/// The cause text of an action by a caller.
fn said(what: &str, reason: &str, by: &str) -> String {
    match reason {
        "" => format!("{what} by {by}"),
        reason => format!("{what} by {by}: {reason}"),
    }
}

/// The error names what the run waits for, because resuming it has no effect.
fn not_paused(record: &RunRecord) -> Fault {
    let state = record.execution.state.as_str();
    let message = match &record.execution.wait {
        Some(wait) => {
            let (on, unblocks) = (wait.waiting_on.as_str(), &wait.unblocks);
            format!("the run is {state} and not paused; it waits for {on}: {unblocks}")
        }
        None => format!("the run is {state} and not paused"),
    };
    Fault::new(FaultCode::RunNotPaused, message)
}

pub(crate) fn not_found(run_id: Uuid) -> Fault {
    Fault::new(FaultCode::RunNotFound, format!("no run has the id {run_id}")).with_field("run_id")
}

/// The refusal of a call that a run which ended does not take.
pub(crate) fn terminal(record: &RunRecord) -> Fault {
    let state: RunState = record.execution.state;
    let reason = record.execution.stop_reason().map_or("", StopReason::as_str);
    Fault::new(
        FaultCode::RunTerminal,
        format!("the run already ended as {} ({reason}), which is final", state.as_str()),
    )
}
