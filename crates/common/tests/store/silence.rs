//! A database that says nothing any more, on connections that nobody closed.

use crate::support::{Proxy, make, now, order, plan, remark, spec, until};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::execution::Execution;
use surety_common::domain::journal::Output;
use surety_common::store::{self, Creator, Lanes, RunFilter, StoreError, StoredPlan, Want};
use uuid::Uuid;

/// Six times what an answer may take.
const FOR_EVER: Duration = Duration::from_secs(60);

type Question<'a> = (&'static str, BoxFuture<'a, Result<(), StoreError>>);

/// Questions by the names of their functions; whatever the answer holds is dropped.
macro_rules! questions {
    ($($call:ident($($argument:expr),*);)*) => {
        vec![$((stringify!($call), store::$call($($argument),*).map(|it| it.map(drop)).boxed()),)*]
    };
}

fn reads<'a>(
    pool: &'a PgPool,
    (unknown, known): (&'a mut Lanes, &'a mut Lanes),
    want: Want<'a>,
    filter: &'a RunFilter,
    output: &'a Output,
) -> Vec<Question<'a>> {
    let id = Uuid::from_u128(1);
    questions! {
        look(pool);
        find_run(pool, id);
        list_runs(pool, filter);
        find_wait(pool, id);
        overdue(pool, now(), 1, &[]);
        list_waits(pool, "", None, None, 1);
        find_plan(pool, id, 1);
        events(pool, id, 1, 1);
        find_case(pool, id);
        state(pool, id);
        receipts(pool, id);
        verdict(pool, id, 1);
        output_text(pool, output);
        backlog(pool);
        find_lanes(pool, unknown, now());
        claim(pool, known, want);
        orphans(pool, now(), id, 1, &[]);
        let_go(pool, id, &[], now());
        beat(pool, id, now(), now());
        register(pool, id, "executor", 1, now());
        retire(pool, id, now());
    }
}

fn writes<'a>(pool: &'a PgPool, row: &Execution) -> Vec<Question<'a>> {
    let new = Arc::new(order(spec(2), 1, now()));
    let made = async move { Creator::start(pool.clone()).create(new, None).await.map(drop) };
    let write = remark(row, "a second revision");
    let stored = StoredPlan {
        revision: 2,
        digest: plan(1).digest(),
        parent_digest: String::new(),
        reason: String::new(),
        body: plan(1).to_json().to_compact(),
        created_at: now(),
    };
    let revised = async move { store::submit_plan(pool, &stored, &write, None).await.map(drop) };
    vec![("create", made.boxed()), ("submit_plan", revised.boxed())]
}

/// Without a bound each would wait until the kernel gives the connection up, after a quarter of an
/// hour, and hold its place in the pool for as long.
#[sqlx::test(migrations = "./migrations")]
async fn nobody_waits_for_ever_for_a_database_that_fell_silent(
    pool: PgPoolOptions,
    options: PgConnectOptions,
) {
    let direct = pool.connect_with(options.clone()).await.unwrap();
    let row = make(&direct, 1, 1).await;
    let proxy = Proxy::new();
    proxy.listen(&options);
    let through = PgPoolOptions::new()
        .max_connections(30)
        .test_before_acquire(false)
        .connect_with(proxy.options(&options))
        .await
        .unwrap();
    // Everybody has a connection that worked a moment ago.
    let open: Vec<_> = join_all((0..30).map(|_| through.acquire())).await;
    open.into_iter().for_each(|connection| drop(connection.unwrap()));
    until(|| async { through.num_idle() == 30 }).await;
    let (mut unknown, mut known, held) = (Lanes::default(), Lanes::default(), HashMap::new());
    assert!(store::find_lanes(&through, &mut known, now()).await.unwrap());
    proxy.mute();
    let want = Want { now: now(), owner: Uuid::from_u128(9), slots: 1, held: &held, except: &[] };
    let filter = RunFilter { limit: 1, ..RunFilter::default() };
    let output = Output { call_id: String::new(), digest: "ab".repeat(32), bytes: 0, text: None };
    let mut questions = reads(&through, (&mut unknown, &mut known), want, &filter, &output);
    questions.extend(writes(&through, &row));
    let asked = questions.into_iter().map(|(name, answer)| async move {
        let answer = tokio::time::timeout(FOR_EVER, answer).await;
        let Ok(answer) = answer else { panic!("{name} waits for ever") };
        assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{name}: {answer:?}");
    });
    join_all(asked).await;
}
