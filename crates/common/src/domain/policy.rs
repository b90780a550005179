//! What operators ask of every run of a namespace. A request can only tighten it.

use crate::domain::check::{AcceptCheck, Author, Owner, normalise_checks, read_checks};
use crate::domain::json::Value;
use crate::domain::limits::{Limits, WITHOUT_EFFECT};
use crate::domain::problem::{Code, Problem};
use crate::domain::run::{Policy, VerifyCommands};
use std::collections::BTreeMap;

/// The most checks that a namespace may ask of a run.
const MAX_CHECKS: usize = 100;

/// The policy of a namespace. The default asks nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamespacePolicy {
    /// The highest value of a limit, by the limit's name.
    pub ceilings: BTreeMap<String, u64>,
    /// Whether a second person has to approve what the first one requested.
    pub four_eyes: bool,
    /// Whether every check's command is run by the runner itself: `receipts_only` is refused.
    pub refuse_receipts_only: bool,
    /// Whether no run may declare commands that are safe to run again.
    pub refuse_repeatable_commands: bool,
    /// Checks of every run, in front of its plan's, with the owner `operator`.
    pub checks: Vec<AcceptCheck>,
}

impl NamespacePolicy {
    /// The keys that have an effect; any other is refused when the policy is set. `four_eyes` has none
    /// until confirmations are served.
    pub const KEYS: [&str; 4] =
        ["ceilings", "checks", "refuse_receipts_only", "refuse_repeatable_commands"];

    /// Looks at the whole policy, and brings its checks into their one form.
    ///
    /// # Errors
    /// `key_without_effect` for a key or a ceiling that has no effect; `limit_out_of_range` for a ceiling
    /// of no limit or outside the limit's range; `too_large` for too many checks; the codes of checks.
    pub fn validated(mut self) -> Result<Self, Problem> {
        if self.four_eyes {
            return Err(without_effect("four_eyes".to_owned()));
        }
        for (name, ceiling) in &self.ceilings {
            if WITHOUT_EFFECT.contains(&name.as_str()) {
                return Err(without_effect(format!("ceilings.{name}")));
            }
            let at = |message: String| {
                Problem::at(Code::LimitOutOfRange, format!("ceilings.{name}"), message)
            };
            let (low, high) = Limits::range_of(name)
                .ok_or_else(|| at(format!("{name:?} is no limit of a run")))?;
            if !(low..=high).contains(ceiling) {
                return Err(at(format!(
                    "{ceiling} is outside {low}..{high}; choose a value inside"
                )));
            }
        }
        if self.checks.len() > MAX_CHECKS {
            let message = format!("has more than {MAX_CHECKS} checks; leave some out");
            return Err(Problem::at(Code::TooLarge, "checks", message));
        }
        let stored = Value::Array(self.checks.iter().map(AcceptCheck::to_json).collect());
        let (checks, _) = read_checks(&stored, "checks", Author::Operator)?;
        self.checks = checks.into_iter().map(of_operator).collect();
        Ok(self)
    }

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

    /// Compares the rules that a run asks for with the floors.
    ///
    /// # Errors
    /// `policy_exceeded`, naming the rule and the policy key.
    pub fn admit(&self, policy: &Policy) -> Result<(), Problem> {
        let refused = |field: &str, key: &str| {
            let message = format!("the namespace's policy key {key} refuses this; leave it out");
            Err(Problem::at(Code::PolicyExceeded, format!("policy.{field}"), message))
        };
        if self.refuse_receipts_only && policy.verify_commands == VerifyCommands::ReceiptsOnly {
            return refused("verify_commands", "refuse_receipts_only");
        }
        if self.refuse_repeatable_commands && !policy.repeatable_commands.is_empty() {
            return refused("repeatable_commands", "refuse_repeatable_commands");
        }
        Ok(())
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

    /// The form it is stored in.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Self { ceilings, four_eyes, refuse_receipts_only, refuse_repeatable_commands, checks } =
            self;
        let ceilings =
            ceilings.iter().map(|(name, value)| (name.clone(), Value::Number(value.to_string())));
        let member = |key: &str, value| (key.to_owned(), value);
        Value::Object(vec![
            member("ceilings", Value::Object(ceilings.collect())),
            member("four_eyes", Value::Bool(*four_eyes)),
            member("refuse_receipts_only", Value::Bool(*refuse_receipts_only)),
            member("refuse_repeatable_commands", Value::Bool(*refuse_repeatable_commands)),
            member("checks", Value::Array(checks.iter().map(AcceptCheck::to_json).collect())),
        ])
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// `type_mismatch`, or what is wrong with a check.
    pub fn from_json(value: &Value) -> Result<Self, Problem> {
        let truth = |key: &str| value.get(key).and_then(Value::as_bool).unwrap_or_default();
        let mut ceilings = BTreeMap::new();
        for (name, value) in value.get("ceilings").and_then(Value::as_object).unwrap_or_default() {
            let number = value.as_number().and_then(|number| number.parse().ok());
            let number = number.ok_or_else(|| {
                Problem::at(Code::TypeMismatch, format!("ceilings.{name}"), "is no whole number")
            })?;
            ceilings.insert(name.clone(), number);
        }
        let none = Value::Null;
        let stored = value.get("checks").unwrap_or(&none);
        let (checks, _) = read_checks(stored, "checks", Author::Operator)?;
        Ok(Self {
            ceilings,
            four_eyes: truth("four_eyes"),
            refuse_receipts_only: truth("refuse_receipts_only"),
            refuse_repeatable_commands: truth("refuse_repeatable_commands"),
            checks: checks.into_iter().map(of_operator).collect(),
        })
    }
}

fn without_effect(field: String) -> Problem {
    Problem::at(Code::KeyWithoutEffect, field, "has no effect in this version; leave it out")
}

fn of_operator(check: AcceptCheck) -> AcceptCheck {
    AcceptCheck { owner: Owner::Operator, ..check }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, ceiling: u64) -> NamespacePolicy {
        let ceilings = BTreeMap::from([(name.to_owned(), ceiling)]);
        NamespacePolicy { ceilings, ..NamespacePolicy::default() }
    }

