//! Wake-ups between processes.
//!
//! A notification takes one lock of the whole database when it commits, so none is sent inside a
//! hot transaction: each process gathers its wake-ups and sends at most one batch per
//! [`PAUSE`], on a connection of its own. Only a process that has little to say may say at once
//! what somebody stands idle for, and a change that is written alone tells of itself. They are
//! hints: whoever waits polls behind them.

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
/// The same, for what somebody stands idle for, while the process has little to say.
const SHORT_PAUSE: Duration = Duration::from_millis(1);
/// Wake-ups in one batch from which on a process has much to say.
const BUSY: usize = 8;
/// How long a lost listener waits before it connects again.
const RECONNECT: Duration = Duration::from_millis(500);
/// How long the listener hears nothing before it asks whether anybody is there: a connection that
/// was cut in silence would stay silent for ever.
const SILENCE: Duration = Duration::from_secs(60);
/// The channel of the database that says where there is work, and where it is no longer one's own.
const WORK: &str = "surety_work";
/// The channel that says which journals grew. There is much more to hear on it.
const JOURNALS: &str = "surety_journals";
/// Run ids one notification carries; more than that is "look at all of yours".
const MAX_IDS: usize = 200;
/// What stands before the id of a run that was moved.
const MOVED: &str = "moved:";
/// What stands for all of them.
const EVERYTHING: &str = "*";
/// Wake-ups a slow listener may lag behind before it is told to look at everything.
const BACKLOG: usize = 1024;

/// What somebody is woken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// There is a run that an executor could take up.
    Ready,
    /// This run's journal grew.
    Run(Uuid),
    /// This run's journal grew because somebody else than its executor moved it: whoever holds its
    /// lease looks whether it still does.
    Moved(Uuid),
    /// Too much happened to name it, or something may have been missed: look at everything.
    Everything,
}

/// The word that stands for it in a notification.
impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Run(id) => write!(f, "{}", id.simple()),
            Self::Moved(id) => write!(f, "{MOVED}{}", id.simple()),
            Self::Everything => f.write_str(EVERYTHING),
        }
    }
}

impl Topic {
    /// The channels it is told on.
    fn channels(&self) -> &'static [&'static str] {
        match self {
            Self::Ready | Self::Moved(_) => &[WORK],
            Self::Run(_) => &[JOURNALS],
            Self::Everything => &[WORK, JOURNALS],
        }
    }

    fn from_word(word: &str) -> Self {
        match word {
            "ready" => Self::Ready,
            word => match word.strip_prefix(MOVED) {
                Some(id) => Uuid::parse_str(id).map_or(Self::Everything, Self::Moved),
                None => Uuid::parse_str(word).map_or(Self::Everything, Self::Run),
            },
        }
    }
}

/// Sends wake-ups for one process. Cloning shares it.
#[derive(Clone)]
pub struct Waker {
    pending: Arc<Mutex<Pending>>,
    /// Holds one ring: what is gathered until the sender looks goes out together.
    bell: mpsc::Sender<()>,
    /// Whoever sends has it from the moment he takes what is to be sent.
    dedicated: Arc<tokio::sync::Mutex<DedicatedConnection>>,
}

/// What was not sent yet.
#[derive(Default)]
struct Pending {
    topics: HashSet<Topic>,
    /// How often somebody was to be woken, the same topic counted again.
    calls: usize,
    /// Whether somebody stands idle for one of them.
    urgent: bool,
}

impl Waker {
    /// Starts the sender, on a connection of its own. It ends with the last clone, once it has sent
    /// what was gathered.
    pub fn start(pool: PgPool) -> Self {
        let (bell, rings) = mpsc::channel(1);
        let dedicated = Arc::new(tokio::sync::Mutex::new(DedicatedConnection::new(pool)));
        let waker = Self { pending: Arc::default(), bell, dedicated };
        tokio::spawn(run(Arc::clone(&waker.dedicated), Arc::clone(&waker.pending), rings));
        waker
    }

    /// Sends at once what is still to be sent, and waits for what is on its way: for a process that is
    /// about to end.
    pub async fn flush(&self) {
        let mut dedicated = self.dedicated.lock().await;
        let topics = std::mem::take(&mut lock(&self.pending).topics);
        if !topics.is_empty()
            && let Err(error) = send(&mut dedicated, &topics).await
        {
            tracing::debug!(%error, "a last wake-up was not sent; polling covers it");
        }
    }

