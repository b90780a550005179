//! The policy of a run.

use super::super::error::{MessageError, MessageErrorKind as Kind};
use super::super::v1;
use crate::domain::confirmation::{ConfirmPolicy, OnDenied, OnExpired};
use crate::domain::run::{
    CanaryPolicy, InDoubt, NetworkPolicy, OnBudget, OnBusy, Policy, SandboxPolicy, VerifyCommands,
    WorkspaceLock,
};

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
