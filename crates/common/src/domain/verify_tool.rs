//! Verification commands that users and operators name, such as `lint`.

use super::command::programs;
use super::json::Value;
use super::problem::{Code, Problem};
use serde::{Deserialize, Serialize};

/// What stands in an argument for the scope.
pub const SCOPE: &str = "{scope}";
/// The most commands of one policy, the longest name, and the most arguments and bytes of one command.
const MAX_TOOLS: usize = 20;
const MAX_NAME: usize = 64;
const MAX_ARGUMENTS: usize = 64;
const MAX_BYTES: usize = 4096;
/// The longest time limit, in seconds.
const MAX_TIMEOUT_S: u64 = 86_400;

/// A verification command with its name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VerifyTool {
    /// The name: `a` to `z`, digits, `_` and `-`.
    pub name: String,
    /// The program and its arguments, in which [`SCOPE`] stands for the scope.
    pub argv: Vec<String>,
    /// How long a run may take; none leaves it to the limits of the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeout_s: Option<u64>,
}

impl VerifyTool {
    /// The stored form in the policy of a namespace.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let argv = self.argv.iter().cloned().map(Value::String).collect();
        let timeout = self.timeout_s.map_or(Value::Null, |s| Value::Number(s.to_string()));
        Value::Object(vec![
            ("name".to_owned(), Value::String(self.name.clone())),
            ("argv".to_owned(), Value::Array(argv)),
            ("timeout_s".to_owned(), timeout),
        ])
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// `type_mismatch`.
    pub fn from_json(value: &Value) -> Result<Self, Problem> {
        let unread = || {
            let message = "a stored verification command does not read; set the policy again";
            Problem::at(Code::TypeMismatch, "verify_tools", message)
        };
        let name = value.get("name").and_then(Value::as_str).ok_or_else(unread)?;
        let argv = value.get("argv").and_then(Value::as_array).ok_or_else(unread)?;
        let argv = argv.iter().map(|word| Some(word.as_str()?.to_owned()));
        let timeout = value.get("timeout_s").and_then(Value::as_number);
        Ok(Self {
            name: name.to_owned(),
            argv: argv.collect::<Option<_>>().ok_or_else(unread)?,
            timeout_s: timeout.map(|s| s.parse().map_err(|_| unread())).transpose()?,
        })
    }

    /// Whether it is limited by a scope.
    pub fn takes_scope(&self) -> bool {
        self.argv.iter().any(|word| word.contains(SCOPE))
    }
}

/// Looks at the commands of a policy.
///
/// # Errors
/// `too_large` for too many commands, arguments or bytes; `type_mismatch` for a name, an argument list or a time limit
/// that is none.
pub fn read_verify_tools(field: &str, tools: Vec<VerifyTool>) -> Result<Vec<VerifyTool>, Problem> {
    if tools.len() > MAX_TOOLS {
        let message = format!("has more than {MAX_TOOLS} commands; leave some out");
        return Err(Problem::at(Code::TooLarge, field, message));
    }
    for (place, tool) in tools.iter().enumerate() {
        let earlier = tools.iter().take(place);
        check_tool(tool, earlier).map_err(|problem| problem.under(&format!("{field}[{place}]")))?;
    }
    Ok(tools)
}

/// A command as a line that needs no shell: `npm run lint -- {scope}`.
///
/// # Errors
/// The line is not one program with its arguments.
pub fn read_line(line: &str) -> Result<Vec<String>, &'static str> {
    let refused = "write one program with its arguments, without assignments and redirections";
    match programs(line).as_deref() {
        Some([program]) if program.environment.is_empty() => Ok(program.argv.clone()),
        Some(_) | None => Err(refused),
    }
}

fn check_tool<'t>(
    tool: &VerifyTool,
    mut earlier: impl Iterator<Item = &'t VerifyTool>,
) -> Result<(), Problem> {
    let at = |code, field: &str, message: String| Err(Problem::at(code, field, message));
    let letter =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    let VerifyTool { name, argv, timeout_s } = tool;
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(letter) {
        let message =
            format!("{name:?} is no name; use 1 to {MAX_NAME} of a-z, digits, `_` and `-`");
        return at(Code::TypeMismatch, "name", message);
    }
    if earlier.any(|other| other.name == *name) {
        return at(Code::TypeMismatch, "name", format!("{name:?} is there twice; rename one"));
    }
    let program = argv.first().map_or("", |program| program.trim());
    if program.is_empty() || program.contains(SCOPE) {
        let message =
            format!("{name}: the first argument names no program; write one, such as cargo");
        return at(Code::TypeMismatch, "argv", message);
    }
    if argv.iter().any(|word| word.contains('\0')) {
        let message = format!("{name}: contains the character U+0000; remove it");
        return at(Code::TypeMismatch, "argv", message);
    }
    let bytes: usize = argv.iter().map(String::len).sum();
    if argv.len() > MAX_ARGUMENTS || bytes > MAX_BYTES {
        let message = format!(
            "{name}: has more than {MAX_ARGUMENTS} arguments or {MAX_BYTES} bytes; name a script"
        );
        return at(Code::TooLarge, "argv", message);
    }
    if timeout_s.is_some_and(|seconds| !(1..=MAX_TIMEOUT_S).contains(&seconds)) {
        let message = format!("{name}: is no time limit; use 1 s to {MAX_TIMEOUT_S} s");
        return at(Code::TypeMismatch, "timeout", message);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, argv: &[&str]) -> VerifyTool {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        VerifyTool { name: name.to_owned(), argv, timeout_s: None }
    }

    #[test]
    fn a_command_that_cannot_be_run_or_named_is_refused() {
        let long = "x".repeat(5000);
        for (tools, code, field) in [
            (vec![tool("Lint", &["a"])], Code::TypeMismatch, "t[0].name"),
            (vec![tool("", &["a"])], Code::TypeMismatch, "t[0].name"),
            (vec![tool("a", &["a"]), tool("a", &["b"])], Code::TypeMismatch, "t[1].name"),
            (vec![tool("a", &[])], Code::TypeMismatch, "t[0].argv"),
            (vec![tool("a", &["{scope}"])], Code::TypeMismatch, "t[0].argv"),
            (vec![tool("a", &["a", "\0"])], Code::TypeMismatch, "t[0].argv"),
            (vec![tool("a", &["a", &long])], Code::TooLarge, "t[0].argv"),
            (
                vec![VerifyTool { timeout_s: Some(0), ..tool("a", &["a"]) }],
                Code::TypeMismatch,
                "t[0].timeout",
            ),
        ] {
            let refused = read_verify_tools("t", tools).unwrap_err();
            assert_eq!((refused.code, refused.field.as_deref()), (code, Some(field)));
        }
        let many = (0..21).map(|at| tool(&format!("a{at}"), &["a"])).collect();
        assert_eq!(read_verify_tools("t", many).unwrap_err().code, Code::TooLarge);
    }

    #[test]
    fn the_stored_form_reads_back_and_a_line_is_one_program() {
        let stored = VerifyTool { timeout_s: Some(60), ..tool("lint", &["npm", "run", "l i"]) };
        assert_eq!(VerifyTool::from_json(&stored.to_json()), Ok(stored));
        assert!(VerifyTool::from_json(&Value::Null).is_err());
        let argv = ["npm", "run", "lint", "--", "{scope}"].map(str::to_owned);
        assert_eq!(read_line("npm run lint -- {scope}"), Ok(argv.to_vec()));
        for line in ["", "A=1 make", "make | tail", "make && make test", "make > out"] {
            assert!(read_line(line).is_err(), "{line}");
        }
    }
}
