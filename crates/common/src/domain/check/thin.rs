//! Checks that cannot fail, whatever the workspace holds.

use super::line_parts::{Part, Sign, parts};
use super::{AcceptCheck, CheckKind};
use crate::domain::command::{Program, programs};
use crate::domain::shell_line::{Given, base_name, given_to_shell, unwrapped};
use crate::domain::tests_seen::asks_for_no_test;

/// Programs that succeed whatever the workspace holds.
const ALWAYS_SUCCEED: &[&str] = &[":", "echo", "printf", "sleep", "true"];
/// Programs that succeed at the end of a pipe whatever comes through it, where they name no file to read.
const PASS_ON: &[&str] = &["cat", "head", "less", "more", "nl", "sort", "tac", "tail", "tee", "wc"];
/// Arguments with which a program runs no test.
const RUN_NOTHING: &[&str] = &["--collect-only", "--no-run"];
/// Arguments with which an installed program says something about itself.
const ABOUT_ITSELF: &[&str] = &["--help", "--version"];
/// Options with which `make` only prints what it would do, or holds whatever its recipes do.
const OF_MAKE: &[&str] = &["--dry-run", "--ignore-errors", "--just-print", "--recon", "--touch"];
/// The same as letters.
const LETTERS_OF_MAKE: &[char] = &['i', 'n', 't'];
/// Letters of `make` behind which a value stands, in the same word or in the next one.
const VALUED_OF_MAKE: &[char] = &['C', 'E', 'I', 'W', 'f', 'j', 'l', 'o'];
/// The variable with further options of `make`.
const FLAGS_OF_MAKE: &str = "MAKEFLAGS";
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
    if let Some(succeeds) = branch_succeeds(line, depth).or_else(|| case_succeeds(line, depth)) {
        return succeeds;
    }
    if let Some(programs) = programs(line) {
        return !programs.is_empty() && programs.iter().all(|one| succeeds(one, depth));
    }
    let is_comment = |line: &str| line.trim_start().starts_with('#');
    if line.lines().all(|line| is_comment(line) || line.trim().is_empty()) {
        return line.lines().any(is_comment);
    }
    let Some(mut parts) = parts(line) else { return false };
    if ends_well_at_exit(&parts) {
        return true;
    }
    // Options of the shell may make each failure end the line.
    let each_decides = parts.iter().any(|part| sets_end(part.text) && part.text.contains(" -"));
    parts.retain(|part| part.sign != Sign::Next || !sets_end(part.text));
    // What ends the line early, or makes each failure end it, decides beside its last part.
    let is_one = |word: &str| matches!(word, "exec" | "exit" | "set" | "trap" | "return");
    let decides = |part: &Part<'_>| match part.text.strip_prefix('{') {
        Some(inner) => inner.split(|letter: char| !letter.is_alphanumeric()).any(is_one),
        None => is_one(part.text.split_whitespace().next().unwrap_or_default()),
    };
    if parts.split_last().is_none_or(|(_, before)| before.iter().any(decides)) {
        return false;
    }
    let (mut result, mut is_first) = (false, true);
    for part in &parts {
        let sign = part.sign;
        let part = part_succeeds(*part, depth);
        result = match sign {
            Sign::Next if each_decides && !is_first && !result => return false,
            Sign::Next => part,
            Sign::And => result && part,
            Sign::Or => result || part,
        };
        is_first = false;
    }
    result
}

/// Whether a part only sets whether a failure ends the line, what a name without a value means, and what is printed.
fn sets_end(part: &str) -> bool {
    let Some(options) = part.strip_prefix("set ") else { return false };
    let is_one = |word: &str| {
        let letters = word.strip_prefix(['-', '+']).unwrap_or_default();
        !letters.is_empty() && letters.bytes().all(|letter| b"eux".contains(&letter))
    };
    options.split_whitespace().all(is_one)
}

/// Of a line that is one `if` without further ones: whether it succeeds whatever its condition is.
fn branch_succeeds(line: &str, depth: usize) -> Option<bool> {
    let inner = line.trim().strip_prefix("if ")?.strip_suffix("fi")?;
    let (_, inner) = inner.split_once("then")?;
    let words = |text: &str, wanted: &[&str]| {
        text.split(|letter: char| !letter.is_alphanumeric()).any(|word| wanted.contains(&word))
    };
    if words(inner, &["if", "elif", "then", "fi", "case", "for", "while", "until"]) {
        return Some(false);
    }
    let mut branches = inner.split("else");
    Some(branches.all(|branch| line_succeeds(branch.trim().trim_end_matches(';'), depth + 1)))
}

