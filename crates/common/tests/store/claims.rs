//! Claiming runs, and taking them over.

use crate::support::{
    applied, change, commit, creator, dedicated, find, graph, later, make, make_from, now, order,
    remark, spec,
};
use chrono::TimeDelta;
use sqlx::PgPool;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use surety_common::domain::execution::Execution;
use surety_common::domain::run::RunRecord;
use surety_common::domain::run::RunSpec;
use surety_common::store::{self, Claimed, Outcome, Owner, Queues, RunLease, Scan, Signing, Want};
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

/// Claims once for an executor without leases, and returns the ids in order.
async fn claim(pool: &PgPool, queues: &mut Queues, at_s: i64, slots: usize) -> Vec<u128> {
    claim_beside(pool, queues, at_s, slots, &HashMap::new()).await
}

async fn claim_beside(
    pool: &PgPool,
    queues: &mut Queues,
    at_s: i64,
    slots: usize,
    held: &HashMap<String, usize>,
) -> Vec<u128> {
    let want = Want { now: later(at_s), owner: Uuid::from_u128(9), slots, held, except: &[] };
    let runs = store::claim(&mut dedicated(pool), queues, want).await.unwrap().runs;
    assert!(runs.len() <= slots);
    let mut ids: Vec<u128> = runs.iter().map(|record| record.spec.id.as_u128()).collect();
    ids.sort_unstable();
    ids
}

/// Creates many runs at once.
async fn make_many(pool: &PgPool, namespace: &str, ids: RangeInclusive<u128>, since_s: i64) {
    let creator = creator(pool);
    let made = ids.map(|id| {
        let (namespace, created_at) = (namespace.to_owned(), later(since_s));
        let new = order(RunSpec { namespace, ..spec(id) }, 1, created_at);
        let creator = &creator;
        async move { creator.create(Arc::new(new), None).await.unwrap() }
    });
    futures::future::join_all(made).await;
}

