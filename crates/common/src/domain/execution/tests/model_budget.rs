//! The reservation of a reply whose prompt is known.

use super::model::{NEXT, WAIT, away, draft, graph, tokens, waiting, written};
use crate::domain::decision::{Abort, Usage};
use crate::domain::execution::budget::ReplyNeed;
use crate::domain::execution::wait_rows::WaitKind;
use crate::domain::execution::{Execution, Wait};
use crate::domain::limits::Limits;
use crate::domain::machine::run::RunState;
use crate::domain::run::OnBudget;
use crate::domain::stop::StopReason;

const IDS: (uuid::Uuid, i64, uuid::Uuid) = (WAIT, 7, NEXT);

fn limits(total: u64, turn: Option<u64>) -> Limits {
    Limits { token_budget: Some(total), max_turn_tokens: turn, ..Limits::default() }
}

/// A step that waits for a model, with its share of a budget.
fn reserved(limits: &Limits) -> Execution {
    let mut row = waiting();
    let part = row.part_of_budgets(limits, Usage::default()).unwrap();
    row.step_mut(0).unwrap().reserved = part;
    row
}

fn need(least: u64, most: u64) -> ReplyNeed {
    ReplyNeed { least: tokens(least), most: tokens(most) }
}

#[test]
fn a_reply_that_needs_more_than_its_share_gets_it_while_it_is_left() {
    for (turn, most, granted) in [(None, 60, 60), (None, 600, 100), (Some(50), 60, 50)] {
        let limits = limits(100, turn);
        let row = reserved(&limits);
        let mut change = draft(&row, 1);
        let found =
            change.reserve_for_reply(&graph(), (&limits, OnBudget::Block), IDS, need(40, most));
        assert_eq!(found.unwrap(), Some(tokens(granted)));
        assert_eq!(written(change).reserved(), tokens(granted));
    }
}

#[test]
fn a_reply_for_which_too_little_is_left_waits_for_a_budget_and_costs_nothing() {
    let limits = limits(100, None);
    let row = reserved(&limits);
    let mut change = draft(&row, 1);
    let found = change.reserve_for_reply(&graph(), (&limits, OnBudget::Block), IDS, need(101, 200));
    assert_eq!(found.unwrap(), None);
    let write = change.into_write();
    assert_eq!(write.waits.closed, [WAIT]);
    assert_eq!((write.waits.opened[0].id, write.waits.opened[0].kind), (NEXT, WaitKind::Budget));
    let row = Execution::clone(&write.execution);
    assert!(matches!(row.state, RunState::Blocked(_)), "{:?}", row.state);
    assert_eq!((row.reserved(), row.counters.usage), (tokens(0), tokens(0)));
    let Wait { question, .. } = *row.wait.clone().unwrap();
    assert!(
        question.contains("token_budget (100)") && question.contains("needs 101"),
        "{question}"
    );
    let mut change = draft(&row, 2);
    change.extend_budget(&graph(), tokens(100), "more").unwrap();
    assert_eq!(written(change).state, RunState::Executing);
    let row = reserved(&limits);
    let mut change = draft(&row, 1);
    change.reserve_for_reply(&graph(), (&limits, OnBudget::Fail), IDS, need(101, 200)).unwrap();
    let ended = written(change);
    assert_eq!(ended.stop_reason(), Some(StopReason::BudgetExceeded));
    assert_eq!(ended.counters.usage, tokens(0));
}

#[test]
fn a_turn_that_may_not_have_what_its_reply_needs_ends_the_run_by_name() {
    let limits = limits(1000, Some(50));
    let row = reserved(&limits);
    let mut change = draft(&row, 1);
    change.reserve_for_reply(&graph(), (&limits, OnBudget::Block), IDS, need(51, 60)).unwrap();
    let ended = written(change);
    let terminal = ended.terminal.clone().unwrap();
    assert_eq!(terminal.stop_reason, StopReason::BudgetExceeded);
    assert!(terminal.user_message.contains("max_turn_tokens is 50"), "{terminal:?}");
    assert_eq!(ended.counters.usage, tokens(0));
}

#[test]
fn a_model_that_cannot_be_asked_aborts_the_run_and_costs_nothing() {
    let row = reserved(&limits(100, None));
    let mut change = draft(&row, 1);
    let abort = Abort {
        code: "model_context_too_long".to_owned(),
        user_message: "too long".to_owned(),
        ..Abort::default()
    };
    change.model_gives_up(&graph(), (WAIT, 7), (abort.clone(), tokens(0))).unwrap();
    let ended = written(change);
    let terminal = ended.terminal.clone().unwrap();
    assert_eq!(terminal.stop_reason, StopReason::Aborted);
    assert_eq!(terminal.abort_code, "model_context_too_long");
    assert_eq!((ended.reserved(), ended.counters.usage), (tokens(0), tokens(0)));
    // What was used for replies that broke off is charged all the same.
    let mut change = draft(&row, 1);
    change.model_gives_up(&graph(), (WAIT, 7), (abort, tokens(30))).unwrap();
    let ended = written(change);
    assert_eq!((ended.reserved(), ended.counters.usage), (tokens(0), tokens(30)));
}

#[test]
fn replies_that_broke_off_are_charged_out_of_the_reservation_of_the_next_one() {
    let limits = limits(100, Some(50));
    let row = reserved(&limits);
    assert_eq!(row.reserved(), tokens(50));
    let mut change = draft(&row, 1);
    change.model_away(&graph(), (WAIT, 7), NEXT, (away(), tokens(30))).unwrap();
    let row = written(change);
    assert_eq!((row.reserved(), row.counters.usage), (tokens(20), tokens(30)));
    assert_eq!(row.counters.usage_without_turn, tokens(30));
    // The next reply gets what the budget has left, and not the part that is used.
    let ids = (NEXT, 8, uuid::Uuid::from_u128(5));
    let mut change = draft(&row, 2);
    let found = change.reserve_for_reply(&graph(), (&limits, OnBudget::Block), ids, need(40, 50));
    assert_eq!(found.unwrap(), Some(tokens(50)));
    let row = written(change);
    let mut change = draft(&row, 3);
    let ids = (NEXT, 8);
    change.model_away(&graph(), ids, WAIT, (away(), tokens(60))).unwrap();
    let row = written(change);
    assert_eq!((row.reserved(), row.counters.usage), (tokens(0), tokens(90)));
    let mut change = draft(&row, 4);
    let ids = (WAIT, 9, uuid::Uuid::from_u128(6));
    let found = change.reserve_for_reply(&graph(), (&limits, OnBudget::Block), ids, need(40, 50));
    assert_eq!(found.unwrap(), None, "10 are left");
    assert!(matches!(written(change).state, RunState::Blocked(_)));
}
