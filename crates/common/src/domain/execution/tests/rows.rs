//! Single situations that once failed or could fail.

use super::world::{Op, World, actor, ending, now};
use crate::domain::execution::draft::Draft;
use crate::domain::execution::{Execution, OpenCall, Wait};
use crate::domain::journal::{Entry, Subject};
use crate::domain::limits::Limits;
use crate::domain::machine::Refusal;
use crate::domain::machine::run::{Phase, RunState};
use crate::domain::machine::step::StepEvent;
use crate::domain::plan::{Plan, PlanStep};
use crate::domain::scope::Writes;
use crate::domain::step::StepState;
use crate::domain::stop::{StopReason, WaitingOn};
use chrono::TimeDelta;
use uuid::Uuid;

const BLOCKED: RunState = RunState::Blocked(Phase::Executing);

/// A run of these steps, each with its dependencies.
fn world(steps: &[(&str, &[&str])]) -> World {
    let steps = steps.iter().map(|(id, dependencies)| PlanStep {
        id: (*id).to_owned(),
        dependencies: dependencies.iter().map(|id| (*id).to_owned()).collect(),
        ..PlanStep::default()
    });
    World::new(&Plan { steps: steps.collect(), ..Plan::default() }, Limits::default())
}

fn play(world: &mut World, ops: &[Op]) {
    for op in ops {
        world.play(*op);
    }
}

fn states(world: &World) -> Vec<StepState> {
    world.execution.step_states().collect()
}

#[test]
fn two_steps_ask_and_either_can_be_answered_first() {
    for first in [0, 1] {
        let mut world = world(&[("a", &[]), ("b", &[])]);
        play(&mut world, &[Op::Claim, Op::Pause(0), Op::Pause(0)]);
        assert_eq!(world.execution.state, BLOCKED);
        let asked: Vec<Option<usize>> =
            world.execution.waits().map(|wait| wait.step_index).collect();
        assert_eq!(asked, [Some(0), Some(1)]);

        world.play(Op::Resume(first));
        assert_eq!(world.execution.state, RunState::Executing);
        let left: Vec<Option<usize>> =
            world.execution.waits().map(|wait| wait.step_index).collect();
        assert_eq!(left, [Some(1 - first)]);

        play(&mut world, &[Op::Claim, Op::Finish(0)]);
        assert_eq!(world.execution.state, BLOCKED, "the other question is still open");
        play(&mut world, &[Op::Resume(0), Op::Claim, Op::Finish(0)]);
        assert_eq!(world.execution.state, RunState::Verifying);
    }
}

#[test]
fn an_answer_while_another_step_runs_moves_only_its_own_step() {
    let mut world = world(&[("a", &[]), ("b", &[])]);
    play(&mut world, &[Op::Claim, Op::Pause(0)]);
    assert_eq!(world.execution.state, RunState::Executing);
    assert!(world.execution.wait.is_some(), "the question is shown while b runs");
    world.play(Op::Resume(0));
    assert_eq!(states(&world), [StepState::Ready, StepState::Running]);
    assert_eq!(world.execution.wait, None);
}

#[test]
fn a_step_keeps_its_question_while_another_fails_and_is_tried_again() {
    let mut world = world(&[("a", &[]), ("b", &[])]);
    play(&mut world, &[Op::Claim, Op::Pause(0), Op::Fail(0)]);
    assert_eq!(world.execution.state, RunState::Recovering);
    assert_eq!(world.execution.waits().count(), 1);
    play(&mut world, &[Op::Recover, Op::LeaseSteps]);
    assert_eq!(states(&world), [StepState::Waiting, StepState::Running]);
    world.play(Op::Finish(0));
    assert_eq!(world.execution.state, BLOCKED);
    play(&mut world, &[Op::Resume(0), Op::Claim, Op::Finish(0)]);
    assert_eq!(world.execution.state, RunState::Verifying);
}

#[test]
fn an_answer_in_recovering_waits_for_the_recovery() {
    let mut world = world(&[("a", &[]), ("b", &[])]);
    play(&mut world, &[Op::Claim, Op::Pause(0), Op::Fail(0), Op::Resume(0)]);
    assert_eq!(world.execution.state, RunState::Recovering);
    assert_eq!(states(&world), [StepState::Ready, StepState::Failed]);
    play(&mut world, &[Op::Recover, Op::LeaseSteps]);
    assert_eq!(states(&world), [StepState::Running, StepState::Running]);
}

