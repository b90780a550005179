//! Runs, as they are shown. They are output only.

use super::error::{MessageError, MessageErrorKind as Kind};
use super::v1;
use super::value::{timestamp, wire_list};
use crate::domain::acceptance::{Acceptance, Difference};
use crate::domain::confirmation::{CallToConfirm, ConfirmPolicy, OnDenied, OnExpired};
use crate::domain::execution::wait_rows::WaitKind;
use crate::domain::execution::{Execution, StepProgress, Wait};
use crate::domain::fork::ForkedFrom;
use crate::domain::grant::{ArgumentRule, CallGrant, Revoked};
use crate::domain::journal::VerdictRecord;
use crate::domain::machine::run::RunState;
use crate::domain::repository::{Repository, RepositoryState, run_ref};
use crate::domain::run::{
    CanaryPolicy, DriverKind, InDoubt, NetworkPolicy, OnBudget, OnBusy, Policy, RunRecord,
    SandboxPolicy, VerifyCommands, WorkspaceLock,
};
use crate::domain::step::StepState;
use crate::domain::stop::{Terminal, WaitingOn};
use crate::domain::toolchain::TASK_NAMESPACES;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;

/// A run with its latest verdict, which is read separately, and its time.
pub fn run(record: RunRecord, verdict: Option<DatedVerdict>) -> v1::Run {
    let RunRecord { spec, execution, plan, plan_digest } = record;
    let steps = steps(&execution, plan.as_deref());
    let trace_id = trace_id(&spec.trace_parent).to_owned();
    let todos = plan.as_deref().map(|plan| execution.todos.current(&plan.todos));
    // Only the service makes runs in the namespaces of tasks, so the label is its own there.
    let is_task = TASK_NAMESPACES.contains(&spec.namespace.as_str());
    let task_type = spec.labels.get("task_type").filter(|_| is_task).cloned();
    v1::Run {
        id: spec.id.to_string(),
        namespace: spec.namespace,
        goal: spec.goal,
        state: v1::RunState::from(execution.state).into(),
        blocked: blocked(&execution),
        terminal: execution.terminal.clone().map(|terminal| ended(terminal, execution.state)),
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
    let VerdictRecord { plan_revision, verdict, receipts, last_receipt_digest, plan_digest } =
        record;
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

fn blocked(execution: &Execution) -> Option<v1::Blocked> {
    let RunState::Blocked(phase) = execution.state else { return None };
    let wait = execution.wait.clone()?;
    let kind = v1::WaitKind::from(wait.kind()).into();
    let Wait { id, waiting_on, since, unblocks, question, .. } = wait;
    Some(v1::Blocked {
        kind,
        waiting_on: v1::WaitingOn::from(waiting_on).into(),
        since: Some(timestamp(since)),
        unblocks,
        question,
        returns_to: v1::RunState::from(phase.state()).into(),
        wait_id: id.to_string(),
    })
}

/// All waits of a run; `step_ids` are the ids of the steps that wait, by their index.
pub fn waits(record: &RunRecord, step_ids: &BTreeMap<usize, String>) -> Vec<v1::Wait> {
    record.execution.waits().map(|wait| wait_of(record, step_ids, wait.clone())).collect()
}

fn wait_of(record: &RunRecord, step_ids: &BTreeMap<usize, String>, wait: Wait) -> v1::Wait {
    let kind = v1::WaitKind::from(wait.kind());
    let away = wait.model.as_deref().and_then(|model| model.away.clone());
    let Wait {
        id,
        waiting_on,
        since,
        unblocks,
        question,
        choices,
        step_index,
        acceptance,
        answer_schema,
        confirmation,
        plan_approval,
        ..
    } = wait;
    let step = step_index.filter(|_| waiting_on == WaitingOn::Worker);
    let step = step.and_then(|index| record.execution.step(index));
    let task = step.and_then(|step| step.worker_call.as_deref());
    let worker_call = step.and_then(|step| step.open_call.as_deref()).map(|call| v1::ToolCall {
        name: call.tool.clone(),
        arguments_json: call.arguments_json.clone(),
    });
    let expires_at = confirmation.as_deref().map(|call| call.expires_at);
    let expires_at = expires_at.or(task.map(|task| task.deadline_at));
    let expires_at = expires_at.or(away.map(|away| away.until));
    let ends = |at: Option<DateTime<Utc>>| {
        at.into_iter().chain(record.execution.deadline_at).min().map(timestamp)
    };
    let expires_at = expires_at.or(plan_approval.as_deref().map(|asked| asked.expires_at));
    let digest = match (&confirmation, &acceptance, plan_approval) {
        (Some(call), ..) => call.digest.clone(),
        (None, Some(asked), _) => asked.digest.clone(),
        (None, None, Some(asked)) => asked.digest,
        (None, None, None) => String::new(),
    };
    let step_id = step_index.and_then(|place| step_ids.get(&place).cloned()).unwrap_or_default();
    v1::Wait {
        id: id.to_string(),
        run_id: record.spec.id.to_string(),
        step_id,
        namespace: record.spec.namespace.clone(),
        waiting_on: v1::WaitingOn::from(waiting_on).into(),
        question,
        unblocks,
        since: Some(timestamp(since)),
        expires_at: ends(expires_at),
        call_digest: digest,
        tool_call: confirmation.map_or(worker_call, |call| {
            let CallToConfirm { tool, arguments_json, .. } = *call;
            Some(v1::ToolCall { name: tool, arguments_json })
        }),
        choices,
        kind: kind.into(),
        acceptance: acceptance.map(|asked| (*asked).into()),
        answer_schema_json: answer_schema,
        progress: String::new(),
        progress_percent: None,
    }
}

impl From<WaitKind> for v1::WaitKind {
    fn from(kind: WaitKind) -> Self {
        match kind {
            WaitKind::Plan | WaitKind::ModelPlan => Self::Plan,
            WaitKind::Decision | WaitKind::ModelDecision => Self::Decision,
            WaitKind::Tool => Self::Tool,
            WaitKind::Question => Self::Question,
            WaitKind::Confirmation => Self::Confirmation,
            WaitKind::Acceptance => Self::Acceptance,
            WaitKind::Resume => Self::Resume,
            WaitKind::Timer => Self::Timer,
            WaitKind::Workspace => Self::Workspace,
            WaitKind::Budget => Self::Budget,
        }
    }
}

impl From<CallGrant> for v1::CallGrant {
    fn from(grant: CallGrant) -> Self {
        let CallGrant { id, tool, arguments, uses, used, by, made_at, expires_at, revoked } = grant;
        let (revoked_by, revoked_at) = match revoked {
            None => (String::new(), None),
            Some(Revoked { by, at }) => (by, Some(timestamp(at))),
        };
        let argument = |(name, rule)| {
            let value = match rule {
                ArgumentRule::Exact(text) => v1::granted_argument::Value::ExactJson(text),
                ArgumentRule::Matches(glob) => v1::granted_argument::Value::Pattern(glob),
            };
            v1::GrantedArgument { name, value: Some(value) }
        };
        Self {
            id: id.to_string(),
            tool,
            arguments: arguments.into_iter().map(argument).collect(),
            uses,
            used,
            granted_by: by,
            made_at: Some(timestamp(made_at)),
            expires_at: Some(timestamp(expires_at)),
            revoked_by,
            revoked_at,
        }
    }
}

impl From<Acceptance> for v1::Acceptance {
    fn from(asked: Acceptance) -> Self {
        let Acceptance { digest: _, difference, cautions } = asked;
        let Difference { workspace, digest, call_id, not_shown } = difference;
        Self {
            workspace_digest: workspace,
            difference_call_id: call_id,
            difference_digest: digest,
            not_shown,
            cautions: cautions.into_iter().map(Into::into).collect(),
        }
    }
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

impl From<RunState> for v1::RunState {
    fn from(state: RunState) -> Self {
        match state {
            RunState::Intake => Self::Intake,
            RunState::Planning => Self::Planning,
            RunState::Executing => Self::Executing,
            RunState::Verifying => Self::Verifying,
            RunState::Recovering => Self::Recovering,
            RunState::Blocked(_) => Self::Blocked,
            RunState::Done => Self::Done,
            RunState::Failed => Self::Failed,
            RunState::Cancelled => Self::Cancelled,
        }
    }
}

/// The states that a number on the wire selects: BLOCKED selects it in every phase. None for an
/// unknown number.
pub fn read_run_state(number: i32) -> Option<RunState> {
    let wanted = v1::RunState::try_from(number).ok()?;
    RunState::ALL.into_iter().find(|state| v1::RunState::from(*state) == wanted)
}

impl From<StepState> for v1::StepState {
    fn from(state: StepState) -> Self {
        match state {
            StepState::Pending => Self::Pending,
            StepState::Ready => Self::Ready,
            StepState::Running => Self::Running,
            StepState::Waiting => Self::Waiting,
            StepState::Done => Self::Done,
            StepState::Failed => Self::Failed,
            StepState::Blocked => Self::Blocked,
            StepState::Skipped => Self::Skipped,
            StepState::Cancelled => Self::Cancelled,
        }
    }
}

/// The step state of a number on the wire; none for an unknown number.
pub fn read_step_state(number: i32) -> Option<StepState> {
    let wanted = v1::StepState::try_from(number).ok()?;
    StepState::ALL.into_iter().find(|state| v1::StepState::from(*state) == wanted)
}

impl From<WaitingOn> for v1::WaitingOn {
    fn from(waiting_on: WaitingOn) -> Self {
        match waiting_on {
            WaitingOn::User => Self::User,
            WaitingOn::Approver => Self::Approver,
            WaitingOn::Worker => Self::Worker,
            WaitingOn::Model => Self::Model,
            WaitingOn::Operator => Self::Operator,
            WaitingOn::Timer => Self::Timer,
            WaitingOn::Driver => Self::Driver,
            WaitingOn::Workspace => Self::Workspace,
        }
    }
}

impl From<DriverKind> for v1::Driver {
    fn from(driver: DriverKind) -> Self {
        match driver {
            DriverKind::Script => Self::Script,
            DriverKind::Model => Self::Model,
            DriverKind::Remote => Self::Remote,
        }
    }
}

impl From<InDoubt> for v1::InDoubt {
    fn from(in_doubt: InDoubt) -> Self {
        match in_doubt {
            InDoubt::Ask => Self::Ask,
            InDoubt::Refuse => Self::Refuse,
            InDoubt::Allow => Self::Allow,
        }
    }
}

/// The value of a number on the wire; none for the one that is not said.
///
/// # Errors
/// [`Kind::UnknownEnumValue`]
pub fn read_in_doubt(number: i32) -> Result<Option<InDoubt>, MessageError> {
    match v1::InDoubt::try_from(number) {
        Ok(v1::InDoubt::Unspecified) => Ok(None),
        Ok(v1::InDoubt::Ask) => Ok(Some(InDoubt::Ask)),
        Ok(v1::InDoubt::Refuse) => Ok(Some(InDoubt::Refuse)),
        Ok(v1::InDoubt::Allow) => Ok(Some(InDoubt::Allow)),
        Err(_) => Err(MessageError::at("in_doubt", Kind::UnknownEnumValue(number))),
    }
}

/// The network of a policy, with the ports and the hosts that it opens.
fn network_of(network: NetworkPolicy) -> (v1::NetworkPolicy, Vec<u32>, Vec<String>) {
    match network {
        NetworkPolicy::None => (v1::NetworkPolicy::None, Vec::new(), Vec::new()),
        NetworkPolicy::HostLoopback(ports) => {
            let ports = ports.into_iter().map(u32::from).collect();
            (v1::NetworkPolicy::HostLoopback, ports, Vec::new())
        }
        NetworkPolicy::Hosts(hosts) => {
            let hosts = hosts.iter().map(ToString::to_string).collect();
            (v1::NetworkPolicy::Hosts, Vec::new(), hosts)
        }
        NetworkPolicy::All => (v1::NetworkPolicy::All, Vec::new(), Vec::new()),
    }
}

impl From<OnDenied> for v1::OnDenied {
    fn from(on_denied: OnDenied) -> Self {
        match on_denied {
            OnDenied::Continue => Self::Continue,
            OnDenied::Stop => Self::Stop,
        }
    }
}

impl From<OnExpired> for v1::OnExpired {
    fn from(on_expired: OnExpired) -> Self {
        match on_expired {
            OnExpired::Stop => Self::Stop,
            OnExpired::Continue => Self::Continue,
        }
    }
}

impl From<OnBudget> for v1::OnBudget {
    fn from(on_budget: OnBudget) -> Self {
        match on_budget {
            OnBudget::Block => Self::Block,
            OnBudget::Fail => Self::Fail,
        }
    }
}

impl From<CanaryPolicy> for v1::CanaryPolicy {
    fn from(canary: CanaryPolicy) -> Self {
        match canary {
            CanaryPolicy::Auto => Self::Auto,
            CanaryPolicy::Always => Self::Always,
            CanaryPolicy::Never => Self::Never,
        }
    }
}

impl From<Policy> for v1::Policy {
    fn from(policy: Policy) -> Self {
        let Policy {
            verify_commands,
            repeatable_commands,
            workspace_lock,
            on_busy,
            on_budget,
            require_independent,
            network,
            sandbox,
            workspace_roots: _,
            always_protect: _,
            may_change_within: _,
            protect,
            may_change,
            in_doubt,
            refuse_on,
            canary,
            prepare,
            always_prepare: _,
            confirm,
            verify_tools,
            always_verify_tools: _,
            secrets,
            approve_plan,
        } = policy;
        let ConfirmPolicy { tools, destructive, open_world, on_denied, on_expired } = confirm;
        let workspace_lock = match workspace_lock {
            WorkspaceLock::Exclusive => v1::WorkspaceLock::Exclusive,
            WorkspaceLock::Shared => v1::WorkspaceLock::Shared,
        };
        let on_busy = match on_busy {
            OnBusy::Wait => v1::OnBusy::Wait,
            OnBusy::Fail => v1::OnBusy::Fail,
        };
        let verify_commands = match verify_commands {
            VerifyCommands::Runner => v1::VerifyCommands::Runner,
            VerifyCommands::ReceiptsOnly => v1::VerifyCommands::ReceiptsOnly,
        };
        let (network, loopback_ports, hosts) = network_of(network);
        Self {
            verify_commands: verify_commands.into(),
            repeatable_commands,
            on_budget: v1::OnBudget::from(on_budget).into(),
            confirm_tools: tools,
            confirm_destructive: destructive,
            confirm_open_world: open_world,
            on_denied: v1::OnDenied::from(on_denied).into(),
            on_expired: v1::OnExpired::from(on_expired).into(),
            workspace_lock: workspace_lock.into(),
            on_busy: on_busy.into(),
            require_independent,
            protect,
            may_change,
            in_doubt: v1::InDoubt::from(in_doubt).into(),
            refuse_on,
            prepare,
            verify_tools: verify_tools.into_iter().map(Into::into).collect(),
            secrets,
            approve_plan,
            canary: v1::CanaryPolicy::from(canary).into(),
            network: network.into(),
            loopback_ports,
            hosts,
            sandbox: match sandbox {
                SandboxPolicy::RequireFull => v1::SandboxPolicy::RequireFull,
                SandboxPolicy::AllowPartial => v1::SandboxPolicy::AllowPartial,
                SandboxPolicy::None => v1::SandboxPolicy::None,
            }
            .into(),
        }
    }
}
