//! Compares a run's row with its journal.

use super::observations;
use super::run::Replay;
use super::steps::Used;
use anyhow::{Context, Result, ensure};
use surety_common::domain::confirmation::is_said;
use surety_common::domain::decision::Usage;
use surety_common::domain::execution::{CallAnswer, StepProgress};
use surety_common::domain::machine::run::RunState;
use surety_common::domain::plan::Evidence;
use surety_common::domain::receipt::{EvidenceReceipt, EvidenceSource, Fact, verify_chain};
use surety_common::domain::run::RunRecord;
use surety_common::domain::todo::RunTodos;

pub(super) fn compare(replay: &Replay, record: &RunRecord, events: usize) -> Result<()> {
    let row = &record.execution;
    ensure!(usize::try_from(row.sequence)? == events, "{events} events of {}", row.sequence);
    ensure!(
        row.state == replay.state,
        "the row is {:?}, the journal {:?}",
        row.state,
        replay.state
    );
    ensure!(row.terminal.is_some() == row.state.is_terminal(), "{:?}", row.terminal);
    let said = row.terminal.as_ref().map(|terminal| terminal.stop_reason);
    ensure!(said == replay.stop_reason, "it ended as {said:?}, not {:?}", replay.stop_reason);
    ensure!(row.lease_owner.is_none() || !row.state.is_terminal(), "an ended run is leased");
    plan(replay, record)?;
    fork(replay, record)?;
    todos(replay, record)?;
    replay.grants.compare(&row.grants)?;
    for (step, progress) in replay.plan.steps.iter().zip(&row.steps) {
        one_step(replay, &step.id, progress).with_context(|| format!("step {}", step.id))?;
    }
    verify_chain(&replay.receipts)?;
    for receipt in &replay.receipts {
        ensure!(replay.has_output(receipt), "the output of receipt {} is gone", receipt.seq);
    }
    if row.state == RunState::Done {
        proven(replay)?;
    }
    counters(replay, record)
}

/// The stored plan is the one in the journal.
fn plan(replay: &Replay, record: &RunRecord) -> Result<()> {
    let row = &record.execution;
    if record.plan.is_none() {
        ensure!(row.plan_revision == 0, "plan revision {} is gone", row.plan_revision);
        return Ok(());
    }
    ensure!(row.plan_revision == replay.revision, "the plan is revision {}", replay.revision);
    ensure!(row.steps.len() == replay.plan.steps.len(), "the plan has another number of steps");
    let digest = replay.plan.digest();
    ensure!(digest == record.plan_digest, "the plan is not what its digest says");
    Ok(())
}

/// A fork is one in its journal, and what it inherited was done at its start.
fn fork(replay: &Replay, record: &RunRecord) -> Result<()> {
    let is_fork = record.spec.forked_from.is_some();
    ensure!(replay.is_fork == is_fork, "the journal says {} to being a fork", replay.is_fork);
    Ok(())
}

/// The todos are what the calls made of them. Their times are those of the changes, to a microsecond or two.
fn todos(replay: &Replay, record: &RunRecord) -> Result<()> {
    let plain = |todos: &RunTodos| {
        let mut all = todos.current(&replay.plan.todos);
        all.extend(todos.counted(&replay.plan.todos, replay.revision));
        all.iter_mut().for_each(|todo| todo.created_at = None);
        all
    };
    let (row, journal) = (plain(&record.execution.todos), plain(&replay.todos));
    ensure!(row == journal, "the row has the todos {row:?}, the journal {journal:?}");
    Ok(())
}

fn one_step(replay: &Replay, id: &str, progress: &StepProgress) -> Result<()> {
    let step = replay.steps.get(id).context("it is not in the journal")?;
    ensure!(step.state == progress.state, "{:?}, not {:?}", progress.state, step.state);
    ensure!(step.attempt == progress.attempt, "attempt {}, not {}", progress.attempt, step.attempt);
    let row = Used {
        turns: progress.rounds,
        calls: progress.tool_calls,
        succeeded: progress.script_position,
        proofs: progress.proofs,
        corrections: progress.corrections,
    };
    ensure!(row == step.used, "the row has {row:?}, the journal {:?}", step.used);
    let open = progress.open_call.as_ref().map(|call| call.call_id);
    let same = step.open.iter().copied().eq(open);
    ensure!(same, "the row has {open:?} without an outcome, the journal {:?}", step.open);
    // Once it is used the row has none, and the journal does not say when that was.
    let answer = progress.answer.map(CallAnswer::as_str);
    let said = step.answer.as_deref();
    ensure!(answer.is_none() || answer == said, "{answer:?} is no answer that was given: {said:?}");
    Ok(())
}

