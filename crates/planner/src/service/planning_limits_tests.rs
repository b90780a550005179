//! Plans of planning agents in any order: none is longer than `max_plan_steps`, and no more are refused than
//! `planning_retry` allows, for a first plan; for a later one, one correction.

use super::request::{Sender, read_new_plan};
use crate::intake::{
    attempts_left, counted, first_execution, first_moves, refuse_in, wait_for_plan,
};
use proptest::prelude::*;
use std::sync::Arc;
use surety_common::domain::execution::Graph;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::identity::Role;
use surety_common::domain::journal::Actor;
use surety_common::domain::limits::Limits;
use surety_common::domain::machine::run::RunEvent;
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::run::{DriverKind, Policy, RunRecord, RunSpec};
use surety_common::domain::stop::StopReason;
use surety_common::wire::v1;
use surety_common::wire::v1::submit_plan_request::PlanSource;
use uuid::Uuid;

/// What an agent submits.
#[derive(Debug, Clone)]
enum Submitted {
    /// A plan of so many steps; in a chain, each step depends on the one before.
    Plan { steps: usize, chain: bool, as_text: bool },
    /// A patch that adds so many steps.
    Patch { steps: usize },
    /// Text without a plan.
    Prose,
}

fn submitted() -> impl Strategy<Value = Submitted> {
    prop_oneof![
        4 => (0_usize..9, any::<bool>(), any::<bool>())
            .prop_map(|(steps, chain, as_text)| Submitted::Plan { steps, chain, as_text }),
        1 => (0_usize..9).prop_map(|steps| Submitted::Patch { steps }),
        1 => Just(Submitted::Prose),
    ]
}

