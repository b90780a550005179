//! What a run that waits for another plan keeps of the decisions of its steps.

use super::world::{World, actor};
use crate::domain::decision::Usage;
use crate::domain::execution::draft::Draft;
use crate::domain::execution::wait_rows::WaitKind;
use crate::domain::execution::{Execution, Graph, OpenCall, SuppliedReply, Wait};
use crate::domain::limits::Limits;
use crate::domain::machine::run::{Phase, RunState};
use crate::domain::plan::{Plan, PlanStep};
use crate::domain::step::StepState;
use crate::domain::stop::WaitingOn;
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::Arc;
use uuid::Uuid;

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(10, 0).expect("a time")
}

fn change(execution: &Execution, change: impl FnOnce(&mut Draft)) -> Execution {
    let mut draft = Draft::new(execution.clone(), actor(), now());
    change(&mut draft);
    Execution::clone(&draft.into_write().execution)
}

fn decision(index: usize) -> Wait {
    let id = Uuid::from_u128(100 + index as u128);
    let wait = Wait::new(id, WaitingOn::Driver, now(), "a decision".to_owned());
    Wait { step_index: Some(index), ..wait }
}

/// A run of three steps that wait for their drivers, with a budget of which each has a part.
fn waiting() -> (Execution, Graph) {
    let step = |id: &str| PlanStep { id: id.to_owned(), ..PlanStep::default() };
    let plan = Plan { steps: ["a", "b", "c"].map(step).to_vec(), ..Plan::default() };
    let limits = Limits { token_budget: Some(3000), max_parallel_steps: 3, ..Limits::default() };
    let World { execution, graph, .. } = World::new(&plan, limits.clone());
    let execution = change(&execution, |draft| {
        draft.lease(Uuid::from_u128(5));
        assert_eq!(draft.lease_steps(&graph, 3), Ok(vec![0, 1, 2]));
        for index in 0..3 {
            draft.reserve(index, &limits).expect("a part of the budget");
            draft.await_reply(&graph, index, decision(index)).expect("a wait");
        }
    });
    (execution, graph)
}

fn replan(execution: &Execution, graph: &Graph) -> Execution {
    change(execution, |draft| {
        let wait = Wait::new(Uuid::from_u128(9), WaitingOn::Model, now(), "a plan".to_owned());
        draft.replan(graph, wait, "the server moved").expect("a return to planning");
    })
}

#[test]
fn decisions_that_another_plan_begins_anew_are_offered_and_leased_no_more() {
    let (execution, graph) = waiting();
    // b's driver has replied, and no turn has taken that.
    let reply = SuppliedReply {
        wait_id: decision(1).id,
        lease_epoch: 3,
        text: "{}".to_owned(),
        usage: Some(Usage { tokens: 70, cost_micros: 0 }),
        trace_parent: String::new(),
        by: "agent".to_owned(),
        model: None,
    };
    let execution = change(&execution, |draft| {
        draft.supply_reply(&graph, reply, TimeDelta::zero()).expect("a reply");
    });
    let reserved = execution.reserved().tokens;
    let used = execution.counters.usage.tokens;
    let own = execution.steps[1].reserved.tokens;
    assert_eq!(execution.counters.drivers, ["agent"], "the run knows who decided");
    let after = replan(&execution, &graph);
    assert_eq!(after.state, RunState::Blocked(Phase::Planning));
    let kinds: Vec<WaitKind> = after.kept_waits().map(|wait| wait.kind).collect();
    assert_eq!(kinds, [WaitKind::Plan], "only the plan is waited for");
    assert!(after.step_states().all(|state| state == StepState::Ready), "{after:?}");
    assert_eq!(after.wait.as_ref().map(|wait| wait.id), Some(Uuid::from_u128(9)));
    // Drivers may have used what was reserved for them; of the reply it is known.
    assert_eq!(after.reserved().tokens, 0);
    assert_eq!(after.counters.usage.tokens, used + reserved - own + 70);
}

#[test]
fn a_call_under_way_and_a_question_to_a_person_stay() {
    let (mut execution, graph) = waiting();
    let open = OpenCall {
        call_id: Uuid::from_u128(7),
        tool: "run_command".to_owned(),
        arguments_json: "{}".to_owned(),
        effect: serde_json::Value::Null,
        intended_at: now(),
    };
    let step = execution.step_mut(0).expect("a step");
    step.open_call = Some(Box::new(open));
    step.answered_wait = Some(Uuid::from_u128(8));
    let asked = execution.step_mut(2).expect("a step").wait.as_mut().expect("a wait");
    asked.waiting_on = WaitingOn::User;
    let after = replan(&execution, &graph);
    let states: Vec<StepState> = after.step_states().collect();
    assert_eq!(states, [StepState::Waiting, StepState::Ready, StepState::Waiting]);
    let step = after.step(0).expect("a step");
    assert!(step.open_call.is_some(), "the call stays");
    assert!(after.kept_waits().all(|wait| !wait.answered), "its driver's lease has ended");
    assert_eq!(step.called.get("run_command"), Some(&1));
}

#[test]
fn the_hint_of_a_repair_stays_with_further_attempts_and_names_the_last_failure() {
    let (mut execution, _) = waiting();
    let refused = "The verdict on your work was refused, so this step begins again in the workspace as it is. \
                   Repair what failed: tests-pass";
    let failed =
        "An earlier attempt of this step failed, so it begins again in the workspace as it is:";
    let mut next = |hint: &str, failure: Option<&str>| {
        let step = Arc::make_mut(&mut execution.steps[0]);
        step.hint = hint.to_owned();
        step.state = if failure.is_some() { StepState::Failed } else { StepState::Waiting };
        step.reason = failure.unwrap_or_default().to_owned();
        Draft::new(execution.clone(), actor(), now()).hint_of_next_attempt(0)
    };
    assert_eq!(next("", None), "");
    assert_eq!(next("", Some("x")), format!("{failed} x"));
    assert_eq!(next(refused, None), refused, "the work was lost, or another plan begins it anew");
    let once = next(refused, Some("x"));
    assert_eq!(once, format!("{refused}\n{failed} x"));
    assert_eq!(next(&once, Some("y")), format!("{refused}\n{failed} y"));
    let first = next("", Some("x"));
    assert_eq!(next(&first, Some("y")), format!("{failed} y"));
}

#[test]
fn a_step_belongs_to_the_driver_that_planned_it_until_a_person_plans_it_anew() {
    let (execution, _) = waiting();
    let step = |id: &str, description: &str| PlanStep {
        id: id.to_owned(),
        description: description.to_owned(),
        ..PlanStep::default()
    };
    let plan = |steps: &[(&str, &str)]| Plan {
        steps: steps.iter().map(|(id, description)| step(id, description)).collect(),
        ..Plan::default()
    };
    let mut plans = vec![plan(&[("a", "")])];
    let mut execution = execution;
    for (steps, of_driver, planned) in [
        (&[("a", "other"), ("b", ""), ("c", "")][..], true, &["b", "c"][..]),
        (&[("a", ""), ("c", "other"), ("d", "")], true, &["c", "d"]),
        (&[("c", "other"), ("d", "mine"), ("e", "")], false, &["c"]),
        (&[("c", ""), ("d", ""), ("f", "")], true, &["c", "f"]),
    ] {
        let (old, new) = (plans.last().cloned().unwrap_or_default(), plan(steps));
        execution = change(&execution, |draft| draft.attribute_steps((&old, &new), of_driver));
        assert_eq!(execution.counters.planned_steps, planned, "{steps:?}");
        plans.push(new);
    }
}
