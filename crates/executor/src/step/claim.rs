//! Claims waiting runs, and releases all of them at the end.

use super::engine::Engine;
use super::leased_run::{LeasedRun, RunAssignment};
use super::slots::{Slot, Slots};
use super::work;
use chrono::{DateTime, Utc};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use surety_common::crash;
use surety_common::domain::execution::Execution;
use surety_common::domain::run::RunRecord;
use surety_common::store::{
    self, DedicatedConnection, Leased, Queues, Scan, StoreError, Topic, Unread, Unreadable, Want,
};
use surety_common::telemetry::trace;
use tokio::sync::{Mutex, Notify, broadcast};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// The pause after a failed claim.
const AFTER_ERROR: Duration = Duration::from_millis(500);

/// The pause before the next scan for queues after a recent one.
const BEFORE_CLAIM: Duration = Duration::from_millis(50);

/// The time limit to end cancelled calls and to write runs back, if the database is available.
const CUT_TIMEOUT: Duration = Duration::from_secs(10);
/// The share of the drain's time for releasing runs: a fifth of it, at most a second.
const HAND_BACK: (u32, Duration) = (5, Duration::from_secs(1));
/// The time limit to check that the database answers, which includes a connection.
const SIGN_OF_LIFE: Duration = Duration::from_millis(500);

/// The state of the scan for waiting runs: the queues seen so far, and a dedicated connection.
pub(super) struct QueueScanner {
    pub(super) queues: Queues,
    dedicated: DedicatedConnection,
}

/// The loop that claims runs and starts a task for each.
pub struct Claimer {
    pub(super) engine: Arc<Engine>,
    pub(super) slots: Slots,
    /// The work on each run, and the writes of leases that are taken over.
    pub(super) tasks: TaskTracker,
    /// Locked while leases are taken, so that a lease is registered before another scan reads it.
    /// Heartbeats do not wait for it, because writing a lease may take long.
    pub(super) scanner: Mutex<QueueScanner>,
    unreadable: std::sync::Mutex<Unreadable>,
    /// Notified when a heartbeat found a waiting run.
    pub(super) seen: Notify,
}

impl Claimer {
    /// A claimer for at most `slots` concurrent runs.
    pub fn new(engine: Arc<Engine>, slots: usize) -> Self {
        let slots = Slots::new(slots);
        let scanner = QueueScanner {
            queues: Queues::default(),
            dedicated: DedicatedConnection::new(engine.pool.clone()),
        };
        Self {
            engine,
            slots,
            tasks: TaskTracker::new(),
            scanner: Mutex::new(scanner),
            unreadable: std::sync::Mutex::default(),
            seen: Notify::new(),
        }
    }

    /// What every run of this process shares.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Claims until the engine drains, then waits until every run was released. Returns whether all
    /// were.
    pub async fn run(&self) -> bool {
        let mut wakeups = self.engine.wakeups.subscribe();
        while !self.engine.drain.is_cancelled() {
            let found = self.run_once(self.engine.now()).await;
            tokio::select! {
                // Checked first: a draining executor claims nothing.
                biased;
                () = self.engine.drain.cancelled() => break,
                () = self.next_claim(&mut wakeups, found) => {}
            }
        }
        self.hand_back().await
    }

    /// Lets running turns end, then cancels running calls, and releases every run. While the
    /// database is unavailable, other executors take over by the heartbeat's age.
    async fn hand_back(&self) -> bool {
        self.tasks.close();
        let all = self.end_work().await;
        if all {
            self.give_back_unheard().await;
        } else {
            let runs = self.tasks.len();
            tracing::warn!(
                runs,
                "claimer: some runs could not be released; other executors take them over by the heartbeat's age"
            );
        }
        all
    }

    async fn end_work(&self) -> bool {
        let patience = self.engine.drain_timeout;
        let deadline = Instant::now() + patience;
        let kept = (patience / HAND_BACK.0).min(HAND_BACK.1);
        if timeout_at(deadline - kept, self.tasks.wait()).await.is_ok() {
            return true;
        }
        self.engine.cut.cancel();
        let patience = kept.max(SIGN_OF_LIFE);
        let answers = timeout(patience, store::ping(&self.engine.pool)).await;
        let until = if matches!(answers, Ok(Ok(()))) { deadline + CUT_TIMEOUT } else { deadline };
        timeout_at(until, self.tasks.wait()).await.is_ok()
    }

    /// Waits until there may be a run to claim, and then for a free slot.
    async fn next_claim(
        &self,
        wakeups: &mut broadcast::Receiver<Topic>,
        found: Result<Found, StoreError>,
    ) {
        match found {
            Ok(Found::More) => {}
            Ok(Found::All) => self.woken(wakeups).await,
            Ok(Found::Unsure) => drop(timeout(BEFORE_CLAIM, self.woken(wakeups)).await),
            Err(error) => {
                tracing::warn!(%error, "claimer: a claim failed; retrying");
                drop(timeout(AFTER_ERROR, self.woken(wakeups)).await);
            }
        }
        self.slots.wait().await;
        self.engine.lease_validity.valid().await;
        // One claim covers all earlier notifications.
        *wakeups = wakeups.resubscribe();
    }

