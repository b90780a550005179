//! A check's line, for the canary's files alone.

use crate::domain::check_inputs::options_and_operands;
use crate::domain::shell_line::{base_name, is_assignment, module_of_python, unwrapped};
use crate::domain::tests_seen::Runner;

/// What only a shell reads.
const SHELL: &[char] =
    &['|', '&', ';', '<', '>', '$', '`', '\'', '"', '(', ')', '{', '}', '*', '#', '\\'];

/// The option of Cargo with which a program that fails leaves the next ones to run.
const GOES_ON: &str = "--no-fail-fast";

/// The line for these files alone; none where it starts another program than the runner, or selects tests itself.
pub fn narrow(line: &str, runner: Runner, hosts: &[&str]) -> Option<String> {
    if let Some((folder, rest)) = line.strip_prefix("cd ").and_then(|line| line.split_once(" && "))
    {
        let folder = folder.trim().trim_start_matches("./").trim_end_matches('/');
        let inside =
            |host: &&'_ str| host.strip_prefix(folder)?.strip_prefix('/').map(str::to_owned);
        let hosts: Option<Vec<String>> = hosts.iter().map(inside).collect();
        let hosts = hosts?;
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let is_plain = !folder.is_empty() && !folder.contains(SHELL) && !folder.contains(' ');
        return is_plain
            .then(|| narrow(rest, runner, &hosts))
            .flatten()
            .map(|rest| format!("cd {folder} && {rest}"));
    }
    let odd = |host: &str| host.contains(|c: char| c.is_whitespace() || SHELL.contains(&c));
    if line.contains(SHELL)
        || line.contains('\n')
        || hosts.is_empty()
        || hosts.iter().any(|host| odd(host))
    {
        return None;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    if !starts(&words, runner) {
        return None;
    }
    match runner {
        Runner::Unittest => {
            let (_, rest) = after(&words, "unittest")?;
            let modules: Option<Vec<String>> = hosts.iter().map(|host| module(host)).collect();
            only_options(rest).then_some(format!("{line} {}", modules?.join(" ")))
        }
        Runner::Pytest => {
            let (start, rest) = after(&words, "pytest")?;
            let options = pytest_options(rest, hosts)?;
            Some([start, &options, hosts].concat().join(" "))
        }
        Runner::NodeTest => {
            let (start, rest) = after(&words, "--test")?;
            let (options, _) = options_and_operands("node", rest);
            Some([start, &options, hosts].concat().join(" "))
        }
        Runner::GoTest => go_packages(&words, hosts),
        Runner::CargoTest | Runner::Nextest => {
            let name = if runner == Runner::Nextest { "run" } else { "test" };
            cargo_targets(after(&words, name)?, hosts)
        }
        Runner::Jest | Runner::Mocha => {
            let (_, rest) = after(&words, runner.as_str())?;
            only_options(rest).then(|| format!("{line} {}", hosts.join(" ")))
        }
        Runner::Vitest => {
            let (_, rest) = after(&words, "vitest")?;
            let rest = rest.strip_prefix(&["run"]).unwrap_or(rest);
            only_options(rest).then(|| format!("{line} {}", hosts.join(" ")))
        }
        Runner::Rspec => {
            let (_, rest) = after(&words, "rspec")?;
            only_options(rest).then(|| format!("{line} {}", hosts.join(" ")))
        }
        // Earlier versions take one path.
        Runner::Phpunit => {
            let (_, rest) = after(&words, "phpunit")?;
            let [host] = hosts else { return None };
            only_options(rest).then(|| format!("{line} {host}"))
        }
        Runner::Maven => maven_classes(&words, hosts),
        Runner::Ctest | Runner::Gradle | Runner::DotnetTest => None,
    }
}

/// Options of unittest with which it ends at the first failure.
const AT_FIRST: &[&str] = &["--failfast", "-f"];

/// The same line, which goes on behind a test that fails, or behind a program of tests of Cargo; none where that is the
/// line itself, or where it is more than that.
pub fn going_on(line: &str, runner: Runner) -> Option<String> {
    let name = match runner {
        Runner::Unittest if !line.contains(SHELL) => {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (start, rest) =
                after(&words, "unittest").filter(|_| starts(&words, Runner::Unittest))?;
            let kept = rest.iter().copied().filter(|word| !AT_FIRST.contains(word));
            let kept: Vec<&str> = start.iter().copied().chain(kept).collect();
            return (kept.len() < words.len()).then(|| kept.join(" "));
        }
        Runner::CargoTest => "test",
        Runner::Nextest => "run",
        Runner::Pytest
        | Runner::Unittest
        | Runner::GoTest
        | Runner::NodeTest
        | Runner::Jest
        | Runner::Vitest
        | Runner::Mocha
        | Runner::Maven
        | Runner::Gradle
        | Runner::DotnetTest
        | Runner::Rspec
        | Runner::Phpunit
        | Runner::Ctest => return None,
    };
    if line.contains(SHELL) || line.contains('\n') {
        return None;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_plain = words.first() == Some(&"cargo")
        && words.contains(&name)
        && !words.iter().any(|word| *word == "--" || *word == GOES_ON);
    is_plain.then(|| format!("{} {GOES_ON}", words.join(" ")))
}

/// Whether a line starts this runner itself: the target of a recipe may have its name, or that of its subcommand.
fn starts(words: &[&str], runner: Runner) -> bool {
    let set = words.iter().take_while(|word| is_assignment(word)).count();
    let own = unwrapped(words.get(set..).unwrap_or_default());
    let program = match runner {
        Runner::CargoTest | Runner::Nextest => "cargo",
        Runner::GoTest => "go",
        Runner::NodeTest => "node",
        Runner::Maven => return own.first().is_some_and(|it| base_name(it).starts_with("mvn")),
        Runner::Pytest
        | Runner::Unittest
        | Runner::Jest
        | Runner::Vitest
        | Runner::Mocha
        | Runner::Gradle
        | Runner::DotnetTest
        | Runner::Rspec
        | Runner::Phpunit
        | Runner::Ctest => runner.as_str(),
    };
    let module = module_of_python(own).map(|(module, _)| module);
    module.or_else(|| own.first().map(|it| base_name(it))) == Some(program)
}

/// The words up to the program or subcommand of this name, and those after it.
fn after<'w, 'l>(words: &'w [&'l str], name: &str) -> Option<(&'w [&'l str], &'w [&'l str])> {
    let named = |word: &&str| *word == name || word.ends_with(&format!("/{name}"));
    words.split_at_checked(words.iter().position(named)? + 1)
}

