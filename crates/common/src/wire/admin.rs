//! Tokens, policies and audit events on the wire.

use super::error::{MessageError, MessageErrorKind as Kind};
use super::run::read_in_doubt;
use super::v1;
use super::value::{timestamp, whole_seconds};
use super::verify_tool::read_verify_tools;
use crate::domain::check::AcceptCheck;
use crate::domain::identity::Role;
use crate::domain::policy::NamespacePolicy;
use crate::domain::tool_workers::{ToolWorkerPolicy, WorkerAnnotations};

impl From<Role> for v1::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Driver => Self::Driver,
            Role::Worker => Self::Worker,
            Role::Viewer => Self::Viewer,
            Role::Submitter => Self::Submitter,
            Role::Operator => Self::Operator,
            Role::Approver => Self::Approver,
            Role::Service => Self::Service,
        }
    }
}

/// The role of a number on the wire.
///
/// # Errors
/// [`Kind::UnknownEnumValue`], also for the one that is not said.
pub fn read_role(number: i32) -> Result<Role, MessageError> {
    match v1::Role::try_from(number) {
        Ok(v1::Role::Driver) => Ok(Role::Driver),
        Ok(v1::Role::Worker) => Ok(Role::Worker),
        Ok(v1::Role::Viewer) => Ok(Role::Viewer),
        Ok(v1::Role::Submitter) => Ok(Role::Submitter),
        Ok(v1::Role::Operator) => Ok(Role::Operator),
        Ok(v1::Role::Approver) => Ok(Role::Approver),
        Ok(v1::Role::Service) => Ok(Role::Service),
        Ok(v1::Role::Unspecified) | Err(_) => {
            Err(MessageError::at("roles", Kind::UnknownEnumValue(number)))
        }
    }
}

