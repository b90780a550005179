//! Random plans under random work: the invariants that must hold in any order of events.

mod confirmation;
mod doubt;
mod ended;
mod grants;
mod model;
mod model_budget;
mod replan;
mod rows;
mod sleep;
mod step_deadline;
mod worker_call;
mod world;

use super::draft::{Draft, Ending};
use super::{Execution, Graph, StepProgress};
use crate::domain::decision::{Usage, UsageSource};
use crate::domain::journal::Entry;
use crate::domain::machine::Refusal;
use crate::domain::machine::run::{self, RunEvent, RunState};
use crate::domain::step::StepState;
use crate::domain::stop::StopReason;
use proptest::prelude::*;
use world::{Op, actor, now, ops, worlds};

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_a_run_stays_consistent(mut world in worlds(), ops in ops()) {
        for op in ops {
            world.play(op);
        }
    }

    #[test]
    fn from_every_state_a_run_reaches_done_when_every_party_acts(
        mut world in worlds(),
        ops in ops(),
    ) {
        for op in ops {
            world.play(op);
        }
        world.finish(&[Op::ResumeRun, Op::Revise, Op::Unblock, Op::Extend, Op::Resume(0), Op::Claim, Op::Recover, Op::LeaseSteps,
            Op::Finish(0), Op::Accept]);
        if let Some(reason) = world.execution.stop_reason() {
            prop_assert!(
                world.execution.state == RunState::Done || reason != StopReason::Accepted
            );
        }
    }

    #[test]
    fn a_run_in_which_everything_fails_comes_to_an_end(mut world in worlds(), ops in ops()) {
        for op in ops {
            world.play(op);
        }
        world.finish(&[Op::ResumeRun, Op::Revise, Op::Unblock, Op::FailWaiting(0), Op::Claim, Op::Recover, Op::LeaseSteps,
            Op::Fail(0), Op::Refuse]);
        prop_assert!(world.execution.state != RunState::Done || world.played(Op::Accept));
    }

    #[test]
    fn a_run_that_is_only_refused_ends_for_the_verdicts_own_reason(mut world in worlds()) {
        world.finish(&[Op::Revise, Op::Claim, Op::Recover, Op::LeaseSteps, Op::Finish(0), Op::Refuse]);
        prop_assert_eq!(world.execution.stop_reason(), Some(StopReason::AcceptCheckFailed));
        prop_assert_eq!(world.execution.counters.repairs, world.limits.max_repairs);
    }

    #[test]
    fn nothing_starts_while_a_run_is_paused_and_it_rests_once_nothing_is_under_way(
        mut world in worlds(),
        before in ops(),
        after in ops(),
    ) {
        for op in before {
            world.play(op);
        }
        world.play(Op::PauseRun);
        for op in after.into_iter().filter(|op| *op != Op::ResumeRun) {
            let running = world.execution.steps_in(StepState::Running).count();
            world.play(op);
            prop_assert!(world.execution.steps_in(StepState::Running).count() <= running);
        }
        world.play(Op::Rest);
        prop_assert!(world.execution.state.is_terminal() || world.execution.lease_owner.is_none());
        let waits: Vec<_> = world.execution.waits().skip(1).cloned().collect();
        world.play(Op::ResumeRun);
        prop_assert!(world.execution.waits().eq(&waits), "a pause takes no other wait with it");
    }

    #[test]
    fn a_terminal_is_never_overwritten(mut world in worlds(), ops in ops(), end in ending()) {
        for op in ops {
            world.play(op);
        }
        world.play(end);
        let ended = world.execution.clone();
        prop_assert!(ended.state.is_terminal());
        for event in RunEvent::ALL {
            prop_assert_eq!(run::decide(ended.state, event), Err(Refusal::Terminal));
        }
        let mut draft = Draft::new(ended.clone(), actor(), now());
        let again = Ending {
            stop_reason: StopReason::InternalError,
            user_message: "again".to_owned(),
            internal_reason: String::new(),
        };
        prop_assert_eq!(draft.stop(&world.graph, again), Err(Refusal::Terminal));
        prop_assert_eq!(draft.cancel(&world.graph, "again".to_owned()), Err(Refusal::Terminal));
        prop_assert_eq!(draft.accept(&world.graph), Err(Refusal::Terminal));
        prop_assert!(draft.is_empty());
        prop_assert_eq!(draft.execution(), &ended);
    }
}

