//! Wake-ups from one process to another.

use crate::support::{commit, committer, creator, find, make, now, order, remark, spec, until};
use futures::future::join_all;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use std::sync::Arc;
use surety_common::domain::execution::Execution;
use surety_common::store::{Commit, Listener, Outcome, Topic, Waker, Wakeups, WritePipeline};
use tokio::sync::broadcast::Receiver;
use uuid::Uuid;

/// Work and journals.
const CHANNELS: [&str; 2] = ["surety_work", "surety_journals"];

/// The next topic other than [`Topic::Everything`].
async fn next(topics: &mut Receiver<Topic>) -> Topic {
    loop {
        match topics.recv().await.unwrap() {
            Topic::Everything => {}
            topic @ (Topic::Ready | Topic::Run(_) | Topic::Moved(_) | Topic::Waits(_)) => {
                return topic;
            }
        }
    }
}

/// The next notification: its channel and its text.
async fn hear(listener: &mut PgListener) -> (String, String) {
    let notice = listener.recv().await.unwrap();
    (notice.channel().to_owned(), notice.payload().to_owned())
}

/// A listener that is connected, which [`Topic::Everything`] shows.
async fn listening(pool: &PgPool) -> Receiver<Topic> {
    let mut topics = Wakeups::start(pool.clone(), Listener::Follower).subscribe();
    assert_eq!(topics.recv().await.unwrap(), Topic::Everything, "what came before it is unknown");
    topics
}

#[sqlx::test(migrations = false)]
async fn a_wake_up_reaches_another_process_as_it_was_sent(
    pool: PgPoolOptions,
    options: PgConnectOptions,
) {
    let here = pool.connect_with(options.clone()).await.unwrap();
    let there = PgPoolOptions::new().connect_with(options).await.unwrap();
    let mut topics = listening(&there).await;
    let waker = Waker::start(here);
    for topic in [
        Topic::Ready,
        Topic::Run(Uuid::from_u128(7)),
        Topic::Moved(Uuid::from_u128(7)),
        Topic::Moved(Uuid::from_u128(8)),
    ] {
        waker.wake(topic);
        assert_eq!(next(&mut topics).await, topic);
    }
}

#[sqlx::test(migrations = false)]
async fn what_is_told_many_times_at_once_is_sent_once(pool: PgPool) {
    let mut listener = PgListener::connect_with(&pool).await.unwrap();
    listener.listen_all(CHANNELS).await.unwrap();
    let waker = Waker::start(pool.clone());
    let other = waker.clone();
    for _ in 0..100 {
        waker.wake(Topic::Ready);
        other.wake(Topic::Run(Uuid::from_u128(7)));
    }
    let seven = Topic::Run(Uuid::from_u128(7)).to_string();
    let [work, journals] = CHANNELS;
    assert_eq!(hear(&mut listener).await, (work.to_owned(), "ready".to_owned()));
    assert_eq!(hear(&mut listener).await, (journals.to_owned(), seven));
    waker.wake(Topic::Everything);
    for channel in CHANNELS {
        let heard = hear(&mut listener).await;
        assert_eq!(heard, (channel.to_owned(), "*".to_owned()), "and nothing between");
    }
}

/// Each statement has its own notification, so that earlier ones must have arrived before it.
#[sqlx::test(migrations = "./migrations")]
async fn a_change_wakes_each_idle_process_once_it_is_stored(pool: PgPool) {
    let rows = [make(&pool, 1, 1).await, make(&pool, 2, 1).await];
    let committer = committer(&pool);
    let mut listener = PgListener::connect_with(&pool).await.unwrap();
    listener.listen_all(CHANNELS).await.unwrap();
    let notifying =
        |row: &Execution, topic| committer.commit(commit(remark(row, "")).notify_on_commit(topic));
    let (first, late) = (Uuid::from_u128(1), Uuid::from_u128(9));
    assert_eq!(notifying(&rows[0], Topic::Moved(first)).await.unwrap(), Outcome::Applied);
    assert_eq!(notifying(&rows[0], Topic::Moved(late)).await.unwrap(), Outcome::Lost);
    let row = find(&pool, first).await.execution;
    // Changes in one statement are announced by the waker.
    let batcher = [notifying(&row, Topic::Run(first)), notifying(&rows[1], Topic::Ready)];
    assert!(join_all(batcher).await.iter().all(Result::is_ok));
    assert_eq!(listener.recv().await.unwrap().payload(), Topic::Moved(first).to_string());
    let mut words = Vec::new();
    while words.len() < 2 {
        let heard = listener.recv().await.unwrap();
        words.extend(heard.payload().split(',').map(str::to_owned));
    }
    words.sort_unstable();
    assert_eq!(words, [Topic::Run(first).to_string(), Topic::Ready.to_string()]);
}

