//! Waiting runs of a host without executors cost the claims of other hosts no scan.

use crate::support::{creator, dedicated, later, make, now, order, spec};
use sqlx::{PgPool, Row};
use std::collections::HashMap;
use std::sync::Arc;
use surety_common::store::{self, Queues, Want};
use uuid::Uuid;

/// Runs that wait for the absent host.
const MANY: u128 = 10_000;
/// No statement may read as many rows in vain.
const FEW: u64 = 50;
const HERE: Uuid = Uuid::from_u128(9);

/// An executor of the host `here`, and many runs that belong to another one.
async fn with_absent_host(pool: &PgPool) {
    let mut own = dedicated(pool);
    store::register(&mut own, HERE, ("an executor", "here"), 4, now()).await.unwrap();
    let creator = creator(pool);
    let made = (1..=MANY).map(|id| {
        let new = order(spec(id), 1, now());
        let creator = &creator;
        async move { creator.create(Arc::new(new), None).await.unwrap() }
    });
    futures::future::join_all(made).await;
    sqlx::query("update execution set host_label = 'gone'").execute(pool).await.unwrap();
    // As an automatic vacuum does.
    sqlx::query("vacuum analyze execution").execute(pool).await.unwrap();
}

fn want(held: &HashMap<String, usize>, at_s: i64) -> Want<'_> {
    Want { now: later(at_s), owner: HERE, slots: 4, held, except: &[] }
}

/// What a statement read of the table in vain, or by no index.
fn read_in_vain(plan: &[String]) -> u64 {
    let removed = plan.iter().filter_map(|line| line.split_once("Rows Removed by Filter: "));
    removed.map(|(_, count)| count.trim().parse::<u64>().unwrap()).sum()
}

async fn explained(
    pool: &PgPool,
    bound: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
) -> Vec<String> {
    let mut transaction = pool.begin().await.unwrap();
    let rows = bound.persistent(false).fetch_all(&mut *transaction).await.unwrap();
    transaction.rollback().await.unwrap();
    rows.iter().map(|row| row.get::<String, _>(0)).collect()
}

#[sqlx::test(migrations = "./migrations")]
async fn ten_thousand_runs_of_an_absent_host_cost_no_claim_a_scan_of_them(pool: PgPool) {
    with_absent_host(&pool).await;
    let claim = sqlx::query(concat!(
        "explain (analyze, costs off, timing off, summary off) ",
        include_str!("../../src/store/sql/claim.sql")
    ))
    .bind(later(1))
    .bind(4_i64)
    .bind(HERE)
    .bind(vec!["test".to_owned()])
    .bind(vec![0_i16])
    .bind(vec![now()])
    .bind(vec![4_i32])
    .bind(vec![0_i32])
    .bind(vec![0_i32])
    .bind(Vec::<Uuid>::new());
    let beat = sqlx::query(concat!(
        "explain (analyze, costs off, timing off, summary off) ",
        include_str!("../../src/store/sql/beat.sql")
    ))
    .bind(HERE)
    .bind(later(1))
    .bind(Vec::<Uuid>::new());
    let queues = sqlx::query(concat!(
        "explain (analyze, costs off, timing off, summary off) ",
        include_str!("../../src/store/sql/queues.sql")
    ))
    .bind("")
    .bind(i16::MIN)
    .bind(256_i32)
    .bind(HERE);
    for (what, statement) in [("claim", claim), ("beat", beat), ("queues", queues)] {
        let plan = explained(&pool, statement).await;
        let text = plan.join("\n");
        assert!(read_in_vain(&plan) < FEW, "{what}: {text}");
        assert!(!text.contains("Seq Scan on execution"), "{what}: {text}");
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn a_run_is_claimed_beside_those_of_an_absent_host_and_these_at_their_own(pool: PgPool) {
    with_absent_host(&pool).await;
    let (mut queues, none) = (Queues::default(), HashMap::new());
    let claimed = store::claim(&mut dedicated(&pool), &mut queues, want(&none, 1)).await.unwrap();
    assert!(claimed.runs.is_empty(), "{:?}", claimed.runs.len());
    let pulse = store::beat(&mut dedicated(&pool), HERE, later(2), &[]).await.unwrap().unwrap();
    assert!(!pulse.ready, "nothing waits that it may claim");
    make(&pool, MANY + 1, 1).await;
    let claimed = store::claim(&mut dedicated(&pool), &mut queues, want(&none, 3)).await.unwrap();
    let ids: Vec<u128> = claimed.runs.iter().map(|run| run.spec.id.as_u128()).collect();
    assert_eq!(ids, [MANY + 1]);
    let own = "update execution set host_label = 'here' where run_id = $1";
    sqlx::query(own).bind(Uuid::from_u128(17)).execute(&pool).await.unwrap();
    let pulse = store::beat(&mut dedicated(&pool), HERE, later(4), &[]).await.unwrap().unwrap();
    assert!(pulse.ready, "a run of its host waits");
    queues.scan_from_front();
    let claimed = store::claim(&mut dedicated(&pool), &mut queues, want(&none, 5)).await.unwrap();
    let ids: Vec<u128> = claimed.runs.iter().map(|run| run.spec.id.as_u128()).collect();
    assert_eq!(ids, [17]);
}
