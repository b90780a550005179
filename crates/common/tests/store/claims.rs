//! Taking runs up, and taking them over.

use crate::support::{applied, change, commit, find, later, make, make_from, now, remark, spec};
use chrono::TimeDelta;
use sqlx::PgPool;
use std::collections::BTreeMap;
use surety_common::domain::execution::Execution;
use surety_common::domain::run::RunSpec;
use surety_common::store::{self, Claimed, Outcome};
use uuid::Uuid;

fn ids(claimed: &Claimed) -> Vec<u128> {
    claimed.runs.iter().map(|record| record.spec.id.as_u128()).collect()
}

async fn waiting(pool: &PgPool, id: u128, priority: i16, since_s: i64) -> Execution {
    let labels = BTreeMap::from([("priority".to_owned(), priority.to_string())]);
    make_from(pool, RunSpec { labels, created_at: later(since_s), ..spec(id) }, 1).await
}

async fn leased(pool: &PgPool, id: u128, owner: u128) -> Execution {
    let row = make(pool, id, 1).await;
    let write = change(&row, |draft| {
        draft.lease(Uuid::from_u128(owner));
        Ok(())
    });
    applied(pool, write).await
}

#[sqlx::test(migrations = "./migrations")]
async fn the_most_urgent_then_the_oldest_are_taken_up_first_and_no_more_than_wanted(pool: PgPool) {
    for (id, priority, since) in [(1, 0, 3), (2, 0, 1), (3, 5, 9), (4, -5, 0), (5, 0, 2)] {
        waiting(&pool, id, priority, since).await;
    }
    let mut order = Vec::new();
    let mut held = Vec::new();
    for limit in [2, 1, 9] {
        let claimed = store::claim(&pool, later(10), limit).await.unwrap();
        assert!(claimed.runs.len() <= usize::try_from(limit).unwrap());
        let mut of_this: Vec<u128> = ids(&claimed);
        of_this.sort_unstable();
        order.push(of_this);
        held.push(claimed);
    }
    assert_eq!(order, [vec![2, 3], vec![5], vec![1, 4]]);
}

