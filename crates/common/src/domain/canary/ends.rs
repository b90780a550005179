//! The ends of a program of tests that no known runner starts: each of its own fails, so that a run that succeeds elsewhere
//! shows.

use super::masked::{Script, bracketed, masked, words};
use super::replaced::{Reports, intact_in_c, reports};
use super::shell::{self, Shell};
use std::ops::Range;

/// A text with its replacements, none of which overlap.
#[derive(Default)]
struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    fn replace(&mut self, range: Range<usize>, text: String) {
        self.0.push((range, text));
    }

    fn add(&mut self, at: usize, text: String) {
        self.replace(at..at, text);
    }

    fn applied_to(mut self, text: &str) -> Option<String> {
        self.0.sort_by_key(|(range, _)| (range.start, range.end));
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        for (range, new) in self.0 {
            // Of two that are nested the outer one counts.
            if range.start < at {
                continue;
            }
            out.push_str(text.get(at..range.start)?);
            out.push_str(&new);
            at = range.end;
        }
        out.push_str(text.get(at..)?);
        Some(out)
    }
}

/// The names of the tests that a program then reports, all of which begin with `token`.
pub(super) fn names(script: Script, text: &str, token: &str) -> Vec<String> {
    let mut names = vec![format!("{token}_00")];
    if script == Script::Shell
        && let Some(shell) = Shell::read(text)
        && shell.behind_sources().is_some()
    {
        names.extend(shell.reports(token).into_iter().map(|(name, _)| name));
    }
    let code = masked(script, text).filter(|_| script != Script::Shell);
    let found = code.and_then(|code| reports(script, &code, text, token));
    names.extend(found.into_iter().flat_map(|found| found.names));
    names
}

/// The text in which each of the program's own ends fails; none where one that succeeds may end elsewhere.
pub(super) fn failing_at_ends(script: Script, text: &str, token: &str) -> Option<String> {
    let name = format!("{token}_00");
    let code = masked(script, text)?;
    let found = reports(script, &code, text, token);
    let report = found.as_ref().map_or("0", |found| found.expression.as_str());
    let mut edits = match script {
        Script::Shell => of_shell(&Shell::read(text)?, text, token, &name),
        Script::Python => of_python(&code, text, (&name, report))?,
        Script::Javascript => of_javascript(&code, text, (&name, report))?,
        Script::C | Script::Cpp => of_c(&code, text, &name)?,
    };
    if let Some(found) = found.filter(|found| !found.added.is_empty()) {
        edits.add(text.len(), found.added);
    }
    edits.applied_to(text)
}

/// The text that fails once it has ended, whatever it does, and then reports what was replaced; none where nothing can
/// be.
pub(super) fn failing_late(script: Script, text: &str, token: &str) -> Option<String> {
    let code = masked(script, text)?;
    let Reports { expression, added, .. } = reports(script, &code, text, token)?;
    let mut edits = Edits::default();
    let name = format!("{token}_00");
    match script {
        Script::Python => {
            let ended = format!(
                "print('FAIL: {name}', file=__import__('sys').stderr, flush=True), \
                 __import__('sys').stdout.flush(), __import__('os')._exit(97)"
            );
            edits.add(
                behind_futures(&code, text),
                format!("__import__('atexit').register(lambda: ({expression}, {ended}))\n"),
            );
        }
        Script::Javascript => edits.add(
            behind_interpreter(text),
            format!(
                "process.once('exit', () => {{ {expression}; process.stderr.write('FAIL: {name}\\n'); process.exitCode = 97; }});\n"
            ),
        ),
        Script::Shell | Script::C | Script::Cpp => return None,
    }
    edits.add(text.len(), added);
    edits.applied_to(text)
}

/// Whether a file that a program loads may itself end the program with what may be 0. What it does only where it is
/// started itself counts for nothing.
pub(super) fn may_end(script: Script, text: &str) -> bool {
    let loaded = ["\nif __name__", "require.main === module", "import.meta.main"]
        .iter()
        .filter_map(|mark| text.find(mark))
        .min()
        .map_or(text, |end| text.get(..=end).unwrap_or_default());
    // The end of the file is no statement of its own.
    let ends = match script {
        Script::Shell => Shell::read(loaded).map(|shell| shell.ends().len()),
        Script::Python => masked(script, loaded)
            .and_then(|code| of_python(&code, loaded, ("", "0")))
            .map(|edits| edits.0.len() - 1),
        Script::Javascript => masked(script, loaded)
            .and_then(|code| of_javascript(&code, loaded, ("", "0")))
            .map(|edits| edits.0.len() - 1),
        Script::C | Script::Cpp => Some(0),
    };
    ends != Some(0)
}

