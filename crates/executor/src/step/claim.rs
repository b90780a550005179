//! Taking runs up that wait, and giving all of them back in the end.

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
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// How long it waits after a failed look.
const AFTER_ERROR: Duration = Duration::from_millis(500);

/// How long it waits before it looks for queues again, having looked a moment ago.
const BEFORE_LOOK: Duration = Duration::from_millis(50);

/// How long calls that were called off may take to end and runs to be written back, where the
/// database is there to write them.
const CUT_TIMEOUT: Duration = Duration::from_secs(10);
/// What is kept of the drain's time for handing runs back: a fifth of it, a second at most.
const HAND_BACK: (u32, Duration) = (5, Duration::from_secs(1));
/// How long the database has at least to say that it is there: a connection may have to be made.
const SIGN_OF_LIFE: Duration = Duration::from_millis(500);

/// The state of the scan for waiting runs: the queues seen so far, and a dedicated connection.
pub(super) struct QueueScanner {
    pub(super) queues: Queues,
    dedicated: DedicatedConnection,
}

/// The loop that takes runs up and hands each to a task of its own.
pub struct Claimer {
    pub(super) engine: Arc<Engine>,
    pub(super) slots: Slots,
    /// The work on each run, and the writing of leases that are taken over.
    pub(super) tasks: TaskTracker,
    /// Held while leases are taken, so that one taken and one not yet entered are never confused.
    /// Heartbeats do not wait for it: a lease may take long to be written.
    pub(super) scanner: Mutex<QueueScanner>,
    unreadable: std::sync::Mutex<Unreadable>,
    /// Rung when a heartbeat saw that a run waits.
    pub(super) seen: Notify,
}

impl Claimer {
    /// A claimer that works on at most `slots` runs at once.
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

    /// Claims until the engine drains, then waits until every run was given back. Answers whether all
    /// were.
    pub async fn run(&self) -> bool {
        let mut wakeups = self.engine.wakeups.subscribe();
        while !self.engine.drain.is_cancelled() {
            let found = self.run_once(self.engine.now()).await;
            tokio::select! {
                // Looked at first: one that drains takes nothing more, however much there is.
                biased;
                () = self.engine.drain.cancelled() => break,
                () = self.next_look(&mut wakeups, found) => {}
            }
        }
        self.hand_back().await
    }

    /// Turns under way may end, then calls under way are called off, and every run is given back.
    /// While the database is away that cannot be written, and is left to the heartbeat's age.
    async fn hand_back(&self) -> bool {
        self.tasks.close();
        let all = self.end_work().await;
        if all {
            self.give_back_unheard().await;
        } else {
            let runs = self.tasks.len();
            tracing::warn!(runs, "not every run could be handed back; others take over in time");
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

    /// Waits until there may be something to claim, and then for a free slot.
    async fn next_look(
        &self,
        wakeups: &mut broadcast::Receiver<Topic>,
        found: Result<Found, StoreError>,
    ) {
        match found {
            Ok(Found::More) => {}
            Ok(Found::All) => self.woken(wakeups).await,
            Ok(Found::Unsure) => drop(timeout(BEFORE_LOOK, self.woken(wakeups)).await),
            Err(error) => {
                tracing::warn!(%error, "no runs could be claimed");
                drop(timeout(AFTER_ERROR, self.woken(wakeups)).await);
            }
        }
        self.slots.wait().await;
        self.engine.lease_validity.valid().await;
        // One claim answers all that was said before it.
        *wakeups = wakeups.resubscribe();
    }

    async fn woken(&self, wakeups: &mut broadcast::Receiver<Topic>) {
        tokio::select! {
            () = ready(wakeups) => {}
            () = self.seen.notified() => {}
        }
    }

    /// One claim of runs that wait, and a look for further queues where one is due.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn run_once(&self, now: DateTime<Utc>) -> Result<Found, StoreError> {
        let mut scanner = self.scanner.lock().await;
        let scanner = &mut *scanner;
        let mut free = self.slots.take_free();
        let slots = free.count();
        // A drain may have begun while somebody else was taking leases.
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
            // No more come than were asked for; had more come, heartbeats would find their leases.
            let Some(slot) = free.take() else { break };
            self.start(Taken::claimed(record), slot);
        }
        drop(free);
        self.let_go(&unread, now).await?;
        if scan == Scan::Due {
            more |= store::find_queues(&mut scanner.dedicated, &mut scanner.queues, now).await?;
        }
        Ok(match (more, scan) {
            (true, _) => Found::More,
            (false, Scan::Due | Scan::Fresh) => Found::All,
            (false, Scan::Recent) => Found::Unsure,
        })
    }

    /// The runs that are left alone at `now`, because their rows do not read.
    pub(super) fn left_alone(&self, now: DateTime<Utc>) -> Vec<Uuid> {
        self.unreadable().left_alone(now)
    }

    /// Leaves runs alone whose rows do not read. Each is told of once: there is nothing to do about
    /// it here, and the row is mended by a person.
    pub(super) fn leave_alone(&self, unread: &[Unread], now: DateTime<Utc>) {
        for Unread { run_id, why } in unread {
            if self.unreadable().leave_alone(*run_id, &why.to_string(), now) {
                tracing::error!(%run_id, error = %why, "a run's row does not read; it is left alone");
            }
        }
    }

    fn unreadable(&self) -> std::sync::MutexGuard<'_, Unreadable> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn start(&self, taken: Taken, mut slot: Slot) {
        let Taken { assignment, execution, started } = taken;
        let held = Arc::new(LeasedRun::new(Arc::clone(&self.engine), assignment, execution));
        self.engine.registry.enter(&held.lease);
        self.tasks.spawn(async move {
            work::work(&held, started, &mut slot).await;
            held.engine.registry.leave(&held.lease);
            drop(slot);
        });
    }
}

/// What a claim left.
pub enum Found {
    /// There may be more.
    More,
    /// There is no more.
    All,
    /// There is no more where it was looked; other queues were not looked for again so soon.
    Unsure,
}

/// A run whose lease is being written, or is.
pub(super) struct Taken {
    pub(super) assignment: RunAssignment,
    pub(super) execution: Execution,
    pub(super) started: Vec<usize>,
}

impl Taken {
    /// A run that is leased already; its steps are started with its first turn.
    fn claimed(record: RunRecord) -> Self {
        let RunRecord { spec, plan, plan_digest, execution, .. } = record;
        let span = trace::work_span("executor", &spec.id.to_string(), &spec.trace_parent);
        let assignment = RunAssignment { spec, plan: plan.unwrap_or_default(), plan_digest, span };
        Self { assignment, execution, started: Vec::new() }
    }
}

/// Resolves when somebody said there is a run to take up, or may have.
async fn ready(wakeups: &mut broadcast::Receiver<Topic>) {
    loop {
        match wakeups.recv().await {
            Ok(Topic::Ready | Topic::Everything) | Err(broadcast::error::RecvError::Lagged(_)) => {
                return;
            }
            Ok(Topic::Run(_) | Topic::Moved(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