fn ending() -> impl Strategy<Value = Op> {
    prop_oneof![Just(Op::Stop), Just(Op::Cancel)]
}

/// The invariants of every row.
fn check_row(graph: &Graph, limits: &crate::domain::limits::Limits, row: &Execution) {
    let count = |state| row.steps_in(state).count();
    let running = count(StepState::Running);
    assert!(running <= usize::try_from(limits.max_parallel_steps).unwrap());
    assert!(running == 0 || row.lease_owner.is_some(), "a running step without a lease");
    let together: Vec<usize> = row.steps_in(StepState::Running).collect();
    for (place, one) in together.iter().enumerate() {
        let other = together[place + 1..].iter().find(|other| graph.collide(*one, **other));
        assert_eq!(other, None, "step {one} runs beside one that could write the same file");
    }
    assert!(row.counters.replans <= limits.max_replans);
    assert!(row.counters.repairs <= limits.max_repairs);
    check_budgets(limits, row);
    check_steps(graph, row);
    check_waits(row);
    check_movement(row);
    if row.state.is_terminal() {
        check_terminal(row);
    } else {
        assert_eq!(row.terminal, None);
        assert!(row.deadline_at.is_some());
    }
}

/// What parallel steps use and reserve together never exceeds a budget, and nothing is reserved for ever.
fn check_budgets(limits: &crate::domain::limits::Limits, row: &Execution) {
    let (used, reserved) = (row.counters.usage.tokens, row.reserved().tokens);
    let budget = row.limits_of(limits).token_budget;
    assert!(budget.is_none_or(|budget| used + reserved <= budget), "{used} + {reserved}: {row:?}");
    assert!(!row.state.is_terminal() || reserved == 0, "an ended run reserves: {row:?}");
    let seen = |step: &StepProgress| step.wait.as_ref().and_then(|wait| wait.budget);
    for step in &row.steps {
        let awaited = step.state == StepState::Waiting || step.reply.is_some();
        assert!(awaited || step.reserved.is_zero(), "reserved for nothing: {step:?}");
        // A step that waits for a part that other steps reserve is woken when these release it.
        if let Some(seen) = seen(step).filter(|_| row.state == RunState::Executing) {
            assert!(seen.tokens <= reserved, "{step:?} was not woken: {row:?}");
        }
    }
}

fn check_steps(graph: &Graph, row: &Execution) {
    for (index, step) in row.steps.iter().enumerate() {
        let needed = graph.dependencies(index);
        let all_done = needed.iter().all(|place| row.steps[*place].state == StepState::Done);
        match step.state {
            StepState::Ready | StepState::Running | StepState::Waiting | StepState::Done => {
                assert!(all_done, "step {index} went on before what it depends on");
            }
            StepState::Pending => {
                assert!(!all_done || row.state.is_terminal(), "step {index} was not made ready");
            }
            StepState::Failed | StepState::Blocked | StepState::Skipped | StepState::Cancelled => {}
        }
        assert_eq!(step.wait.is_some(), step.state == StepState::Waiting, "wait of step {index}");
    }
}

fn check_waits(row: &Execution) {
    let blocked = matches!(row.state, RunState::Blocked(_));
    assert!(!blocked || row.wait.is_some(), "a blocked run says what it waits for");
    assert!(!blocked || row.lease_owner.is_none(), "a blocked run holds no lease");
    assert_eq!(
        row.wait.as_deref(),
        row.waits().next(),
        "what is shown is what is waited for first"
    );
    let own = usize::from(row.own_wait().is_some());
    assert!(own == 0 || blocked, "a run that is not blocked waits for nothing of its own");
    let pause = usize::from(row.paused.is_some());
    assert_eq!(row.waits().count(), pause + own + row.steps_in(StepState::Waiting).count());
    let mut ids: Vec<_> = row.waits().map(|wait| wait.id).collect();
    ids.dedup();
    assert_eq!(ids.len(), row.waits().count(), "nothing is waited for twice");
    if let Some(paused) = &row.paused {
        assert!(blocked || row.lease_owner.is_some(), "it is to be paused and has no lease");
        assert_eq!(paused.rests_since.is_some(), blocked);
    }
}