fn only_options(words: &[&str]) -> bool {
    words.iter().all(|word| word.starts_with('-'))
}

/// Options of pytest whose value is the next word. Of those that select tests there is none.
const PYTEST_VALUED: &[&str] = &["-c", "-n", "-o", "-p", "-W"];
/// Its options that have no value; what follows another one may be its value or a path.
const PYTEST_PLAIN: &[&str] = &[
    "--disable-warnings",
    "--exitfirst",
    "--no-cov",
    "--no-header",
    "--no-summary",
    "--quiet",
    "--showlocals",
    "--strict-config",
    "--strict-markers",
    "--verbose",
];

/// The options of pytest without the paths beside them; none where it selects tests itself, or where one of these files is
/// in none of the paths.
fn pytest_options<'l>(rest: &[&'l str], hosts: &[&str]) -> Option<Vec<&'l str>> {
    let (mut options, mut paths) = (Vec::new(), Vec::new());
    let mut before = "";
    for &word in rest {
        let is_value = PYTEST_VALUED.contains(&before);
        if word.starts_with('-') || is_value {
            options.push(word);
        } else if is_plain_of_pytest(before) {
            paths.push(word.trim_start_matches("./").trim_end_matches('/'));
        } else {
            return None;
        }
        before = if is_value { "" } else { word };
    }
    let selects = |word: &&str| matches!(word.get(..2), Some("-k" | "-m"));
    let within = |host: &str, path: &str| {
        path.is_empty()
            || path == "."
            || host.strip_prefix(path).is_some_and(|it| it.is_empty() || it.starts_with('/'))
    };
    let is_in_one = |host: &&str| paths.is_empty() || paths.iter().any(|path| within(host, path));
    let fits = !options.iter().any(selects) && hosts.iter().all(is_in_one);
    (fits && !options.last().is_some_and(|last| PYTEST_VALUED.contains(last))).then_some(options)
}

