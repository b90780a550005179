//! A slow forge holds no other task back.

use super::super::admit;
use super::super::upkeep::{Asking, round};
use super::{Fixture, LOGIN, OneForge};
use crate::planner::Planner;
use serde_json::json;
use sqlx::PgPool;
use std::time::Duration;
use surety_common::domain::execution::Graph;
use surety_common::domain::toolchain::{Delivery, Forge, Reading, Rules};
use surety_common::store;
use surety_e2e::forge::Failure;
use surety_e2e::toolchain::issue;
use surety_forge::Times;
use tokio::time::timeout;
use uuid::Uuid;

async fn made(planner: &Planner, one: &OneForge, minute: u32) -> Uuid {
    let events = one.event("pull_request_rejected", "reviewed", minute);
    let admitted = admit(planner, &minute.to_string(), &events).await.expect("admitted");
    admitted.tasks[0].run_id.expect("a task")
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_slow_forge_holds_no_other_task_back(pool: PgPool) {
    let slow = Failure::Slow(Duration::from_secs(120));
    let fixture = Fixture::start(&pool, &[slow.clone(), slow], Times::default()).await;
    let (planner, one, other) = (&fixture.planner, &fixture.forges[0], &fixture.forges[1]);
    let reminded = made(planner, one, 1).await;
    one.fails("*", 1000);
    let due = "update task set remind_at = created_at where run_id = $1";
    sqlx::query(due).bind(reminded).execute(&pool).await.expect("an update");
    let mut asking = Asking::default();
    let rounds = async {
        round(planner, &mut asking).await.expect("a round");
        let over = made(planner, other, 2).await;
        let actor = planner.actor();
        let cancelling = planner.change(over, &actor, |record, draft| {
            let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
            draft.cancel(&graph, "over".to_owned()).or(Ok(()))
        });
        cancelling.await.expect("cancelled");
        // The same reminder is under way, and not begun again.
        round(planner, &mut asking).await.expect("a round");
        round(planner, &mut asking).await.expect("a round");
        store::find_task(&pool, over).await.expect("a row").expect("a task")
    };
    let ended = timeout(Duration::from_secs(20), rounds).await.expect("the forge held it back");
    assert!(ended.end.is_some(), "{ended:?}");
    assert!(one.double.calls().len() <= 1, "{:?}", one.double.calls());
}

/// A task about an issue, about whose pull request the forge is asked.
async fn assigned(planner: &Planner, one: &OneForge, number: u64) -> Uuid {
    let mut body = issue(number, LOGIN);
    body["repository"]["full_name"] = json!(one.repo);
    let body = body.to_string();
    let delivery = Delivery { forge: Forge::Gitea, event: "issues", body: &body };
    let events = match delivery.read(&Rules::default()).expect("a delivery") {
        Reading::Tasks(events) => events,
        other @ (Reading::Ignored(_) | Reading::Withdrawn(_)) => panic!("no tasks: {other:?}"),
    };
    let admitted = admit(planner, &number.to_string(), &events).await.expect("admitted");
    admitted.tasks[0].run_id.expect("a task")
}

/// More tasks than one forge is asked about at the same time.
const MANY: u64 = 20;

#[sqlx::test(migrations = "../common/migrations")]
async fn a_slow_forge_takes_the_slots_of_no_other(pool: PgPool) {
    let slow = Failure::Slow(Duration::from_secs(120));
    let fixture = Fixture::start(&pool, &[slow.clone(), slow], Times::default()).await;
    let (planner, one, other) = (&fixture.planner, &fixture.forges[0], &fixture.forges[1]);
    for number in 1..=MANY {
        assigned(planner, one, number).await;
    }
    let reminded = assigned(planner, other, MANY + 1).await;
    one.fails("*", 1000);
    let due = "update task set remind_at = created_at where remind_at is not null";
    sqlx::query(due).execute(&pool).await.expect("an update");
    let mut asking = Asking::default();
    let rounds = async {
        loop {
            round(planner, &mut asking).await.expect("a round");
            let task = store::find_task(&pool, reminded).await.expect("a row").expect("a task");
            if task.reminders > 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(30), rounds).await.expect("the slow forge held it back");
}