#[test]
fn a_waiting_step_that_fails_takes_its_blocked_run_to_recovering() {
    let mut world = world(&[("a", &[])]);
    play(&mut world, &[Op::Claim, Op::Pause(0)]);
    assert_eq!(world.execution.state, BLOCKED);
    world.play(Op::FailWaiting(0));
    assert_eq!(world.execution.state, RunState::Recovering);
    assert_eq!(world.execution.wait, None);
    assert!(world.execution.ready_at.is_some());
}

#[test]
fn an_answer_does_not_unblock_a_run_that_is_blocked_as_a_whole() {
    let mut world = world(&[("a", &[]), ("b", &[])]);
    play(&mut world, &[Op::Claim, Op::Pause(0), Op::Block]);
    assert_eq!(states(&world), [StepState::Waiting, StepState::Ready]);
    world.play(Op::Resume(0));
    assert_eq!(world.execution.state, BLOCKED);
    world.play(Op::Unblock);
    assert_eq!(world.execution.state, RunState::Executing);
    assert_eq!(states(&world), [StepState::Ready, StepState::Ready]);
}

#[test]
fn a_step_that_fails_while_the_run_is_blocked_as_a_whole_is_recovered_from_after_it() {
    let mut world = world(&[("a", &[]), ("b", &[])]);
    play(&mut world, &[Op::Claim, Op::Pause(0), Op::Block, Op::FailWaiting(0)]);
    assert_eq!(world.execution.state, BLOCKED);
    world.play(Op::Unblock);
    assert_eq!(world.execution.state, RunState::Recovering);
}

#[test]
fn a_run_whose_executor_dies_beside_a_failed_step_recovers() {
    let mut world = world(&[("a", &[]), ("b", &[])]);
    play(&mut world, &[Op::Claim, Op::Fail(0)]);
    assert_eq!(world.execution.state, RunState::Executing, "b still runs");
    world.play(Op::TakeOver);
    assert_eq!(world.execution.state, RunState::Recovering);
    assert_eq!(states(&world), [StepState::Failed, StepState::Ready]);
}

#[test]
fn a_repair_goes_back_to_the_last_steps_that_were_done() {
    let mut world = world(&[("a", &[]), ("b", &["a"]), ("c", &["a"])]);
    // c is skipped, b and then no other step is done.
    play(&mut world, &[Op::Claim, Op::Finish(0), Op::Skip(1), Op::LeaseSteps, Op::Finish(0)]);
    assert_eq!(states(&world), [StepState::Done, StepState::Done, StepState::Skipped]);
    play(&mut world, &[Op::Refuse, Op::Recover]);
    assert_eq!(states(&world), [StepState::Done, StepState::Ready, StepState::Skipped]);
    assert_eq!(world.execution.steps[1].attempt, 1);
    world.play(Op::LeaseSteps);
    assert_eq!(world.execution.steps[1].attempt, 2);
}

#[test]
fn a_repair_with_nothing_done_goes_back_to_the_gate_until_the_repairs_are_used_up() {
    let mut world = world(&[("a", &[])]);
    world.play(Op::Skip(0));
    assert_eq!(world.execution.state, RunState::Verifying);
    world.finish(&[Op::Claim, Op::Refuse, Op::Recover]);
    assert_eq!(world.execution.stop_reason(), Some(StopReason::AcceptCheckFailed));
    assert_eq!(world.execution.counters.repairs, Limits::default().max_repairs);
}

#[test]
fn a_step_behind_one_that_was_left_out_is_a_dependency_deadlock() {
    let mut world = world(&[("a", &[]), ("b", &["a"])]);
    world.play(Op::Skip(0));
    assert_eq!(world.execution.stop_reason(), Some(StopReason::DependencyDeadlock));
    assert_eq!(states(&world), [StepState::Skipped, StepState::Cancelled]);
    assert_eq!(world.execution.terminal.as_ref().unwrap().stage, "executing");
}

#[test]
fn a_failed_step_is_tried_as_often_as_replans_allow() {
    let mut world = world(&[("a", &[])]);
    world.finish(&[Op::Claim, Op::LeaseSteps, Op::Fail(0), Op::Recover]);
    assert_eq!(world.execution.stop_reason(), Some(StopReason::MaxReplansReached));
    assert_eq!(world.execution.steps[0].attempt, 1 + Limits::default().max_replans);
    let said = world.execution.terminal.as_ref().map(|terminal| terminal.user_message.as_str());
    assert_eq!(said, Some("Step a failed and no retry remains: it broke."));
}

