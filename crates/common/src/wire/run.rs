//! Runs, as they are shown. They are output only.

mod policy;
mod states;
mod waits;

pub use policy::read_in_doubt;
pub use states::{read_run_state, read_step_state};
pub use waits::waits;

pub use self::waits::blocked;
use super::v1;
use super::value::{timestamp, wire_list};
use crate::domain::execution::{Counters, Execution, StepProgress};
use crate::domain::fork::ForkedFrom;
use crate::domain::journal::VerdictRecord;
use crate::domain::machine::run::RunState;
use crate::domain::repository::{Repository, RepositoryState, run_ref};
use crate::domain::run::RunRecord;
use crate::domain::step::StepState;
use crate::domain::stop::Terminal;
use crate::domain::toolchain::is_task_namespace;
use chrono::{DateTime, Utc};

/// A run with its latest verdict, which is read separately, and its time.
pub fn run(record: RunRecord, verdict: Option<DatedVerdict>) -> v1::Run {
    let RunRecord { spec, execution, plan, plan_digest } = record;
    let steps = steps(&execution, plan.as_deref());
    let trace_id = trace_id(&spec.trace_parent).to_owned();
    let todos = plan.as_deref().map(|plan| execution.todos.current(&plan.todos));
    // Only the service makes runs in the namespaces of tasks, so the label is its own there.
    let is_task = is_task_namespace(&spec.namespace);
    let task_type = spec.labels.get("task_type").filter(|_| is_task).cloned();
    v1::Run {
        id: spec.id.to_string(),
        namespace: spec.namespace,
        goal: spec.goal,
        state: v1::RunState::from(execution.state).into(),
        blocked: blocked(&execution),
        terminal: execution.terminal.clone().map(|terminal| ended(*terminal, execution.state)),
        limits: Some(execution.limits_of(&spec.limits).into()),
        counters: Some(counters(&execution)),
        plan_revision: execution.plan_revision,
        plan_digest,
        steps,
        version: number(execution.version),
        last_sequence: number(execution.sequence),
        lease: lease(&execution),
        created_at: Some(timestamp(spec.created_at)),
        updated_at: Some(timestamp(execution.updated_at)),
        trace_id,
        workspace: spec.workspace,
        repository: repository(spec.repository, execution.counters.repository.as_deref(), spec.id),
        driver: v1::Driver::from(spec.driver).into(),
        verdict: verdict.map(|(at, verdict)| verdict_of(spec.id, at, verdict)),
        labels: spec.labels,
        policy: Some(spec.policy.into()),
        task_type: task_type.unwrap_or_default(),
        priority: execution.priority.into(),
        todos: wire_list(todos.unwrap_or_default()),
        final_answer: execution.counters.final_answer,
        grants: wire_list(execution.grants),
        forked_from: spec.forked_from.map(|fork| (*fork).into()),
    }
}

