//! The policy of a request.

use surety_common::domain::caution::check_codes;
use surety_common::domain::check_inputs::InputRules;
use surety_common::domain::confirmation::{ConfirmPolicy, OnDenied, OnExpired, read_tools};
use surety_common::domain::network::{read_hosts, read_ports};
use surety_common::domain::policy::read_prepare;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::run::{
    CanaryPolicy, InDoubt, NetworkPolicy, OnBudget, OnBusy, Policy, SandboxPolicy, VerifyCommands,
    WorkspaceLock,
};
use surety_common::domain::secret::read_secret_names;
use surety_common::domain::verify_tool::read_verify_tools;
use surety_common::wire::run::read_in_doubt;
use surety_common::wire::{v1, verify_tool};

/// What a request allows on its run's behalf.
///
/// # Errors
/// `type_mismatch` for a value that is not served.
pub fn read_policy(policy: v1::Policy) -> Result<Policy, Problem> {
    let v1::Policy {
        verify_commands,
        repeatable_commands,
        on_budget,
        confirm_tools,
        workspace_lock,
        on_busy,
        require_independent,
        network,
        sandbox,
        protect,
        may_change,
        in_doubt,
        refuse_on,
        canary,
        prepare,
        loopback_ports,
        hosts,
        confirm_destructive,
        confirm_open_world,
        on_denied,
        on_expired,
        verify_tools,
        secrets,
        approve_plan,
    } = policy;
    InputRules::new(&protect, &may_change)?;
    let policy = Policy {
        verify_commands: read_verify_commands(verify_commands)?,
        repeatable_commands,
        workspace_lock: read_workspace_lock(workspace_lock)?,
        on_busy: read_on_busy(on_busy)?,
        on_budget: read_on_budget(on_budget)?,
        require_independent,
        network: read_network(network, &loopback_ports, &hosts)?,
        sandbox: read_sandbox(sandbox)?,
        workspace_roots: Vec::new(),
        always_protect: Vec::new(),
        may_change_within: Vec::new(),
        protect,
        may_change,
        in_doubt: asked_in_doubt(in_doubt)?.unwrap_or_default(),
        refuse_on: check_codes("policy.refuse_on", refuse_on)?,
        canary: read_canary(canary)?,
        prepare: read_prepare("policy.prepare", prepare)?,
        always_prepare: Vec::new(),
        verify_tools: read_verify_tools(
            "policy.verify_tools",
            verify_tool::read_verify_tools("policy.verify_tools", verify_tools)?,
        )?,
        always_verify_tools: Vec::new(),
        approve_plan,
        secrets: read_secret_names("policy.secrets", secrets)?,
        confirm: ConfirmPolicy {
            tools: read_tools("policy.confirm_tools", confirm_tools)?,
            destructive: confirm_destructive,
            open_world: confirm_open_world,
            on_denied: read_on_denied(on_denied)?,
            on_expired: read_on_expired(on_expired)?,
        },
    };
    check_together(&policy)?;
    Ok(policy)
}

/// Refuses values that have no effect beside one another.
fn check_together(policy: &Policy) -> Result<(), Problem> {
    if policy.verify_commands == VerifyCommands::ReceiptsOnly && !policy.prepare.is_empty() {
        let message = "with verify_commands receipts_only no check is run; leave one of both out";
        return Err(Problem::at(Code::KeyWithoutEffect, "policy.prepare", message));
    }
    if policy.network.is_partial() && policy.sandbox == SandboxPolicy::None {
        let message = format!("{} needs a sandbox; use none or all", policy.network.as_str());
        return Err(Problem::at(Code::TypeMismatch, "policy.network", message));
    }
    Ok(())
}

fn no_value(field: &str) -> Problem {
    Problem::at(Code::TypeMismatch, field, "is no value of this enum")
}

fn read_verify_commands(number: i32) -> Result<VerifyCommands, Problem> {
    match v1::VerifyCommands::try_from(number) {
        Ok(v1::VerifyCommands::Unspecified | v1::VerifyCommands::Runner) => {
            Ok(VerifyCommands::Runner)
        }
        Ok(v1::VerifyCommands::ReceiptsOnly) => Ok(VerifyCommands::ReceiptsOnly),
        Err(_) => Err(no_value("policy.verify_commands")),
    }
}

fn read_workspace_lock(number: i32) -> Result<WorkspaceLock, Problem> {
    match v1::WorkspaceLock::try_from(number) {
        Ok(v1::WorkspaceLock::Unspecified | v1::WorkspaceLock::Exclusive) => {
            Ok(WorkspaceLock::Exclusive)
        }
        Ok(v1::WorkspaceLock::Shared) => Ok(WorkspaceLock::Shared),
        Err(_) => Err(no_value("policy.workspace_lock")),
    }
}

