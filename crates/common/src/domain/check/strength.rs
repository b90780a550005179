//! Which checks make a verdict independent of the author of the plan.

use super::{AcceptCheck, CheckKind, Owner};
use crate::domain::command::programs;
use crate::domain::verdict::Strength;

/// Programs that succeed whatever the workspace holds.
const ALWAYS_SUCCEED: &[&str] = &[":", "echo", "printf", "true"];
/// Arguments with which a program runs no test.
const RUN_NOTHING: &[&str] = &["--collect-only", "--help", "--no-run", "--version"];
/// Arguments with which `make` only prints what it would do.
const ONLY_PRINT: &[&str] = &["-n", "--dry-run", "--just-print", "--recon"];

/// Whether a check cannot fail, whatever was done: it proves nothing about the work.
pub fn is_thin(check: &AcceptCheck) -> bool {
    if check.kind != CheckKind::CommandSuccess {
        return false;
    }
    let programs = programs(&check.target).unwrap_or_default();
    !programs.is_empty() && programs.iter().all(|program| cannot_fail(&program.argv))
}

fn cannot_fail(argv: &[String]) -> bool {
    let Some((program, arguments)) = argv.split_first() else {
        return false;
    };
    let name = program.rsplit('/').next().unwrap_or_default();
    let has = |words: &[&str]| arguments.iter().any(|argument| words.contains(&argument.as_str()));
    ALWAYS_SUCCEED.contains(&name) || has(RUN_NOTHING) || name.ends_with("make") && has(ONLY_PRINT)
}

/// Whose checks a verdict over these checks rests on.
pub fn strength_of(checks: &[AcceptCheck]) -> Strength {
    let counts = |check: &AcceptCheck| {
        // Where the check takes every source, a worker's report holds it.
        let claims = matches!(check.kind, CheckKind::OutputOnly | CheckKind::ActionReport)
            || check.names_any_source();
        check.required && check.owner != Owner::Plan && !claims && !is_thin(check)
    };
    if checks.iter().any(counts) { Strength::Independent } else { Strength::SelfChecked }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::check::{Author, read_checks};
    use crate::domain::json;

    fn read(checks: &str) -> Vec<AcceptCheck> {
        let value = json::parse(checks).unwrap().value;
        read_checks(&value, "verify", Author::Operator).unwrap().0
    }

    #[test]
    fn a_check_that_cannot_fail_is_thin() {
        for (target, thin) in [
            ("true", true),
            ("/bin/true && echo done", true),
            ("cargo test --no-run", true),
            ("make -n test", true),
            ("pytest --collect-only", true),
            ("true && make test", false),
            ("make test", false),
            ("grep -n x f", false),
        ] {
            let check = format!(r#"[{{"kind":"command_success","target":"{target}"}}]"#);
            assert_eq!(is_thin(&read(&check)[0]), thin, "{target}");
        }
    }

    #[test]
    fn a_verdict_is_independent_by_one_check_that_counts() {
        for (check, expected) in [
            (
                r#"{"kind":"command_success","target":"make test","owner":"user"}"#,
                Strength::Independent,
            ),
            (r#"{"kind":"file_exists","target":"a","owner":"operator"}"#, Strength::Independent),
            (r#"{"kind":"command_success","target":"make","owner":"plan"}"#, Strength::SelfChecked),
            (r#"{"kind":"command_success","target":"true","owner":"user"}"#, Strength::SelfChecked),
            (r#"{"kind":"output_only","owner":"user"}"#, Strength::SelfChecked),
            (
                r#"{"kind":"tool_fact","owner":"user","params":{"tool":"deploy","source":"any"}}"#,
                Strength::SelfChecked,
            ),
            (
                r#"{"kind":"file_exists","target":"a","owner":"user","required":false}"#,
                Strength::SelfChecked,
            ),
        ] {
            let checks =
                format!(r#"[{{"kind":"file_exists","target":"b","owner":"plan"}},{check}]"#);
            assert_eq!(strength_of(&read(&checks)), expected, "{check}");
        }
        assert_eq!(strength_of(&[]), Strength::SelfChecked);
    }
}