fn counters(replay: &Replay, record: &RunRecord) -> Result<()> {
    let counters = &record.execution.counters;
    let receipts = &replay.receipts;
    let calls = |receipt: &&EvidenceReceipt| {
        (is_of_a_step(receipt) && !is_said(receipt)) || replay.calls.are_of_worker(receipt)
    };
    let of_steps = receipts.iter().filter(calls).count();
    let write = |fact: &Fact| matches!(fact, Fact::FileWritten { .. });
    let wrote = receipts.iter().any(|receipt| receipt.facts.iter().any(write));
    let verdict = replay.verdict.as_ref().map_or(0, |(sequence, _)| *sequence);
    let counted = usize::try_from(counters.receipts)?;
    ensure!(counted == receipts.len(), "{counted} receipts in the row, {}", receipts.len());
    let counted = usize::try_from(counters.tool_calls)?;
    ensure!(counted == of_steps, "{counted} tool calls in the row, {of_steps} in the journal");
    ensure!(counters.rounds == replay.turns, "{} turns, not {}", counters.rounds, replay.turns);
    ensure!(counters.last_receipt_digest == replay.last_digest(), "another last receipt");
    for (what, row, journal) in [
        ("replans", counters.replans, replay.replans),
        ("repairs", counters.repairs, replay.repairs),
        ("verifications", counters.verification_round, replay.verifications),
    ] {
        ensure!(row == journal, "{row} {what} in the row, {journal} in the journal");
    }
    let usage = replay.usage.plus(counters.usage_without_turn);
    ensure!(counters.usage == usage, "{:?} are used, not {usage:?}", counters.usage);
    let (reported, charged) = (counters.reported_usage, counters.charged_usage);
    let inside = |part: Usage, whole: Usage| {
        part.tokens <= whole.tokens && part.cost_micros <= whole.cost_micros
    };
    let apart = inside(replay.reported, reported) && inside(reported.plus(charged), counters.usage);
    ensure!(apart, "{reported:?} reported and {charged:?} charged of {:?}", counters.usage);
    let extended = counters.added_budget.is_zero() || replay.extensions > 0;
    ensure!(extended, "a budget was raised without an event");
    budgets(record)?;
    ensure!(counters.wrote == wrote, "whether files were written is said wrongly");
    let said = counters.verdict_sequence;
    ensure!(said == verdict, "the latest verdict is said to stand at {said}, not {verdict}");
    observations::compare(replay, record, wrote || record.spec.wrote_before())
}

/// What is reserved belongs to a turn that is awaited, and with what is used it stays inside the budget.
fn budgets(record: &RunRecord) -> Result<()> {
    let row = &record.execution;
    for (index, step) in row.steps.iter().enumerate() {
        let awaits = step.wait.as_deref().is_some_and(|wait| wait.kind().is_decision());
        let awaited = awaits || step.reply.is_some();
        let reserved = step.reserved;
        ensure!(awaited || reserved.is_zero(), "step {index} reserves {reserved:?} for nothing");
    }
    let (limits, reserved) = (row.limits_of(&record.spec.limits), row.reserved());
    for (budget, reserved) in
        [(limits.token_budget, reserved.tokens), (limits.cost_budget_micros, reserved.cost_micros)]
    {
        let inside = budget.is_none_or(|budget| reserved <= budget);
        ensure!(inside, "{reserved} are reserved of the budget {budget:?}");
    }
    Ok(())
}

/// An accepted run was proven.
fn proven(replay: &Replay) -> Result<()> {
    let (_, given) = replay.verdict.as_ref().context("accepted without a verdict")?;
    ensure!(given.verdict.accepted, "the last verdict refused");
    let needed = replay.plan.steps.iter().filter(|step| step.evidence == Evidence::Required);
    for step in needed {
        let proof = |receipt: &&EvidenceReceipt| {
            let worked = is_of_a_step(receipt) || receipt.reporter().is_some();
            receipt.success && receipt.step_id == step.id && worked
        };
        // What was done in another run was proven there.
        let inherited = replay.steps.get(&step.id).is_some_and(|step| step.inherited);
        let proven = inherited || replay.receipts.iter().any(|r| proof(&r));
        ensure!(proven, "step {} has no proof", step.id);
    }
    Ok(())
}

/// Whether a receipt is of a step's own call, and not of the runner's probe at the step's end.
fn is_of_a_step(receipt: &EvidenceReceipt) -> bool {
    !receipt.step_id.is_empty()
        && receipt.source != EvidenceSource::Probe
        && receipt.reporter().is_none()
}
