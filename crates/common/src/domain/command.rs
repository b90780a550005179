//! Commands as argument lists, so that what was run can be compared with what was asked for.
//!
//! ```text
//!   RUST_LOG=x  cargo test -p "a b" 2>&1 && cargo fmt
//!   ^ dropped   ^ part 1            ^ dropped ^ part 2
//! ```
//!
//! Only a line whose parts all share the fate of the whole is split: a chain of `&&`. In every
//! other line (pipes, `;`, substitutions, ...) the exit code says nothing about one part, so that
//! line stands for itself alone and matches to the letter.

use crate::domain::check::Match;
use crate::domain::receipt::Command;
use std::borrow::Cow;

/// One command line, or one argument list, split as far as its exit code can speak for its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine<'l> {
    /// The line as it was written; none for an argument list.
    line: Option<&'l str>,
    /// The arguments of each part; none when the line counts to the letter only.
    parts: Option<Vec<Arguments<'l>>>,
}

type Arguments<'l> = Vec<Cow<'l, str>>;

/// One program to be started without a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// What the line assigns before the program, in order.
    pub environment: Vec<(String, String)>,
    /// The program and its arguments; never empty.
    pub argv: Vec<String>,
}

/// The programs that a line starts one after another while each succeeds. None when only a shell
/// can run the line as it is written, or when a part of it names no program.
pub fn programs(line: &str) -> Option<Vec<Program>> {
    let mut scanner = Scanner::new(line);
    let parts = scanner.parts().ok()?;
    if scanner.redirects {
        return None;
    }
    let program = |(place, arguments): (usize, Arguments<'_>)| {
        let environment = scanner
            .assignments
            .iter()
            .filter(|(part, _)| *part == place)
            .map(|(_, text)| text.split_once('='))
            .map(|pair| pair.map(|(name, value)| (name.to_owned(), value.to_owned())))
            .collect::<Option<Vec<_>>>()?;
        let argv: Vec<String> = arguments.into_iter().map(Cow::into_owned).collect();
        (!argv.is_empty()).then_some(Program { environment, argv })
    };
    parts.into_iter().enumerate().map(program).collect()
}

impl<'l> CommandLine<'l> {
    /// Splits a line for a shell.
    pub fn parse(line: &'l str) -> Self {
        Self {
            line: Some(line),
            parts: Scanner::new(line).parts().ok(),
        }
    }

    /// Takes what a receipt says was run. An argument list is never split: `&&` in it is an
    /// argument like any other.
    pub fn of(command: &'l Command) -> Self {
        match command {
            Command::Line(line) => Self::parse(line),
            Command::Argv(argv) => {
                let arguments = argv
                    .iter()
                    .map(|argument| Cow::Borrowed(argument.as_str()))
                    .skip_while(|argument| is_assignment(argument))
                    .collect();
                Self {
                    line: None,
                    parts: Some(vec![arguments]),
                }
            }
        }
    }

    /// Whether nothing is left to run once assignments and redirections are dropped.
    pub fn is_empty(&self) -> bool {
        self.parts
            .as_ref()
            .is_some_and(|parts| parts.iter().all(Vec::is_empty))
    }

    /// Whether this command, or a part of it, is the one a check's target names. The parts of a
    /// target with `&&` must follow one another.
    pub fn matches(&self, target: &CommandLine<'_>, by: Match) -> bool {
        if self.line.is_some() && self.line == target.line {
            return true;
        }
        let (Some(parts), Some(wanted)) = (&self.parts, &target.parts) else {
            return false;
        };
        !target.is_empty()
            && parts.windows(wanted.len()).any(|run| {
                run.iter()
                    .zip(wanted)
                    .all(|(arguments, wanted)| arguments_match(arguments, wanted, by))
            })
    }
}

