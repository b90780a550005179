//! What one argument of a granted call must be: exactly the shown value, a string that a glob matches, or a list of strings
//! that a list of globs matches element by element.

use crate::domain::json::{self, Parsed, Value, sha256_hex};
use crate::domain::problem::{Code, Problem};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};

/// The path of the patterns in a request.
pub(super) const PATTERNS: &str = "grant.arguments";
/// The longest pattern, in bytes.
pub(super) const MAX_PATTERN: usize = 1000;
/// The longest canonical text of an exact value that is kept as it is; of a longer one the digest is kept.
const MAX_EXACT: usize = 200;
/// The tool whose arguments a shell may read.
const COMMAND_TOOL: &str = "run_command";
/// The pattern that stands for any text, of any number of lines. As the last one of a list: for any further elements.
const ANY: &str = "**";
/// What makes a pattern more than one value.
const WILDCARDS: [char; 4] = ['*', '?', '[', '{'];
/// What joins, nests or redirects commands in a shell.
const SHELL_CHARACTERS: [char; 15] =
    [';', '&', '|', '`', '$', '(', ')', '<', '>', '\n', '\r', '"', '\'', '\\', '\0'];

/// What one argument must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentRule {
    /// This value: its canonical JSON, or `sha256:` and the digest of a long one.
    Exact(String),
    /// A string that this glob matches.
    Matches(String),
    /// A list of strings: each fits its pattern. A last pattern `**` stands for any further elements.
    Elements(Vec<String>),
}

impl ArgumentRule {
    /// The rule that exactly this value fits.
    pub(super) fn exact(value: &Value) -> Self {
        Self::Exact(text_of(value))
    }

    /// The bytes of its texts.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Exact(text) | Self::Matches(text) => text.len(),
            Self::Elements(patterns) => patterns.iter().map(String::len).sum(),
        }
    }

    /// What it asks, for people.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Exact(text) => format!("exactly {text}"),
            Self::Matches(glob) => format!("matches {glob}"),
            Self::Elements(patterns) => list_in_words(patterns),
        }
    }

    pub(super) fn fits(&self, tool: &str, value: &Value) -> bool {
        match self {
            Self::Exact(text) => *text == text_of(value),
            Self::Matches(pattern) => {
                value.as_str().is_some_and(|text| matches(tool, pattern, text))
            }
            Self::Elements(patterns) => {
                strings_of(value).is_some_and(|elements| fit(tool, patterns, &elements))
            }
        }
    }
}

/// The rule of a named argument, which the shown value must fit.
pub(super) fn of(
    tool: &str,
    name: &str,
    pattern: &str,
    shown: &Value,
) -> Result<ArgumentRule, Problem> {
    let refused = |code, message: String| Err(Problem::at(code, path(name), message));
    if pattern.len() > MAX_PATTERN {
        return refused(
            Code::TooLarge,
            format!("is longer than {MAX_PATTERN} bytes; shorten it, or leave it out"),
        );
    }
    if pattern == shown.to_canonical() && shown.as_str().is_none() {
        return Ok(ArgumentRule::exact(shown));
    }
    if let Some(elements) = strings_of(shown) {
        return of_list(tool, name, pattern, &elements);
    }
    let Some(text) = shown.as_str() else {
        // Of what is neither a string nor a list of strings no part can vary.
        return refused(
            Code::GrantMismatch,
            format!(
                "the shown value is of type {}, and only exactly it is granted; leave it out",
                shown.kind()
            ),
        );
    };
    if !pattern.contains(WILDCARDS) {
        return match pattern == text {
            true => Ok(ArgumentRule::exact(shown)),
            false => refused(
                Code::GrantMismatch,
                format!("is {pattern:?}, and the shown value is another"),
            ),
        };
    }
    compiles(name, pattern)?;
    let rule = ArgumentRule::Matches(pattern.to_owned());
    match rule.fits(tool, shown) {
        true => Ok(rule),
        false => Err(misfit(tool, name, (pattern, &[text]))),
    }
}

/// The rule of an argument whose shown value is a list of strings.
fn of_list(
    tool: &str,
    name: &str,
    pattern: &str,
    elements: &[&str],
) -> Result<ArgumentRule, Problem> {
    let parsed = json::parse(pattern).ok();
    let Some(patterns) = parsed.as_ref().and_then(|Parsed { value, .. }| strings_of(value)) else {
        let message = format!(
            "is {pattern:?}, and the shown value is a list; write a JSON list with a pattern for each element, where a \
             last \"**\" stands for any further ones, or leave it out"
        );
        return Err(Problem::at(Code::GrantMismatch, path(name), message));
    };
    for pattern in &patterns {
        if pattern.contains('\0') {
            let message = "contains the character U+0000, which cannot be stored; remove it";
            return Err(Problem::at(Code::TypeMismatch, path(name), message));
        }
        if pattern.contains(WILDCARDS) {
            compiles(name, pattern)?;
        }
    }
    let patterns: Vec<String> = patterns.into_iter().map(str::to_owned).collect();
    if fit(tool, &patterns, elements) {
        return Ok(ArgumentRule::Elements(patterns));
    }
    // What is written out may hold anything, so it is never refused for its characters.
    let by_wildcard = elements.iter().enumerate().filter(|(place, _)| {
        patterns.get(*place).or_else(|| patterns.last()).is_some_and(|it| it.contains(WILDCARDS))
    });
    let by_wildcard: Vec<&str> = by_wildcard.map(|(_, text)| *text).collect();
    Err(misfit(tool, name, (pattern, &by_wildcard)))
}