/// Remaining work can always continue: by an executor, or by the party that is waited for.
fn check_movement(row: &Execution) {
    let needs_executor = row.needs_executor();
    // A driver, a worker or a timer ends the wait; until then the run is in no queue.
    let awaits = row.waits_of_participants().next().is_some();
    let moves = !row.state.is_terminal() && !matches!(row.state, RunState::Blocked(_));
    if moves && !(row.state == RunState::Executing && awaits) {
        assert!(needs_executor, "{:?} and no executor would claim it: {row:?}", row.state);
        assert!(row.lease_owner.is_some() || row.ready_at.is_some(), "it is in no queue: {row:?}");
    }
    if row.state == RunState::Executing && row.steps_in(StepState::Running).next().is_none() {
        assert_eq!(row.steps_in(StepState::Failed).next(), None, "it would start nothing for ever");
        assert!(awaits || row.steps_in(StepState::Ready).next().is_some());
        assert!(needs_executor || row.lease_owner.is_none(), "a lease with nothing to do");
    }
    if !needs_executor && row.lease_owner.is_none() {
        assert_eq!(row.ready_at, None, "in the queue with nothing to do");
    }
}

fn check_terminal(row: &Execution) {
    let terminal = row.terminal.as_ref().expect("a terminal run says why");
    assert!(row.steps.iter().all(|step| step.state.is_settled()), "an open step: {row:?}");
    assert!(row.lease_owner.is_none() && row.ready_at.is_none() && row.deadline_at.is_none());
    assert_eq!(row.wait, None);
    assert_eq!(row.state == RunState::Done, terminal.stop_reason == StopReason::Accepted);
    assert_eq!(row.state == RunState::Cancelled, terminal.stop_reason == StopReason::Cancelled);
    if row.state == RunState::Done {
        let settled = |step: StepState| matches!(step, StepState::Done | StepState::Skipped);
        assert!(row.step_states().all(settled));
    }
}

/// The counters match the journal.
fn check_counters(row: &Execution, journal: &[Entry]) {
    let moves = |event: &str| {
        let named = |entry: &&Entry| matches!(entry, Entry::Transition(t) if t.event == event);
        u32::try_from(journal.iter().filter(named).count()).unwrap()
    };
    let receipts = journal.iter().filter(|entry| matches!(entry, Entry::Receipt(_))).count();
    assert_eq!(row.sequence, i64::try_from(journal.len()).unwrap());
    let turns = journal.iter().filter_map(|entry| {
        let Entry::Turn(turn) = entry else { return None };
        Some((turn.usage, turn.usage_source))
    });
    let turns: Vec<_> = turns.collect();
    let of = |wanted: fn(UsageSource) -> bool| {
        let fitting = turns.iter().filter(|(_, source)| wanted(*source));
        fitting.fold(Usage::default(), |sum, (usage, _)| sum.plus(*usage))
    };
    let counters = &row.counters;
    assert_eq!(counters.usage, of(|_| true).plus(counters.usage_without_turn));
    let inside = |part: Usage, whole: Usage| {
        part.tokens <= whole.tokens && part.cost_micros <= whole.cost_micros
    };
    let (reported, charged) = (counters.reported_usage, counters.charged_usage);
    assert!(inside(of(|source| source == UsageSource::Reported), reported));
    assert!(inside(of(|source| source == UsageSource::Reserved), charged));
    assert!(inside(reported.plus(charged), counters.usage), "{counters:?}");
    assert_eq!(usize::try_from(row.counters.receipts).unwrap(), receipts);
    assert_eq!(
        row.counters.replans + row.counters.repairs,
        moves("retry_started") + moves("replan_started")
    );
    assert!(row.counters.repairs <= moves("verdict_refused"));
}