/// Of a line that is one `case` without further branches: whether it succeeds whatever its word is. Without a pattern that
/// fits it does.
fn case_succeeds(line: &str, depth: usize) -> Option<bool> {
    let inner = line.trim().strip_prefix("case ")?.strip_suffix("esac")?;
    let (_, inner) = inner.split_once(" in ")?;
    let mut bodies = inner.split(";;").filter(|branch| !branch.trim().is_empty());
    Some(bodies.all(|branch| {
        let body = branch.split_once(')').map_or(branch, |(_, body)| body).trim();
        body.is_empty() || line_succeeds(body, depth + 1)
    }))
}

/// Whether a line sets first that the shell ends with 0 however it ends, and nothing after it can take that back.
fn ends_well_at_exit(parts: &[Part<'_>]) -> bool {
    let Some((first, others)) = parts.split_first() else { return false };
    let Some(set) = first.text.strip_prefix("trap ") else { return false };
    let Some((text, signal)) = set.trim().rsplit_once(char::is_whitespace) else { return false };
    let text = text.trim().trim_matches(['"', '\'']);
    let takes_back = |part: &Part<'_>| part.text.contains("trap") || part.text.contains("exec");
    matches!(signal, "0" | "EXIT")
        && matches!(text.rsplit([';', '&', '|']).next().map(str::trim), Some("exit 0"))
        && !text.contains("$(")
        && !others.iter().any(takes_back)
}

fn part_succeeds(part: Part<'_>, depth: usize) -> bool {
    if part.is_behind {
        return true;
    }
    let inner = |open, close| part.text.strip_prefix(open)?.strip_suffix(close);
    if let Some(inner) = inner('(', ')').or_else(|| inner('{', '}')) {
        return line_succeeds(inner.trim(), depth + 1);
    }
    let Some(programs) = programs(part.text) else { return builtin_succeeds(part.text) };
    let holds = |one: &Program| {
        succeeds(one, depth) || part.is_piped && programs.len() == 1 && passes_on(&one.argv)
    };
    !programs.is_empty() && programs.iter().all(holds)
}

/// Whether a command with words that only a shell reads succeeds whatever they are. A redirection may fail.
fn builtin_succeeds(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default();
    let declares = matches!(name, "declare" | "export" | "local" | "readonly" | "typeset");
    !text.contains('>')
        && (ALWAYS_SUCCEED.contains(&name) || declares && words.any(|word| word.contains('=')))
}

/// Whether a program at the end of a pipe succeeds whatever comes through it: it names no file to read.
fn passes_on(argv: &[String]) -> bool {
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let Some((program, arguments)) = unwrapped(&words).split_first() else { return false };
    let is_file = |word: &&str| !word.starts_with(['-', '+']) && word.parse::<u64>().is_err();
    let name = base_name(program);
    name == "tee" || PASS_ON.contains(&name) && !arguments.iter().any(is_file)
}

fn succeeds(one: &Program, depth: usize) -> bool {
    let words: Vec<&str> = one.argv.iter().map(String::as_str).collect();
    let Some((program, arguments)) = unwrapped(&words).split_first() else {
        return false;
    };
    let name = base_name(program);
    let has = |words: &[&str]| arguments.iter().any(|argument| words.contains(argument));
    match (name, arguments) {
        // A text that is not empty is true.
        ("[", [word, "]"]) | ("test", [word]) => !word.is_empty() && !word.contains(['$', '`']),
        ("cd", ["."]) | ("exit", ["0"]) | ("wait" | "pwd", []) => true,
        ("[", ["-d" | "-e", ".", "]"]) | ("test", ["-d" | "-e", "."]) => true,
        ("[", [left, sign, right, "]"]) | ("test", [left, sign, right]) => holds(left, sign, right),
        ("cargo" | "python" | "python3" | "rustc", ["-V"]) => true,
        ("bun" | "deno" | "node" | "npm" | "npx" | "pnpm" | "yarn", ["-v"]) => true,
        ("go", ["version"]) => true,
        ("python" | "python3", ["-c", text]) => is_without_effect(text, &["", "pass"]),
        ("node", ["-e", text]) => is_without_effect(text, &["", "0"]),
        ("eval", [_, ..]) => line_succeeds(&arguments.join(" "), depth + 1),
        _ if ALWAYS_SUCCEED.contains(&name) && is_of_system(program) => true,
        _ if asks_for_no_test(&words) => true,
        _ if has(RUN_NOTHING) || has(ABOUT_ITSELF) => !starts_product(program, arguments),
        ("make" | "gmake" | "bmake" | "mingw32-make", _) => {
            let before = one.environment.iter().map(|(name, value)| (name.as_str(), &**value));
            let words = words.iter().filter_map(|word| word.split_once('='));
            let mut flags = before.chain(words).filter(|(name, _)| *name == FLAGS_OF_MAKE);
            makes_nothing_of_failures(arguments)
                || flags.any(|(_, flags)| are_flags_without_failures(flags))
        }
        _ => match given_to_shell(name, arguments) {
            Some(Given::Text(line)) => line.trim().is_empty() || line_succeeds(line, depth + 1),
            Some(Given::File(_)) | None => false,
        },
    }
}

/// Whether a comparison of two texts that stand in the line holds.
fn holds(left: &str, sign: &str, right: &str) -> bool {
    let is_text = |word: &str| !word.contains(['$', '`', '*', '?', '[']);
    is_text(left)
        && is_text(right)
        && match sign {
            "=" | "==" | "-eq" | "-ge" | "-le" => left == right,
            "!=" => left != right,
            _ => false,
        }
}

/// Whether a program's text has only statements that do nothing.
fn is_without_effect(text: &str, statements: &[&str]) -> bool {
    text.split([';', '\n']).all(|statement| statements.contains(&statement.trim()))
}

/// Whether a program is one of the system, and none of the workspace with its name.
fn is_of_system(program: &str) -> bool {
    !program.contains('/')
        || ["/bin/", "/usr/bin/"].iter().any(|folder| program.starts_with(folder))
}

/// Whether `make` with these arguments holds whatever its recipes do.
fn makes_nothing_of_failures(arguments: &[&str]) -> bool {
    let mut is_value = false;
    for word in arguments {
        if std::mem::take(&mut is_value) {
            continue;
        }
        if OF_MAKE.contains(word) {
            return true;
        }
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        let Some(letters) = letters else { continue };
        let valued = letters.find(VALUED_OF_MAKE);
        if letters
            .get(..valued.unwrap_or(letters.len()))
            .is_some_and(|it| it.contains(LETTERS_OF_MAKE))
        {
            return true;
        }
        // How many jobs there are stands in the same word, or nowhere.
        is_value =
            valued.is_some_and(|at| at + 1 == letters.len()) && !letters.ends_with(['j', 'l']);
    }
    false
}

/// Whether options in the variable of `make` are such ones. The letters of its first word need no sign.
fn are_flags_without_failures(flags: &str) -> bool {
    let words: Vec<&str> = flags.split_whitespace().collect();
    let first = words.first().copied().unwrap_or_default();
    let is_letters = !first.starts_with('-') && !first.contains('=');
    is_letters && first.contains(LETTERS_OF_MAKE) || makes_nothing_of_failures(&words)
}

/// Whether a command may start what the workspace holds, and give `--help` or `--no-run` to that: a path, a script, a module,
/// or what stands behind `--`.
fn starts_product(program: &str, arguments: &[&str]) -> bool {
    let is_asked = |word: &&&str| ABOUT_ITSELF.contains(word) || RUN_NOTHING.contains(word);
    let before = arguments.iter().take_while(|word| !is_asked(word));
    let is_product = |word: &str| word.contains(['/', '.']) || matches!(word, "-m" | "--");
    program.contains('/') || before.into_iter().any(|word| is_product(word))
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
    fn a_line_that_says_or_compares_the_same_at_each_run_is_thin() {
        for (target, expected) in [
            ("python3 -V", true),
            ("node -v", true),
            ("go version", true),
            ("./greet -V", false),
            ("pytest -v", false),
            ("ctest -V", false),
            ("python3 -c pass", true),
            ("python3 -c 'pass; import calc'", false),
            ("node -e 0", true),
            ("node -e 'require(`./a`)'", false),
            ("test 1 = 1", true),
            ("[ a != b ]", true),
            ("test 1 = 2", false),
            ("test \"$(sh run)\" = 5", false),
            ("test f -nt f", false),
            ("trap 'exit 0' EXIT; sh run", true),
            ("trap \"exit 0\" 0; set -e; sh run", true),
            ("trap 'rm -f x' EXIT; sh run", false),
            ("trap 'exit 0' EXIT; sh run; trap - EXIT; sh run", false),
            ("trap 'exit 0' INT; sh run", false),
            ("case $(sh run) in *) ;; esac", true),
            ("case $(sh run) in 5) echo ok;; *) true;; esac", true),
            ("case $(sh run) in 5) ;; *) exit 1;; esac", false),
        ] {
            assert_eq!(thin("command_success", target, ""), expected, "{target}");
        }
    }

    #[test]
    fn a_line_that_cannot_fail_is_thin() {
        for (target, expected) in [
            ("true", true),
            ("/bin/true && echo done", true),
            ("cargo test --no-run", true),
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
            ("set -e; make test || true", true),
            ("set -eu; make test || true; make lint", false),
            ("set +e; make test; echo $?", true),
            ("if make test; then echo ok; fi", true),
            ("if make test; then echo ok; else echo bad; fi", true),
            ("if make test; then echo ok; else exit 1; fi", false),
            ("if test -f a; then make test; fi", false),
            ("make test & wait", true),
            ("make test & wait $!", false),
            ("echo `make test`", true),
            ("sh -c ''", true),
            ("test -d .", true),
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
            ("make test | cat", true),
            ("make test 2>&1 | tee log.txt", true),
            ("make test | tail -n 20", true),
            ("make test | tail -20 && make lint", false),
            ("make lint && make test | tee log", false),
            ("make test | grep -q ok", false),
            ("make test | cat - expected", false),
            ("set -o pipefail; make test | tee log", false),
            ("make test > log", false),
            ("make test & true", true),
            ("make test &", true),
            ("make test & wait %1", false),
            ("# make test", true),
            ("# make test\nmake lint", false),
            ("sleep 0", true),
            ("(make test)", false),
        ] {
            assert_eq!(thin("command_success", target, ""), expected, "{target}");
        }
    }

    #[test]
    fn a_line_with_groups_and_substitutions_that_cannot_fail_is_thin() {
        for (target, expected) in [
            ("make test; echo \"exit: $?\"", true),
            ("make test || echo \"failed: $?\"", true),
            ("make test; rc=$?; echo $rc; exit $rc", false),
            ("make test && echo \"ok: $(date)\"", false),
            ("(make test) || true", true),
            ("{ make test; } || true", true),
            ("make test || (exit 0)", true),
            ("make test || (exit 1)", false),
            ("make test || { echo failed; exit 1; }", false),
            ("{ make test || exit 1; }; echo done", false),
            ("(make test || exit 1); echo done", true),
            ("(make test; true)", true),
            ("(cd sub && make test)", false),
            ("bash -c 'make test |& tee log'", true),
            ("make test > log; cat log", false),
            ("export R=$(make test)", true),
            ("R=$(make test)", false),
            ("echo $(make test)", true),
            ("echo $(make test) > log", false),
            ("eval true", true),
            ("eval make test", false),
            ("sh -c 'exit 0' # make test", true),
            ("make test # true", false),
            ("for f in a b; do sh $f; done", false),
            ("if make test; then echo ok; else exit 1; fi", false),
            ("f() { make test; }; f", false),
            ("test \"$(make -s count)\" = 3", false),
            ("[ \"$(cat a)\" = \"$(cat b)\" ]", false),
            ("diff <(a) <(b)", false),
            ("make test || echo \"it's ${x:-none}\"", true),
        ] {
            assert_eq!(thin("command_success", target, ""), expected, "{target}");
        }
    }

    #[test]
    fn a_line_of_any_depth_is_read() {
        for (levels, expected) in [(2, true), (100_000, false)] {
            let line = format!("true || echo {}x{}", "\"$(".repeat(levels), ")\"".repeat(levels));
            assert_eq!(thin("command_success", &line, ""), expected, "{levels}");
        }
    }

    #[test]
    fn a_runner_that_is_asked_for_no_test_is_thin() {
        for (target, expected) in [
            ("pytest --co -q tests/test_a.py", true),
            ("pytest-3 -h", true),
            ("python3 -m pytest --fixtures", true),
            ("python3 -m unittest --help", true),
            ("cargo test -- --list", true),
            ("cargo -V test", true),
            ("node --test -h", true),
            ("ctest -N", true),
            ("ctest -V", false),
            ("mvn -V test", false),
            ("gradle test --dry-run", true),
            ("go test -c ./...", true),
            ("pytest -k collect", false),
            ("./bin/echo x", false),
            ("/usr/bin/printf x", true),
            ("python3 app.py --no-run", false),
            ("./run --collect-only", false),
        ] {
            assert_eq!(thin("command_success", target, ""), expected, "{target}");
        }
    }

    #[test]
    fn make_that_passes_over_failures_is_thin() {
        for (target, expected) in [
            ("make -n test", true),
            ("make -ki test", true),
            ("make --ignore-errors test", true),
            ("make -t", true),
            ("cmake --build build -t check", false),
            ("make -C in test", false),
            ("make -Cin test", false),
            ("make -f -i test", false),
            ("make -j -k test", false),
            ("make -j4 test", false),
            ("MAKEFLAGS=i make test", true),
            ("env MAKEFLAGS=-kn make test", true),
            ("make MAKEFLAGS=--touch test", true),
            ("MAKEFLAGS=-j4 make test", false),
            ("MAKEFLAGS=-k make install=i", false),
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
