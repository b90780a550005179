//! How what a participant supplies enters its run: a driver's reply, a worker's result.

use chrono::TimeDelta;
use sqlx::PgPool;
use surety_common::clock;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::{Graph, SuppliedReply};
use surety_common::domain::journal::Actor;
use surety_common::domain::machine::Refusal;
use surety_common::domain::reader::MAX_TEXT_BYTES;
use surety_common::domain::run::{RunRecord, RunSpec};
use surety_common::store::{self, Commit, Committer, Outcome, StoreError, Topic, Wakeups};
use surety_common::telemetry::trace;
use uuid::Uuid;

/// Stores what participants supply. Any process with a connection to the database can: the executor that
/// holds the run, or claims it next, goes on with it.
#[derive(Clone)]
pub struct Replies {
    pool: PgPool,
    committer: Committer,
    wakeups: Wakeups,
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
    /// The wait is not leased under the token of the reply any more.
    #[error("the lease {lease_epoch} of wait {wait_id} was lost; lease the step again")]
    LeaseLost {
        /// The wait.
        wait_id: Uuid,
        /// The fencing token that was named.
        lease_epoch: i64,
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
    pub fn new(pool: PgPool, committer: Committer, wakeups: Wakeups) -> Self {
        Self { pool, committer, wakeups }
    }

    /// Stores a change of a wait.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(crate) async fn store(&self, commit: Commit) -> Result<Outcome, StoreError> {
        self.committer.commit(commit).await
    }

    /// Stores the reply to a wait of a run that was `unleased` for so long. The first reply to a wait counts.
    ///
    /// # Errors
    /// [`SupplyError`]; then nothing was stored.
    pub async fn supply(
        &self,
        run_id: Uuid,
        reply: SuppliedReply,
        unleased: TimeDelta,
        by: &Actor,
    ) -> Result<(), SupplyError> {
        check_length(&reply)?;
        let stored = self.store_answer(run_id, None, by, supplying(&reply, unleased)).await;
        stored.map_err(|error| SupplyError::of(error, (run_id, &reply)))
    }

    /// Stores an answer to a wait of a run. `known` is the run as this process knows it, which is tried first.
    ///
    /// # Errors
    /// [`NotStored`]; then nothing was stored.
    pub(crate) async fn store_answer<E>(
        &self,
        run_id: Uuid,
        mut known: Option<RunRecord>,
        by: &Actor,
        answer: impl Fn(&RunSpec, &Graph, &mut Draft) -> Result<(), E>,
    ) -> Result<(), NotStored<E>> {
        let mut refused_at = None;
        loop {
            let (record, is_read) = match known.take() {
                Some(record) => (record, false),
                None => {
                    let read = store::find_run(&self.pool, run_id).await?;
                    (read.ok_or(NotStored::RunNotFound)?, true)
                }
            };
            // No other writer changed the row: the lease of the wait refused the change.
            if refused_at == Some(record.execution.version) {
                return Err(NotStored::LeaseLost);
            }
            refused_at = Some(record.execution.version);
            let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
            // A run without a lease waits for its next claim, and a leased one is read by its executor.
            let topic = match record.execution.lease_owner {
                None => Topic::Ready,
                Some(_) => Topic::Moved(run_id),
            };
            let mut draft = Draft::new(record.execution, by.clone(), clock::now());
            match answer(&record.spec, &graph, &mut draft) {
                Ok(()) => {}
                Err(refused) if is_read => return Err(NotStored::Refused(refused)),
                // What is known is older than the row.
                Err(_) => {
                    refused_at = None;
                    continue;
                }
            }
            let span = trace::work_span("executor", &run_id.to_string(), &record.spec.trace_parent);
            let span_id = trace::span_id(&span);
            let commit = Commit::new(draft.into_write(), span, span_id).notify_on_commit(topic);
            if self.committer.commit(commit).await? == Outcome::Applied {
                self.wakeups.wake_here(topic);
                return Ok(());
            }
        }
    }
}

/// Why an answer was not stored.
pub(crate) enum NotStored<E> {
    /// There is no such run.
    RunNotFound,
    /// The wait is not leased under the token of the answer any more.
    LeaseLost,
    /// The run does not take the answer.
    Refused(E),
    /// The database refused or is away.
    Store(StoreError),
}

impl<E> From<StoreError> for NotStored<E> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl SupplyError {
    pub(super) fn of(error: NotStored<Refusal>, (run_id, reply): (Uuid, &SuppliedReply)) -> Self {
        let SuppliedReply { wait_id, lease_epoch, .. } = *reply;
        match error {
            NotStored::RunNotFound => Self::RunNotFound(run_id),
            NotStored::LeaseLost => Self::LeaseLost { wait_id, lease_epoch },
            NotStored::Refused(_) => Self::WaitClosed { run_id, wait_id },
            NotStored::Store(error) => Self::Store(error),
        }
    }
}

/// How a reply enters its run.
pub(super) fn supplying(
    reply: &SuppliedReply,
    unleased: TimeDelta,
) -> impl Fn(&RunSpec, &Graph, &mut Draft) -> Result<(), Refusal> {
    move |_, graph, draft| draft.supply_reply(graph, reply.clone(), unleased)
}

/// Refuses a reply that the reader does not take.
pub(super) fn check_length(reply: &SuppliedReply) -> Result<(), SupplyError> {
    let bytes = reply.text.len();
    if bytes > MAX_TEXT_BYTES { Err(SupplyError::TooLarge { bytes }) } else { Ok(()) }
}
