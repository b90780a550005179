//! A database that stops answering, on connections that are not closed.

use crate::support::{
    Proxy, actor, creator, dedicated, make, now, order, plan, remark, spec, until,
};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, Postgres, Transaction};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use surety_common::domain::execution::Execution;
use surety_common::domain::journal::{Actor, Output};
use surety_common::store::{
    self, DedicatedConnection, EvidenceBundles, Journals, Owner, Queues, RunFilter, StoreError,
    StoredPlan, WaitFilter, Want,
};
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Six times what an answer may take.
const FOR_EVER: Duration = Duration::from_secs(60);

const UNKNOWN: [Owner; 1] = [Owner { id: Uuid::nil(), heartbeat_at: None }];

type Question<'a> = (&'static str, BoxFuture<'a, Result<(), StoreError>>);

/// Queries by the names of their functions; their answers are dropped.
macro_rules! questions {
    ($($call:ident($($argument:expr),*);)*) => {
        vec![$((stringify!($call), store::$call($($argument),*).map(|it| it.map(drop)).boxed()),)*]
    };
}

fn reads<'a>(
    pool: &'a PgPool,
    [unknown, known, beating, registering]: &'a mut [(DedicatedConnection, Queues); 4],
    want: Want<'a>,
    (filter, waits): (&'a RunFilter, &'a WaitFilter),
    (output, by): (&'a Output, &'a Actor),
) -> Vec<Question<'a>> {
    let id = Uuid::from_u128(1);
    questions! {
        ping(pool);
        find_run(pool, id);
        list_runs(pool, filter);
        find_wait(pool, id);
        due(pool, now(), 1, &[]);
        unblocked_runs(pool, 1, &[]);
        delete_ended_locks(pool, id);
        list_waits(pool, waits);
        find_plan(pool, id, 1);
        events(pool, id, 1, 1);
        receipts(pool, id);
        latest_work(pool, id, 1);
        verdict(pool, id, 1);
        verdict_about(pool, id, 1, by);
        output_text(pool, output);
        backlog(pool);
        find_queues(&mut unknown.0, &mut unknown.1, Uuid::from_u128(9), now());
        claim(&mut known.0, &mut known.1, want);
        orphans(pool, Uuid::nil(), &UNKNOWN, 1, &[]);
        let_go(pool, id, &[], now());
        forgotten(pool, id, &[]);
        left_over(pool, id);
        beat(&mut beating.0, id, now(), &[]);
        register(&mut registering.0, id, ("executor", "h"), 1, now());
        retire(pool, id, now());
    }
}

fn writes<'a>(pool: &'a PgPool, row: &Execution) -> Vec<Question<'a>> {
    let new = Arc::new(order(spec(2), 1, now()));
    let made = async move { creator(pool).create(new, None).await.map(drop) };
    let id = row.run_id;
    let case =
        async move { EvidenceBundles::start(pool.clone()).find(id, |_| true).await.map(drop) };
    let page = async move { Journals::start(pool.clone()).page(id, 1, 1).await.map(drop) };
    let write = remark(row, "a second revision");
    let stored = StoredPlan {
        revision: 2,
        digest: plan(1).digest(),
        parent_digest: String::new(),
        reason: String::new(),
        body: plan(1).to_json().to_compact(),
        created_at: now(),
    };
    let revised = async move {
        let (plan, write) = (Some(&stored), Some(&write));
        let change = store::AnsweredChange { plan, write, ..Default::default() };
        store::apply_answered(pool, change).await.map(drop)
    };
    vec![
        ("create", made.boxed()),
        ("submit_plan", revised.boxed()),
        ("case", case.boxed()),
        ("page", page.boxed()),
    ]
}

