//! The files that a line gives to a runner of tests: tests by what the line does with them, wherever they lie.

use super::language::{extension, language_of};
use super::visits::{Visit, Visits, join};
use crate::domain::shell_line::{base_name, is_python, module_of_python};

/// Runners that run the files that they are given, and the language of these. Others only select tests by such names.
const RUNNERS: &[(&str, &str)] = &[
    ("ava", "javascript"),
    ("bats", "shell"),
    ("mocha", "javascript"),
    ("nose2", "python"),
    ("phpunit", "php"),
    ("prove", "perl"),
    ("py.test", "python"),
    ("pytest", "python"),
    ("rspec", "ruby"),
    ("tap", "javascript"),
];

/// Files that a line gives to a runner of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestOperand {
    /// The language of the runner.
    pub language: &'static str,
    /// Paths from the root, of which the first that is there counts. They may have `*` and `?`.
    pub paths: Vec<String>,
}

/// The files of tests that the runners in a command of this folder are given.
pub fn test_operands(folder: &str, command: &str) -> Vec<TestOperand> {
    let mut found = Vec::new();
    for visit in Visits::of(command, "").commands {
        let words: Vec<&str> = visit.words.iter().map(String::as_str).collect();
        let Some((language, runner, operands)) = runner(&words) else { continue };
        let whole = |path: &str| {
            let inside = join("", &visit.folder, path);
            if folder.is_empty() { inside } else { join("", folder.trim_end_matches('/'), &inside) }
        };
        let named = |paths: &[String]| {
            let paths: Vec<String> =
                paths.iter().map(|path| whole(path)).filter(|path| !path.is_empty()).collect();
            (!paths.is_empty()).then_some(TestOperand { language, paths })
        };
        // These are products whose documentation has examples.
        if operands.iter().any(|word| word.contains("doctest")) {
            continue;
        }
        if runner == "unittest" && operands.first() == Some(&"discover") {
            found.extend(named(&[discovered(operands)]));
            continue;
        }
        for operand in options_and_operands(runner, operands).1 {
            let operand = operand.split_once("::").map_or(operand, |(file, _)| file);
            let is_module = runner == "unittest" && !operand.contains('/');
            let paths = match is_module && !operand.ends_with(".py") {
                true => files_of_module(operand),
                false => vec![operand.to_owned()],
            };
            found.extend(named(&paths));
        }
    }
    found
}

/// The runner that a command starts, and its arguments.
fn runner<'w, 'a>(words: &'w [&'a str]) -> Option<(&'static str, &'a str, &'w [&'a str])> {
    let (program, arguments) = words.split_first()?;
    let name = base_name(program);
    let known = |name: &str| RUNNERS.iter().find(|(known, _)| *known == name).map(|it| it.1);
    if is_python(name) {
        let (module, arguments) = module_of_python(words)?;
        let language = if module == "unittest" { Some("python") } else { known(module) };
        return Some((language?, module, arguments));
    }
    match name {
        "node" | "nodejs" => {
            let at = arguments.iter().position(|word| *word == "--test")?;
            Some(("javascript", "node", arguments.get(at + 1..)?))
        }
        "deno" => {
            let rest = arguments.strip_prefix(&["test"])?;
            Some(("javascript", "deno", rest))
        }
        name => Some((known(name)?, name, arguments)),
    }
}

/// The options of a runner with their values, and its operands.
pub fn options_and_operands<'a>(
    runner: &str,
    arguments: &[&'a str],
) -> (Vec<&'a str>, Vec<&'a str>) {
    let with_value = with_value(runner);
    let (mut options, mut operands) = (Vec::new(), Vec::new());
    let mut words = arguments.iter().copied();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            operands.push(word);
            continue;
        }
        options.push(word);
        if with_value.contains(&word) {
            options.extend(words.next());
        }
    }
    (options, operands)
}

/// The options of a runner that have a value in the next word.
fn with_value(runner: &str) -> &'static [&'static str] {
    match runner {
        "pytest" | "py.test" => &[
            "--cov",
            "--deselect",
            "--ignore",
            "--ignore-glob",
            "--rootdir",
            "-c",
            "-k",
            "-m",
            "-n",
            "-o",
            "-p",
            "-r",
        ],
        "unittest" => &["-k"],
        "node" => &[
            "--conditions",
            "--env-file",
            "--experimental-loader",
            "--import",
            "--loader",
            "--require",
            "--test-concurrency",
            "--test-isolation",
            "--test-name-pattern",
            "--test-reporter",
            "--test-reporter-destination",
            "--test-shard",
            "--test-skip-pattern",
            "--test-timeout",
            "-C",
            "-r",
        ],
        "ava" | "mocha" | "tap" => &["--import", "--require", "-r"],
        "rspec" => &["--require", "-I", "-r"],
        _ => &[],
    }
}

