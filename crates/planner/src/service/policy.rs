//! The policy of a request.

use surety_common::domain::caution::check_codes;
use surety_common::domain::check_inputs::InputRules;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::run::{
    CanaryPolicy, InDoubt, NetworkPolicy, OnBusy, Policy, SandboxPolicy, VerifyCommands,
    WorkspaceLock,
};
use surety_common::wire::run::read_in_doubt;
use surety_common::wire::v1;

/// What a request allows on its run's behalf.
///
/// # Errors
/// `key_without_effect`; `type_mismatch` for a value that is not served.
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
    } = policy;
    if on_budget != i32::from(v1::OnBudget::Unspecified) {
        return Err(without_effect("policy.on_budget"));
    }
    if !confirm_tools.is_empty() {
        return Err(without_effect("policy.confirm_tools"));
    }
    let verify_commands = match v1::VerifyCommands::try_from(verify_commands) {
        Ok(v1::VerifyCommands::Unspecified | v1::VerifyCommands::Runner) => VerifyCommands::Runner,
        Ok(v1::VerifyCommands::ReceiptsOnly) => VerifyCommands::ReceiptsOnly,
        Err(_) => {
            let message = "is not a value of this enum";
            return Err(Problem::at(Code::TypeMismatch, "policy.verify_commands", message));
        }
    };
    let no_value = |field| Problem::at(Code::TypeMismatch, field, "is no value of this enum");
    let workspace_lock = match v1::WorkspaceLock::try_from(workspace_lock) {
        Ok(v1::WorkspaceLock::Unspecified | v1::WorkspaceLock::Exclusive) => {
            WorkspaceLock::Exclusive
        }
        Ok(v1::WorkspaceLock::Shared) => WorkspaceLock::Shared,
        Err(_) => return Err(no_value("policy.workspace_lock")),
    };
    let on_busy = match v1::OnBusy::try_from(on_busy) {
        Ok(v1::OnBusy::Unspecified | v1::OnBusy::Wait) => OnBusy::Wait,
        Ok(v1::OnBusy::Fail) => OnBusy::Fail,
        Err(_) => return Err(no_value("policy.on_busy")),
    };
    InputRules::new(&protect, &may_change)?;
    let in_doubt = asked_in_doubt(in_doubt)?.unwrap_or_default();
    let refuse_on = check_codes("policy.refuse_on", refuse_on)?;
    let canary = match v1::CanaryPolicy::try_from(canary) {
        Ok(v1::CanaryPolicy::Unspecified | v1::CanaryPolicy::Auto) => CanaryPolicy::Auto,
        Ok(v1::CanaryPolicy::Always) => CanaryPolicy::Always,
        Ok(v1::CanaryPolicy::Never) => CanaryPolicy::Never,
        Err(_) => return Err(no_value("policy.canary")),
    };
    let (network, sandbox) = (read_network(network)?, read_sandbox(sandbox)?);
    Ok(Policy {
        verify_commands,
        repeatable_commands,
        workspace_lock,
        on_busy,
        require_independent,
        network,
        sandbox,
        workspace_roots: Vec::new(),
        always_protect: Vec::new(),
        may_change_within: Vec::new(),
        protect,
        may_change,
        in_doubt,
        refuse_on,
        canary,
    })
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

fn read_network(network: i32) -> Result<NetworkPolicy, Problem> {
    let refused = |message| Err(Problem::at(Code::TypeMismatch, "policy.network", message));
    match v1::NetworkPolicy::try_from(network) {
        Ok(v1::NetworkPolicy::Unspecified | v1::NetworkPolicy::None) => Ok(NetworkPolicy::None),
        Ok(v1::NetworkPolicy::All) => Ok(NetworkPolicy::All),
        Ok(v1::NetworkPolicy::HostLoopback | v1::NetworkPolicy::Hosts) => {
            refused("host_loopback and hosts are not served yet; use none or all")
        }
        Err(_) => refused("is no value of this enum"),
    }
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

pub(super) fn without_effect(field: &str) -> Problem {
    Problem::at(Code::KeyWithoutEffect, field, "has no effect in this version; leave it out")
}
