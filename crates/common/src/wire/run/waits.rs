//! The waits of a run, and what was granted for it.

use super::super::v1;
use super::super::value::timestamp;
use crate::domain::acceptance::{Acceptance, Difference};
use crate::domain::confirmation::CallToConfirm;
use crate::domain::execution::wait_rows::WaitKind;
use crate::domain::execution::{Execution, Wait};
use crate::domain::grant::{ArgumentRule, CallGrant, Revoked};
use crate::domain::machine::run::RunState;
use crate::domain::run::RunRecord;
use crate::domain::stop::WaitingOn;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;

/// What a blocked run waits for.
pub fn blocked(execution: &Execution) -> Option<v1::Blocked> {
    let RunState::Blocked(phase) = execution.state else { return None };
    let wait = execution.wait.clone()?;
    let kind = v1::WaitKind::from(wait.kind()).into();
    let Wait { id, waiting_on, since, unblocks, question, .. } = *wait;
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
    let question_digest = wait.digest_of_question();
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
        question_digest,
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
                ArgumentRule::Elements(patterns) => {
                    v1::granted_argument::Value::Elements(v1::ElementPatterns { patterns })
                }
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