/// Whether a file defines nothing but tests and what they use at its top level, as far as that is told.
pub fn is_all_tests(path: &str, text: &str) -> bool {
    match language_of(path) {
        Some("python") => {
            let mut decorated = false;
            text.lines()
                .filter(|line| line.starts_with(|it: char| it == '@' || it.is_alphabetic()))
                .all(|line| {
                    let was_decorated = std::mem::replace(&mut decorated, line.starts_with('@'));
                    let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ");
                    let is_one = |name: &str| {
                        ["setUp", "tearDown", "test"].iter().any(|start| name.starts_with(start))
                    };
                    name.is_none_or(|name| was_decorated || is_one(name))
                        && line.strip_prefix("class ").is_none_or(|rest| rest.contains("Test"))
                })
        }
        Some("javascript") => {
            let exports =
                |line: &str| line.starts_with("export ") || line.contains("module.exports");
            !text.lines().any(exports)
        }
        Some(_) | None => true,
    }
}

/// Whether a script compares something and can say that it is wrong, as far as its text tells.
pub fn asserts(path: &str, text: &str) -> bool {
    let mut lines = text.lines().map(str::trim_start).filter(|line| !line.starts_with(['#', '/']));
    match language_of(path) {
        Some("python") => lines.any(|line| {
            let exits = || ["AssertionError", "sys.exit(1", "SystemExit(1"];
            line.starts_with("assert ") || exits().iter().any(|word| line.contains(word))
        }),
        Some("javascript") => lines.any(|line| {
            let words = ["assert", "process.exit(1", "process.exitCode = 1", "throw new "];
            words.iter().any(|word| line.contains(word))
        }),
        Some("c") => {
            let words = ["assert", "ASSERT", "CHECK", "EXPECT", "REQUIRE", "abort"];
            let is_one =
                |line: &str| words.iter().any(|word| line.contains(word)) || compares_result(line);
            // A product that is a program has arguments.
            let is_program = ["main(void)", "main()"].iter().any(|main| text.contains(main));
            is_program && lines.any(is_one)
        }
        // What it compares comes from somewhere: a usage message compares no more than the number of its arguments.
        Some(_) | None => lines.any(|line| {
            let compares = ["[", "[[", "case", "cmp", "diff", "grep", "test"];
            let mut words = line.split_whitespace();
            let is_output =
                |line: &str| ["$(", "`", " | ", "< "].iter().any(|it| line.contains(it));
            words.any(|word| compares.contains(&word)) && is_output(line)
        }),
    }
}

/// Whether a line of C compares what a function gives with a number, and the function is none that reads or searches.
fn compares_result(line: &str) -> bool {
    const OF_PRODUCTS: &[&str] =
        &["scanf", "get", "read", "write", "open", "str", "mem", "put", "print", "system", "main"];
    let is_number =
        |rest: &str| rest.trim_start().starts_with(|it: char| it.is_ascii_digit() || it == '-');
    let compared = [") != ", ") == "].iter().find_map(|sign| line.split_once(sign));
    compared.is_some_and(|(before, rest)| {
        let call = before.rsplit_once("return ").map_or(before, |(_, call)| call);
        let call = call.rsplit_once("if (").map_or(call, |(_, call)| call);
        is_number(rest) && call.contains('(') && !OF_PRODUCTS.iter().any(|word| call.contains(word))
    })
}

/// The sources in C of each program that a command compiles, as the command names them.
pub fn compiled_sources(folder: &str, command: &str) -> Vec<Vec<String>> {
    const COMPILERS: &[&str] = &["c++", "cc", "clang", "clang++", "g++", "gcc"];
    let headers = ["h", "hpp"];
    let is_source = |path: &&String| {
        language_of(path) == Some("c") && extension(path).is_some_and(|it| !headers.contains(&it))
    };
    let commands = Visits::of(command, "").commands;
    let compile = commands.iter().filter(|visit| {
        visit.words.first().is_some_and(|program| COMPILERS.contains(&base_name(program)))
    });
    let sources = compile.map(|visit| {
        let paths = visit.words.iter().filter(is_source);
        let inside = |path: &String| join("", folder, &join("", &visit.folder, path));
        paths.map(inside).filter(|path| !path.is_empty()).collect()
    });
    sources.filter(|sources: &Vec<String>| !sources.is_empty()).collect()
}

