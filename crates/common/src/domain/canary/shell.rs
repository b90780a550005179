//! Test scripts in shell: where they end, and what a product that they read into themselves may have switched off.

use std::collections::BTreeSet;
use std::ops::Range;

/// How many texts, substitutions and templates inside each other are read, so that no file uses up the stack.
pub(super) const MAX_NESTED: usize = 32;
/// Programs of assertions that a function of the same name can stand for, and a statement that reports a name where they
/// still fail.
const ASSERTIONS: &[(&str, &str)] = &[
    ("test", "test a = b || echo 'FAIL: @'"),
    ("[", "[ a = b ] || echo 'FAIL: @'"),
    ("cmp", "echo a | cmp -s - /dev/null || echo 'FAIL: @'"),
    ("diff", "echo a | diff - /dev/null >/dev/null || echo 'FAIL: @'"),
    ("grep", "echo a | grep -q b || echo 'FAIL: @'"),
];
/// Further programs that scripts compare, count and read with.
const PROGRAMS: &[&str] = &[
    "awk",
    "basename",
    "bc",
    "cat",
    "comm",
    "cut",
    "date",
    "dirname",
    "expr",
    "false",
    "find",
    "head",
    "jq",
    "ls",
    "md5sum",
    "node",
    "od",
    "printf",
    "python3",
    "readlink",
    "sed",
    "seq",
    "sha1sum",
    "sha256sum",
    "sort",
    "stat",
    "tail",
    "tr",
    "uniq",
    "wc",
    "xargs",
];
/// Reports a name where `%` is no function.
const NO_FUNCTION: &str =
    "case $(command -V % 2>/dev/null) in *function*|*alias*) ;; *) echo 'FAIL: @';; esac";
/// The same for a failure inside a pipe, and for patterns of files.
const FAILS_IN_PIPES: &str = "( (exit 1) | : ) || echo 'FAIL: @'";
const EXPANDS_PATTERNS: &str = "case $- in *f*) ;; *) echo 'FAIL: @';; esac";
/// The same for the end at the first failure.
const ENDS_AT_FAILURE: &str = "case $- in *e*) echo 'FAIL: @';; esac";
/// Words behind which a command begins.
const KEYWORDS: &[&str] = &["!", "do", "elif", "else", "if", "then", "until", "while"];

/// The text with filler in the place of comments, texts, substitutions and documents inside it.
pub(super) fn masked(text: &str) -> Option<String> {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    // Documents that begin with the next line: how each ends, and whether tabs stand in front of that.
    let mut documents: Vec<(String, bool)> = Vec::new();
    while let Some(letter) = rest.chars().next() {
        if letter == '\n' && !documents.is_empty() {
            let mut end = 1;
            for document in documents.drain(..) {
                end += length_of(rest.get(end..)?, &document);
            }
            let body = rest.get(1..end)?;
            let line_end = if body.ends_with('\n') { "\n" } else { "" };
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', body.len() - line_end.len()));
            out.push_str(line_end);
            rest = rest.get(end..)?;
            continue;
        }
        if let Some(behind) = rest.strip_prefix("<<<") {
            out.push_str("<<<");
            rest = behind;
            continue;
        }
        let length = match letter {
            '<' if rest.starts_with("<<") => {
                let (word, length) = delimiter(rest)?;
                documents.push((word, rest.starts_with("<<-")));
                length
            }
            '#' if !out.ends_with(|last: char| !" \t\n;(&|".contains(last)) => {
                let length = rest.find('\n').unwrap_or(rest.len());
                out.extend(std::iter::repeat_n(' ', length));
                rest = rest.get(length..)?;
                continue;
            }
            letter => covered(letter, rest, MAX_NESTED)?,
        };
        if length == 0 {
            out.push(letter);
            rest = rest.get(letter.len_utf8()..)?;
        } else {
            out.extend(std::iter::repeat_n('_', length));
            rest = rest.get(length..)?;
        }
    }
    Some(out)
}

/// The length of a text, a substitution or an escaped letter at the start of what is left; 0 for none. None where it does
/// not end, or holds more than `deeper` ones inside each other.
fn covered(letter: char, rest: &str, deeper: usize) -> Option<usize> {
    let deeper = match letter {
        '"' | '$' => deeper.checked_sub(1)?,
        _ => deeper,
    };
    match letter {
        '\\' => Some(1 + rest.chars().nth(1).map_or(0, char::len_utf8)),
        '\'' => rest.get(1..)?.find('\'').map(|end| end + 2),
        '"' => double(rest, deeper),
        '`' => {
            let mut letters = rest.char_indices().skip(1);
            while let Some((at, letter)) = letters.next() {
                match letter {
                    '\\' => drop(letters.next()),
                    '`' => return Some(at + 1),
                    _ => {}
                }
            }
            None
        }
        '$' if rest.starts_with("$(") => Some(1 + nested(rest.get(1..)?, ('(', ')'), deeper)?),
        '$' if rest.starts_with("${") => Some(1 + nested(rest.get(1..)?, ('{', '}'), deeper)?),
        '$' if rest.starts_with("$#") => Some(2),
        _ => Some(0),
    }
}

