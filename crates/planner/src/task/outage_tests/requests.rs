//! Forges repeat requests, withdraw them, and name reviewers only until they review.

use super::super::{AdmittedState, AdmittedTask, admit, withdraw};
use super::{Fixture, LOGIN, count_tasks, quick};
use crate::planner::Planner;
use serde_json::{Value, json};
use sqlx::PgPool;
use surety_common::domain::toolchain::{
    Agent, AgentDriver, Delivery, Forge, Language, Reading, Role, Rules,
};
use surety_common::store::{self, StoredTask};
use surety_e2e::forge::{Failure, State};
use uuid::Uuid;

pub(super) const REPO: &str = "team/m0";

/// Registers an agent whose account has its name.
pub(super) async fn put(planner: &Planner, id: &str, roles: &[Role]) {
    put_without_account(planner, id, (roles, &[(Forge::Gitea, id.to_owned())])).await;
}

async fn put_without_account(
    planner: &Planner,
    id: &str,
    (roles, accounts): (&[Role], &[(Forge, String)]),
) {
    let agent = Agent {
        id: id.to_owned(),
        accounts: accounts.to_vec(),
        roles: roles.to_vec(),
        language: Language::En,
        concurrency: 10,
        credential: String::new(),
        driver: AgentDriver::Remote,
    };
    store::put_agent(&planner.pool, &agent, "test", planner.now()).await.expect("an agent");
}

/// What a delivery of an account says about pull request 1 at a minute, with these requested reviewers.
pub(super) fn pull(action: &str, minute: u32, reviewers: &[&str]) -> Value {
    let reviewers: Vec<Value> = reviewers.iter().map(|login| json!({"login": login})).collect();
    json!({
        "action": action,
        "pull_request": {
            "number": 1, "title": "Speed the list up", "user": {"login": LOGIN},
            "head": {"ref": "fix/1", "sha": "0".repeat(40)}, "base": {"ref": "main"},
            "updated_at": at(minute), "merged": false, "requested_reviewers": reviewers
        },
        "requested_reviewer": reviewers.first(),
        "repository": {"full_name": REPO},
        "sender": {"login": LOGIN}
    })
}

pub(super) fn at(minute: u32) -> String {
    format!("2026-11-02T03:{minute:02}:05Z")
}

/// What Gitea says of an issue at a minute, with those that it is assigned to.
fn issue(action: &str, minute: u32, assignees: &[&str]) -> Value {
    let assignees: Vec<Value> = assignees.iter().map(|login| json!({"login": login})).collect();
    json!({
        "action": action,
        "issue": {
            "number": 2, "title": "The list is slow", "body": "", "updated_at": at(minute),
            "assignees": assignees
        },
        "repository": {"full_name": REPO},
        "sender": {"login": "lead"}
    })
}

/// A review of an account, as GitHub sends it.
fn reviewed(by: &str, minute: u32, state: &str) -> Value {
    let mut body = pull("submitted", minute, &[]);
    body["sender"]["login"] = json!(by);
    body["review"] = json!({
        "id": 100 + minute, "state": state, "body": "Look.", "user": {"login": by},
        "submitted_at": at(minute)
    });
    body
}

/// Takes a delivery, as the intake does; the tasks that it made.
pub(super) async fn take(planner: &Planner, event: &str, body: &Value) -> Vec<AdmittedTask> {
    take_from(Forge::Gitea, planner, event, body).await
}

async fn take_from(
    forge: Forge,
    planner: &Planner,
    event: &str,
    body: &Value,
) -> Vec<AdmittedTask> {
    let text = body.to_string();
    let servers = ["https://git.example", "https://code.example:3000"].map(str::to_owned).into();
    let rules = Rules { servers, ..Rules::default() };
    match (Delivery { forge, event, body: &text }).read(&rules).expect("a delivery") {
        Reading::Tasks(events) => {
            admit(planner, &text, &events).await.expect("the events are admitted").tasks
        }
        Reading::Withdrawn(withdrawal) => {
            withdraw(planner, &withdrawal).await.expect("the request is withdrawn");
            Vec::new()
        }
        Reading::Ignored(reason) => panic!("ignored: {reason}"),
    }
}

pub(super) fn states(tasks: &[AdmittedTask]) -> Vec<AdmittedState> {
    tasks.iter().map(|task| task.state).collect()
}

pub(super) async fn task(planner: &Planner, run_id: Option<Uuid>) -> StoredTask {
    let run_id = run_id.expect("a task");
    store::find_task(&planner.pool, run_id).await.expect("a row").expect("a task")
}

/// Ends all tasks as accepted.
pub(super) async fn end_all(pool: &PgPool) {
    let ending = "update task set ended_at = now(), outcome = 'accepted', remind_at = null
                  where ended_at is null";
    sqlx::query(ending).execute(pool).await.expect("an end");
}

use AdmittedState::{Created, Existed, Superseded};

