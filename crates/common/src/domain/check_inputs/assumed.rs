//! What is assumed of the files that the lines of checks name, said before anything runs.

use super::line::scripts;
use super::{Assumed, InputRules, StartInputs, convention_of};
use crate::domain::check::{AcceptCheck, CheckKind, Owner};
use crate::domain::problem::{Warning, WarningCode};
use std::fmt::Display;

/// What the text of each check alone, with its place, says of the files that it names. Whether they are there, and what
/// imports them, is known where the workspace is.
pub fn assumptions<'c>(
    checks: impl Iterator<Item = (impl Display, &'c AcceptCheck)>,
    rules: &InputRules,
) -> Vec<Warning> {
    let assumed = |line: &str| {
        let found = scripts(line).into_iter();
        let assumed = found.map(|script| {
            let assumed = if script.is_product { Assumed::Product } else { Assumed::Protected };
            (script.path, assumed)
        });
        assumed.collect()
    };
    warnings(checks, rules, assumed)
}

/// What is assumed of the files that are there at the start.
pub fn assumptions_at_start(checks: &[AcceptCheck], inputs: &StartInputs<'_>) -> Vec<Warning> {
    let assumed = |line: &str| {
        let found = inputs.scripts(line).into_iter();
        let text = |path: Vec<u8>| String::from_utf8_lossy(&path).into_owned();
        found.map(|(path, (_, assumed))| (text(path), assumed)).collect()
    };
    let placed = checks.iter().enumerate().map(|(at, check)| (format!("verify[{at}]"), check));
    warnings(placed, inputs.rules(), assumed)
}

fn warnings<'c>(
    checks: impl Iterator<Item = (impl Display, &'c AcceptCheck)>,
    rules: &InputRules,
    assumed: impl Fn(&str) -> Vec<(String, Assumed)>,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (place, check) in checks {
        if check.kind != CheckKind::CommandSuccess || check.owner == Owner::Plan {
            continue;
        }
        for (path, assumed) in assumed(&check.target) {
            let is_settled = rules.names(path.as_bytes()) || convention_of(&path).is_some();
            if !is_settled {
                warnings.push(warning(&place, &path, assumed));
            }
        }
    }
    warnings
}

fn warning(place: &impl Display, path: &str, assumed: Assumed) -> Warning {
    let (code, detail) = match assumed {
        Assumed::Product | Assumed::ImportedProduct => {
            let why = match assumed {
                Assumed::ImportedProduct => "other files import it",
                Assumed::Product | Assumed::Protected => "by its name or folder",
            };
            let detail = format!(
                "{path} is taken for the product ({why}): the run may change it; \
                 `policy.protect: [{path:?}]` gives the check the original"
            );
            (WarningCode::CheckNamesProduct, detail)
        }
        Assumed::Protected => {
            let detail = format!(
                "{path} is taken for a part of the check, which runs with the original unless other \
                 files import it; `policy.may_change: [{path:?}]` lets the run change it"
            );
            (WarningCode::CheckScriptProtected, detail)
        }
    };
    Warning { detail: Some(detail), ..Warning::at(code, format!("{place}.target")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::check::{Author, read_checks};
    use crate::domain::json;

    #[test]
    fn what_a_line_names_is_said_with_the_line_of_policy_that_changes_it() {
        let lines =
            ["python3 app.py", "./ci/check.sh", "grep -q x a.md", "sh tests/run.sh", "./own.sh"];
        let check = |line: &str| format!(r#"{{"kind": "command_success", "target": {line:?}}}"#);
        let text = format!("[{}]", lines.map(check).join(", "));
        let checks = json::parse(&text).unwrap().value;
        let (checks, _) = read_checks(&checks, "verify", Author::Submitter).unwrap();
        let rules = InputRules::new(&["own.sh".to_owned()], &[]).unwrap();
        let placed = checks.iter().enumerate();
        let placed = placed.map(|(at, check)| (format!("steps[{at}].verify[0]"), check));
        let said: Vec<_> = assumptions(placed, &rules)
            .into_iter()
            .map(|it| (it.code, it.field.unwrap(), it.detail.unwrap()))
            .collect();
        let [product, script] = said.as_slice() else { panic!("{said:?}") };
        assert_eq!(product.0, WarningCode::CheckNamesProduct);
        assert_eq!(product.1, "steps[0].verify[0].target");
        assert!(product.2.contains("`policy.protect: [\"app.py\"]`"));
        assert_eq!(script.0, WarningCode::CheckScriptProtected);
        assert!(script.2.contains("`policy.may_change: [\"ci/check.sh\"]`"));
    }
}
