//! Deliveries that are admitted together: one that cannot be admitted holds back none of the others.

use super::super::{AdmittedState, Arrived, admit_all};
use super::{Fixture, LOGIN, count_tasks, event_of, quick};
use sqlx::PgPool;
use surety_common::domain::toolchain::Assignee;
use surety_common::store;

const REJECTED: (&str, &str) = ("pull_request_rejected", "reviewed");

#[sqlx::test(migrations = "../common/migrations")]
async fn a_delivery_that_cannot_be_stored_fails_alone(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    let mut unusable = event_of("team/b", REJECTED, 2);
    // No text of the database holds a zero byte.
    unusable[0].assignee = Assignee::Account(format!("{LOGIN}\0"));
    let deliveries = [
        event_of("team/a", REJECTED, 1),
        unusable,
        // The same event again, and a later one about the same pull request.
        event_of("team/a", REJECTED, 1),
        event_of("team/a", REJECTED, 3),
        event_of("team/c", REJECTED, 1),
    ];
    let mut arrived = Vec::new();
    for (place, events) in deliveries.into_iter().enumerate() {
        arrived.push(Arrived::new(planner, format!("delivery {place}"), events).await);
    }
    let admitted = admit_all(planner, &arrived).await;
    let states: Vec<Option<AdmittedState>> = admitted
        .iter()
        .map(|one| one.as_ref().ok().map(|admitted| admitted.tasks[0].state))
        .collect();
    let created = Some(AdmittedState::Created);
    assert_eq!(
        states,
        [created, None, Some(AdmittedState::Existed), created, created],
        "{admitted:?}"
    );
    assert_eq!(count_tasks(&pool).await, 3);
    let run_id =
        |place: usize| admitted[place].as_ref().expect("admitted").tasks[0].run_id.expect("a task");
    assert_eq!(run_id(0), run_id(2));
    for (place, is_superseded) in [(0, true), (3, false), (4, false)] {
        let task = store::find_task(&pool, run_id(place)).await.expect("a row").expect("a task");
        assert!(task.started_at.is_some(), "{task:?}");
        assert_eq!(task.is_superseded, is_superseded, "{task:?}");
        assert_eq!(task.terminal.is_some(), is_superseded, "{task:?}");
    }
}