/// The length of a text between double quotes.
fn double(rest: &str, deeper: usize) -> Option<usize> {
    let mut at = 1;
    loop {
        let tail = rest.get(at..)?;
        let letter = tail.chars().next()?;
        at += match letter {
            '"' => return Some(at + 1),
            '\\' | '`' | '$' => covered(letter, tail, deeper)?.max(1),
            letter => letter.len_utf8(),
        };
    }
}

/// The length of what stands between brackets, with them.
fn nested(rest: &str, (open, close): (char, char), deeper: usize) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        let tail = rest.get(at..)?;
        let letter = tail.chars().next()?;
        let length = covered(letter, tail, deeper)?;
        at += length.max(letter.len_utf8());
        if letter == open && length == 0 {
            depth += 1;
        } else if letter == close && length == 0 {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(at);
            }
        }
    }
}

/// The word that ends a document, and the length of the operator with it.
fn delimiter(rest: &str) -> Option<(String, usize)> {
    let behind = rest.strip_prefix("<<")?;
    let word = behind.strip_prefix('-').unwrap_or(behind).trim_start_matches([' ', '\t']);
    let from = rest.len() - word.len();
    let length = word.find(|letter: char| letter.is_whitespace() || ";|&<>()".contains(letter));
    let word = word.get(..length.unwrap_or(word.len()))?;
    (!word.is_empty()).then(|| (word.replace(['\'', '"', '\\'], ""), from + word.len()))
}

/// The length of a document, with the line that ends it.
fn length_of(text: &str, (end, has_tabs): &(String, bool)) -> usize {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        let line = line.strip_suffix('\n').unwrap_or(line);
        let line = if *has_tabs { line.trim_start_matches('\t') } else { line };
        if line == end {
            break;
        }
    }
    at
}

/// A command of a script.
struct Command {
    name: Range<usize>,
    /// The end of its arguments.
    end: usize,
    /// How many functions, blocks and subshells are open.
    depth: usize,
}

/// The commands of masked code.
fn commands(code: &str) -> Vec<Command> {
    let mut found: Vec<Command> = Vec::new();
    let (mut at, mut depth, mut parens) = (0, 0_usize, 0_usize);
    let mut may_begin = true;
    while let Some(letter) = code.get(at..).and_then(|rest| rest.chars().next()) {
        if letter.is_whitespace() || ";&|()<>".contains(letter) {
            match letter {
                '\n' | ';' | '&' | '|' => may_begin = true,
                '(' => (may_begin, parens) = (true, parens + 1),
                ')' => (may_begin, parens) = (true, parens.saturating_sub(1)),
                _ => {}
            }
            at += letter.len_utf8();
            continue;
        }
        let rest = code.get(at..).unwrap_or_default();
        let length = rest.find(|it: char| it.is_whitespace() || ";&|()<>".contains(it));
        let length = length.unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or_default();
        let behind = rest.get(length..).unwrap_or_default().trim_start_matches([' ', '\t']);
        let name = at..at + length;
        at += length;
        if !may_begin {
            continue;
        }
        match word {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "function" => {
                let rest = code.get(at..).unwrap_or_default();
                let name = rest.trim_start_matches([' ', '\t']);
                at += rest.len() - name.len();
                at += name.find(|it: char| it.is_whitespace() || it == '(').unwrap_or(name.len());
            }
            _ if KEYWORDS.contains(&word) || is_assignment(word) => {}
            // The head of a function, and a pattern of a case.
            _ if behind.starts_with('(') || behind.starts_with(')') && parens == 0 => {}
            _ => {
                may_begin = false;
                let tail = code.get(at..).unwrap_or_default();
                let end = tail.find(|it: char| "\n;&|()".contains(it)).unwrap_or(tail.len());
                let arguments = tail.get(..end).unwrap_or_default().trim_end();
                found.push(Command { name, end: at + arguments.len(), depth: depth + parens });
            }
        }
    }
    found
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// A script with the places that a canary needs.
pub(super) struct Shell<'t> {
    text: &'t str,
    code: String,
    commands: Vec<Command>,
}