/// The text that fails in front of everything that the code of the start may do.
pub(super) fn failing_in_front(script: Script, text: &str, token: &str) -> Option<String> {
    let name = format!("{token}_00");
    let mut edits = Edits::default();
    let code = masked(script, text)?;
    match script {
        Script::Python => {
            edits.add(behind_futures(&code, text), format!("raise SystemExit('FAIL: {name}')\n"))
        }
        Script::Javascript => {
            edits.add(behind_interpreter(text), format!("throw new Error('FAIL: {name}');\n"))
        }
        Script::C | Script::Cpp => {
            let (begin, _) = main_of(&code)?;
            edits.add(begin, format!("\n{} return 97;\n", statement_of_c(&code, text, &name)));
        }
        Script::Shell => {
            let front = behind_interpreter(text);
            let shell = Shell::read(text)?;
            match shell.behind_sources().filter(|at| *at > front) {
                Some(behind) => {
                    let reports = reports_of(&shell, token);
                    let failing =
                        shell::failing(&name).replace("exit 97; }", "trap 'exit 97' 0; }");
                    edits.add(front, format!("{failing}\n"));
                    edits.add(behind, format!("\n{reports}exit 97\n"));
                }
                None => edits.add(front, format!("{}\n", shell::failing(&name))),
            }
        }
    }
    edits.applied_to(text)
}

/// The place behind the line that names an interpreter.
fn behind_interpreter(text: &str) -> usize {
    match text.starts_with("#!") {
        true => text.find('\n').map_or(text.len(), |end| end + 1),
        false => 0,
    }
}

/// The place behind the imports with which a module of Python has to begin.
fn behind_futures(code: &str, text: &str) -> usize {
    let last = code.rfind("\nfrom __future__ ").map(|at| at + 1);
    let last = last.or_else(|| code.starts_with("from __future__ ").then_some(0));
    let Some(last) = last else { return behind_interpreter(text) };
    let rest = code.get(last..).unwrap_or_default();
    let close = rest.find('\n').filter(|end| !rest.get(..*end).unwrap_or_default().contains('('));
    let close =
        close.or_else(|| rest.find(')').and_then(|at| Some(at + rest.get(at..)?.find('\n')?)));
    close.map_or(code.len(), |end| last + end + 1)
}

fn of_shell(shell: &Shell<'_>, text: &str, token: &str, name: &str) -> Edits {
    let mut edits = Edits::default();
    for end in shell.ends() {
        edits.replace(end, shell::failing(name));
    }
    if let Some(behind) = shell.behind_sources() {
        edits.add(behind, format!("\n{}", reports_of(shell, token)));
    }
    edits.add(text.len(), format!("\n{}\n", shell::failing(name)));
    edits
}

fn reports_of(shell: &Shell<'_>, token: &str) -> String {
    shell.reports(token).into_iter().map(|(_, text)| format!("{text}\n")).collect()
}

/// What stands in front of a place: the last word, and whether it is followed by a dot.
fn in_front(code: &str, at: usize) -> (&str, bool) {
    let before = code.get(..at).unwrap_or_default();
    let (before, has_dot) = match before.strip_suffix('.') {
        Some(before) => (before, true),
        None => (before.trim_end_matches([' ', '\t']), false),
    };
    let is_word = |letter: char| letter.is_alphanumeric() || "_$".contains(letter);
    (before.rsplit(|letter: char| !is_word(letter)).next().unwrap_or_default(), has_dot)
}

/// The brackets right behind a word.
fn call(code: &str, behind: usize) -> Option<(usize, usize)> {
    let rest = code.get(behind..)?;
    let open = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    rest.get(open..)?.starts_with('(').then(|| bracketed(code, behind + open)).flatten()
}

/// Whether an exit code, or a message, always says that a program failed.
fn is_failure(code: &str) -> bool {
    let plain = code.trim().trim_start_matches('(').trim_end_matches(')').trim();
    let is_text = plain.len() > 2
        && plain.starts_with(['\'', '"'])
        && plain.trim_matches(['\'', '"']).bytes().all(|byte| byte == b'_');
    let number = plain.strip_prefix('-').unwrap_or(plain);
    is_text || plain == "EXIT_FAILURE" || number.parse::<u8>().is_ok_and(|code| code != 0)
}

