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
    waiting_as(pool, |wait| wait).await
}

async fn waiting_as(pool: &PgPool, change: impl FnOnce(Wait) -> Wait) -> Execution {
    let row = make(pool, 1, 1).await;
    let begun = at(&row, 10, |draft| {
        draft.lease(Uuid::from_u128(9));
        draft.lease_steps(&graph(1), 1).map(drop)
    });
    let row = applied(pool, begun).await;
    let wait = change(Wait::new(WAIT, WaitingOn::Driver, later(10), "a decision".to_owned()));
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

/// For how long the wait was without a lease, as one that its participant holds says at a time.
async fn unleased_at(pool: &PgPool, lease: &WaitLease, seconds: i64) -> i64 {
    let found = store::find_lease(pool, &held(lease), later(seconds)).await.unwrap();
    found.expect("it is held").unleased.num_seconds()
}

async fn unleased(pool: &PgPool, lease: &WaitLease) -> i64 {
    unleased_at(pool, lease, 0).await
}

/// The steps whose time is over at a time.
async fn late(pool: &PgPool, lease: &WaitLease, seconds: i64) -> Vec<Uuid> {
    let late = store::late_steps(pool, lease.run_id, later(seconds)).await.unwrap();
    let due = store::due(pool, later(seconds), 10, &[]).await.unwrap();
    let is_due = due.iter().any(|(cause, _)| *cause == store::Cause::Step);
    assert_eq!(is_due, !late.is_empty(), "the scan and the run agree");
    late.into_iter().map(|(id, _)| id).collect()
}

#[sqlx::test(migrations = "./migrations")]
async fn the_clock_of_a_step_stands_still_from_the_end_of_a_lease_that_expired(pool: PgPool) {
    let limited = |wait| Wait { step_index: Some(0), step_deadline_s: Some(60), ..wait };
    waiting_as(&pool, limited).await;
    // It began at 10, so its time is over at 70 + 5. The lease ends at 25, and no participant asks for it.
    let first = lease(&pool, 15).await;
    assert_eq!(late(&pool, &first, 1000).await, Vec::<Uuid>::new(), "the agent was gone by then");
    assert_eq!(unleased_at(&pool, &first, 24).await, 5);
    assert_eq!(unleased_at(&pool, &first, 125).await, 105, "it comes back under its old lease");
    // A sign of life at 125 goes on with the lease, and with the clock.
    let beats = store::WaitHeartbeats::start(pool.clone());
    let extended = beats.extend(vec![held(&first)], later(125)).await.unwrap();
    assert_eq!(extended.first().and_then(|it| *it).map(|it| it.expires_at), Some(later(135)));
    assert_eq!(unleased_at(&pool, &first, 130).await, 105);
    for second in [135, 145, 155, 165, 175] {
        beats.extend(vec![held(&first)], later(second)).await.unwrap();
    }
    assert_eq!(
        late(&pool, &first, 174).await,
        Vec::<Uuid>::new(),
        "100 s of it were without a lease"
    );
    assert_eq!(late(&pool, &first, 175).await, [WAIT]);
}

/// Extends a lease until a time.
async fn beat_until(pool: &PgPool, lease: &WaitLease, seconds: std::ops::RangeInclusive<i64>) {
    let beats = store::WaitHeartbeats::start(pool.clone());
    for second in seconds.step_by(5) {
        beats.extend(vec![held(lease)], later(second)).await.unwrap();
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn a_late_release_leaves_the_time_behind_the_expiry_out_of_the_clock(pool: PgPool) {
    let limited = |wait| Wait { step_index: Some(0), step_deadline_s: Some(60), ..wait };
    waiting_as(&pool, limited).await;
    // The lease ends at 25, no scan finds that, and its holder gives it back at 125.
    let first = lease(&pool, 15).await;
    assert!(store::release_wait(&pool, &held(&first), later(125)).await.unwrap());
    let second = lease(&pool, 135).await;
    assert_eq!(unleased(&pool, &second).await, 115, "5 before the lease, and 25 to 135");
    beat_until(&pool, &second, 140..=185).await;
    assert_eq!(late(&pool, &second, 184).await, Vec::<Uuid>::new());
    assert_eq!(late(&pool, &second, 185).await, [WAIT], "its time was over at 70");
}

#[sqlx::test(migrations = "./migrations")]
async fn a_pause_behind_an_expiry_leaves_the_time_between_out_of_the_clock(pool: PgPool) {
    let limited = |wait| Wait { step_index: Some(0), step_deadline_s: Some(60), ..wait };
    let row = waiting_as(&pool, limited).await;
    // The lease ends at 25, and no scan finds that before the pause.
    lease(&pool, 15).await;
    let wait = Wait::new(Uuid::from_u128(78), WaitingOn::Operator, later(125), "resume".to_owned());
    let row = applied(&pool, at(&row, 125, |draft| draft.pause(&graph(1), wait, "paused"))).await;
    applied(&pool, at(&row, 225, |draft| draft.resume(&graph(1), "on"))).await;
    let kind = WaitKind::Decision;
    store::offered_namespaces(&mut dedicated(&pool), kind, later(235)).await.unwrap();
    let second = lease(&pool, 235).await;
    assert_eq!(unleased(&pool, &second).await, 115, "5, 25 to 125, and 225 to 235");
    beat_until(&pool, &second, 240..=285).await;
    assert_eq!(late(&pool, &second, 284).await, Vec::<Uuid>::new());
    assert_eq!(late(&pool, &second, 285).await, [WAIT], "the pause lasted 100 s");
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
