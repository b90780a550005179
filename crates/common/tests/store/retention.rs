//! Which runs are kept after their end, and which are deleted.

use crate::support::{
    actor, applied, change, commit, committer, find, graph, make_from, remark, remarks, spec,
};
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::{AssertSqlSafe, PgPool};
use std::fmt::Write as _;
use std::time::Duration;
use surety_common::domain::execution::Execution;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::run::RunSpec;
use surety_common::store::{self, Artifact, Outcome};
use uuid::Uuid;

const WEEK: TimeDelta = TimeDelta::days(7);
const NOTHING: [Uuid; 0] = [];

fn day(number: i64) -> DateTime<Utc> {
    // A Thursday, as the Unix epoch was: weeks begin on it.
    DateTime::from_timestamp(2800 * 7 * 86_400, 0).unwrap() + TimeDelta::days(number)
}

/// A run of one step that was made that day.
async fn made(pool: &PgPool, at: DateTime<Utc>, low: u128) -> Execution {
    let millis = u128::try_from(at.timestamp_millis()).unwrap();
    let id = (millis << 80) | (7 << 76) | (2 << 62) | low;
    make_from(pool, RunSpec { created_at: at, ..spec(id) }, 1).await
}

/// Ends it at that time.
async fn ended(pool: &PgPool, row: &Execution, at: DateTime<Utc>) {
    let mut draft = Draft::new(row.clone(), actor(), at);
    draft.cancel(&graph(1), "over".to_owned()).unwrap();
    applied(pool, draft.into_write()).await;
}

/// Forgets as a planner does, all at once.
async fn forget(pool: &PgPool, before: DateTime<Utc>) -> (i64, u32) {
    let (mut after, mut runs) = (Uuid::nil(), 0);
    while let Some(forgotten) = store::forget_runs(pool, before, &[], (after, 2)).await.unwrap() {
        (after, runs) = (forgotten.last, runs + forgotten.runs);
    }
    let partitions = store::drop_partitions(pool, before).await.unwrap();
    for partition in store::partitions_to_thin(pool, before).await.unwrap() {
        let mut after = Uuid::nil();
        while let Some(last) =
            store::forget_journals(pool, &partition, before, (after, 2)).await.unwrap()
        {
            after = last;
        }
    }
    (runs, partitions)
}

async fn journals(pool: &PgPool) -> Vec<Uuid> {
    sqlx::query_scalar("select distinct run_id from journal order by 1")
        .fetch_all(pool)
        .await
        .unwrap()
}

async fn partition_names(pool: &PgPool) -> Vec<String> {
    sqlx::query_scalar(
        "select relname::text from pg_class
         where relname ~ 'journal_(default|[0-9a-f]+)$' and relkind = 'r' order by 1",
    )
    .fetch_all(pool)
    .await
    .unwrap()
}