/// Whether the word behind this one is no value of it: a path, no word, or an option without a value.
fn is_plain_of_pytest(word: &str) -> bool {
    match word.strip_prefix('-') {
        None => true,
        Some(long) if long.starts_with('-') => long.contains('=') || PYTEST_PLAIN.contains(&word),
        // What to report is in the same word.
        Some(letters) => {
            letters.starts_with('r') || letters.chars().all(|letter| "lqsvx".contains(letter))
        }
    }
}

/// `go test` of all packages, for the packages of these files alone.
fn go_packages(words: &[&str], hosts: &[&str]) -> Option<String> {
    let all = words.iter().filter(|word| **word == "./...").count() == 1;
    let selects = words.iter().any(|word| matches!(*word, "-run" | "-list" | "-skip"));
    let mut folders: Vec<String> = hosts.iter().map(|host| format!("./{}", folder(host))).collect();
    folders.dedup();
    let folders = folders.join(" ");
    let words: Vec<&str> =
        words.iter().map(|word| if *word == "./..." { &*folders } else { *word }).collect();
    (all && !selects).then(|| words.join(" "))
}

/// `mvn test` for the classes of these files alone. Modules without such a class are no failure.
fn maven_classes(words: &[&str], hosts: &[&str]) -> Option<String> {
    let selects =
        |word: &&str| ["-Dtest=", "-Dit.test=", "-Dgroups="].iter().any(|it| word.starts_with(it));
    let classes: Vec<&str> = hosts
        .iter()
        .filter_map(|host| host.rsplit('/').next()?.split_once('.').map(|(class, _)| class))
        .collect();
    (!words.iter().any(selects)).then(|| {
        format!(
            "{} -Dtest={} -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false",
            words.join(" "),
            classes.join(",")
        )
    })
}

fn module(host: &str) -> Option<String> {
    let stem = host.strip_suffix(".py")?;
    let is_name = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    stem.split('/').all(is_name).then(|| stem.replace('/', "."))
}

