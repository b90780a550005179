//! What each caution of a verdict does to it.
//!
//! ```text
//!   caution of a check that holds --refused?--no--> shown in the verdict
//!                                    |yes
//!              a person may accept it?  --no-----> the check fails
//!                                    |yes
//!                      policy.in_doubt  allow ---> shown, the check holds
//!                                       refuse --> the check fails
//!                                       ask -----> a person decides
//! ```

use super::check::Owner;
use super::problem::{Code, Problem};
use super::run::{InDoubt, Policy, VerifyCommands};

/// What may be done about a caution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Acceptable {
    /// It refuses checks of users and operators, and a person may accept it.
    ByPerson,
    /// It refuses checks of users and operators, whatever a person says.
    Never,
    /// It is shown, and refuses only where a policy names it.
    Shown,
}

/// Every caution that a verdict can have.
pub const CAUTIONS: [(&str, Acceptable); 19] = [
    ("check_inputs_changed", Acceptable::ByPerson),
    ("check_inputs_differ", Acceptable::Shown),
    ("ignored_inputs_changed", Acceptable::ByPerson),
    ("ignored_inputs_as_left", Acceptable::Shown),
    ("program_from_workspace", Acceptable::ByPerson),
    ("flaky", Acceptable::ByPerson),
    ("no_tests_seen", Acceptable::ByPerson),
    ("tests_missing", Acceptable::ByPerson),
    ("runner_patched", Acceptable::Never),
    ("canary_not_run", Acceptable::Shown),
    ("thin_check", Acceptable::Shown),
    ("thin_report", Acceptable::Shown),
    ("forge_not_asked", Acceptable::Shown),
    ("sandbox_partial", Acceptable::Shown),
    ("participant_unconfined", Acceptable::Shown),
    ("overlay_readable", Acceptable::Shown),
    ("no_base_revision", Acceptable::Shown),
    ("originals_not_run", Acceptable::Shown),
    ("project_tests_failed_before", Acceptable::Shown),
];

/// What may be done about the caution with this code; an unknown one is shown.
pub fn acceptable(code: &str) -> Acceptable {
    let found = CAUTIONS.iter().find(|(known, _)| *known == code);
    found.map_or(Acceptable::Shown, |(_, acceptable)| *acceptable)
}

/// Looks at a list of cautions, and brings it into its one form: sorted, without repeats.
///
/// # Errors
/// `type_mismatch`, naming the place in `field` whose text is no caution.
pub fn check_codes(field: &str, codes: Vec<String>) -> Result<Vec<String>, Problem> {
    for (place, code) in codes.iter().enumerate() {
        if !CAUTIONS.iter().any(|(known, _)| known == code) {
            let known = CAUTIONS.map(|(known, _)| known).join(", ");
            let message = format!("{code:?} is no caution; use some of: {known}");
            return Err(Problem::at(Code::TypeMismatch, format!("{field}[{place}]"), message));
        }
    }
    let mut codes = codes;
    codes.sort_unstable();
    codes.dedup();
    Ok(codes)
}

/// What a run's policy says about cautions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CautionRules<'p> {
    /// What is done where a person may decide.
    pub in_doubt: InDoubt,
    /// Cautions that refuse beside those that do by default, checks of the plan included.
    pub refuse_on: &'p [String],
    /// Whether what steps recorded decides, so that no check ran with the original check inputs.
    pub receipts_only: bool,
}

impl<'p> CautionRules<'p> {
    /// Those of a policy.
    pub fn of(policy: &'p Policy) -> Self {
        let receipts_only = policy.verify_commands == VerifyCommands::ReceiptsOnly;
        Self { in_doubt: policy.in_doubt, refuse_on: &policy.refuse_on, receipts_only }
    }

    /// Whether a caution about a check of this owner refuses. `only_shown` says that the caution has an
    /// explanation which no default refuses.
    pub fn refuses(&self, code: &str, owner: Owner, only_shown: bool) -> bool {
        let by_default = match acceptable(code) {
            Acceptable::ByPerson | Acceptable::Never => owner != Owner::Plan && !only_shown,
            Acceptable::Shown => false,
        };
        by_default || self.refuse_on.iter().any(|named| named == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_a_caution_refuses_checks_of_users_and_operators_where_the_table_says_so() {
        let rules = CautionRules::default();
        for (code, user, plan) in [
            ("check_inputs_changed", true, false),
            ("ignored_inputs_changed", true, false),
            ("program_from_workspace", true, false),
            ("flaky", true, false),
            ("no_tests_seen", true, false),
            ("tests_missing", true, false),
            ("runner_patched", true, false),
            ("check_inputs_differ", false, false),
            ("canary_not_run", false, false),
            ("thin_check", false, false),
        ] {
            assert_eq!(rules.refuses(code, Owner::User, false), user, "{code}");
            assert_eq!(rules.refuses(code, Owner::Operator, false), user, "{code}");
            assert_eq!(rules.refuses(code, Owner::Plan, false), plan, "{code}");
            assert!(!rules.refuses(code, Owner::User, true), "{code} is only shown");
        }
    }

    #[test]
    fn a_policy_adds_cautions_that_refuse_and_takes_none_away() {
        let refuse_on = vec!["thin_check".to_owned()];
        let rules = CautionRules { refuse_on: &refuse_on, ..CautionRules::default() };
        for owner in [Owner::User, Owner::Operator, Owner::Plan] {
            assert!(rules.refuses("thin_check", owner, true), "{owner:?}");
        }
        assert!(rules.refuses("runner_patched", Owner::User, false));
        assert!(!rules.refuses("runner_patched", Owner::Plan, false));
    }

    #[test]
    fn a_name_that_is_no_caution_is_refused_by_its_place() {
        let codes = |codes: &[&str]| codes.iter().map(|code| (*code).to_owned()).collect();
        let refused = check_codes("policy.refuse_on", codes(&["flaky", "flakey"]));
        let refused = refused.expect_err("a refusal");
        assert_eq!(refused.field.as_deref(), Some("policy.refuse_on[1]"));
        assert!(refused.message.contains("flaky"), "{refused:?}");
        let read = check_codes("policy.refuse_on", codes(&["thin_check", "flaky", "flaky"]));
        assert_eq!(read, Ok(codes(&["flaky", "thin_check"])));
    }
}
