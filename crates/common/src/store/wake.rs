//! Wake-ups between processes.
//!
//! A notification takes a lock of the whole database at commit, so hot transactions send none. Each
//! process collects its wake-ups and sends at most one batch per [`PAUSE`] on a dedicated
//! connection. A process with few wake-ups sends urgent ones at once, and a change that is written
//! alone carries its own. Wake-ups are hints: every subscriber also polls.

use super::StoreError;
use super::dedicated_connection::DedicatedConnection;
use super::pool::within;
use sqlx::PgPool;
use sqlx::postgres::PgListener;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

/// The shortest time between two batches of one process.
const PAUSE: Duration = Duration::from_millis(20);
/// The same for an urgent wake-up while the process has few.
const SHORT_PAUSE: Duration = Duration::from_millis(1);
/// The number of wake-ups in a batch from which on a process counts as busy.
const BUSY: usize = 8;
/// How long the listener waits after a lost connection before it connects again.
const RECONNECT: Duration = Duration::from_millis(500);
/// How long the listener receives nothing before it pings the database, because a connection that
/// the network dropped reports no error.
const PING_AFTER: Duration = Duration::from_secs(60);
/// The channel for runs that are ready and for runs that another process changed.
const WORK: &str = "surety_work";
/// The channel for journals that grew, which has far more traffic.
const JOURNALS: &str = "surety_journals";
/// The channel for waits that were opened or ended.
const WAITS: &str = "surety_waits";
/// The most run ids in one notification; above that it is sent as [`EVERYTHING`].
const MAX_IDS: usize = 200;
/// The prefix of a run id in [`Topic::Moved`].
const MOVED: &str = "moved:";
/// The prefix of a run id in [`Topic::Waits`].
const WAITED: &str = "waits:";
/// The word for [`Topic::Everything`].
const EVERYTHING: &str = "*";
/// Wake-ups that a slow subscriber may lag behind before it receives [`Topic::Everything`].
const BACKLOG: usize = 1024;

/// What a subscriber is woken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// A run is ready to be claimed.
    Ready,
    /// This run's journal grew.
    Run(Uuid),
    /// Another process than its executor changed this run: the executor checks whether it still
    /// holds the lease.
    Moved(Uuid),
    /// A wait of this run was opened, or is answered and the answer was carried out.
    Waits(Uuid),
    /// Too many topics to name, or some may have been lost: check everything.
    Everything,
}

/// The word for the topic in a notification.
impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Run(id) => write!(f, "{}", id.simple()),
            Self::Moved(id) => write!(f, "{MOVED}{}", id.simple()),
            Self::Waits(id) => write!(f, "{WAITED}{}", id.simple()),
            Self::Everything => f.write_str(EVERYTHING),
        }
    }
}

impl Topic {
    /// The channels on which it is sent.
    fn channels(&self) -> &'static [&'static str] {
        match self {
            Self::Ready | Self::Moved(_) => &[WORK],
            Self::Run(_) => &[JOURNALS],
            Self::Waits(_) => &[WAITS],
            Self::Everything => &[WORK, JOURNALS, WAITS],
        }
    }

    fn from_word(word: &str) -> Self {
        match word {
            "ready" => Self::Ready,
            word => {
                let (topic, id): (fn(Uuid) -> Self, &str) =
                    match (word.strip_prefix(MOVED), word.strip_prefix(WAITED)) {
                        (Some(id), _) => (Self::Moved, id),
                        (None, Some(id)) => (Self::Waits, id),
                        (None, None) => (Self::Run, word),
                    };
                Uuid::parse_str(id).map_or(Self::Everything, topic)
            }
        }
    }
}

/// Sends wake-ups for one process. Clones share it.
#[derive(Clone)]
pub struct Waker {
    pending: Arc<Mutex<Pending>>,
    /// Holds at most one signal: what is collected until the sender runs is sent together.
    signal: mpsc::Sender<()>,
    /// Locked by the sender from taking the topics until they are sent.
    dedicated: Arc<tokio::sync::Mutex<DedicatedConnection>>,
}

/// Wake-ups that are not sent yet.
#[derive(Default)]
struct Pending {
    topics: HashSet<Topic>,
    /// The number of calls, where repeated topics count again.
    calls: usize,
    /// Whether an idle subscriber waits for one of them.
    urgent: bool,
}

impl Waker {
    /// Starts the sender on a dedicated connection. It ends with the last clone, once it has sent
    /// what was collected.
    pub fn start(pool: PgPool) -> Self {
        let (signal, signals) = mpsc::channel(1);
        let dedicated = Arc::new(tokio::sync::Mutex::new(DedicatedConnection::new(pool)));
        let waker = Self { pending: Arc::default(), signal, dedicated };
        tokio::spawn(run(Arc::clone(&waker.dedicated), Arc::clone(&waker.pending), signals));
        waker
    }

    /// Sends the collected wake-ups and waits until the current batch is sent: for a process that
    /// shuts down.
    pub async fn flush(&self) {
        let mut dedicated = self.dedicated.lock().await;
        let topics = std::mem::take(&mut lock(&self.pending).topics);
        if !topics.is_empty()
            && let Err(error) = send(&mut dedicated, &topics).await
        {
            tracing::debug!(%error, "wake-ups: the last batch was not sent; subscribers poll");
        }
    }

    /// Wakes the subscribers of `topic`, together with other wake-ups of the next 20 ms.
    pub fn wake(&self, topic: Topic) {
        self.add(topic, false);
    }

    /// Wakes the idle subscribers of `topic`, at once unless the process is busy.
    pub fn wake_now(&self, topic: Topic) {
        self.add(topic, true);
    }

