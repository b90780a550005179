//! What the service itself wrote on a forge makes no task, although its account is configured nowhere.

use super::super::reading;
use super::{Fixture, quick};
use serde_json::json;
use sqlx::PgPool;
use std::time::Duration;
use surety_common::domain::toolchain::{Delivery, Forge, Ignored, Reading, marker};
use surety_e2e::forge::Failure;
use surety_forge::Times;
use uuid::Uuid;

#[sqlx::test(migrations = "../common/migrations")]
async fn the_account_of_the_service_is_asked_of_the_forge(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[Failure::Status(500)], quick()).await;
    let one = &fixture.forges[0];
    let read = async |author: &str, text: &str| {
        let comment = json!({
            "action": "created",
            "is_pull": true,
            "comment": {"id": 7, "body": text, "user": {"login": author}, "created_at": "2026-11-02T03:01:05Z",
                        "html_url": format!("{}/{}/pulls/1#issuecomment-1", one.double.url(), one.repo)},
            "issue": {"number": 1, "title": "Speed the list up", "user": {"login": super::LOGIN},
                      "pull_request": {"merged": false}, "updated_at": "2026-11-02T03:01:05Z"},
            "repository": {"full_name": one.repo},
            "sender": {"login": author}
        })
        .to_string();
        let rules = reading(&fixture.planner, Forge::Gitea, comment.as_bytes()).await;
        let delivery = Delivery { forge: Forge::Gitea, event: "issue_comment", body: &comment };
        delivery.read(&rules).expect("a delivery")
    };
    let marked = format!("@{} No push was found. {}", super::LOGIN, marker(Uuid::now_v7()));
    // A text without the mark costs no question.
    assert!(matches!(read("surety", "Please look.").await, Reading::Tasks(_)));
    assert_eq!(one.arrived("current_user"), 0);
    for _ in 0..2 {
        assert_eq!(read("surety", &marked).await, Reading::Ignored(Ignored::OwnComment));
    }
    assert_eq!(one.arrived("current_user"), 1, "it is asked once");
    // Every account can copy the mark.
    assert!(matches!(read("mallory", &marked).await, Reading::Tasks(_)));
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_forge_that_hangs_keeps_no_other_from_naming_its_own_account(pool: PgPool) {
    let slow = Failure::Slow(Duration::from_secs(60));
    let times = Times { attempt: Duration::from_secs(120), ..quick() };
    let fixture = Fixture::start(&pool, &[slow.clone(), slow], times).await;
    fixture.forges[1].fails("current_user", 1000);
    let marked = format!("No push was found. {}", marker(Uuid::now_v7()));
    for _ in 0..2 {
        let rules = reading(&fixture.planner, Forge::Gitea, marked.as_bytes()).await;
        assert_eq!(rules.own, ["surety"], "the forge that answers");
    }
    assert_eq!(fixture.forges[0].arrived("current_user"), 1, "it is asked once");
}