#[test]
fn steps_behind_one_that_is_not_tried_again_are_blocked() {
    let mut world = world(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]);
    world.finish(&[Op::Claim, Op::LeaseSteps, Op::Fail(0), Op::Recover]);
    assert_eq!(world.execution.stop_reason(), Some(StopReason::MaxReplansReached));
    assert_eq!(states(&world), [StepState::Failed, StepState::Blocked, StepState::Blocked]);
}

#[test]
fn a_step_that_the_next_revision_leaves_out_is_skipped_unless_work_on_it_had_begun() {
    let mut world = world(&[("a", &[]), ("b", &[]), ("c", &["a"])]);
    play(&mut world, &[Op::Claim, Op::Fail(0), Op::Rest, Op::Replan]);
    let graph = self::world(&[("a", &[])]).graph;
    let mut draft = Draft::new(world.execution.clone(), actor(), now());
    draft.unblock(&world.graph, "a plan came").unwrap();
    draft.revise_plan(&world.graph, &graph, 2).unwrap();
    let entries = draft.into_write().entries;
    let left_out: Vec<_> = entries.iter().filter_map(settled).collect();
    assert_eq!(left_out, [("b", "cancelled"), ("c", "skipped")]);
}

#[test]
fn a_blocked_run_whose_time_is_over_ends_where_it_was_and_asks_nothing_more() {
    let mut world = world(&[("a", &[]), ("b", &[])]);
    play(&mut world, &[Op::Claim, Op::Pause(0), Op::Pause(0)]);
    world.change(|world, draft| draft.stop(&world.graph, ending(StopReason::DeadlineExceeded)));
    let terminal = world.execution.terminal.clone().unwrap();
    assert_eq!(terminal.stop_reason, StopReason::DeadlineExceeded);
    assert_eq!(terminal.stage, "executing");
    assert_eq!(world.execution.waits().count(), 0);
}

#[test]
fn a_refused_change_leaves_the_draft_as_it_was() {
    let mut world = world(&[("a", &[])]);
    play(&mut world, &[Op::Claim, Op::Pause(0)]);
    let before = world.execution.clone();
    let mut draft = Draft::new(before.clone(), actor(), now());
    assert_eq!(draft.start_plan(&world.graph, 2), Err(Refusal::Meaningless));
    assert_eq!(draft.finish_step(&world.graph, 0, ""), Err(Refusal::Meaningless));
    assert_eq!(draft.block(&world.graph, *before.wait.clone().unwrap()), Err(Refusal::Meaningless));
    assert_eq!(draft.resume_step(&world.graph, 7, ""), Err(Refusal::Meaningless));
    assert_eq!(draft.accept(&world.graph), Err(Refusal::Meaningless));
    assert_eq!(draft.recover(&world.graph, &world.limits), Err(Refusal::Meaningless));
    let missing = draft.step_event(&world.graph, 7, StepEvent::Leased, "");
    assert_eq!(missing, Err(Refusal::Meaningless));
    assert!(draft.is_empty());
    assert_eq!(draft.execution(), &before);
}

#[test]
fn a_run_that_waits_for_an_executor_keeps_its_place_when_it_is_written_to() {
    let world = world(&[("a", &[])]);
    let since = world.execution.ready_at;
    let later = now() + TimeDelta::hours(1);
    let written = row_of(Draft::new(world.execution.clone(), actor(), later));
    assert_eq!(written.ready_at, since);

    let mut draft = Draft::new(written, actor(), later);
    draft.lease(Uuid::from_u128(9));
    let mut draft = Draft::new(row_of(draft), actor(), later);
    draft.release();
    assert_eq!(draft.into_write().execution.ready_at, Some(later), "given back, it queues anew");
}

/// The next revision of a run's plan, taken up.
/// The step that an entry ends, and the state it is left in.
fn settled(entry: &Entry) -> Option<(&str, &str)> {
    let Entry::Transition(moved) = entry else { return None };
    let Subject::Step(id) = &moved.subject else { return None };
    ["cancelled", "skipped"].contains(&&*moved.to).then_some((id, &*moved.to))
}