#[sqlx::test(migrations = "./migrations")]
async fn what_one_process_claims_another_skips_until_it_lets_go(pool: PgPool) {
    make(&pool, 1, 1).await;
    make(&pool, 2, 1).await;
    let first = store::claim(&pool, now(), 1).await.unwrap();
    let second = store::claim(&pool, now(), 9).await.unwrap();
    let mut all = [ids(&first), ids(&second)].concat();
    all.sort_unstable();
    assert_eq!(all, [1, 2]);
    assert_eq!(store::claim(&pool, now(), 9).await.unwrap().runs, []);
    assert_eq!(first.commit(&[]).await.unwrap(), [], "nothing decided is nothing done");
    assert_eq!(second.commit(&[]).await.unwrap(), []);
    let again = store::claim(&pool, now(), 9).await.unwrap();
    assert_eq!(again.runs.len(), 2);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_leased_run_and_one_that_is_not_ready_yet_are_not_claimed(pool: PgPool) {
    leased(&pool, 1, 9).await;
    waiting(&pool, 2, 0, 60).await;
    assert_eq!(store::claim(&pool, now(), 9).await.unwrap().runs, []);
    assert_eq!(ids(&store::claim(&pool, later(60), 9).await.unwrap()), [2]);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_claim_is_written_in_the_transaction_that_locks(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let claimed = store::claim(&pool, now(), 1).await.unwrap();
    let write = change(&claimed.runs[0].execution, |draft| {
        draft.lease(Uuid::from_u128(9));
        Ok(())
    });
    let expected = write.execution.clone();
    assert_eq!(claimed.commit(&[commit(write)]).await.unwrap(), [Outcome::Applied]);
    assert_eq!(find(&pool, row.run_id).await.execution, *expected);
    assert_eq!(expected.lease_epoch, row.lease_epoch + 1);
}

#[sqlx::test(migrations = "./migrations")]
async fn runs_of_silent_and_of_unknown_executors_are_orphans(pool: PgPool) {
    let (alive, silent, unknown, me) = (21, 22, 23, 24);
    let register = |id, at| store::register(&pool, Uuid::from_u128(id), "e", 4, at);
    register(alive, now()).await.unwrap();
    register(silent, now()).await.unwrap();
    register(me, now()).await.unwrap();
    for (id, owner) in [(1, alive), (2, silent), (3, unknown), (4, me)] {
        leased(&pool, id, owner).await;
    }
    make(&pool, 5, 1).await;
    let held = store::beat(&pool, Uuid::from_u128(alive), later(30)).await.unwrap().unwrap();
    assert_eq!(held.iter().map(|lease| lease.run_id.as_u128()).collect::<Vec<_>>(), [1]);

    let orphans = |limit| store::orphans(&pool, later(20), Uuid::from_u128(me), limit);
    let all = orphans(9).await.unwrap();
    let mut found = ids(&all);
    all.commit(&[]).await.unwrap();
    found.sort_unstable();
    assert_eq!(found, [2, 3], "the silent's and the unknown's, never one's own");
    let one = orphans(1).await.unwrap();
    let other = orphans(9).await.unwrap();
    assert_eq!((one.runs.len(), other.runs.len()), (1, 1), "skipped while another takes it over");
}

#[sqlx::test(migrations = "./migrations")]
async fn an_executor_is_forgotten_only_when_it_holds_nothing(pool: PgPool) {
    let (id, other) = (Uuid::from_u128(21), Uuid::from_u128(22));
    store::register(&pool, id, "e", 4, now()).await.unwrap();
    store::register(&pool, other, "f", 4, now() - TimeDelta::hours(1)).await.unwrap();
    let row = leased(&pool, 1, 21).await;
    store::retire(&pool, id, now()).await.unwrap();
    assert!(store::beat(&pool, id, later(1)).await.unwrap().is_some(), "it still holds a run");
    assert_eq!(store::beat(&pool, other, later(1)).await.unwrap(), None, "long silent");
    let write = change(&row, |draft| {
        draft.release();
        Ok(())
    });
    applied(&pool, write).await;
    store::retire(&pool, id, now()).await.unwrap();
    assert_eq!(store::beat(&pool, id, later(2)).await.unwrap(), None);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_heartbeat_never_goes_back(pool: PgPool) {
    let id = Uuid::from_u128(21);
    store::register(&pool, id, "e", 4, later(10)).await.unwrap();
    store::beat(&pool, id, now()).await.unwrap();
    leased(&pool, 1, 21).await;
    let orphans = store::orphans(&pool, later(10), Uuid::nil(), 9).await.unwrap();
    assert_eq!(orphans.runs, []);
}

#[sqlx::test(migrations = "./migrations")]
async fn the_backlog_counts_what_waits_and_names_what_is_in_hand(pool: PgPool) {
    make(&pool, 1, 1).await;
    make(&pool, 2, 1).await;
    let row = make_from(&pool, RunSpec { namespace: "busy".to_owned(), ..spec(3) }, 1).await;
    let leased = change(&row, |draft| {
        draft.lease(Uuid::from_u128(9));
        Ok(())
    });
    applied(&pool, leased).await;
    let mut backlog: Vec<(String, u32)> = store::backlog(&pool)
        .await
        .unwrap()
        .into_iter()
        .map(|row| (row.namespace, row.ready_runs))
        .collect();
    backlog.sort();
    assert_eq!(backlog, [("busy".to_owned(), 0), ("test".to_owned(), 2)]);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_lease_that_a_process_does_not_know_of_is_found_again(pool: PgPool) {
    let row = leased(&pool, 1, 9).await;
    leased(&pool, 2, 8).await;
    let runs = [row.run_id, Uuid::from_u128(2)];
    let forgotten = store::forgotten(&pool, Uuid::from_u128(9), &runs).await.unwrap();
    assert_eq!(ids(&forgotten), [1]);
    let write = remark(&forgotten.runs[0].execution, "found");
    assert_eq!(forgotten.commit(&[commit(write)]).await.unwrap(), [Outcome::Applied]);
}
