//! The hot table: converts rows to aggregates and back.

use super::StoreError;
use super::partition::time_of;
use super::stored_time::StoredTime;
use crate::domain::execution::draft::Write;
use crate::domain::execution::{Counters, Execution, Paused, StepProgress};
use crate::domain::grant::CallGrant;
use crate::domain::journal::TaskHistory;
use crate::domain::machine::run::RunState;
use crate::domain::signature::{
    Digest, SignedState, StateChange, StateName, initial_progress, progress_digest,
};
use crate::domain::step::StepState;
use crate::domain::stop::Terminal;
use crate::domain::todo::RunTodos;
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// One row of `execution`.
#[derive(sqlx::FromRow)]
pub(super) struct ExecutionRow {
    pub(super) run_id: Uuid,
    namespace: String,
    state: String,
    blocked_from: Option<String>,
    version: i64,
    sequence: i64,
    priority: i16,
    ready_at: Option<StoredTime>,
    lease_owner: Option<Uuid>,
    lease_epoch: i64,
    plan_revision: i32,
    step_states: String,
    progress: sqlx::types::Json<Progress>,
    wait: Option<sqlx::types::Json<crate::domain::execution::Wait>>,
    terminal: Option<sqlx::types::Json<Terminal>>,
    deadline_at: Option<StoredTime>,
    updated_at: StoredTime,
    /// Read where it decides who works on the run, and what a user is shown.
    #[sqlx(default)]
    host_label: Option<String>,
}

/// The column `progress`: counters, todos, grants, a pause, and the steps that have state to keep.
#[derive(Deserialize)]
pub(super) struct Progress {
    #[serde(flatten)]
    counters: Counters,
    #[serde(default)]
    todos: RunTodos,
    #[serde(default)]
    grants: Vec<CallGrant>,
    #[serde(default)]
    paused: Option<Box<Paused>>,
    #[serde(default)]
    steps: BTreeMap<usize, StepProgress>,
    #[serde(default)]
    finished: Vec<FinishedStep>,
}

impl Progress {
    pub(super) const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The digest in [`signed_state`], for a row with these other columns.
    pub(super) fn digest(
        &self,
        phase: SignedPhase<'_>,
        terminal: Option<&Terminal>,
    ) -> Result<Digest, StoreError> {
        let parts = (&self.todos, self.grants.as_slice(), questions(self.steps.values()));
        SignedProgress::of(&self.counters, parts, (phase, terminal)).digest()
    }
}

/// The same, for an execution that is to be written.
#[derive(Serialize)]
struct NewProgress<'a> {
    #[serde(flatten)]
    counters: &'a Counters,
    #[serde(skip_serializing_if = "RunTodos::is_empty")]
    todos: &'a RunTodos,
    #[serde(skip_serializing_if = "<[CallGrant]>::is_empty")]
    grants: &'a [CallGrant],
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<&'a Paused>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    steps: BTreeMap<usize, &'a StepProgress>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    finished: Vec<FinishedStep>,
}

/// A step of which only its attempt and its times are kept: its index, its attempt, and the
/// microseconds from the time inside the run's id to its start, and from there to its end. The row
/// is written anew with every change, so that each byte of a finished step costs many times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct FinishedStep(usize, u32, i64, i64);

impl FinishedStep {
    fn of(epoch: DateTime<Utc>, index: usize, step: &StepProgress) -> Option<Self> {
        let StepProgress { attempt, started_at, finished_at, .. } = *step;
        let since = |at: DateTime<Utc>| (at - epoch).num_microseconds();
        let (started, finished) = (since(started_at?)?, since(finished_at?)?);
        let took = finished.checked_sub(started)?;
        step.has_only_times().then_some(Self(index, attempt, started, took))
    }

    fn restore(self, epoch: DateTime<Utc>) -> Option<StepProgress> {
        let Self(_, attempt, started, took) = self;
        let started_at = epoch.checked_add_signed(TimeDelta::microseconds(started))?;
        let finished_at = started_at.checked_add_signed(TimeDelta::microseconds(took))?;
        let (started_at, finished_at) = (Some(started_at), Some(finished_at));
        Some(StepProgress { attempt, started_at, finished_at, ..StepProgress::default() })
    }
}

impl ExecutionRow {
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The revision of the plan, the number of the newest event, and that of the last verdict.
    pub(super) fn progress(&self) -> Result<(u32, i64, i64), StoreError> {
        let revision = u32::try_from(self.plan_revision).map_err(|error| {
            StoreError::corrupt(format!("execution {} column plan_revision", self.run_id), error)
        })?;
        Ok((revision, self.sequence, self.progress.0.counters.verdict_sequence))
    }

