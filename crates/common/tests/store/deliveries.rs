//! Deliveries of forges: stored once, taken by one planner at a time, and deleted after their time.

use crate::support::now;
use chrono::{DateTime, TimeDelta, Utc};
use futures::future::join_all;
use sqlx::PgPool;
use std::collections::BTreeSet;
use surety_common::domain::toolchain::{DeliveryState, Forge, Hook};
use surety_common::store::{
    DeliveryEnd, DeliveryFilter, DeliveryLog, HookChange, NewDelivery, TakenDelivery, delete_hook,
    end_forge_deliveries, find_forge_delivery, forget_forge_deliveries, list_audit,
    list_forge_deliveries, list_hooks, put_hook, replay_forge_delivery, take_forge_deliveries,
};
use uuid::Uuid;

fn delivery(id: &str, content: u8, received_at: DateTime<Utc>) -> NewDelivery {
    NewDelivery {
        id: Uuid::now_v7(),
        hook: "main".to_owned(),
        forge: Forge::Gitea,
        delivery_id: id.to_owned(),
        event: "issues".to_owned(),
        headers: "{}".to_owned(),
        body: vec![content, 0xff, 0],
        digest: vec![content; 32],
        received_at,
    }
}

async fn take(pool: &PgPool, at: DateTime<Utc>, limit: i64) -> Vec<TakenDelivery> {
    take_forge_deliveries(pool, (at, at + TimeDelta::seconds(60)), limit).await.unwrap()
}