    async fn woken(&self, wakeups: &mut broadcast::Receiver<Topic>) {
        tokio::select! {
            () = ready(wakeups) => {}
            () = self.seen.notified() => {}
        }
    }

    /// One claim of waiting runs, and a scan for queues if one is due.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn run_once(&self, now: DateTime<Utc>) -> Result<Found, StoreError> {
        let mut scanner = self.scanner.lock().await;
        let scanner = &mut *scanner;
        let mut free = self.slots.take_free();
        let slots = free.count();
        // A drain may have begun while another task was taking leases.
        if slots == 0 || self.engine.drain.is_cancelled() || !self.engine.lease_validity.is_valid()
        {
            return Ok(Found::More);
        }
        let held = self.engine.registry.held();
        let except = self.left_alone(now);
        let want = Want { now, owner: self.engine.id, slots, held: &held, except: &except };
        let Leased { runs, unread, mut more, scan } =
            store::claim(&mut scanner.dedicated, &mut scanner.queues, want).await?;
        if !runs.is_empty() {
            crash::point("executor.after_claim");
        }
        for record in runs {
            // The statement returns no more than requested; heartbeats would find the leases of
            // more.
            let Some(slot) = free.take() else { break };
            self.start(Taken::claimed(record), slot);
        }
        drop(free);
        self.let_go(&unread, now).await?;
        if scan == Scan::Due {
            let (dedicated, queues) = (&mut scanner.dedicated, &mut scanner.queues);
            more |= store::find_queues(dedicated, queues, self.engine.id, now).await?;
        }
        Ok(match (more, scan) {
            (true, _) => Found::More,
            (false, Scan::Due | Scan::Fresh) => Found::All,
            (false, Scan::Recent) => Found::Unsure,
        })
    }

    /// The runs that are not claimed at `now`, because their rows cannot be read.
    pub(super) fn left_alone(&self, now: DateTime<Utc>) -> Vec<Uuid> {
        self.unreadable().left_alone(now)
    }

    /// Stops claiming runs whose rows cannot be read. Each is logged once, because an operator must
    /// repair the row.
    pub(super) fn leave_alone(&self, unread: &[Unread], now: DateTime<Utc>) {
        for Unread { run_id, why } in unread {
            if self.unreadable().leave_alone(*run_id, &why.to_string(), now) {
                tracing::error!(%run_id, error = %why, "claimer: a run's row cannot be read; the run is not claimed for a while; repair the row");
            }
        }
    }

    fn unreadable(&self) -> std::sync::MutexGuard<'_, Unreadable> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn start(&self, taken: Taken, slot: Slot) {
        let Taken { assignment, execution, started } = taken;
        let engine = Arc::clone(&self.engine);
        let held = Arc::new(LeasedRun::new(engine, assignment, execution, None));
        self.engine.registry.enter(&held.lease);
        self.begin(held, started, slot);
    }

    /// Begins the work on a registered run. The answer resolves when it is over.
    pub(super) fn begin(
        &self,
        held: Arc<LeasedRun>,
        started: Vec<usize>,
        mut slot: Slot,
    ) -> JoinHandle<()> {
        self.tasks.spawn(async move {
            work::work(&held, started, &mut slot).await;
            if held.is_kept() {
                held.engine.recent_runs.keep(held.lease.key(), Arc::clone(&held.known));
            }
            held.engine.registry.leave(&held.lease);
            drop(slot);
        })
    }
}

/// The result of a claim.
pub enum Found {
    /// There may be more waiting runs.
    More,
    /// There are no more.
    All,
    /// There are no more in the scanned queues; other queues were not scanned again so soon.
    Unsure,
}

/// A run whose lease is being written, or is written.
pub(super) struct Taken {
    pub(super) assignment: RunAssignment,
    pub(super) execution: Arc<Execution>,
    pub(super) started: Vec<usize>,
}

impl Taken {
    /// A run that is leased already; its steps start with its first turn.
    fn claimed(record: RunRecord) -> Self {
        let RunRecord { spec, plan, plan_digest, execution, .. } = record;
        let span = trace::work_span("executor", &spec.id.to_string(), &spec.trace_parent);
        let assignment = RunAssignment { spec, plan: plan.unwrap_or_default(), plan_digest, span };
        let execution = Arc::new(execution);
        Self { assignment, execution, started: Vec::new() }
    }
}

/// Resolves when a notification says that a run is ready, or may be.
async fn ready(wakeups: &mut broadcast::Receiver<Topic>) {
    loop {
        match wakeups.recv().await {
            Ok(Topic::Ready | Topic::Everything) | Err(broadcast::error::RecvError::Lagged(_)) => {
                return;
            }
            Ok(Topic::Run(_) | Topic::Moved(_) | Topic::Waits(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