#[sqlx::test(migrations = "./migrations")]
async fn of_changes_that_are_stored_as_one_row_each_wakes_its_own(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let committer = committer(&pool);
    let mut listener = PgListener::connect_with(&pool).await.unwrap();
    listener.listen_all(CHANNELS).await.unwrap();
    let first = remark(&row, "first");
    let second = remark(&first.execution, "second");
    let notified = [Topic::Moved(row.run_id), Topic::Ready];
    let pipeline = WritePipeline::default();
    let [first, second] = [(first, notified[0]), (second, notified[1])].map(|(write, topic)| {
        Commit { pipeline: pipeline.clone(), ..commit(write) }.notify_on_commit(topic)
    });
    drop(committer.hand_in(first).await.unwrap());
    let outcome = committer.commit(second).await.unwrap();
    assert_eq!(outcome, Outcome::Applied);
    let heard = listener.recv().await.unwrap();
    assert_eq!(heard.payload(), notified.map(|topic| topic.to_string()).join(","));
}

#[sqlx::test(migrations = "./migrations")]
async fn an_executor_that_can_take_a_new_run_is_notified_of_it_and_of_no_other(pool: PgPool) {
    let mut listener = PgListener::connect_with(&pool).await.unwrap();
    listener.listen_all(CHANNELS).await.unwrap();
    let creator = creator(&pool);
    let ready = order(spec(1), 1, now());
    let mut waiting = order(spec(2), 1, now());
    waiting.write.execution = {
        let mut row = Execution::clone(&waiting.write.execution);
        row.ready_at = None;
        row.into()
    };
    creator.create(Arc::new(waiting), None).await.unwrap();
    creator.create(Arc::new(ready), None).await.unwrap();
    sqlx::query("select pg_notify('surety_work', 'mark')").execute(&pool).await.unwrap();
    assert_eq!(listener.recv().await.unwrap().payload(), "ready");
    assert_eq!(listener.recv().await.unwrap().payload(), "mark");
}

#[sqlx::test(migrations = false)]
async fn a_busy_executor_is_not_woken_for_journals_that_grow(pool: PgPool) {
    let mut topics = Wakeups::start(pool.clone(), Listener::Worker).subscribe();
    assert_eq!(topics.recv().await.unwrap(), Topic::Everything);
    let waker = Waker::start(pool);
    waker.wake(Topic::Run(Uuid::from_u128(7)));
    waker.flush().await;
    waker.wake(Topic::Moved(Uuid::from_u128(8)));
    assert_eq!(topics.recv().await.unwrap(), Topic::Moved(Uuid::from_u128(8)));
}

#[sqlx::test(migrations = false)]
async fn too_many_to_name_are_told_as_everything(pool: PgPool) {
    let mut listener = PgListener::connect_with(&pool).await.unwrap();
    listener.listen_all(CHANNELS).await.unwrap();
    let waker = Waker::start(pool.clone());
    for (count, named) in [(200_u128, true), (201, false)] {
        (0..count).for_each(|id| waker.wake(Topic::Moved(Uuid::from_u128(id))));
        let heard = listener.recv().await.unwrap();
        assert_eq!(heard.payload() != "*", named, "{count} runs");
        assert_eq!(heard.payload().split(',').count(), if named { 200 } else { 1 });
    }
}

#[sqlx::test(migrations = false)]
async fn the_last_wake_up_is_sent_though_its_waker_is_gone(pool: PgPool) {
    let mut topics = listening(&pool).await;
    let waker = Waker::start(pool.clone());
    waker.wake(Topic::Ready);
    drop(waker);
    assert_eq!(next(&mut topics).await, Topic::Ready);
}

#[sqlx::test(migrations = false)]
async fn a_listener_that_lost_its_connection_says_to_look_at_everything_and_hears_again(
    pool: PgPoolOptions,
    options: PgConnectOptions,
) {
    let here = pool.connect_with(options.clone()).await.unwrap();
    let there =
        PgPoolOptions::new().connect_with(options.application_name("listener")).await.unwrap();
    let mut topics = listening(&there).await;
    sqlx::query(
        "select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and application_name = 'listener'",
    )
    .execute(&here)
    .await
    .unwrap();
    assert_eq!(topics.recv().await.unwrap(), Topic::Everything);
    // It reports missed notifications before it is connected again, so this one is sent until it
    // arrives.
    let waker = Waker::start(here);
    until(|| {
        waker.wake(Topic::Ready);
        let heard =
            std::iter::from_fn(|| topics.try_recv().ok()).any(|topic| topic == Topic::Ready);
        async move {
            tokio::task::yield_now().await;
            heard
        }
    })
    .await;
}
