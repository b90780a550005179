//! Runs of verification commands that users and operators named: what a `tool_fact` check asks the runner for, and what
//! the tool `verify` runs for a driver.
//!
//! ```text
//!   policy.verify_tools --Verification::of(tool, scope)--> argument list --the runner--> fact verification
//! ```

use crate::domain::check::{AcceptCheck, CheckKind, MAX_SKIPPED, MIN_TESTS, Owner};
use crate::domain::command::command_line;
use crate::domain::plan::Plan;
use crate::domain::problem::{Code, Problem};
use crate::domain::receipt::Fact;
use crate::domain::run::{Policy, VerifyCommands};
use crate::domain::verify_tool::{SCOPE, VerifyTool};

/// The longest scope, in bytes.
const MAX_SCOPE: usize = 256;

/// One run of a named command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The name of the command.
    pub tool: String,
    /// The scope; empty for none.
    pub scope: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The same as one line, in the form of a check's command.
    pub line: String,
    /// How long it may take; none leaves it to the limits of the run.
    pub timeout_s: Option<u64>,
}

impl Verification {
    /// The run that a tool and a scope name, and the owner of its command.
    ///
    /// # Errors
    /// `verify_tool_unknown`, `verify_scope_invalid`.
    pub fn of<'p>(
        tools: impl Iterator<Item = (Owner, &'p VerifyTool)> + Clone,
        tool: &str,
        scope: &str,
    ) -> Result<(Owner, Self), Problem> {
        let wanted = tool.to_lowercase();
        let Some((owner, named)) = tools.clone().find(|(_, named)| named.name == wanted) else {
            let names: Vec<_> = tools.map(|(_, named)| named.name.as_str()).collect();
            let known = match names.as_slice() {
                [] => "the run has none; name one under tools.verify of the plan file (policy.verify_tools of a call)".to_owned(),
                names => format!("use one of {}", names.join(", ")),
            };
            let message = format!("{tool:?} is no verification command of the run: {known}");
            return Err(Problem::at(Code::VerifyToolUnknown, "tool", message));
        };
        check_scope(named, scope)?;
        let argv: Vec<_> = named.argv.iter().map(|word| word.replace(SCOPE, scope)).collect();
        let line = command_line(&argv);
        let (tool, scope) = (named.name.clone(), scope.to_owned());
        Ok((owner, Self { tool, scope, argv, line, timeout_s: named.timeout_s }))
    }

    /// The run that decides a check. None for a check that no command decides: one of another kind, an optional one,
    /// and one that takes facts of any source.
    ///
    /// # Errors
    /// As [`Verification::of`].
    pub fn of_check(
        check: &AcceptCheck,
        policy: &Policy,
    ) -> Result<Option<(Owner, Self)>, Problem> {
        if policy.verify_commands != VerifyCommands::Runner || !is_verification(check) {
            return Ok(None);
        }
        let param = |key: &str| check.params.get(key).map(String::as_str);
        let scope = param("scope").unwrap_or(&check.target);
        Self::of(policy.verify_tools(), param("tool").unwrap_or_default(), scope).map(Some)
    }

    /// What the runner records of it.
    #[must_use]
    pub fn fact(&self, passed: bool) -> Fact {
        Fact::Verification { tool: self.tool.clone(), scope: self.scope.clone(), passed }
    }
}

/// Whether the runner decides a check by a named command, where it verifies.
pub(super) fn is_verification(check: &AcceptCheck) -> bool {
    check.required && check.kind == CheckKind::ToolFact && !check.names_any_source()
}

/// Refuses a plan with a check that no named command decides, or with bounds for tests that are not counted.
///
/// # Errors
/// `verify_tool_unknown`, `verify_scope_invalid`, `key_without_effect`, with the path of the check.
pub fn check_verifications(plan: &Plan, policy: &Policy) -> Result<(), Problem> {
    plan.placed_checks().try_for_each(|(place, check)| {
        let found = Verification::of_check(check, policy).map(drop);
        found
            .and_then(|()| check_bounds(check, policy))
            .map_err(|problem| problem.under(&format!("{place}.params")))
    })
}

/// What steps recorded of a command has no number of tests.
fn check_bounds(check: &AcceptCheck, policy: &Policy) -> Result<(), Problem> {
    let mut bounds = [MIN_TESTS, MAX_SKIPPED].into_iter();
    match bounds.find(|bound| check.params.contains_key(*bound)) {
        Some(bound) if policy.verify_commands == VerifyCommands::ReceiptsOnly => {
            let message =
                "with verify_commands receipts_only no check is run; leave one of both out";
            Err(Problem::at(Code::KeyWithoutEffect, bound, message))
        }
        Some(_) | None => Ok(()),
    }
}