fn misfit(tool: &str, name: &str, (pattern, shown): (&str, &[&str])) -> Problem {
    let why = if shown.iter().all(|text| is_plain(tool, pattern, text)) {
        "the shown value does not match it"
    } else if tool == COMMAND_TOOL {
        "no wildcard stands for `..` or a character that a shell reads, and the shown value has one"
    } else {
        "no wildcard stands for `..` or a control character, and the shown value has one"
    };
    let message = format!("is {pattern:?}: {why}; leave it out for exactly the shown value");
    Problem::at(Code::GrantMismatch, path(name), message)
}

/// A list of patterns, for people.
pub fn list_in_words(patterns: &[String]) -> String {
    let last = patterns.len().saturating_sub(1);
    let element = |(place, pattern): (usize, &String)| match pattern.contains(WILDCARDS) {
        true if place == last && pattern == ANY => "any further elements".to_owned(),
        true => format!("an element that matches {pattern}"),
        false => format!("{pattern:?}"),
    };
    let elements: Vec<String> = patterns.iter().enumerate().map(element).collect();
    format!("is a list of {}", elements.join(", "))
}

/// The elements of a list of strings; none for any other value.
fn strings_of(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
}

/// Whether each element fits its pattern, and each further one the last pattern `**`.
fn fit(tool: &str, patterns: &[String], elements: &[&str]) -> bool {
    let (fixed, goes_on) = match patterns.split_last() {
        Some((last, before)) if last == ANY => (before, true),
        Some(_) | None => (patterns, false),
    };
    let Some((first, further)) = elements.split_at_checked(fixed.len()) else { return false };
    let fits = |(pattern, text): (&String, &&str)| match pattern.contains(WILDCARDS) {
        true => matches(tool, pattern, text),
        false => pattern == text,
    };
    (goes_on || further.is_empty())
        && fixed.iter().zip(first).all(fits)
        && further.iter().all(|text| is_plain(tool, ANY, text))
}

fn matches(tool: &str, pattern: &str, text: &str) -> bool {
    is_plain(tool, pattern, text)
        && compiled(pattern).is_ok_and(|glob| pattern == ANY || glob.is_match(text))
}

pub(super) fn path(name: &str) -> String {
    format!("{PATTERNS}[{name}]")
}

/// The text under which an exact value is kept and compared.
fn text_of(value: &Value) -> String {
    let text = value.to_canonical();
    // No canonical JSON begins so.
    if text.len() > MAX_EXACT { format!("sha256:{}", sha256_hex(text.as_bytes())) } else { text }
}

fn compiles(name: &str, pattern: &str) -> Result<(), Problem> {
    compiled(pattern).map(drop).map_err(|error| {
        let message = format!("{pattern:?} is not a valid glob: {}", error.kind());
        Problem::at(Code::TypeMismatch, path(name), message)
    })
}

/// Compiles a glob. A set, because a glob too large for its matcher is an error of the set and would be a panic of the
/// glob alone.
fn compiled(pattern: &str) -> Result<GlobSet, globset::Error> {
    GlobSetBuilder::new().add(GlobBuilder::new(pattern).literal_separator(true).build()?).build()
}

/// Whether a wildcard may stand for a part of a value at all. The elements of a command are held to what a shell reads as
/// well: one of them may be the line of a shell.
fn is_plain(tool: &str, pattern: &str, text: &str) -> bool {
    let is_command = tool == COMMAND_TOOL;
    let parts = |letter: char| {
        matches!(letter, '/' | '\\') || is_command && (letter.is_whitespace() || letter == '=')
    };
    let is_line = |letter: char| pattern == ANY && matches!(letter, '\n' | '\r' | '\t');
    // A path may follow an option without a separator, as in `-C..`. `./...` of Go names folders below.
    let leaves =
        |part: &str| part == ".." || is_command && part.ends_with("..") && !part.ends_with("...");
    let steps_up = text.split(parts).any(leaves);
    let controls = text.chars().any(|letter| letter.is_control() && !is_line(letter));
    let for_a_shell = is_command && text.contains(SHELL_CHARACTERS);
    !steps_up && !controls && !for_a_shell
}
