//! Agents that answer one another by mentions: their chain of tasks ends at its bound.

use super::super::AdmittedState::{self, ChainBound, Created};
use super::super::AdmittedTask;
use super::requests::{self, REPO, put, take, task};
use super::{Fixture, LOGIN, quick};
use crate::planner::Planner;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use sqlx::PgPool;
use surety_common::domain::toolchain::EntryKind;
use surety_common::store;

/// A comment of an account on issue 3 at a time.
fn comment(by: &str, (id, at): (u64, DateTime<Utc>), text: &str) -> Value {
    json!({
        "action": "created",
        "issue": {"number": 3, "title": "T", "user": {"login": "lead"}},
        "comment": {
            "id": id, "user": {"login": by}, "body": text, "created_at": at.to_rfc3339(),
            "html_url": format!("https://forge.example/{REPO}/issues/3#{id}")
        },
        "repository": {"full_name": REPO},
        "sender": {"login": by}
    })
}

async fn said(planner: &Planner, by: &str, id: u64, text: &str) -> AdmittedTask {
    let at = Utc::now() + TimeDelta::seconds(i64::try_from(id).expect("a number"));
    take(planner, "issue_comment", &comment(by, (id, at), text)).await.remove(0)
}

#[sqlx::test(migrations = "../common/migrations")]
async fn agents_that_mention_one_another_stop_at_the_bound_of_their_chain(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    for id in ["carol", "dave"] {
        put(planner, id, &[]).await;
    }
    let first = said(planner, "lead", 1, "@carol which rounding?").await;
    let mut before = task(planner, first.run_id).await;
    assert_eq!((before.depth, before.caused_by), (1, None));
    for (id, by, to) in [(2, "carol", "dave"), (3, "dave", "carol"), (4, "carol", "dave")] {
        let next = said(planner, by, id, &format!("@{to} what do you think?")).await;
        assert_eq!((next.state, next.assignee.as_str()), (Created, to), "{id}");
        let next = task(planner, next.run_id).await;
        let linked = (next.chain_id, next.caused_by, next.depth);
        assert_eq!(linked, (before.chain_id, Some(before.run_id), before.depth + 1), "{id}");
        before = next;
    }
    let stopped = said(planner, "dave", 5, "@carol what do you think?").await;
    assert_eq!((stopped.state, stopped.run_id), (ChainBound, None));
    let entries = store::list_entries(&pool, before.run_id, 0, 10).await.expect("a history");
    let shown = entries.iter().find(|row| row.entry.kind == EntryKind::System);
    let shown = shown.map(|row| row.entry.body.as_str()).unwrap_or_default();
    assert!(shown.contains("chain_bound") && shown.contains("account carol"), "{shown}");
    // A person begins a chain of its own, and so does an agent that works on no task of this issue.
    for (id, by) in [(6, "lead"), (7, "alice")] {
        let own = said(planner, by, id, "@carol and now?").await;
        assert_eq!(own.state, AdmittedState::Created, "{by}");
        assert_eq!(task(planner, own.run_id).await.depth, 1, "{by}");
    }
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_text_that_an_agent_wrote_long_after_its_task_begins_a_chain(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    for id in ["carol", "dave"] {
        put(planner, id, &[]).await;
    }
    said(planner, "lead", 1, "@carol which rounding?").await;
    let ended = |minutes: i64| {
        sqlx::query("update task set ended_at = $1, outcome = 'accepted'")
            .bind(Utc::now() - TimeDelta::minutes(minutes))
    };
    // The answer is written before the report, and its delivery comes after the end.
    ended(1).execute(&pool).await.expect("an end");
    let answer = said(planner, "carol", 2, "@dave please check.").await;
    assert_eq!(task(planner, answer.run_id).await.depth, 2);
    ended(60).execute(&pool).await.expect("an end");
    let later = said(planner, "carol", 3, "@dave please check again.").await;
    assert_eq!(task(planner, later.run_id).await.depth, 1);
}

#[sqlx::test(migrations = "../common/migrations")]
async fn each_of_many_comments_of_a_review_asks_for_a_response_and_an_answer_follows_from_it(
    pool: PgPool,
) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    put(planner, "carol", &[]).await;
    take(planner, "pull_request", &requests::pull("opened", 1, &["carol"])).await;
    let on_pull = async |by: &str, id: u64, text: &str| {
        let at = Utc::now() + TimeDelta::seconds(i64::try_from(id).expect("a number"));
        let mut body = comment(by, (id, at), text);
        body["issue"] = json!({"number": 1, "title": "T", "user": {"login": LOGIN}});
        body["is_pull"] = json!(true);
        take(planner, "issue_comment", &body).await.remove(0)
    };
    for id in 1..=25 {
        let asked = on_pull("carol", id, "This line is slow.").await;
        assert_eq!((asked.state, asked.assignee.as_str()), (Created, "dev"), "{id}");
        assert_eq!(task(planner, asked.run_id).await.depth, 1, "{id}");
    }
    // The author's answer, and the reviewer's comment on it.
    let answer = on_pull(LOGIN, 30, "@carol is it fast enough now?").await;
    assert_eq!(task(planner, answer.run_id).await.depth, 2);
    let comment = on_pull("carol", 31, "It is not.").await;
    assert_eq!(task(planner, comment.run_id).await.depth, 3);
}
