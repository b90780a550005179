//! Steps that wait for workers.

use super::world::{Op, World, asleep, now};
use crate::domain::execution::wait_rows::{AnsweredWait, WaitKind};
use crate::domain::execution::{NextAttempt, Wait, WorkerCall, WorkerCallEnd, WorkerResult};
use crate::domain::limits::Limits;
use crate::domain::machine::Refusal;
use crate::domain::machine::run::RunState;
use crate::domain::plan::{Plan, PlanStep};
use crate::domain::scope::Writes;
use crate::domain::step::StepState;
use crate::domain::stop::WaitingOn;
use crate::domain::tool_workers::Attempts;
use chrono::TimeDelta;
use uuid::Uuid;

const WAIT: Uuid = Uuid::from_u128(70);
const NEXT: Uuid = Uuid::from_u128(71);
const LEASE: AnsweredWait = AnsweredWait { id: WAIT, lease_epoch: 5 };

fn waiting(may_repeat: bool, most: u32, deadline_s: i64) -> World {
    let mut world = planned(1);
    wait(&mut world, may_repeat, most, deadline_s);
    world
}

/// A world whose steps do not depend on each other.
fn planned(steps: usize) -> World {
    let step = |at| PlanStep { id: format!("s{at}"), ..PlanStep::default() };
    let plan = Plan { steps: (0..steps).map(step).collect(), ..Plan::default() };
    World::new(&plan, Limits::default())
}

/// Claims the run and makes its first step wait for a worker.
fn wait(world: &mut World, may_repeat: bool, most: u32, deadline_s: i64) {
    world.play(Op::Claim);
    world.change(|world, draft| {
        let wait = Wait { id: WAIT, waiting_on: WaitingOn::Worker, ..world.wait(Some(0)) };
        let attempts = Attempts { most, backoff_s: 2 };
        let deadline_at = now() + TimeDelta::seconds(deadline_s);
        let task = WorkerCall::new(attempts, may_repeat, now(), deadline_at);
        draft.call_worker(&world.graph, 0, asleep(7), (task, wait))
    });
}

fn result() -> WorkerResult {
    WorkerResult {
        by: "ci".to_owned(),
        success: false,
        summary: String::new(),
        error: "busy".to_owned(),
        output: String::new(),
        output_digest: String::new(),
        facts: String::new(),
        at: now(),
    }
}

fn wait_of(world: &World) -> Option<Uuid> {
    world.execution.step(0).unwrap().wait.as_deref().map(|wait| wait.id)
}

fn end_of(world: &World) -> Option<WorkerCallEnd> {
    world.execution.step(0).unwrap().worker_call.clone().unwrap().end
}

#[test]
fn a_run_of_which_no_step_can_start_before_the_answer_is_released_and_not_offered_until_then() {
    let mut world = planned(2);
    world.graph = world.graph.with_writes(vec![Writes::Anywhere, Writes::Anywhere]);
    wait(&mut world, false, 3, 60);
    world.play(Op::LeaseSteps);
    let row = &world.execution;
    assert_eq!(row.steps[1].state, StepState::Ready, "it could write the files of the first one");
    assert_eq!((row.state, row.lease_owner, row.ready_at), (RunState::Executing, None, None));
    world.change(|world, draft| draft.answer_worker_call(&world.graph, LEASE, result(), None));
    assert!(world.execution.ready_at.is_some());
}

#[test]
fn a_run_whose_call_waits_for_a_worker_executes_and_holds_nothing() {
    let world = waiting(false, 3, 60);
    let row = &world.execution;
    assert_eq!((row.state, row.lease_owner, row.ready_at), (RunState::Executing, None, None));
    let kept: Vec<_> = row.kept_waits().collect();
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].id, kept[0].kind), (WAIT, WaitKind::Tool));
    assert_eq!(kept[0].expires_at, Some(now() + TimeDelta::seconds(60)));
    assert!(kept[0].call.is_some());
}

#[test]
fn an_answer_makes_the_step_ready_and_another_one_finds_no_wait() {
    let mut world = waiting(false, 3, 60);
    world.change(|world, draft| {
        draft.answer_worker_call(&world.graph, LEASE, result(), None)?;
        let again = draft.answer_worker_call(&world.graph, LEASE, result(), None);
        assert_eq!(again, Err(Refusal::Meaningless));
        Ok(())
    });
    assert_eq!(world.execution.step(0).unwrap().state, StepState::Ready);
    assert!(matches!(end_of(&world), Some(WorkerCallEnd::Answered(_))));
    assert!(world.execution.ready_at.is_some());
}

#[test]
fn a_retryable_answer_opens_another_wait_while_attempts_are_left() {
    for (most, expected) in [(2, Some(NEXT)), (1, None)] {
        let mut world = waiting(false, most, 60);
        let next = NextAttempt { wait_id: NEXT, after: Some(TimeDelta::seconds(9)) };
        world.change(|world, draft| {
            draft.answer_worker_call(&world.graph, LEASE, result(), Some(next))
        });
        assert_eq!(wait_of(&world), expected);
        assert_eq!(end_of(&world).is_some(), expected.is_none());
        let call = world.execution.kept_waits().next().and_then(|wait| wait.call);
        let offered_at = call.map(|call| call.offered_at);
        assert_eq!(offered_at, expected.map(|_| now() + TimeDelta::seconds(9)));
    }
}

#[test]
fn a_lost_call_is_offered_again_only_where_it_may_be_repeated() {
    for (may_repeat, expected) in [(true, Some(NEXT)), (false, None)] {
        let mut world = waiting(may_repeat, 3, 60);
        let lost = [(Uuid::from_u128(1), Uuid::from_u128(2)), (WAIT, NEXT)];
        world.change(|world, draft| draft.lose_worker_calls(&world.graph, &lost));
        assert_eq!(wait_of(&world), expected);
        let end = (!may_repeat).then_some(WorkerCallEnd::Lost);
        assert_eq!(end_of(&world), end);
        // The same finding again names a wait that is no more.
        world.change(|world, draft| draft.lose_worker_calls(&world.graph, &lost));
        assert_eq!(wait_of(&world), expected);
    }
}

#[test]
fn a_call_times_out_at_its_deadline_and_not_before() {
    for (deadline_s, state) in [(1, StepState::Waiting), (0, StepState::Ready)] {
        let mut world = waiting(true, 3, deadline_s);
        world.change(|world, draft| draft.expire_worker_calls(&world.graph, &[]));
        assert_eq!(world.execution.step(0).unwrap().state, state);
    }
}

#[test]
fn a_call_that_a_worker_had_is_unknown_at_its_deadline_unless_it_may_be_repeated() {
    for (may_repeat, begun, expected) in [
        (false, &[WAIT][..], WorkerCallEnd::Lost),
        (true, &[WAIT], WorkerCallEnd::TimedOut),
        (false, &[NEXT], WorkerCallEnd::TimedOut),
    ] {
        let mut world = waiting(may_repeat, 3, 0);
        world.change(|world, draft| draft.expire_worker_calls(&world.graph, begun));
        assert_eq!(end_of(&world), Some(expected));
    }
}
