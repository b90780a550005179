//! What the functions of a script do with the words that they are given.
//!
//! ```text
//!   run() { echo "+ $*"; "$@"; }   run bash scripts/unit.sh   -->   bash scripts/unit.sh
//!   step() { shift; "$@"; }        step unit sh unit.sh       -->   sh unit.sh
//!   check() { eval "$2"; }         check unit 'sh unit.sh'    -->   eval 'sh unit.sh'
//! ```

use crate::domain::shell_line::segments;
use std::collections::BTreeMap;

/// The most functions of a script that are read.
const MAX_FUNCTIONS: usize = 256;
/// How a shell writes all arguments.
const ALL: &[&str] = &["${@}", "${*}", "$@", "$*"];

/// The functions of a script by their names: of each the commands that have arguments of its call in them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Functions(BTreeMap<String, Vec<Command>>);

/// A command of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Command {
    words: Vec<String>,
    /// How many arguments `shift` took away before it.
    shifted: usize,
}

impl Functions {
    /// Reads the functions that the lines of a script define.
    pub(super) fn of(lines: &[String]) -> Self {
        let mut found = BTreeMap::new();
        for (at, line) in lines.iter().enumerate() {
            let Some((name, opened)) = head(line) else { continue };
            if found.len() < MAX_FUNCTIONS {
                let body = body(opened, lines.get(at + 1..).unwrap_or_default());
                found.insert(name.to_owned(), commands(&body));
            }
        }
        Self(found)
    }

    /// Adds those of another script.
    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// The commands with the arguments of a call in their places. None where the program is no function.
    pub(super) fn called(&self, words: &[&str]) -> Vec<Vec<String>> {
        let Some((name, arguments)) = words.split_first() else { return Vec::new() };
        let commands = self.0.get(*name).into_iter().flatten();
        commands.map(|command| command.with(arguments)).filter(|it| !it.is_empty()).collect()
    }
}

impl Command {
    fn with(&self, arguments: &[&str]) -> Vec<String> {
        let arguments = arguments.get(self.shifted..).unwrap_or_default();
        let mut words = Vec::with_capacity(self.words.len() + arguments.len());
        for word in &self.words {
            if ALL.contains(&word.as_str()) {
                words.extend(arguments.iter().map(|it| (*it).to_owned()));
            } else if has_argument(word) {
                words.push(put_in(word, arguments));
            } else {
                words.push(word.clone());
            }
        }
        words
    }
}

/// The name of the function that a line begins to define, and what stands behind its bracket.
fn head(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let (word, rest) = match line.strip_prefix("function ") {
        Some(named) => named.trim_start().split_once([' ', '(', '{'])?,
        None => line.split_once('(')?,
    };
    let name = word.trim_end();
    let is_name = !name.is_empty()
        && name.chars().all(|letter| letter.is_alphanumeric() || "_-.:".contains(letter));
    let opened = match rest.trim_start().strip_prefix(')') {
        Some(rest) => rest,
        None if line.starts_with("function ") => rest.trim_start_matches([' ', '(', ')']),
        None => return None,
    };
    is_name.then(|| (name, opened.trim_start()))
}

/// The lines of a function, up to the bracket that ends it.
fn body(opened: &str, rest: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut depth = 0_usize;
    for line in std::iter::once(opened).chain(rest.iter().map(String::as_str)) {
        let mut kept = Vec::new();
        for word in line.split_whitespace() {
            match word.trim_end_matches(';') {
                "{" | "(" => depth += 1,
                "}" | ")" => depth = depth.saturating_sub(1),
                _ => kept.push(word),
            }
        }
        found.push(kept.join(" "));
        if depth == 0 && !(found.len() == 1 && opened.is_empty()) {
            break;
        }
    }
    found
}

/// The commands of a function that have its arguments in them.
fn commands(body: &[String]) -> Vec<Command> {
    let (mut found, mut shifted) = (Vec::new(), 0_usize);
    for segment in body.iter().flat_map(|line| segments(line)) {
        let words = segment.words;
        if words.first().is_some_and(|word| word == "shift") {
            let count = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(1);
            shifted = shifted.saturating_add(count);
        } else if words.iter().any(|word| has_argument(word)) {
            found.push(Command { words, shifted });
        }
    }
    found
}

fn has_argument(word: &str) -> bool {
    ALL.iter().any(|all| word.contains(all))
        || (1..=9).any(|at| names(at).iter().any(|name| word.contains(name)))
}

/// How a shell writes an argument.
fn names(at: usize) -> [String; 2] {
    [format!("${{{at}}}"), format!("${at}")]
}

/// A word with arguments in the places of their names.
fn put_in(word: &str, arguments: &[&str]) -> String {
    let mut word = word.to_owned();
    for all in ALL {
        if word.contains(all) {
            word = word.replace(all, &arguments.join(" "));
        }
    }
    for at in 1..=9 {
        let value = arguments.get(at - 1).copied().unwrap_or_default();
        for name in names(at) {
            if word.contains(&name) {
                word = word.replace(&name, value);
            }
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::Functions;

    fn called(text: &str, call: &str) -> Vec<String> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let words: Vec<&str> = call.split(' ').collect();
        let called = Functions::of(&lines).called(&words);
        called.iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn arguments_of_a_call_stand_in_the_commands_of_the_function() {
        for (text, call, expected) in [
            ("run() { \"$@\"; }", "run bash x.sh", "bash x.sh"),
            ("run () {\n  \"${@}\" || exit 1\n}\n", "run bash x.sh", "bash x.sh"),
            ("run()\n{\n  \"$@\"\n}\n\"$@\"", "run bash x.sh", "bash x.sh"),
            ("function run {\n  if ! \"$@\"; then exit 1; fi\n}", "run bash x.sh", "bash x.sh"),
            ("function run() { time \"$@\"; }", "run bash x.sh", "time bash x.sh"),
            ("step() { local n=3; shift; \"$@\"; }", "step unit bash x.sh", "bash x.sh"),
            ("step() { shift 2; \"$@\"; }", "step a b bash x.sh", "bash x.sh"),
            ("one() ( bash \"$1\" )", "one x.sh", "bash x.sh"),
            ("one() { bash scripts/${2}.sh; }", "one a b", "bash scripts/b.sh"),
            ("say() { echo hello; }", "say bash", ""),
            ("run() { \"$@\"; }", "walk bash x.sh", ""),
        ] {
            let found = called(text, call);
            let expected: Vec<&str> =
                Some(expected).filter(|it| !it.is_empty()).into_iter().collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
