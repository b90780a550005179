//! A run that this process holds the lease of.

use super::Engine;
use crate::fuse::timeout::Timeouts;
use crate::tool::{ToolError, Workspace};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::{Execution, Graph, StepProgress};
use surety_common::domain::fault::Fault;
use surety_common::domain::machine::Refusal;
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::receipt::EvidenceReceipt;
use surety_common::domain::run::RunSpec;
use surety_common::domain::step::StepState;
use surety_common::store::{self, Artifact, Commit, HeldLease, Outcome, StoreError, Topic};
use surety_common::telemetry::{self, trace};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Why work on a run ends here.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The lease is another's, or the run was ended by somebody else.
    #[error("the run is no longer held here")]
    NotHeld,
    /// This process drains.
    #[error("the executor drains")]
    Draining,
    /// A move that the machine refuses: the work here and the row disagree.
    #[error("a move was refused: {0}")]
    Refused(#[from] Refusal),
    /// The gate refused to decide, for a reason that waiting does not mend.
    #[error("the gate did not decide: {0}")]
    Gate(Fault),
    /// A step's task panicked: a defect of ours.
    #[error("a step's task panicked")]
    Panicked,
    /// The rows could not be read or written for a reason that waiting does not mend.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A run under this process's lease. The aggregate in memory is the row as it was last written.
pub struct HeldRun {
    /// The engine it is worked on by.
    pub engine: Arc<Engine>,
    /// What it was asked to do.
    pub spec: RunSpec,
    /// The plan revision being executed.
    pub plan: Plan,
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
    lease_epoch: i64,
    over: AtomicBool,
    /// The span all its transitions are recorded in.
    pub span: tracing::Span,
    execution: Mutex<Arc<Execution>>,
    workspace: OnceLock<Arc<Workspace>>,
    timeouts: std::sync::Mutex<Timeouts>,
}

impl HeldRun {
    /// A run whose lease was just written as `execution` says.
    pub fn new(engine: Arc<Engine>, order: Order, execution: Execution) -> Self {
        let Order { spec, plan, plan_digest, span } = order;
        Self {
            plan_revision: execution.plan_revision,
            lease_epoch: execution.lease_epoch,
            over: AtomicBool::new(false),
            graph: Graph::of(&plan),
            calls: engine.cut.child_token(),
            engine,
            spec,
            plan,
            plan_digest,
            lost: CancellationToken::new(),
            span,
            execution: Mutex::new(Arc::new(execution)),
            workspace: OnceLock::new(),
            timeouts: std::sync::Mutex::default(),
        }
    }

    /// The lease it is worked on under.
    pub fn lease(&self) -> HeldLease {
        HeldLease { run_id: self.spec.id, lease_epoch: self.lease_epoch }
    }

    /// Calls the work off: the run is no longer held here.
    pub fn lose(&self) {
        self.lost.cancel();
        self.calls.cancel();
    }

    /// Looks at the row, and calls the work off when it names another lease. A look that fails is
    /// made up for by the next heartbeat.
    pub async fn look_whether_held(&self) {
        match store::find_run(&self.engine.pool, self.spec.id).await {
            Ok(Some(record)) if self.holds(&record.execution) => {}
            Ok(_) => self.lose(),
            Err(error) => {
                tracing::debug!(run_id = %self.spec.id, %error, "the run could not be looked at");
            }
        }
    }

    fn holds(&self, row: &Execution) -> bool {
        row.lease_owner == Some(self.engine.id) && row.lease_epoch == self.lease_epoch
    }

    /// What is left of a step's deadline.
    pub async fn time_left(&self, index: usize) -> Duration {
        let execution = self.execution.lock().await;
        let started_at = execution.steps.get(index).and_then(|step| step.started_at);
        let spent = started_at.and_then(|at| (self.engine.now() - at).to_std().ok());
        let deadline = Duration::from_secs(self.spec.limits.step_deadline_s);
        deadline.saturating_sub(spent.unwrap_or_default())
    }

    /// The folder it works in, opened at the first call that needs one. A run that names none gets
    /// one of its own.
    ///
    /// # Errors
    /// The folder cannot be made or opened.
    pub fn workspace(&self) -> Result<Arc<Workspace>, ToolError> {
        if let Some(workspace) = self.workspace.get() {
            return Ok(Arc::clone(workspace));
        }
        let workspace = Arc::new(Workspace::open(&self.folder()?)?);
        Ok(Arc::clone(self.workspace.get_or_init(|| workspace)))
    }

    fn folder(&self) -> Result<PathBuf, ToolError> {
        if !self.spec.workspace.is_empty() {
            return Ok(PathBuf::from(&self.spec.workspace));
        }
        let folder = self.own_folder();
        std::fs::create_dir_all(&folder)
            .map_err(|error| ToolError::io(folder.display(), &error))?;
        Ok(folder)
    }

    fn own_folder(&self) -> PathBuf {
        self.engine.workspaces.join(self.spec.id.to_string())
    }

    /// Removes the run's own folder when the run is over and nothing was put into it. While it is
    /// not over, somebody else may be at work there.
    pub fn remove_empty_folder(&self) {
        let over = self.over.load(Ordering::Relaxed);
        if over && self.spec.workspace.is_empty() && self.workspace.get().is_some() {
            // A folder with files in it stays: it is what the run made.
            drop(std::fs::remove_dir(self.own_folder()));
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
        self.execution.lock().await.counters.wrote
    }

    /// The row as it was last written.
    pub async fn execution(&self) -> Arc<Execution> {
        Arc::clone(&*self.execution.lock().await)
    }

    /// Where one step stands, as it was last written.
    pub async fn step_state(&self, index: usize) -> StepState {
        let execution = self.execution.lock().await;
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
    fn present_span(&self) -> tracing::Span {
        let present = tracing::Span::current();
        if present.is_none() { self.span.clone() } else { present }
    }

    /// One step of it, from the plan and from the row.
    ///
    /// # Errors
    /// [`Ended::Refused`] when the plan has no such step, which a consistent row never asks for.
    pub async fn step(&self, index: usize) -> Result<(&PlanStep, StepProgress), Ended> {
        let execution = self.execution.lock().await;
        match (self.plan.steps.get(index), execution.steps.get(index)) {
            (Some(step), Some(progress)) => Ok((step, progress.clone())),
            (None, _) | (_, None) => Err(Ended::Refused(Refusal::Meaningless)),
        }
    }

    /// Makes one change. When somebody else moved the row meanwhile and the lease still holds, the
    /// change is thought out again over the row as it is.
    ///
    /// # Errors
    /// [`Ended`]; then nothing was changed.
    pub async fn change<T>(
        &self,
        change: impl Fn(&mut Draft) -> Result<T, Refusal>,
    ) -> Result<T, Ended> {
        self.change_with(Vec::new(), change).await
    }

    /// As [`Self::change`], with outputs that the change refers to by digest.
    ///
    /// # Errors
    /// [`Ended`]; then nothing was changed.
    pub async fn change_with<T>(
        &self,
        artifacts: Vec<Artifact>,
        change: impl Fn(&mut Draft) -> Result<T, Refusal>,
    ) -> Result<T, Ended> {
        let span = self.present_span();
        let mut execution = self.execution.lock().await;
        loop {
            let mut draft =
                Draft::new(Execution::clone(&execution), self.engine.actor(), self.engine.now());
            let answer = change(&mut draft)?;
            let write = draft.into_write();
            let next = write.execution.clone();
            let mut commit = Commit::new(write, span.clone(), trace::span_id(&span));
            commit.artifacts.clone_from(&artifacts);
            match self.engine.committer.commit(commit).await? {
                Outcome::Applied => {
                    self.over.fetch_or(next.state.is_terminal(), Ordering::Relaxed);
                    *execution = Arc::new(next);
                    self.engine.waker.wake(Topic::Run(self.spec.id));
                    return Ok(answer);
                }
                Outcome::Lost => *execution = Arc::new(self.read_again().await?),
            }
        }
    }

    /// Reads the row again, for example after the gate moved it.
    ///
    /// # Errors
    /// [`Ended::NotHeld`] when the lease is gone.
    pub async fn refresh(&self) -> Result<(), Ended> {
        let mut execution = self.execution.lock().await;
        *execution = Arc::new(self.read_again().await?);
        Ok(())
    }

    async fn read_again(&self) -> Result<Execution, Ended> {
        let read = || store::find_run(&self.engine.pool, self.spec.id);
        let found = store::patiently(read).await?;
        let row = found.map(|record| record.execution);
        let over = row.as_ref().is_none_or(|row| row.state.is_terminal());
        self.over.fetch_or(over, Ordering::Relaxed);
        match row {
            Some(row) if self.holds(&row) => Ok(row),
            Some(_) | None => {
                self.lose();
                Err(Ended::NotHeld)
            }
        }
    }
}

/// What a held run is made from.
pub struct Order {
    /// What it was asked to do.
    pub spec: RunSpec,
    /// The plan revision being executed.
    pub plan: Plan,
    /// That plan's digest.
    pub plan_digest: String,
    /// The span all its transitions are recorded in.
    pub span: tracing::Span,
}
