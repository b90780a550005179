//! A run whose verdict is in doubt.

use super::world::{Op, World, actor, now, resolution};
use crate::domain::execution::draft::Draft;
use crate::domain::journal::Entry;
use crate::domain::limits::Limits;
use crate::domain::machine::Refusal;
use crate::domain::machine::run::{Phase, RunState};
use crate::domain::plan::{Plan, PlanStep};
use crate::domain::receipt::EvidenceSource;
use uuid::Uuid;

const BLOCKED: RunState = RunState::Blocked(Phase::Verifying);

/// A run that waits for a person to accept what its verdict is in doubt about.
fn in_doubt() -> World {
    let step = PlanStep { id: "a".to_owned(), ..PlanStep::default() };
    let plan = Plan { steps: vec![step], ..Plan::default() };
    let mut world = World::new(&plan, Limits::default());
    for op in [Op::Claim, Op::Finish(0), Op::Doubt] {
        world.play(op);
    }
    assert_eq!(world.execution.state, BLOCKED);
    assert_eq!(world.execution.lease_owner, None, "it holds no lease");
    assert_eq!(world.execution.ready_at, None, "no executor claims it");
    world
}

#[test]
fn an_approved_run_is_verified_anew_and_a_denied_one_is_judged_by_the_same_round() {
    for (approved, rounds) in [(true, 2), (false, 1)] {
        let mut world = in_doubt();
        world.play(Op::Resolve(approved));
        assert_eq!(world.execution.state, RunState::Verifying);
        assert_eq!(world.execution.counters.verification_round, rounds, "{approved}");
        assert_eq!(world.execution.waits().count(), 0);
        assert!(world.execution.ready_at.is_some(), "an executor claims it");
    }
}

#[test]
fn the_answer_of_a_paused_run_counts_once_it_is_resumed() {
    let mut world = in_doubt();
    for op in [Op::PauseRun, Op::Resolve(true)] {
        world.play(op);
        assert_eq!(world.execution.state, BLOCKED, "{op:?}");
    }
    assert_eq!(world.execution.waits().count(), 1, "only the pause is left");
    world.play(Op::ResumeRun);
    assert_eq!(world.execution.state, RunState::Verifying);
}

#[test]
fn an_answer_is_one_event_and_one_receipt_and_there_is_no_second() {
    let world = in_doubt();
    let wait_id = world.execution.own_wait().map(|wait| wait.id).unwrap_or_default();
    let mut draft = Draft::new(world.execution.clone(), actor(), now());
    let other = Uuid::from_u128(99);
    let answer = resolution(true);
    assert_eq!(draft.resolve(&world.graph, other, &answer), Err(Refusal::Meaningless));
    assert!(draft.is_empty(), "a refused answer changes nothing");
    assert_eq!(draft.resolve(&world.graph, wait_id, &answer), Ok(()));
    assert_eq!(draft.resolve(&world.graph, wait_id, &answer), Err(Refusal::Meaningless));
    let entries = draft.into_write().entries;
    let [Entry::Answer(answer), Entry::Receipt(receipt), Entry::Transition(_)] = &entries[..]
    else {
        panic!("{entries:#?}");
    };
    assert_eq!(
        (answer.wait_id, &*answer.by.0, answer.text.as_str()),
        (wait_id, "alice", "approve")
    );
    assert_eq!(receipt.source, EvidenceSource::Approval);
}