/// Whether unittest looks for a file by its whole name: `discover -s tests -p test_new.py`. It looks in folders below, too.
pub(super) fn discovers(root: &str, visit: &Visit, path: &str) -> bool {
    let words: Vec<&str> = visit.words.iter().map(String::as_str).collect();
    let Some((_, "unittest", operands @ [first, ..])) = runner(&words) else { return false };
    let wanted = discovered(operands);
    let (folder, name) = wanted.rsplit_once('/').unwrap_or((".", &wanted));
    let below = match join(root, &visit.folder, folder) {
        folder if folder.is_empty() => Some(path),
        folder => path.strip_prefix(&folder).and_then(|path| path.strip_prefix('/')),
    };
    *first == "discover" && below.is_some_and(|path| path.rsplit('/').next() == Some(name))
}

/// The files that unittest looks for.
fn discovered(operands: &[&str]) -> String {
    let (mut folder, mut pattern, mut plain) = (None, None, 0);
    let mut words = operands.iter().skip(1).copied();
    while let Some(word) = words.next() {
        match word {
            "-s" | "--start-directory" => folder = words.next(),
            "-p" | "--pattern" => pattern = words.next(),
            "-t" | "--top-level-directory" | "-k" => drop(words.next()),
            _ if word.starts_with("--start-directory=") => folder = word.get(18..),
            _ if word.starts_with("--pattern=") => pattern = word.get(10..),
            _ if word.starts_with('-') => {}
            _ => {
                let to = if plain == 0 { &mut folder } else { &mut pattern };
                plain += 1;
                *to = Some(word);
            }
        }
    }
    format!("{}/{}", folder.unwrap_or(".").trim_end_matches('/'), pattern.unwrap_or("test*.py"))
}

/// The files that may be a module, or the one of a class or a function in it.
fn files_of_module(module: &str) -> Vec<String> {
    let ends = module.match_indices('.').map(|(at, _)| at).chain([module.len()]);
    let mut modules: Vec<&str> = ends.filter_map(|end| module.get(..end)).collect();
    modules.reverse();
    let whole = |module: &str| {
        let path = module.replace('.', "/");
        [format!("{path}.py"), format!("{path}/__init__.py")]
    };
    modules.into_iter().take(3).flat_map(whole).collect()
}

/// Whether a path has the form of one with `*` and `?`, which stand for no slash.
pub fn has_form(path: &str, form: &str) -> bool {
    fn matches(path: &[u8], form: &[u8]) -> bool {
        match (form.split_first(), path.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), None) => matches(path, rest),
            (Some((b'*', rest)), Some((first, left))) => {
                matches(path, rest) || *first != b'/' && matches(left, form)
            }
            (Some((b'?', rest)), Some((first, left))) => *first != b'/' && matches(left, rest),
            (Some((wanted, rest)), Some((first, left))) => wanted == first && matches(left, rest),
            (_, _) => false,
        }
    }
    let parts = |text: &str| text.split('/').map(str::to_owned).collect::<Vec<_>>();
    let (path, form) = (parts(path), parts(form));
    path.len() == form.len()
        && path.iter().zip(&form).all(|(path, form)| {
            form.matches('*').count() <= MAX_STARS && matches(path.as_bytes(), form.as_bytes())
        })
}

