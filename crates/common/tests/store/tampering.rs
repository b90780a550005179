//! Further ways to rewrite signed rows as a superuser, and anchors.

use crate::signatures::{all_keys, check, done, export, findings, keep, restore};
use sqlx::PgPool;
use surety_common::domain::signature::{SignatureStatus, check_export};
use surety_common::domain::timestamp::read_response;
use surety_common::store::{AnchorBatch, begin_anchoring};
use uuid::Uuid;

/// What the row of a run says that no receipt has, and what the gate counts: each is covered by the signature of the
/// last journal row.
#[sqlx::test(migrations = "./migrations")]
async fn todos_grants_and_rounds_of_a_row_that_are_rewritten_are_named(pool: PgPool) {
    let run_id = done(&pool, 1).await;
    let grant = r#"{"id":"00000000-0000-0000-0000-000000000007","tool":"run_command","uses":9,"used":1,"by":"m","made_at":"2026-01-01T00:00:00Z","expires_at":"2099-01-01T00:00:00Z"}"#;
    let cases = [
        ("a todo that counts as done", r#""todos":{"moved":{"t1":"completed"}}"#.to_owned()),
        ("another round", r#""verification_round":9"#.to_owned()),
        ("a grant", format!(r#""grants":[{grant}]"#)),
    ];
    for (what, member) in cases {
        let mut transaction = pool.begin().await.unwrap();
        let before: String =
            sqlx::query_scalar("select progress::text from execution where run_id = $1")
                .bind(run_id)
                .fetch_one(&mut *transaction)
                .await
                .unwrap();
        // The reader refuses two members of one name: the present one goes.
        let name = member.split(':').next().unwrap();
        let kept = before.replacen(&format!("{name}:1,"), "", 1);
        let kept = kept.replacen(&format!(",{name}:1"), "", 1);
        let changed = kept.replacen('{', &format!("{{{member},"), 1);
        sqlx::query("update execution set progress = $2::json where run_id = $1")
            .bind(run_id)
            .bind(&changed)
            .execute(&mut *transaction)
            .await
            .unwrap();
        transaction.commit().await.unwrap();
        let words = "execution.progress: its todos";
        let online = findings(&check(&pool, run_id, &all_keys()).await);
        assert!(online.contains(words), "{what}: {online}");
        let offline = findings(&check_export(&export(&pool, run_id).await, Some(&all_keys())));
        assert!(offline.contains(words), "{what}: {offline}");
        sqlx::query("update execution set progress = $2::json where run_id = $1")
            .bind(run_id)
            .bind(&before)
            .execute(&pool)
            .await
            .unwrap();
    }
    assert_eq!(check(&pool, run_id, &all_keys()).await.status, SignatureStatus::Signed);
}

/// Each of two runs with the other's row: both are named.
#[sqlx::test(migrations = "./migrations")]
async fn rows_that_two_runs_swap_are_named_in_both(pool: PgPool) {
    let (one, other) = (done(&pool, 1).await, done(&pool, 2).await);
    let swap = "update {table} as row set {columns} = ({twins}) from {table} as twin
         where row.run_id in ($1, $2) and twin.run_id in ($1, $2) and twin.run_id <> row.run_id";
    let statement = |table: &str, columns: &[&str], more: &str| {
        let twins: Vec<String> = columns.iter().map(|column| format!("twin.{column}")).collect();
        swap.replace("{table}", table)
            .replace("{columns}", &format!("({})", columns.join(", ")))
            .replace("({twins})", &format!("({})", twins.join(", ")))
            + more
    };
    let cases = [
        (
            "journal rows",
            statement(
                "journal",
                &["entries", "signature", "actor", "at"],
                " and twin.sequence = row.sequence",
            ),
            "is not what was signed",
        ),
        (
            "verdicts",
            statement("verdict", &["decided_at", "key_id", "signature"], ""),
            "verdict on plan revision 1: it is not what was signed",
        ),
    ];
    keep(&pool).await;
    for (what, statement, words) in cases {
        let swapped = sqlx::query(sqlx::AssertSqlSafe(statement)).bind(one).bind(other);
        assert!(swapped.execute(&pool).await.unwrap().rows_affected() >= 2, "{what}");
        for run_id in [one, other] {
            let online = findings(&check(&pool, run_id, &all_keys()).await);
            assert!(online.contains(words), "{what} of {run_id}: {online}");
            let file = export(&pool, run_id).await;
            let offline = findings(&check_export(&file, Some(&all_keys())));
            assert!(offline.contains(words), "{what} of {run_id}: {offline}");
        }
        restore(&pool).await;
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn a_verdict_is_anchored_once_and_its_anchor_is_checked_with_the_run(pool: PgPool) {
    let run_id = done(&pool, 1).await;
    // A time stamp over another digest than this run's: the check must say so.
    let response = include_bytes!("../../src/domain/timestamp/samples/p256.tsr");
    let token = read_response(response, &[7; 32], [1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let started = chrono::DateTime::UNIX_EPOCH + chrono::TimeDelta::days(1);
    assert!(AnchorBatch::take(&pool).await.unwrap().is_none(), "anchoring did not begin");
    begin_anchoring(&pool, started).await.unwrap();
    // A gate that starts after an outage begins where the first one did.
    begin_anchoring(&pool, chrono::Utc::now()).await.unwrap();
    let batch = AnchorBatch::take(&pool).await.unwrap().unwrap();
    assert_eq!((batch.count(), batch.is_full()), (1, false));
    assert!(batch.to_file(&token).contains(&run_id.to_string()));
    assert!(AnchorBatch::take(&pool).await.unwrap().is_none(), "another gate anchors");
    batch.store(Uuid::from_u128(5), &token).await.unwrap();
    assert!(AnchorBatch::take(&pool).await.unwrap().is_none(), "nothing is left");
    let words =
        "the anchor of the verdict on plan revision 1: its time stamp is about something else";
    let online = findings(&check(&pool, run_id, &all_keys()).await);
    assert!(online.contains(words), "{online}");
    let offline = findings(&check_export(&export(&pool, run_id).await, Some(&all_keys())));
    assert!(offline.contains(words), "{offline}");
}

#[sqlx::test(migrations = "./migrations")]
async fn an_anchor_of_a_gate_whose_clock_is_ahead_leaves_the_verdicts_of_others(pool: PgPool) {
    let started = chrono::DateTime::UNIX_EPOCH + chrono::TimeDelta::days(1);
    let ahead =
        "insert into anchor values (gen_random_uuid(), $1, $1 + interval '50 years', 1, '')";
    sqlx::query(ahead).bind(started).execute(&pool).await.unwrap();
    done(&pool, 1).await;
    let batch = AnchorBatch::take(&pool).await.unwrap().expect("the verdict has no anchor");
    assert_eq!(batch.count(), 1);
}
