//! The single writer: order, lost races, invalid changes, lost connections.

use crate::support::{
    Proxy, actor, applied, apply, change, commit, committer, find, graph, later, make, now, remark,
    remarks, said, until,
};
use futures::future::join_all;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection, PgPool};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use surety_common::domain::execution::Execution;
use surety_common::domain::execution::draft::{Draft, Write};
use surety_common::domain::journal::Output;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::machine::run::RunState;
use surety_common::store::{
    self, Artifact, Commit, Outcome, OutputParts, Owner, PoolSize, Signing, StoreError,
    WritePipeline,
};
use tokio::sync::Notify;
use uuid::Uuid;

#[sqlx::test(migrations = "./migrations")]
async fn a_change_is_applied_once_and_a_late_one_is_lost(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let first = remark(&row, "first");
    let second = remark(&row, "second");
    let next = first.execution.clone();
    assert_eq!(apply(&pool, first).await.unwrap(), Outcome::Applied);
    assert_eq!(apply(&pool, second).await.unwrap(), Outcome::Lost);
    let found = find(&pool, row.run_id).await.execution;
    assert_eq!(found, *next);
    assert_eq!(remarks(&pool, row.run_id).await, ["first"]);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_change_under_an_earlier_lease_is_lost(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let mut late = remark(&row, "late");
    let leased = applied(
        &pool,
        change(&row, |draft| {
            draft.lease(Uuid::from_u128(9));
            Ok(())
        }),
    )
    .await;
    // Even with the current version: the lease epoch is a separate fence.
    late.fence.version = leased.version;
    assert_eq!(apply(&pool, late).await.unwrap(), Outcome::Lost);
    assert_eq!(find(&pool, row.run_id).await.execution, leased);
}

#[sqlx::test(migrations = "./migrations")]
async fn of_many_changes_in_one_statement_each_has_its_own_outcome(pool: PgPool) {
    for id in 1..=6 {
        let row = make(&pool, id, 1).await;
        let leased = change(&row, |draft| {
            draft.lease(Uuid::from_u128(9));
            Ok(())
        });
        applied(&pool, leased).await;
    }
    let gone = [Owner { id: Uuid::from_u128(9), heartbeat_at: None }];
    let claimed = store::orphans(&pool, Uuid::nil(), &gone, 10, &[]).await.unwrap();
    let commits: Vec<Commit> = claimed
        .runs
        .iter()
        .enumerate()
        .map(|(place, record)| {
            let mut write = remark(&record.execution, "told");
            write.fence.version += i64::from(place % 3 == 0);
            commit(write)
        })
        .collect();
    let ids: Vec<Uuid> = claimed.runs.iter().map(|record| record.spec.id).collect();
    let outcomes = claimed.commit(&commits, &Signing::default()).await.unwrap();
    for (place, (id, outcome)) in ids.into_iter().zip(outcomes).enumerate() {
        let lost = place % 3 == 0;
        assert_eq!(outcome, if lost { Outcome::Lost } else { Outcome::Applied });
        assert_eq!(remarks(&pool, id).await.len(), usize::from(!lost));
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn two_changes_of_one_run_queued_at_once_are_applied_in_order(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let first = remark(&row, "first");
    let second = remark(&first.execution, "second");
    let third = remark(&second.execution, "third");
    let committer = committer(&pool);
    let queued = [first, second, third].map(|write| committer.commit(commit(write)));
    for outcome in join_all(queued).await {
        assert_eq!(outcome.unwrap(), Outcome::Applied);
    }
    assert_eq!(remarks(&pool, row.run_id).await, ["first", "second", "third"]);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_server_without_a_further_connection_does_not_stop_what_is_written(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let role = format!("limited_{}", Uuid::now_v7().simple());
    let statements = format!(
        "create role {role} login password '{role}' connection limit 1;
         grant all on all tables in schema public to {role};
         grant all on all sequences in schema public to {role};"
    );
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(&pool).await.unwrap();
    let options = PgConnectOptions::clone(&pool.connect_options()).username(&role).password(&role);
    let limited = PgPoolOptions::new().max_connections(4).connect_with(options).await.unwrap();
    let committer = committer(&limited);
    for said in ["first", "second"] {
        let row = find(&pool, row.run_id).await.execution;
        let outcome = committer.commit(commit(remark(&row, said))).await.unwrap();
        assert_eq!(outcome, Outcome::Applied);
    }
    assert_eq!(remarks(&pool, row.run_id).await, ["first", "second"]);
    limited.close().await;
    let statements = format!("drop owned by {role}; drop role {role};");
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(&pool).await.unwrap();
}

/// The server has connections for other processes again, and this one keeps the connection that it has.
#[sqlx::test(migrations = "./migrations")]
async fn a_pool_gives_up_what_it_does_not_use(pool: PgPool) {
    let size = PoolSize { connections: 4, acquire_timeout: Duration::from_secs(30) };
    let url = pool.connect_options().to_url_lossy();
    let opened = store::connect(url.as_str(), size).await.unwrap();
    let mut taken = Vec::new();
    let mut processes = Vec::new();
    for _ in 0..4 {
        let mut connection = opened.acquire().await.unwrap();
        processes.push(process_of(&mut connection).await);
        taken.push(connection);
    }
    drop(taken);
    until(async || opened.size() == 1).await;
    let left = process_of(&mut opened.acquire().await.unwrap()).await;
    assert!(processes.contains(&left), "it opened {left} after it closed all of {processes:?}");
    opened.close().await;
}

/// The server's process for a connection.
async fn process_of(connection: &mut PgConnection) -> i32 {
    sqlx::query_scalar("select pg_backend_pid()").fetch_one(connection).await.unwrap()
}

#[sqlx::test(migrations = "./migrations")]
async fn changes_that_build_on_each_other_are_one_row_and_keep_their_own_times(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let before = rows(&pool).await;
    let first = remark(&row, "first");
    let mut draft = Draft::new(Execution::clone(&first.execution), actor(), later(5));
    draft.journal(said("second"));
    let second = draft.into_write();
    let silent = change(&second.execution, |_| Ok(()));
    let last = Execution::clone(&silent.execution);
    let (committer, pipeline) = (committer(&pool), WritePipeline::default());
    let queued = [(first, "a"), (second, "b"), (silent, "c")].map(|(write, span)| {
        let (pipeline, span_id) = (pipeline.clone(), Some(span.to_owned()));
        committer.commit(Commit { pipeline, span_id, ..commit(write) })
    });
    for outcome in join_all(queued).await {
        assert_eq!(outcome.unwrap(), Outcome::Applied);
    }
    assert_eq!(rows(&pool).await, before + 1);
    assert_eq!(find(&pool, row.run_id).await.execution, last);
    let notified = store::events(&pool, row.run_id, row.sequence + 1, 9).await.unwrap();
    let notified: Vec<_> =
        notified.iter().map(|event| (event.at, event.span_id.as_deref())).collect();
    assert_eq!(notified, [(later(1), Some("a")), (later(5), Some("b"))]);
}

#[sqlx::test(migrations = "./migrations")]
async fn when_the_first_of_a_chain_is_lost_all_of_it_is(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let first = remark(&row, "first");
    let second = remark(&first.execution, "second");
    applied(&pool, remark(&row, "another writer")).await;
    let (committer, pipeline) = (committer(&pool), WritePipeline::default());
    let queued = [first, second]
        .map(|write| committer.commit(Commit { pipeline: pipeline.clone(), ..commit(write) }));
    for outcome in join_all(queued).await {
        assert_eq!(outcome.unwrap(), Outcome::Lost);
    }
    assert_eq!(remarks(&pool, row.run_id).await, ["another writer"]);
}

/// As the results of two workers of one identity, one decided from a row that was read before another process wrote it
/// and the other from the row after.
#[sqlx::test(migrations = "./migrations")]
async fn a_change_that_is_decided_from_the_row_is_not_lost_with_one_that_is_late(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let read = applied(&pool, remark(&row, "another writer")).await;
    let committer = committer(&pool);
    let queued = [remark(&row, "late"), remark(&read, "in time")]
        .map(|write| committer.commit(commit(write)));
    let outcomes: Vec<_> = join_all(queued).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes, [Outcome::Lost, Outcome::Applied]);
    assert_eq!(remarks(&pool, row.run_id).await, ["another writer", "in time"]);
}

/// The version counts changes and does not name their writer: a change derived from a lost one must
/// not fit a row that another writer moved by the same number.
#[sqlx::test(migrations = "./migrations")]
async fn what_was_thought_out_over_a_lost_change_is_lost_though_its_version_fits(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let first = remark(&row, "first");
    let second = remark(&first.execution, "second");
    let third = remark(&second.execution, "third");
    let cancelled = change(&row, |draft| draft.cancel(&graph(1), "enough".to_owned()));
    let committer = committer(&pool);
    let pipeline = WritePipeline::default();
    let on_the_line = |write| Commit { pipeline: pipeline.clone(), ..commit(write) };
    let mut lock = pool.begin().await.unwrap();
    sqlx::query("select from execution for update").execute(&mut *lock).await.unwrap();
    let first = committer.hand_in(on_the_line(first)).await.unwrap();
    until(|| waits_for_a_lock(&pool)).await;
    let second = committer.hand_in(on_the_line(second)).await.unwrap();
    move_to(&mut lock, &cancelled).await;
    lock.commit().await.unwrap();
    assert_eq!(first.outcome().await.unwrap(), Outcome::Lost);
    assert_eq!(second.outcome().await.unwrap(), Outcome::Lost);
    let third = committer.commit(on_the_line(third)).await.unwrap();
    assert_eq!(third, Outcome::Lost, "whenever it is handed in");
    let found = find(&pool, row.run_id).await.execution;
    assert_eq!(found.state, RunState::Cancelled);
    // The work continues from the current row.
    let next = committer.commit(commit(remark(&found, "next"))).await.unwrap();
    assert_eq!(next, Outcome::Applied);
}

/// Moves the row as the change would, without a journal.
async fn move_to(connection: &mut PgConnection, write: &Write) {
    let row = &write.execution;
    let statement = "update execution set state = $2, version = $3, step_states = 'c',
                     terminal = $4::json, ready_at = null, deadline_at = null where run_id = $1";
    sqlx::query(statement)
        .bind(row.run_id)
        .bind(row.state.as_str())
        .bind(row.version)
        .bind(r#"{"stop_reason": "cancelled", "stage": "", "user_message": "", "internal_reason": ""}"#)
        .execute(connection)
        .await
        .unwrap();
}

/// The number of rows of the journal.
async fn rows(pool: &PgPool) -> i64 {
    sqlx::query_scalar("select count(*) from journal").fetch_one(pool).await.unwrap()
}

#[sqlx::test(migrations = "./migrations")]
async fn a_bad_change_does_not_take_the_others_with_it(pool: PgPool) {
    let mut writes = Vec::new();
    for id in 1..=5 {
        writes.push(remark(&make(&pool, id, 1).await, "told"));
    }
    Arc::make_mut(&mut writes[2].execution).lease_epoch = -1;
    let committer = committer(&pool);
    let queued = writes.into_iter().map(|write| committer.commit(commit(write)));
    for (place, outcome) in join_all(queued).await.into_iter().enumerate() {
        match (place, outcome) {
            (2, Err(StoreError::Constraint { constraint })) => {
                assert_eq!(constraint, "execution_numbers_grow");
            }
            (2, other) => panic!("{other:?}"),
            (_, outcome) => assert_eq!(outcome.unwrap(), Outcome::Applied),
        }
    }
    assert_eq!(remarks(&pool, Uuid::from_u128(3)).await, [""; 0]);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_change_handed_in_is_written_though_its_caller_does_not_wait(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let committer = committer(&pool);
    drop(committer.hand_in(commit(remark(&row, "told"))).await.unwrap());
    until(|| async { remarks(&pool, row.run_id).await == ["told"] }).await;
    let row = find(&pool, row.run_id).await.execution;
    let mut handed_in = Box::pin(committer.commit(commit(remark(&row, "notified again"))));
    assert!(futures::poll!(&mut handed_in).is_pending());
    drop(handed_in);
    until(|| async { remarks(&pool, row.run_id).await == ["told", "notified again"] }).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn an_output_is_stored_once_and_read_back_whole(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let body = "Größe 🚀".repeat(10_000).into_bytes();
    let digest = sha256_hex(&body);
    let artifact = Artifact { digest: &digest, body: &body, created_at: now() };
    let mut last = row;
    for text in ["first", "second"] {
        store::keep(&pool, last.run_id, artifact).await.unwrap();
        let commit = commit(remark(&last, text));
        last = Execution::clone(&commit.write.execution);
        assert_eq!(committer(&pool).commit(commit).await.unwrap(), Outcome::Applied);
    }
    let stored: i64 =
        sqlx::query_scalar("select count(*) from artifact").fetch_one(&pool).await.unwrap();
    assert_eq!(stored, 1);
    let output = Output { call_id: String::new(), digest, bytes: 0, text: None };
    let text = store::output_text(&pool, &output).await.unwrap();
    assert_eq!(text, Some(String::from_utf8(body).unwrap()));
    let inline = Output { text: Some("here".to_owned()), ..output.clone() };
    assert_eq!(store::output_text(&pool, &inline).await.unwrap().as_deref(), Some("here"));
    let unknown = Output { digest: "cd".repeat(32), ..output };
    assert_eq!(store::output_text(&pool, &unknown).await.unwrap(), None);
}

/// A receipt names an output by its digest, and the output may be all that a person looks at.
#[sqlx::test(migrations = "./migrations")]
async fn an_output_that_was_rewritten_is_given_to_no_reader(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let body = b"two tests failed".repeat(9);
    let digest = sha256_hex(&body);
    let artifact = Artifact { digest: &digest, body: &body, created_at: now() };
    store::keep(&pool, row.run_id, artifact).await.unwrap();
    let bytes = u64::try_from(body.len()).unwrap();
    let output = Output { call_id: String::new(), digest: digest.clone(), bytes, text: None };
    let parts = async |offset, length| {
        let mut parts = OutputParts::new(pool.clone(), output.clone(), offset, length);
        let mut read = Vec::new();
        while let Some(part) = parts.next(7).await? {
            read.extend(part.data);
        }
        Ok::<_, StoreError>(read)
    };
    assert_eq!(parts(0, 0).await.unwrap(), body);
    assert_eq!(parts(4, 12).await.unwrap(), b"tests failed");
    let rewrite = "update artifact set body = convert_to(replace(convert_from(body, 'utf8'), 'failed', 'passed'), 'utf8')";
    sqlx::query(rewrite).execute(&pool).await.unwrap();
    let refused = [
        parts(0, 0).await.map(drop),
        parts(4, 3).await.map(drop),
        store::output_text(&pool, &output).await.map(drop),
        store::artifact_body(&pool, &digest).await.map(drop),
    ];
    for refused in refused {
        let error = refused.expect_err("it was rewritten").to_string();
        assert!(error.contains("its body has another digest"), "{error}");
    }
}

/// Postgres does not report a commit whose connection died: the change may be stored.
#[sqlx::test(migrations = "./migrations")]
async fn a_change_whose_answer_was_lost_is_known_to_be_applied(
    pool: PgPoolOptions,
    options: PgConnectOptions,
) {
    let direct = pool.connect_with(options.clone()).await.unwrap();
    let notified = make(&direct, 1, 1).await;
    let silent = make(&direct, 2, 1).await;
    let notified = remark(&notified, "told");
    let silent = change(&silent, |draft| {
        draft.set_observed(true);
        Ok(())
    });
    for write in [notified, silent] {
        let next = write.execution.clone();
        assert_eq!(lose_the_answer(&direct, &options, write).await.unwrap(), Outcome::Applied);
        assert_eq!(find(&direct, next.run_id).await.execution, *next);
    }
    assert_eq!(remarks(&direct, Uuid::from_u128(1)).await, ["told"]);
}

/// Writes a change over a proxy that is cut after the database wrote it and before the answer.
async fn lose_the_answer(
    direct: &PgPool,
    options: &PgConnectOptions,
    write: Write,
) -> Result<Outcome, StoreError> {
    let proxy = Proxy::new();
    proxy.listen(options);
    let options = proxy.options(options).application_name("muted");
    let through = PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    let committer = committer(&through);
    let (id, version) = (write.execution.run_id, write.execution.version);
    let mut lock = direct.begin().await.unwrap();
    sqlx::query("select from execution for update").execute(&mut *lock).await.unwrap();
    let cut = async {
        until(|| waits_for_a_lock(direct)).await;
        proxy.mute();
        lock.rollback().await.unwrap();
        until(|| async { find(direct, id).await.execution.version == version }).await;
        proxy.cut();
    };
    tokio::join!(committer.commit(commit(write)), cut).0
}

async fn waits_for_a_lock(pool: &PgPool) -> bool {
    sqlx::query_scalar(
        "select exists (select from pg_stat_activity where datname = current_database()
         and wait_event_type = 'Lock')",
    )
    .fetch_one(pool)
    .await
    .unwrap()
}

#[sqlx::test(migrations = "./migrations")]
async fn every_acknowledged_change_is_there_once_though_connections_are_killed(
    pool: PgPoolOptions,
    options: PgConnectOptions,
) {
    const RUNS: u128 = 6;
    const CHANGES: usize = 30;
    let direct = pool.clone().connect_with(options.clone()).await.unwrap();
    let victims = PgPoolOptions::new()
        .max_connections(2)
        .connect_with(options.application_name("victim"))
        .await
        .unwrap();
    let committer = committer(&victims);
    let (acknowledged, bell) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let mut workers = tokio::task::JoinSet::new();
    for id in 1..=RUNS {
        let mut row = make(&direct, id, 1).await;
        let (committer, count, bell) =
            (committer.clone(), Arc::clone(&acknowledged), Arc::clone(&bell));
        workers.spawn(async move {
            for number in 0..CHANGES {
                let write = remark(&row, &number.to_string());
                row = Execution::clone(&write.execution);
                assert_eq!(committer.commit(commit(write)).await.unwrap(), Outcome::Applied);
                count.fetch_add(1, Ordering::Relaxed);
                bell.notify_one();
            }
        });
    }
    let kill = async {
        while acknowledged.load(Ordering::Relaxed) < CHANGES * usize::try_from(RUNS).unwrap() {
            bell.notified().await;
            sqlx::query(
                "select pg_terminate_backend(pid) from pg_stat_activity
                 where datname = current_database() and application_name = 'victim'",
            )
            .execute(&direct)
            .await
            .unwrap();
        }
    };
    let (done, ()) = tokio::join!(workers.join_all(), kill);
    assert_eq!(done.len(), usize::try_from(RUNS).unwrap());
    let expected: Vec<String> = (0..CHANGES).map(|number| number.to_string()).collect();
    for id in 1..=RUNS {
        assert_eq!(remarks(&direct, Uuid::from_u128(id)).await, expected);
    }
}
