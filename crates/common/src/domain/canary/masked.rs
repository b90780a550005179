//! The text of a program with filler in the place of comments and of what stands between quotes: words and brackets that
//! are left belong to its code, at their own places.

use super::shell::{self, MAX_NESTED};
use crate::domain::check_inputs::language_of;
use crate::domain::shell_line::as_source;

/// The language of a program of tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    /// Python.
    Python,
    /// JavaScript, also with types.
    Javascript,
    /// A POSIX shell.
    Shell,
    /// C.
    C,
    /// C++.
    Cpp,
}

impl Script {
    /// The language of a file; none where its programs are not read.
    pub(super) fn of(path: &str, text: &str) -> Option<Self> {
        let path = as_source(path, text);
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        match language_of(&path)? {
            "python" => Some(Self::Python),
            "javascript" if !matches!(extension, "vue" | "svelte") => Some(Self::Javascript),
            "shell" if extension != "ps1" => Some(Self::Shell),
            "c" => match extension {
                "c" => Some(Self::C),
                "cc" | "cpp" | "cxx" => Some(Self::Cpp),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether it is compiled, and begins with a function `main`.
    pub(super) const fn is_compiled(self) -> bool {
        matches!(self, Self::C | Self::Cpp)
    }
}

/// Words of JavaScript behind which a slash begins an expression.
const BEFORE_EXPRESSIONS: &[&str] = &[
    "await", "case", "delete", "do", "else", "in", "new", "of", "return", "throw", "typeof",
    "void", "yield",
];

/// The text with filler, of the same length; none where a quote or a comment does not end.
pub(super) fn masked(script: Script, text: &str) -> Option<String> {
    if script == Script::Shell {
        return shell::masked(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(letter) = rest.chars().next() {
        let length = skipped(script, rest, &out, MAX_NESTED)?;
        if length == 0 {
            out.push(letter);
            rest = rest.get(letter.len_utf8()..)?;
            continue;
        }
        let (covered, behind) = rest.split_at_checked(length)?;
        fill(&mut out, covered);
        rest = behind;
    }
    Some(out)
}

/// Adds filler for a comment, or for a text, which keeps its marks.
fn fill(out: &mut String, covered: &str) {
    let is_comment = ["#", "//", "/*"].iter().any(|mark| covered.starts_with(mark));
    let inside = covered.len().saturating_sub(2);
    match covered.chars().next() {
        Some(mark) if !is_comment && covered.len() > 1 => {
            out.push(mark);
            out.extend(std::iter::repeat_n('_', inside));
            out.push(mark);
        }
        Some(_) | None => out.extend(std::iter::repeat_n(' ', covered.len())),
    }
}

/// The length of a comment or a text at the start of what is left; 0 where none begins there. None where it does not end, or
/// holds more than `deeper` templates inside each other.
fn skipped(script: Script, rest: &str, before: &str, deeper: usize) -> Option<usize> {
    let line = || rest.find('\n').unwrap_or(rest.len());
    match script {
        Script::Python => match rest.as_bytes() {
            [b'#', ..] => Some(line()),
            [b'"', b'"', b'"', ..] => quoted(rest, "\"\"\"", true),
            [b'\'', b'\'', b'\'', ..] => quoted(rest, "'''", true),
            [b'"', ..] => quoted(rest, "\"", false),
            [b'\'', ..] => quoted(rest, "'", false),
            _ => Some(0),
        },
        Script::Javascript | Script::C | Script::Cpp => match rest.as_bytes() {
            [b'/', b'/', ..] => Some(line()),
            [b'/', b'*', ..] => rest.get(2..)?.find("*/").map(|end| end + 4),
            [b'"', ..] if script == Script::Cpp && before.ends_with('R') => None,
            [b'"', ..] => quoted(rest, "\"", false),
            // A separator of digits.
            [b'\'', ..]
                if script == Script::Cpp
                    && before.ends_with(|last: char| last.is_ascii_hexdigit()) =>
            {
                Some(0)
            }
            [b'\'', ..] => quoted(rest, "'", false),
            [b'`', ..] if script == Script::Javascript => template(rest, deeper.checked_sub(1)?),
            [b'/', ..] if script == Script::Javascript && begins_expression(before) => {
                Some(expression(rest))
            }
            _ => Some(0),
        },
        Script::Shell => Some(0),
    }
}

/// The length of a text with its marks.
fn quoted(rest: &str, mark: &str, over_lines: bool) -> Option<usize> {
    let mut at = mark.len();
    loop {
        let tail = rest.get(at..)?;
        if tail.starts_with(mark) {
            return Some(at + mark.len());
        }
        let letter = tail.chars().next()?;
        at += letter.len_utf8();
        match letter {
            '\\' => at += tail.chars().nth(1)?.len_utf8(),
            '\n' if !over_lines => return None,
            _ => {}
        }
    }
}

/// The length of a template of JavaScript, with the code inside it.
fn template(rest: &str, deeper: usize) -> Option<usize> {
    let mut at = 1;
    loop {
        let tail = rest.get(at..)?;
        match tail.as_bytes() {
            [b'`', ..] => return Some(at + 1),
            [b'\\', ..] => at += 1 + tail.chars().nth(1)?.len_utf8(),
            [b'$', b'{', ..] => at += 2 + code(tail.get(2..)?, deeper)?,
            _ => at += tail.chars().next()?.len_utf8(),
        }
    }
}

/// The length of code up to the brace that ends it, with that.
fn code(text: &str, deeper: usize) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        let tail = text.get(at..)?;
        let length = skipped(Script::Javascript, tail, text.get(..at)?, deeper)?;
        if length > 0 {
            at += length;
            continue;
        }
        let letter = tail.chars().next()?;
        at += letter.len_utf8();
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
}

/// Whether a slash behind this code begins a regular expression, and divides nothing.
fn begins_expression(before: &str) -> bool {
    let before = before.trim_end();
    let is_word = |letter: char| letter.is_alphanumeric() || "_$".contains(letter);
    match before.chars().next_back() {
        None => true,
        Some(last) if is_word(last) => {
            let word = before.rsplit(|letter: char| !is_word(letter)).next().unwrap_or_default();
            BEFORE_EXPRESSIONS.contains(&word)
        }
        Some(last) => !matches!(last, ')' | ']' | '"' | '\'' | '`' | '/'),
    }
}

/// The length of a regular expression; 0 where the line ends before it does.
fn expression(rest: &str) -> usize {
    let mut in_class = false;
    let mut letters = rest.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '\n' => return 0,
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => return at + 1,
            _ => {}
        }
    }
    0
}

/// The places of a word in a text.
pub(super) fn words<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    let is_inside =
        |letter: Option<char>| letter.is_some_and(|it| it.is_alphanumeric() || it == '_');
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = text.get(..*at).and_then(|it| it.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|it| it.chars().next());
        !is_inside(before) && !is_inside(after)
    })
}

