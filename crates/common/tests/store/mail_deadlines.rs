//! A message counts as read and as answered by its deadline, whenever a planner makes a dead letter of it.

use crate::support::now;
use chrono::TimeDelta;
use sqlx::PgPool;
use uuid::Uuid;

/// Stores a message whose deadline is so many seconds from now.
async fn mail(pool: &PgPool, kind: &str, (deadline_s, read_s): (i64, Option<i64>)) -> Uuid {
    let id = Uuid::now_v7();
    let at = |seconds| now() + TimeDelta::seconds(seconds);
    sqlx::query(
        "insert into mail (run_id, thread_id, kind, sender, receiver, subject, body, sent_at, deadline_at, request_id, \
         request_digest, read_at) values ($1, $1, $2, 'a', 'b', 's', 't', $3, $4, '', '', $5)",
    )
    .bind(id)
    .bind(kind)
    .bind(at(-60))
    .bind(at(deadline_s))
    .bind(read_s.map(at))
    .execute(pool)
    .await
    .unwrap();
    id
}

#[sqlx::test(migrations = "./migrations")]
async fn a_request_is_answered_by_its_deadline_only(pool: PgPool) {
    for (kind, times, answers) in [
        ("request", (1, None), true),
        ("request", (-1, None), false),
        ("request", (-1, Some(-30)), false),
        ("inform", (1, None), true),
        ("inform", (-1, None), false),
        ("inform", (-1, Some(-30)), true),
    ] {
        let id = mail(&pool, kind, times).await;
        let answered: Option<String> =
            sqlx::query_scalar(include_str!("../../src/store/sql/mail_answer.sql"))
                .bind(id)
                .bind(now())
                .fetch_optional(&pool)
                .await
                .unwrap();
        assert_eq!(answered.is_some(), answers, "{kind} {times:?}");
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn an_inform_is_accepted_by_its_deadline_only_and_fails_as_unread_after_it(pool: PgPool) {
    for (kind, deadline_s, accepts) in [
        ("inform", 1, Some(true)),
        ("inform", -1, None),
        ("request", 1, Some(false)),
        ("request", -1, Some(false)),
    ] {
        let id = mail(&pool, kind, (deadline_s, None)).await;
        let accepted: Option<bool> =
            sqlx::query_scalar(include_str!("../../src/store/sql/mail_read.sql"))
                .bind(id)
                .bind(now())
                .fetch_optional(&pool)
                .await
                .unwrap();
        assert_eq!(accepted, accepts, "{kind} {deadline_s}");
        let due: bool = sqlx::query_scalar("select read_at is null from mail where run_id = $1")
            .bind(id)
            .fetch_one(&pool)
            .await
            .unwrap();
        assert_eq!(due, accepts.is_none(), "what was not read in time becomes a dead letter");
    }
}