fn arguments_match(arguments: &[Cow<'_, str>], wanted: &[Cow<'_, str>], by: Match) -> bool {
    if wanted.is_empty() {
        return arguments.is_empty();
    }
    match by {
        Match::Prefix => arguments.starts_with(wanted),
        Match::Exact => arguments == wanted,
        Match::Contains => {
            let mut rest = arguments.iter();
            arguments.first() == wanted.first()
                && wanted
                    .iter()
                    .all(|argument| rest.any(|found| found == argument))
        }
    }
}

/// Whether a shell reads the word, before any program, as `NAME=value` or `NAME+=value`.
fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else {
        return false;
    };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The line holds something whose exit code does not speak for its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LetterOnly;

/// Walks over a line byte by byte. All that it looks for is ASCII, so it always stands between
/// two characters.
struct Scanner<'l> {
    line: &'l str,
    at: usize,
    /// What the parts assign, each with the place of its part.
    assignments: Vec<(usize, Cow<'l, str>)>,
    /// Whether anything is redirected.
    redirects: bool,
}

/// A word, and how it was written.
struct Word<'l> {
    text: Cow<'l, str>,
    raw: &'l str,
}

impl<'l> Scanner<'l> {
    fn new(line: &'l str) -> Self {
        Self { line, at: 0, assignments: Vec::new(), redirects: false }
    }

