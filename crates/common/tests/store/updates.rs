//! The price of a turn: its update stays inside the page.

use crate::support::{change, commit, committer, graph, make, until};
use sqlx::PgPool;
use surety_common::domain::decision::Usage;
use surety_common::domain::execution::turns::{TurnOutcome, TurnRecord};
use surety_common::store::Outcome;
use uuid::Uuid;

/// Fifty turns of one step, each a row rewritten. All are made over one connection, whose counts are
/// known once it is closed.
#[sqlx::test(migrations = "./migrations")]
async fn the_turns_of_a_step_are_written_in_place(pool: PgPool) {
    const TURNS: i64 = 50;
    let row = make(&pool, 1, 3).await;
    let committer = committer(&pool);
    let lease = change(&row, |draft| {
        draft.lease(Uuid::from_u128(9));
        draft.lease_steps(&graph(3), 1).map(drop)
    });
    let mut row = lease.execution.clone();
    assert_eq!(committer.commit(commit(lease)).await.unwrap(), Outcome::Applied);
    for number in 0..TURNS {
        let turn = change(&row, |draft| {
            let (decision, validations, warnings) = (None, Vec::new(), Vec::new());
            let (outcome, usage) = (TurnOutcome::Applied, Usage::default());
            draft.record_turn(
                &graph(3),
                0,
                TurnRecord { decision, validations, warnings, outcome, usage },
            )?;
            let fuses = serde_json::json!({"seen": "ab".repeat(64), "turn": number});
            draft.remember_fuses(0, fuses);
            Ok(())
        });
        row = turn.execution.clone();
        assert_eq!(committer.commit(commit(turn)).await.unwrap(), Outcome::Applied);
    }
    drop(committer);
    until(async || updates(&pool).await.0 > TURNS).await;
    let (all, in_place) = updates(&pool).await;
    assert_eq!(all, TURNS + 1, "the turns, and the lease before them");
    assert!(in_place * 10 >= all * 9, "{in_place} of {all} updates were made in place");
}

/// Updates of `execution` so far, and those of them that were made in place.
async fn updates(pool: &PgPool) -> (i64, i64) {
    sqlx::query_as(
        "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'execution'",
    )
    .fetch_one(pool)
    .await
    .unwrap()
}