    pub(super) fn into_execution(self) -> Result<Execution, StoreError> {
        let what = |column: &str| format!("execution {} column {column}", self.run_id);
        let state = read_state(self.run_id, &self.state, self.blocked_from.as_deref())?;
        let pending = Arc::new(StepProgress::default());
        let mut details = self.progress.0.steps;
        for finished in self.progress.0.finished {
            let step = finished.restore(time_of(self.run_id));
            let step = step.ok_or_else(|| {
                StoreError::corrupt(what("progress"), format!("{finished:?} has no time"))
            })?;
            if details.insert(finished.0, step).is_some() {
                let twice = format!("step {} is stored twice", finished.0);
                return Err(StoreError::corrupt(what("progress"), twice));
            }
        }
        let steps = self
            .step_states
            .chars()
            .enumerate()
            .map(|(index, letter)| {
                let state = from_letter(letter)
                    .ok_or_else(|| StoreError::corrupt(what("step_states"), letter))?;
                Ok(match details.remove(&index) {
                    // Steps that nothing happened to share one value until they change.
                    None if state == StepState::Pending => Arc::clone(&pending),
                    progress => Arc::new(StepProgress { state, ..progress.unwrap_or_default() }),
                })
            })
            .collect::<Result<Vec<_>, StoreError>>()?;
        let exact = |column: &'static str, time: StoredTime| time.exact(|| what(column));
        Ok(Execution {
            plan_revision: u32::try_from(self.plan_revision)
                .map_err(|error| StoreError::corrupt(what("plan_revision"), error))?,
            run_id: self.run_id,
            namespace: self.namespace,
            state,
            version: self.version,
            sequence: self.sequence,
            priority: self.priority,
            ready_at: self.ready_at.map(|at| exact("ready_at", at)).transpose()?,
            lease_owner: self.lease_owner,
            lease_epoch: self.lease_epoch,
            steps,
            counters: self.progress.0.counters,
            todos: self.progress.0.todos,
            grants: self.progress.0.grants,
            wait: self.wait.map(|wait| Box::new(wait.0)),
            paused: self.progress.0.paused,
            terminal: self.terminal.map(|terminal| Box::new(terminal.0)),
            deadline_at: self.deadline_at.map(|at| exact("deadline_at", at)).transpose()?,
            updated_at: exact("updated_at", self.updated_at)?,
            host_label: self.host_label,
        })
    }
}

/// The column `step_states` of an execution.
pub(super) fn letters(execution: &Execution) -> String {
    execution.steps.iter().map(|step| to_letter(step.state)).collect()
}

/// The column `progress` of an execution.
pub(super) fn progress(execution: &Execution) -> Result<String, StoreError> {
    let epoch = time_of(execution.run_id);
    let (mut steps, mut finished) = (BTreeMap::new(), Vec::new());
    for (index, step) in execution.steps.iter().enumerate() {
        if let Some(short) = FinishedStep::of(epoch, index, step) {
            finished.push(short);
        } else if !step.has_only_a_state() {
            steps.insert(index, &**step);
        }
    }
    let Execution { counters, todos, grants, .. } = execution;
    let paused = execution.paused.as_deref();
    to_text(&NewProgress { counters, todos, grants, paused, steps, finished })
}

/// What of a run's row is signed besides its todos, its grants and its verification round. All is empty in a new run.
#[derive(Serialize, PartialEq, Default)]
struct SignedRest<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    base_snapshot: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_from: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    final_answer: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<&'a TaskHistory>,
    #[serde(skip_serializing_if = "is_false")]
    observed: bool,
    /// Of each question that a person is asked: its wait and its digest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    questions: Vec<(Uuid, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<(&'a str, &'a str)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    terminal: Option<&'a Terminal>,
    #[serde(skip_serializing_if = "is_zero")]
    verdict_sequence: i64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
const fn is_zero(value: &i64) -> bool {
    *value == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Where a run is.
pub(super) struct SignedPhase<'a> {
    blocked_from: Option<&'a str>,
    steps: Option<String>,
}

impl<'a> SignedPhase<'a> {
    /// Of the columns `state`, `blocked_from` and `step_states`. The states of the steps are signed where they count or are
    /// final. While steps run, each change of them has a row of its own, and a digest in each would lengthen the
    /// signature by a third.
    pub(super) fn of(
        state: &str,
        blocked_from: Option<&'a str>,
        steps: impl FnOnce() -> String,
    ) -> Self {
        let is_under_way = matches!(state, "INTAKE" | "PLANNING" | "EXECUTING");
        Self { blocked_from, steps: (!is_under_way).then(steps) }
    }
}

/// What of a run's row is signed beside its state.
#[derive(PartialEq)]
struct SignedProgress<'a> {
    round: u32,
    todos: &'a RunTodos,
    grants: &'a [CallGrant],
    rest: SignedRest<'a>,
}

impl<'a> SignedProgress<'a> {
    fn of(
        counters: &'a Counters,
        (todos, grants, questions): (&'a RunTodos, &'a [CallGrant], Vec<(Uuid, String)>),
        (phase, terminal): (SignedPhase<'a>, Option<&'a Terminal>),
    ) -> Self {
        let Counters { base_snapshot, final_answer, repository, history, .. } = counters;
        // The commit is resolved before anything is journaled, and it counts from the snapshot of its files on.
        let start = repository.as_deref().filter(|_| !base_snapshot.is_empty());
        let rest = SignedRest {
            base_snapshot,
            blocked_from: phase.blocked_from,
            final_answer,
            history: history.as_deref(),
            observed: counters.observed,
            questions,
            start: start.map(|start| (start.commit.as_str(), start.branch.as_str())),
            steps: phase.steps,
            terminal,
            verdict_sequence: counters.verdict_sequence,
        };
        Self { round: counters.verification_round, todos, grants, rest }
    }