/// Whether the code calls one of these of a module, by which a program ends without an end of its own.
fn hands_over(code: &str, module: &str, names: &[&str]) -> bool {
    names.iter().any(|name| {
        let found = code.match_indices(name).map(|(at, _)| at);
        found.into_iter().any(|at| in_front(code, at) == (module, true))
    })
}

/// `report` is an expression that is evaluated where the program ends.
fn of_python(code: &str, text: &str, (name, report): (&str, &str)) -> Option<Edits> {
    if hands_over(code, "os", &["exec", "abort", "kill", "dup2"]) || is_silent(code) {
        return None;
    }
    let mut edits = Edits::default();
    for word in ["exit", "quit", "_exit", "SystemExit"] {
        for at in words(code, word) {
            let (before, has_dot) = in_front(code, at);
            let is_end = match word {
                "SystemExit" => before == "raise" || before.is_empty(),
                "_exit" => has_dot && before == "os" || !has_dot && before != "def",
                _ => has_dot && before == "sys" || !has_dot && before != "def",
            };
            let end = at + word.len();
            let Some((from, to)) = call(code, end).filter(|_| is_end) else {
                // Under another name it may be called anywhere.
                if is_end && has_dot {
                    return None;
                }
                if word == "SystemExit" && before == "raise" {
                    edits.add(end, format!("(('FAIL: {name}', {report})[0])"));
                }
                continue;
            };
            let (given, value) = (code.get(from..to)?, text.get(from..to)?);
            if is_failure(given) {
                continue;
            }
            if given.trim().starts_with('*') {
                return None;
            }
            let value = if given.trim().is_empty() { "0" } else { value };
            let new = match word {
                "_exit" => {
                    format!("((\n{value}\n), print('FAIL: {name}', flush=True), 97, {report})[2]")
                }
                _ => format!("((\n{value}\n), 'FAIL: {name}', {report})[1]"),
            };
            edits.replace(from..to, new);
        }
    }
    // What the program or its helpers do with exceptions may show nothing of them.
    let failing = format!(
        "\nif __name__ == '__main__':\n    {report}\n    \
         print('FAIL: {name}', file=__import__('sys').stderr, flush=True)\n    \
         raise AssertionError('FAIL: {name}')\n"
    );
    edits.add(text.len(), failing);
    Some(edits)
}

/// Whether a program in Python sends its output elsewhere itself: what it reports is not seen then.
fn is_silent(code: &str) -> bool {
    ["stdout", "stderr"].iter().any(|name| {
        words(code, name).any(|at| {
            let behind = code.get(at + name.len()..).unwrap_or_default().trim_start();
            in_front(code, at) == ("sys", true)
                && behind.starts_with('=')
                && !behind.starts_with("==")
        })
    })
}

/// As [`of_python`].
fn of_javascript(code: &str, text: &str, (name, report): (&str, &str)) -> Option<Edits> {
    let leaves = words(code, "return").any(|at| depth_at(code, at) == 0);
    if leaves || hands_over(code, "process", &["abort", "kill", "reallyExit"]) {
        return None;
    }
    let is_own = ["function exit", "exit ="].iter().any(|head| code.contains(head));
    let mut edits = Edits::default();
    for at in words(code, "exit") {
        let (before, has_dot) = in_front(code, at);
        let is_end = match has_dot {
            true => matches!(before, "process" | "Deno"),
            false => !is_own && before != "function",
        };
        let Some((from, to)) = call(code, at + "exit".len()).filter(|_| is_end) else {
            if is_end && has_dot {
                return None;
            }
            continue;
        };
        let (given, value) = (code.get(from..to)?, text.get(from..to)?);
        if is_failure(given) {
            continue;
        }
        let value = if given.trim().is_empty() { "0" } else { value };
        let new = format!(
            "Number([\n{value}\n, {report}, process.stderr.write('FAIL: {name}\\n'), 97][3])"
        );
        edits.replace(from..to, new);
    }
    // The end of a program is where nothing is left to wait for.
    let failing = match code.contains("process") && text.contains("uncaughtException") {
        true => format!("process.stderr.write('FAIL: {name}\\n'); process.exit(97);"),
        false => format!("throw new Error('FAIL: {name}');"),
    };
    edits.add(
        text.len(),
        format!("\nif (typeof process === 'object') process.once('beforeExit', () => {{ {report}; {failing} }}); else {{ {failing} }}\n"),
    );
    Some(edits)
}

