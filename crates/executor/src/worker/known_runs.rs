//! The runs whose calls workers of this process have: most results come back here, and the next call of the run is
//! often for the same worker. Then nothing of it is read again.
//!
//! ```text
//!   a call is given ----keep----> known <----stored---- every change that this process stores
//!                                   |                         |
//!   its result is taken from it <---+                         +--> the calls that it opened are given at once
//! ```
//!
//! What is known may be older than the row. A change that is decided from it is then lost, like any other one, and
//! the row is read.

use crate::shelf::Shelf;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use surety_common::domain::execution::Execution;
use surety_common::domain::execution::draft::Write;
use surety_common::domain::execution::wait_rows::{OpenedWait, WaitKind};
use surety_common::domain::plan::Plan;
use surety_common::domain::run::{RunRecord, RunSpec};
use surety_common::store::OfferedWorkerCall;
use tokio::sync::Notify;
use uuid::Uuid;

/// The runs that are known at most, so that waiting calls need no memory.
const MAX_RUNS: usize = 4096;
/// The bytes of their plans that are kept at most, about.
const MAX_BYTES: usize = 32 << 20;
/// What a step of a plan needs, and a call of its script, about.
const STEP_BYTES: usize = 1024;
/// The opened calls that wait to be given at most; a scan finds the others.
const MAX_OPENED: usize = 1024;

/// The runs that workers of this process have calls of, as they were read or stored last.
#[derive(Clone)]
pub(crate) struct KnownRuns(Arc<Shared>);

struct Shared {
    runs: Shelf<Uuid, KnownRun>,
    opened: Mutex<Vec<OfferedWorkerCall>>,
    has_opened: Notify,
}

/// The parts of a run's record. The execution is replaced with each change.
struct KnownRun {
    spec: RunSpec,
    execution: Arc<Execution>,
    plan: Option<Arc<Plan>>,
    plan_digest: String,
}

impl Default for KnownRuns {
    fn default() -> Self {
        let (runs, opened) = (Shelf::of(MAX_RUNS, MAX_BYTES), Mutex::default());
        Self(Arc::new(Shared { runs, opened, has_opened: Notify::new() }))
    }
}

impl KnownRuns {
    /// Takes note of a change that this process stored.
    pub(crate) fn stored(&self, write: &Write) {
        let run_id = write.execution.run_id;
        let followed = self.0.runs.with(run_id, |known| {
            let follows = known.execution.version == write.fence.version
                && known.execution.plan_revision == write.execution.plan_revision;
            known.execution = Arc::clone(&write.execution);
            follows.then(|| (known.spec.namespace.clone(), known.spec.labels.clone()))
        });
        match followed {
            None => {}
            Some(Some((namespace, labels))) if !write.execution.state.is_terminal() => {
                self.offer(&namespace, &labels, write);
            }
            Some(_) => self.forget(run_id),
        }
    }

    fn offer(&self, namespace: &str, labels: &BTreeMap<String, String>, write: &Write) {
        let now = write.execution.updated_at;
        let offered = |wait: &OpenedWait| {
            let call = wait.call.as_ref().filter(|call| call.offered_at <= now)?;
            let is_offered = wait.kind == WaitKind::Tool && !wait.withheld;
            let (namespace, tool) = (namespace.to_owned(), call.tool.clone());
            let labels = labels.clone();
            is_offered.then_some(OfferedWorkerCall { wait_id: wait.id, namespace, tool, labels })
        };
        let mut calls = write.waits.opened.iter().filter_map(offered).peekable();
        if calls.peek().is_none() {
            return;
        }
        let mut opened = self.calls();
        let free = MAX_OPENED.saturating_sub(opened.len());
        opened.extend(calls.take(free));
        drop(opened);
        self.0.has_opened.notify_one();
    }

    /// The calls that known runs opened since the last time; waits for one.
    pub(super) async fn opened(&self) -> Vec<OfferedWorkerCall> {
        loop {
            let calls = std::mem::take(&mut *self.calls());
            if !calls.is_empty() {
                return calls;
            }
            self.0.has_opened.notified().await;
        }
    }

    fn calls(&self) -> MutexGuard<'_, Vec<OfferedWorkerCall>> {
        self.0.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a run that was read.
    pub(super) fn keep(&self, record: RunRecord) {
        let (run_id, weight) = (record.spec.id, weight(&record));
        let RunRecord { spec, execution, plan, plan_digest } = record;
        let execution = Arc::new(execution);
        self.0.runs.put(run_id, KnownRun { spec, execution, plan, plan_digest }, weight);
    }

    /// A run as far as it is known that it waits with this wait.
    pub(super) fn waiting_with(&self, run_id: Uuid, wait_id: Uuid) -> Option<RunRecord> {
        let found = self.0.runs.with(run_id, |known| {
            let is_it = known.execution.waits().any(|wait| wait.id == wait_id);
            is_it.then(|| RunRecord {
                spec: known.spec.clone(),
                execution: Execution::clone(&known.execution),
                plan: known.plan.clone(),
                plan_digest: known.plan_digest.clone(),
            })
        });
        found.flatten()
    }

    /// Forgets a run that another process changed.
    pub(super) fn forget(&self, run_id: Uuid) {
        self.0.runs.take(run_id, |_| true);
    }
}

/// The memory that a run needs, about.
fn weight(record: &RunRecord) -> usize {
    let steps = record.plan.as_deref().map_or(&[][..], |plan| &plan.steps);
    let of_steps = steps.iter().map(|step| {
        let arguments = step.script.iter().map(|call| call.arguments.to_compact().len());
        step.description.len() + arguments.sum::<usize>() + STEP_BYTES * (1 + step.script.len())
    });
    record.spec.goal.len() + STEP_BYTES + of_steps.sum::<usize>()
}
