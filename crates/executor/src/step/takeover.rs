//! Runs that are leased already: those of dead executors, and those that this process holds without
//! knowing it.
//!
//! ```text
//!   heartbeat --found--> tend --+-- an unknown lease of this process --> leased again
//!                               +-- a silent executor -----------------> taken over
//!   drain ---------------------------- all remaining leases -----------> released
//! ```

use super::bounds::graph_of;
use super::claim::{Claimer, Taken};
use super::leased_run::RunAssignment;
use super::slots::Free;
use crate::round::sweep_views;
use crate::workspace_git::sweep_clones;
use chrono::{DateTime, Utc};
use std::sync::Arc;
use std::time::Duration;
use surety_common::crash;
use surety_common::domain::execution::deaths;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::{Deaths, Execution, Graph, OpenCall, Wait};
use surety_common::domain::machine::Refusal;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::plan::Plan;
use surety_common::domain::run::RunRecord;
use surety_common::domain::stop::WaitingOn;
use surety_common::store::{
    self, Claimed, Commit, Outcome, Owner, RunLease, StoreError, Topic, Unread,
};
use surety_common::telemetry::{self, trace};
use tokio::sync::watch;
use tokio::time::timeout;
use uuid::Uuid;

/// How long a process that shuts down searches for unknown leases: if the database is unavailable,
/// others find them by the heartbeat's age.
const LAST_LOOK: Duration = Duration::from_secs(1);
/// Why the leases of a dead executor's runs end.
const EXECUTOR_DIED: &str = "its executor is dead";

/// The work that a heartbeat found.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The leases of this process in the rows.
    pub(super) leases: Vec<RunLease>,
    /// Other owners of leases that have been silent for too long.
    pub(super) silent: Vec<Owner>,
    /// Whether a run waits for an executor.
    pub(super) ready: bool,
}

impl Claimer {
    /// Does the work that heartbeats find, beside them, so that the next heartbeat is on time.
    /// Failed work is found again by a later one.
    pub async fn tend(&self, mut heartbeats: watch::Receiver<Found>) {
        while heartbeats.changed().await.is_ok() {
            let found = heartbeats.borrow_and_update().clone();
            if let Err(error) = self.tend_once(&found, self.engine.now()).await {
                tracing::warn!(%error, "takeover: work that a heartbeat found failed; retrying with a later one");
            }
        }
    }