async fn waiting_in(pool: &PgPool, namespace: &str, id: u128, priority: i16, since_s: i64) {
    let labels = BTreeMap::from([("priority".to_owned(), priority.to_string())]);
    let (namespace, created_at) = (namespace.to_owned(), later(since_s));
    make_from(pool, RunSpec { namespace, labels, created_at, ..spec(id) }, 1).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn the_most_urgent_then_the_oldest_are_taken_up_first_and_no_more_than_wanted(pool: PgPool) {
    for (id, priority, since) in [(1, 0, 3), (2, 0, 1), (3, 5, 9), (4, -5, 0), (5, 0, 2)] {
        waiting(&pool, id, priority, since).await;
    }
    let mut queues = Queues::default();
    let mut order = Vec::new();
    for slots in [2, 1, 9] {
        order.push(claim(&pool, &mut queues, 10, slots).await);
    }
    assert_eq!(order, [vec![2, 3], vec![5], vec![1, 4]]);
}

#[sqlx::test(migrations = "./migrations")]
async fn every_priority_queue_is_found_by_a_process_that_knows_none(pool: PgPool) {
    let mut id = 0;
    for namespace in ["a", "b", "B", "ä", "中", "a.b"] {
        for priority in [i16::MIN, -1, 0, 7, i16::MAX] {
            id += 1;
            waiting_in(&pool, namespace, id, priority, 0).await;
        }
    }
    assert_eq!(claim(&pool, &mut Queues::default(), 1, 64).await, (1..=id).collect::<Vec<_>>());
}

#[sqlx::test(migrations = "./migrations")]
async fn where_nothing_waits_nothing_more_is_asked_for(pool: PgPool) {
    let (mut queues, none) = (Queues::default(), HashMap::new());
    for at_s in 0..3 {
        let want = Want {
            now: later(at_s),
            owner: Uuid::from_u128(9),
            slots: 4,
            held: &none,
            except: &[],
        };
        let claimed = store::claim(&mut dedicated(&pool), &mut queues, want).await.unwrap();
        assert_eq!((claimed.runs.len(), claimed.more, claimed.scan), (0, false, Scan::Fresh));
    }
    waiting(&pool, 1, 0, 3).await;
    let want =
        Want { now: later(4), owner: Uuid::from_u128(9), slots: 4, held: &none, except: &[] };
    let claimed = store::claim(&mut dedicated(&pool), &mut queues, want).await.unwrap();
    assert_eq!((claimed.runs.len(), claimed.more, claimed.scan), (1, false, Scan::Fresh));
    let want = Want { now: later(5), ..want };
    let claimed = store::claim(&mut dedicated(&pool), &mut queues, want).await.unwrap();
    assert_eq!((claimed.runs.len(), claimed.more, claimed.scan), (0, false, Scan::Due));
    assert!(
        !store::find_queues(&mut dedicated(&pool), &mut queues, Uuid::from_u128(9), later(5))
            .await
            .unwrap()
    );
}

#[sqlx::test(migrations = "./migrations")]
async fn a_queue_that_came_up_later_is_found_by_a_claim_and_there_may_be_more_than_one_lists(
    pool: PgPool,
) {
    let mut queues = Queues::default();
    waiting_in(&pool, "m", 1, 0, 0).await;
    assert_eq!(claim(&pool, &mut queues, 1, 9).await, [1]);
    for (id, namespace) in [(2, "a"), (3, "z")] {
        waiting_in(&pool, namespace, id, 0, 0).await;
    }
    assert_eq!(claim(&pool, &mut queues, 1, 9).await, [0; 0], "no scan listed the queues");
    assert!(
        store::find_queues(&mut dedicated(&pool), &mut queues, Uuid::from_u128(9), later(1))
            .await
            .unwrap()
    );
    assert_eq!(claim(&pool, &mut queues, 1, 9).await, [2, 3]);
    assert!(
        !store::find_queues(&mut dedicated(&pool), &mut queues, Uuid::from_u128(9), later(1))
            .await
            .unwrap(),
        "nothing is new"
    );
    for id in 10..=700 {
        waiting_in(&pool, "many", id, i16::try_from(id).unwrap(), 0).await;
    }
    let mut found = Vec::new();
    for at in 2.. {
        let more =
            store::find_queues(&mut dedicated(&pool), &mut queues, Uuid::from_u128(9), later(at))
                .await
                .unwrap();
        found.extend(claim(&pool, &mut queues, at, 700).await);
        if !more {
            break;
        }
    }
    found.sort_unstable();
    assert_eq!(found, (10..=700).collect::<Vec<_>>());
}

#[sqlx::test(migrations = "./migrations")]
async fn a_namespace_with_much_to_do_does_not_starve_one_with_little(pool: PgPool) {
    for id in 1..=40 {
        waiting_in(&pool, "busy", id, 9, 0).await;
    }
    let mut queues = Queues::default();
    let mut held = HashMap::new();
    assert_eq!(claim_beside(&pool, &mut queues, 10, 4, &held).await.len(), 4);
    held.insert("busy".to_owned(), 4);
    waiting_in(&pool, "calm", 100, 0, 9).await;
    assert!(
        store::find_queues(&mut dedicated(&pool), &mut queues, Uuid::from_u128(9), later(10))
            .await
            .unwrap()
    );
    assert_eq!(claim_beside(&pool, &mut queues, 10, 1, &held).await, [100], "it holds no slot yet");
    held.insert("calm".to_owned(), 1);
    for id in 101..=104 {
        waiting_in(&pool, "calm", id, 0, 9).await;
    }
    let next = claim_beside(&pool, &mut queues, 10, 4, &held).await;
    let calm = next.iter().filter(|id| **id > 100).count();
    assert!(calm >= 3, "both are to hold the same: {next:?}");
}

#[sqlx::test(migrations = "./migrations")]
async fn ten_runs_beside_a_thousand_are_done_while_as_many_of_the_others_are(pool: PgPool) {
    make_many(&pool, "busy", 1..=1000, 0).await;
    make_many(&pool, "calm", 2001..=2010, 9).await;
    // Of eight slots the two that were taken first become free at a time.
    let (mut queues, mut held, mut order) = (Queues::default(), HashMap::new(), Vec::new());
    let mut at_work: VecDeque<u128> = VecDeque::new();
    let name = |id: u128| if id > 2000 { "calm" } else { "busy" };
    while order.iter().filter(|id| **id > 2000).count() < 10 {
        for done in at_work.drain(..at_work.len().min(2)) {
            *held.entry(name(done).to_owned()).or_default() -= 1;
        }
        let slots = 8 - at_work.len();
        for id in claim_beside(&pool, &mut queues, 10, slots, &held).await {
            *held.entry(name(id).to_owned()).or_default() += 1;
            at_work.push_back(id);
            order.push(id);
        }
    }
    assert!(order.len() <= 24, "the last of the ten was number {}: {order:?}", order.len());
}

#[sqlx::test(migrations = "./migrations")]
async fn what_is_urgent_comes_first_and_what_is_not_gets_one_slot_in_eight(pool: PgPool) {
    for id in 1..=30 {
        waiting(&pool, id, 0, 0).await;
    }
    for id in 101..=130 {
        waiting(&pool, id, 5, 5).await;
    }
    let mut queues = Queues::default();
    let mut order = Vec::new();
    for _ in 0..24 {
        order.extend(claim(&pool, &mut queues, 10, 1).await);
    }
    let old = order.iter().filter(|id| **id <= 30).count();
    assert_eq!((old, order.len()), (3, 24), "{order:?}");
    let batch = claim(&pool, &mut queues, 10, 8).await;
    assert_eq!(batch.iter().filter(|id| **id <= 30).count(), 1, "{batch:?}");
}

#[sqlx::test(migrations = "./migrations")]
async fn what_one_process_is_claiming_another_skips(pool: PgPool) {
    make(&pool, 1, 1).await;
    make(&pool, 2, 1).await;
    let mut other = pool.begin().await.unwrap();
    sqlx::query("select from execution where run_id = $1 for update")
        .bind(Uuid::from_u128(1))
        .execute(&mut *other)
        .await
        .unwrap();
    let mut queues = Queues::default();
    assert_eq!(claim(&pool, &mut queues, 0, 9).await, [2]);
    assert_eq!(claim(&pool, &mut queues, 0, 9).await, [0; 0]);
    other.rollback().await.unwrap();
    assert_eq!(claim(&pool, &mut queues, 0, 9).await, [1], "it let go without taking it");
}

#[sqlx::test(migrations = "./migrations")]
async fn a_run_that_became_ready_behind_what_was_claimed_is_found_in_time(pool: PgPool) {
    let mut queues = Queues::default();
    waiting(&pool, 1, 0, 100).await;
    assert_eq!(claim(&pool, &mut queues, 100, 1).await, [1]);
    waiting(&pool, 2, 0, 98).await;
    assert_eq!(claim(&pool, &mut queues, 101, 1).await, [2], "inside the margin at once");
    waiting(&pool, 3, 0, 1).await;
    assert_eq!(claim(&pool, &mut queues, 102, 1).await, [0; 0]);
    assert_eq!(
        claim(&pool, &mut queues, 106, 1).await,
        [3],
        "and any other with the next scan_from_front"
    );
}

#[sqlx::test(migrations = "./migrations")]
async fn a_leased_run_is_not_claimed_and_one_that_a_clock_ahead_made_is(pool: PgPool) {
    leased(&pool, 1, 9).await;
    waiting(&pool, 2, 0, 60).await;
    assert_eq!(claim(&pool, &mut Queues::default(), 0, 9).await, [2]);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_claim_gives_back_the_row_as_it_is_under_the_lease_with_all_that_is_needed(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let none = HashMap::new();
    let want =
        Want { now: later(1), owner: Uuid::from_u128(9), slots: 1, held: &none, except: &[] };
    let runs =
        store::claim(&mut dedicated(&pool), &mut Queues::default(), want).await.unwrap().runs;
    let stored: RunRecord = find(&pool, row.run_id).await;
    assert_eq!(runs, std::slice::from_ref(&stored));
    let lease = (stored.execution.lease_owner, stored.execution.lease_epoch);
    assert_eq!(lease, (Some(Uuid::from_u128(9)), row.lease_epoch + 1));
    assert_eq!(stored.execution.version, row.version + 1);
    let write = remark(&runs[0].execution, "begun");
    applied(&pool, write).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn runs_of_silent_and_of_unknown_executors_are_orphans(pool: PgPool) {
    let (alive, silent, unknown, me) = (21, 22, 23, 24);
    let register = async |id, at| {
        store::register(&mut dedicated(&pool), Uuid::from_u128(id), ("e", "h"), 4, at).await
    };
    register(alive, now()).await.unwrap();
    register(silent, now()).await.unwrap();
    register(me, now()).await.unwrap();
    for (id, owner) in [(1, alive), (2, silent), (3, unknown), (4, me)] {
        leased(&pool, id, owner).await;
    }
    make(&pool, 5, 1).await;
    let pulse = store::beat(&mut dedicated(&pool), Uuid::from_u128(alive), later(30), &[]).await;
    let pulse = pulse.unwrap().unwrap();
    let held: Vec<_> = pulse.leases.iter().map(|lease| lease.run_id.as_u128()).collect();
    assert_eq!(held, [1]);
    assert!(pulse.ready, "the fifth waits");
    let owner = |id, heartbeat_at| Owner { id: Uuid::from_u128(id), heartbeat_at };
    let others = [owner(silent, Some(now())), owner(unknown, None), owner(me, Some(now()))];
    assert_eq!(pulse.others, others);

    let gone = [owner(silent, Some(now())), owner(unknown, None), owner(alive, Some(now()))];
    let orphans = |limit| store::orphans(&pool, Uuid::nil(), &gone, limit, &[]);
    let all = orphans(9).await.unwrap();
    let mut found = ids(&all);
    all.commit(&[], &Signing::default()).await.unwrap();
    found.sort_unstable();
    assert_eq!(found, [2, 3], "not of one that has beaten since it was looked at");
    let one = orphans(1).await.unwrap();
    let other = orphans(9).await.unwrap();
    assert_eq!((one.runs.len(), other.runs.len()), (1, 1), "skipped while another takes it over");
}

#[sqlx::test(migrations = "./migrations")]
async fn a_run_on_a_folder_is_claimed_and_taken_over_on_its_host_only(pool: PgPool) {
    let (here, beside, there) = (21, 22, 23);
    for (id, host) in [(here, "one"), (beside, "one"), (there, "two")] {
        let id = Uuid::from_u128(id);
        store::register(&mut dedicated(&pool), id, ("e", host), 4, now()).await.unwrap();
    }
    make_from(&pool, RunSpec { workspace: "/work".to_owned(), ..spec(1) }, 1).await;
    let claim = async |owner, at| {
        let (owner, none) = (Uuid::from_u128(owner), HashMap::new());
        let want = Want { now: later(at), owner, slots: 9, held: &none, except: &[] };
        let claimed = store::claim(&mut dedicated(&pool), &mut Queues::default(), want).await;
        let mut runs = claimed.unwrap().runs.into_iter().map(|record| record.execution);
        (runs.next(), runs.next())
    };
    let (Some(row), None) = claim(here, 1).await else { panic!("the first claim may be anywhere") };
    assert_eq!(row.host_label.as_deref(), Some("one"));

    let silent = [Owner { id: Uuid::from_u128(here), heartbeat_at: Some(now()) }];
    for (me, found) in [(there, 0), (beside, 1)] {
        let me = Uuid::from_u128(me);
        let orphans = store::orphans(&pool, me, &silent, 9, &[]).await.unwrap();
        assert_eq!(orphans.runs.len(), found, "{me}");
        let pulse = store::beat(&mut dedicated(&pool), me, later(2), &[]).await.unwrap().unwrap();
        assert_eq!(pulse.others.len(), found, "{me}");
    }
    let given = change(&row, |draft| {
        draft.release();
        Ok(())
    });
    applied(&pool, given).await;
    // A run without a folder goes on anywhere.
    make(&pool, 2, 1).await;
    let ready = async |me| {
        let me = Uuid::from_u128(me);
        let except = [Uuid::from_u128(2)];
        store::beat(&mut dedicated(&pool), me, later(3), &except).await.unwrap().unwrap().ready
    };
    assert!(!ready(there).await && ready(beside).await);
    let (Some(other), None) = claim(there, 4).await else {
        panic!("only the run without a folder")
    };
    assert_eq!((other.run_id.as_u128(), other.host_label), (2, None));
    let (Some(row), None) = claim(beside, 5).await else { panic!("the run on the folder") };
    assert_eq!((row.run_id.as_u128(), row.host_label.as_deref()), (1, Some("one")));
}

#[sqlx::test(migrations = "./migrations")]
async fn runs_that_are_left_alone_are_no_reason_to_claim(pool: PgPool) {
    let me = Uuid::from_u128(21);
    store::register(&mut dedicated(&pool), me, ("e", "h"), 4, now()).await.unwrap();
    leased(&pool, 1, 22).await;
    leased(&pool, 2, 22).await;
    make(&pool, 3, 1).await;
    make(&pool, 4, 1).await;
    let said = async |except: &[u128]| {
        let except: Vec<Uuid> = except.iter().copied().map(Uuid::from_u128).collect();
        let pulse =
            store::beat(&mut dedicated(&pool), me, later(1), &except).await.unwrap().unwrap();
        (!pulse.others.is_empty(), pulse.ready)
    };
    assert_eq!(said(&[]).await, (true, true));
    assert_eq!(said(&[1, 3]).await, (true, true), "the others are there still");
    assert_eq!(said(&[1, 2, 3]).await, (false, true));
    assert_eq!(said(&[1, 3, 4]).await, (true, false));
    assert_eq!(said(&[4, 3, 2, 1]).await, (false, false));
}

#[sqlx::test(migrations = "./migrations")]
async fn an_executor_is_forgotten_only_when_it_holds_nothing(pool: PgPool) {
    let (id, other) = (Uuid::from_u128(21), Uuid::from_u128(22));
    store::register(&mut dedicated(&pool), id, ("e", "h"), 4, now()).await.unwrap();
    store::register(&mut dedicated(&pool), other, ("f", "h"), 4, now() - TimeDelta::hours(1))
        .await
        .unwrap();
    let row = leased(&pool, 1, 21).await;
    store::retire(&pool, id, now()).await.unwrap();
    assert!(
        store::beat(&mut dedicated(&pool), id, later(1), &[]).await.unwrap().is_some(),
        "it still holds a run"
    );
    assert_eq!(
        store::beat(&mut dedicated(&pool), other, later(1), &[]).await.unwrap(),
        None,
        "long silent"
    );
    let write = change(&row, |draft| {
        draft.release();
        Ok(())
    });
    applied(&pool, write).await;
    store::retire(&pool, id, now()).await.unwrap();
    assert_eq!(store::beat(&mut dedicated(&pool), id, later(2), &[]).await.unwrap(), None);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_heartbeat_names_another_time_after_the_clock_was_set_back(pool: PgPool) {
    let (id, other) = (Uuid::from_u128(21), Uuid::from_u128(22));
    store::register(&mut dedicated(&pool), id, ("e", "h"), 4, later(10)).await.unwrap();
    store::register(&mut dedicated(&pool), other, ("e", "h"), 4, now()).await.unwrap();
    leased(&pool, 1, 21).await;
    store::beat(&mut dedicated(&pool), id, now(), &[]).await.unwrap();
    let pulse = store::beat(&mut dedicated(&pool), other, now(), &[]).await.unwrap().unwrap();
    assert_eq!(pulse.others, [Owner { id, heartbeat_at: Some(now()) }]);
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
    make_from(&pool, RunSpec { namespace: "both".to_owned(), ..spec(4) }, 1).await;
    let row = make_from(&pool, RunSpec { namespace: "both".to_owned(), ..spec(5) }, 1).await;
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
    assert_eq!(backlog, [("both".to_owned(), 1), ("busy".to_owned(), 0), ("test".to_owned(), 2)]);
    let seen: Vec<(String, i64, i64, i64, bool)> = sqlx::query_as(
        "select namespace, ready_runs, ready_steps::bigint, leased_runs, oldest_age_seconds > 0
         from executor_backlog order by namespace",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    let [both, busy, test] = ["both", "busy", "test"].map(str::to_owned);
    assert_eq!(seen, [(both, 1, 1, 1, true), (busy, 0, 0, 1, false), (test, 2, 2, 0, true)]);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_lease_that_a_process_does_not_know_of_is_found_again(pool: PgPool) {
    let me = Uuid::from_u128(9);
    let lease = |row: &Execution| RunLease { run_id: row.run_id, lease_epoch: row.lease_epoch };
    let row = leased(&pool, 1, 9).await;
    let others = leased(&pool, 2, 8).await;
    let older = RunLease { lease_epoch: 0, ..lease(&leased(&pool, 3, 9).await) };
    let leases = [lease(&row), lease(&others), older];
    let forgotten = store::forgotten(&pool, me, &leases).await.unwrap();
    assert_eq!(ids(&forgotten), [1], "the third is under another lease by now");
    let write = remark(&forgotten.runs[0].execution, "found");
    assert_eq!(
        forgotten.commit(&[commit(write)], &Signing::default()).await.unwrap(),
        [Outcome::Applied]
    );
    let left = store::left_over(&pool, me).await.unwrap();
    let mut left = ids(&left);
    left.sort_unstable();
    assert_eq!(left, [1, 3]);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_run_that_does_not_read_is_named_with_its_column_and_keeps_no_slot(pool: PgPool) {
    let (spoilt, good) = (Uuid::from_u128(1), Uuid::from_u128(2));
    make(&pool, 1, 1).await;
    make(&pool, 2, 1).await;
    sqlx::query("update execution set progress = '[]' where run_id = $1")
        .bind(spoilt)
        .execute(&pool)
        .await
        .unwrap();
    let (me, mut queues, held) = (Uuid::from_u128(9), Queues::default(), HashMap::new());
    let want = Want { now: now(), owner: me, slots: 9, held: &held, except: &[] };
    let claimed = store::claim(&mut dedicated(&pool), &mut queues, want).await.unwrap();
    assert_eq!(claimed.runs.len(), 1, "the other one reads");
    let [unread] = claimed.unread.as_slice() else { panic!("{:?}", claimed.unread) };
    assert_eq!(unread.run_id, spoilt);
    let why = unread.why.to_string();
    assert!(why.contains("column progress"), "{why}");
    store::let_go(&pool, me, &[spoilt], later(1)).await.unwrap();
    let left = "select run_id from execution where lease_owner is not null";
    let left: Vec<Uuid> = sqlx::query_scalar(left).fetch_all(&pool).await.unwrap();
    assert_eq!(left, [good]);
    let want = Want { except: &[spoilt], ..want };
    let claimed = store::claim(&mut dedicated(&pool), &mut queues, want).await.unwrap();
    assert!(claimed.runs.is_empty() && claimed.unread.is_empty() && !claimed.more);
}

#[sqlx::test(migrations = "./migrations")]
async fn of_leases_that_are_let_go_those_over_running_steps_stay(pool: PgPool) {
    let me = Uuid::from_u128(9);
    leased(&pool, 1, 9).await;
    let row = leased(&pool, 2, 9).await;
    let started = change(&row, |draft| draft.lease_steps(&graph(1), 1).map(drop));
    applied(&pool, started).await;
    leased(&pool, 3, 21).await;
    let run_ids = [1, 2, 3].map(Uuid::from_u128);
    store::let_go(&pool, me, &run_ids, later(1)).await.unwrap();
    let mut owners = Vec::new();
    for run_id in run_ids {
        owners.push(find(&pool, run_id).await.execution.lease_owner);
    }
    assert_eq!(owners, [None, Some(me), Some(Uuid::from_u128(21))]);
}

#[sqlx::test(migrations = "./migrations")]
async fn an_orphan_that_does_not_read_is_named_and_can_be_passed_by(pool: PgPool) {
    leased(&pool, 1, 21).await;
    leased(&pool, 2, 21).await;
    let spoilt = Uuid::from_u128(1);
    sqlx::query("update run set limits = '{\"max_replans\": \"many\"}' where id = $1")
        .bind(spoilt)
        .execute(&pool)
        .await
        .unwrap();
    let gone = [Owner { id: Uuid::from_u128(21), heartbeat_at: None }];
    let orphans =
        async |except: &[Uuid]| store::orphans(&pool, Uuid::nil(), &gone, 1, except).await.unwrap();
    let met = orphans(&[]).await;
    assert!(met.runs.is_empty(), "the first one in the way");
    assert!(met.unread[0].why.to_string().contains("column limits"), "{:?}", met.unread);
    drop(met);
    assert_eq!(ids(&orphans(&[spoilt]).await), [2]);
}
