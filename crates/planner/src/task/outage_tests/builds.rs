//! All that fails of a commit's build is one task, and a build that fails again, or commits that come back, are another one.

use super::super::AdmittedState::{Created, Existed, Superseded};
use super::requests::{REPO, at, end_all, pull, put, states, take, task};
use super::{Fixture, LOGIN, quick};
use serde_json::{Value, json};
use sqlx::PgPool;
use surety_e2e::forge::Failure;

/// A job of a commit's build that failed at a minute.
fn status(commit: &str, job: &str, minute: u32) -> Value {
    json!({
        "sha": commit, "state": "failure", "context": job, "description": "2 of 9 failed",
        "commit": {"id": commit, "author": {"username": LOGIN}},
        "created_at": at(minute), "updated_at": at(minute),
        "repository": {"full_name": REPO}, "sender": {"login": LOGIN}
    })
}

/// The workflow of it, whose pull request the delivery names.
fn workflow(commit: &str, minute: u32) -> Value {
    json!({
        "action": "completed",
        "workflow_run": {
            "id": 7, "run_attempt": 1, "conclusion": "failure", "head_sha": commit, "head_branch": "fix/1",
            "actor": {"login": "lead"}, "completed_at": at(minute)
        },
        "workflow": {"name": "tests"},
        "pull_request": {"number": 1, "user": {"login": LOGIN}},
        "repository": {"full_name": REPO}, "sender": {"login": "lead"}
    })
}

#[sqlx::test(migrations = "../common/migrations")]
async fn all_that_fails_of_a_build_is_one_task_and_what_fails_again_is_another(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    let (commit, newer) = ("a".repeat(40), "b".repeat(40));
    let first = take(planner, "status", &status(&commit, "unit", 1)).await;
    assert_eq!(states(&first), [Created]);
    let store = take(planner, "status", &status(&commit, "store", 2)).await;
    let all = take(planner, "workflow_run", &workflow(&commit, 3)).await;
    for more in [&store, &all] {
        assert_eq!((states(more), more[0].run_id), (vec![Existed], first[0].run_id));
    }
    end_all(&pool).await;
    // Deliveries that are repeated after the end are no new failures.
    for (event, body) in [
        ("status", status(&commit, "unit", 1)),
        ("status", status(&commit, "store", 2)),
        ("workflow_run", workflow(&commit, 3)),
    ] {
        assert_eq!(states(&take(planner, event, &body).await), [Existed], "{body}");
    }
    // The same job of the same commit fails again.
    let again = take(planner, "status", &status(&commit, "unit", 9)).await;
    assert_eq!(states(&again), [Created]);
    assert_ne!(again[0].run_id, first[0].run_id);
    end_all(&pool).await;
    let workflow_again = take(planner, "workflow_run", &workflow(&commit, 10)).await;
    assert_eq!(states(&workflow_again), [Created]);
    // A build of another commit is another task, and the one before stays: which commit is newer is not known.
    let later = take(
        planner,
        "workflow_run",
        &json!({
            "action": "completed",
            "workflow_run": {
                "id": 8, "conclusion": "failure", "head_sha": newer, "head_branch": "fix/1",
                "actor": {"login": "lead"}, "completed_at": at(12)
            },
            "workflow": {"name": "tests"},
            "pull_request": {"number": 1, "user": {"login": LOGIN}},
            "repository": {"full_name": REPO}, "sender": {"login": "lead"}
        }),
    )
    .await;
    assert_eq!(states(&later), [Created]);
    assert!(!task(planner, workflow_again[0].run_id).await.is_superseded);
    assert_eq!(
        task(planner, later[0].run_id).await.payload.context["failed_jobs"],
        json!(["tests"])
    );
}

#[sqlx::test(migrations = "../common/migrations")]
async fn the_author_of_the_pull_request_gets_the_build_that_was_a_task_of_another_account(
    pool: PgPool,
) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    let commit = "c".repeat(40);
    let mut of_commit = status(&commit, "unit", 1);
    of_commit["commit"]["author"]["username"] = json!("robot");
    let first = take(planner, "status", &of_commit).await;
    let named = take(planner, "workflow_run", &workflow(&commit, 2)).await;
    assert_eq!((states(&first), states(&named)), (vec![Created], vec![Created]));
    assert_ne!(first[0].run_id, named[0].run_id);
    assert!(task(planner, first[0].run_id).await.is_superseded, "two work on one build");
    let more = take(planner, "status", &status(&commit, "store", 3)).await;
    assert_eq!((states(&more), more[0].run_id), (vec![Existed], named[0].run_id));
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_job_that_fails_after_the_fix_of_its_build_was_accepted_asks_for_nothing(pool: PgPool) {
    // The forge is asked by the gate, so an accepted task has a newer commit.
    let fixture = Fixture::start(&pool, &[Failure::Status(500)], quick()).await;
    let planner = &*fixture.planner;
    let commit = "d".repeat(40);
    let first = take(planner, "workflow_run", &workflow(&commit, 1)).await;
    assert_eq!(states(&first), [Created]);
    end_all(&pool).await;
    let late = take(planner, "status", &status(&commit, "store", 9)).await;
    assert_eq!((states(&late), late[0].run_id), (vec![Existed], first[0].run_id));
    assert_eq!(late[0].assignee, "dev", "the task that is named has an assignee");
    // What failed before and fails again is a failure of its own.
    let again = take(planner, "workflow_run", &workflow(&commit, 12)).await;
    assert_eq!(states(&again), [Created]);
    // The newest commit of the pull request was not replaced, whatever was accepted.
    let (double, repo) = (&fixture.forges[0].double, fixture.forges[0].repo.clone());
    let head = double.change(|state| state.repo(&repo).map(|repo| repo.pulls[&1].commit.clone()));
    let head = head.expect("a pull request");
    let of_head = take(planner, "status", &status(&head, "unit", 13)).await;
    assert_eq!(states(&of_head), [Created]);
    end_all(&pool).await;
    assert_eq!(states(&take(planner, "status", &status(&head, "store", 14)).await), [Created]);
}

#[sqlx::test(migrations = "../common/migrations")]
async fn commits_that_are_pushed_again_ask_for_their_review_again(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    put(planner, "carol", &[]).await;
    let pushed = |minute: u32, commit: &str| {
        let mut body = pull("synchronize", minute, &["carol"]);
        body["pull_request"]["head"]["sha"] = json!(commit.repeat(40));
        body
    };
    let first = take(planner, "pull_request", &pushed(1, "a")).await;
    let other = take(planner, "pull_request", &pushed(2, "b")).await;
    assert_eq!((states(&first), states(&other)), (vec![Created], vec![Created]));
    // A force-push puts the first commit back.
    let back = take(planner, "pull_request", &pushed(3, "a")).await;
    assert_eq!(states(&back), [Created]);
    assert!(task(planner, other[0].run_id).await.is_superseded);
    let present = task(planner, back[0].run_id).await;
    assert_eq!(present.payload.context["new_sha"], json!("a".repeat(40)));
    // Repeated deliveries make nothing, and neither does the same head while its task is open.
    for (minute, commit) in [(1, "a"), (2, "b"), (3, "a"), (4, "a")] {
        let repeated = take(planner, "pull_request", &pushed(minute, commit)).await;
        assert!(
            matches!(states(&repeated)[..], [Existed | Superseded]),
            "{minute}: {:?}",
            states(&repeated)
        );
    }
    assert!(!task(planner, back[0].run_id).await.is_superseded);
}