/// How many braces are open at a place.
fn depth_at(code: &str, at: usize) -> usize {
    code.get(..at).unwrap_or_default().bytes().fold(0, |depth, byte| match byte {
        b'{' => depth + 1,
        b'}' => usize::saturating_sub(depth, 1),
        _ => depth,
    })
}

/// What asserts in a program in C, which a header of the product may have switched off; else a plain print.
fn expression_of_c(text: &str, name: &str) -> String {
    match text.contains("<assert.h>") || text.contains("<cassert>") {
        true => format!("assert(!\"FAIL: {name}\")"),
        false => format!("__builtin_puts(\"FAIL: {name}\")"),
    }
}

/// A program whose functions for comparing were replaced does not report.
fn statement_of_c(code: &str, text: &str, name: &str) -> String {
    let failing = expression_of_c(text, name);
    match intact_in_c(code) {
        Some(intact) => format!("if ({intact}) {{ {failing}; }}"),
        None => format!("{failing};"),
    }
}

fn of_c(code: &str, text: &str, name: &str) -> Option<Edits> {
    let (begin, end) = main_of(code)?;
    let body = code.get(begin..end)?;
    let has_inner = ["](", "] (", "]{", "] {"].iter().any(|head| body.contains(head));
    let hands_over = ["execl", "execv", "execvp", "execlp", "freopen", "kill"];
    if has_inner || hands_over.iter().any(|word| words(code, word).next().is_some()) {
        return None;
    }
    let mut edits = Edits::default();
    let report = match intact_in_c(code) {
        Some(intact) => format!("(({intact}) ? (void)({}) : (void)0)", expression_of_c(text, name)),
        None => expression_of_c(text, name),
    };
    let failing = |value: &str| format!("((void)({value}), {report}, 97)");
    for word in ["exit", "_exit", "_Exit", "quick_exit"] {
        for at in words(code, word) {
            let (before, has_dot) = in_front(code, at);
            let Some((from, to)) = call(code, at + word.len()) else { continue };
            let (given, value) = (code.get(from..to)?, text.get(from..to)?);
            if has_dot || before == "void" || given.trim().is_empty() || is_failure(given) {
                continue;
            }
            // The others leave behind what is not printed yet.
            if word != "exit" || value.contains("//") {
                return None;
            }
            edits.replace(from..to, failing(value.trim()));
        }
    }
    for at in words(body, "return") {
        let from = begin + at + "return".len();
        let to = from + code.get(from..end)?.find(';')?;
        let given = code.get(from..to)?;
        let value = text.get(from..to)?.trim();
        if value.is_empty() || value.contains("//") {
            return None;
        }
        if !is_failure(given) {
            edits.replace(from..to, format!(" {}", failing(value)));
        }
    }
    edits.add(end, format!("\n{} return 97;\n", statement_of_c(code, text, name)));
    Some(edits)
}

