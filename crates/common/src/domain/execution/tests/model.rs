//! Waits of models whose endpoint does not answer, and plans that wait for a person.

use crate::domain::decision::{Usage, UsageSource};
use crate::domain::execution::draft::Draft;
use crate::domain::execution::wait_rows::WaitKind;
use crate::domain::execution::{Execution, Graph, PlanAnswer, SuppliedReply, Wait};
use crate::domain::journal::Actor;
use crate::domain::limits::Limits;
use crate::domain::machine::run::{Phase, RunEvent, RunState};
use crate::domain::model::{AwayEndpoint, ModelReply, ModelWait};
use crate::domain::plan::{Plan, PlanStep};
use crate::domain::planning::{PlanApproval, RefusedPlan};
use crate::domain::run::OnBudget;
use crate::domain::stop::{StopReason, WaitingOn};
use chrono::TimeDelta;
use uuid::Uuid;

pub(super) const WAIT: Uuid = Uuid::from_u128(1);
pub(super) const NEXT: Uuid = Uuid::from_u128(2);

pub(super) fn graph() -> Graph {
    let step = PlanStep { id: "s".into(), description: "s".into(), ..PlanStep::default() };
    Graph::of(&Plan { title: "t".into(), steps: vec![step], ..Plan::default() })
}

fn at(seconds: i64) -> chrono::DateTime<chrono::Utc> {
    chrono::DateTime::from_timestamp(1_700_000_000 + seconds, 0).unwrap()
}

pub(super) fn draft(row: &Execution, seconds: i64) -> Draft {
    Draft::new(row.clone(), Actor("test".into()), at(seconds))
}

pub(super) fn written(draft: Draft) -> Execution {
    Execution::clone(&draft.into_write().execution)
}

/// A run whose step waits for a model.
pub(super) fn waiting() -> Execution {
    let row = Execution::new(Uuid::from_u128(9), "default".to_owned(), at(100_000), at(0));
    let mut change = draft(&row, 0);
    change.start_plan(&graph(), 1).unwrap();
    change.lease(Uuid::from_u128(3));
    change.lease_steps(&graph(), 1).unwrap();
    let wait = Wait::new(WAIT, WaitingOn::Driver, at(0), "a model".to_owned());
    let wait = Wait { model: Some(Box::default()), step_index: Some(0), ..wait };
    change.await_reply(&graph(), 0, wait).unwrap();
    written(change)
}

pub(super) fn away() -> AwayEndpoint {
    AwayEndpoint {
        endpoint: "fast".to_owned(),
        why: "model_unreachable: refused".to_owned(),
        since: at(10),
        until: at(70),
        retry_at: at(12),
    }
}

#[test]
fn a_run_whose_endpoint_is_away_is_blocked_on_the_model_and_offered_again_later() {
    let row = waiting();
    assert_eq!(
        row.kept_waits().map(|wait| wait.kind).collect::<Vec<_>>(),
        [WaitKind::ModelDecision]
    );
    assert_eq!(row.state, RunState::Executing);
    let mut change = draft(&row, 10);
    change.model_away(&graph(), (WAIT, 7), NEXT, (away(), Usage::default())).unwrap();
    let write = change.into_write();
    assert_eq!(write.waits.closed, [WAIT]);
    let opened = &write.waits.opened[0];
    assert_eq!((opened.id, opened.kind), (NEXT, WaitKind::ModelDecision));
    assert_eq!((opened.retry_at, opened.expires_at), (Some(at(12)), Some(at(70))));
    assert_eq!(write.waits.answered.map(|answered| answered.lease_epoch), Some(7));
    let row = Execution::clone(&write.execution);
    assert_eq!(row.state, RunState::Blocked(Phase::Executing));
    let shown = row.wait.clone().unwrap();
    assert_eq!(shown.waiting_on, WaitingOn::Model);
    assert!(shown.unblocks.contains("fast") && shown.unblocks.contains("refused"), "{shown:?}");
    // The endpoint is back: the reply goes into the step, and the wait does not count for its time.
    let began = row.step(0).unwrap().started_at.unwrap();
    let mut change = draft(&row, 40);
    let reply = SuppliedReply {
        wait_id: NEXT,
        lease_epoch: 8,
        text: "{}".to_owned(),
        usage: None,
        trace_parent: String::new(),
        by: "~model".to_owned(),
        model: Some(Box::new(ModelReply::default())),
    };
    change.supply_reply(&graph(), reply, TimeDelta::seconds(25)).unwrap();
    let row = written(change);
    assert_eq!(row.state, RunState::Executing);
    assert_eq!(row.step(0).unwrap().started_at, Some(began + TimeDelta::seconds(30)));
    assert!(row.needs_executor());
}

