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
use surety_common::domain::run::RunRecord;
use surety_common::store::{
    self, Claimed, Commit, Lanes, Leased, Look, Outcome, Own, Pulse, StoreError, Topic, Unread,
    Unreadable, Want,
};
use surety_common::telemetry::{self, trace};
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore, broadcast};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::TaskTracker;

/// How long it waits after a failed look.
const AFTER_ERROR: Duration = Duration::from_millis(500);

/// How long it waits before it looks for lanes again, having looked a moment ago.
const BEFORE_LOOK: Duration = Duration::from_millis(50);

/// How long calls that were called off may take to end and runs to be written back, where the
/// database is there to write them.
const CUT_TIMEOUT: Duration = Duration::from_secs(10);
/// What is kept of the drain's time for handing runs back: a fifth of it, a second at most.
const HAND_BACK: (u32, Duration) = (5, Duration::from_secs(1));

/// What looking for runs takes: what looks have shown so far, and a connection that claims and
/// heartbeats have to themselves, so that a process whose others are all busy is not taken for dead.
struct Looking {
    lanes: Lanes,
    unreadable: Unreadable,
    own: Own,
}

impl Looking {
    /// Leaves runs alone whose rows do not read. Each is told of once: there is nothing to do about
    /// it here, and the row is mended by a person.
    fn leave_alone(&mut self, unread: &[Unread], now: DateTime<Utc>) {
        for Unread { run_id, why } in unread {
            if self.unreadable.leave_alone(*run_id, &why.to_string(), now) {
                tracing::error!(%run_id, error = %why, "a run's row does not read; it is left alone");
            }
        }
    }
}

/// The loop that takes runs up and hands each to a task of its own.
pub struct Claimer {
    engine: Arc<Engine>,
    slots: Arc<Semaphore>,
    heartbeat_age_limit: TimeDelta,
    /// The work on each run, and the writing of leases that are taken over.
    tasks: TaskTracker,
    /// Held while leases are taken, so that one taken and one not yet entered are never confused.
    looking: Mutex<Looking>,
    /// Rung when a heartbeat saw that a run waits.
    seen: Notify,
}

impl Claimer {
    /// A claimer that works on at most `slots` runs at once and takes over from executors that
    /// have been silent for `heartbeat_age_limit`.
    pub fn new(engine: Arc<Engine>, slots: usize, heartbeat_age_limit: TimeDelta) -> Self {
        let slots = Arc::new(Semaphore::new(slots));
        let looking = Looking {
            lanes: Lanes::default(),
            unreadable: Unreadable::default(),
            own: Own::new(engine.pool.clone()),
        };
        Self {
            engine,
            slots,
            heartbeat_age_limit,
            tasks: TaskTracker::new(),
            looking: Mutex::new(looking),
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
        let patience = self.engine.drain_timeout;
        let deadline = Instant::now() + patience;
        let kept = (patience / HAND_BACK.0).min(HAND_BACK.1);
        if timeout_at(deadline - kept, self.tasks.wait()).await.is_ok() {
            return true;
        }
        self.engine.cut.cancel();
        let answers = timeout_at(deadline, store::look(&self.engine.pool)).await;
        let until = if matches!(answers, Ok(Ok(()))) { deadline + CUT_TIMEOUT } else { deadline };
        let all = timeout_at(until, self.tasks.wait()).await.is_ok();
        if !all {
            let runs = self.tasks.len();
            tracing::warn!(runs, "not every run could be handed back; others take over in time");
        }
        all
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
        drop(self.slots.acquire().await);
        // One claim answers all that was said before it.
        *wakeups = wakeups.resubscribe();
    }

    async fn woken(&self, wakeups: &mut broadcast::Receiver<Topic>) {
        tokio::select! {
            () = ready(wakeups) => {}
            () = self.seen.notified() => {}
        }
    }

    /// One claim of runs that wait, and a look for further lanes where one is due.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn run_once(&self, now: DateTime<Utc>) -> Result<Found, StoreError> {
        let mut looking = self.looking.lock().await;
        let looking = &mut *looking;
        let slots = self.slots.available_permits();
        if slots == 0 {
            return Ok(Found::More);
        }
        let held = self.engine.roll.held();
        let except = looking.unreadable.left_alone(now);
        let want = Want { now, owner: self.engine.id, slots, held: &held, except: &except };
        let Leased { runs, unread, mut more, look } =
            store::claim(&mut looking.own, &mut looking.lanes, want).await?;
        if !runs.is_empty() {
            crash::point("executor.after_claim");
        }
        for record in runs {
            // Slots are taken here only, so there is one for each; were there none, the next
            // heartbeat would find the lease.
            let Some(permit) = self.permit() else { break };
            self.start(Taken::claimed(record), permit);
        }
        self.let_go(looking, &unread, now).await?;
        if look == Look::Due {
            more |= store::find_lanes(&mut looking.own, &mut looking.lanes, now).await?;
        }
        Ok(match (more, look) {
            (true, _) => Found::More,
            (false, Look::Due | Look::Fresh) => Found::All,
            (false, Look::Recent) => Found::Unsure,
        })
    }

