//! The leases of waits, and the time in which none runs.

use crate::support::{actor, applied, dedicated, graph, later, make};
use chrono::TimeDelta;
use sqlx::PgPool;
use surety_common::domain::execution::draft::{Draft, Write};
use surety_common::domain::execution::wait_rows::WaitKind;
use surety_common::domain::execution::{Execution, SuppliedReply, Wait};
use surety_common::domain::machine::Refusal;
use surety_common::domain::stop::WaitingOn;
use surety_common::store::{self, HeldLease, LeaseOrder, WaitLease};
use uuid::Uuid;

const WAIT: Uuid = Uuid::from_u128(77);

fn at(
    execution: &Execution,
    seconds: i64,
    change: impl FnOnce(&mut Draft) -> Result<(), Refusal>,
) -> Write {
    let mut draft = Draft::new(execution.clone(), actor(), later(seconds));
    change(&mut draft).unwrap();
    draft.into_write()
}

/// A run of one step that waits for its driver since second 10.
async fn waiting(pool: &PgPool) -> Execution {
    let row = make(pool, 1, 1).await;
    let begun = at(&row, 10, |draft| {
        draft.lease(Uuid::from_u128(9));
        draft.lease_steps(&graph(1), 1).map(drop)
    });
    let row = applied(pool, begun).await;
    let wait = Wait::new(WAIT, WaitingOn::Driver, later(10), "a decision".to_owned());
    applied(pool, at(&row, 10, |draft| draft.await_reply(&graph(1), 0, wait))).await
}

async fn lease(pool: &PgPool, seconds: i64) -> WaitLease {
    let holder = "agent worker".to_owned();
    let orders = [LeaseOrder { wait_id: WAIT, holder, lease_ms: 10_000 }];
    let leased = store::lease_waits(&mut dedicated(pool), &orders, later(seconds)).await.unwrap();
    *leased.first().expect("the wait is free")
}

fn held(lease: &WaitLease) -> HeldLease {
    let WaitLease { run_id, lease_epoch, .. } = *lease;
    HeldLease { run_id, lease_epoch, identity: "agent".to_owned() }
}

async fn unleased(pool: &PgPool, lease: &WaitLease) -> i64 {
    let found = store::find_lease(pool, &held(lease)).await.unwrap().expect("it is held");
    found.unleased.num_seconds()
}

#[sqlx::test(migrations = "./migrations")]
async fn the_time_in_which_no_participant_has_leased_a_wait_is_counted(pool: PgPool) {
    waiting(&pool).await;
    let first = lease(&pool, 110).await;
    assert_eq!(unleased(&pool, &first).await, 100, "from its opening");
    assert!(store::release_wait(&pool, &held(&first), later(115)).await.unwrap());
    let second = lease(&pool, 120).await;
    assert_eq!(unleased(&pool, &second).await, 105, "and from its release");
    // It expires at 130, and that is noticed at 150.
    let kind = WaitKind::Decision;
    store::offered_namespaces(&mut dedicated(&pool), kind, later(150)).await.unwrap();
    let third = lease(&pool, 160).await;
    assert_eq!(
        unleased(&pool, &third).await,
        135,
        "and from the end of a lease without a sign of life"
    );
}

#[sqlx::test(migrations = "./migrations")]
async fn the_time_of_a_pause_is_given_back_by_its_end_and_not_counted_here(pool: PgPool) {
    let row = waiting(&pool).await;
    let wait = Wait::new(Uuid::from_u128(78), WaitingOn::Operator, later(20), "resume".to_owned());
    let row = applied(&pool, at(&row, 20, |draft| draft.pause(&graph(1), wait, "paused"))).await;
    let row = applied(&pool, at(&row, 220, |draft| draft.resume(&graph(1), "on"))).await;
    let lease = lease(&pool, 225).await;
    assert_eq!(unleased(&pool, &lease).await, 15, "10 before the pause and 5 after it");
    let begun = |row: &Execution| row.step(0).and_then(|step| step.started_at).unwrap();
    let before = begun(&row);
    let text = r#"{"action": "next_plan"}"#.to_owned();
    let reply = SuppliedReply {
        wait_id: WAIT,
        lease_epoch: lease.lease_epoch,
        text,
        usage: None,
        trace_parent: String::new(),
        by: "agent".to_owned(),
        model: None,
    };
    let spent = TimeDelta::seconds(15);
    let row =
        applied(&pool, at(&row, 230, |draft| draft.supply_reply(&graph(1), reply, spent))).await;
    assert_eq!(begun(&row) - before, spent, "the step's clock stood still");
}
