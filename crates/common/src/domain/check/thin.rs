//! Checks that cannot fail, whatever the workspace holds.

use super::{AcceptCheck, CheckKind};
use crate::domain::command::programs;
use crate::domain::shell_line::{Given, base_name, given_to_shell, unwrapped};

/// Programs that succeed whatever the workspace holds.
const ALWAYS_SUCCEED: &[&str] = &[":", "echo", "printf", "true"];
/// Arguments with which a program runs no test.
const RUN_NOTHING: &[&str] = &["--collect-only", "--no-run"];
/// Arguments with which an installed program says something about itself.
const ABOUT_ITSELF: &[&str] = &["--help", "--version"];
/// Arguments with which `make` only prints what it would do.
const ONLY_PRINT: &[&str] = &["-n", "--dry-run", "--just-print", "--recon"];
/// Words of expressions that name no value of a run.
const CONSTANTS: &[&str] = &["and", "false", "in", "not", "null", "or", "true"];
/// How many lines of shells inside each other are read.
const MAX_DEPTH: usize = 4;

/// Whether a check cannot fail, whatever was done: it proves nothing about the work.
pub fn is_thin(check: &AcceptCheck) -> bool {
    match check.kind {
        CheckKind::CommandSuccess => line_succeeds(&check.target, 0),
        CheckKind::Expression => !names_value(&check.target),
        CheckKind::FileExists => {
            let is_file = check.params.get("type").is_none_or(|kind| kind == "file");
            !is_file && matches!(check.target.trim_end_matches('/'), "." | "./.")
        }
        CheckKind::OutputOnly
        | CheckKind::WorkspaceChange
        | CheckKind::ContentContains
        | CheckKind::ToolFact
        | CheckKind::HttpProbe
        | CheckKind::ActionReport
        | CheckKind::Unknown(_) => false,
    }
}

/// Whether every run of a line ends with 0. A line that is not understood may fail.
fn line_succeeds(line: &str, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    if let Some(programs) = programs(line) {
        return !programs.is_empty() && programs.iter().all(|one| succeeds(&one.argv, depth));
    }
    let Some(parts) = parts(line) else { return false };
    // What ends the line early, or makes each failure end it, decides beside its last part.
    let decides = |(_, part): &(Sign, &str)| {
        let first = part.split_whitespace().next().unwrap_or_default();
        matches!(first, "exec" | "exit" | "set" | "trap" | "return")
    };
    if parts.split_last().is_none_or(|(_, before)| before.iter().any(decides)) {
        return false;
    }
    let mut result = false;
    for (sign, part) in &parts {
        let part = part_succeeds(part, depth);
        result = match sign {
            Sign::Next => part,
            Sign::And => result && part,
            Sign::Or => result || part,
        };
    }
    result
}

fn part_succeeds(part: &str, depth: usize) -> bool {
    let programs = programs(part).unwrap_or_default();
    !programs.is_empty() && programs.iter().all(|one| succeeds(&one.argv, depth))
}

fn succeeds(argv: &[String], depth: usize) -> bool {
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let Some((program, arguments)) = unwrapped(&words).split_first() else {
        return false;
    };
    let name = base_name(program);
    let has = |words: &[&str]| arguments.iter().any(|argument| words.contains(argument));
    match (name, arguments) {
        // A text that is not empty is true.
        ("[", [word, "]"]) | ("test", [word]) => !word.is_empty() && !word.contains(['$', '`']),
        ("cd", ["."]) | ("exit", ["0"]) => true,
        _ if ALWAYS_SUCCEED.contains(&name) || has(RUN_NOTHING) => true,
        _ if has(ABOUT_ITSELF) => !starts_product(program, arguments),
        _ if name.ends_with("make") => has(ONLY_PRINT),
        _ => match given_to_shell(name, arguments) {
            Some(Given::Text(line)) => line_succeeds(line, depth + 1),
            Some(Given::File(_)) | None => false,
        },
    }
}

/// Whether a command may start what the workspace holds, and give `--help` to that: a path, a script, a module, or what
/// stands behind `--`.
fn starts_product(program: &str, arguments: &[&str]) -> bool {
    let before = arguments.iter().take_while(|word| !ABOUT_ITSELF.contains(word));
    let is_product = |word: &str| word.contains(['/', '.']) || matches!(word, "-m" | "--");
    program.contains('/') || before.into_iter().any(|word| is_product(word))
}

/// How a part of a line follows on the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Next,
    And,
    Or,
}

