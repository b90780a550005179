//! What forges withdrew, and what they asked for again.

use crate::support::{later, now};
use crate::tasks::task;
use chrono::TimeDelta;
use sqlx::PgPool;
use surety_common::domain::toolchain::{Forge, Ignored, Subject, Withdrawal, WithdrawnFrom};
use surety_common::store::{self, Admission};
use uuid::Uuid;

async fn withdraw(pool: &PgPool, withdrawal: &Withdrawal, tasks: &[Uuid]) {
    let mut admission = Admission::begin(pool, []).await.unwrap();
    admission.withdraw(withdrawal, tasks).await.unwrap();
    admission.commit().await.unwrap();
}

async fn withdrawals(pool: &PgPool, subject: &Subject) -> Vec<Withdrawal> {
    let mut admission = Admission::begin(pool, []).await.unwrap();
    admission.withdrawals(Forge::Gitea, subject).await.unwrap()
}

#[sqlx::test(migrations = "./migrations")]
async fn a_withdrawal_is_kept_once_and_as_long_as_deliveries(pool: PgPool) {
    let new = task("toolchain", 1, now());
    let mut admission = Admission::begin(&pool, []).await.unwrap();
    admission.insert(&new).await.unwrap();
    admission.commit().await.unwrap();
    let withdrawal = |from| Withdrawal {
        reason: Ignored::Unassigned,
        source: Forge::Gitea,
        subject: new.subject.clone(),
        from,
        happened_at: now(),
    };
    let both = [
        withdrawal(WithdrawnFrom::Accounts(vec!["dev".to_owned()])),
        withdrawal(WithdrawnFrom::AllBut(vec!["dev".to_owned(), "ops".to_owned()])),
    ];
    for one in both.iter().chain(&both) {
        withdraw(&pool, one, &[new.run_id]).await;
    }
    let mut found = withdrawals(&pool, &new.subject).await;
    found.sort_by_key(|one| matches!(one.from, WithdrawnFrom::AllBut(_)));
    assert_eq!(found, both);
    let other = Subject { number: Some(8), ..new.subject.clone() };
    assert!(withdrawals(&pool, &other).await.is_empty());
    let ended = store::find_task(&pool, new.run_id).await.unwrap().unwrap();
    assert_eq!((ended.is_superseded, ended.withdrawn_by.as_str()), (true, "unassigned"));

    let before = now() + TimeDelta::days(30);
    store::forget_forge_deliveries(&pool, now()).await.unwrap();
    assert_eq!(withdrawals(&pool, &new.subject).await.len(), 2);
    store::forget_forge_deliveries(&pool, before).await.unwrap();
    assert!(withdrawals(&pool, &new.subject).await.is_empty());
}

#[sqlx::test(migrations = "./migrations")]
async fn the_last_time_at_which_a_task_was_asked_for_is_kept(pool: PgPool) {
    let new = task("toolchain", 1, now());
    let mut admission = Admission::begin(&pool, []).await.unwrap();
    admission.insert(&new).await.unwrap();
    let mut asked = Vec::new();
    for seconds in [0, 20, 10] {
        admission.ask_again(&[new.run_id], later(seconds)).await.unwrap();
        let found = admission.made_before("_toolchain", &new.event_key).await.unwrap().unwrap();
        asked.push(found.asked_at);
    }
    assert_eq!(asked, [later(0), later(20), later(20)]);
    assert!(admission.made_before("_mail", &new.event_key).await.unwrap().is_none());
    assert_eq!(admission.chain_tasks(new.chain_id).await.unwrap(), 1);
}
