//! The lease of one run as this process sees it: what ends the work under it, and what wakes it.

use sqlx::PgPool;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use surety_common::domain::execution::Execution;
use surety_common::store::{self, RunLease, WritePipeline};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A lease, shared by the work under it and by the registry that ends or wakes that work.
pub struct Lease {
    /// The run.
    pub run_id: Uuid,
    /// The namespace of the run.
    pub namespace: String,
    /// The executor that holds it.
    owner: Uuid,
    /// The fencing token of every write under this lease.
    pub epoch: i64,
    /// Cancelled when the lease is no longer held here.
    pub lost: CancellationToken,
    /// Cancelled with `lost`, and when the time for a drain is over: tool calls under way end.
    pub calls: CancellationToken,
    /// Cancelled when tool calls under way must end at once.
    pub kill: CancellationToken,
    /// Calls under way that a successor would make again without asking.
    repeating: AtomicUsize,
    over: AtomicBool,
    /// The change that takes the lease, where the work began before it was stored.
    taking: Option<WritePipeline>,
    /// Notified when another process may have changed the row under this lease.
    pub(super) news: Notify,
    /// The version of the row at the last read.
    pub(super) seen_version: AtomicI64,
}

impl Lease {
    /// The lease of a run that was just written, or is by the change `taking` it. `cut` ends its calls when a
    /// drain takes too long.
    pub fn new(
        key: RunLease,
        namespace: String,
        owner: Uuid,
        taking: Option<WritePipeline>,
        cut: &CancellationToken,
    ) -> Self {
        let RunLease { run_id, lease_epoch: epoch } = key;
        Self {
            run_id,
            namespace,
            owner,
            epoch,
            taking,
            lost: CancellationToken::new(),
            calls: cut.child_token(),
            kill: CancellationToken::new(),
            repeating: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            news: Notify::new(),
            seen_version: AtomicI64::new(0),
        }
    }

    /// Its key.
    pub fn key(&self) -> RunLease {
        RunLease { run_id: self.run_id, lease_epoch: self.epoch }
    }

    /// Whether the row named it at some time, so that its absence there means that it was lost.
    pub fn was_written(&self) -> bool {
        self.taking.as_ref().is_none_or(WritePipeline::is_known)
    }

    /// Whether no other executor can have worked on the run since the lease began.
    pub fn was_kept(&self) -> bool {
        !self.lost.is_cancelled() && self.taking.as_ref().is_none_or(WritePipeline::holds)
    }

    /// Ends the work under it: the run is no longer held here.
    pub fn lose(&self) {
        self.lost.cancel();
        self.calls.cancel();
    }

    /// Ends the work under it and kills its commands at once: a successor may start soon.
    pub fn forfeit(&self) {
        self.kill.cancel();
        self.lose();
    }

    /// Whether a call is under way that a successor would make again without asking.
    pub fn would_be_repeated(&self) -> bool {
        self.repeating.load(Ordering::SeqCst) > 0
    }

    /// Counts a call as under way until the answer is dropped. `repeated` says whether a successor
    /// makes the call again without asking.
    pub(super) fn enter_call(&self, repeated: bool) -> CallUnderWay<'_> {
        let repeating = repeated.then_some(&self.repeating);
        if let Some(count) = repeating {
            count.fetch_add(1, Ordering::SeqCst);
        }
        CallUnderWay(repeating)
    }

    /// Records that the run has ended.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether the run has ended.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Whether the row still names this lease. A lease whose change was lost has the number of the next one, which this
    /// executor may hold too, by a claim: work under the lost one knows nothing of that.
    pub(super) fn holds(&self, row: &Execution) -> bool {
        let is_lost = self.taking.as_ref().is_some_and(WritePipeline::never_began);
        !is_lost && row.lease_owner == Some(self.owner) && row.lease_epoch == self.epoch
    }

    /// Reads the row: ends the work when it names another lease, and notifies the work when the row
    /// was changed under this one. When the read fails, the next heartbeat finds a lost lease.
    pub async fn refresh(&self, pool: &PgPool) {
        match store::find_run(pool, self.run_id).await {
            Ok(Some(record)) if self.holds(&record.execution) => {
                self.seen_version.fetch_max(record.execution.version, Ordering::Relaxed);
                self.news.notify_one();
            }
            Ok(record) => {
                if record.is_none_or(|record| record.execution.state.is_terminal()) {
                    self.end();
                }
                self.lose();
            }
            Err(error) => {
                tracing::debug!(run_id = %self.run_id, %error, "executor: the run could not be read");
            }
        }
    }
}

/// A call that is under way, until it is dropped.
pub(super) struct CallUnderWay<'a>(Option<&'a AtomicUsize>);

impl Drop for CallUnderWay<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