fn repository(
    named: Option<Repository>,
    state: Option<&RepositoryState>,
    run_id: uuid::Uuid,
) -> Option<v1::Repository> {
    let Repository { url, revision, secret } = named?;
    let (commit, head) = state
        .map_or_else(Default::default, |state| (state.commit.clone(), state.head.commit.clone()));
    let r#ref = if commit.is_empty() { String::new() } else { run_ref(run_id) };
    Some(v1::Repository { url, revision, secret, base_commit: commit, r#ref, commit: head })
}

/// A stored verdict and when the gate gave it.
pub type DatedVerdict = (DateTime<Utc>, VerdictRecord);

/// A stored verdict, with its subject.
pub fn verdict_of(run_id: uuid::Uuid, at: DateTime<Utc>, record: VerdictRecord) -> v1::Verdict {
    let VerdictRecord {
        plan_revision,
        verdict,
        receipts,
        last_receipt_digest,
        plan_digest,
        history: _,
    } = record;
    v1::Verdict {
        plan_digest,
        decided_at: Some(timestamp(at)),
        run_id: run_id.to_string(),
        plan_revision,
        receipt_count: receipts,
        chain_digest: last_receipt_digest,
        ..verdict.into()
    }
}

/// The trace id inside a W3C `traceparent`; empty when there is none.
pub fn trace_id(trace_parent: &str) -> &str {
    trace_parent.split('-').nth(1).unwrap_or_default()
}

/// A count for the wire; the domain's are never below zero.
pub(super) fn number(count: i64) -> u64 {
    u64::try_from(count).unwrap_or_default()
}

fn lease(execution: &Execution) -> Option<v1::Lease> {
    let executor_id = execution.lease_owner?.to_string();
    Some(v1::Lease { executor_id, epoch: number(execution.lease_epoch) })
}

fn counters(execution: &Execution) -> v1::RunCounters {
    let reserved = execution.reserved();
    let Counters { reported_usage, charged_usage, .. } = &execution.counters;
    v1::RunCounters {
        rounds: execution.counters.rounds,
        replans: execution.counters.replans,
        repairs: execution.counters.repairs,
        tool_calls: execution.counters.tool_calls,
        tokens: execution.counters.usage.tokens,
        cost_micros: execution.counters.usage.cost_micros,
        receipts: execution.counters.receipts,
        reserved_tokens: reserved.tokens,
        reserved_cost_micros: reserved.cost_micros,
        reported_tokens: reported_usage.tokens,
        reported_cost_micros: reported_usage.cost_micros,
        charged_tokens: charged_usage.tokens,
        charged_cost_micros: charged_usage.cost_micros,
    }
}

impl From<ForkedFrom> for v1::ForkedFrom {
    fn from(fork: ForkedFrom) -> Self {
        let ForkedFrom { run_id, step_id, plan_revision, plan_digest, receipts, .. } = fork;
        Self {
            run_id: run_id.to_string(),
            step_id,
            plan_revision,
            plan_digest,
            receipt_count: receipts,
            chain_digest: fork.last_receipt_digest,
            inherited_steps: fork.steps,
        }
    }
}

fn steps(execution: &Execution, plan: Option<&crate::domain::plan::Plan>) -> Vec<v1::StepProgress> {
    let planned = |index: usize| plan.and_then(|plan| plan.steps.get(index));
    execution
        .steps
        .iter()
        .enumerate()
        .map(|(index, progress)| {
            let StepProgress { state, attempt, rounds, tool_calls, started_at, .. } = &**progress;
            let StepProgress { finished_at, reason, .. } = &**progress;
            let lease = (*state == StepState::Running).then(|| lease(execution)).flatten();
            v1::StepProgress {
                id: planned(index).map_or_else(|| index.to_string(), |step| step.id.clone()),
                description: planned(index)
                    .map(|step| step.description.clone())
                    .unwrap_or_default(),
                state: v1::StepState::from(*state).into(),
                attempt: *attempt,
                rounds: *rounds,
                tool_calls: *tool_calls,
                started_at: started_at.map(timestamp),
                finished_at: finished_at.map(timestamp),
                reason: reason.clone(),
                lease,
                // Any other step is done after an attempt.
                inherited: *state == StepState::Done && *attempt == 0,
            }
        })
        .collect()
}

/// How a run ended, in this state.
pub fn ended(terminal: Terminal, state: RunState) -> v1::Terminal {
    let Terminal { stop_reason, stage, user_message, internal_reason, abort_code } = terminal;
    v1::Terminal {
        status: v1::RunState::from(state).into(),
        stop_reason: v1::StopReason::from(stop_reason).into(),
        stage: stage_of(&stage).into(),
        user_message,
        internal_reason,
        abort_code,
    }
}

/// The state that a terminal state replaced; its name is in lower case.
fn stage_of(word: &str) -> v1::RunState {
    let left = |state: &RunState| state.as_str().eq_ignore_ascii_case(word);
    let state = RunState::ALL.into_iter().find(left);
    state.map_or(v1::RunState::Unspecified, v1::RunState::from)
}