/// The most stars in one part of a path.
const MAX_STARS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_runner_is_given_is_found() {
        for (line, expected) in [
            ("python3 -m unittest qa.rules", &["qa/rules.py"][..]),
            ("python3 -um unittest qa.rules.RulesTest.test_a", &["qa/rules/RulesTest/test_a.py"]),
            ("python3 -m unittest qa/rules.py -v", &["qa/rules.py"]),
            ("python3 -m unittest discover -s qa -p 'check_*.py'", &["qa/check_*.py"]),
            ("python3 -m unittest discover qa", &["qa/test*.py"]),
            ("python3 -m unittest", &[]),
            ("cd web && node --test qa/a.js qa/b.js", &["web/qa/a.js", "web/qa/b.js"]),
            ("node --test qa/*.js", &["qa/*.js"]),
            ("node qa/a.js", &[]),
            ("npx mocha qa/a.js", &["qa/a.js"]),
            ("pytest qa/rules.py::test_a", &["qa/rules.py"]),
            ("python3 qa/rules.py", &[]),
            ("cat qa/rules.py", &[]),
            ("pytest --doctest-modules calc.py", &[]),
            ("pytest --ignore calc.py qa/rules.py", &["qa/rules.py"]),
            ("python3 -m pytest -p calc -k sum qa/rules.py", &["qa/rules.py"]),
            ("node --test --import ./hook.js qa/a.js", &["qa/a.js"]),
        ] {
            let found = test_operands("", line);
            let found: Vec<_> =
                found.iter().filter_map(|it| it.paths.first().map(String::as_str)).collect();
            assert_eq!(found, expected, "{line}");
        }
        let found = test_operands("sub/", "node --test qa/a.js");
        assert_eq!(
            found.first().map(|it| it.paths.as_slice()),
            Some(&["sub/qa/a.js".to_owned()][..])
        );
    }

    #[test]
    fn a_product_with_its_tests_inside_is_not_all_tests() {
        for (path, text, expected) in [
            (
                "qa/a.py",
                "import util\n\nclass RulesTest(Base):\n    def load(self):\n        pass\n",
                true,
            ),
            ("qa/a.py", "@fixture\ndef load():\n    pass\n\ndef test_a():\n    pass\n", true),
            ("a.py", "def test_a():\n    pass\n\nasync def mean():\n    pass\n", false),
            ("a.py", "class Mean:\n    pass\n", false),
            ("qa/a.js", "const { mean } = require('./mean');\ntest('a', () => {});\n", true),
            ("a.js", "export const mean = 1;\n", false),
            ("a.js", "module.exports = { mean };\n", false),
        ] {
            assert_eq!(is_all_tests(path, text), expected, "{text}");
        }
    }

    #[test]
    fn a_script_that_compares_is_told_from_one_that_only_runs() {
        for (path, text, expected) in [
            ("run.py", "from calc import add\nassert add(2, 3) == 5\n", true),
            (
                "run.py",
                "import sys\nfrom calc import add\nif add(2, 3) != 5:\n    sys.exit(1)\n",
                true,
            ),
            ("run.py", "from calc import add\nprint(add(2, 3))\n", false),
            ("run.py", "# assert nothing\nprint(1)\n", false),
            ("run.js", "const assert = require('node:assert');\n", true),
            ("run.js", "if (add(2, 3) !== 5) process.exit(1);\n", true),
            ("run.js", "console.log(add(2, 3));\n", false),
            ("run.sh", "[ \"$(sh calc.sh 2 3)\" = 5 ] || exit 1\n", true),
            ("run", "sh calc.sh 2 3 | grep -qx 5\n", true),
            ("run", "case `./calc 2 3` in 5) ;; *) exit 1 ;; esac\n", true),
            ("calc.c", "int main(void) { assert(add(2, 3) == 5); }\n", true),
            ("calc.c", "int main() {\n  CHECK(add(2, 3) == 5);\n}\n", true),
            ("calc.c", "int main(void) { return sum(2, 3) != 5; }\n", true),
            ("calc.c", "int main(void) {\n  if (sum(2, 3) != 5) {\n    return 1;\n  }\n}\n", true),
            ("calc.c", "int main(void) {\n  if (scanf(\"%d\", &n) != 1) return 1;\n}\n", false),
            ("calc.c", "int main(void) {\n  while (getchar() != -1) n++;\n}\n", false),
            ("calc.c", "int main(void) {\n  for (; n != 5;) n += sum(n, 1);\n}\n", false),
            ("calc.c", "int main(int argc, char **argv) { assert(argc == 3); }\n", false),
            ("calc.c", "int main(void) { return puts(\"hello\") < 0; }\n", false),
            ("calc.c", "int add(int a, int b) { assert(a > 0); return a + b; }\n", false),
            ("greet.sh", "[ $# -gt 0 ] || exit 64\nsh words.sh \"$1\"\n", false),
        ] {
            assert_eq!(asserts(path, text), expected, "{text}");
        }
    }

    #[test]
    fn a_compiler_is_given_sources() {
        for (command, expected) in [
            ("cc -o t check.c calc.c && ./t", &[&["sub/check.c", "sub/calc.c"][..]][..]),
            (
                "cd t && gcc -c a.c; clang b.cc ../c.cpp",
                &[&["sub/t/a.c"], &["sub/t/b.cc", "sub/c.cpp"]],
            ),
            ("cc -o t a.o -include a.h", &[]),
            ("cat a.c", &[]),
        ] {
            assert_eq!(compiled_sources("sub", command), expected, "{command}");
        }
    }

    #[test]
    fn a_form_stands_for_no_slash() {
        for (path, form, expected) in [
            ("qa/check_a.py", "qa/check_*.py", true),
            ("qa/deep/check_a.py", "qa/check_*.py", false),
            ("qa/a.js", "qa/?.js", true),
            ("qa/ab.js", "qa/?.js", false),
            ("qa/a.js", "qa/a.js", true),
            ("qa/a.jsx", "qa/*.js", false),
        ] {
            assert_eq!(has_form(path, form), expected, "{path} {form}");
        }
    }
}
