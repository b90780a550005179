//! Two servers of one kind have repositories with the same name: their tasks have nothing to do with each other.

use super::super::AdmittedState::{Created, Existed};
use super::requests::{REPO, at, put, states, take, task};
use super::{Fixture, quick};
use serde_json::{Value, json};
use sqlx::PgPool;

/// What a server says of issue 5; one that is not named says nothing of itself.
fn issue(server: &str, action: &str, minute: u32) -> Value {
    let assignees = if action == "assigned" { json!([{"login": "carol"}]) } else { json!([]) };
    let mut body = json!({
        "action": action,
        "issue": {
            "number": 5, "title": "The list is slow", "body": "", "updated_at": at(minute),
            "assignees": assignees
        },
        "repository": {"full_name": REPO},
        "sender": {"login": "lead"}
    });
    if !server.is_empty() {
        body["repository"]["html_url"] = json!(format!("https://{server}/{REPO}"));
    }
    body
}

#[sqlx::test(migrations = "../common/migrations")]
async fn the_same_issue_of_two_servers_is_two_tasks(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    put(planner, "carol", &[]).await;
    let one = take(planner, "issues", &issue("git.example", "assigned", 1)).await;
    let other = take(planner, "issues", &issue("code.example:3000", "assigned", 1)).await;
    assert_eq!((states(&one), states(&other)), (vec![Created], vec![Created]));
    assert_ne!(one[0].run_id, other[0].run_id);
    let stored = task(planner, other[0].run_id).await;
    assert_eq!(stored.subject.server, "code.example:3000");
    // What one of them withdraws stays at the other one.
    take(planner, "issues", &issue("GIT.example", "unassigned", 2)).await;
    assert!(task(planner, one[0].run_id).await.is_superseded);
    assert!(!task(planner, other[0].run_id).await.is_superseded);
    for (server, minute) in [("git.example", 1), ("code.example:3000", 1)] {
        let again = take(planner, "issues", &issue(server, "assigned", minute)).await;
        assert_eq!(states(&again), [Existed], "{server}");
    }
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_task_of_an_earlier_version_which_names_no_server_is_known(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    put(planner, "carol", &[]).await;
    let before = take(planner, "issues", &issue("", "assigned", 1)).await;
    assert_eq!(states(&before), [Created]);
    let repeated = take(planner, "issues", &issue("git.example", "assigned", 1)).await;
    assert_eq!((states(&repeated), repeated[0].run_id), (vec![Existed], before[0].run_id));
    take(planner, "issues", &issue("git.example", "unassigned", 2)).await;
    assert!(task(planner, before[0].run_id).await.is_superseded);
    let again = take(planner, "issues", &issue("git.example", "assigned", 3)).await;
    assert_eq!(states(&again), [Created]);
    assert_eq!(task(planner, again[0].run_id).await.subject.server, "git.example");
}
