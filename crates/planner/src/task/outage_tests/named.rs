//! A role and a named account are asked for the same review: one task.

use super::super::AdmittedState::{Created, Existed, Superseded};
use super::requests::{end_all, pull, put, states, take, task};
use super::{Fixture, quick};
use sqlx::PgPool;
use surety_common::domain::toolchain::Role;

#[sqlx::test(migrations = "../common/migrations")]
async fn a_reviewer_that_is_named_after_its_role_was_asked_has_one_task(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    put(planner, "rita", &[Role::Reviewer]).await;
    put(planner, "carol", &[]).await;
    let role = take(planner, "pull_request", &pull("opened", 1, &[])).await;
    assert_eq!((states(&role), role[0].assignee.as_str()), (vec![Created], "rita"));
    // The same agent is asked by its name.
    let named = take(planner, "pull_request", &pull("review_requested", 2, &["rita"])).await;
    assert_eq!((states(&named), named[0].run_id), (vec![Existed], role[0].run_id));
    // That the name is not asked any more leaves what the role is asked for.
    take(planner, "pull_request", &pull("review_request_removed", 3, &["rita"])).await;
    assert!(!task(planner, role[0].run_id).await.is_superseded);
    // Another account takes the place of the role.
    let other = take(planner, "pull_request", &pull("review_requested", 4, &["carol"])).await;
    assert_eq!((states(&other), other[0].assignee.as_str()), (vec![Created], "carol"));
    assert!(task(planner, role[0].run_id).await.is_superseded);
    // The request to the role, delivered late.
    let late = take(planner, "pull_request", &pull("reopened", 1, &[])).await;
    assert!(matches!(states(&late)[..], [Existed | Superseded]), "{:?}", states(&late));
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_role_that_is_asked_after_a_reviewer_was_named_gets_no_second_task(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    for id in ["anna", "rita"] {
        put(planner, id, &[Role::Reviewer]).await;
    }
    let named = take(planner, "pull_request", &pull("review_requested", 1, &["rita"])).await;
    assert_eq!(states(&named), [Created]);
    // The role's agent would be another one.
    let role = take(planner, "pull_request", &pull("reopened", 2, &[])).await;
    assert_eq!((states(&role), role[0].run_id), (vec![Existed], named[0].run_id));
    assert_eq!(role[0].assignee, "rita");
    end_all(&pool).await;
    let again = take(planner, "pull_request", &pull("reopened", 3, &[])).await;
    assert_eq!(states(&again), [Created], "the review was submitted, and another one is asked for");
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_named_account_without_an_agent_takes_no_review_from_the_role(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    put(planner, "rita", &[Role::Reviewer]).await;
    put(planner, "lead", &[Role::Coordinator]).await;
    // The role is reviewing when a person is asked as well.
    let role = take(planner, "pull_request", &pull("opened", 1, &[])).await;
    assert_eq!(role[0].assignee, "rita");
    let person = take(planner, "pull_request", &pull("review_requested", 2, &["dora"])).await;
    assert_eq!((states(&person), person[0].assignee.as_str()), (vec![Created], "lead"));
    assert!(!task(planner, role[0].run_id).await.is_superseded);
    // The person is asked first, of another commit.
    let of_next = |action, reviewers: &[&str]| {
        let mut body = pull(action, 3, reviewers);
        body["pull_request"]["head"]["sha"] = "1".repeat(40).into();
        body
    };
    end_all(&pool).await;
    let person = take(planner, "pull_request", &of_next("review_requested", &["dora"])).await;
    assert_eq!((states(&person), person[0].assignee.as_str()), (vec![Created], "lead"));
    let role = take(planner, "pull_request", &of_next("reopened", &[])).await;
    assert_eq!((states(&role), role[0].assignee.as_str()), (vec![Created], "rita"));
    assert!(!task(planner, person[0].run_id).await.is_superseded);
}
