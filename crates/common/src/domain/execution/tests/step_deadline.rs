//! The time limit of a step whose decision a participant has leased.

use super::world::{World, actor};
use crate::domain::execution::draft::Draft;
use crate::domain::execution::{Execution, Graph, Wait};
use crate::domain::limits::Limits;
use crate::domain::plan::{Plan, PlanStep};
use crate::domain::step::StepState;
use crate::domain::stop::WaitingOn;
use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

const WAIT: Uuid = Uuid::from_u128(7);
const LIMIT_S: u64 = 20;

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).expect("a time")
}

fn stored(draft: Draft) -> Execution {
    Execution::clone(&draft.into_write().execution)
}

/// A run of one step, which began at 0 and waits for its driver from 5 on.
fn waiting() -> (Execution, Graph) {
    let step = PlanStep { id: "a".to_owned(), ..PlanStep::default() };
    let plan = Plan { steps: vec![step], ..Plan::default() };
    let World { execution, graph, .. } = World::new(&plan, Limits::default());
    let mut draft = Draft::new(execution, actor(), at(0));
    draft.lease(Uuid::from_u128(5));
    assert_eq!(draft.lease_steps(&graph, 1), Ok(vec![0]));
    let mut draft = Draft::new(stored(draft), actor(), at(5));
    let wait = Wait::new(WAIT, WaitingOn::Driver, at(5), "a decision".to_owned());
    let wait = Wait { step_index: Some(0), step_deadline_s: Some(LIMIT_S), ..wait };
    draft.await_reply(&graph, 0, wait).expect("a wait");
    (stored(draft), graph)
}

fn expire(execution: &Execution, graph: &Graph, seconds: i64, unleased_s: i64) -> Execution {
    let mut draft = Draft::new(execution.clone(), actor(), at(seconds));
    let leased = [(WAIT, TimeDelta::seconds(unleased_s))];
    draft.expire_steps(graph, &leased).expect("a scan");
    stored(draft)
}

#[test]
fn a_leased_step_fails_at_its_deadline_and_the_time_without_a_lease_does_not_count() {
    let (execution, graph) = waiting();
    let until: Vec<_> = execution.kept_waits().map(|wait| wait.step_until).collect();
    assert_eq!(until, [Some(at(20))]);
    for (seconds, unleased_s, state) in [
        (19, 0, StepState::Waiting),
        (20, 0, StepState::Failed),
        (20, 1, StepState::Waiting),
        (29, 10, StepState::Waiting),
        (30, 10, StepState::Failed),
    ] {
        let after = expire(&execution, &graph, seconds, unleased_s);
        assert_eq!(after.steps[0].state, state, "{seconds} {unleased_s}");
        if state == StepState::Failed {
            assert_eq!(after.steps[0].reason, "step_deadline_s (20) is reached");
            assert_eq!(after.kept_waits().count(), 0);
        }
    }
    let mut draft = Draft::new(execution, actor(), at(40));
    draft.expire_steps(&graph, &[(Uuid::from_u128(8), TimeDelta::zero())]).expect("a scan");
    assert!(draft.is_empty(), "another wait was leased");
}

#[test]
fn the_deadline_of_a_leased_step_moves_by_a_pause() {
    let (execution, graph) = waiting();
    let pause = Wait::new(Uuid::from_u128(9), WaitingOn::Operator, at(10), String::new());
    let mut draft = Draft::new(execution, actor(), at(10));
    draft.pause(&graph, pause, "").expect("a pause");
    let paused = stored(draft);
    assert_eq!(expire(&paused, &graph, 100, 0).steps[0].state, StepState::Waiting);
    let mut draft = Draft::new(paused, actor(), at(40));
    draft.resume(&graph, "").expect("an end of the pause");
    let write = draft.into_write();
    assert_eq!(write.waits.withheld, Some(false));
    assert_eq!(write.waits.rested, TimeDelta::seconds(30));
    let resumed = Execution::clone(&write.execution);
    assert_eq!(expire(&resumed, &graph, 49, 0).steps[0].state, StepState::Waiting);
    assert_eq!(expire(&resumed, &graph, 50, 0).steps[0].state, StepState::Failed);
}
