//! Steps that wait for a time.

use super::world::{Op, World, asleep, now};
use crate::domain::execution::Wait;
use crate::domain::execution::wait_rows::WaitKind;
use crate::domain::limits::Limits;
use crate::domain::machine::run::RunState;
use crate::domain::plan::{Plan, PlanStep};
use crate::domain::step::StepState;
use crate::domain::stop::{StopReason, WaitingOn};
use chrono::TimeDelta;

fn sleeping(seconds: i64) -> World {
    let step = PlanStep { id: "s0".to_owned(), ..PlanStep::default() };
    let plan = Plan { steps: vec![step], ..Plan::default() };
    let mut world = World::new(&plan, Limits { max_replans: 1, ..Limits::default() });
    world.play(Op::Claim);
    world.change(|world, draft| {
        let wait = Wait { waiting_on: WaitingOn::Timer, ..world.wait(Some(0)) };
        let until = now() + TimeDelta::seconds(seconds);
        draft.sleep_step(&world.graph, 0, asleep(7), (until, wait))
    });
    world
}

#[test]
fn a_run_whose_only_step_sleeps_executes_and_holds_nothing() {
    let world = sleeping(60);
    let row = &world.execution;
    assert_eq!((row.state, row.lease_owner, row.ready_at), (RunState::Executing, None, None));
    let waits: Vec<_> = row.kept_waits().map(|wait| wait.kind).collect();
    assert_eq!(waits, [WaitKind::Timer]);
}

#[test]
fn a_step_wakes_at_its_time_and_not_before() {
    for (seconds, state) in [(1, StepState::Waiting), (0, StepState::Ready)] {
        let mut world = sleeping(seconds);
        world.change(|world, draft| draft.wake_steps(&world.graph));
        let step = world.execution.step(0).unwrap();
        assert_eq!(step.state, state);
        assert!(step.open_call.is_some(), "its call has no outcome yet");
        assert_eq!(world.execution.ready_at.is_some(), state == StepState::Ready);
    }
}

#[test]
fn a_sleep_is_no_call_of_unknown_outcome() {
    let mut world = sleeping(60);
    world.change(|world, draft| draft.fail_step(&world.graph, 0, "it was given up"));
    world.play(Op::Claim);
    world.play(Op::Recover);
    assert_ne!(world.execution.stop_reason(), Some(StopReason::MaxReplansReached));
    assert_eq!(world.execution.step(0).unwrap().open_call, None);
}