impl Submitted {
    fn source(&self) -> PlanSource {
        match *self {
            Self::Prose => PlanSource::PlanText("I would begin with the tests.".to_owned()),
            Self::Patch { steps } => {
                let steps: Vec<String> = (0..steps)
                    .map(|at| format!(r#"{{"id":"new{at}","description":"d"}}"#))
                    .collect();
                let (steps, reason) = (steps.join(","), r#""reason":"r""#);
                PlanSource::PatchText(format!(r#"{{"add_steps":[{steps}],{reason}}}"#))
            }
            Self::Plan { steps, chain, as_text } => {
                let step = |at: usize| v1::PlanStep {
                    id: format!("p{at}"),
                    description: "d".to_owned(),
                    dependencies: (chain && at > 0)
                        .then(|| format!("p{}", at - 1))
                        .into_iter()
                        .collect(),
                    ..v1::PlanStep::default()
                };
                let plan = v1::Plan {
                    title: "t".to_owned(),
                    steps: (0..steps).map(step).collect(),
                    ..v1::Plan::default()
                };
                if !as_text {
                    return PlanSource::Plan(plan);
                }
                let plan = Plan::try_from(plan).expect("a plan of the wire");
                PlanSource::PlanText(plan.to_json().to_compact())
            }
        }
    }
}

/// A run that waits for its first plan, or for another one after a failed step.
fn waiting_run(limits: Limits, replans: bool) -> RunRecord {
    let now = chrono::DateTime::UNIX_EPOCH;
    let spec = RunSpec {
        id: Uuid::from_u128(1),
        namespace: "test".to_owned(),
        request_id: String::new(),
        goal: "g".to_owned(),
        driver: DriverKind::Remote,
        workspace: String::new(),
        limits,
        policy: Policy::default(),
        labels: Default::default(),
        trace_parent: String::new(),
        created_at: now,
        forked_from: None,
        repository: None,
    };
    let mut draft = Draft::new(first_execution(&spec, now), Actor("planner".into()), now);
    let mut plan = None;
    if replans {
        let step =
            PlanStep { id: "a".to_owned(), description: "d".to_owned(), ..PlanStep::default() };
        let first = Plan { title: "t".to_owned(), steps: vec![step], ..Plan::default() };
        let graph = Graph::of(&first);
        draft.run_event(RunEvent::PlanningStarted, "a plan came with the run").expect("planning");
        draft.start_plan(&graph, 1).expect("a plan is accepted");
        draft
            .replan(&graph, wait_for_plan(now, DriverKind::Remote, 0), "a step failed")
            .expect("another plan");
        plan = Some(Arc::new(first));
    } else {
        draft = first_moves(draft, Err(wait_for_plan(now, DriverKind::Remote, 0)), None)
            .expect("a run that waits for a plan");
    }
    let execution = (*draft.into_write().execution).clone();
    RunRecord { spec, execution, plan, plan_digest: String::new() }
}

proptest! {
    #[test]
    fn no_plan_is_too_long_and_no_agent_gets_more_attempts_than_the_limit(
        max_plan_steps in 1_u32..6,
        planning_retry in 0_u32..6,
        replans in any::<bool>(),
        all in prop::collection::vec(submitted(), 1..12),
    ) {
        let limits = Limits { max_plan_steps, planning_retry, ..Limits::default() };
        let mut record = waiting_run(limits, replans);
        let corrections = if replans { 1 } else { planning_retry };
        let sender = Sender::new("agent", Role::Driver, Arc::default());
        for (refused, submitted) in (0_u32..).zip(&all) {
            prop_assert_eq!(attempts_left(&record.execution, &record.spec.limits), corrections + 1 - refused);
            let request = v1::SubmitPlanRequest {
                expected_revision: record.execution.plan_revision,
                lease_epoch: 1,
                plan_source: Some(submitted.source()),
                ..v1::SubmitPlanRequest::default()
            };
            let fault = match read_new_plan(request, &record, &sender) {
                Ok(read) => {
                    let steps = read.new.plan.steps.len();
                    prop_assert!(steps >= 1 && steps <= max_plan_steps as usize, "{submitted:?}: {steps}");
                    return Ok(());
                }
                Err(fault) => fault,
            };
            let code = counted(fault.reason).expect("each of them counts");
            let now = record.execution.updated_at;
            let mut draft = Draft::new(record.execution.clone(), Actor("agent".into()), now);
            refuse_in(&mut draft, &record, "agent", code, &fault).expect("a refusal is recorded");
            record.execution = (*draft.into_write().execution).clone();
            let ended = record.execution.state.is_terminal();
            prop_assert_eq!(ended, refused == corrections, "after {} refusals", refused + 1);
            if ended {
                let expected = if replans { StopReason::ReplanParseFailed } else { StopReason::PlanParseFailed };
                prop_assert_eq!(record.execution.stop_reason(), Some(expected));
                return Ok(());
            }
        }
    }
}

/// The refusal of the last attempt at a replan.
fn last_refusal(patch_text: &str) -> (String, Option<String>) {
    let mut record = waiting_run(Limits::default(), true);
    let sender = Sender::new("agent", Role::Driver, Arc::default());
    let submit = |record: &RunRecord, text: &str| {
        let request = v1::SubmitPlanRequest {
            expected_revision: record.execution.plan_revision,
            lease_epoch: 1,
            plan_source: Some(PlanSource::PatchText(text.to_owned())),
            ..v1::SubmitPlanRequest::default()
        };
        read_new_plan(request, record, &sender).map(|read| read.new.plan).unwrap_err()
    };
    let first = submit(&record, "no patch");
    let mut draft =
        Draft::new(record.execution.clone(), Actor("agent".into()), record.execution.updated_at);
    refuse_in(&mut draft, &record, "agent", "no_json_object", &first)
        .expect("a refusal is recorded");
    record.execution = (*draft.into_write().execution).clone();
    let last = submit(&record, patch_text);
    (last.reason.to_string(), last.field)
}

#[test]
fn a_whole_plan_as_the_last_attempt_is_refused_for_what_is_wrong_with_it() {
    let steps = |count: usize| {
        let step = |at: usize| format!(r#"{{"id": "s{at}", "description": "d"}}"#);
        let steps: Vec<String> = (0..count).map(step).collect();
        format!(r#"{{"title": "T", "steps": [{}]}}"#, steps.join(", "))
    };
    let cycle = r#"{"title": "T", "steps": [{"id": "a", "description": "d", "dependencies": ["b"]},
                   {"id": "b", "description": "d", "dependencies": ["a"]}]}"#;
    for (text, code) in [
        (steps(13).as_str(), "plan_too_long"),
        (cycle, "dependency_cycle"),
        (r#"{"title": "T", "steps": [{"id": "a"}]}"#, "step_description_empty"),
        (r#"{"type": "FullPlan", "title": "T"}"#, "steps_empty"),
        // What is meant as a patch is refused as one.
        (r#"{"type": "PlanPatch", "steps": []}"#, "forbidden_field"),
        (r#"{"add_steps": [{"id": "n"}], "reason": "r"}"#, "step_description_empty"),
        (r#"{"title": "T", "update_steps": [{"id": "x"}]}"#, "unknown_step"),
        ("prose", "no_json_object"),
    ] {
        assert_eq!(last_refusal(text).0, code, "{text}");
    }
}
