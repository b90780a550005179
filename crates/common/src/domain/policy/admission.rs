//! What a run may ask for under the policy of its namespace.

use super::NamespacePolicy;
use crate::domain::caution::check_codes;
use crate::domain::check::{AcceptCheck, Owner, SANDBOX_PARAM, normalise_checks};
use crate::domain::confirmation::ConfirmPolicy;
use crate::domain::limits::Limits;
use crate::domain::plan::Plan;
use crate::domain::problem::{Code, Problem};
use crate::domain::run::{InDoubt, NetworkPolicy, Policy, SandboxPolicy, VerifyCommands};
use crate::domain::verify_tool::VerifyTool;

impl NamespacePolicy {
    /// The limits of a run: what it asks for, and the ceilings where it asks for nothing. `asked` says
    /// whether the request sets a limit itself.
    ///
    /// # Errors
    /// `policy_exceeded`, naming the limit and the policy key, when it asks for more than a ceiling.
    pub fn bound(
        &self,
        mut limits: Limits,
        asked: impl Fn(&str) -> bool,
    ) -> Result<Limits, Problem> {
        for (name, ceiling) in &self.ceilings {
            let Some(mut value) = limits.value_mut(name) else { continue };
            let exceeds = value.get().is_none_or(|value| value > *ceiling);
            if exceeds && asked(name) {
                let asked = value.get().unwrap_or(u64::MAX);
                let message = format!(
                    "{asked} is above the ceiling {ceiling} of the namespace's policy key \
                     ceilings.{name}; ask for less"
                );
                return Err(Problem::at(Code::PolicyExceeded, format!("limits.{name}"), message));
            }
            if exceeds {
                value.set(*ceiling);
            }
        }
        Ok(limits)
    }

    /// The rules of a run: what it asks for, tightened to the floors. `asked` says what the request sets
    /// `in_doubt` to itself; none leaves it to the policies.
    ///
    /// # Errors
    /// `policy_exceeded`, naming the rule and the policy key, when it asks for what is refused.
    pub fn admit(&self, policy: Policy, asked: Option<InDoubt>) -> Result<Policy, Problem> {
        let most = self.in_doubt.unwrap_or(InDoubt::Allow);
        if let Some(asked) = asked.filter(|asked| *asked > most) {
            let message = format!(
                "{} is more lenient than {}, the namespace's policy key in_doubt; ask for less",
                asked.as_str(),
                most.as_str()
            );
            return Err(Problem::at(Code::PolicyExceeded, "policy.in_doubt", message));
        }
        let is_taken = |tool: &VerifyTool| self.verify_tools.iter().any(|it| it.name == tool.name);
        if let Some(place) = policy.verify_tools.iter().position(is_taken) {
            let message = "the namespace's policy key verify_tools has this name; use another one";
            let field = format!("policy.verify_tools[{place}].name");
            return Err(Problem::at(Code::PolicyExceeded, field, message));
        }
        let receipts_only = policy.verify_commands == VerifyCommands::ReceiptsOnly;
        let unsandboxed = policy.sandbox == SandboxPolicy::None;
        for (refuses, asks, field, key) in [
            (self.refuse_receipts_only, receipts_only, "verify_commands", "refuse_receipts_only"),
            (
                self.refuse_repeatable_commands,
                !policy.repeatable_commands.is_empty(),
                "repeatable_commands",
                "refuse_repeatable_commands",
            ),
            (
                self.refuse_network,
                policy.network != NetworkPolicy::None,
                "network",
                "refuse_network",
            ),
            (
                self.refuse_may_change,
                !policy.may_change.is_empty(),
                "may_change",
                "refuse_may_change",
            ),
            (self.refuse_unsandboxed, unsandboxed, "sandbox", "refuse_unsandboxed"),
            (self.require_full_sandbox, unsandboxed, "sandbox", "require_full_sandbox"),
        ] {
            if refuses && asks {
                let message =
                    format!("the namespace's policy key {key} refuses this; leave it out");
                return Err(Problem::at(Code::PolicyExceeded, format!("policy.{field}"), message));
            }
        }
        let sandbox =
            if self.require_full_sandbox { SandboxPolicy::RequireFull } else { policy.sandbox };
        Ok(Policy {
            sandbox,
            require_independent: self.require_independent || policy.require_independent,
            workspace_roots: self.workspace_roots.clone(),
            in_doubt: policy.in_doubt.min(most),
            refuse_on: check_codes(
                "refuse_on",
                [self.refuse_on.clone(), policy.refuse_on].concat(),
            )?,
            always_protect: self.protect.clone(),
            may_change_within: self.may_change_within.clone(),
            always_prepare: self.prepare.clone(),
            confirm: self.confirmed(policy.confirm),
            always_verify_tools: self.verify_tools.clone(),
            ..policy
        })
    }

    /// Refuses checks of a plan that ask for no sandbox, where the run's rules or the namespace's do not let them. The
    /// operator may set one for a namespace whose users may not.
    ///
    /// # Errors
    /// `sandbox_not_allowed` where the run requires the level full, `policy_exceeded` naming the policy key.
    pub fn admit_checks(&self, plan: &Plan, policy: &Policy) -> Result<(), Problem> {
        let mut asking = plan.placed_checks().filter(|(_, check)| check.is_unconfined());
        asking.try_for_each(|(place, check)| {
            let field = format!("{place}.params.{SANDBOX_PARAM}");
            if policy.sandbox == SandboxPolicy::RequireFull {
                let message = "the run requires the full sandbox; leave one of both out";
                return Err(Problem::at(Code::SandboxNotAllowed, field, message));
            }
            if self.refuse_unsandboxed && check.owner != Owner::Operator {
                let message =
                    "the namespace's policy key refuse_unsandboxed refuses this; leave it out";
                return Err(Problem::at(Code::PolicyExceeded, field, message));
            }
            Ok(())
        })
    }

    /// What needs a confirmation in a run: what it asks for, and what the namespace does.
    #[must_use]
    pub fn confirmed(&self, asked: ConfirmPolicy) -> ConfirmPolicy {
        let mut tools = self.confirm_tools.clone();
        let more: Vec<_> = asked.tools.into_iter().filter(|tool| !tools.contains(tool)).collect();
        tools.extend(more);
        ConfirmPolicy {
            tools,
            destructive: self.confirm_destructive || asked.destructive,
            open_world: self.confirm_open_world || asked.open_world,
            ..asked
        }
    }

    /// The checks of a run's plan with the policy's in front.
    #[must_use]
    pub fn with_checks(&self, own: Vec<AcceptCheck>) -> Vec<AcceptCheck> {
        if self.checks.is_empty() {
            return own;
        }
        let all = self.checks.iter().cloned().chain(own).collect();
        normalise_checks(all, "verify").0
    }
}