#[test]
fn a_run_ends_when_its_endpoint_is_away_for_too_long() {
    let mut change = draft(&waiting(), 10);
    change.model_away(&graph(), (WAIT, 7), NEXT, (away(), Usage::default())).unwrap();
    let row = written(change);
    let mut early = draft(&row, 69);
    early.expire_models(&graph()).unwrap();
    assert!(early.is_empty(), "it is not time yet");
    let mut change = draft(&row, 70);
    change.expire_models(&graph()).unwrap();
    let row = written(change);
    assert_eq!(row.stop_reason(), Some(StopReason::ModelUnavailable));
    assert!(row.kept_waits().next().is_none());
}

#[test]
fn only_a_wait_of_a_model_waits_for_an_endpoint() {
    let mut row = waiting();
    if let Some(wait) = row.step_mut(0).and_then(|step| step.wait.as_deref_mut()) {
        wait.model = None;
    }
    assert_eq!(row.kept_waits().map(|wait| wait.kind).collect::<Vec<_>>(), [WaitKind::Decision]);
    let mut change = draft(&row, 10);
    assert!(change.model_away(&graph(), (WAIT, 7), NEXT, (away(), Usage::default())).is_err());
    let mut change = draft(&waiting(), 10);
    assert!(
        change.model_away(&graph(), (NEXT, 7), WAIT, (away(), Usage::default())).is_err(),
        "another wait"
    );
    assert_eq!(ModelWait::default().away, None);
}

#[test]
fn a_plan_that_waits_for_a_person_begins_with_the_approval_or_ends_the_run() {
    let asked = || {
        let row = Execution::new(Uuid::from_u128(9), "default".to_owned(), at(100_000), at(0));
        let mut change = draft(&row, 0);
        change.start_plan(&graph(), 1).unwrap();
        let wait = Wait::new(WAIT, WaitingOn::Approver, at(0), "an approver".to_owned());
        let approval = PlanApproval {
            digest: "d".to_owned(),
            expires_at: at(50),
            asked_by: "~model".to_owned(),
        };
        let wait = Wait { plan_approval: Some(Box::new(approval)), ..wait };
        change.ask_for_plan(&graph(), wait).unwrap();
        written(change)
    };
    let row = asked();
    assert_eq!(row.state, RunState::Blocked(Phase::Executing));
    assert!(!row.needs_executor() && row.ready_at.is_none());
    let answer = |approved| PlanAnswer { by: "alice", approved, comment: "" };
    let mut change = draft(&row, 1);
    assert!(change.resolve_plan(&graph(), NEXT, answer(true)).is_err(), "another wait");
    change.resolve_plan(&graph(), WAIT, answer(true)).unwrap();
    let begun = written(change);
    assert!(begun.state == RunState::Executing && begun.needs_executor());
    let mut change = draft(&row, 1);
    change.resolve_plan(&graph(), WAIT, answer(false)).unwrap();
    assert_eq!(written(change).stop_reason(), Some(StopReason::PlanRejected));
    let mut change = draft(&row, 50);
    change.expire_plan(&graph()).unwrap();
    assert_eq!(written(change).stop_reason(), Some(StopReason::ConfirmationExpired));
}

pub(super) const fn tokens(tokens: u64) -> Usage {
    Usage { tokens, cost_micros: 0 }
}

/// A run with a budget of 100 tokens and 40 for a reply, which waits for a plan of a model.
fn planning(used: u64, on_budget: OnBudget) -> (Limits, Execution) {
    planning_by(Some(Box::default()), used, on_budget)
}