    /// Compares the leases in the rows with the work here, and works on unknown leases. Takes over
    /// the runs of silent executors, and notifies the claimer when a run waits.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn tend_once(&self, found: &Found, now: DateTime<Utc>) -> Result<(), StoreError> {
        let Found { leases, silent, ready } = found;
        // With invalid leases, work that is started here would be taken over at once.
        if !self.engine.lease_validity.is_valid() {
            return Ok(());
        }
        let quiet = silent.is_empty() && !ready && self.engine.registry.unknown(leases).is_empty();
        if quiet || self.engine.drain.is_cancelled() {
            return Ok(());
        }
        let mut scanner = self.scanner.lock().await;
        if self.engine.drain.is_cancelled() {
            return Ok(());
        }
        if *ready && self.slots.free() > 0 {
            // The run may be in a part of a queue that claims no longer scan.
            scanner.queues.scan_from_front();
            self.seen.notify_one();
        }
        // A claim in progress has registered its leases by now.
        let unknown = self.engine.registry.unknown(leases);
        if !unknown.is_empty() {
            let free = self.slots.take_free();
            let mut found = store::forgotten(&self.engine.pool, self.engine.id, &unknown).await?;
            let unread = std::mem::take(&mut found.unread);
            if free.count() == 0 {
                // Without a free slot it is released, so that it does not wait behind queued runs.
                self.give_back(found, now, "the executor did not know its lease").await?;
            } else {
                self.take_up(found, free, now, "the executor did not know its lease").await?;
            }
            self.let_go(&unread, now).await?;
        }
        if silent.is_empty() { Ok(()) } else { self.take_over(silent, now).await }
    }

    /// One scan for runs of dead executors.
    async fn take_over(&self, silent: &[Owner], now: DateTime<Utc>) -> Result<(), StoreError> {
        let free = self.slots.take_free();
        let count = i64::try_from(free.count()).unwrap_or(i64::MAX);
        if count == 0 {
            return Ok(());
        }
        let except = self.left_alone(now);
        let (pool, me) = (&self.engine.pool, self.engine.id);
        let orphans = store::orphans(pool, me, silent, count, &except).await?;
        self.leave_alone(&orphans.unread, now);
        if !orphans.runs.is_empty() {
            let scratch = self.engine.sandbox.scratch().to_owned();
            let clones = self.engine.git.clones.clone();
            // What it cannot remove it logs itself.
            drop(tokio::task::spawn_blocking(move || {
                sweep_views(&scratch) + sweep_clones(&clones)
            }));
        }
        self.take_up(orphans, free, now, EXECUTOR_DIED).await
    }

    async fn take_up(
        &self,
        claimed: Claimed,
        mut free: Free,
        now: DateTime<Utc>,
        cause: &'static str,
    ) -> Result<(), StoreError> {
        // Counted before the drain is checked: a drain that starts later waits for the leases
        // written here, and for their release.
        let _under_way = self.tasks.token();
        if self.engine.drain.is_cancelled() {
            return claimed.commit(&[], self.engine.committer.signing()).await.map(drop);
        }
        let mut held = Vec::new();
        let mut commits = Vec::new();
        for record in &claimed.runs {
            let Some(slot) = free.take() else { break };
            match self.lease(record, now, cause) {
                Ok((commit, taken)) => {
                    commits.push(commit);
                    held.push((taken, slot));
                }
                Err(refusal) => refused(record, &refusal),
            }
        }
        drop(free);
        if !commits.is_empty() {
            crash::point("executor.before_take_over");
        }
        let outcomes = claimed.commit(&commits, self.engine.committer.signing()).await?;
        if !commits.is_empty() {
            crash::point("executor.after_take_over");
        }
        for (((run, slot), commit), outcome) in held.into_iter().zip(&commits).zip(outcomes) {
            if outcome == Outcome::Applied {
                telemetry::observe(&commit.write, &commit.span);
                self.engine.waker.wake(Topic::Run(commit.write.execution.run_id));
                if run.execution.lease_owner.is_some() {
                    self.start(run, slot);
                }
            }
        }
        Ok(())
    }

    fn lease(
        &self,
        record: &RunRecord,
        now: DateTime<Utc>,
        cause: &'static str,
    ) -> Result<(Commit, Taken), Refusal> {
        let Ending { plan, graph, mut draft } = self.end_leases(record, now, cause)?;
        // A run that was to be paused when its executor died is now blocked.
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
        let commit = commit(record, draft);
        let execution = Arc::clone(&commit.write.execution);
        let span = commit.span.clone();
        let RunRecord { spec, plan_digest, .. } = record.clone();
        Ok((
            commit,
            Taken {
                assignment: RunAssignment { spec, plan, plan_digest, span },
                execution,
                started,
            },
        ))
    }

    fn end_leases(
        &self,
        record: &RunRecord,
        now: DateTime<Utc>,
        cause: &'static str,
    ) -> Result<Ending, Refusal> {
        let plan = record.plan.clone().unwrap_or_default();
        let graph =
            graph_of(&plan, record.spec.driver, &self.engine.tools.of(&record.spec.namespace));
        let mut draft = Draft::new(record.execution.clone(), self.engine.actor(), now);
        if cause == EXECUTOR_DIED {
            self.hold_if_deadly(record, &graph, &mut draft)?;
        }
        draft.end_leases(&graph, cause)?;
        Ok(Ending { plan, graph, draft })
    }

    /// Pauses a run when so many executors died in the middle of the same work that it may be the cause.
    fn hold_if_deadly(
        &self,
        record: &RunRecord,
        graph: &Graph,
        draft: &mut Draft,
    ) -> Result<(), Refusal> {
        let Some(work) = draft.count_death().filter(|work| work.count >= self.engine.max_deaths)
        else {
            return Ok(());
        };
        // It rests already.
        if draft.execution().paused.is_some() {
            return Ok(());
        }
        let known = poison(draft.execution(), graph, &work);
        tracing::error!(run_id = %record.spec.id, %known, "takeover: the run waits for an operator");
        let wait = Wait {
            step_index: work.step,
            ..Wait::new(
                Uuid::now_v7(),
                WaitingOn::Operator,
                draft.now(),
                format!("call ResumeRun once the cause is repaired, or CancelRun: {known}"),
            )
        };
        draft.pause(graph, wait, known)
    }

    /// Releases the leases of this process in the rows although all its work is over: leases whose
    /// writes had no answer.
    pub(super) async fn give_back_unheard(&self) {
        let releasing = async {
            // A concurrent claim sees the drain, and unlocks its rows.
            let scanner = self.scanner.lock().await;
            Ok((scanner, store::left_over(&self.engine.pool, self.engine.id).await?))
        };
        let given = match timeout(LAST_LOOK, releasing).await {
            Ok(Ok((_looking, left))) => {
                self.give_back(left, self.engine.now(), "the executor drains").await
            }
            Ok(Err(error)) => Err(error),
            Err(_) => {
                tracing::warn!(
                    "takeover: remaining leases could not be read in time; other executors take them over by the heartbeat's age"
                );
                return;
            }
        };
        if let Err(error) = given {
            tracing::warn!(%error, "takeover: remaining leases could not be released; other executors take them over by the heartbeat's age");
        }
    }

    async fn give_back(
        &self,
        mut left: Claimed,
        now: DateTime<Utc>,
        cause: &'static str,
    ) -> Result<(), StoreError> {
        let unread = std::mem::take(&mut left.unread);
        let mut commits = Vec::new();
        for record in &left.runs {
            match self.end_leases(record, now, cause) {
                Ok(Ending { mut draft, .. }) => {
                    draft.release();
                    commits.push(commit(record, draft));
                }
                Err(refusal) => refused(record, &refusal),
            }
        }
        if !commits.is_empty() {
            crash::point("executor.before_give_back");
        }
        let outcomes = left.commit(&commits, self.engine.committer.signing()).await?;
        if !commits.is_empty() {
            crash::point("executor.after_give_back");
        }
        for (commit, _) in commits.iter().zip(outcomes).filter(|(_, it)| *it == Outcome::Applied) {
            telemetry::observe(&commit.write, &commit.span);
            self.engine.waker.wake(Topic::Run(commit.write.execution.run_id));
            self.engine.waker.wake_now(Topic::Ready);
        }
        self.let_go(&unread, now).await
    }

    /// Releases leases on runs whose rows cannot be read, and stops claiming them.
    pub(super) async fn let_go(
        &self,
        unread: &[Unread],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        self.leave_alone(unread, now);
        let run_ids: Vec<_> = unread.iter().map(|unread| unread.run_id).collect();
        match run_ids.as_slice() {
            [] => Ok(()),
            run_ids => store::let_go(&self.engine.pool, self.engine.id, run_ids, now).await,
        }
    }
}

/// A change that ends the leases of a run's steps.
struct Ending {
    plan: Arc<Plan>,
    graph: Graph,
    draft: Draft,
}

fn commit(record: &RunRecord, draft: Draft) -> Commit {
    let span = trace::work_span("executor", &record.spec.id.to_string(), &record.spec.trace_parent);
    let span_id = trace::span_id(&span);
    Commit::new(draft.into_write(), span, span_id)
}

/// What is known of work in whose middle executors died.
fn poison(execution: &Execution, graph: &Graph, work: &Deaths) -> String {
    let middle = match work.step {
        None => "its verification".to_owned(),
        Some(index) => match deaths::open_call(execution, work) {
            None => format!("turn {} of step {}", work.round.saturating_add(1), graph.id(index)),
            Some(OpenCall { call_id, tool, intended_at, .. }) => format!(
                "call {call_id} of {tool} in step {}, begun at {}",
                graph.id(index),
                intended_at.to_rfc3339()
            ),
        },
    };
    format!("poison: {} executors died in the middle of {middle}", work.count)
}

fn refused(record: &RunRecord, refusal: &Refusal) {
    tracing::error!(run_id = %record.spec.id, %refusal, "takeover: the leases of a run's steps could not be ended");
}