    /// Wakes whoever follows `topic`, together with what else comes within 20 ms.
    pub fn wake(&self, topic: Topic) {
        self.add(topic, false);
    }

    /// Wakes whoever stands idle until `topic`, at once unless the process has much to say.
    pub fn wake_now(&self, topic: Topic) {
        self.add(topic, true);
    }

    fn add(&self, topic: Topic, urgent: bool) {
        let mut pending = lock(&self.pending);
        pending.calls += 1;
        pending.urgent |= urgent;
        pending.topics.insert(topic);
        drop(pending);
        // A full bell is one that the sender has yet to hear.
        self.bell.try_send(()).ok();
    }
}

async fn run(
    dedicated: Arc<tokio::sync::Mutex<DedicatedConnection>>,
    pending: Arc<Mutex<Pending>>,
    mut rings: mpsc::Receiver<()>,
) {
    let mut busy = false;
    let mut sent_at = Instant::now();
    while rings.recv().await.is_some() {
        wait_for_company(&pending, &mut rings, busy, sent_at).await;
        let mut dedicated = dedicated.lock().await;
        let batch = std::mem::take(&mut *lock(&pending));
        // A ring may come after the look that already saw what it was for.
        if batch.topics.is_empty() {
            continue;
        }
        busy = batch.calls >= BUSY;
        if let Err(error) = send(&mut dedicated, &batch.topics).await {
            tracing::debug!(%error, "a wake-up was not sent; polling covers it");
        }
        sent_at = Instant::now();
    }
}

/// Waits until the pause after the last batch is over, which something urgent makes shorter, or
/// until nobody can add anything any more.
async fn wait_for_company(
    pending: &Mutex<Pending>,
    rings: &mut mpsc::Receiver<()>,
    busy: bool,
    sent_at: Instant,
) {
    loop {
        let urgent = lock(pending).urgent;
        let pause = if urgent && !busy { SHORT_PAUSE } else { PAUSE };
        tokio::select! {
            () = tokio::time::sleep_until(sent_at + pause) => return,
            ring = rings.recv() => if ring.is_none() { return },
        }
    }
}

fn lock(pending: &Mutex<Pending>) -> std::sync::MutexGuard<'_, Pending> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notifications as a statement takes them: channels, and beside each its text, a word for each topic.
#[derive(Default)]
pub(super) struct Notices {
    pub(super) channels: Vec<&'static str>,
    pub(super) texts: Vec<String>,
}

impl Notices {
    pub(super) fn of<'a>(topics: impl Iterator<Item = &'a Topic> + Clone) -> Self {
        let mut notices = Self::default();
        for channel in [WORK, JOURNALS] {
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
    // A hint need not wait for the disk.
    let statement = sqlx::query(
        "select set_config('synchronous_commit', 'off', true), pg_notify(channel, text)
         from unnest($1::text[], $2::text[]) as notice (channel, text)",
    )
    .bind(channels)
    .bind(texts);
    dedicated.ask(async |connection| statement.execute(connection).await.map(drop)).await
}

/// Who listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// An executor: hears of work, and of runs that others moved.
    Worker,
    /// Somebody whose callers follow runs: hears of every journal that grew as well.
    Follower,
}

impl Listener {
    fn channels(self) -> &'static [&'static str] {
        match self {
            Self::Worker => &[WORK],
            Self::Follower => &[WORK, JOURNALS],
        }
    }
}

/// Receives wake-ups for one process, over one connection.
#[derive(Clone)]
pub struct Wakeups {
    topics: broadcast::Sender<Topic>,
}

impl Wakeups {
    /// Starts the listener over a pool. It connects, and connects again after a loss, by itself.
    pub fn start(pool: PgPool, who: Listener) -> Self {
        let (topics, _) = broadcast::channel(BACKLOG);
        let sender = topics.clone();
        tokio::spawn(async move {
            loop {
                if let Err(error) = listen(&pool, who, &sender).await {
                    tracing::debug!(%error, "the listener lost its connection; polling covers it");
                }
                if pool.is_closed() {
                    return;
                }
                tokio::time::sleep(RECONNECT).await;
            }
        });
        Self { topics }
    }

    /// A subscription to all topics from now on.
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
    // Whatever was sent before this moment is gone.
    let mut words = vec![Topic::Everything];
    loop {
        for topic in words.drain(..) {
            // Nobody subscribed is nobody to wake.
            drop(topics.send(topic));
        }
        match timeout(SILENCE, listener.try_recv()).await {
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