#[sqlx::test(migrations = "../common/migrations")]
async fn a_review_that_is_requested_again_is_a_task_again_and_a_redelivery_is_none(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    put(planner, "carol", &[]).await;
    let asked = |minute| pull("review_requested", minute, &["carol"]);
    let first = take(planner, "pull_request", &asked(1)).await;
    assert_eq!(states(&first), [Created]);
    // Asked again while the task is open: there is nothing more to do.
    assert_eq!(states(&take(planner, "pull_request", &asked(2)).await), [Existed]);
    end_all(&pool).await;
    for minute in [1, 2] {
        assert_eq!(states(&take(planner, "pull_request", &asked(minute)).await), [Existed]);
    }
    let again = take(planner, "pull_request", &asked(5)).await;
    assert_eq!(states(&again), [Created]);
    assert_ne!(again[0].run_id, first[0].run_id);
    let repeated = take(planner, "pull_request", &asked(5)).await;
    assert_eq!((states(&repeated), repeated[0].run_id), (vec![Existed], again[0].run_id));
    // The second task is open.
    let open = take(planner, "pull_request", &asked(6)).await;
    assert_eq!((states(&open), open[0].run_id), (vec![Existed], again[0].run_id));
    end_all(&pool).await;
    for minute in [3, 5, 6] {
        let late = take(planner, "pull_request", &asked(minute)).await;
        assert_eq!(states(&late), [Existed], "{minute}");
    }
    assert_eq!(count_tasks(&pool).await, 2);
    // Reopened: each requested reviewer is asked.
    let reopened = pull("reopened", 9, &["carol"]);
    assert_eq!(states(&take(planner, "pull_request", &reopened).await), [Created]);
}

