//! A driver outside the executor, over a Unix socket: it gets one line of JSON for each turn and
//! replies with raw text. The text is whatever a model would write.

use anyhow::{Context, Result};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use surety_common::domain::decision::Usage;
use surety_common::domain::execution::{SuppliedReply, Wait};
use surety_common::domain::journal::Actor;
use surety_common::domain::stop::WaitingOn;
use surety_common::store::{self, Committer, Listener, Signing, Waker, Wakeups};
use surety_executor::driver::{Driver, Need, Next, Situation};
use surety_executor::step::{Replies, SupplyError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use uuid::Uuid;

/// The driver as the step loop knows it: it never replies at once.
pub(crate) struct Thinking;

impl Driver for Thinking {
    fn next(&self, _: &Situation<'_>) -> Next {
        let unblocks = "the next decision of the driver".to_owned();
        Next::Later(Need { waiting_on: WaitingOn::Driver, unblocks, of_model: false })
    }
}

/// What the driver says in one turn.
#[derive(Debug, Clone)]
pub(crate) enum Says {
    /// This text, at once.
    Text(String),
    /// This text, once [`Mind::release`] was called.
    AfterRelease(String),
    /// This text, after this time.
    Late(Duration, String),
}

/// What the driver will say, and what it was told, by run.
#[derive(Clone)]
pub(crate) struct Mind {
    runs: Arc<Mutex<HashMap<Uuid, Thoughts>>>,
    released: watch::Sender<bool>,
}

#[derive(Default)]
struct Thoughts {
    says: VecDeque<Says>,
    notices: Vec<String>,
}

impl Mind {
    pub(crate) fn new() -> Self {
        Self { runs: Arc::default(), released: watch::Sender::new(false) }
    }

    pub(crate) fn will_say(&self, run_id: Uuid, says: Vec<Says>) {
        self.with(run_id, |thoughts| thoughts.says = says.into());
    }

    /// The notices of the turns so far, in order; empty for a turn without one.
    pub(crate) fn notices(&self, run_id: Uuid) -> Vec<String> {
        self.with(run_id, |thoughts| thoughts.notices.clone())
    }

    pub(crate) fn release(&self) {
        self.released.send_replace(true);
    }

    fn with<T>(&self, run_id: Uuid, act: impl FnOnce(&mut Thoughts) -> T) -> T {
        act(self.runs.lock().unwrap_or_else(PoisonError::into_inner).entry(run_id).or_default())
    }

    /// Serves the socket until it is dropped.
    pub(crate) fn serve(self, path: &Path) -> Result<()> {
        let listener = UnixListener::bind(path)?;
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mind = self.clone();
                tokio::spawn(async move { mind.reply(stream).await });
            }
        });
        Ok(())
    }

    async fn reply(self, mut stream: UnixStream) -> Result<()> {
        let mut line = String::new();
        stream.read_to_string(&mut line).await?;
        let asked: serde_json::Value = serde_json::from_str(&line)?;
        let run_id = asked["run_id"].as_str().context("no run id")?.parse()?;
        let notice = asked["notice"].as_str().context("no notice")?.to_owned();
        let says = self.with(run_id, |thoughts| {
            thoughts.notices.push(notice);
            thoughts.says.pop_front()
        });
        let text = match says {
            None => return Ok(()),
            Some(Says::Text(text)) => text,
            Some(Says::Late(after, text)) => {
                tokio::time::sleep(after).await;
                text
            }
            Some(Says::AfterRelease(text)) => {
                self.released.subscribe().wait_for(|released| *released).await?;
                text
            }
        };
        stream.write_all(text.as_bytes()).await?;
        Ok(stream.shutdown().await?)
    }
}

/// Carries the waits of runs to the socket and the replies back, as an agent's process would.
pub(crate) struct Participant {
    pool: sqlx::PgPool,
    replies: Replies,
    socket: PathBuf,
}

impl Participant {
    pub(crate) fn new(pool: sqlx::PgPool, socket: PathBuf) -> Self {
        let waker = Waker::start(pool.clone());
        let committer =
            Committer::start(pool.clone(), waker.clone(), Arc::new(|_, _| {}), Signing::default());
        let wakeups = Wakeups::start(pool.clone(), Listener::Worker);
        Self { replies: Replies::new(pool.clone(), committer, wakeups), pool, socket }
    }

    /// Serves a run until it has ended, or for ever.
    pub(crate) async fn serve(self: Arc<Self>, run_id: Uuid) -> Result<()> {
        loop {
            let record = store::find_run(&self.pool, run_id).await?.context("no such run")?;
            if record.execution.state.is_terminal() {
                return Ok(());
            }
            let waits = record.execution.waits();
            let wait =
                waits.filter(|wait| wait.waiting_on == WaitingOn::Driver).min_by_key(|w| w.id);
            match wait {
                Some(wait) => self.think(run_id, wait).await?,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    async fn think(&self, run_id: Uuid, wait: &Wait) -> Result<()> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        let asked = serde_json::json!({"run_id": run_id, "notice": wait.question}).to_string();
        stream.write_all(asked.as_bytes()).await?;
        stream.shutdown().await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let usage = Usage { tokens: 7, cost_micros: 3 };
        match self.supply(run_id, wait.id, &text, usage).await {
            // The run ended meanwhile.
            Ok(()) | Err(SupplyError::WaitClosed { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn supply(
        &self,
        run_id: Uuid,
        wait_id: Uuid,
        text: &str,
        usage: Usage,
    ) -> Result<(), SupplyError> {
        let (text, trace_parent, by) = (text.to_owned(), String::new(), String::new());
        let usage = Some(usage);
        let model = None;
        let reply = SuppliedReply { wait_id, lease_epoch: 0, text, usage, trace_parent, by, model };
        self.replies
            .supply(run_id, reply, chrono::TimeDelta::zero(), &Actor("driver/test".into()))
            .await
    }
}