fn revise(world: &mut World, steps: &[(&str, &[&str])]) {
    let graph = self::world(steps).graph;
    let mut draft = Draft::new(world.execution.clone(), actor(), now());
    draft.unblock(&world.graph, "a plan came").unwrap();
    draft.revise_plan(&world.graph, &graph, 2).unwrap();
    world.execution = row_of(draft);
}

#[test]
fn the_next_revision_keeps_what_is_done_and_begins_the_rest_anew() {
    let mut world = world(&[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b"])]);
    play(&mut world, &[Op::Claim, Op::FinishAndGoOn(0), Op::Fail(0), Op::Replan]);
    assert_eq!(world.execution.state, RunState::Blocked(Phase::Planning));
    assert_eq!(world.execution.counters.replans, 1);
    assert_eq!(world.execution.lease_owner, None);

    // c is removed, x is new and comes before b, and the order differs.
    revise(&mut world, &[("d", &["b"]), ("x", &["a"]), ("b", &["x"]), ("a", &[])]);
    use StepState::{Done, Pending, Ready};
    assert_eq!(states(&world), [Pending, Ready, Pending, Done]);
    assert_eq!(world.execution.state, RunState::Executing);
    assert_eq!(world.execution.plan_revision, 2);
    let attempts: Vec<u32> = world.execution.steps.iter().map(|step| step.attempt).collect();
    assert_eq!(attempts, [0, 0, 1, 1], "attempts go on being counted");
}

#[test]
fn a_revision_that_keeps_only_what_is_done_goes_to_its_verification() {
    let mut world = world(&[("a", &[]), ("b", &["a"])]);
    play(&mut world, &[Op::Claim, Op::FinishAndGoOn(0), Op::Replan]);
    assert_eq!(world.execution.counters.replans, 1, "what ran was given back");
    revise(&mut world, &[("a", &[])]);
    assert_eq!(world.execution.state, RunState::Verifying);
}

fn open_call() -> OpenCall {
    OpenCall {
        call_id: Uuid::from_u128(7),
        tool: "run_command".to_owned(),
        arguments_json: "{}".to_owned(),
        effect: serde_json::Value::Null,
        intended_at: now(),
    }
}

#[test]
fn a_step_that_failed_because_its_calls_outcome_is_unknown_is_not_retried() {
    let mut world = world(&[("a", &[]), ("b", &[])]);
    play(&mut world, &[Op::Claim, Op::LeaseSteps]);
    world.execution.step_mut(1).unwrap().open_call = Some(Box::new(open_call()));
    play(&mut world, &[Op::Finish(0), Op::Fail(1), Op::Recover]);
    assert_eq!(world.execution.state, RunState::Failed);
    assert_eq!(world.execution.stop_reason(), Some(StopReason::MaxReplansReached));
    assert_eq!(world.execution.counters.replans, 0, "no retry was counted that was not made");
}

#[test]
fn a_step_with_a_call_under_way_keeps_it_and_what_waits_for_it() {
    let mut world = world(&[("a", &[]), ("b", &[])]);
    play(&mut world, &[Op::Claim, Op::Pause(0), Op::Fail(0), Op::Replan]);
    let open = open_call();
    world.execution.step_mut(0).unwrap().open_call = Some(Box::new(open.clone()));
    world.execution.step_mut(0).unwrap().proofs = 3;
    revise(&mut world, &[("b", &[]), ("a", &[])]);
    let kept = &world.execution.steps[1];
    assert_eq!((kept.state, kept.open_call.as_deref()), (StepState::Waiting, Some(&open)));
    assert_eq!(kept.proofs, 0, "an earlier revision proves nothing");
    let waits: Vec<_> = world.execution.waits().map(|wait| wait.step_index).collect();
    assert_eq!(waits, [Some(1)]);
}

#[test]
fn a_run_that_is_verified_or_blocked_as_a_whole_is_not_sent_back() {
    for ops in [&[Op::Claim, Op::Finish(0)][..], &[Op::Block]] {
        let mut world = world(&[("a", &[])]);
        play(&mut world, ops);
        let wait = world.execution.wait.as_deref().cloned();
        let mut draft = Draft::new(world.execution.clone(), actor(), now());
        let wait = wait.unwrap_or_else(|| {
            Wait::new(Uuid::from_u128(9), WaitingOn::Model, now(), String::new())
        });
        assert_eq!(draft.replan(&world.graph, wait, "no"), Err(Refusal::Meaningless));
    }
}

/// The row after a change.
fn row_of(draft: Draft) -> Execution {
    Execution::clone(&draft.into_write().execution)
}

#[test]
fn a_run_without_a_lease_is_paused_at_once_and_returns_to_its_phase() {
    let mut world = world(&[("a", &[])]);
    let ready_since = world.execution.ready_at;
    assert!(ready_since.is_some());
    world.play(Op::PauseRun);
    assert_eq!(world.execution.state, BLOCKED);
    assert_eq!(world.execution.ready_at, None, "no executor claims it");
    world.play(Op::ResumeRun);
    assert_eq!(world.execution.state, RunState::Executing);
    assert_eq!((world.execution.wait.clone(), world.execution.paused.clone()), (None, None));
    play(&mut world, &[Op::Claim, Op::Finish(0)]);
    assert_eq!(world.execution.state, RunState::Verifying);
}

#[test]
fn turns_under_way_end_before_a_run_rests_and_what_they_freed_does_not_start() {
    let mut world = world(&[("a", &[]), ("b", &[]), ("c", &["a"])]);
    play(&mut world, &[Op::Claim, Op::PauseRun]);
    assert_eq!(world.execution.state, RunState::Executing);
    assert_eq!(world.execution.waits().count(), 1, "that it will rest is shown at once");
    world.play(Op::FinishAndGoOn(0));
    assert_eq!(states(&world), [StepState::Done, StepState::Running, StepState::Ready]);
    world.play(Op::FinishAndGoOn(0));
    assert_eq!(world.execution.state, BLOCKED);
    assert_eq!(states(&world), [StepState::Done, StepState::Done, StepState::Ready]);
}

#[test]
fn a_pause_that_is_taken_back_in_time_costs_nothing() {
    let mut world = world(&[("a", &[])]);
    play(&mut world, &[Op::Claim, Op::PauseRun, Op::ResumeRun]);
    assert_eq!(world.execution.state, RunState::Executing);
    assert_eq!(states(&world), [StepState::Running]);
    assert!(world.execution.lease_owner.is_some());
}

#[test]
fn a_paused_run_that_asks_goes_on_after_the_answer_and_the_end_of_the_pause_in_any_order() {
    for ops in [[Op::Resume(0), Op::ResumeRun], [Op::ResumeRun, Op::Resume(0)]] {
        let mut world = world(&[("a", &[])]);
        play(&mut world, &[Op::Claim, Op::Pause(0), Op::PauseRun]);
        assert_eq!(world.execution.waits().count(), 2);
        world.play(ops[0]);
        assert_eq!(world.execution.state, BLOCKED);
        assert_eq!(world.execution.waits().count(), 1);
        assert_eq!(world.execution.ready_at, None);
        world.play(ops[1]);
        assert_eq!(world.execution.state, RunState::Executing);
        assert_eq!(world.execution.wait, None);
        assert!(world.execution.ready_at.is_some());
    }
}

#[test]
fn a_paused_run_that_was_blocked_as_a_whole_goes_on_after_both() {
    for ops in [[Op::Unblock, Op::ResumeRun], [Op::ResumeRun, Op::Unblock]] {
        let mut world = world(&[("a", &[])]);
        play(&mut world, &[Op::Block, Op::PauseRun, ops[0]]);
        assert_eq!(world.execution.state, BLOCKED);
        world.play(ops[1]);
        assert_eq!(world.execution.state, RunState::Executing);
    }
}

#[test]
fn a_question_asked_on_the_way_to_the_pause_is_still_open_after_it() {
    let mut world = world(&[("a", &[])]);
    play(&mut world, &[Op::Claim, Op::PauseRun, Op::Pause(0)]);
    assert_eq!(world.execution.state, BLOCKED);
    world.play(Op::ResumeRun);
    assert_eq!(world.execution.state, BLOCKED);
    assert_eq!(world.execution.wait.as_ref().and_then(|wait| wait.step_index), Some(0));
}

#[test]
fn a_run_whose_executor_dies_on_the_way_to_the_pause_is_paused_and_not_taken_over() {
    let mut world = world(&[("a", &[])]);
    play(&mut world, &[Op::Claim, Op::PauseRun, Op::TakeOver]);
    assert_eq!(world.execution.state, BLOCKED);
    assert_eq!(states(&world), [StepState::Ready]);
}

#[test]
fn a_paused_run_can_be_cancelled_and_is_verified_and_recovered_from_after_the_pause() {
    let mut cancelled = world(&[("a", &[])]);
    play(&mut cancelled, &[Op::PauseRun, Op::Cancel]);
    assert_eq!(cancelled.execution.state, RunState::Cancelled);
    assert_eq!(
        (cancelled.execution.paused.clone(), cancelled.execution.waits().count()),
        (None, 0)
    );

    for (ops, phase) in
        [(&[Op::Finish(0)][..], RunState::Verifying), (&[Op::Fail(0)], RunState::Recovering)]
    {
        let mut world = world(&[("a", &[])]);
        play(&mut world, &[Op::Claim, Op::PauseRun]);
        play(&mut world, ops);
        assert_eq!(world.execution.state.blocked_in().map(Phase::state), Some(phase));
        world.play(Op::ResumeRun);
        assert_eq!(world.execution.state, phase);
        assert!(world.execution.ready_at.is_some());
    }
}

#[test]
fn the_time_a_run_rests_is_not_taken_from_its_steps() {
    let mut world = world(&[("a", &[])]);
    play(&mut world, &[Op::Claim, Op::PauseRun, Op::Rest]);
    let started_at = world.execution.steps[0].started_at.unwrap();
    let mut draft = Draft::new(world.execution.clone(), actor(), now() + TimeDelta::hours(2));
    draft.resume(&world.graph, "go on").unwrap();
    assert_eq!(draft.execution().steps[0].started_at, Some(started_at + TimeDelta::hours(2)));
}

#[test]
fn a_pause_is_asked_for_once_and_ended_once() {
    let mut world = world(&[("a", &[])]);
    world.play(Op::PauseRun);
    let wait = world.execution.wait.clone().unwrap();
    let mut draft = Draft::new(world.execution.clone(), actor(), now());
    assert_eq!(draft.pause(&world.graph, *wait, ""), Err(Refusal::Meaningless));
    draft.resume(&world.graph, "").unwrap();
    assert_eq!(draft.resume(&world.graph, ""), Err(Refusal::Meaningless));
}

#[test]
fn steps_that_could_write_the_same_file_run_one_after_the_other_and_the_rest_beside_them() {
    let mut world = world(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &[])]);
    let within = |glob: &str| Writes::Within(vec![glob.to_owned()]);
    let writes = vec![within("src/**"), within("src/a.rs"), within("docs/**"), Writes::Nothing];
    world.graph = world.graph.with_writes(writes);
    world.play(Op::Claim);
    use StepState::{Done, Ready, Running};
    assert_eq!(states(&world), [Running, Ready, Running, Running]);
    world.play(Op::FinishAndGoOn(0));
    assert_eq!(states(&world), [Done, Running, Running, Running]);
}

