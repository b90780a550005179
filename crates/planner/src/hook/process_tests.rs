//! Deliveries whose forge does not answer hold no others back.

use super::process::drain;
use crate::planner::Planner;
use crate::task::outage_tests::Fixture;
use serde_json::{Value, json};
use sqlx::PgPool;
use std::sync::Arc;
use std::time::{Duration, Instant};
use surety_common::domain::toolchain::Forge;
use surety_common::store::{DeliveryLog, NewDelivery};
use surety_e2e::forge::Failure;
use surety_forge::Times;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A pull request that is opened, with five reviewers.
fn opened(repo: &str, minute: u32) -> (&'static str, Value) {
    let reviewers: Vec<Value> =
        ["carol", "dave", "erin", "frank", "grace"].map(|login| json!({"login": login})).into();
    let body = json!({
        "action": "opened",
        "pull_request": {
            "number": 1, "title": "Speed the list up", "user": {"login": "alice"},
            "head": {"ref": "fix/1", "sha": format!("{minute:040}")}, "base": {"ref": "main"},
            "updated_at": format!("2026-11-02T03:{minute:02}:05Z"), "merged": false,
            "requested_reviewers": reviewers
        },
        "repository": {"full_name": repo}, "sender": {"login": "alice"}
    });
    ("pull_request", body)
}

/// An issue that is assigned: nothing is asked of a forge.
fn assigned(repo: &str) -> (&'static str, Value) {
    let body = json!({
        "action": "assigned",
        "issue": {
            "number": 2, "title": "The list is slow", "body": "", "updated_at": "2026-11-02T03:05:05Z",
            "assignees": [{"login": "alice"}]
        },
        "repository": {"full_name": repo}, "sender": {"login": "lead"}
    });
    ("issues", body)
}

async fn store(log: &DeliveryLog, planner: &Planner, (event, body): (&str, Value)) -> Uuid {
    let id = Uuid::now_v7();
    let delivery = NewDelivery {
        id,
        hook: "main".to_owned(),
        forge: Forge::Gitea,
        delivery_id: id.to_string(),
        event: event.to_owned(),
        headers: r#"{"content-type": "application/json"}"#.to_owned(),
        body: body.to_string().into_bytes(),
        digest: id.as_bytes().repeat(2),
        received_at: planner.now(),
    };
    assert!(log.store(delivery).await.expect("the delivery is stored"));
    id
}

async fn state(pool: &PgPool, id: Uuid) -> String {
    let reading = sqlx::query_scalar("select state from forge_delivery where id = $1").bind(id);
    reading.fetch_one(pool).await.expect("a delivery")
}

/// Waits until a delivery is processed.
async fn processed(pool: &PgPool, id: Uuid, within: Duration) {
    let began = Instant::now();
    while state(pool, id).await != "processed" {
        assert!(began.elapsed() < within, "it is not processed after {:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_forge_that_does_not_answer_holds_no_other_delivery_back(pool: PgPool) {
    let slow = Failure::Slow(Duration::from_secs(120));
    let fixture = Fixture::start(&pool, &[slow.clone(), slow], Times::default()).await;
    let (planner, one) = (Arc::clone(&fixture.planner), &fixture.forges[0]);
    one.fails("*", 1000);
    let log = DeliveryLog::start(pool.clone());
    let waits = store(&log, &planner, opened(&one.repo, 1)).await;
    let (arrived, shutdown) = (Arc::new(Notify::new()), CancellationToken::new());
    let draining = tokio::spawn({
        let (planner, arrived, shutdown) = (Arc::clone(&planner), Arc::clone(&arrived), shutdown);
        async move { drain(&planner, &arrived, &shutdown).await }
    });
    let began = Instant::now();
    while one.double.arrived() == 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "the forge was not asked");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let other = store(&log, &planner, assigned(&fixture.forges[1].repo)).await;
    arrived.notify_one();
    processed(&pool, other, Duration::from_secs(5)).await;
    assert_eq!(state(&pool, waits).await, "stored", "the slow forge answered");
    // One question for all five reviewers, whose time is bounded.
    processed(&pool, waits, Duration::from_secs(20)).await;
    draining.await.expect("no panic").expect("drained");
    let drained = async || {
        let arrived = Notify::new();
        drain(&planner, &arrived, &CancellationToken::new()).await.expect("drained");
    };
    let second = store(&log, &planner, opened(&one.repo, 3)).await;
    drained().await;
    processed(&pool, second, Duration::from_secs(5)).await;
    let asked = one.double.arrived();
    // After two questions in a row without an answer, later ones do not wait for the forge at all.
    let later = store(&log, &planner, opened(&one.repo, 2)).await;
    drained().await;
    processed(&pool, later, Duration::from_secs(5)).await;
    assert_eq!(one.double.arrived(), asked, "the forge was asked again");
}
