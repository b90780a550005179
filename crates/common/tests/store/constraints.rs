//! The constraints that the database itself checks, each by its name.

use crate::support::{
    applied, apply, change, create, find, graph, make, now, order, remark, spec, wait,
};
use sqlx::PgPool;
use std::sync::Arc;
use surety_common::domain::execution::Execution;
use surety_common::domain::execution::draft::{Ending, Write};
use surety_common::domain::machine::run::{Phase, RunEvent, RunState};
use surety_common::domain::run::RunSpec;
use surety_common::domain::step::StepState;
use surety_common::domain::stop::StopReason;
use surety_common::store::{self, StoreError};
use uuid::Uuid;

/// Corrupts a change of a leased run of two steps, and expects exactly the named constraint to
/// refuse it.
async fn refused(pool: PgPool, constraint: &str, spoil: impl FnOnce(&mut Execution)) {
    let row = running(&pool).await;
    let mut write = remark(&row, "told");
    spoil(Arc::make_mut(&mut write.execution));
    assert_refused(&pool, &row, write, constraint).await;
}

async fn running(pool: &PgPool) -> Execution {
    let row = make(pool, 1, 2).await;
    let lease = change(&row, |draft| {
        draft.lease(Uuid::from_u128(9));
        draft.lease_steps(&graph(2), 2).map(drop)
    });
    applied(pool, lease).await
}

async fn assert_refused(pool: &PgPool, row: &Execution, write: Write, expected: &str) {
    match apply(pool, write).await {
        Err(StoreError::Constraint { constraint }) => assert_eq!(constraint, expected),
        other => panic!("{expected} refused nothing: {other:?}"),
    }
    assert_eq!(find(pool, row.run_id).await.execution, *row, "nothing of it is stored");
}

