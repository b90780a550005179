//! A run that this process has leased.

use super::bounds::graph_of;
use super::call_rights::CallRights;
use super::ended::Ended;
use super::engine::Engine;
use super::lease::{CallUnderWay, Lease};
use super::pending_state::PendingState;
use super::recent_runs::Known;
use crate::driver::Driver;
use crate::fuse::timeout::Timeouts;
use crate::tool::{Folder, Registry, RunServers};
use crate::workspace_git::CloneFolder;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::Duration;
use surety_common::domain::execution::{Execution, Graph, StepProgress};
use surety_common::domain::machine::Refusal;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::receipt::EvidenceReceipt;
use surety_common::domain::run::RunSpec;
use surety_common::domain::step::StepState;
use surety_common::store::{self, RunLease, WritePipeline};
use surety_common::telemetry;
use tokio::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::timeout;

/// A run under this process's lease.
pub struct LeasedRun {
    /// The engine that works on it.
    pub engine: Arc<Engine>,
    /// Its request. The workspace of a run on a git repository is its clone here.
    pub spec: RunSpec,
    /// The plan revision being executed.
    pub plan: Arc<Plan>,
    /// That plan's digest.
    pub plan_digest: String,
    /// That plan's revision, from 1.
    pub plan_revision: u32,
    /// The dependencies of the steps.
    pub graph: Graph,
    /// Its lease.
    pub lease: Arc<Lease>,
    /// The span for all its transitions.
    pub span: tracing::Span,
    pub(super) state: Mutex<PendingState>,
    /// Its folder.
    pub folder: Arc<Folder>,
    /// What this process knows of it, also from its lease before.
    pub(super) known: Arc<Known>,
    /// The MCP servers that its calls started.
    pub(super) servers: RunServers,
    /// What its calls may use, once one was made.
    pub(super) rights: OnceLock<CallRights>,
    /// Set once the workspace was found usable under this lease, and locked for the run.
    pub(super) workspace_ready: OnceLock<()>,
    /// Shared by calls that may write, and held alone by the probes at the end of a step.
    writers: RwLock<()>,
}

impl LeasedRun {
    /// A run with the lease that `execution` names; `taking` begins with the change that takes the lease, where
    /// that is not stored yet.
    pub(super) fn new(
        engine: Arc<Engine>,
        assignment: RunAssignment,
        execution: Arc<Execution>,
        taking: Option<WritePipeline>,
    ) -> Self {
        let RunAssignment { mut spec, plan, plan_digest, span } = assignment;
        let key = RunLease { run_id: spec.id, lease_epoch: execution.lease_epoch };
        let pipeline = taking.clone().unwrap_or_default();
        let lease = Lease::new(key, spec.namespace.clone(), engine.id, taking, &engine.cut);
        let known = engine.recent_runs.take(lease.key());
        let servers = known.servers.under(&lease.lost);
        if spec.repository.is_some() {
            let clone = known.clone.get_or_init(|| CloneFolder::below(&engine.git.clones));
            spec.workspace = clone.tree().to_string_lossy().into_owned();
        }
        let folder = match spec.workspace.as_str() {
            "" => Folder::own(engine.workspaces.join(spec.id.to_string())),
            named => Folder::given(PathBuf::from(named)),
        };
        Self {
            plan_revision: execution.plan_revision,
            graph: graph_of(&plan, spec.driver, &engine.tools.of(&spec.namespace)),
            engine,
            spec,
            plan,
            plan_digest,
            lease: Arc::new(lease),
            span,
            state: Mutex::new(PendingState::new(execution, pipeline)),
            folder: Arc::new(folder),
            known,
            servers,
            rights: OnceLock::new(),
            workspace_ready: OnceLock::new(),
            writers: RwLock::new(()),
        }
    }

    /// Whether the work on it here is over, and what is known of it is kept for its next lease.
    pub(super) fn is_kept(&self) -> bool {
        !self.lease.is_over() && self.lease.was_kept()
    }