impl From<NamespacePolicy> for v1::NamespacePolicy {
    fn from(policy: NamespacePolicy) -> Self {
        let NamespacePolicy {
            ceilings,
            four_eyes,
            refuse_receipts_only,
            refuse_repeatable_commands,
            checks,
            refuse_network,
            refuse_unsandboxed,
            require_full_sandbox,
            require_independent,
            workspace_roots,
            in_doubt,
            refuse_on,
            protect,
            refuse_may_change,
            may_change_within,
            prepare,
            confirm_tools,
            confirm_destructive,
            confirm_open_world,
            tool_workers,
            verify_tools,
        } = policy;
        Self {
            ceilings,
            four_eyes,
            refuse_receipts_only,
            refuse_repeatable_commands,
            checks: checks.into_iter().map(Into::into).collect(),
            refuse_network,
            refuse_unsandboxed,
            require_full_sandbox,
            require_independent,
            workspace_roots,
            in_doubt: in_doubt.map_or(v1::InDoubt::Unspecified, v1::InDoubt::from).into(),
            refuse_on,
            protect,
            refuse_may_change,
            may_change_within,
            prepare,
            confirm_tools,
            confirm_destructive,
            confirm_open_world,
            tool_workers: tool_workers.into_iter().map(Into::into).collect(),
            verify_tools: verify_tools.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::NamespacePolicy> for NamespacePolicy {
    type Error = MessageError;

    fn try_from(policy: v1::NamespacePolicy) -> Result<Self, Self::Error> {
        let v1::NamespacePolicy {
            ceilings,
            four_eyes,
            refuse_receipts_only,
            refuse_repeatable_commands,
            checks,
            refuse_network,
            refuse_unsandboxed,
            require_full_sandbox,
            require_independent,
            workspace_roots,
            in_doubt,
            refuse_on,
            protect,
            refuse_may_change,
            may_change_within,
            prepare,
            confirm_tools,
            confirm_destructive,
            confirm_open_world,
            tool_workers,
            verify_tools,
        } = policy;
        let read = |(index, check): (usize, v1::AcceptCheck)| {
            AcceptCheck::try_from(check).map_err(|error| error.under(&format!("checks[{index}]")))
        };
        Ok(Self {
            ceilings,
            four_eyes,
            refuse_receipts_only,
            refuse_repeatable_commands,
            checks: checks.into_iter().enumerate().map(read).collect::<Result<_, _>>()?,
            refuse_network,
            refuse_unsandboxed,
            require_full_sandbox,
            require_independent,
            workspace_roots,
            in_doubt: read_in_doubt(in_doubt)?,
            refuse_on,
            protect,
            refuse_may_change,
            may_change_within,
            prepare,
            confirm_tools,
            confirm_destructive,
            confirm_open_world,
            tool_workers: tool_workers.into_iter().map(ToolWorkerPolicy::from).collect(),
            verify_tools: read_verify_tools("verify_tools", verify_tools)?,
        })
    }
}

impl From<ToolWorkerPolicy> for v1::ToolWorkerPolicy {
    fn from(entry: ToolWorkerPolicy) -> Self {
        let ToolWorkerPolicy { tool, identities, annotations, max_attempts, retry_backoff_s } =
            entry;
        let WorkerAnnotations { read_only, destructive, idempotent, open_world } = annotations;
        Self {
            tool,
            identities,
            annotations: Some(v1::ToolAnnotations {
                read_only: Some(read_only),
                destructive: Some(destructive),
                idempotent: Some(idempotent),
                open_world: Some(open_world),
            }),
            max_attempts,
            retry_backoff: (retry_backoff_s > 0).then(|| whole_seconds(retry_backoff_s.into())),
        }
    }
}

impl From<v1::ToolWorkerPolicy> for ToolWorkerPolicy {
    fn from(entry: v1::ToolWorkerPolicy) -> Self {
        let v1::ToolWorkerPolicy { tool, identities, annotations, max_attempts, retry_backoff } =
            entry;
        let safe = WorkerAnnotations::default();
        let v1::ToolAnnotations { read_only, destructive, idempotent, open_world } =
            annotations.unwrap_or_default();
        let annotations = WorkerAnnotations {
            read_only: read_only.unwrap_or(safe.read_only),
            destructive: destructive.unwrap_or(safe.destructive),
            idempotent: idempotent.unwrap_or(safe.idempotent),
            open_world: open_world.unwrap_or(safe.open_world),
        };
        let backoff_s = retry_backoff.map_or(0, |backoff| backoff.seconds);
        // A negative one is outside the range, as one that is too long.
        let retry_backoff_s = u32::try_from(backoff_s).unwrap_or(u32::MAX);
        Self { tool, identities, annotations, max_attempts, retry_backoff_s }
    }
}

/// A stored token, without anything of its secret.
#[cfg(feature = "store")]
impl From<crate::store::StoredToken> for v1::AccessToken {
    fn from(token: crate::store::StoredToken) -> Self {
        let crate::store::StoredToken {
            id,
            hash: _,
            identity,
            created_at,
            created_by,
            expires_at,
            revoked_at,
            last_used_at,
        } = token;
        Self {
            id: id.to_string(),
            name: identity.name,
            roles: identity.roles.into_iter().map(|role| v1::Role::from(role).into()).collect(),
            namespaces: identity.namespaces.to_names(),
            created_at: Some(timestamp(created_at)),
            created_by,
            expires_at: expires_at.map(timestamp),
            revoked_at: revoked_at.map(timestamp),
            last_used_at: last_used_at.map(timestamp),
        }
    }
}

/// A change of what is administered.
#[cfg(feature = "store")]
impl From<crate::store::AuditRow> for v1::AuditEvent {
    fn from(row: crate::store::AuditRow) -> Self {
        let crate::store::AuditRow { id, at, identity, action, object, before, after } = row;
        Self {
            id: id.to_string(),
            at: Some(timestamp(at)),
            identity,
            action,
            object,
            before_json: before.unwrap_or_default(),
            after_json: after.unwrap_or_default(),
        }
    }
}
