//! The end of a call: its outcome is recorded in one transaction with the next decision, unless
//! that needs to read the workspace.

use super::call_setup::{Done, called_off};
use super::ended::Ended;
use super::evidence::{self, Record};
use super::judge::{Judgement, Passed};
use super::leased_run::LeasedRun;
use super::outcome;
use super::repeat;
use crate::driver::{Content, Driver, Next, Reply, Situation};
use crate::fuse::repeat::Repeat;
use crate::fuse::{limits, replies};
use surety_common::domain::decision::{Action, Usage};
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::turns::ClosedCall;
use surety_common::domain::journal::Entry;
use surety_common::domain::machine::Refusal;
use surety_common::domain::receipt::counts_as_evidence;
use surety_common::domain::step::StepState;

/// What is stored of a call before its outcome.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stored<'p> {
    /// Nothing: its turn is recorded with the outcome. It had no effect and is repeated if that change is lost.
    Nothing(&'p Passed),
    /// Its turn and its intent. It had no effect under this lease: its outcome follows from the row, as the answer of a
    /// worker does, or it is repeated. The change that began its step may not be committed yet, and is lost with it.
    Turn,
    /// Its intent and the beginning of its step are committed, and it may have had an effect.
    Intent,
}

/// Records the outcome of a call, with its turn if that is not stored yet. Returns the steps that started because
/// it was the last call of its step.
pub(super) async fn conclude(
    run: &LeasedRun,
    index: usize,
    done: Done,
    stored: Stored<'_>,
) -> Result<Vec<usize>, Ended> {
    called_off(run, &done.outcome)?;
    let driver = run.driver()?;
    let left = run.time_left(index).await;
    let make = |done: &Done| evidence::record(run, index, done);
    let (done, record) = evidence::keep(run, done, left, make).await?;
    let conclusion = |draft: &mut Draft| match stored {
        Stored::Nothing(passed) if !begin(draft, run, index, passed)? => Ok(Vec::new()),
        Stored::Nothing(_) | Stored::Turn | Stored::Intent => {
            end_call(draft, driver, (run, index), &done, &record)
        }
    };
    match stored {
        Stored::Nothing(_) | Stored::Turn => run.change(conclusion).await,
        Stored::Intent => Box::pin(run.insist(conclusion)).await,
    }
}

/// Records the turn of a call that changed nothing so far. Returns false when a limit forbids it by now: then the
/// call has no outcome to record.
pub(super) fn begin(
    draft: &mut Draft,
    run: &LeasedRun,
    index: usize,
    passed: &Passed,
) -> Result<bool, Refusal> {
    let Passed { judgement, usage } = passed;
    let recorded = outcome::turn(draft, run, index, limits::Next::Call, |draft| {
        outcome::record_applied(draft, run, index, judgement, *usage)
    })?;
    Ok(recorded.is_some())
}

/// Records the outcome of a call and what follows from it.
pub(super) fn end_call(
    draft: &mut Draft,
    driver: &dyn Driver,
    (run, index): (&LeasedRun, usize),
    done: &Done,
    record: &Record,
) -> Result<Vec<usize>, Refusal> {
    let place = u32::try_from(index).unwrap_or(u32::MAX);
    let receipt = record.receipt.clone();
    let proves = counts_as_evidence(&receipt, place, draft.execution().plan_revision);
    let closed = ClosedCall { receipt, output: record.output.clone(), proves };
    draft.close_call(index, closed)?;
    for attachment in &record.attachments {
        draft.journal(Entry::Output(attachment.clone()));
    }
    // A first call repeats none. Where it ends its step, nothing of it has to be remembered.
    if draft.execution().step(index).is_some_and(|step| step.fuses.is_null()) {
        let started = follow(draft, driver, run, index, done)?;
        if draft.execution().step(index).is_some_and(|step| step.state != StepState::Done) {
            count_repeat(draft, run, index, done)?;
        }
        return Ok(started);
    }
    match count_repeat(draft, run, index, done)? {
        Repeat::Terminate => Ok(Vec::new()),
        Repeat::Remind | Repeat::Ok => follow(draft, driver, run, index, done),
    }
}

fn count_repeat(
    draft: &mut Draft,
    run: &LeasedRun,
    index: usize,
    done: &Done,
) -> Result<Repeat, Refusal> {
    let turn = repeat::turn_of(draft.execution(), run, index, done);
    let context = (&run.graph, &run.spec.limits);
    replies::count_repeat(draft, context, index, turn, &done.call.tool_call.name)
}

/// What follows from a call: the end of a step that wrote where it may not, else the next decision of a driver that replies at
/// once, if it needs no further turn.
fn follow(
    draft: &mut Draft,
    driver: &dyn Driver,
    run: &LeasedRun,
    index: usize,
    done: &Done,
) -> Result<Vec<usize>, Refusal> {
    let step = run.plan.steps.get(index).ok_or(Refusal::Meaningless)?;
    let progress = draft.execution().steps.get(index).ok_or(Refusal::Meaningless)?;
    if !done.violation.is_empty() {
        draft.fail_step(&run.graph, index, done.violation.clone())?;
        return Ok(Vec::new());
    }
    let failure = done.outcome.failure();
    let situation = Situation { step, progress, failure: failure.as_deref() };
    match driver.next(&situation) {
        Next::Now(Reply { content: Content::Replan(reason), .. }) => {
            draft.fail_step(&run.graph, index, reason)?;
            Ok(Vec::new())
        }
        Next::Now(Reply { content: Content::Decision(decision), usage })
            if decision.action == Action::NextPlan
                && step.verify.is_empty()
                // Its work is pushed first.
                && run.spec.repository.is_none() =>
        {
            let judgement = Judgement::closing(run, draft.execution(), index, *decision);
            if judgement.passed() {
                close(draft, run, index, &judgement, usage)
            } else {
                Ok(Vec::new())
            }
        }
        // The next call, text to parse, checks that need a turn of their own, or a reply that
        // arrives later.
        Next::Now(_) | Next::Later(_) => Ok(Vec::new()),
    }
}

fn close(
    draft: &mut Draft,
    run: &LeasedRun,
    index: usize,
    judgement: &Judgement,
    usage: Usage,
) -> Result<Vec<usize>, Refusal> {
    outcome::record_applied(draft, run, index, judgement, usage)?;
    outcome::finish(draft, run, index, &judgement.decision)
}