fn folder(host: &str) -> &str {
    host.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// `cargo test` of all packages, for the targets of these files alone, which belong to one package.
fn cargo_targets((start, rest): (&[&str], &[&str]), hosts: &[&str]) -> Option<String> {
    let all = |word: &&str| matches!(*word, "--workspace" | "--all");
    let known = |word: &&str| {
        all(word) || matches!(*word, "-q" | "--quiet" | "--offline" | "--locked" | GOES_ON)
    };
    let targets: Option<Vec<(&str, String)>> = hosts.iter().map(|host| target(host)).collect();
    let mut targets = targets?;
    targets.sort_unstable();
    targets.dedup();
    let (package, _) = targets.first()?;
    let is_one = targets.iter().all(|(folder, _)| folder == package);
    if !is_one || !rest.iter().all(known) {
        return None;
    }
    let manifest = match *package {
        "" => String::new(),
        folder => format!(" --manifest-path {folder}/Cargo.toml"),
    };
    let is_kept = |word: &&str| !all(word) && *word != GOES_ON;
    let kept: Vec<&str> = start.iter().chain(rest).copied().filter(is_kept).collect();
    let targets: Vec<&str> = targets.iter().map(|(_, target)| target.as_str()).collect();
    Some(format!("{}{manifest} {GOES_ON} {}", kept.join(" "), targets.join(" ")))
}

/// The folder of the package that a file belongs to, and its target there.
fn target(host: &str) -> Option<(&str, String)> {
    let of = |part: &str| match host.strip_prefix(part).and_then(|rest| rest.strip_prefix('/')) {
        Some(inside) => Some(("", inside)),
        None => host.split_once(&format!("/{part}/")),
    };
    if let Some((folder, inside)) = of("tests")
        && let Some(name) = inside.strip_suffix(".rs")
    {
        return (!name.contains('/')).then(|| (folder, format!("--test {name}")));
    }
    let (folder, inside) = of("src")?;
    let is_library = inside != "main.rs" && !inside.starts_with("bin/");
    is_library.then(|| (folder, "--lib".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_pytest_is_narrowed_where_its_paths_hold_the_files() {
        for (line, runner, host, expected) in [
            ("pytest -q", Runner::Pytest, "t/test_a.py", Some("pytest -q t/test_a.py")),
            ("pytest -k a", Runner::Pytest, "t/test_a.py", None),
            ("pytest -q t", Runner::Pytest, "t/test_a.py", Some("pytest -q t/test_a.py")),
            (
                "A=b python -m pytest -o addopts= -p no:x ./t/ s/test_b.py -rA",
                Runner::Pytest,
                "t/u/test_a.py",
                Some("A=b python -m pytest -o addopts= -p no:x -rA t/u/test_a.py"),
            ),
            ("pytest .", Runner::Pytest, "test_a.py", Some("pytest test_a.py")),
            ("pytest t", Runner::Pytest, "tt/test_a.py", None),
            ("pytest t/test_a.py::test_b", Runner::Pytest, "t/test_a.py", None),
            ("pytest --cov t", Runner::Pytest, "t/test_a.py", None),
            (
                "pytest --cov=src t",
                Runner::Pytest,
                "t/test_a.py",
                Some("pytest --cov=src t/test_a.py"),
            ),
            ("pytest -m slow t", Runner::Pytest, "t/test_a.py", None),
            ("pytest t -o", Runner::Pytest, "t/test_a.py", None),
        ] {
            assert_eq!(narrow(line, runner, &[host]).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_line_is_narrowed_where_its_runner_selects_files() {
        use Runner::{CargoTest, GoTest, Jest, Mocha, Nextest, NodeTest, Pytest, Unittest, Vitest};
        for (line, runner, host, expected) in [
            (
                "python3 -m unittest",
                Unittest,
                "tests/test_a.py",
                Some("python3 -m unittest tests.test_a"),
            ),
            ("python3 -m unittest -v tests.test_b", Unittest, "tests/test_a.py", None),
            ("python3 -m unittest | tail", Unittest, "tests/test_a.py", None),
            ("make test", Pytest, "t/test_a.py", None),
            ("node --test test/", NodeTest, "test/a.test.js", Some("node --test test/a.test.js")),
            (
                "node --import ./test/up.mjs --test --test-reporter spec test/b.test.js",
                NodeTest,
                "test/a.test.js",
                Some("node --import ./test/up.mjs --test --test-reporter spec test/a.test.js"),
            ),
            ("go test ./...", GoTest, "pkg/a/a_test.go", Some("go test ./pkg/a")),
            ("go test -run X ./...", GoTest, "a_test.go", None),
            (
                "cargo test --offline",
                CargoTest,
                "tests/a.rs",
                Some("cargo test --offline --no-fail-fast --test a"),
            ),
            ("cargo test", CargoTest, "src/lib.rs", Some("cargo test --no-fail-fast --lib")),
            (
                "cargo test -q --workspace",
                CargoTest,
                "crates/a/tests/b.rs",
                Some("cargo test -q --manifest-path crates/a/Cargo.toml --no-fail-fast --test b"),
            ),
            (
                "cargo test",
                CargoTest,
                "a/src/x/lib.rs",
                Some("cargo test --manifest-path a/Cargo.toml --no-fail-fast --lib"),
            ),
            ("cargo test", CargoTest, "a/src/main.rs", None),
            ("cargo test name", CargoTest, "src/lib.rs", None),
            ("npx jest", Jest, "a.test.js", Some("npx jest a.test.js")),
            ("npx mocha", Mocha, "test/a.js", Some("npx mocha test/a.js")),
            ("npx mocha test/b.js", Mocha, "test/a.js", None),
            ("npx vitest run", Vitest, "a.test.ts", Some("npx vitest run a.test.ts")),
            ("npx vitest run b", Vitest, "a.test.ts", None),
            (
                "cargo nextest run --offline",
                Nextest,
                "tests/a.rs",
                Some("cargo nextest run --offline --no-fail-fast --test a"),
            ),
            (
                "cd app && python3 -m unittest",
                Unittest,
                "app/tests/test_a.py",
                Some("cd app && python3 -m unittest tests.test_a"),
            ),
            ("cd app && python3 -m unittest", Unittest, "tests/test_a.py", None),
        ] {
            assert_eq!(narrow(line, runner, &[host]).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_line_is_narrowed_where_it_starts_the_runner_itself() {
        use Runner::{CargoTest, Jest, Nextest, Pytest, Unittest};
        for (line, runner, host, expected) in [
            ("make pytest", Pytest, "t/test_a.py", None),
            ("make test", CargoTest, "src/lib.rs", None),
            ("just test", CargoTest, "tests/a.rs", None),
            ("make run", Nextest, "tests/a.rs", None),
            ("make unittest", Unittest, "tests/test_a.py", None),
            ("npm run jest", Jest, "a.test.js", None),
            (
                "RUSTFLAGS=-Awarnings timeout 60 cargo +nightly test",
                CargoTest,
                "tests/a.rs",
                Some("RUSTFLAGS=-Awarnings timeout 60 cargo +nightly test --no-fail-fast --test a"),
            ),
            ("uv run pytest -q", Pytest, "t/test_a.py", Some("uv run pytest -q t/test_a.py")),
        ] {
            assert_eq!(narrow(line, runner, &[host]).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_whole_line_of_cargo_goes_on_behind_a_failing_program() {
        for (line, expected) in [
            ("cargo test -q a", Some("cargo test -q a --no-fail-fast")),
            ("cargo test -- --nocapture", None),
            ("cargo test --no-fail-fast", None),
            ("make test", None),
            ("cargo test | tail", None),
        ] {
            assert_eq!(going_on(line, Runner::CargoTest).as_deref(), expected, "{line}");
        }
        assert_eq!(going_on("pytest", Runner::Pytest), None);
        for (line, expected) in [
            ("python3 -m unittest -f -q tests.test_a", Some("python3 -m unittest -q tests.test_a")),
            ("python3 -m unittest --failfast", Some("python3 -m unittest")),
            ("python3 -m unittest -q", None),
            ("python3 -m unittest -f | tail", None),
        ] {
            assert_eq!(going_on(line, Runner::Unittest).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn runners_that_take_classes_and_specs_are_narrowed_too() {
        use Runner::{Maven, Phpunit, Rspec};
        for (line, runner, host, expected) in [
            (
                "bundle exec rspec",
                Rspec,
                "spec/a_spec.rb",
                Some("bundle exec rspec spec/a_spec.rb"),
            ),
            ("rspec spec/b_spec.rb", Rspec, "spec/a_spec.rb", None),
            (
                "vendor/bin/phpunit",
                Phpunit,
                "tests/ATest.php",
                Some("vendor/bin/phpunit tests/ATest.php"),
            ),
            (
                "mvn -q test",
                Maven,
                "src/test/java/a/ATest.java",
                Some(
                    "mvn -q test -Dtest=ATest -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false",
                ),
            ),
            ("mvn -Dtest=B test", Maven, "src/test/java/a/ATest.java", None),
        ] {
            assert_eq!(narrow(line, runner, &[host]).as_deref(), expected, "{line}");
        }
    }
}