impl<'t> Shell<'t> {
    /// Reads a script; none where one that succeeds may end elsewhere than it says.
    pub(super) fn read(text: &'t str) -> Option<Self> {
        let code = masked(text)?;
        let shell = Self { commands: commands(&code), code, text };
        let hands_over = |command: &Command| match shell.name(command) {
            "exec" => {
                let arguments = shell.arguments(command);
                arguments.split_whitespace().next().is_some_and(|word| {
                    !word.starts_with(|first: char| first.is_ascii_digit() || "<>".contains(first))
                }) || is_silent(shell.line_behind(command))
            }
            "kill" => true,
            // One that only removes files leaves the exit code as it is.
            "trap" => shell.arguments(command).contains("exit"),
            "return" => command.depth == 0,
            _ => false,
        };
        (!shell.commands.iter().any(hands_over)).then_some(shell)
    }

    /// The rest of the line behind the name of a command.
    fn line_behind(&self, command: &Command) -> &'t str {
        let rest = self.text.get(command.name.end..).unwrap_or_default();
        rest.split(['\n', ';']).next().unwrap_or_default()
    }

    fn name(&self, command: &Command) -> &str {
        self.code.get(command.name.clone()).unwrap_or_default()
    }

    fn arguments(&self, command: &Command) -> &'t str {
        self.text.get(command.name.end..command.end).unwrap_or_default()
    }

    /// The commands that end it with what may be 0.
    pub(super) fn ends(&self) -> Vec<Range<usize>> {
        let may_succeed = |command: &&Command| {
            let code = self.code.get(command.name.end..command.end).unwrap_or_default().trim();
            let fails = code.parse::<u8>().is_ok_and(|code| code != 0);
            self.name(command) == "exit" && !fails
        };
        self.commands.iter().filter(may_succeed).map(|it| it.name.start..it.end).collect()
    }

    /// The place behind the last line that reads another file into it; none where it reads none outside of functions.
    pub(super) fn behind_sources(&self) -> Option<usize> {
        let is_source =
            |command: &&Command| matches!(self.name(command), "." | "source") && command.depth == 0;
        let last = self.commands.iter().rev().find(is_source)?;
        let rest = self.code.get(last.end..)?;
        let line = rest.find('\n').map_or(rest, |end| rest.get(..end).unwrap_or_default());
        let goes_on = line.trim_end().ends_with(['|', '&', '{', '(']);
        let end = last.end + line.len();
        (!goes_on && !line.contains("<<")).then(|| (end + 1).min(self.text.len()))
    }

    /// The statements that report names behind `token` while what the script asserts with is as it was.
    pub(super) fn reports(&self, token: &str) -> Vec<(String, String)> {
        let uses = |name: &str| self.commands.iter().any(|command| self.name(command) == name);
        let statement = |at: usize, text: &str| {
            let name = format!("{token}_{at:02}");
            let text = text.replace('@', &name);
            (name, text)
        };
        let has = |word: &str| self.code.contains(word);
        let mut all: Vec<(String, String)> = Vec::new();
        all.extend(self.ends_at_failure().then(|| statement(1, ENDS_AT_FAILURE)));
        let used = ASSERTIONS.iter().enumerate().filter(|(_, (name, _))| uses(name));
        all.extend(used.map(|(at, (_, text))| statement(at + 2, text)));
        let sets_pipes = has("pipefail") && !has("+o pipefail");
        all.extend(sets_pipes.then(|| statement(10, FAILS_IN_PIPES)));
        let expands = has("*") && !has("set -f") && !has("noglob");
        all.extend(expands.then(|| statement(11, EXPANDS_PATTERNS)));
        let defines = |name: &str| has(&format!("{name}()")) || has(&format!("function {name}"));
        // Substitutions start programs, too.
        let is_of_word = |letter: char| letter.is_alphanumeric() || "_-./".contains(letter);
        let words: BTreeSet<&str> = self.text.split(|letter| !is_of_word(letter)).collect();
        let programs = PROGRAMS.iter().enumerate();
        let programs = programs.filter(|(_, name)| words.contains(*name) && !defines(name));
        all.extend(programs.map(|(at, name)| statement(at + 12, &NO_FUNCTION.replace('%', name))));
        all
    }

    fn ends_at_failure(&self) -> bool {
        let sets = |command: &Command| {
            let arguments = self.arguments(command);
            let mut words = arguments.split_whitespace();
            let is_short = |word: &str| {
                word.strip_prefix('-').is_some_and(|it| !it.starts_with('-') && it.contains('e'))
            };
            self.name(command) == "set" && (words.any(is_short) || arguments.contains("-o errexit"))
        };
        let first = self.text.lines().next().unwrap_or_default();
        self.commands.iter().any(sets) || first.starts_with("#!") && first.ends_with(" -e")
    }
}