/// A scope becomes an argument of the command, so one that begins with `-` would change what the command does.
fn check_scope(tool: &VerifyTool, scope: &str) -> Result<(), Problem> {
    let refused = |message: String| Err(Problem::at(Code::VerifyScopeInvalid, "scope", message));
    let name = &tool.name;
    match (tool.takes_scope(), scope.is_empty()) {
        (true, true) => {
            refused(format!("{name} needs a scope, the value of {SCOPE} in its command"))
        }
        (false, false) => {
            refused(format!("{name} takes no scope: its command has no {SCOPE}; leave it out"))
        }
        (_, _) if scope.len() > MAX_SCOPE => {
            refused(format!("a scope has at most {MAX_SCOPE} bytes; shorten it"))
        }
        (_, _) if scope.starts_with('-') || scope.chars().any(char::is_control) => {
            let message = "a scope does not begin with `-` and has no control characters";
            refused(format!("{scope:?}: {message}"))
        }
        (_, _) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::check::{Author, read_checks};
    use crate::domain::command::programs;
    use crate::domain::json::parse;

    fn tool(name: &str, argv: &[&str]) -> VerifyTool {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        VerifyTool { name: name.to_owned(), argv, timeout_s: None }
    }

    fn policy() -> Policy {
        Policy {
            verify_tools: vec![tool("types", &["sh", "types.sh", "--only={scope}"])],
            always_verify_tools: vec![tool("lint", &["cargo", "clippy"])],
            ..Policy::default()
        }
    }

    #[test]
    fn bounds_for_tests_need_a_run_that_counts_them() {
        let text =
            r#"[{"kind":"command_success","target":"make test","params":{"min_tests":"2"}}]"#;
        let (verify, _) =
            read_checks(&parse(text).unwrap().value, "verify", Author::Submitter).unwrap();
        let plan = Plan { verify, ..Plan::default() };
        assert!(check_verifications(&plan, &Policy::default()).is_ok());
        let verify_commands = VerifyCommands::ReceiptsOnly;
        let policy = Policy { verify_commands, ..Policy::default() };
        let refused = check_verifications(&plan, &policy).unwrap_err();
        let said = (refused.code, refused.field.as_deref());
        assert_eq!(said, (Code::KeyWithoutEffect, Some("verify[0].params.min_tests")));
    }

    #[test]
    fn a_tool_and_a_scope_name_one_command_and_its_owner() {
        let policy = policy();
        let found = |tool: &str, scope: &str| Verification::of(policy.verify_tools(), tool, scope);
        let (owner, lint) = found("LINT", "").unwrap();
        assert_eq!((owner, lint.line.as_str()), (Owner::Operator, "cargo clippy"));
        let (owner, types) = found("types", "src/it's here").unwrap();
        assert_eq!(owner, Owner::User);
        assert_eq!(types.argv, ["sh", "types.sh", "--only=src/it's here"]);
        assert_eq!(programs(&types.line).unwrap()[0].argv, types.argv, "{}", types.line);
        let passed = Fact::Verification {
            tool: "types".to_owned(),
            scope: "src/it's here".to_owned(),
            passed: true,
        };
        assert_eq!(types.fact(true), passed);
        for (tool, scope, code) in [
            ("format", "", Code::VerifyToolUnknown),
            ("", "", Code::VerifyToolUnknown),
            ("lint", "src", Code::VerifyScopeInvalid),
            ("types", "", Code::VerifyScopeInvalid),
            ("types", "--help", Code::VerifyScopeInvalid),
            ("types", "a\nb", Code::VerifyScopeInvalid),
        ] {
            assert_eq!(found(tool, scope).unwrap_err().code, code, "{tool:?} {scope:?}");
        }
        let none = Verification::of(Policy::default().verify_tools(), "lint", "").unwrap_err();
        assert!(none.message.contains("policy.verify_tools"), "{}", none.message);
        assert!(found("format", "").unwrap_err().message.contains("lint, types"));
    }

    #[test]
    fn a_required_check_without_its_command_is_refused_by_its_path() {
        let refused = |check: &str, policy: &Policy| {
            let list = parse(&format!("[{check}]")).unwrap().value;
            let (verify, _) = read_checks(&list, "verify", Author::Submitter).unwrap();
            let plan = Plan { verify, ..Plan::default() };
            check_verifications(&plan, policy).err().map(|problem| (problem.code, problem.field))
        };
        let own = policy();
        let unknown = Some((Code::VerifyToolUnknown, Some("verify[0].params.tool".to_owned())));
        for (check, expected) in [
            (r#"{"kind": "tool_fact", "params": {"tool": "lint"}}"#, None),
            (r#"{"kind": "tool_fact", "target": "src", "params": {"tool": "types"}}"#, None),
            (r#"{"kind": "tool_fact", "params": {"tool": "format"}}"#, unknown.clone()),
            (r#"{"kind": "tool_fact", "params": {"scope": "src"}}"#, unknown),
            (r#"{"kind": "tool_fact", "params": {"tool": "format", "source": "any"}}"#, None),
            (r#"{"kind": "tool_fact", "required": false, "params": {"tool": "format"}}"#, None),
            (
                r#"{"kind": "tool_fact", "target": "src", "params": {"tool": "lint"}}"#,
                Some((Code::VerifyScopeInvalid, Some("verify[0].params.scope".to_owned()))),
            ),
        ] {
            assert_eq!(refused(check, &own), expected, "{check}");
        }
        let by_receipts = Policy { verify_commands: VerifyCommands::ReceiptsOnly, ..own };
        assert_eq!(
            refused(r#"{"kind": "tool_fact", "params": {"tool": "x"}}"#, &by_receipts),
            None
        );
    }
}