fn read_on_busy(number: i32) -> Result<OnBusy, Problem> {
    match v1::OnBusy::try_from(number) {
        Ok(v1::OnBusy::Unspecified | v1::OnBusy::Wait) => Ok(OnBusy::Wait),
        Ok(v1::OnBusy::Fail) => Ok(OnBusy::Fail),
        Err(_) => Err(no_value("policy.on_busy")),
    }
}

fn read_on_denied(number: i32) -> Result<OnDenied, Problem> {
    match v1::OnDenied::try_from(number) {
        Ok(v1::OnDenied::Unspecified | v1::OnDenied::Continue) => Ok(OnDenied::Continue),
        Ok(v1::OnDenied::Stop) => Ok(OnDenied::Stop),
        Err(_) => Err(no_value("policy.on_denied")),
    }
}

fn read_on_expired(number: i32) -> Result<OnExpired, Problem> {
    match v1::OnExpired::try_from(number) {
        Ok(v1::OnExpired::Unspecified | v1::OnExpired::Stop) => Ok(OnExpired::Stop),
        Ok(v1::OnExpired::Continue) => Ok(OnExpired::Continue),
        Err(_) => Err(no_value("policy.on_expired")),
    }
}

fn read_on_budget(number: i32) -> Result<OnBudget, Problem> {
    match v1::OnBudget::try_from(number) {
        Ok(v1::OnBudget::Unspecified | v1::OnBudget::Block) => Ok(OnBudget::Block),
        Ok(v1::OnBudget::Fail) => Ok(OnBudget::Fail),
        Err(_) => Err(no_value("policy.on_budget")),
    }
}

fn read_canary(number: i32) -> Result<CanaryPolicy, Problem> {
    match v1::CanaryPolicy::try_from(number) {
        Ok(v1::CanaryPolicy::Unspecified | v1::CanaryPolicy::Auto) => Ok(CanaryPolicy::Auto),
        Ok(v1::CanaryPolicy::Always) => Ok(CanaryPolicy::Always),
        Ok(v1::CanaryPolicy::Never) => Ok(CanaryPolicy::Never),
        Err(_) => Err(no_value("policy.canary")),
    }
}

/// What a request sets `in_doubt` to; none where it leaves that to the policies.
///
/// # Errors
/// `type_mismatch` for an unknown value.
pub(super) fn asked_in_doubt(number: i32) -> Result<Option<InDoubt>, Problem> {
    let unknown =
        |_| Problem::at(Code::TypeMismatch, "policy.in_doubt", "is no value of this enum");
    read_in_doubt(number).map_err(unknown)
}

fn read_network(network: i32, ports: &[u32], hosts: &[String]) -> Result<NetworkPolicy, Problem> {
    const FIELD: &str = "policy.network";
    let refused = |message| Err(Problem::at(Code::TypeMismatch, FIELD, message));
    let policy = match v1::NetworkPolicy::try_from(network) {
        Ok(v1::NetworkPolicy::Unspecified | v1::NetworkPolicy::None) => NetworkPolicy::None,
        Ok(v1::NetworkPolicy::All) => NetworkPolicy::All,
        Ok(v1::NetworkPolicy::HostLoopback) => {
            NetworkPolicy::HostLoopback(read_ports("policy.network.host_loopback", ports)?)
        }
        Ok(v1::NetworkPolicy::Hosts) => {
            NetworkPolicy::Hosts(read_hosts("policy.network.hosts", hosts)?)
        }
        Err(_) => return refused("is no value of this enum"),
    };
    let is_loopback = matches!(policy, NetworkPolicy::HostLoopback(_));
    if !ports.is_empty() && !is_loopback {
        return refused("names ports; they need host_loopback");
    }
    if !hosts.is_empty() && !matches!(policy, NetworkPolicy::Hosts(_)) {
        return refused("names hosts; they need hosts");
    }
    Ok(policy)
}

fn read_sandbox(sandbox: i32) -> Result<SandboxPolicy, Problem> {
    match v1::SandboxPolicy::try_from(sandbox) {
        Ok(v1::SandboxPolicy::RequireFull) => Ok(SandboxPolicy::RequireFull),
        Ok(v1::SandboxPolicy::Unspecified | v1::SandboxPolicy::AllowPartial) => {
            Ok(SandboxPolicy::AllowPartial)
        }
        Ok(v1::SandboxPolicy::None) => Ok(SandboxPolicy::None),
        Err(_) => {
            let message = "is no value of this enum";
            Err(Problem::at(Code::TypeMismatch, "policy.sandbox", message))
        }
    }
}