    /// One look for runs whose executor died.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn take_over_once(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let mut looking = self.looking.lock().await;
        let free = i64::try_from(self.slots.available_permits()).unwrap_or(i64::MAX);
        if free == 0 {
            return Ok(());
        }
        let heard_since = now - self.heartbeat_age_limit;
        let except = looking.unreadable.left_alone(now);
        let (pool, me) = (&self.engine.pool, self.engine.id);
        let orphans = store::orphans(pool, heard_since, me, free, &except).await?;
        looking.leave_alone(&orphans.unread, now);
        self.take_up(orphans, now, "its executor is gone").await
    }

    /// One beat of the heart: says that this process is alive, lays the leases the rows give it
    /// beside its work, takes up what it holds without knowing, and rings when a run waits. Answers
    /// whether somebody's leases may be taken over; none when this process is not known.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn beat_once(&self, now: DateTime<Utc>) -> Result<Option<bool>, StoreError> {
        let mut looking = self.looking.lock().await;
        let heard_since = now - self.heartbeat_age_limit;
        let pulse = store::beat(&mut looking.own, self.engine.id, now, heard_since).await?;
        let Some(Pulse { leases, orphans, ready }) = pulse else { return Ok(None) };
        let unknown = self.engine.roll.compare(&leases);
        if self.engine.drain.is_cancelled() {
            return Ok(Some(false));
        }
        if ready && self.slots.available_permits() > 0 {
            // It may stand where claims no longer look.
            looking.lanes.sweep();
            self.seen.notify_one();
        }
        if !unknown.is_empty() {
            let mut found = store::forgotten(&self.engine.pool, self.engine.id, &unknown).await?;
            let unread = std::mem::take(&mut found.unread);
            self.take_up(found, now, "its lease was not known here").await?;
            self.let_go(&mut looking, &unread, now).await?;
        }
        Ok(Some(orphans))
    }

    /// Gives leases back whose rows do not read, and leaves them alone.
    async fn let_go(
        &self,
        looking: &mut Looking,
        unread: &[Unread],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        looking.leave_alone(unread, now);
        let run_ids: Vec<_> = unread.iter().map(|unread| unread.run_id).collect();
        match run_ids.as_slice() {
            [] => Ok(()),
            run_ids => store::let_go(&self.engine.pool, self.engine.id, run_ids, now).await,
        }
    }

    async fn take_up(
        &self,
        claimed: Claimed,
        now: DateTime<Utc>,
        cause: &str,
    ) -> Result<(), StoreError> {
        // Counted before the drain is looked at: a drain that this look did not see waits for the
        // leases written here, and for the work that hands them back.
        let _under_way = self.tasks.token();
        if self.engine.drain.is_cancelled() {
            return claimed.commit(&[]).await.map(drop);
        }
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
                self.engine.waker.wake(Topic::Run(commit.write.execution.run_id));
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
        let RunRecord { spec, plan_digest, .. } = record.clone();
        Ok((commit, Taken { order: Order { spec, plan, plan_digest, span }, execution, started }))
    }

    fn start(&self, taken: Taken, permit: OwnedSemaphorePermit) {
        let Taken { order, execution, started } = taken;
        let held = Arc::new(HeldRun::new(Arc::clone(&self.engine), order, execution));
        self.engine.roll.enter(&held);
        self.tasks.spawn(async move {
            work::work(&held, started).await;
            held.engine.roll.leave(&held);
            drop(permit);
        });
    }
}

/// What a claim left.
pub enum Found {
    /// There may be more.
    More,
    /// There is no more.
    All,
    /// There is no more where it was looked; other lanes were not looked for again so soon.
    Unsure,
}

/// A run whose lease is being written, or is.
struct Taken {
    order: Order,
    execution: Execution,
    started: Vec<usize>,
}

impl Taken {
    /// A run that is leased already; its steps are started with its first turn.
    fn claimed(record: RunRecord) -> Self {
        let RunRecord { spec, plan, plan_digest, execution, .. } = record;
        let span = trace::work_span("executor", &spec.id.to_string(), &spec.trace_parent);
        let order = Order { spec, plan: plan.unwrap_or_default(), plan_digest, span };
        Self { order, execution, started: Vec::new() }
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