    fn of_row(row: &'a Execution) -> Self {
        let Execution { counters, todos, grants, terminal, state, .. } = row;
        let phase = SignedPhase::of(state.as_str(), blocked_from(*state), || letters(row));
        let questions = questions(row.steps.iter().map(|step| &**step));
        Self::of(counters, (todos, grants, questions), (phase, terminal.as_deref()))
    }

    fn digest(&self) -> Result<Digest, StoreError> {
        let Self { round, todos, grants, rest } = self;
        let is_initial = *round == 0 && todos.is_empty() && grants.is_empty();
        if is_initial && *rest == SignedRest::default() {
            return Ok(initial_progress());
        }
        let (todos, grants, rest) = (to_text(todos)?, to_text(grants)?, to_text(rest)?);
        Ok(progress_digest(*round, [&todos, &grants, &rest]))
    }
}

/// The questions that steps ask, with the digests of their words. Of a wait that an earlier version opened nothing is
/// signed.
fn questions<'a>(steps: impl Iterator<Item = &'a StepProgress>) -> Vec<(Uuid, String)> {
    let waits = steps.filter_map(|step| step.wait.as_deref());
    let asked = waits.filter(|wait| !wait.question_digest.is_empty());
    asked.map(|wait| (wait.id, wait.digest_of_question())).collect()
}

/// What is signed of a run's row.
pub(super) fn signed_state(row: &Execution) -> Result<SignedState, StoreError> {
    let progress = SignedProgress::of_row(row).digest()?;
    Ok(SignedState { state: StateName::from(row.state), progress })
}

/// What is signed of a run's row as it was read for the first of some changes, and behind the last.
pub(super) fn state_change(first: &Write, row: &Execution) -> Result<StateChange, StoreError> {
    let left = SignedProgress::of_row(row);
    let after = SignedState { state: StateName::from(row.state), progress: left.digest()? };
    if first.fence.version == 0 {
        return Ok(StateChange { before: None, after });
    }
    let read = &*first.read;
    let found = SignedProgress::of_row(read);
    // Most rows change nothing of it.
    let progress = if found == left { after.progress } else { found.digest()? };
    let before = Some(SignedState { state: StateName::from(read.state), progress });
    Ok(StateChange { before, after })
}

/// The column `wait_ids` of an execution, as an array literal. An answer names one of these ids.
pub(super) fn wait_ids(execution: &Execution) -> Option<String> {
    let ids: Vec<String> = execution.waits().map(|wait| wait.id.to_string()).collect();
    (!ids.is_empty()).then(|| format!("{{{}}}", ids.join(",")))
}

/// The name of the phase that a blocked run left; none in any other state.
pub(super) fn blocked_from(state: RunState) -> Option<&'static str> {
    state.blocked_in().map(|phase| phase.state().as_str())
}

/// Serializes a value as JSON text for a column.
pub(super) fn to_text<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::corrupt("a value to be stored", error))
}

/// The letter for a step's state in the column `step_states`.
pub(super) const fn to_letter(state: StepState) -> char {
    match state {
        StepState::Pending => 'p',
        StepState::Ready => 'r',
        StepState::Running => 'u',
        StepState::Waiting => 'w',
        StepState::Done => 'd',
        StepState::Failed => 'f',
        StepState::Blocked => 'b',
        StepState::Skipped => 's',
        StepState::Cancelled => 'c',
    }
}

/// The state of a step with this letter; none for another one.
pub(super) fn from_letter(letter: char) -> Option<StepState> {
    StepState::ALL.into_iter().find(|state| to_letter(*state) == letter)
}

/// The state that a row's columns name.
///
/// # Errors
/// [`StoreError::Corrupt`]
pub(super) fn read_state(
    run_id: Uuid,
    state: &str,
    blocked_from: Option<&str>,
) -> Result<RunState, StoreError> {
    RunState::from_text(state, blocked_from)
        .ok_or_else(|| StoreError::corrupt(format!("execution {run_id} column state"), state))
}

/// Converts a plan revision to the column's type.
pub(super) fn plan_revision(revision: u32) -> Result<i32, StoreError> {
    i32::try_from(revision).map_err(|error| StoreError::corrupt("a plan revision", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_new_run_signs_is_written_as_empty_parts() {
        let of_nothing = SignedProgress {
            round: 0,
            todos: &RunTodos::default(),
            grants: &[],
            rest: SignedRest::default(),
        };
        assert_eq!(to_text(of_nothing.todos).unwrap(), "{}");
        assert_eq!(to_text(&of_nothing.rest).unwrap(), "{}");
        let written = progress_digest(0, ["{}", "[]", "{}"]);
        assert_eq!(of_nothing.digest().unwrap(), written);
        let observed = SignedRest { observed: true, ..SignedRest::default() };
        assert_ne!(SignedProgress { rest: observed, ..of_nothing }.digest().unwrap(), written);
    }
}