    fn add(&self, topic: Topic, urgent: bool) {
        let mut pending = lock(&self.pending);
        pending.calls += 1;
        pending.urgent |= urgent;
        pending.topics.insert(topic);
        drop(pending);
        // A full channel holds a signal that the sender has not received yet.
        self.signal.try_send(()).ok();
    }
}

async fn run(
    dedicated: Arc<tokio::sync::Mutex<DedicatedConnection>>,
    pending: Arc<Mutex<Pending>>,
    mut signals: mpsc::Receiver<()>,
) {
    let mut busy = false;
    let mut sent_at = Instant::now();
    while signals.recv().await.is_some() {
        wait_for_batch(&pending, &mut signals, busy, sent_at).await;
        let mut dedicated = dedicated.lock().await;
        let batch = std::mem::take(&mut *lock(&pending));
        // A signal may arrive after the batch that already contained its topic.
        if batch.topics.is_empty() {
            continue;
        }
        busy = batch.calls >= BUSY;
        if let Err(error) = send(&mut dedicated, &batch.topics).await {
            tracing::debug!(%error, "wake-ups: a batch was not sent; subscribers poll");
        }
        sent_at = Instant::now();
    }
}

/// Waits for the rest of the pause after the last batch, which an urgent wake-up shortens, or until
/// the last sender is dropped.
async fn wait_for_batch(
    pending: &Mutex<Pending>,
    signals: &mut mpsc::Receiver<()>,
    busy: bool,
    sent_at: Instant,
) {
    loop {
        let urgent = lock(pending).urgent;
        let pause = if urgent && !busy { SHORT_PAUSE } else { PAUSE };
        tokio::select! {
            () = tokio::time::sleep_until(sent_at + pause) => return,
            received = signals.recv() => if received.is_none() { return },
        }
    }
}

fn lock(pending: &Mutex<Pending>) -> std::sync::MutexGuard<'_, Pending> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The arguments of the notify statement: channels, and for each its text of one word per topic.
#[derive(Default)]
pub(super) struct Notices {
    pub(super) channels: Vec<&'static str>,
    pub(super) texts: Vec<String>,
}

impl Notices {
    pub(super) fn of<'a>(topics: impl Iterator<Item = &'a Topic> + Clone) -> Self {
        let mut notices = Self::default();
        for channel in [WORK, JOURNALS, WAITS] {
            let notified = topics.clone().filter(|topic| topic.channels().contains(&channel));
            let words: Vec<String> = notified.map(Topic::to_string).collect();
            if words.is_empty() {
                continue;
            }
            notices.channels.push(channel);
            let all = words.len() <= MAX_IDS;
            notices.texts.push(if all { words.join(",") } else { EVERYTHING.to_owned() });
        }
        notices
    }
}

async fn send(
    dedicated: &mut DedicatedConnection,
    topics: &HashSet<Topic>,
) -> Result<(), StoreError> {
    let Notices { channels, texts } = Notices::of(topics.iter());
    // A hint does not need to be durable.
    let statement = sqlx::query(
        "select set_config('synchronous_commit', 'off', true), pg_notify(channel, text)
         from unnest($1::text[], $2::text[]) as notice (channel, text)",
    )
    .bind(channels)
    .bind(texts);
    dedicated.ask(async |connection| statement.execute(connection).await.map(drop)).await
}

/// Which channels a process listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// An executor: ready runs, changed runs, and waits.
    Worker,
    /// A process whose callers follow runs: additionally every journal that grew.
    Follower,
}

impl Listener {
    fn channels(self) -> &'static [&'static str] {
        match self {
            Self::Worker => &[WORK, WAITS],
            Self::Follower => &[WORK, JOURNALS, WAITS],
        }
    }
}

/// Receives wake-ups for one process over one connection.
#[derive(Clone)]
pub struct Wakeups {
    topics: broadcast::Sender<Topic>,
}

impl Wakeups {
    /// Starts the listener over a pool. It connects by itself, and again after a loss.
    pub fn start(pool: PgPool, who: Listener) -> Self {
        let (topics, _) = broadcast::channel(BACKLOG);
        let sender = topics.clone();
        tokio::spawn(async move {
            loop {
                if let Err(error) = listen(&pool, who, &sender).await {
                    tracing::debug!(%error, "wake-ups: the listener lost its connection and reconnects; subscribers poll");
                }
                if pool.is_closed() {
                    return;
                }
                tokio::time::sleep(RECONNECT).await;
            }
        });
        Self { topics }
    }

    /// Wakes the subscribers of this process alone, without the database.
    pub fn wake_here(&self, topic: Topic) {
        // Without subscribers there is none to wake.
        drop(self.topics.send(topic));
    }

    /// Subscribes to all topics from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Topic> {
        self.topics.subscribe()
    }
}

async fn listen(
    pool: &PgPool,
    who: Listener,
    topics: &broadcast::Sender<Topic>,
) -> Result<(), StoreError> {
    let mut listener = within(async {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen_all(who.channels().iter().copied()).await?;
        Ok(listener)
    })
    .await?;
    // Wake-ups before this moment are lost.
    let mut words = vec![Topic::Everything];
    loop {
        for topic in words.drain(..) {
            // Without subscribers there is none to wake.
            drop(topics.send(topic));
        }
        match timeout(PING_AFTER, listener.try_recv()).await {
            Ok(Ok(Some(notification))) => {
                words.extend(notification.payload().split(',').map(Topic::from_word));
            }
            Ok(Ok(None)) => words.push(Topic::Everything),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => {
                let asked = sqlx::query("select 1").execute(&mut listener);
                within(async { Ok(asked.await?) }).await?;
            }
        }
    }
}
