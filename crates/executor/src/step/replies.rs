//! How a driver's reply that was not there at once enters its run.

use sqlx::PgPool;
use surety_common::clock;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::{Graph, SuppliedReply};
use surety_common::domain::journal::Actor;
use surety_common::domain::reader::MAX_TEXT_BYTES;
use surety_common::store::{self, Commit, Committer, Outcome, StoreError, Topic, Waker};
use surety_common::telemetry::trace;
use uuid::Uuid;

/// Stores the replies of drivers. Any process with a connection to the database can: the executor that
/// holds the run, or claims it next, takes the reply into a turn.
#[derive(Clone)]
pub struct Replies {
    pool: PgPool,
    committer: Committer,
    waker: Waker,
}

/// Why a reply was not stored.
#[derive(Debug, thiserror::Error)]
pub enum SupplyError {
    /// There is no such run.
    #[error("run {0} does not exist")]
    RunNotFound(Uuid),
    /// The wait was answered, or its step no longer waits: read the run again.
    #[error(
        "no step of run {run_id} waits for its driver with the wait {wait_id}; it was answered or the step ended"
    )]
    WaitClosed {
        /// The run.
        run_id: Uuid,
        /// The wait that was named.
        wait_id: Uuid,
    },
    /// The reply is longer than the reader takes.
    #[error("the reply has {bytes} bytes, at most {MAX_TEXT_BYTES} are read; send a shorter one")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// The database refused or is away.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Replies {
    /// Replies over this database.
    pub fn new(pool: PgPool, committer: Committer, waker: Waker) -> Self {
        Self { pool, committer, waker }
    }

    /// Stores the reply to a wait of a run. The first reply to a wait counts.
    ///
    /// # Errors
    /// [`SupplyError`]; then nothing was stored.
    pub async fn supply(
        &self,
        run_id: Uuid,
        reply: SuppliedReply,
        by: &Actor,
    ) -> Result<(), SupplyError> {
        let bytes = reply.text.len();
        if bytes > MAX_TEXT_BYTES {
            return Err(SupplyError::TooLarge { bytes });
        }
        let wait_id = reply.wait_id;
        loop {
            let record = store::find_run(&self.pool, run_id).await?;
            let record = record.ok_or(SupplyError::RunNotFound(run_id))?;
            let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
            let mut draft = Draft::new(record.execution, by.clone(), clock::now());
            if draft.supply_reply(&graph, reply.clone()).is_err() {
                return Err(SupplyError::WaitClosed { run_id, wait_id });
            }
            let span = trace::work_span("executor", &run_id.to_string(), &record.spec.trace_parent);
            let span_id = trace::span_id(&span);
            let commit = Commit::new(draft.into_write(), span, span_id)
                .notify_on_commit(Topic::Moved(run_id));
            if self.committer.commit(commit).await? == Outcome::Applied {
                self.waker.wake_now(Topic::Ready);
                return Ok(());
            }
        }
    }
}