/// Whether redirections send both outputs to files: what the script reports is not seen then.
fn is_silent(redirections: &str) -> bool {
    let (mut output, mut errors) = (false, false);
    let mut before = redirections;
    while let Some((left, right)) = before.split_once('>') {
        let right = right.trim_start_matches('>');
        let target = right.trim_start_matches(['|', ' ']);
        match left.chars().next_back() {
            Some('&') => (output, errors) = (true, true),
            Some('2') if target.starts_with("&1") => errors = output,
            Some('2') => errors = true,
            Some('1' | ' ') | None if target.starts_with("&2") => output = errors,
            Some('1' | ' ') | None if target.starts_with('&') => (output, errors) = (true, true),
            Some('1' | ' ') | None => output = true,
            Some(_) => {}
        }
        before = right;
    }
    output && errors
}

/// A statement that reports a name and fails. A script may redirect either of its outputs.
pub(super) fn failing(name: &str) -> String {
    format!("{{ echo 'FAIL: {name}'; echo 'FAIL: {name}' >&2; exit 97; }}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_script_are_commands_and_no_data() {
        for (text, expected) in [
            ("a\nexit 1\nexit $fail\n", Some(vec!["exit $fail"])),
            ("if a; then exit; fi; b || exit \"$?\"\n", Some(vec!["exit", "exit \"$?\""])),
            ("cat > x <<'END'\nexit 0\nEND\nexit 0\n", Some(vec!["exit 0"])),
            ("case $1 in\n  exit) a;;\n  *) exit 0;;\nesac\n", Some(vec!["exit 0"])),
            ("a=$(b; exit 0)\necho exit 0 # exit 0\n", Some(vec![])),
            ("f() {\n  return 1\n}\nf || exit 3\n", Some(vec![])),
            ("trap 'rm -f x' EXIT\n( exit 0 )\n", Some(vec!["exit 0"])),
            ("trap 'exit 0' EXIT\n", None),
            ("return 0\n", None),
            ("exec sh other.sh\n", None),
            ("exec 3>&1\n", Some(vec![])),
            ("exec 2>&1\n", Some(vec![])),
            ("exec 2>/dev/null\n", Some(vec![])),
            ("exec >log 2>&1\n. ./a.sh\n", None),
            ("exec > log 2> log.2\n", None),
            ("exec 2>&1 > log\n", Some(vec![])),
            ("exec &> log\n", None),
            ("exec >& log\n", None),
            ("echo 'it\n", None),
            ("a=\"$(b \"$(c \"$d\")\")\"\nexit\n", Some(vec!["exit"])),
        ] {
            let ends = Shell::read(text).map(|shell| {
                shell.ends().into_iter().map(|end| text.get(end).unwrap()).collect::<Vec<_>>()
            });
            assert_eq!(ends, expected, "{text}");
        }
    }

    #[test]
    fn a_script_that_is_nested_too_deeply_is_not_read() {
        for opening in ["\"$(", "${a:-", "$("] {
            let text = opening.repeat(200_000);
            assert!(Shell::read(&text).is_none(), "{opening}");
        }
    }

    #[test]
    fn what_a_sourced_file_can_switch_off_is_reported_behind_it() {
        let text = "set -eu\n. src/lib.sh\n[ \"$(sum 2 3)\" = 5 ]\ngrep -q a b\n";
        let shell = Shell::read(text).unwrap();
        assert_eq!(shell.behind_sources(), Some(21));
        let names: Vec<_> = shell.reports("zx").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["zx_01", "zx_03", "zx_06"]);
        let text = "set -o pipefail\nfalse() { :; }\n. src/lib.sh\nfor it in cases/*; do sum $it | wc -l; false; done\n";
        let reports = Shell::read(text).unwrap().reports("zx");
        let texts: Vec<&str> = reports.iter().map(|(_, text)| text.as_str()).collect();
        let [pipes, patterns, wc] = texts.as_slice() else { panic!("{reports:#?}") };
        assert!(pipes.starts_with("( (exit 1) | : ) ||") && patterns.starts_with("case $- in"));
        assert!(wc.starts_with("case $(command -V wc "), "{wc}");
        for text in ["f() {\n  . src/lib.sh\n}\n", ". src/lib.sh || {\n  exit 1\n}\n", "a\n"] {
            assert_eq!(Shell::read(text).unwrap().behind_sources(), None, "{text}");
        }
    }
}