    fn parts(&mut self) -> Result<Vec<Arguments<'l>>, LetterOnly> {
        let mut parts = Vec::with_capacity(1);
        loop {
            let (arguments, written) = self.part(parts.len())?;
            let more = self.peek() == Some(b'&');
            if !written && (more || !parts.is_empty()) {
                return Err(LetterOnly);
            }
            parts.push(arguments);
            if !more {
                return Ok(parts);
            }
            self.at += 2;
        }
    }

    /// One part up to `&&` or the end, and whether anything stood there.
    fn part(&mut self, place: usize) -> Result<(Arguments<'l>, bool), LetterOnly> {
        let mut arguments = Vec::with_capacity(4);
        let mut written = false;
        loop {
            self.skip_blanks();
            match self.peek() {
                None => return Ok((arguments, written)),
                Some(b'&') if self.peek_at(1) == Some(b'&') => return Ok((arguments, written)),
                Some(b'&') if self.peek_at(1) == Some(b'>') => {
                    self.at += 1;
                    self.redirection()?;
                }
                Some(b'<' | b'>') => self.redirection()?,
                Some(_) => {
                    let word = self.word()?;
                    let assigns = arguments.is_empty() && is_assignment(word.raw);
                    if assigns {
                        self.assignments.push((place, word.text));
                    } else if !self.is_descriptor(&word) {
                        arguments.push(word.text);
                    }
                }
            }
            written = true;
        }
    }

    /// Whether the word is the number right before a redirection, as in `2>&1`.
    fn is_descriptor(&self, word: &Word<'_>) -> bool {
        matches!(self.peek(), Some(b'<' | b'>')) && word.raw.bytes().all(|b| b.is_ascii_digit())
    }

    /// Drops an operator that begins with `<` or `>` and the word it needs. A here-document, a
    /// here-string and `>|` count to the letter only.
    fn redirection(&mut self) -> Result<(), LetterOnly> {
        self.redirects = true;
        let opened = self.peek();
        self.at += 1;
        match (opened, self.peek()) {
            (Some(b'<'), Some(b'<')) | (_, Some(b'|')) => return Err(LetterOnly),
            (_, Some(b'>' | b'&')) => self.at += 1,
            (_, _) => {}
        }
        self.skip_blanks();
        self.word().map(|_| ())
    }

    fn word(&mut self) -> Result<Word<'l>, LetterOnly> {
        let start = self.at;
        // A comment.
        if self.peek() == Some(b'#') {
            return Err(LetterOnly);
        }
        let mut built: Option<String> = None;
        let mut plain = start;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'|' | b'&' | b';' | b'<' | b'>' | b'(' | b')' | b'\n' => break,
                b'\'' | b'"' | b'\\' => {
                    let built = built.get_or_insert_default();
                    built.push_str(self.slice(plain, self.at));
                    self.quoted(byte, built)?;
                    plain = self.at;
                }
                b'`' => return Err(LetterOnly),
                b'$' if self.expands() || matches!(self.peek_at(1), Some(b'\'' | b'"')) => {
                    return Err(LetterOnly);
                }
                _ => self.at += 1,
            }
        }
        // Whatever ended an empty word is none of the marks that a part may hold.
        if self.at == start {
            return Err(LetterOnly);
        }
        let text = match built {
            None => Cow::Borrowed(self.slice(start, self.at)),
            Some(mut built) => {
                built.push_str(self.slice(plain, self.at));
                Cow::Owned(built)
            }
        };
        Ok(Word {
            text,
            raw: self.slice(start, self.at),
        })
    }

    /// Reads what one quoting mark protects, the mark included.
    fn quoted(&mut self, mark: u8, built: &mut String) -> Result<(), LetterOnly> {
        self.at += 1;
        match mark {
            b'\'' => {
                let length = self.rest().find('\'').ok_or(LetterOnly)?;
                built.push_str(self.slice(self.at, self.at + length));
                self.at += length + 1;
                Ok(())
            }
            b'"' => self.double_quoted(built),
            _ => {
                // A backslash at the end, or before a newline, joins this line to the next.
                let escaped = self.rest().chars().next().filter(|next| *next != '\n');
                let escaped = escaped.ok_or(LetterOnly)?;
                built.push(escaped);
                self.at += escaped.len_utf8();
                Ok(())
            }
        }
    }

    fn double_quoted(&mut self, built: &mut String) -> Result<(), LetterOnly> {
        let mut plain = self.at;
        loop {
            match self.peek().ok_or(LetterOnly)? {
                b'"' => break,
                b'`' => return Err(LetterOnly),
                b'$' if self.expands() => return Err(LetterOnly),
                b'\\' => match self.peek_at(1) {
                    Some(b'\n') => return Err(LetterOnly),
                    Some(b'$' | b'`' | b'"' | b'\\') => {
                        built.push_str(self.slice(plain, self.at));
                        plain = self.at + 1;
                        self.at += 2;
                    }
                    _ => self.at += 1,
                },
                _ => self.at += 1,
            }
        }
        built.push_str(self.slice(plain, self.at));
        self.at += 1;
        Ok(())
    }

    /// Whether the `$` here begins a variable, a substitution or arithmetic.
    fn expands(&self) -> bool {
        self.peek_at(1)
            .is_some_and(|next| next.is_ascii_alphanumeric() || b"_{([?!#@*$-".contains(&next))
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Option<u8> {
        self.line.as_bytes().get(self.at + ahead).copied()
    }

    fn slice(&self, from: usize, to: usize) -> &'l str {
        self.line.get(from..to).unwrap_or_default()
    }

    fn rest(&self) -> &'l str {
        self.line.get(self.at..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(line: &str) -> Option<Vec<Vec<String>>> {
        let parts = CommandLine::parse(line).parts?;
        let owned = |part: Arguments<'_>| part.into_iter().map(Cow::into_owned).collect();
        Some(parts.into_iter().map(owned).collect())
    }

    fn matches(line: &str, target: &str, by: Match) -> bool {
        CommandLine::parse(line).matches(&CommandLine::parse(target), by)
    }

    #[test]
    fn a_line_without_need_of_a_shell_becomes_programs() {
        let found = programs("A='1 2' cargo test && B=3 cargo fmt").unwrap();
        let expected = [("A", "1 2", ["cargo", "test"]), ("B", "3", ["cargo", "fmt"])];
        for (program, (name, value, argv)) in found.iter().zip(expected) {
            assert_eq!(program.environment, [(name.to_owned(), value.to_owned())]);
            assert_eq!(program.argv, argv);
        }
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_line_that_needs_a_shell_becomes_no_programs() {
        for line in ["a > b", "a | b", "a; b", "A=1", "a && A=1", "a $B", "P+=1 a 'x", ""] {
            assert_eq!(programs(line), None, "{line}");
        }
    }

    #[test]
    fn a_line_is_split_into_parts_and_arguments() {
        let table: &[(&str, &[&[&str]])] = &[
            ("cargo  test\t--all ", &[&["cargo", "test", "--all"]]),
            ("A=1 B_2='x y' cargo test", &[&["cargo", "test"]]),
            ("cargo test A=1", &[&["cargo", "test", "A=1"]]),
            ("'A=1' cargo", &[&["A=1", "cargo"]]),
            ("2A=1 cargo", &[&["2A=1", "cargo"]]),
            ("a && b c&&d", &[&["a"], &["b", "c"], &["d"]]),
            ("A=1 && b", &[&[], &["b"]]),
            (
                "grep 'a b' \"c d\" e\\ f",
                &[&["grep", "a b", "c d", "e f"]],
            ),
            (
                "echo 'a && b; c | d' \"<&>\"",
                &[&["echo", "a && b; c | d", "<&>"]],
            ),
            ("echo a\"b\"'c'd ''", &[&["echo", "abcd", ""]]),
            ("echo \"a\\\"b\\n\\$c\"", &[&["echo", "a\"b\\n$c"]]),
            (
                "echo a#b c# $ \"5$\" '$HOME `x`'",
                &[&["echo", "a#b", "c#", "$", "5$", "$HOME `x`"]],
            ),
            ("a > f", &[&["a"]]),
            ("a >f >> g 2>h 2>&1 &>i &>> j < k <l >&2 b", &[&["a", "b"]]),
            ("> f a", &[&["a"]]),
            ("a 2 > f", &[&["a", "2"]]),
            ("a b2>f", &[&["a", "b2"]]),
            ("a>'my log'", &[&["a"]]),
            (
                "python -c 'import a\nb()'",
                &[&["python", "-c", "import a\nb()"]],
            ),
            ("运行 测试 '一 二'", &[&["运行", "测试", "一 二"]]),
            ("", &[&[]]),
        ];
        for (line, wanted) in table {
            let wanted = wanted
                .iter()
                .map(|part| part.iter().map(|a| (*a).to_owned()).collect());
            assert_eq!(parts(line), Some(wanted.collect()), "{line}");
        }
    }

    #[test]
    fn a_line_whose_exit_code_does_not_speak_for_its_parts_matches_to_the_letter_only() {
        for line in [
            "a || b",
            "a | b",
            "a |& b",
            "a; b",
            "a;",
            "a & b",
            "a &",
            "a\nb",
            "a\n",
            "# a",
            "a # b",
            "a && #b",
            "a $(b)",
            "a `b`",
            "a \"$(b)\"",
            "a \"`b`\"",
            "a $B",
            "a \"$B\"",
            "a ${B}",
            "a $1",
            "a $?",
            "A=$B a",
            "(a)",
            "a && (b)",
            "a <(b)",
            "a << E",
            "a <<< b",
            "a 'b",
            "a \"b",
            "a \"b\\\"",
            "a \\",
            "a \\\n b",
            "a >",
            "a > && b",
            "a >| f",
            "a &&",
            "&& a",
            "a && && b",
            "a $'b'",
            "a $\"b\"",
            "a > $B",
            "a &&& b",
        ] {
            assert_eq!(parts(line), None, "{line}");
            for by in [Match::Prefix, Match::Exact, Match::Contains] {
                assert!(matches(line, line, by), "{line}");
                assert!(!matches(line, "a", by), "{line}");
                assert!(!matches("a", line, by), "{line}");
            }
        }
    }

    #[test]
    fn each_match_compares_whole_arguments() {
        use Match::{Contains, Exact, Prefix};
        for (line, target, by, wanted) in [
            ("cargo test --all", "cargo test", Prefix, true),
            ("cargo testing", "cargo test", Prefix, false),
            ("cargo", "cargo test", Prefix, false),
            ("cargo --locked test", "cargo test", Prefix, false),
            ("Cargo test", "cargo test", Prefix, false),
            ("cargo test", "cargo test", Exact, true),
            (
                "X=1 'cargo' te\"s\"t > log",
                "Y=2 cargo test 2>&1",
                Exact,
                true,
            ),
            ("cargo test --all", "cargo test", Exact, false),
            ("cd sub && cargo test", "cargo test", Exact, true),
            ("cargo --locked test --all", "cargo test", Contains, true),
            ("cargo a test b --all", "cargo test --all", Contains, true),
            ("cargo --all test", "cargo test --all", Contains, false),
            ("cross cargo test", "cargo test", Contains, false),
            ("cargo test", "cargo cargo", Contains, false),
            ("cargo test test", "cargo test test", Contains, true),
            ("cargo test", "cargo test test", Contains, false),
            ("a && b && c", "b && c", Prefix, true),
            ("a && b && c", "a && c", Prefix, false),
            ("a && b && c", "a && c", Contains, false),
            ("b && a", "a && b", Prefix, false),
            ("a x && b y", "a && b", Prefix, true),
            ("a x && b", "a && b", Exact, false),
            ("a", "a && b", Prefix, false),
            ("anything", "A=1", Prefix, false),
            ("A=1", "B=2", Prefix, false),
        ] {
            assert_eq!(
                matches(line, target, by),
                wanted,
                "{line} / {target} / {by:?}"
            );
        }
    }

    #[test]
    fn an_argument_list_is_never_split() {
        let argv = |argv: &[&str]| {
            Command::Argv(argv.iter().map(|argument| (*argument).to_owned()).collect())
        };
        for (argv, target, wanted) in [
            (argv(&["cargo", "test", "-q"]), "cargo test", true),
            (argv(&["A=1", "cargo", "test"]), "cargo test", true),
            (argv(&["cargo test"]), "cargo test", false),
            (argv(&["cargo test"]), "'cargo test'", true),
            (argv(&["true", "&&", "cargo", "test"]), "cargo test", false),
            (argv(&["sh", "-c", "cargo test"]), "cargo test", false),
            (
                argv(&["sh", "-c", "cargo test"]),
                "sh -c 'cargo test'",
                true,
            ),
            (argv(&["echo", "$HOME"]), "echo $HOME", false),
            (argv(&[]), "cargo", false),
        ] {
            let target = CommandLine::parse(target);
            assert_eq!(
                CommandLine::of(&argv).matches(&target, Match::Prefix),
                wanted,
                "{argv:?}"
            );
        }
    }

    #[test]
    fn a_line_of_assignments_and_redirections_runs_nothing() {
        for line in ["", "  ", "A=1", "A=1 B=2", "> f", "A=1 && B=2"] {
            assert!(CommandLine::parse(line).is_empty(), "{line}");
        }
        for line in ["A=1 b", "a; b", "''"] {
            assert!(!CommandLine::parse(line).is_empty(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_scanner_and_every_line_is_itself(line in r#"[a-c=$&|;<>#'"\\`(){} 0-9\n变]{0,24}"#) {
            let parsed = CommandLine::parse(&line);
            prop_assert!(parsed.matches(&parsed, Match::Exact));
        }

        #[test]
        fn quoting_the_arguments_gives_them_back(arguments in prop::collection::vec("[ -~变]{0,8}", 1..5)) {
            let quoted: Vec<String> = arguments
                .iter()
                .map(|argument| format!("'{}'", argument.replace('\'', "'\\''")))
                .collect();
            prop_assert_eq!(parts(&quoted.join(" ")), Some(vec![arguments]));
        }
    }
}