/// What stands in the brackets that open at a place of masked code; none where they do not close.
pub(super) fn bracketed(code: &str, open: usize) -> Option<(usize, usize)> {
    let mut depth = 0_usize;
    for (at, letter) in code.get(open..)?.char_indices() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some((open + 1, open + at));
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_are_no_code() {
        for (script, text, expected) in [
            (Script::Python, "a('x)') # exit(\nb", "a('__')        \nb"),
            (Script::Python, "\"\"\"exit(\n\"\"\"\nc", "\"__________\"\nc"),
            (Script::Javascript, "a(/[/'\"]/) / b", "a(/_____/) / b"),
            (Script::Javascript, "x = `a${f('}')}` + 1 / 2", "x = `__________` + 1 / 2"),
            (Script::C, "c = '\\'' /* exit( */;", "c = '__'            ;"),
            (Script::Cpp, "n = 1'000; exit(1);", "n = 1'000; exit(1);"),
        ] {
            let found = masked(script, text).unwrap();
            assert_eq!(found.len(), text.len(), "{text}");
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(masked(Script::Python, "a = 'x\n"), None);
        assert_eq!(masked(Script::Javascript, &"`${".repeat(200_000)), None);
        assert_eq!(bracketed("f(a[1], (b))", 1), Some((2, 11)));
    }
}
