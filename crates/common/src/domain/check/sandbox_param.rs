//! Checks whose command runs without a sandbox, such as one that starts containers.

use super::{AcceptCheck, CheckKind, Owner};
use crate::domain::fields::join;
use crate::domain::problem::{Code, Problem};

/// The param that asks for another sandbox than the run's.
pub const SANDBOX: &str = "sandbox";
/// Its only value.
const NONE: &str = "none";

impl AcceptCheck {
    /// Whether its command runs without a sandbox, where the operator of the executor allows that.
    #[must_use]
    pub fn is_unconfined(&self) -> bool {
        self.params.get(SANDBOX).is_some_and(|value| value == NONE)
    }
}

/// Refuses the param where it has another value, or where its author is not trusted with it.
pub(super) fn validate_sandbox(check: &AcceptCheck, path: &str) -> Result<(), Problem> {
    let Some(value) = check.params.get(SANDBOX) else { return Ok(()) };
    let field = join(path, "params.sandbox");
    if value != NONE {
        let message = format!("a check has no sandbox {value:?}; use none, or leave it out");
        return Err(Problem::at(Code::TypeMismatch, field, message));
    }
    let message = match (check.kind == CheckKind::CommandSuccess, check.owner) {
        (false, _) => "only a command_success check has a command to run without a sandbox",
        (true, Owner::Plan) => {
            "only a check of a user or an operator runs without a sandbox; leave it out"
        }
        (true, Owner::User | Owner::Operator) => return Ok(()),
    };
    Err(Problem::at(Code::SandboxNotAllowed, field, message))
}

#[cfg(test)]
mod tests {
    use crate::domain::check::{Author, read_checks};
    use crate::domain::json::parse;
    use crate::domain::problem::Code;

    #[test]
    fn only_a_command_of_a_user_or_an_operator_runs_without_a_sandbox() {
        let user = Author::Submitter;
        for (kind, more, value, author, code) in [
            ("command_success", "", "none", user, None),
            ("command_success", "", "none", Author::Operator, None),
            ("command_success", "", "partial", user, Some(Code::TypeMismatch)),
            ("command_success", "", "none", Author::Model, Some(Code::SandboxNotAllowed)),
            ("command_success", r#","owner":"plan""#, "none", user, Some(Code::SandboxNotAllowed)),
            ("file_exists", "", "none", user, Some(Code::SandboxNotAllowed)),
        ] {
            let text = format!(
                r#"[{{"kind":"{kind}","target":"make"{more},"params":{{"sandbox":"{value}"}}}}]"#
            );
            let read = read_checks(&parse(&text).unwrap().value, "verify", author);
            let found = read.as_ref().err();
            assert_eq!(found.map(|problem| problem.code), code, "{text}");
            let field = found.and_then(|problem| problem.field.as_deref());
            assert_eq!(field, code.map(|_| "verify[0].params.sandbox"), "{text}");
            assert!(read.is_err() || read.is_ok_and(|(checks, _)| checks[0].is_unconfined()));
        }
    }
}