    #[test]
    fn a_request_tightens_a_ceiling_and_one_above_is_refused_by_its_key() {
        let strict = policy("max_run_rounds", 10);
        let asks = |rounds| Limits { max_run_rounds: rounds, ..Limits::default() };
        let bound = |limits, asked: bool| strict.bound(limits, |_| asked);
        assert_eq!(bound(asks(5), true).map(|limits| limits.max_run_rounds), Ok(5));
        assert_eq!(bound(Limits::default(), false).map(|limits| limits.max_run_rounds), Ok(10));
        let refused = bound(asks(11), true).expect_err("a refusal");
        assert_eq!(refused.code, Code::PolicyExceeded);
        assert_eq!(refused.field.as_deref(), Some("limits.max_run_rounds"));
        assert!(refused.message.contains("ceilings.max_run_rounds"), "{refused:?}");
    }

    #[test]
    fn a_budget_that_is_not_asked_for_is_the_ceiling() {
        let bound = policy("token_budget", 7).bound(Limits::default(), |_| false);
        assert_eq!(bound.map(|limits| limits.token_budget), Ok(Some(7)));
    }

    #[test]
    fn a_ceiling_of_no_limit_or_outside_its_range_is_refused() {
        for (name, ceiling) in [("max_fun", 1), ("max_replans", 11)] {
            let refused = policy(name, ceiling).validated().expect_err(name);
            assert_eq!(refused.field, Some(format!("ceilings.{name}")));
        }
        assert!(policy("max_replans", 0).validated().is_ok());
    }

    #[test]
    fn a_key_without_effect_is_refused_by_its_name() {
        let four_eyes = NamespacePolicy { four_eyes: true, ..NamespacePolicy::default() };
        let cases =
            [(four_eyes, "four_eyes"), (policy("token_budget", 7), "ceilings.token_budget")];
        for (policy, field) in cases {
            let refused = policy.validated().expect_err(field);
            assert_eq!(refused.code, Code::KeyWithoutEffect);
            assert_eq!(refused.field.as_deref(), Some(field));
        }
    }

    #[test]
    fn a_floor_refuses_what_is_below_it() {
        let strict = NamespacePolicy {
            refuse_receipts_only: true,
            refuse_repeatable_commands: true,
            ..NamespacePolicy::default()
        };
        assert_eq!(strict.admit(&Policy::default()), Ok(()));
        let loose = Policy { verify_commands: VerifyCommands::ReceiptsOnly, ..Policy::default() };
        let refused = strict.admit(&loose).expect_err("a refusal");
        assert!(refused.message.contains("refuse_receipts_only"), "{refused:?}");
        let loose = Policy { repeatable_commands: vec!["make".into()], ..Policy::default() };
        assert!(strict.admit(&loose).is_err());
        assert_eq!(NamespacePolicy::default().admit(&loose), Ok(()));
    }

    #[test]
    fn a_stored_policy_reads_back_and_its_checks_are_the_operators() {
        let check = Value::Object(vec![
            ("kind".to_owned(), Value::String("command_success".to_owned())),
            ("target".to_owned(), Value::String("make test".to_owned())),
            ("owner".to_owned(), Value::String("plan".to_owned())),
        ]);
        let (checks, _) =
            read_checks(&Value::Array(vec![check]), "checks", Author::Operator).expect("checks");
        let policy = NamespacePolicy { checks, ..policy("max_replans", 3) };
        let policy = policy.validated().expect("a policy");
        assert_eq!(policy.checks.first().map(|check| check.owner), Some(Owner::Operator));
        assert_eq!(NamespacePolicy::from_json(&policy.to_json()), Ok(policy.clone()));
        assert_eq!(policy.with_checks(Vec::new()).len(), 1);
    }
}
