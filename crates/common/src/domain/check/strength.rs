//! Which checks make a verdict independent of the author of the plan.

use super::{AcceptCheck, CheckKind, Owner, is_thin};
use crate::domain::verdict::Strength;

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
