//! A comment about a failed task: written once, later where the forge fails, and told to the coordinator where the forge
//! refuses it, to the infrastructure where the forge is down.

use super::super::escalate::escalate;
use super::super::{admit, end, report};
use super::{Fixture, OneForge, count_tasks, quick, seconds_from_now};
use crate::planner::Planner;
use chrono::{DateTime, Utc};
use futures::future::join_all;
use sqlx::PgPool;
use std::time::Duration;
use surety_common::domain::execution::Graph;
use surety_common::domain::execution::draft::Ending;
use surety_common::domain::stop::StopReason;
use surety_common::domain::toolchain::{
    Agent, FailureClass, Role, Subject, TaskFailure, TaskOutcome, marker,
};
use surety_common::store::{self, EndedTask, EscalationAction, NewEscalation};
use surety_e2e::forge::Failure;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// An escalation as it is stored.
#[derive(Debug, sqlx::FromRow)]
struct Row {
    state: String,
    attempts: i32,
    next_attempt_at: Option<DateTime<Utc>>,
    address: String,
    error: String,
}

async fn row(pool: &PgPool, run_id: Uuid) -> Row {
    row_of(pool, run_id, EscalationAction::Comment).await
}

async fn row_of(pool: &PgPool, run_id: Uuid, action: EscalationAction) -> Row {
    let statement = "select state, attempts, next_attempt_at, address, error from escalation \
                     where run_id = $1 and action = $2";
    let finding = sqlx::query_as(statement).bind(run_id).bind(action.as_str());
    finding.fetch_one(pool).await.expect("an escalation")
}

/// What the history of a task says.
async fn history(pool: &PgPool, run_id: Uuid) -> Vec<String> {
    let entries = store::list_entries(pool, run_id, 0, 100).await.expect("entries");
    entries.into_iter().map(|row| row.entry.body).collect()
}

/// A fact of the only task with an action that follows from one.
async fn fact(planner: &Planner, run_id: Uuid, (action, key): (&str, &str)) -> String {
    let caused = caused(planner, run_id).await;
    let found: Vec<_> = caused.iter().filter(|(_, found)| found == action).collect();
    let [(run_id, _)] = found.as_slice() else { panic!("{action}: {caused:?}") };
    let task = store::find_task(&planner.pool, *run_id).await.expect("a row").expect("a task");
    task.payload.context[key].as_str().unwrap_or_default().to_owned()
}

/// As if the time of the next attempt had come.
async fn make_due(pool: &PgPool, run_id: Uuid) {
    let statement =
        "update escalation set next_attempt_at = noted_at where run_id = $1 and state = 'due'";
    sqlx::query(statement).bind(run_id).execute(pool).await.expect("an update");
}

/// A task that failed, with the intent to write a comment.
async fn failed(planner: &Planner, one: &OneForge) -> Uuid {
    let events = one.event("pull_request_rejected", "reviewed", 1);
    let admitted = admit(planner, &one.repo, &events).await.expect("admitted");
    let run_id = admitted.tasks[0].run_id.expect("a task");
    let task = store::find_task(&planner.pool, run_id).await.expect("a row").expect("a task");
    let ended = EndedTask {
        run_id,
        chain_id: run_id,
        at: planner.now(),
        outcome: TaskOutcome::Failed,
        failure: Some((TaskFailure::NoAction, FailureClass::Business)),
        escalations: vec![NewEscalation {
            action: EscalationAction::Comment,
            forge: task.forge,
            subject: task.subject,
            account: "alice".to_owned(),
            title: String::new(),
            body: "It was not done.".to_owned(),
        }],
        tasks: Vec::new(),
        entry: None,
    };
    assert!(store::end_task(&planner.pool, &planner.keys.signing, &ended).await.expect("ended"));
    run_id
}

/// The tasks that follow from one: their runs and actions.
async fn caused(planner: &Planner, run_id: Uuid) -> Vec<(Uuid, String)> {
    let statement = "select run_id, action_type from task where caused_by = $1";
    sqlx::query_as(statement).bind(run_id).fetch_all(&planner.pool).await.expect("tasks")
}

