//! Taking runs up: those that wait, and those whose executor died.

use super::bounds::graph_of;
use super::held::{HeldRun, Order};
use super::{Engine, work};
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::Arc;
use std::time::Duration;
use surety_common::crash;
use surety_common::domain::execution::Execution;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::machine::Refusal;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::plan::Plan;
use surety_common::domain::run::RunRecord;
use surety_common::store::{self, Claimed, Commit, Outcome, StoreError, Topic};
use surety_common::telemetry::{self, trace};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, broadcast};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// How often an idle executor looks by itself, should a wake-up be lost.
const IDLE_POLL: Duration = Duration::from_secs(2);
/// How long it waits after a failed look.
const AFTER_ERROR: Duration = Duration::from_millis(500);

/// How long calls that were called off may take to end and runs to be written back.
const CUT_TIMEOUT: Duration = Duration::from_secs(10);

/// The loop that takes runs up and hands each to a task of its own.
pub struct Claimer {
    engine: Arc<Engine>,
    slots: Arc<Semaphore>,
    heartbeat_age_limit: TimeDelta,
    tasks: TaskTracker,
    /// Held while leases are taken, so that one taken and one not yet entered are never confused.
    looking: Mutex<()>,
}

impl Claimer {
    /// A claimer that works on at most `slots` runs at once and takes over from executors that
    /// have been silent for `heartbeat_age_limit`.
    pub fn new(engine: Arc<Engine>, slots: usize, heartbeat_age_limit: TimeDelta) -> Self {
        let slots = Arc::new(Semaphore::new(slots));
        Self {
            engine,
            slots,
            heartbeat_age_limit,
            tasks: TaskTracker::new(),
            looking: Mutex::default(),
        }
    }

    /// Claims until the engine drains, then waits until every run was given back.
    pub async fn run(&self) {
        let mut wakeups = self.engine.wakeups.subscribe();
        loop {
            // A claim that found as many as it had slots for is followed by another at once.
            let pause = match self.run_once(self.engine.now()).await {
                Ok(Found::More) => Duration::ZERO,
                Ok(Found::All) => IDLE_POLL,
                Err(error) => {
                    tracing::warn!(%error, "no runs could be claimed");
                    AFTER_ERROR
                }
            };
            tokio::select! {
                // Looked at first: one that drains takes nothing more, however much there is.
                biased;
                () = self.engine.drain.cancelled() => break,
                () = self.next_look(&mut wakeups, pause) => {}
            }
        }
        self.hand_back().await;
    }

    /// Turns under way may end, then calls under way are called off, and every run is given back.
    /// While the database is away that cannot be written, and is left to the heartbeat's age.
    async fn hand_back(&self) {
        self.tasks.close();
        if timeout(self.engine.drain_timeout, self.tasks.wait()).await.is_ok() {
            return;
        }
        self.engine.cut.cancel();
        if timeout(CUT_TIMEOUT, self.tasks.wait()).await.is_err() {
            let runs = self.tasks.len();
            tracing::warn!(runs, "not every run could be handed back; others take over in time");
        }
    }

    /// Waits for a wake-up, but no longer than `pause`, and then for a free slot.
    async fn next_look(&self, wakeups: &mut broadcast::Receiver<Topic>, pause: Duration) {
        if !pause.is_zero() {
            // Whether it was woken or the time ran out, it looks.
            drop(timeout(pause, ready(wakeups)).await);
        }
        drop(self.slots.acquire().await);
    }

