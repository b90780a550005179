//! Commands as argument lists, so that a command that ran can be compared with a check's target.
//!
//! ```text
//!   RUST_LOG=x  cargo test -p "a b" 2>&1 && cargo fmt
//!   ^ dropped   ^ part 1            ^ dropped ^ part 2
//! ```
//!
//! Only a chain of `&&` is split, because its exit code 0 means that all parts succeeded. In other
//! lines (pipes, `;`, substitutions) the exit code says nothing about one part. Such a line is
//! compared as a whole, character by character.

use crate::domain::check::Match;
use crate::domain::receipt::Command;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// One command line, or one argument list, split where its exit code holds for every part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine<'l> {
    /// The line as it was written; none for an argument list.
    line: Option<&'l str>,
    /// The arguments of each part; none when the line is compared as a whole.
    parts: Option<Vec<Arguments<'l>>>,
    /// The assignments before the programs, each as `NAME=value`.
    assignments: Vec<Cow<'l, str>>,
}

type Arguments<'l> = Vec<Cow<'l, str>>;

/// One program that is started without a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The assignments before the program, in order.
    pub environment: Vec<(String, String)>,
    /// The program and its arguments; never empty.
    pub argv: Vec<String>,
}

/// Words with which a shell does something itself, where no program would.
const SHELL_WORDS: &[&str] = &[
    ".", ":", "alias", "case", "cd", "command", "eval", "exec", "exit", "export", "for",
    "function", "if", "local", "popd", "pushd", "read", "return", "set", "shift", "source", "trap",
    "type", "ulimit", "umask", "unset", "until", "wait", "while",
];

/// Whether a shell does something itself for this word, where no program would.
pub fn is_shell_word(word: &str) -> bool {
    SHELL_WORDS.contains(&word)
}

/// Those of them that are programs too on some machines.
const ALSO_PROGRAMS: &[&str] = &["alias", "command", "read", "type", "ulimit", "umask", "wait"];

/// Whether only a shell can do what this word at the front of a command asks for: a program neither moves the shell nor turns
/// the exit code of another one around.
pub fn is_only_for_shells(word: &str) -> bool {
    matches!(word, "!" | "[[") || is_shell_word(word) && !ALSO_PROGRAMS.contains(&word)
}

/// Whether a line means something else to a shell than as programs with their arguments: pipes, globs,
/// expansions, assignments, redirections, `cd`.
pub fn needs_shell(line: &str) -> bool {
    let expands = |letter: char| "*?[]{}$~`|;<>()!#\n\\".contains(letter);
    let Some(programs) = programs(line).filter(|_| !line.contains(expands)) else {
        return true;
    };
    programs.iter().any(|program| {
        let first = program.argv.first().map_or("", String::as_str);
        !program.environment.is_empty() || SHELL_WORDS.contains(&first)
    })
}

/// The programs that a line starts one after another while each succeeds. None when the line needs
/// a shell, or when a part of it names no program. Redirections to `/dev/null` and of one output to the
/// other change nothing, because both outputs are recorded together.
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

/// The line with which these arguments are one program, for a shell too.
#[must_use]
pub fn command_line(argv: &[String]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+:,./-".contains(&byte);
    let quoted = |word: &String| {
        if !word.is_empty() && word.bytes().all(plain) {
            return word.clone();
        }
        format!("'{}'", word.replace('\'', r"'\''"))
    };
    argv.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

impl<'l> CommandLine<'l> {
    /// Splits a line written for a shell.
    pub fn parse(line: &'l str) -> Self {
        let mut scanner = Scanner::new(line);
        let parts = scanner.parts().ok();
        let assignments = scanner.assignments.into_iter().map(|(_, text)| text).collect();
        Self { line: Some(line), parts, assignments }
    }

    /// The command in a receipt. An argument list is never split: `&&` in it is an argument.
    pub fn of(command: &'l Command) -> Self {
        match command {
            Command::Line(line) => Self::parse(line),
            Command::Argv(argv) => {
                // No shell reads it, so `A=1` at its front names a program.
                let arguments = argv.iter().map(|argument| Cow::Borrowed(argument.as_str()));
                let arguments = arguments.collect();
                Self { line: None, parts: Some(vec![arguments]), assignments: Vec::new() }
            }
        }
    }

    /// Whether no command is left once assignments and redirections are dropped.
    pub fn is_empty(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.iter().all(Vec::is_empty))
    }

    /// Whether this command, run with `added` beside its own assignments, has the environment of the
    /// target, and no part of it changes the shell's folder or state for the parts after it.
    pub fn is_run_as(&self, target: &CommandLine<'_>, added: &[String]) -> bool {
        if self.line.is_some() && self.line == target.line {
            return added.is_empty();
        }
        let own = self.assignments.iter().map(AsRef::as_ref);
        let own: BTreeSet<&str> = own.chain(added.iter().map(String::as_str)).collect();
        let wanted: BTreeSet<&str> = target.assignments.iter().map(AsRef::as_ref).collect();
        let is_shell_word = |part: &Arguments<'_>| {
            part.first().is_some_and(|program| SHELL_WORDS.contains(&program.as_ref()))
        };
        let alters_the_shell = self.line.is_some()
            && self.parts.as_ref().is_some_and(|parts| parts.iter().any(is_shell_word));
        own == wanted && !alters_the_shell
    }

    /// Whether this command, or a part of it, matches a check's target. The parts of a target with
    /// `&&` must follow one another.
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
                && wanted.iter().all(|argument| rest.any(|found| found == argument))
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
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The line contains something that makes its exit code say nothing about its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LetterOnly;

/// Scans a line byte by byte. It searches only for ASCII, so it always stops between two
/// characters.
struct Scanner<'l> {
    line: &'l str,
    at: usize,
    /// The assignments, each with the index of its part.
    assignments: Vec<(usize, Cow<'l, str>)>,
    /// Whether the line contains a redirection that changes what is recorded.
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

    /// One part up to `&&` or the end, and whether it ended with `&&`.
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

    /// Whether the word is the number directly before a redirection, as in `2>&1`.
    fn is_descriptor(&self, word: &Word<'_>) -> bool {
        matches!(self.peek(), Some(b'<' | b'>')) && word.raw.bytes().all(|b| b.is_ascii_digit())
    }

    /// Drops an operator that begins with `<` or `>`, and its word. A here-document, a here-string
    /// and `>|` prevent splitting.
    fn redirection(&mut self) -> Result<(), LetterOnly> {
        let opened = self.peek();
        self.at += 1;
        let duplicates = opened == Some(b'>') && self.peek() == Some(b'&');
        match (opened, self.peek()) {
            (Some(b'<'), Some(b'<')) | (_, Some(b'|')) => return Err(LetterOnly),
            (_, Some(b'>' | b'&')) => self.at += 1,
            (_, _) => {}
        }
        self.skip_blanks();
        let target = self.word()?.text;
        let changes_nothing = target == "/dev/null" || duplicates && matches!(&*target, "1" | "2");
        self.redirects |= !changes_nothing;
        Ok(())
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
        // An empty word was ended by a character that no part may contain.
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
        Ok(Word { text, raw: self.slice(start, self.at) })
    }

    /// Reads a quoted text, including its quotation marks.
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
                // A backslash at the end, or before a newline, continues the line.
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
mod tests;
