//! What the service itself wrote on a forge makes no task, although its account is configured nowhere.

use super::super::reading;
use super::{Bench, quick};
use serde_json::json;
use sqlx::PgPool;
use surety_common::domain::toolchain::{Delivery, Forge, Ignored, Reading, marker};
use surety_e2e::forge::Failure;
use uuid::Uuid;

#[sqlx::test(migrations = "../common/migrations")]
async fn the_account_of_the_service_is_asked_of_the_forge(pool: PgPool) {
    let bench = Bench::start(&pool, &[Failure::Status(500)], quick()).await;
    let one = &bench.forges[0];
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
        let rules = reading(&bench.planner, Forge::Gitea, comment.as_bytes()).await;
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