/// Without a time limit each would wait until the kernel closes the connection, after a quarter of
/// an hour, and occupy the pool for as long.
#[sqlx::test(migrations = "./migrations")]
async fn no_call_waits_for_ever_for_a_database_that_stopped_answering(
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
    // Every caller has a connection that worked a moment ago.
    let open: Vec<_> = join_all((0..30).map(|_| through.acquire())).await;
    open.into_iter().for_each(|connection| drop(connection.unwrap()));
    until(|| async { through.num_idle() == 30 }).await;
    let mut looking = [(); 4].map(|()| (dedicated(&through), Queues::default()));
    let held = HashMap::new();
    let [_, (dedicated, known), _, _] = &mut looking;
    assert!(store::find_queues(dedicated, known, Uuid::from_u128(9), now()).await.unwrap());
    proxy.mute();
    let want = Want { now: now(), owner: Uuid::from_u128(9), slots: 1, held: &held, except: &[] };
    let filter = RunFilter { limit: 1, ..RunFilter::default() };
    let waits = WaitFilter { limit: 1, ..WaitFilter::default() };
    let output = Output { call_id: String::new(), digest: "ab".repeat(32), bytes: 0, text: None };
    let by = actor();
    let mut questions = reads(&through, &mut looking, want, (&filter, &waits), (&output, &by));
    questions.extend(writes(&through, &row));
    let asked = questions.into_iter().map(|(name, answer)| async move {
        let answer = tokio::time::timeout(FOR_EVER, answer).await;
        let Ok(answer) = answer else { panic!("{name} waits for ever") };
        assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{name}: {answer:?}");
    });
    join_all(asked).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn a_heartbeat_gives_a_hung_line_up_in_its_own_time_and_takes_another_past_all_callers(
    pool: PgPoolOptions,
    options: PgConnectOptions,
) {
    let direct = pool.connect_with(options.clone()).await.unwrap();
    let id = Uuid::from_u128(1);
    let proxy = Proxy::new();
    proxy.listen(&options);
    let through = PgPoolOptions::new()
        .max_connections(1)
        .connect_with(proxy.options(&options))
        .await
        .unwrap();
    let _only_place = through.acquire().await.unwrap();
    let mut dedicated = DedicatedConnection::bounded(through.clone(), Duration::from_secs(2));
    store::register(&mut dedicated, id, ("executor", "h"), 1, now()).await.unwrap();
    proxy.mute();
    let asked = Instant::now();
    let hung = store::beat(&mut dedicated, id, now(), &[]).await;
    assert!(matches!(hung, Err(StoreError::Unavailable { .. })), "{hung:?}");
    // Other callers wait for ten seconds.
    assert!(asked.elapsed() < Duration::from_secs(8), "it took {:?}", asked.elapsed());
    proxy.cut();
    let heard = store::beat(&mut dedicated, id, now(), &[]).await.unwrap();
    assert!(heard.is_some(), "the pool's only place is taken");
    direct.close().await;
}

/// Whether a session waits for a lock.
async fn is_lock_awaited(pool: &PgPool) -> bool {
    let asked = "select exists (select from pg_stat_activity
                 where datname = current_database() and wait_event_type = 'Lock')";
    sqlx::query_scalar(asked).fetch_one(pool).await.unwrap()
}

/// A migration over a proxy, which waits until the test lets it continue.
struct Held {
    proxy: Proxy,
    direct: PgPool,
    holding: Transaction<'static, Postgres>,
    migrating: JoinHandle<Result<(), StoreError>>,
}

impl Held {
    async fn start(pool: PgPoolOptions, options: &PgConnectOptions) -> Self {
        let direct = pool.connect_with(options.clone()).await.unwrap();
        let mut holding = direct.begin().await.unwrap();
        // It makes a table of this name, and has to know first whether there is one.
        sqlx::query("create table run ()").execute(&mut *holding).await.unwrap();
        let proxy = Proxy::new();
        proxy.listen(options);
        let through = PgPoolOptions::new().connect_lazy_with(proxy.options(options));
        let migrating = tokio::spawn(async move { store::migrate(&through).await });
        until(|| is_lock_awaited(&direct)).await;
        Self { proxy, direct, holding, migrating }
    }
}

#[sqlx::test(migrations = false)]
async fn a_migration_is_given_up_when_its_line_falls_silent_and_can_be_made_again(
    pool: PgPoolOptions,
    options: PgConnectOptions,
) {
    let Held { proxy, direct, holding, migrating } = Held::start(pool, &options).await;
    proxy.mute();
    let given_up = tokio::time::timeout(FOR_EVER, migrating).await;
    let given_up = given_up.expect("it waits for ever").unwrap();
    assert!(matches!(given_up, Err(StoreError::Unavailable { .. })), "{given_up:?}");
    holding.rollback().await.unwrap();
    store::migrate(&direct).await.unwrap();
}

#[sqlx::test(migrations = false)]
async fn a_migration_whose_line_is_cut_says_that_the_database_is_away(
    pool: PgPoolOptions,
    options: PgConnectOptions,
) {
    let Held { proxy, direct: _direct, holding, migrating } = Held::start(pool, &options).await;
    proxy.cut();
    let cut = migrating.await.unwrap();
    assert!(matches!(cut, Err(StoreError::Unavailable { .. })), "{cut:?}");
    holding.rollback().await.unwrap();
}

#[sqlx::test(migrations = false)]
async fn a_migration_may_take_longer_than_any_silence(
    pool: PgPoolOptions,
    options: PgConnectOptions,
) {
    let Held { proxy, direct: _direct, holding, migrating } = Held::start(pool, &options).await;
    // These checks take longer than the session may be inactive.
    until(|| async { migrating.is_finished() || proxy.taken() > 12 }).await;
    assert!(!migrating.is_finished(), "an honest migration was given up");
    holding.rollback().await.unwrap();
    migrating.await.unwrap().unwrap();
}

#[sqlx::test(migrations = false)]
async fn a_connection_that_a_call_still_uses_does_not_hold_the_end_up(pool: PgPool) {
    let used = pool.acquire().await.unwrap();
    let closing = tokio::time::timeout(FOR_EVER, store::close(&pool));
    closing.await.expect("an end without the connection");
    assert!(pool.is_closed());
    drop(used);
}