    /// Its clone, for a run on a git repository.
    pub(super) fn clone_folder(&self) -> Option<&CloneFolder> {
        self.known.clone.get()
    }

    /// The tools of its namespace.
    pub(super) fn tools(&self) -> Arc<Registry> {
        self.engine.tools.of(&self.spec.namespace)
    }

    /// The tools of its namespace, read again where a worker may have just announced the one with this name.
    pub(super) async fn tools_with(&self, name: Option<&str>) -> Arc<Registry> {
        let tools = self.tools();
        if name.is_none_or(|name| tools.is_reserved(name)) {
            return tools;
        }
        self.engine.tools.refresh_now().await;
        self.tools()
    }

    /// The row with all changes of this process applied.
    pub async fn execution(&self) -> Arc<Execution> {
        // Asked for some eight times a step, and nearly always free.
        if let Ok(state) = self.state.try_lock() {
            return Arc::clone(&state.execution);
        }
        Arc::clone(&self.state.lock().await.execution)
    }

    /// Blocks until a call may begin, which requires a valid lease. None when the work is cancelled
    /// first. `repeated` says whether a successor makes the call again without asking.
    pub(super) async fn begin_call(&self, repeated: bool) -> Option<CallUnderWay<'_>> {
        loop {
            // Counted before the check, so that a lease that becomes invalid in between affects the
            // call.
            let begun = self.lease.enter_call(repeated);
            // A process that was stopped in between checks the time first.
            self.engine.check_lease_validity();
            if self.lease.calls.is_cancelled() {
                return None;
            }
            if self.engine.lease_validity.is_valid() {
                return Some(begun);
            }
            drop(begun);
            tokio::select! {
                biased;
                () = self.lease.calls.cancelled() => return None,
                () = self.engine.lease_validity.valid() => {}
            }
        }
    }

    /// Blocks until no probe at the end of a step looks at the workspace. None when the work is cancelled
    /// first. Take it before a call that may write.
    pub(super) async fn enter_workspace(&self) -> Option<RwLockReadGuard<'_, ()>> {
        tokio::select! {
            biased;
            () = self.lease.calls.cancelled() => None,
            entered = self.writers.read() => Some(entered),
        }
    }

    /// Waits until no call that may write is under way, and holds back those that would begin, for as long
    /// as the answer lives. None when calls take longer than `patience`.
    ///
    /// # Errors
    /// [`Ended::NotHeld`], [`Ended::Draining`] when the work is cancelled first.
    pub(super) async fn hold_calls(
        &self,
        patience: Duration,
    ) -> Result<Option<RwLockWriteGuard<'_, ()>>, Ended> {
        tokio::select! {
            biased;
            () = self.lease.calls.cancelled() => Err(self.called_off()),
            () = self.engine.drain.cancelled() => Err(Ended::Draining),
            held = timeout(patience, self.writers.write()) => Ok(held.ok()),
        }
    }

    /// Why the work was cancelled.
    pub(super) fn called_off(&self) -> Ended {
        if self.lease.lost.is_cancelled() { Ended::NotHeld } else { Ended::Draining }
    }

    /// Waits until the work here is cancelled, or must start again from the row. The latter happens
    /// when the row was changed under this lease, or the run's deadline passed. Used while no work
    /// of the run is in progress here and all of it is committed.
    pub(super) async fn called_away(&self) -> Ended {
        tokio::select! {
            biased;
            () = self.lease.lost.cancelled() => Ended::NotHeld,
            () = self.engine.drain.cancelled() => Ended::Draining,
            () = self.moved() => Ended::Overtaken,
            () = self.time_over() => Ended::Overtaken,
        }
    }

    async fn moved(&self) {
        while self.lease.seen_version.load(Ordering::Relaxed) <= self.execution().await.version {
            self.lease.news.notified().await;
        }
    }

    async fn time_over(&self) {
        let Some(deadline) = self.execution().await.deadline_at else {
            return std::future::pending().await;
        };
        let left = (deadline - self.engine.now()).to_std();
        tokio::time::sleep(left.unwrap_or_default()).await;
    }

    /// The time left of a step's deadline.
    pub async fn time_left(&self, index: usize) -> Duration {
        let execution = self.execution().await;
        let started_at = execution.steps.get(index).and_then(|step| step.started_at);
        let spent = started_at.and_then(|at| (self.engine.now() - at).to_std().ok());
        let deadline = Duration::from_secs(self.spec.limits.step_deadline_s);
        deadline.saturating_sub(spent.unwrap_or_default())
    }

    /// Removes the run's own folder when the run has ended and the folder is empty. Before the end,
    /// another executor may use it.
    pub fn remove_empty_folder(&self) {
        if self.lease.is_over() {
            self.folder.remove_when_empty();
        }
    }

    /// The time limits of calls after the timeouts so far.
    pub fn timeouts(&self) -> MutexGuard<'_, Timeouts> {
        self.known.timeouts()
    }

    /// Every receipt of the run.
    ///
    /// # Errors
    /// [`Ended::Store`]
    pub async fn receipts(&self) -> Result<Vec<EvidenceReceipt>, Ended> {
        let read = || store::receipts(&self.engine.pool, self.spec.id);
        Ok(store::patiently(read).await?)
    }

    /// Whether a receipt records a written file, or files were written before in a run that this one is a fork of.
    pub async fn wrote_files(&self) -> bool {
        self.spec.wrote_before() || self.execution().await.counters.wrote
    }

    /// The driver of the run.
    ///
    /// # Errors
    /// [`Ended::DriverNotServed`]
    pub fn driver(&self) -> Result<&dyn Driver, Ended> {
        let kind = self.spec.driver;
        self.engine.drivers.get(kind).ok_or(Ended::DriverNotServed(kind))
    }

    /// Whether a step is running here, and may take another turn.
    pub(super) async fn is_step_running(&self, index: usize) -> bool {
        let execution = self.execution().await;
        execution.state == RunState::Executing
            && !execution.is_pausing()
            && execution.steps.get(index).is_some_and(|step| step.state == StepState::Running)
    }

    /// The span of the work on one step under this lease.
    pub fn step_span(&self, index: usize) -> tracing::Span {
        let step = telemetry::StepSpan {
            service: "executor",
            run_id: &self.spec.id.to_string(),
            step_id: self.graph.id(index),
            driver: self.spec.driver.as_str(),
            lease_epoch: u64::try_from(self.lease.epoch).unwrap_or_default(),
        };
        telemetry::step_span(&step, &self.spec.trace_parent)
    }

    /// The span of a change: that of the step that makes it, else the run's.
    pub(super) fn present_span(&self) -> tracing::Span {
        let present = tracing::Span::current();
        if present.is_none() { self.span.clone() } else { present }
    }

    /// One step, from the plan and from the row.
    ///
    /// # Errors
    /// [`Ended::Refused`] when the plan has no such step, which never happens with a consistent
    /// row.
    pub async fn step(&self, index: usize) -> Result<(&PlanStep, Arc<StepProgress>), Ended> {
        let execution = self.execution().await;
        match (self.plan.steps.get(index), execution.steps.get(index)) {
            (Some(step), Some(progress)) => Ok((step, Arc::clone(progress))),
            (None, _) | (_, None) => Err(Ended::Refused(Refusal::Meaningless)),
        }
    }
}

/// The input of a leased run.
pub(super) struct RunAssignment {
    /// Its request.
    pub spec: RunSpec,
    /// The plan revision being executed.
    pub plan: Arc<Plan>,
    /// That plan's digest.
    pub plan_digest: String,
    /// The span for all its transitions.
    pub span: tracing::Span,
}