#[test]
fn a_step_that_was_begun_goes_on_before_one_that_could_write_what_it_left_half_done() {
    let mut world = world(&[("a", &[]), ("b", &[])]);
    world.graph = world.graph.with_writes(vec![Writes::Anywhere, Writes::Anywhere]);
    play(&mut world, &[Op::Claim, Op::Pause(0), Op::LeaseSteps, Op::Resume(0), Op::LeaseSteps]);
    assert_eq!(states(&world), [StepState::Ready, StepState::Running], "b goes on, a waits");
    play(&mut world, &[Op::Fail(0), Op::Recover, Op::LeaseSteps]);
    assert_eq!(
        states(&world),
        [StepState::Running, StepState::Ready],
        "a was begun, b begins anew"
    );
}

#[test]
fn what_a_turn_releases_of_a_budget_is_offered_at_once_to_a_step_that_waits_for_it() {
    let mut world = world(&[("a", &[]), ("b", &[])]);
    world.limits = Limits { token_budget: Some(1), ..world.limits };
    // The driver of `a` reports half of one token, which is none.
    play(&mut world, &[Op::Claim, Op::Await(0), Op::Await(0), Op::Supply(2), Op::Claim]);
    assert_eq!(states(&world), [StepState::Running, StepState::Waiting]);

    world.play(Op::Turn(0));
    assert_eq!(states(&world), [StepState::Running, StepState::Ready]);
}
