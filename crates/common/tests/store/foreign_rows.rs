//! Rows and receipts that a superuser deletes, inserts, swaps between runs or replays into another run.

use crate::signatures::{
    all_keys, check, decided, done, export, findings, keep, restore, verdict, worked_with,
};
use crate::support::{order, spec};
use sqlx::PgPool;
use surety_common::domain::signature::{SignatureStatus, check_export};
use uuid::Uuid;

/// A run as [`done`] makes it, with receipts of other tools.
async fn done_otherwise(pool: &PgPool, id: u128) -> Uuid {
    let new = order(spec(id), 1, spec(id).created_at);
    let digest = new.plan.as_ref().unwrap().digest.clone();
    let row = worked_with(pool, new, ["read_file", "list_files"]).await;
    decided(pool, &row, verdict(&row, &digest)).await;
    row.run_id
}

/// The receipt of a tool in the journal of a run.
async fn stored_receipt(pool: &PgPool, run_id: Uuid, tool: &str) -> String {
    let file = export(pool, run_id).await;
    let name = format!("\"name\":\"{tool}\"");
    let mut lines = file.lines().filter(|line| line.contains("\"seq\":"));
    lines.find(|line| line.contains(&name)).unwrap().to_owned()
}

/// Copies a row behind the last one of the run `$1`, as if the run had gone on.
const BEHIND: &str = "with last as (select max(sequence) as at from journal where run_id = $1),
     raised as (update execution set sequence = last.at + {entries} from last where run_id = $1)
     insert into journal (run_id, sequence, at, actor, entries, signature)
     select $1, last.at + {entries}, other.at, other.actor, other.entries, other.signature
     from last, journal as other where other.run_id = {of} and other.sequence =
         (select min(sequence) + 1 from journal where run_id = {of})";

#[sqlx::test(migrations = "./migrations")]
async fn rows_that_are_deleted_inserted_swapped_or_replayed_are_named(pool: PgPool) {
    let (run_id, other) = (done(&pool, 1).await, done_otherwise(&pool, 2).await);
    let all = "from journal where run_id = $1 and sequence =";
    let behind = |of: &str| BEHIND.replace("{of}", of).replace("{entries}", "1");
    let cases = [
        ("a deleted row", format!("delete {all} (select min(sequence) + 1 from journal where run_id = $1)"), "rows are missing"),
        ("a deleted tail", format!("delete {all} (select max(sequence) from journal where run_id = $1)"), "execution.sequence"),
        ("a deleted verdict", "delete from verdict where run_id = $1".to_owned(), "table of verdicts"),
        ("an inserted plan", "insert into plan select run_id, 7, digest, parent_digest, reason, body, created_at from plan where run_id = $1".to_owned(), "plan revision 7: it was not signed"),
        ("a replayed row", "update journal set (entries, signature, actor, at) = (select entries, signature, actor, at from journal as other where other.run_id = $2 and other.sequence = journal.sequence) where run_id = $1".to_owned(), "is not what was signed"),
        ("an inserted copy of a row", behind("$1"), "is not what was signed"),
        ("an inserted row of another run", behind("$2"), "is not what was signed"),
    ];
    keep(&pool).await;
    for (what, statement, words) in cases {
        let mut transaction = pool.begin().await.unwrap();
        for off in [
            "set local session_replication_role = replica",
            "alter table execution drop constraint if exists execution_keeps_its_rules",
        ] {
            sqlx::query(off).execute(&mut *transaction).await.unwrap();
        }
        let query = sqlx::query(sqlx::AssertSqlSafe(statement.clone())).bind(run_id);
        let query = if statement.contains("$2") { query.bind(other) } else { query };
        assert!(query.execute(&mut *transaction).await.unwrap().rows_affected() > 0, "{what}");
        transaction.commit().await.unwrap();
        is_named_by_both(&pool, run_id, (what, words)).await;
        restore(&pool).await;
    }
    assert_eq!(check(&pool, run_id, &all_keys()).await.status, SignatureStatus::Signed);
}

/// An export has the verdicts that rows announce: one that none announces is named of the stored run.
#[sqlx::test(migrations = "./migrations")]
async fn a_verdict_that_no_row_announces_is_named(pool: PgPool) {
    let run_id = done(&pool, 1).await;
    let inserted = "insert into verdict select run_id, 1, plan_revision, accepted, decided_at, key_id, signature
         from verdict where run_id = $1";
    sqlx::query(inserted).bind(run_id).execute(&pool).await.unwrap();
    let found = findings(&check(&pool, run_id, &all_keys()).await);
    assert!(found.contains("verdict 1: it is in the table"), "{found}");
}

/// One receipt of a run in the place of one of another run, with its own digest and with the rest of its row untouched.
#[sqlx::test(migrations = "./migrations")]
async fn a_receipt_that_is_replayed_into_another_run_is_named(pool: PgPool) {
    let (run_id, other) = (done(&pool, 1).await, done_otherwise(&pool, 2).await);
    keep(&pool).await;
    for (number, tool, foreign) in
        [(1, "write_file", "read_file"), (2, "run_command", "list_files")]
    {
        let own = stored_receipt(&pool, run_id, tool).await;
        let foreign = stored_receipt(&pool, other, foreign).await;
        let replay = "update journal set entries = replace(entries, $2, $3)
             where run_id = $1 and strpos(entries, $2) > 0";
        let replayed = sqlx::query(replay).bind(run_id).bind(&own).bind(&foreign);
        assert_eq!(replayed.execute(&pool).await.unwrap().rows_affected(), 1, "receipt {number}");
        let words = format!("with receipt {number}: it is not what was signed");
        is_named_by_both(&pool, run_id, ("a replayed receipt", &words)).await;
        restore(&pool).await;
    }
}

/// Both checks name the run `run_id` with these words.
async fn is_named_by_both(pool: &PgPool, run_id: Uuid, (what, words): (&str, &str)) {
    let online = findings(&check(pool, run_id, &all_keys()).await);
    assert!(online.contains(words), "{what}: {online}");
    let offline = findings(&check_export(&export(pool, run_id).await, Some(&all_keys())));
    assert!(offline.contains(words), "{what}: {offline}");
}
