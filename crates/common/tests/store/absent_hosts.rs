//! Waiting runs of a host without executors cost the claims of other hosts no scan.

use crate::plans::{Parameter, carried_out, read_in_vain};
use crate::support::{creator, dedicated, later, make, now, order, spec};
use sqlx::PgPool;
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

#[sqlx::test(migrations = "./migrations")]
async fn ten_thousand_runs_of_an_absent_host_cost_no_claim_a_scan_of_them(pool: PgPool) {
    with_absent_host(&pool).await;
    let (here, at, none) = (format!("'{HERE}'"), format!("'{}'", later(1)), "'{}'");
    let stored_at = format!("array['{}'::timestamptz]", now());
    let claim: [Parameter<'_>; 10] = [
        ("timestamptz", &at),
        ("bigint", "4"),
        ("uuid", &here),
        ("text[]", "'{test}'"),
        ("smallint[]", "'{0}'"),
        ("timestamptz[]", &stored_at),
        ("integer[]", "'{4}'"),
        ("integer[]", "'{0}'"),
        ("integer[]", "'{0}'"),
        ("uuid[]", none),
    ];
    let beat = [("uuid", here.as_str()), ("timestamptz", &at), ("uuid[]", none)];
    let queues =
        [("text", "''"), ("smallint", "-32768"), ("integer", "256"), ("uuid", here.as_str())];
    for (what, statement, parameters) in [
        ("claim", include_str!("../../src/store/sql/claim.sql"), claim.as_slice()),
        ("beat", include_str!("../../src/store/sql/beat.sql"), &beat),
        ("queues", include_str!("../../src/store/sql/queues.sql"), &queues),
    ] {
        let plan = carried_out(&pool, statement, parameters).await;
        assert!(read_in_vain(&plan) < FEW, "{what}: {plan}");
        assert!(!plan.contains("Seq Scan on execution"), "{what}: {plan}");
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