/// As [`planning`], for a plan of a model or an agent.
fn planning_by(
    model: Option<Box<ModelWait>>,
    used: u64,
    on_budget: OnBudget,
) -> (Limits, Execution) {
    let limits = Limits { token_budget: Some(100), max_turn_tokens: Some(40), ..Limits::default() };
    let mut row = Execution::new(Uuid::from_u128(9), "default".to_owned(), at(100_000), at(0));
    row.counters.usage = tokens(used);
    let mut change = draft(&row, 0);
    change.run_event(RunEvent::PlanningStarted, "a plan is required").unwrap();
    let wait = Wait::new(WAIT, WaitingOn::Model, at(0), "a plan".to_owned());
    let wait = Wait { model, question: "why".to_owned(), ..wait };
    change.block(&graph(), wait).unwrap();
    change.reserve_plan(&graph(), &limits, on_budget).unwrap();
    (limits, written(change))
}

#[test]
fn a_plan_reserves_its_part_of_the_budget_and_is_charged_with_it_or_with_its_cost() {
    for (used, part) in [(0, 40), (70, 30)] {
        let (limits, row) = planning(used, OnBudget::Block);
        assert_eq!(row.reserved(), tokens(part));
        for (said, charged) in [(Some(tokens(7)), 7), (None, part)] {
            let mut change = draft(&row, 1);
            change.settle_plan(said.map(|usage| (usage, UsageSource::Measured)), false);
            change.unblock(&graph(), "a plan").unwrap();
            change.start_plan(&graph(), 1).unwrap();
            let row = written(change);
            assert_eq!((row.reserved(), row.counters.usage), (tokens(0), tokens(used + charged)));
        }
        // A refused plan was paid for; the next one reserves again, as far as something is left.
        let mut change = draft(&row, 1);
        change.settle_plan(Some((tokens(20), UsageSource::Measured)), false);
        let refused = RefusedPlan { code: "x".into(), field: String::new(), message: "x".into() };
        change.refuse_plan(NEXT, refused, "refused").unwrap();
        change.reserve_plan(&graph(), &limits, OnBudget::Block).unwrap();
        let row = written(change);
        assert_eq!(row.reserved(), tokens((100 - used - 20).min(40)));
        // The end of the run charges what a model may be using.
        let mut change = draft(&row, 2);
        change.cancel(&graph(), "enough".to_owned()).unwrap();
        let ended = written(change);
        assert_eq!(ended.reserved(), tokens(0));
        assert_eq!(ended.counters.usage, row.counters.usage.plus(row.reserved()));
    }
}

#[test]
fn a_plan_without_a_usage_is_charged_with_its_reservation_under_a_lease_only() {
    for (is_leased, charged) in [(true, 40), (false, 0)] {
        let (_, row) = planning_by(None, 0, OnBudget::Block);
        assert_eq!(row.reserved(), tokens(40));
        let mut change = draft(&row, 1);
        change.settle_plan(None, is_leased);
        change.unblock(&graph(), "a plan").unwrap();
        change.start_plan(&graph(), 1).unwrap();
        let row = written(change);
        assert_eq!((row.reserved(), row.counters.usage), (tokens(0), tokens(charged)));
    }
}

#[test]
fn without_a_budget_for_a_plan_the_run_waits_for_one_or_ends() {
    for (model, kind) in [(Some(Box::default()), WaitKind::ModelPlan), (None, WaitKind::Plan)] {
        plan_without_a_budget(model, kind);
    }
}

fn plan_without_a_budget(model: Option<Box<ModelWait>>, kind: WaitKind) {
    let (_, row) = planning_by(model.clone(), 100, OnBudget::Fail);
    assert_eq!(row.stop_reason(), Some(StopReason::BudgetExceeded));
    let (limits, row) = planning_by(model, 100, OnBudget::Block);
    assert_eq!(row.kept_waits().map(|wait| wait.kind).collect::<Vec<_>>(), [WaitKind::Budget]);
    let shown = row.wait.clone().unwrap();
    assert!(shown.question.contains("token_budget (100) is used up"), "{shown:?}");
    let mut change = draft(&row, 1);
    change.extend_budget(&graph(), tokens(25), "more").unwrap();
    change.wait_for_plan_again(&graph(), NEXT, (&limits, OnBudget::Block)).unwrap();
    let write = change.into_write();
    assert_eq!(write.waits.closed, [WAIT]);
    assert_eq!((write.waits.opened[0].id, write.waits.opened[0].kind), (NEXT, kind));
    let row = Execution::clone(&write.execution);
    assert_eq!((row.reserved(), row.wait.unwrap().question.as_str()), (tokens(25), "why"));
}