fn ended(taken: &TakenDelivery, state: DeliveryState) -> DeliveryEnd {
    DeliveryEnd {
        id: taken.id,
        forge: taken.forge,
        attempts: taken.attempts,
        state,
        reason: String::new(),
        problem: String::new(),
        tasks: vec![Uuid::from_u128(1), Uuid::from_u128(2)],
        again_at: None,
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn an_id_is_stored_once_over_many_writers(pool: PgPool) {
    let logs = [DeliveryLog::start(pool.clone()), DeliveryLog::start(pool.clone())];
    let at = now();
    let stores = (0..200).map(|number| {
        let log = &logs[number % 2];
        log.store(delivery(&format!("d{}", number / 4), 1, at))
    });
    let new = join_all(stores).await.into_iter().filter(|is_new| *is_new.as_ref().unwrap());
    assert_eq!(new.count(), 50);
    let taken = take(&pool, at, 1000).await;
    assert_eq!(taken.len(), 50);
    // All have one content: each names the first.
    let firsts: BTreeSet<Option<Uuid>> = taken.iter().map(|one| one.repeats).collect();
    let first = taken.iter().map(|one| one.id).min();
    assert_eq!(firsts, BTreeSet::from([None, first]));
}

#[sqlx::test(migrations = "./migrations")]
async fn what_one_planner_takes_is_left_alone_until_its_time_and_a_late_end_changes_nothing(
    pool: PgPool,
) {
    let (log, at) = (DeliveryLog::start(pool.clone()), now());
    for number in 0..10 {
        log.store(delivery(&number.to_string(), number, at)).await.unwrap();
    }
    let (one, other) = tokio::join!(take(&pool, at, 6), take(&pool, at, 6));
    let ids: BTreeSet<Uuid> = one.iter().chain(&other).map(|taken| taken.id).collect();
    assert_eq!((ids.len(), one.len() + other.len()), (10, 10));
    assert!(take(&pool, at, 10).await.is_empty());

    // Its time passes; another planner takes all, and the first one's end comes late.
    let later = at + TimeDelta::seconds(61);
    let again = take(&pool, later, 10).await;
    assert_eq!(again.len(), 10);
    let late: Vec<DeliveryEnd> =
        one.iter().map(|taken| ended(taken, DeliveryState::Failed)).collect();
    end_forge_deliveries(&pool, &late, later).await.unwrap();
    let good: Vec<DeliveryEnd> =
        again.iter().map(|taken| ended(taken, DeliveryState::Processed)).collect();
    end_forge_deliveries(&pool, &good, later).await.unwrap();
    let filter = DeliveryFilter {
        hook: "main".to_owned(),
        states: vec![DeliveryState::Processed],
        before: None,
        limit: 100,
    };
    let listed = list_forge_deliveries(&pool, &filter).await.unwrap();
    assert_eq!(listed.len(), 10);
    assert!(listed.iter().all(|one| one.tasks.len() == 2 && one.processed_at == Some(later)));
    assert!(listed.windows(2).all(|pair| pair[0].id > pair[1].id));
    let failed = DeliveryFilter { states: vec![DeliveryState::Failed], ..filter };
    assert!(list_forge_deliveries(&pool, &failed).await.unwrap().is_empty());
}

#[sqlx::test(migrations = "./migrations")]
async fn large_bodies_are_taken_in_parts(pool: PgPool) {
    let (log, at) = (DeliveryLog::start(pool.clone()), now());
    for number in 0..20 {
        let large = NewDelivery {
            body: vec![number; 2 << 20],
            ..delivery(&number.to_string(), number, at)
        };
        log.store(large).await.unwrap();
    }
    let (first, rest) = (take(&pool, at, 100).await, take(&pool, at, 100).await);
    assert_eq!((first.len(), rest.len()), (16, 4));
    assert!(take(&pool, at, 100).await.is_empty());
}

/// The forge sends a delivery again under another id, for example because the first one failed.
#[sqlx::test(migrations = "./migrations")]
async fn the_content_of_a_failed_delivery_is_processed_when_it_comes_again(pool: PgPool) {
    let (log, at) = (DeliveryLog::start(pool.clone()), now());
    let mut repeats = Vec::new();
    for (id, state) in [
        ("a", DeliveryState::Failed),
        ("b", DeliveryState::Processed),
        ("c", DeliveryState::Repeated),
    ] {
        log.store(delivery(id, 1, at)).await.unwrap();
        let taken = take(&pool, at, 10).await;
        assert_eq!(taken.len(), 1);
        repeats.push((taken[0].id, taken[0].repeats));
        end_forge_deliveries(&pool, &[ended(&taken[0], state)], at).await.unwrap();
    }
    let [first, second, third] = repeats.try_into().unwrap();
    assert_eq!((first.1, second.1, third.1), (None, None, Some(second.0)));
}

#[sqlx::test(migrations = "./migrations")]
async fn a_delivery_is_kept_whole_replayed_and_deleted_after_its_time(pool: PgPool) {
    let (log, at) = (DeliveryLog::start(pool.clone()), now());
    let new = delivery("a", 7, at);
    log.store(new.clone()).await.unwrap();
    let later = at + TimeDelta::days(31);
    assert_eq!(forget_forge_deliveries(&pool, later).await.unwrap(), 0, "it is not processed");
    let taken = take(&pool, at, 1).await;
    let again = DeliveryEnd {
        again_at: Some(at + TimeDelta::seconds(2)),
        ..ended(&taken[0], DeliveryState::Stored)
    };
    end_forge_deliveries(&pool, &[again], at).await.unwrap();
    assert!(take(&pool, at, 1).await.is_empty());
    let taken = take(&pool, at + TimeDelta::seconds(3), 1).await;
    assert_eq!(taken[0].attempts, 2);
    end_forge_deliveries(&pool, &[ended(&taken[0], DeliveryState::Ignored)], at).await.unwrap();
    let (stored, headers, body) = find_forge_delivery(&pool, new.id).await.unwrap().unwrap();
    assert_eq!((headers, body), (new.headers, new.body));
    assert_eq!((stored.state, stored.bytes), (DeliveryState::Ignored, 3));

    let replayed = replay_forge_delivery(&pool, new.id, at).await.unwrap().unwrap();
    assert_eq!((replayed.state, replayed.replays), (DeliveryState::Stored, 1));
    let taken = take(&pool, at, 1).await;
    assert_eq!((taken[0].attempts, taken[0].replays), (1, 1));
    end_forge_deliveries(&pool, &[ended(&taken[0], DeliveryState::Processed)], at).await.unwrap();
    assert_eq!(forget_forge_deliveries(&pool, at).await.unwrap(), 0);
    assert_eq!(forget_forge_deliveries(&pool, later).await.unwrap(), 1);
    assert!(find_forge_delivery(&pool, new.id).await.unwrap().is_none());
    assert!(replay_forge_delivery(&pool, new.id, at).await.unwrap().is_none());
}

#[sqlx::test(migrations = "./migrations")]
async fn hooks_are_replaced_and_deleted_with_an_audit_row_each(pool: PgPool) {
    let hook = |secrets: &[&str]| {
        let secrets = secrets.iter().map(|name| (*name).to_owned()).collect();
        Hook::new("main", Forge::Github, secrets).unwrap()
    };
    let change = HookChange { identity: "person", now: now() };
    put_hook(&pool, &hook(&["old"]), change).await.unwrap();
    put_hook(&pool, &hook(&["old", "new"]), change).await.unwrap();
    let listed = list_hooks(&pool).await.unwrap();
    assert_eq!(listed.iter().map(|one| &one.hook).collect::<Vec<_>>(), [&hook(&["old", "new"])]);
    assert!(delete_hook(&pool, "main", change).await.unwrap().is_some());
    assert!(delete_hook(&pool, "main", change).await.unwrap().is_none());
    let audit = list_audit(&pool, &[], None, 10).await.unwrap();
    let actions: Vec<&str> = audit.iter().map(|row| row.action.as_str()).collect();
    assert_eq!(actions, ["delete_hook", "put_hook", "put_hook"]);
    assert!(audit[1].before.is_some() && audit[2].before.is_none());
}