/// A run that ended as DONE, corrupted.
async fn refused_done(pool: PgPool, constraint: &str, spoil: impl FnOnce(&mut Execution)) {
    let row = running(&pool).await;
    let mut write = change(&row, |draft| {
        draft.finish_step(&graph(2), 0, "")?;
        draft.finish_step(&graph(2), 1, "")?;
        draft.accept(&graph(2))
    });
    spoil(Arc::make_mut(&mut write.execution));
    assert_refused(&pool, &row, write, constraint).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn a_run_has_a_namespace(pool: PgPool) {
    let new = order(RunSpec { namespace: String::new(), ..spec(1) }, 1, now());
    let refused = create(&pool, &new, None).await.unwrap_err();
    let StoreError::Constraint { constraint } = refused else { panic!("{refused}") };
    assert_eq!(constraint, "run_namespace_filled");
}

#[sqlx::test(migrations = "./migrations")]
async fn a_plan_revision_counts_from_one(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let stored = order(spec(1), 1, now()).plan.unwrap();
    let stored = store::StoredPlan { revision: 0, ..stored };
    let refused = {
        let write = remark(&row, "x");
        let (plan, write) = (Some(&stored), Some(&write));
        let change = store::AnsweredChange { plan, write, ..Default::default() };
        store::apply_answered(&pool, change).await.unwrap_err()
    };
    let StoreError::Constraint { constraint } = refused else { panic!("{refused}") };
    assert_eq!(constraint, "plan_revision_positive");
}

#[sqlx::test(migrations = "./migrations")]
async fn words_that_are_not_known_are_refused(pool: PgPool) {
    make(&pool, 1, 1).await;
    for (sql, expected) in [
        ("update run set driver = 'unknown'", "run_driver_known"),
        ("update execution set state = 'ASLEEP'", "execution_state_known"),
        ("update execution set step_states = 'x'", "execution_step_states_known"),
        ("update execution set blocked_from = 'PLANNING'", "execution_blocked_remembers"),
        (
            "insert into journal values (gen_random_uuid(), 0, now(), 'a', '[]')",
            "journal_sequence_positive",
        ),
        ("insert into artifact values ('abc', 1, '', now())", "artifact_digest_is_sha256"),
    ] {
        let error = StoreError::from(sqlx::query(sql).execute(&pool).await.unwrap_err());
        let StoreError::Constraint { constraint } = error else { panic!("{error}") };
        assert_eq!(constraint, expected);
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn a_blocked_run_says_what_it_waits_for(pool: PgPool) {
    refused(pool, "execution_blocked_says_why", |row| {
        row.state = RunState::Blocked(Phase::Executing);
        row.lease_owner = None;
        row.steps.iter_mut().for_each(|step| Arc::make_mut(step).state = StepState::Ready);
    })
    .await;
}

#[sqlx::test(migrations = "./migrations")]
async fn what_is_waited_for_can_be_found_by_its_id(pool: PgPool) {
    refused(pool, "execution_waits_are_named", |row| {
        row.wait = Some(Box::new(surety_common::domain::execution::Wait {
            step_index: Some(0),
            ..wait(7)
        }));
    })
    .await;
}

#[sqlx::test(migrations = "./migrations")]
async fn a_blocked_run_holds_no_lease(pool: PgPool) {
    refused(pool, "execution_blocked_holds_no_lease", |row| {
        row.state = RunState::Blocked(Phase::Executing);
        row.wait = Some(Box::new(wait(7)));
    })
    .await;
}

#[sqlx::test(migrations = "./migrations")]
async fn a_step_runs_only_under_a_lease(pool: PgPool) {
    refused(pool, "execution_running_is_leased", |row| row.lease_owner = None).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn a_run_that_has_not_ended_has_no_terminal(pool: PgPool) {
    refused_done(pool, "execution_terminal_says_why", |row| row.state = RunState::Verifying).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn an_ended_run_says_why(pool: PgPool) {
    refused_done(pool, "execution_terminal_says_why", |row| row.terminal = None).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn an_ended_run_is_in_no_queue(pool: PgPool) {
    refused_done(pool, "execution_terminal_is_at_rest", |row| row.ready_at = Some(now())).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn an_ended_run_holds_no_lease(pool: PgPool) {
    refused_done(pool, "execution_terminal_is_at_rest", |row| {
        row.lease_owner = Some(Uuid::from_u128(9));
    })
    .await;
}

#[sqlx::test(migrations = "./migrations")]
async fn an_ended_run_has_no_deadline(pool: PgPool) {
    refused_done(pool, "execution_terminal_is_at_rest", |row| row.deadline_at = Some(now())).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn a_run_is_not_done_while_a_step_is_open(pool: PgPool) {
    refused_done(pool, "execution_done_left_nothing_open", |row| {
        row.step_mut(1).unwrap().state = StepState::Cancelled;
    })
    .await;
}

#[sqlx::test(migrations = "./migrations")]
async fn numbers_never_go_below_zero(pool: PgPool) {
    refused(pool, "execution_numbers_grow", |row| row.lease_epoch = -1).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn a_number_of_the_journal_is_given_once(pool: PgPool) {
    let row = running(&pool).await;
    let mut write = remark(&row, "told");
    Arc::make_mut(&mut write.execution).sequence = row.sequence;
    assert_refused(&pool, &row, write, "journal_default_pkey").await;
}

/// The reverse: no state that the rules lead to is refused.
#[sqlx::test(migrations = "./migrations")]
async fn every_state_that_a_run_comes_through_is_stored(pool: PgPool) {
    let row = running(&pool).await;
    let graph = graph(2);
    let row = applied(&pool, change(&row, |draft| draft.pause_step(&graph, 0, wait(7)))).await;
    let row = applied(&pool, change(&row, |draft| draft.pause_step(&graph, 1, wait(8)))).await;
    assert_eq!(row.state, RunState::Blocked(Phase::Executing));
    let row = applied(&pool, change(&row, |draft| draft.resume_step(&graph, 0, ""))).await;
    let row = applied(&pool, change(&row, |draft| draft.fail_step(&graph, 1, ""))).await;
    assert_eq!(row.state, RunState::Recovering);
    let block = change(&row, |draft| draft.block(&graph, wait(9)));
    let row = applied(&pool, block).await;
    let row = applied(&pool, change(&row, |draft| draft.unblock(&graph, ""))).await;
    let replan = change(&row, |draft| draft.run_event(RunEvent::ReplanStarted, ""));
    let row = applied(&pool, replan).await;
    assert_eq!(row.state, RunState::Planning);
    let end = Ending {
        stop_reason: StopReason::ReplanParseFailed,
        user_message: "no \u{0} plan".to_owned(),
        internal_reason: String::new(),
    };
    let row = applied(&pool, change(&row, |draft| draft.stop(&graph, end))).await;
    assert_eq!(row.state, RunState::Failed);
}