/// The parts of a line that are joined by `&&`, `||`, `;` and line breaks; none for a line with anything else that only a
/// shell reads.
fn parts(line: &str) -> Option<Vec<(Sign, &str)>> {
    let (mut parts, mut begin, mut sign) = (Vec::new(), 0, Sign::Next);
    let mut letters = line.char_indices().peekable();
    let mut quoted = None;
    while let Some((at, letter)) = letters.next() {
        if let Some(mark) = quoted {
            if letter == mark {
                quoted = None;
            } else if mark == '"' && matches!(letter, '$' | '`' | '\\') {
                return None;
            }
            continue;
        }
        let doubled = letters.peek().is_some_and(|(_, next)| *next == letter);
        let next = match letter {
            '\'' | '"' => {
                quoted = Some(letter);
                continue;
            }
            ';' | '\n' => Sign::Next,
            '&' if doubled => Sign::And,
            '|' if doubled => Sign::Or,
            '&' | '|' | '$' | '`' | '(' | ')' | '{' | '}' | '<' | '>' | '\\' | '#' | '!' => {
                return None;
            }
            _ => continue,
        };
        if next != Sign::Next {
            letters.next();
        }
        parts.push((sign, line.get(begin..at)?.trim()));
        begin = at + if next == Sign::Next { letter.len_utf8() } else { 2 };
        sign = next;
    }
    parts.push((sign, line.get(begin..)?.trim()));
    // An empty part is that of a line break, or of a sign at the end.
    parts.retain(|(sign, part)| !part.is_empty() || *sign != Sign::Next);
    quoted.is_none().then_some(parts)
}

/// Whether an expression names a value: a word outside of texts that is no constant.
fn names_value(expression: &str) -> bool {
    let mut outside = String::new();
    let mut quoted = None;
    for letter in expression.chars() {
        match quoted {
            Some(mark) if letter == mark => quoted = None,
            Some(_) => {}
            None if matches!(letter, '\'' | '"') => quoted = Some(letter),
            None => outside.push(letter),
        }
    }
    let words = outside.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
    let is_value = |word: &str| {
        word.starts_with(|first: char| first.is_alphabetic() || first == '_')
            && !CONSTANTS.contains(&word.to_ascii_lowercase().as_str())
    };
    words.into_iter().any(is_value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::check::{Author, read_checks};
    use crate::domain::json::{Value, parse};

    fn thin(kind: &str, target: &str, more: &str) -> bool {
        let target = Value::String(target.to_owned()).to_compact();
        let text = format!(r#"[{{"kind":"{kind}","target":{target}{more}}}]"#);
        let read = read_checks(&parse(&text).unwrap().value, "verify", Author::Operator);
        is_thin(&read.unwrap().0[0])
    }

    #[test]
    fn a_line_that_cannot_fail_is_thin() {
        for (target, expected) in [
            ("true", true),
            ("/bin/true && echo done", true),
            ("cargo test --no-run", true),
            ("make -n test", true),
            ("cargo test --help", true),
            ("python3 --version", true),
            ("./greet.sh --help", false),
            ("python3 app/main.py --help", false),
            ("python3 -m app --version", false),
            ("cargo run -- --help", false),
            ("pytest --collect-only", true),
            ("true && make test", false),
            ("make test", false),
            ("grep -n x f", false),
            ("exit 0", true),
            ("exit 1", false),
            ("make test || true", true),
            ("make test || true && make lint", false),
            ("make test || echo 'a; b'", true),
            ("make test; true", true),
            ("true; make test", false),
            ("set -e; make test; true", false),
            ("make test || exit 1; true", false),
            ("make test && exit 1; true", false),
            ("exit 1; true", false),
            (": ; :", true),
            ("cd .", true),
            ("cd sub", false),
            ("[ 1 ]", true),
            ("test 1", true),
            ("test -f a", false),
            ("test \"$(cat a)\"", false),
            ("sh -c true", true),
            ("bash -c 'make test || true'", true),
            ("sh -c 'make test'", false),
            ("sh true", false),
            ("env A=1 true", true),
            ("env A=1 make test", false),
            ("make test | cat", false),
            ("(make test)", false),
        ] {
            assert_eq!(thin("command_success", target, ""), expected, "{target}");
        }
    }

    #[test]
    fn an_expression_without_a_value_and_the_workspace_itself_are_thin() {
        for (target, expected) in
            [("true", true), ("1 == 1", true), ("'a' == 'a'", true), ("exit_code == 0", false)]
        {
            assert_eq!(thin("expression", target, ""), expected, "{target}");
        }
        for (target, params, expected) in [
            (".", r#","params":{"type":"any"}"#, true),
            ("./", r#","params":{"type":"folder"}"#, true),
            (".", "", false),
            ("src", r#","params":{"type":"folder"}"#, false),
        ] {
            assert_eq!(thin("file_exists", target, params), expected, "{target}");
        }
    }
}