async fn prepared(pool: &PgPool, weeks: i64) {
    for week in 0..weeks {
        assert!(store::prepare_partitions(pool, day(7 * week), WEEK).await.unwrap());
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn a_week_whose_runs_all_ended_long_ago_is_dropped_whole(pool: PgPool) {
    prepared(&pool, 3).await;
    assert_eq!(
        partition_names(&pool).await,
        [
            "journal_20230831",
            "journal_20230907",
            "journal_20230914",
            "journal_20230921",
            "journal_default"
        ]
    );
    for low in 1..=5 {
        let old = made(&pool, day(1), low).await;
        ended(&pool, &old, day(2)).await;
    }
    let young = made(&pool, day(8), 6).await;
    ended(&pool, &young, day(9)).await;

    assert_eq!(forget(&pool, day(7)).await, (5, 1));
    assert!(!partition_names(&pool).await.contains(&"journal_20230831".to_owned()));
    assert_eq!(journals(&pool).await, [young.run_id]);
    for table in ["run", "plan", "execution"] {
        let count = format!("select count(*) from {table}");
        let left: i64 = sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(&pool).await.unwrap();
        assert_eq!(left, 1, "{table}");
    }
    assert_eq!(find(&pool, young.run_id).await.execution.state.as_str(), "CANCELLED");
    assert_eq!(forget(&pool, day(7)).await, (0, 0), "what is forgotten stays forgotten");
}

#[sqlx::test(migrations = "./migrations")]
async fn an_unfinished_run_keeps_its_week_but_not_the_others_of_it(pool: PgPool) {
    prepared(&pool, 2).await;
    let waiting = made(&pool, day(1), 1).await;
    let over = made(&pool, day(1), 2).await;
    ended(&pool, &over, day(2)).await;
    let late = made(&pool, day(1), 3).await;
    ended(&pool, &late, day(20)).await;

    assert_eq!(forget(&pool, day(10)).await, (1, 0));
    assert_eq!(journals(&pool).await, [waiting.run_id, late.run_id]);
    assert_eq!(remarks(&pool, waiting.run_id).await, [""; 0]);

    ended(&pool, &find(&pool, waiting.run_id).await.execution, day(12)).await;
    assert_eq!(forget(&pool, day(30)).await, (2, 3), "the weeks without any run too");
    assert_eq!(journals(&pool).await, NOTHING);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_run_without_a_partition_is_stored_all_the_same_and_ages_out_too(pool: PgPool) {
    let old = made(&pool, day(1), 1).await;
    ended(&pool, &old, day(1)).await;
    // Its week can have no partition any more, and the weeks to come have theirs.
    prepared(&pool, 2).await;
    assert_eq!(
        partition_names(&pool).await,
        ["journal_20230907", "journal_20230914", "journal_default"]
    );
    assert_eq!(journals(&pool).await, [old.run_id]);
    assert_eq!(forget(&pool, day(30)).await, (1, 2));
    assert_eq!(journals(&pool).await, NOTHING);
}

#[sqlx::test(migrations = "./migrations")]
async fn many_planners_that_prepare_and_forget_at_once_do_it_once(pool: PgPool) {
    let preparing = (0..4).map(|_| store::prepare_partitions(&pool, day(0), WEEK));
    let prepared = futures::future::try_join_all(preparing).await.unwrap();
    assert_eq!(prepared, [true; 4]);
    for low in 1..=9 {
        let old = made(&pool, day(1), low).await;
        ended(&pool, &old, day(2)).await;
    }
    let forgetting = (0..4).map(|_| forget(&pool, day(7)));
    let done = futures::future::join_all(forgetting).await;
    let mut runs: i64 = done.iter().map(|(runs, _)| runs).sum();
    let mut dropped: u32 = done.iter().map(|(_, dropped)| dropped).sum();
    // A transaction that was given up holds its lock until its connection is used again.
    let rest = async {
        while journals(&pool).await != NOTHING {
            let more = forget(&pool, day(7)).await;
            (runs, dropped) = (runs + more.0, dropped + more.1);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), rest).await.unwrap();
    assert_eq!((runs, dropped), (9, 1));
}

#[sqlx::test(migrations = "./migrations")]
async fn a_journal_in_use_is_not_waited_for_and_its_week_is_dropped_later(pool: PgPool) {
    prepared(&pool, 1).await;
    let old = made(&pool, day(1), 1).await;
    ended(&pool, &old, day(2)).await;
    let mut reader = pool.begin().await.unwrap();
    sqlx::query("select from journal").fetch_all(&mut *reader).await.unwrap();
    assert_eq!(forget(&pool, day(7)).await, (1, 0));
    assert!(!store::prepare_partitions(&pool, day(8), WEEK).await.unwrap());
    reader.commit().await.unwrap();
    assert_eq!(forget(&pool, day(7)).await, (0, 1));
    assert!(store::prepare_partitions(&pool, day(8), WEEK).await.unwrap());
}

/// A change that carries this output.
async fn stored(pool: &PgPool, row: &Execution, body: &[u8], at: DateTime<Utc>) -> String {
    let digest = sha256_hex(body);
    let artifact = Artifact { digest: &digest, body, created_at: at };
    store::keep(pool, row.run_id, artifact).await.unwrap();
    let commit = commit(remark(row, "said much"));
    assert_eq!(committer(pool).commit(commit).await.unwrap(), Outcome::Applied);
    digest
}

async fn artifacts(pool: &PgPool) -> Vec<String> {
    sqlx::query_scalar("select digest from artifact order by stored_at")
        .fetch_all(pool)
        .await
        .unwrap()
}

#[sqlx::test(migrations = "./migrations")]
async fn an_output_is_kept_for_as_long_as_a_run_that_said_it(pool: PgPool) {
    prepared(&pool, 2).await;
    let (old, young) = (made(&pool, day(1), 1).await, made(&pool, day(8), 2).await);
    let dedicated = stored(&pool, &old, b"dedicated", day(1)).await;
    let shared = stored(&pool, &old_now(&pool, &old).await, b"shared", day(2)).await;
    assert_eq!(stored(&pool, &young, b"shared", day(8)).await, shared);
    ended(&pool, &old_now(&pool, &old).await, day(3)).await;
    assert_eq!(artifacts(&pool).await, [dedicated, shared.clone()]);

    assert_eq!(forget(&pool, day(7)).await, (1, 1));
    assert_eq!(artifacts(&pool).await, [shared]);
    ended(&pool, &old_now(&pool, &young).await, day(9)).await;
    assert_eq!(forget(&pool, day(30)).await, (1, 2));
    assert_eq!(artifacts(&pool).await, [""; 0]);
}

async fn old_now(pool: &PgPool, row: &Execution) -> Execution {
    find(pool, row.run_id).await.execution
}

/// The newer run stores the content after the older one's end was seen and before its content is
/// dropped.
#[sqlx::test(migrations = "./migrations")]
async fn an_output_said_again_while_it_is_being_forgotten_survives(pool: PgPool) {
    let (old, young) = (made(&pool, day(1), 1).await, made(&pool, day(8), 2).await);
    let digest = stored(&pool, &old, b"shared", day(1)).await;
    ended(&pool, &old_now(&pool, &old).await, day(2)).await;

    let mut saying = pool.begin().await.unwrap();
    sqlx::query(include_str!("../../src/store/sql/store_artifact.sql"))
        .bind(&digest)
        .bind(6_i64)
        .bind(b"shared".as_slice())
        .bind(day(8))
        .bind(young.run_id)
        .execute(&mut *saying)
        .await
        .unwrap();
    let forgetting = tokio::spawn({
        let pool = pool.clone();
        async move { forget(&pool, day(7)).await }
    });
    crate::support::until(|| async {
        sqlx::query_scalar("select exists (select from pg_locks where not granted)")
            .fetch_one(&pool)
            .await
            .unwrap()
    })
    .await;
    saying.commit().await.unwrap();
    assert_eq!(forgetting.await.unwrap().0, 1);
    assert_eq!(artifacts(&pool).await, [digest]);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_large_output_takes_a_fraction_of_its_length(pool: PgPool) {
    let row = made(&pool, day(1), 1).await;
    let mut log = String::new();
    for line in 0.. {
        if log.len() >= 1 << 20 {
            break;
        }
        writeln!(log, "test result {line}: ok. {} passed; 0 failed", line * 7919 % 1000).unwrap();
    }
    let digest = stored(&pool, &row, log.as_bytes(), day(1)).await;
    let taken: i64 =
        sqlx::query_scalar("select pg_column_size(body)::bigint from artifact where digest = $1")
            .bind(digest)
            .fetch_one(&pool)
            .await
            .unwrap();
    assert!(taken < 200 * 1024, "{taken} bytes");
}

#[sqlx::test(migrations = "./migrations")]
async fn a_statement_on_one_run_looks_at_one_partition(pool: PgPool) {
    prepared(&pool, 8).await;
    let row = made(&pool, day(1), 1).await;
    let mut connection = pool.acquire().await.unwrap();
    for statement in [
        "set plan_cache_mode = force_generic_plan".to_owned(),
        "prepare find(uuid) as select from journal where run_id = $1".to_owned(),
    ] {
        sqlx::query(AssertSqlSafe(statement)).execute(&mut *connection).await.unwrap();
    }
    let plan: Vec<String> = sqlx::query_scalar(AssertSqlSafe(format!(
        "explain (costs off) execute find('{}')",
        row.run_id
    )))
    .fetch_all(&mut *connection)
    .await
    .unwrap();
    let plan = plan.join("\n");
    assert!(plan.contains("Subplans Removed: 9"), "{plan}");
}

#[sqlx::test(migrations = "./migrations")]
async fn what_is_forgotten_leaves_the_claims_of_others_alone(pool: PgPool) {
    let row = made(&pool, day(1), 1).await;
    let lease = change(&row, |draft| {
        draft.lease(Uuid::from_u128(9));
        draft.lease_steps(&graph(1), 1).map(drop)
    });
    let held = applied(&pool, lease).await;
    assert_eq!(forget(&pool, day(400)).await, (0, 0));
    assert_eq!(find(&pool, row.run_id).await.execution, held);
}
