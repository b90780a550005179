//! A run that this process holds the lease of.

use super::Engine;
use super::bounds::graph_of;
use super::pending_state::PendingState;
use crate::fuse::timeout::Timeouts;
use crate::tool::Folder;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;
use surety_common::domain::execution::{Execution, Graph, StepProgress};
use surety_common::domain::fault::Fault;
use surety_common::domain::machine::Refusal;
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::receipt::EvidenceReceipt;
use surety_common::domain::run::RunSpec;
use surety_common::domain::step::StepState;
use surety_common::store::{self, RunLease, StoreError};
use surety_common::telemetry;
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;

/// Why work on a run ends here.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The lease is another's, or the run was ended by somebody else.
    #[error("the run is no longer held here")]
    NotHeld,
    /// Somebody else moved the row under changes that were on their way: they are lost, and the work
    /// goes on from the row.
    #[error("the run was moved by somebody else")]
    Overtaken,
    /// This process drains.
    #[error("the executor drains")]
    Draining,
    /// A move that the machine refuses: the work here and the row disagree.
    #[error("a move was refused: {0}")]
    Refused(#[from] Refusal),
    /// The gate refused to decide, for a reason that waiting does not mend.
    #[error("the gate did not decide: {0}")]
    Gate(Fault),
    /// The work on a step panicked: a defect of ours.
    #[error("the work on a step panicked")]
    Panicked,
    /// The rows could not be read or written for a reason that waiting does not mend.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A run under this process's lease.
pub struct LeasedRun {
    /// The engine it is worked on by.
    pub engine: Arc<Engine>,
    /// What it was asked to do.
    pub spec: RunSpec,
    /// The plan revision being executed.
    pub plan: Arc<Plan>,
    /// That plan's digest.
    pub plan_digest: String,
    /// That plan's revision, from 1.
    pub plan_revision: u32,
    /// Who depends on whom.
    pub graph: Graph,
    /// Cancelled when the run is no longer held.
    pub lost: CancellationToken,
    /// Cancelled with `lost`, and when a drain has taken its time: tool calls under way are ended.
    pub calls: CancellationToken,
    /// Cancelled when calls under way must be over at once.
    pub kill: CancellationToken,
    /// Calls under way that a successor would make again without asking.
    repeating: AtomicUsize,
    pub(super) lease_epoch: i64,
    over: AtomicBool,
    /// Rung when somebody else may have moved the row under this lease.
    pub(super) news: Notify,
    /// The version that the row had when it was last looked at.
    pub(super) seen_version: AtomicI64,
    /// The span all its transitions are recorded in.
    pub span: tracing::Span,
    pub(super) state: Mutex<PendingState>,
    /// Where it works.
    pub folder: Arc<Folder>,
    timeouts: std::sync::Mutex<Timeouts>,
}

impl LeasedRun {
    /// A run whose lease was just written as `execution` says.
    pub fn new(engine: Arc<Engine>, assignment: RunAssignment, execution: Execution) -> Self {
        let RunAssignment { spec, plan, plan_digest, span } = assignment;
        let folder = match spec.workspace.as_str() {
            "" => Folder::own(engine.workspaces.join(spec.id.to_string())),
            named => Folder::given(PathBuf::from(named)),
        };
        Self {
            plan_revision: execution.plan_revision,
            lease_epoch: execution.lease_epoch,
            over: AtomicBool::new(false),
            news: Notify::new(),
            seen_version: AtomicI64::new(0),
            graph: graph_of(&plan, spec.driver, &engine.tools),
            calls: engine.cut.child_token(),
            kill: CancellationToken::new(),
            repeating: AtomicUsize::new(0),
            engine,
            spec,
            plan,
            plan_digest,
            lost: CancellationToken::new(),
            span,
            state: Mutex::new(PendingState::new(execution)),
            folder: Arc::new(folder),
            timeouts: std::sync::Mutex::default(),
        }
    }

    /// The lease it is worked on under.
    pub fn lease(&self) -> RunLease {
        RunLease { run_id: self.spec.id, lease_epoch: self.lease_epoch }
    }

    /// Calls the work off: the run is no longer held here.
    pub fn lose(&self) {
        self.lost.cancel();
        self.calls.cancel();
    }

    /// Calls the work off, and leaves no command the time to end itself: somebody else may soon be
    /// at work.
    pub fn forfeit(&self) {
        self.kill.cancel();
        self.lose();
    }

    /// Whether a call is under way that a successor would make again without asking.
    pub fn would_be_repeated(&self) -> bool {
        self.repeating.load(Ordering::SeqCst) > 0
    }

    /// Waits until a call may begin: not while others may take this process for dead. None when the
    /// work is called off first. `repeated` says whether a successor makes the call again unasked.
    pub(super) async fn begin_call(&self, repeated: bool) -> Option<Begun<'_>> {
        loop {
            // Entered before it is looked, so that a loss of contact in between meets the call.
            let begun = Begun::enter(self, repeated);
            // A process that was stopped in between looks at the time first.
            self.engine.check_lease_validity();
            if self.calls.is_cancelled() {
                return None;
            }
            if self.engine.lease_validity.is_valid() {
                return Some(begun);
            }
            drop(begun);
            tokio::select! {
                biased;
                () = self.calls.cancelled() => return None,
                () = self.engine.lease_validity.valid() => {}
            }
        }
    }

    /// Why the work was called off.
    pub(super) fn called_off(&self) -> Ended {
        if self.lost.is_cancelled() { Ended::NotHeld } else { Ended::Draining }
    }

    /// Waits until the work here is called off, or until it has to be begun again from the row: that
    /// was moved under this lease, or the run's time is over. For waits in which nothing of the run is
    /// under way here, and all of it is stored.
    pub(super) async fn called_away(&self) -> Ended {
        tokio::select! {
            biased;
            () = self.lost.cancelled() => Ended::NotHeld,
            () = self.engine.drain.cancelled() => Ended::Draining,
            () = self.moved() => Ended::Overtaken,
            () = self.time_over() => Ended::Overtaken,
        }
    }

    async fn moved(&self) {
        while self.seen_version.load(Ordering::Relaxed) <= self.execution().await.version {
            self.news.notified().await;
        }
    }

    async fn time_over(&self) {
        let Some(deadline) = self.execution().await.deadline_at else {
            return std::future::pending().await;
        };
        let left = (deadline - self.engine.now()).to_std();
        tokio::time::sleep(left.unwrap_or_default()).await;
    }

    /// Looks at the row, calls the work off when it names another lease, and says when it was moved
    /// under this one. When the look fails, the next heartbeat tells whether the lease is gone.
    pub async fn look_whether_held(&self) {
        match store::find_run(&self.engine.pool, self.spec.id).await {
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
                tracing::debug!(run_id = %self.spec.id, %error, "the run could not be looked at");
            }
        }
    }

    pub(super) fn holds(&self, row: &Execution) -> bool {
        row.lease_owner == Some(self.engine.id) && row.lease_epoch == self.lease_epoch
    }

    /// What is left of a step's deadline.
    pub async fn time_left(&self, index: usize) -> Duration {
        let execution = self.execution().await;
        let started_at = execution.steps.get(index).and_then(|step| step.started_at);
        let spent = started_at.and_then(|at| (self.engine.now() - at).to_std().ok());
        let deadline = Duration::from_secs(self.spec.limits.step_deadline_s);
        deadline.saturating_sub(spent.unwrap_or_default())
    }

    /// Says that the run has ended.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Removes the run's own folder when the run is over and nothing was put into it. While it is
    /// not over, somebody else may be at work there.
    pub fn remove_empty_folder(&self) {
        if self.over.load(Ordering::Relaxed) {
            self.folder.remove_when_empty();
        }
    }

    /// How long calls may take, as their timeouts so far say.
    pub fn timeouts(&self) -> MutexGuard<'_, Timeouts> {
        self.timeouts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every receipt of the run.
    ///
    /// # Errors
    /// [`Ended::Store`]
    pub async fn receipts(&self) -> Result<Vec<EvidenceReceipt>, Ended> {
        let read = || store::receipts(&self.engine.pool, self.spec.id);
        Ok(store::patiently(read).await?)
    }

    /// Whether any receipt says that a file was written.
    pub async fn wrote_files(&self) -> bool {
        self.execution().await.counters.wrote
    }

    /// Where one step stands.
    pub async fn step_state(&self, index: usize) -> StepState {
        let execution = self.execution().await;
        execution.steps.get(index).map(|step| step.state).unwrap_or_default()
    }

    /// The span of the work on one step under this lease.
    pub fn step_span(&self, index: usize) -> tracing::Span {
        let step = telemetry::StepSpan {
            service: "executor",
            run_id: &self.spec.id.to_string(),
            step_id: self.graph.id(index),
            driver: self.spec.driver.as_str(),
            lease_epoch: u64::try_from(self.lease_epoch).unwrap_or_default(),
        };
        telemetry::step_span(&step, &self.spec.trace_parent)
    }

    /// The span that a change is recorded in: the step's that makes it, else the run's own.
    pub(super) fn present_span(&self) -> tracing::Span {
        let present = tracing::Span::current();
        if present.is_none() { self.span.clone() } else { present }
    }

    /// One step of it, from the plan and from the row.
    ///
    /// # Errors
    /// [`Ended::Refused`] when the plan has no such step, which a consistent row never asks for.
    pub async fn step(&self, index: usize) -> Result<(&PlanStep, StepProgress), Ended> {
        let execution = self.execution().await;
        match (self.plan.steps.get(index), execution.steps.get(index)) {
            (Some(step), Some(progress)) => Ok((step, progress.clone())),
            (None, _) | (_, None) => Err(Ended::Refused(Refusal::Meaningless)),
        }
    }
}

/// What a held run is made from.
pub struct RunAssignment {
    /// What it was asked to do.
    pub spec: RunSpec,
    /// The plan revision being executed.
    pub plan: Arc<Plan>,
    /// That plan's digest.
    pub plan_digest: String,
    /// The span all its transitions are recorded in.
    pub span: tracing::Span,
}

/// A call that is under way, until it is dropped.
pub(super) struct Begun<'a>(Option<&'a AtomicUsize>);

impl<'a> Begun<'a> {
    fn enter(run: &'a LeasedRun, repeated: bool) -> Self {
        let repeating = repeated.then_some(&run.repeating);
        if let Some(count) = repeating {
            count.fetch_add(1, Ordering::SeqCst);
        }
        Self(repeating)
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