    /// One look: orphans first, then what waits.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn run_once(&self, now: DateTime<Utc>) -> Result<Found, StoreError> {
        let free = i64::try_from(self.slots.available_permits()).unwrap_or(i64::MAX);
        if free == 0 {
            return Ok(Found::More);
        }
        let _looking = self.looking.lock().await;
        let waiting = store::claim(&self.engine.pool, now, free).await?;
        let found = i64::try_from(waiting.runs.len()).unwrap_or(i64::MAX);
        self.take_up(waiting, now, "").await?;
        Ok(if found == free { Found::More } else { Found::All })
    }

    /// One look for runs whose executor died.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn take_over_once(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let free = i64::try_from(self.slots.available_permits()).unwrap_or(i64::MAX);
        if free == 0 {
            return Ok(());
        }
        let _looking = self.looking.lock().await;
        let heard_since = now - self.heartbeat_age_limit;
        let orphans = store::orphans(&self.engine.pool, heard_since, self.engine.id, free).await?;
        self.take_up(orphans, now, "its executor is gone").await
    }

    /// One beat of the heart: says that this process is alive, lays the leases the rows give it
    /// beside its work, and takes up what it holds without knowing. Answers whether it is known.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn beat_once(&self, now: DateTime<Utc>) -> Result<bool, StoreError> {
        let _looking = self.looking.lock().await;
        let Some(leases) = store::beat(&self.engine.pool, self.engine.id, now).await? else {
            return Ok(false);
        };
        let unknown = self.engine.roll.compare(&leases);
        if !unknown.is_empty() && !self.engine.drain.is_cancelled() {
            let found = store::forgotten(&self.engine.pool, self.engine.id, &unknown).await?;
            self.take_up(found, now, "its lease was not known here").await?;
        }
        Ok(true)
    }

    async fn take_up(
        &self,
        claimed: Claimed,
        now: DateTime<Utc>,
        cause: &str,
    ) -> Result<(), StoreError> {
        let mut held = Vec::new();
        let mut commits = Vec::new();
        for record in &claimed.runs {
            let Some(permit) = self.permit() else { break };
            match self.lease(record, now, cause) {
                Ok((commit, taken)) => {
                    commits.push(commit);
                    held.push((taken, permit));
                }
                Err(refusal) => {
                    tracing::error!(run_id = %record.spec.id, %refusal, "a run could not be leased");
                }
            }
        }
        if !commits.is_empty() {
            crash::point("executor.before_claim");
        }
        let outcomes = claimed.commit(&commits).await?;
        if !commits.is_empty() {
            crash::point("executor.after_claim");
        }
        for (((run, permit), commit), outcome) in held.into_iter().zip(&commits).zip(outcomes) {
            if outcome == Outcome::Applied {
                telemetry::observe(&commit.write, &commit.span);
                if run.execution.lease_owner.is_some() {
                    self.start(run, permit);
                }
            }
        }
        Ok(())
    }

    fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).try_acquire_owned().ok()
    }

    fn lease(
        &self,
        record: &RunRecord,
        now: DateTime<Utc>,
        cause: &str,
    ) -> Result<(Commit, Taken), Refusal> {
        let plan = record.plan.clone().unwrap_or_default();
        let graph = graph_of(&plan, record.spec.driver, &self.engine.tools);
        let mut draft = Draft::new(record.execution.clone(), self.engine.actor(), now);
        draft.end_leases(&graph, cause)?;
        // One that was on its way to a pause when its executor died has come to rest.
        if draft.execution().needs_executor() {
            draft.lease(self.engine.id);
        }
        let started = match record.execution.state {
            RunState::Executing => {
                draft.lease_steps(&graph, record.spec.limits.max_parallel_steps)?
            }
            RunState::Intake
            | RunState::Planning
            | RunState::Verifying
            | RunState::Recovering
            | RunState::Blocked(_)
            | RunState::Done
            | RunState::Failed
            | RunState::Cancelled => Vec::new(),
        };
        let span =
            trace::work_span("executor", &record.spec.id.to_string(), &record.spec.trace_parent);
        let write = draft.into_write();
        let execution = Execution::clone(&write.execution);
        let commit = Commit::new(write, span.clone(), trace::span_id(&span));
        Ok((commit, Taken { record: record.clone(), plan, execution, started, span }))
    }

    fn start(&self, taken: Taken, permit: OwnedSemaphorePermit) {
        let Taken { record, plan, execution, started, span } = taken;
        let order =
            Order { spec: record.spec, plan, plan_digest: record.plan_digest, span: span.clone() };
        let held = Arc::new(HeldRun::new(Arc::clone(&self.engine), order, execution));
        self.engine.waker.wake(Topic::Run(held.spec.id));
        self.engine.roll.enter(&held);
        self.tasks.spawn(async move {
            work::work(&held, started).await;
            held.engine.roll.leave(&held);
            drop(permit);
        });
    }
}

/// A run whose lease is being written.
struct Taken {
    record: RunRecord,
    plan: Plan,
    execution: Execution,
    started: Vec<usize>,
    span: tracing::Span,
}

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// As many as there were slots for: there may be more.
    More,
    /// All there were.
    All,
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
