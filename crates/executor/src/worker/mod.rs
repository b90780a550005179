//! Workers outside the executor that serve tools over one stream each.
//!
//! ```text
//!   Connect --announce--> worker_tool (what every executor may offer to drivers)
//!      session: one task a stream, reads the worker's messages
//!      dispatch: leases offered calls for streams with free places, those that this process opened without a scan
//!      heartbeat: one loop a process, extends the leases of the calls of live streams
//!      results: the answer of a call and the run's next work as one guarded change
//! ```
//!
//! A call belongs to the worker by its lease, never to the stream.

mod announce;
mod dispatch;
mod heartbeat;
mod known_runs;
mod output;
mod result;
mod session;
mod streams;
mod words;

pub(crate) use known_runs::KnownRuns;

use crate::participant::News;
use crate::step::{Claimer, Replies};
use crate::tool::Toolbox;
use futures::stream::{self, BoxStream, StreamExt};
use sqlx::PgPool;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use streams::Streams;
use surety_common::clock;
use surety_common::store::{
    DedicatedConnection, Policies, WaitHeartbeats, Waker, Wakeups, WorkerTimes,
};
use surety_common::wire::caller::Caller;
use surety_common::wire::v1;
use tokio::sync::{Mutex, Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};
use uuid::Uuid;

/// How many heartbeat intervals a lease has, and how many of them a stream may be silent.
const BEATS: u32 = 3;
/// The messages to a worker that wait until it reads them.
const QUEUE: usize = 2048;

/// The workers that are connected to one executor process.
#[derive(Clone)]
pub(crate) struct Workers(Arc<Shared>);

/// What the operator grants to workers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerTerms {
    /// How long the calls of a worker stay leased after its last sign of life.
    pub(crate) lease: Duration,
    /// How long a tool stays listed after its last worker left.
    pub(crate) listed: Duration,
}

/// What the workers of a process need.
pub(crate) struct WorkerSetup {
    /// This process.
    pub(crate) executor_id: Uuid,
    /// The database.
    pub(crate) pool: PgPool,
    /// Goes on with the runs whose calls are answered.
    pub(crate) claimer: Arc<Claimer>,
    /// Stores the results with which it cannot go on at once.
    pub(crate) replies: Replies,
    /// What this process stored.
    pub(crate) news: News,
    /// The runs whose calls workers have.
    pub(crate) known: KnownRuns,
    /// Wake-ups.
    pub(crate) wakes: (Waker, Wakeups),
    /// The tools by namespace.
    pub(crate) toolbox: Arc<Toolbox>,
    /// The folder of the workspaces of runs that name none.
    pub(crate) workspaces: PathBuf,
    /// What the operator grants.
    pub(crate) terms: WorkerTerms,
    /// Cancelled when the process shuts down.
    pub(crate) drain: CancellationToken,
}

struct Shared {
    setup: WorkerSetup,
    policies: Policies,
    /// Leases calls. One at a time, so that none is leased twice.
    giving: Mutex<DedicatedConnection>,
    /// The namespaces and tools of which the last scan found more calls than there were places.
    backlog: std::sync::Mutex<HashSet<(String, String)>>,
    heartbeats: WaitHeartbeats,
    streams: Streams,
    /// A stream has a free place.
    free: Notify,
    /// A worker reported progress.
    reported: Notify,
    /// Bytes of outputs that are kept in memory until their results arrive.
    buffered: Arc<AtomicUsize>,
}

impl Workers {
    /// Starts the loops of a process.
    pub(crate) fn start(setup: WorkerSetup) -> Self {
        let policies = Policies::of(setup.pool.clone());
        let giving = Mutex::new(DedicatedConnection::new(setup.pool.clone()));
        let heartbeats = WaitHeartbeats::start(setup.pool.clone());
        let workers = Self(Arc::new(Shared {
            setup,
            policies,
            giving,
            backlog: std::sync::Mutex::default(),
            heartbeats,
            streams: Streams::default(),
            free: Notify::new(),
            reported: Notify::new(),
            buffered: Arc::default(),
        }));
        tokio::spawn(workers.clone().search());
        tokio::spawn(workers.clone().give_opened());
        tokio::spawn(workers.clone().beat());
        workers
    }

    /// Serves one stream.
    pub(crate) fn connect(
        &self,
        caller: Caller,
        incoming: Streaming<v1::ConnectRequest>,
    ) -> BoxStream<'static, Result<v1::ConnectResponse, Status>> {
        let (outgoing, mut messages) = mpsc::channel(QUEUE);
        let closed = CancellationToken::new();
        tokio::spawn(self.clone().serve(caller, incoming, outgoing, closed.clone()));
        let messages = stream::poll_fn(move |context| messages.poll_recv(context));
        messages.take_until(closed.cancelled_owned()).boxed()
    }

    fn interval(&self) -> Duration {
        self.0.setup.terms.lease / BEATS
    }

    fn lease_ms(&self) -> i32 {
        i32::try_from(self.0.setup.terms.lease.as_millis()).unwrap_or(i32::MAX)
    }

    fn times(&self) -> WorkerTimes {
        let delta = |span: Duration| chrono::TimeDelta::from_std(span).unwrap_or_default();
        let WorkerTerms { lease, listed } = self.0.setup.terms;
        WorkerTimes { now: clock::now(), live: delta(lease), listed: delta(listed) }
    }
}