/// What stands between the braces of the function `main`.
fn main_of(code: &str) -> Option<(usize, usize)> {
    let at =
        words(code, "main").find(|at| matches!(in_front(code, *at), ("int" | "void", false)))?;
    bracketed(code, at + code.get(at..)?.find('{')?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ends(path: &str, text: &str) -> Option<String> {
        failing_at_ends(Script::of(path, text).unwrap(), text, "zx")
    }

    #[test]
    fn each_end_that_may_be_a_success_fails() {
        for (path, text, expected) in [
            (
                "a.py",
                "sys.exit(1 if failed else 0)\n",
                "sys.exit(((\n1 if failed else 0\n), 'FAIL: zx_00', exec(",
            ),
            ("a.py", "if x: sys.exit('not ok')\n", "if x: sys.exit('not ok')\n"),
            ("a.py", "if x: raise SystemExit\n", "raise SystemExit(('FAIL: zx_00', exec("),
            ("a.py", "def exit(code): pass\n", "def exit(code): pass\n"),
            ("a.py", "sys.stderr.write(x)\n", "sys.stderr.write(x)\n"),
            (
                "a.py",
                "os._exit(main())\n",
                "os._exit(((\nmain()\n), print('FAIL: zx_00', flush=True), 97, exec(",
            ),
            ("a.py", "x()\n", "x()\n\nif __name__ == '__main__':\n    exec("),
            ("a.js", "if (x) process.exit(1);\n", "if (x) process.exit(1);\n\nif (typeof process"),
            (
                "a.js",
                "process.exit(n ? 1 : 0);",
                "process.exit(Number([\nn ? 1 : 0\n, zx_report(), process.stderr.write('FAIL: zx_00\\n'), 97][3]));",
            ),
            ("a.js", "log(`process.exit(0)`);", "log(`process.exit(0)`);"),
            ("a.sh", "exit $fail\n", "{ echo 'FAIL: zx_00'; echo 'FAIL: zx_00' >&2; exit 97; }\n"),
            (
                "a.sh",
                ". x.sh\n[ a ]\nb\n",
                ". x.sh\n\n[ a = b ] || echo 'FAIL: zx_03'\n[ a ]\nb\n\n{ echo",
            ),
            (
                "a.c",
                "int main(void) { switch (a) { case 1: return EXIT_FAILURE; } return failed; }\n",
                "return EXIT_FAILURE; } return ((void)(failed), __builtin_puts(\"FAIL: zx_00\"), 97); \n__builtin_puts",
            ),
            (
                "a.c",
                "#include <assert.h>\nint main() { a(); exit(b); }\n",
                "exit(((void)(b), assert(!\"FAIL: zx_00\"), 97)); \nassert(!\"FAIL: zx_00\"); return 97;\n}",
            ),
        ] {
            let found = at_ends(path, text).unwrap();
            assert!(found.contains(expected), "{path}: {found}");
        }
    }

    #[test]
    fn a_program_that_may_end_elsewhere_has_none() {
        for (path, text) in [
            ("a.py", "sys.stderr = open(os.devnull, 'w')\nassert x\n"),
            ("a.py", "die = sys.exit\ndie(x)\n"),
            ("a.js", "const die = process.exit;\ndie(x);\n"),
            ("a.c", "int main(void) { freopen(\"log\", \"w\", stdout); return x; }\n"),
            ("a.sh", "exec >log 2>&1\n. ./a.sh\n"),
            ("a.py", "os.execv('a', [])\n"),
            ("a.js", "if (x) return;\n"),
            ("a.sh", "exec x\n"),
            ("a.c", "int run(void) { return 0; }\n"),
            ("a.c", "int main(void) { _exit(a); }\n"),
            ("a.cpp", "int main() { auto f = [](int x) { return x; }; }\n"),
        ] {
            assert_eq!(at_ends(path, text), None, "{text}");
        }
    }

    #[test]
    fn a_product_may_end_the_program_that_loads_it() {
        for (path, text, expected) in [
            ("app.py", "def main():\n    sys.exit(run())\n", true),
            ("app.py", "def main():\n    sys.exit(2)\n", false),
            ("app.py", "def f(): pass\n\nif __name__ == '__main__':\n    sys.exit(f())\n", false),
            ("lib.sh", "die() {\n  echo \"$1\"\n  exit 1\n}\n", false),
            ("lib.sh", "usage() {\n  exit 0\n}\n", true),
            ("a.js", "exports.main = () => process.exit();\n", true),
            ("a.js", "exports.a = 1;\n", false),
        ] {
            assert_eq!(may_end(Script::of(path, text).unwrap(), text), expected, "{text}");
        }
    }

    #[test]
    fn the_code_of_the_start_fails_in_front_of_all() {
        let front = |path: &str, text: &str| {
            failing_in_front(Script::of(path, text).unwrap(), text, "zx").unwrap()
        };
        let text = "from __future__ import annotations\nx()\n";
        let expected = "from __future__ import annotations\nraise SystemExit('FAIL: zx_00')\nx()\n";
        assert_eq!(front("a.py", text), expected);
        for text in
            ["#!/usr/bin/env python3\nx()\n", "#!/usr/bin/env python3\nimport x\nsys.exit(0)\n"]
        {
            let first = "#!/usr/bin/env python3\n";
            assert!(front("run", text).starts_with(first));
            let script = Script::of("run", text).unwrap();
            assert!(failing_at_ends(script, text, "zx").unwrap().starts_with(first));
        }
        let found = front("a.sh", "#!/bin/sh\nset -e\n. x.sh\ny\n");
        let source = found.find(". x.sh").unwrap();
        assert!(found.find("trap 'exit 97' 0").unwrap() < source, "{found}");
        assert!(found.find("case $- in *e*) echo 'FAIL: zx_01'").unwrap() > source, "{found}");
        assert_eq!(names(Script::Shell, "set -e\n. x.sh\n", "zx"), ["zx_00", "zx_01"]);
        let found = front("a.c", "int a;\nint main(void) { b(); }\n");
        assert!(
            found.contains("{\n__builtin_puts(\"FAIL: zx_00\"); return 97;\n b(); }"),
            "{found}"
        );
    }
}