#[sqlx::test(migrations = "../common/migrations")]
async fn an_issue_is_a_task_again_for_the_account_that_it_was_taken_from(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    put(planner, "carol", &[]).await;
    let first = take(planner, "issues", &issue("assigned", 1, &["carol"])).await;
    assert_eq!(states(&first), [Created]);
    assert!(take(planner, "issues", &issue("unassigned", 3, &[])).await.is_empty());
    let ended = task(planner, first[0].run_id).await;
    assert_eq!((ended.is_superseded, ended.withdrawn_by.as_str()), (true, "unassigned"));
    let said = ended.terminal.expect("an end").user_message;
    assert!(said.contains("unassigned"), "{said}");
    // The assignment before that, delivered again, and one that arrives late.
    for minute in [1, 2] {
        let late = take(planner, "issues", &issue("assigned", minute, &["carol"])).await;
        assert_ne!(states(&late), [Created], "{minute}");
    }
    let again = take(planner, "issues", &issue("assigned", 5, &["carol"])).await;
    assert_eq!(states(&again), [Created]);
    end_all(&pool).await;
    // Gitea names all assignees: only the one that is new is asked.
    let both = take(planner, "issues", &issue("assigned", 6, &["carol", "dave"])).await;
    assert_eq!(states(&both), [Existed, Created]);
    // The other one stays when one is taken away, and is asked again after it was taken away itself.
    take(planner, "issues", &issue("unassigned", 7, &["dave"])).await;
    assert!(!task(planner, both[1].run_id).await.is_superseded);
    let both = take(planner, "issues", &issue("assigned", 8, &["carol", "dave"])).await;
    assert_eq!(states(&both), [Created, Existed]);
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_request_that_the_forge_withdraws_ends_its_tasks_and_says_why(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    for id in ["carol", "dave"] {
        put(planner, id, &[]).await;
    }
    let asked = take(planner, "pull_request", &pull("opened", 1, &["carol", "dave"])).await;
    take(planner, "pull_request", &pull("review_request_removed", 2, &["carol"])).await;
    let removed = task(planner, asked[0].run_id).await;
    assert_eq!((removed.is_superseded, removed.remind_at), (true, None));
    assert_eq!(removed.withdrawn_by, "review_request_removed");
    assert!(!task(planner, asked[1].run_id).await.is_superseded);
    // One that arrives before what it withdraws.
    take(planner, "pull_request", &pull("review_request_removed", 5, &["erin"])).await;
    let late = take(planner, "pull_request", &pull("review_requested", 4, &["erin"])).await;
    assert_eq!(states(&late), [Superseded]);

    let changes = reviewed("dave", 6, "changes_requested");
    let changes = take_from(Forge::Gitea, planner, "pull_request_review", &changes).await;
    take(planner, "pull_request", &pull("closed", 7, &["dave"])).await;
    for run_id in [asked[1].run_id, changes[0].run_id] {
        let closed = task(planner, run_id).await;
        assert_eq!(closed.withdrawn_by, "closed_without_merge");
        assert!(closed.terminal.is_some() && closed.remind_at.is_none(), "{closed:?}");
    }
    let late = take(planner, "pull_request", &pull("review_requested", 6, &["dave"])).await;
    assert_ne!(states(&late), [Created]);
    let reopened = take(planner, "pull_request", &pull("reopened", 8, &["dave"])).await;
    assert_eq!(states(&reopened), [Created]);
    let entries = "select count(*) from task where withdrawn_by <> '' and superseded_by = run_id";
    let count: i64 = sqlx::query_scalar(entries).fetch_one(&pool).await.expect("a count");
    assert_eq!(count, 3);
}

#[sqlx::test(migrations = "../common/migrations")]
async fn an_approval_leaves_the_changes_that_another_reviewer_asked_for(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    let review = async |by, minute, state| {
        take(planner, "pull_request_review", &reviewed(by, minute, state)).await.remove(0)
    };
    let changes = review("carol", 2, "changes_requested").await;
    let approved = review("erin", 3, "approved").await;
    assert!(!task(planner, changes.run_id).await.is_superseded);
    // The same reviewer, whose name a forge writes in any case.
    let satisfied = review("Carol", 4, "approved").await;
    assert!(task(planner, changes.run_id).await.is_superseded);
    assert!(!task(planner, approved.run_id).await.is_superseded);
    let late = review("carol", 1, "changes_requested").await;
    assert_eq!((satisfied.state, late.state), (Created, Superseded));
}

/// The assignees of the tasks of a push.
async fn pushed(planner: &Planner, minute: u32, reviewers: &[&str]) -> Vec<String> {
    let mut body = pull("synchronize", minute, reviewers);
    body["pull_request"]["head"]["sha"] = json!(format!("{minute:040}"));
    let tasks = take(planner, "pull_request", &body).await;
    assert!(tasks.iter().all(|task| task.state == Created), "{tasks:?}");
    let mut assignees: Vec<String> = tasks.into_iter().map(|task| task.assignee).collect();
    assignees.sort();
    assignees
}

#[sqlx::test(migrations = "../common/migrations")]
async fn new_commits_go_to_those_that_reviewed_before_and_else_to_the_role(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[Failure::Status(500)], quick()).await;
    let (planner, one) = (&*fixture.planner, &fixture.forges[0]);
    for id in ["carol", "dave", "rita"] {
        put(planner, id, if id == "rita" { &[Role::Reviewer] } else { &[] }).await;
    }
    assert_eq!(pushed(planner, 1, &[]).await, ["rita"], "no account has reviewed yet");
    // The forge says who did; a person that is no agent is not asked, and no comment makes a reviewer.
    let review = |by: &str, event: &str| {
        one.double.change(|state: &mut State| state.review(REPO, by, (1, event, "Look.")))
    };
    for (by, event) in [
        ("carol", "REQUEST_CHANGES"),
        ("a-person", "APPROVE"),
        ("dave", "COMMENT"),
        (LOGIN, "COMMENT"),
    ] {
        review(by, event).expect("a review");
    }
    assert_eq!(pushed(planner, 2, &[]).await, ["carol"]);
    assert_eq!(pushed(planner, 3, &["Carol", "dave"]).await, ["carol", "dave"]);
    // A forge that does not answer: what is stored says it.
    one.fails("reviews", 100);
    assert_eq!(pushed(planner, 4, &[]).await, ["rita"]);
    take(planner, "pull_request_review", &reviewed("dave", 5, "changes_requested")).await;
    assert_eq!(pushed(planner, 6, &[]).await, ["dave"]);
}

#[sqlx::test(migrations = "../common/migrations")]
async fn no_agent_is_given_the_review_of_its_own_pull_request(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    // `dev` has the author's account, and is the only reviewer.
    let author = [(Forge::Gitea, LOGIN.to_owned())];
    put_without_account(planner, "dev", (&[Role::Reviewer], &author)).await;
    let mut body = pull("review_requested", 1, &[]);
    body["sender"]["login"] = json!("lead");
    body["pull_request"]["user"]["login"] = json!("Alice");
    let asked = take(planner, "pull_request", &body).await;
    assert_eq!(asked[0].assignee, "ops", "the coordinator's");
    // Without a coordinator it waits, and does not come to the author later.
    store::delete_agent(&pool, "ops").await.expect("no agent");
    body["pull_request"]["head"]["sha"] = json!("1".repeat(40));
    let waiting = take(planner, "pull_request", &body).await;
    assert_eq!(waiting[0].assignee, "");
    let run_id = waiting[0].run_id.expect("a task");
    planner.assign(run_id).await.expect("a search");
    assert_eq!(task(planner, Some(run_id)).await.assignee, "");
    put(planner, "carol", &[Role::Reviewer]).await;
    planner.assign(run_id).await.expect("a search");
    let by = "select superseded_by from task where run_id = $1";
    let by = sqlx::query_scalar(by).bind(run_id).fetch_one(&pool).await.expect("a row");
    assert_eq!(task(planner, by).await.assignee, "carol");
}