/// The second attempt, once the forge answers again: a rate limit ends by the clock.
async fn written(planner: &Planner, one: &OneForge, run_id: Uuid) -> Row {
    let deadline = Instant::now() + Duration::from_secs(30);
    let subject = Subject {
        server: String::new(),
        repo: one.repo.clone(),
        number: Some(1),
        is_pull_request: true,
    };
    while planner.escalations.changed_files("gitea", &subject).await.is_none() {
        assert!(Instant::now() < deadline, "{:?}: the forge does not answer", one.failure);
        sleep(Duration::from_millis(50)).await;
    }
    make_due(&planner.pool, run_id).await;
    escalate(planner, run_id).await.expect("an attempt");
    let row = row(&planner.pool, run_id).await;
    assert_eq!(row.state, "done", "{:?}: {row:?}", one.failure);
    row
}

fn is_the_one_comment(one: &OneForge, run_id: Uuid) {
    let comments = one.comments();
    let [comment] = comments.as_slice() else { panic!("{:?}: {comments:#?}", one.failure) };
    assert!(comment.contains(&marker(run_id)) && comment.contains("@alice"), "{comment}");
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_comment_is_written_once_however_its_call_fails(pool: PgPool) {
    let failures = [
        Failure::Cut,
        Failure::CutAfterWrite,
        Failure::Slow(Duration::from_secs(60)),
        Failure::Status(500),
        Failure::Status(502),
        Failure::Limited(1),
        Failure::Secondary(1),
        Failure::Page,
        Failure::Shape,
    ];
    let fixture = Fixture::start(&pool, &failures, quick()).await;
    let planner = &*fixture.planner;
    let attempts = fixture.forges.iter().map(|one| async move {
        let run_id = failed(planner, one).await;
        one.fails("add_comment", 1);
        escalate(planner, run_id).await.expect("an attempt");
        let first = row(&planner.pool, run_id).await;
        if one.failure == Failure::CutAfterWrite {
            // The second look of the same attempt found it.
            assert_eq!(first.state, "done", "{first:?}");
        } else {
            assert_eq!(first.state, "due", "{:?}: {first:?}", one.failure);
            let pause = seconds_from_now(planner, first.next_attempt_at.expect("a time"));
            assert!((1..=10).contains(&pause) && !first.error.is_empty(), "{first:?}");
            assert!(one.comments().is_empty(), "{:?}", one.failure);
        }
        let done = written(planner, one, run_id).await;
        assert!(!done.address.is_empty(), "{done:?}");
        is_the_one_comment(one, run_id);
        let said = format!("The comment was written: {}", done.address);
        assert_eq!(history(&planner.pool, run_id).await, [said], "{:?}", one.failure);
        assert!(caused(planner, run_id).await.is_empty(), "{:?}", one.failure);
    });
    join_all(attempts).await;
}

#[sqlx::test(migrations = "../common/migrations")]
async fn nothing_is_written_while_earlier_comments_cannot_be_looked_for(pool: PgPool) {
    let failures = [Failure::Status(503), Failure::Cut, Failure::Shape, Failure::Page];
    let fixture = Fixture::start(&pool, &[failures.clone(), failures].concat(), quick()).await;
    let planner = &*fixture.planner;
    let attempts = fixture.forges.iter().enumerate().map(|(place, one)| async move {
        let route = if place < 4 { "current_user" } else { "comments" };
        let run_id = failed(planner, one).await;
        one.fails(route, 3);
        escalate(planner, run_id).await.expect("an attempt");
        assert_eq!(one.arrived("add_comment"), 0, "{route}: {:?}", one.failure);
        assert_eq!(row(&planner.pool, run_id).await.state, "due", "{route}: {:?}", one.failure);
        one.double.heal();
        written(planner, one, run_id).await;
        is_the_one_comment(one, run_id);
    });
    join_all(attempts).await;
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_comment_that_the_forge_refuses_becomes_one_issue_and_one_task_of_the_coordinator(
    pool: PgPool,
) {
    let failures = [
        (Failure::Status(403), "forbidden"),
        (Failure::Status(404), "not_found"),
        (Failure::Status(409), "conflict"),
        (Failure::Status(422), "unprocessable"),
    ];
    let fixture =
        Fixture::start(&pool, &failures.clone().map(|(failure, _)| failure), quick()).await;
    let planner = &*fixture.planner;
    for (one, (_, code)) in fixture.forges.iter().zip(&failures) {
        let run_id = failed(planner, one).await;
        one.fails("add_comment", 100);
        escalate(planner, run_id).await.expect("an attempt");
        let ended = row(&pool, run_id).await;
        assert_eq!((ended.state.as_str(), ended.attempts), ("failed", 1), "{ended:?}");
        let error = fact(planner, run_id, ("task_failed", "error")).await;
        assert!(error.contains(code), "{code}: {error}");
        assert_eq!(fact(planner, run_id, ("task_failed", "reason")).await, "no_action");
        for _ in 0..2 {
            make_due(&pool, run_id).await;
            escalate(planner, run_id).await.expect("an attempt");
        }
        let issue = row_of(&pool, run_id, EscalationAction::Issue).await;
        assert_eq!((issue.state.as_str(), issue.attempts), ("done", 1), "{issue:?}");
        let issues = one.issues();
        let [text] = issues.as_slice() else { panic!("{code}: {issues:#?}") };
        assert!(text.contains(&marker(run_id)) && text.contains("no_action"), "{text}");
        assert!(one.comments().is_empty(), "{code}");
        assert_eq!(caused(planner, run_id).await.len(), 1, "{code}: the infrastructure works");
        let said = history(&pool, run_id).await;
        let [comment, issue] = said.as_slice() else { panic!("{said:?}") };
        assert!(comment.starts_with("The comment was given up: forge "), "{comment}");
        assert!(comment.contains(code), "{comment}");
        assert!(issue.starts_with("The issue was opened: http"), "{issue}");
    }
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_refused_issue_and_a_comment_for_no_coordinator_are_told_to_the_infrastructure(
    pool: PgPool,
) {
    let fixture =
        Fixture::start(&pool, &[Failure::Status(403), Failure::Status(403)], quick()).await;
    let planner = &*fixture.planner;
    let [refused, alone] = fixture.forges.as_slice() else { panic!("two forges") };
    let run_id = failed(planner, refused).await;
    refused.fails("add_comment", 100);
    escalate(planner, run_id).await.expect("an attempt");
    refused.fails("create_issue", 100);
    escalate(planner, run_id).await.expect("an attempt");
    let issue = row_of(&pool, run_id, EscalationAction::Issue).await;
    assert_eq!((issue.state.as_str(), issue.attempts), ("failed", 1), "{issue:?}");
    // The error is the real one: the forge can be reached.
    assert_eq!(fact(planner, run_id, ("infrastructure_failure", "reason")).await, "forbidden");
    let error = fact(planner, run_id, ("infrastructure_failure", "error")).await;
    assert!(error.contains("create_issue: forbidden"), "{error}");
    assert_eq!(caused(planner, run_id).await.len(), 2);

    let found = store::find_agent(&pool, "ops").await.expect("a row").expect("an agent");
    let agent = Agent { roles: vec![Role::Infra], ..found };
    store::put_agent(&pool, &agent, "test", planner.now()).await.expect("an agent");
    let run_id = failed(planner, alone).await;
    alone.fails("add_comment", 100);
    escalate(planner, run_id).await.expect("an attempt");
    assert_eq!(fact(planner, run_id, ("infrastructure_failure", "reason")).await, "no_coordinator");
    let error = fact(planner, run_id, ("infrastructure_failure", "error")).await;
    assert!(error.contains("forbidden"), "{error}");
    assert_eq!(caused(planner, run_id).await.len(), 1);
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_forge_that_stays_down_is_told_to_the_infrastructure_once(pool: PgPool) {
    let failures = [Failure::Status(500), Failure::Limited(90)];
    let fixture = Fixture::start(&pool, &failures, quick()).await;
    let planner = &*fixture.planner;
    let [down, limited] = fixture.forges.as_slice() else { panic!("two forges") };

    // It has five attempts.
    let run_id = failed(planner, down).await;
    down.fails("*", 1000);
    for attempt in 1..=5 {
        assert_eq!(row(&pool, run_id).await.state, "due", "attempt {attempt}");
        make_due(&pool, run_id).await;
        escalate(planner, run_id).await.expect("an attempt");
    }
    let ended = row(&pool, run_id).await;
    assert_eq!((ended.state.as_str(), ended.attempts), ("failed", 5), "{ended:?}");
    assert_eq!(fact(planner, run_id, ("infrastructure_failure", "reason")).await, "unreachable");
    let infra = is_told_once(planner, run_id).await;
    the_infrastructure_makes_no_task(planner, infra).await;

    // A forge that names the end of its limit is asked no earlier.
    let run_id = failed(planner, limited).await;
    limited.fails("add_comment", 1);
    escalate(planner, run_id).await.expect("an attempt");
    let next = row(&pool, run_id).await.next_attempt_at.expect("a time");
    let pause = seconds_from_now(planner, next);
    assert!((80..=91).contains(&pause), "{pause}");
}

async fn is_told_once(planner: &Planner, run_id: Uuid) -> Uuid {
    let caused = caused(planner, run_id).await;
    let [(infra, action)] = caused.as_slice() else { panic!("{caused:?}") };
    assert_eq!(action, "infrastructure_failure");
    *infra
}

/// The run of a task ends late.
pub(super) async fn ends_late(planner: &Planner, run_id: Uuid) {
    let end = Ending {
        stop_reason: StopReason::DeadlineExceeded,
        user_message: "It took too long.".to_owned(),
        internal_reason: String::new(),
    };
    let actor = planner.actor();
    let changing = planner.change(run_id, &actor, |record, draft| {
        let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
        draft.stop(&graph, end.clone()).or(Ok(()))
    });
    changing.await.expect("the run ends");
    end::end_task(planner, run_id).await.expect("the task ends");
}

/// The task for the infrastructure fails itself: an alert, and no task.
async fn the_infrastructure_makes_no_task(planner: &Planner, infra: Uuid) {
    let before = count_tasks(&planner.pool).await;
    ends_late(planner, infra).await;
    let task = store::find_task(&planner.pool, infra).await.expect("a row").expect("a task");
    let end = task.end.expect("it ended");
    assert_eq!(end.outcome, TaskOutcome::Failed);
    assert_eq!(count_tasks(&planner.pool).await, before);
    assert!(caused(planner, infra).await.is_empty());
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_chain_stops_at_its_bounds(pool: PgPool) {
    let fixture =
        Fixture::start(&pool, &[Failure::Status(500), Failure::Status(500)], quick()).await;
    let planner = &*fixture.planner;
    for (one, (depth, tasks), follows) in [
        (&fixture.forges[0], (3, 19), true),
        (&fixture.forges[0], (4, 1), false),
        (&fixture.forges[1], (1, 20), false),
    ] {
        let minute = u32::try_from(depth).expect("small") + 10;
        let events = one.event("pull_request_rejected", "reviewed", minute);
        let admitted = admit(planner, &format!("{depth} {tasks}"), &events).await;
        let run_id = admitted.expect("admitted").tasks[0].run_id.expect("a task");
        let place = "update task set depth = $2 where run_id = $1";
        sqlx::query(place).bind(run_id).bind(depth).execute(&pool).await.expect("an update");
        // The other tasks of its chain.
        let others = "
            insert into task (run_id, task_type, namespace, event_key, origin_key, event_type, action_type, forge,
                              repo, is_pull_request, happened_at, addressee, assignee, payload, instructions,
                              is_notice, chain_id, depth, business_failures, created_at, started_at, ended_at,
                              outcome, remind_after_s)
            select gen_random_uuid(), task_type, namespace, gen_random_uuid()::text, '', event_type, action_type,
                   forge, repo, is_pull_request, happened_at, addressee, assignee, payload, '', false, run_id, 1, 0,
                   created_at, created_at, created_at, 'cancelled', 0
            from task, generate_series(2, $2) where run_id = $1";
        sqlx::query(others).bind(run_id).bind(tasks).execute(&pool).await.expect("rows");
        ends_late(planner, run_id).await;
        assert_eq!(!caused(planner, run_id).await.is_empty(), follows, "{depth} {tasks}");
        let escalations: i64 =
            sqlx::query_scalar("select count(*) from escalation where run_id = $1")
                .bind(run_id)
                .fetch_one(&pool)
                .await
                .expect("a count");
        assert_eq!(escalations > 0, follows, "{depth} {tasks}");
    }
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_report_that_comes_before_the_run_of_its_task_waits_for_it(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[Failure::Status(500)], quick()).await;
    let events = fixture.forges[0].event("pull_request_rejected", "reviewed", 10);
    let admitted = admit(&fixture.planner, "early", &events).await.expect("admitted");
    let made = admitted.tasks[0].run_id.expect("a task");
    // The same row as before its run is made.
    let early = Uuid::now_v7();
    let change = "update task set run_id = $2, reported_at = now() where run_id = $1";
    sqlx::query(change).bind(made).bind(early).execute(&pool).await.expect("an update");
    assert_eq!(report::supply(&fixture.planner, early).await.ok(), Some(false));
}
