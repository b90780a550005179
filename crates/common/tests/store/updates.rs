//! The price of a turn: its update stays inside the page.

use crate::support::{change, commit, committer, graph, make, said};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use surety_common::store::Outcome;
use uuid::Uuid;

/// Fifty turns of one step, each a row rewritten. All are made over one connection, and its counts
/// are flushed before they are read, so that they are exact.
#[sqlx::test(migrations = "./migrations")]
async fn the_turns_of_a_step_are_written_in_place(_: PgPoolOptions, options: PgConnectOptions) {
    const TURNS: i64 = 50;
    let pool = PgPoolOptions::new().max_connections(1).connect_with(options.clone()).await.unwrap();
    let row = make(&pool, 1, 3).await;
    let committer = committer(&pool);
    let lease = change(&row, |draft| {
        draft.lease(Uuid::from_u128(9));
        draft.lease_steps(&graph(3), 1).map(drop)
    });
    let mut row = lease.execution.clone();
    assert_eq!(committer.commit(commit(lease)).await.unwrap(), Outcome::Applied);
    let before = updates(&pool).await;
    for number in 0..TURNS {
        let turn = change(&row, |draft| {
            draft.execution_mut().counters.rounds += 1;
            let step = &mut draft.execution_mut().steps[0];
            step.rounds += 1;
            step.fuses = serde_json::json!({"seen": "ab".repeat(64), "turn": number});
            draft.journal(said("a turn"));
            Ok(())
        });
        row = turn.execution.clone();
        assert_eq!(committer.commit(commit(turn)).await.unwrap(), Outcome::Applied);
    }
    let after = updates(&pool).await;
    let (all, in_place) = (after.0 - before.0, after.1 - before.1);
    assert_eq!(all, TURNS);
    assert!(in_place * 10 >= all * 9, "{in_place} of {all} updates were made in place");
}

/// Updates of `execution` so far, and those of them that were made in place.
async fn updates(pool: &sqlx::PgPool) -> (i64, i64) {
    let mut connection = pool.acquire().await.unwrap();
    sqlx::query("select pg_stat_force_next_flush()").execute(&mut *connection).await.unwrap();
    sqlx::query_as(
        "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'execution'",
    )
    .fetch_one(&mut *connection)
    .await
    .unwrap()
}
