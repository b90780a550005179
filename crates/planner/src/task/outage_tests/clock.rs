//! The forge decides whether the assignee's own part holds, and is asked again.

use super::super::admit;
use super::super::ensure_started;
use super::super::follow::{failed_context, infrastructure_task};
use super::super::upkeep::{Asking, round};
use super::{Fixture, quick};
use sqlx::PgPool;
use std::time::{Duration, Instant};
use surety_common::domain::toolchain::{Agent, Language};
use surety_common::store::{self, Admission, StoredTask};
use surety_e2e::forge::Failure;

#[sqlx::test(migrations = "../common/migrations")]
async fn a_reminder_is_counted_once_the_own_part_does_not_hold_any_more(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[Failure::Status(500)], quick()).await;
    let (planner, one) = (&fixture.planner, &fixture.forges[0]);
    let events = one.event("pull_request_rejected", "reviewed", 1);
    let admitted = admit(planner, "1", &events).await.expect("admitted");
    let run_id = admitted.tasks[0].run_id.expect("a task");
    let mut asking = Asking::default();
    let mut looked = async || -> StoredTask {
        let due = "update task set remind_at = created_at where run_id = $1";
        sqlx::query(due).bind(run_id).execute(&pool).await.expect("an update");
        round(planner, &mut asking).await.expect("a round");
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let task = store::find_task(&pool, run_id).await.expect("a row").expect("a task");
            if task.remind_at.is_some_and(|at| at > task.created_at) {
                return task;
            }
            assert!(Instant::now() < deadline, "nothing came of it: {task:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // The event is of a day in the past, so the commit of the pull request is a later push.
    let pull = one.double.change(|state| state.repo(&one.repo).map(|repo| repo.pulls[&1].clone()));
    let head = pull.expect("a pull request").commit;
    one.double.change(|state| state.status(&one.repo, "surety", (&head, "test", "success")));
    for _ in 0..2 {
        let task = looked().await;
        assert_eq!((task.reminders, task.waiting_for.as_str()), (0, "forge"), "{task:?}");
    }
    one.double.change(|state| state.status(&one.repo, "surety", (&head, "test", "failure")));
    let task = looked().await;
    assert_eq!((task.reminders, task.waiting_for.as_str()), (1, ""), "{task:?}");
    assert!(task.instructions.starts_with("Reminder 1 of 2: no action report"), "{task:?}");
    assert!(task.instructions.is_ascii(), "its assignee reads English: {task:?}");
    // The assignee is registered with another language.
    let found = store::find_agent(&pool, &task.assignee).await.expect("a row").expect("an agent");
    let agent = Agent { language: Language::Zh, ..found };
    store::put_agent(&pool, &agent, "test", planner.now()).await.expect("an agent");
    let task = looked().await;
    assert_eq!(task.reminders, 2);
    assert!(task.instructions.starts_with("第 2 次提醒（共 2 次）"), "{task:?}");
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_task_of_the_infrastructure_which_needs_no_report_is_not_reminded_of_one(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[Failure::Status(500)], quick()).await;
    let (planner, one) = (&fixture.planner, &fixture.forges[0]);
    let events = one.event("pull_request_rejected", "reviewed", 1);
    let admitted = admit(planner, "1", &events).await.expect("admitted");
    let run_id = admitted.tasks[0].run_id.expect("a task");
    let failed = store::find_task(&pool, run_id).await.expect("a row").expect("a task");
    let context = failed_context(&failed, "forge_api_unreachable");
    let infra = infrastructure_task(planner, &failed, context).await;
    let infra = infra.expect("no outage").expect("an agent");
    let mut admission = Admission::begin(&pool, []).await.expect("a transaction");
    admission.insert(&infra).await.expect("a row");
    admission.commit().await.expect("a task");
    ensure_started(planner, infra.run_id).await.expect("a run");
    let started = store::find_task(&pool, infra.run_id).await.expect("a row").expect("a task");
    assert!(started.started_at.is_some(), "{started:?}");
    assert_eq!(started.remind_at, None, "no clock runs for a report that is not needed");
    assert!(!started.instructions.contains("Without it the task fails"), "{started:?}");
}
