//! The outputs are those of real runners.

use super::*;
use std::collections::BTreeMap;

struct Files(BTreeMap<&'static str, &'static str>);

impl Project for Files {
    fn read(&self, path: &str) -> Option<String> {
        self.0.get(path).map(ToString::to_string)
    }

    fn all(&self, name: &str) -> Vec<(String, String)> {
        let files = self.0.iter().filter(|(path, _)| path.rsplit('/').next() == Some(name));
        files.map(|(path, text)| (path.to_string(), text.to_string())).collect()
    }
}

const MAKEFILE: &str = "PY ?= python3\nRUN = $(PY) -m\n.PHONY: test all\nall: build\ntest: build unit | js\n\t@echo done\n\
unit:\n\t@$(RUN) pytest -q \\\n\t\ttests\njs: ; node --test\nbuild:\n\tcc -o a a.c\n\
deep:\n\t$(MAKE) -C sub test\nguarded:\n\t@if [ -d tests ]; then pytest; fi\nquiet:\n\tpytest > log.txt\n\
owned: t/jest venv/bin/pytest\n\tt/jest\n\tvenv/bin/pytest\nt/jest:\n\tcc -o t/jest t.c\nvenv/bin/pytest:\n\tpip install pytest\n";
const PACKAGE: &str =
    r#"{"scripts":{"test":"npm run unit && eslint .","unit":"jest --ci","posttest":"mocha"}}"#;
const JUSTFILE: &str = "set shell := [\"bash\", \"-c\"]\n\ndefault: check\n\ncheck: fmt (unit \"x\")\n\nfmt:\n    cargo fmt --check\n\n@unit arg=\"a\":\n    cargo nextest run\n";

fn files() -> Files {
    Files(BTreeMap::from([
        ("Makefile", MAKEFILE),
        ("sub/Makefile", "test:\n\tctest --output-on-failure\n"),
        ("package.json", PACKAGE),
        ("justfile", JUSTFILE),
        ("own/Cargo.toml", "[[test]]\nname = \"ui\"\nharness = false\n"),
        ("packages/a/package.json", r#"{"name":"@x/a","scripts":{"test":"node --test"}}"#),
        ("packages/b/package.json", r#"{"name":"@x/b","scripts":{"test":"vitest run"}}"#),
        ("all.mk", "-include build/none.mk build/tests.mk\n"),
        ("build/tests.mk", "test:\n\tgo test ./...\n"),
        ("loud/pytest.ini", "[pytest]\n# addopts = -qq\n"),
        ("sub/test_a.py", "import unittest\nunittest.main()\n"),
        ("ci.sh", "set -e\nif [ -d sub ]; then\n  pytest -q\nfi\n"),
        ("ci/all.sh", "D=$(dirname \"$0\")\n. \"$D/lib.sh\"\ncd \"$D/../sub\"\nsh check.sh\n"),
        ("ci/lib.sh", "python3 ci/own.py\n"),
    ]))
}

fn named(line: &str) -> String {
    let runs = test_runs(line, &files());
    let names = runs.iter().map(|run| {
        let silent = if run.may_be_silent { "?" } else { "" };
        format!("{}{silent}", run.name())
    });
    names.collect::<Vec<_>>().join("; ")
}

#[test]
fn a_runner_whose_output_goes_elsewhere_may_be_silent() {
    for (line, expected) in [
        ("out=$(pytest) && echo $out", "pytest?"),
        ("(cd sub; pytest) > log", "pytest?"),
        ("{ pytest; } 2> log", "pytest?"),
        ("out=`pytest`", "pytest?"),
        ("[ \"$(pytest 2>&1 | tail -n 1)\" = OK ]", "pytest?"),
        ("out=\"$(cd sub && pytest \"a b\")\" && echo \"$out\"", "pytest?"),
        ("echo \"`pytest`\" | grep -q ok", "pytest?"),
        ("echo '$(pytest)' \"$((1 + 2))\"", ""),
        ("exec > log 2>&1; pytest", "pytest?"),
        ("(pytest); true > log", "pytest"),
    ] {
        assert_eq!(named(line), expected, "{line}");
    }
}

#[test]
fn a_line_starts_runners_directly_and_by_recipes() {
    for (line, expected) in [
        ("cargo test -p x filter", "cargo test?"),
        ("RUST_LOG=x cargo +nightly --config a t --workspace", "cargo test?"),
        ("cargo nextest run --all", "cargo nextest"),
        ("cargo build", ""),
        ("cargo test --no-run", ""),
        ("cargo nextest list", ""),
        ("pytest -q tests/test_a.py", "pytest"),
        ("pytest -qq", "pytest?"),
        ("python3 -m pytest", "pytest"),
        ("python3.11 -W error -m unittest discover -s tests", "unittest"),
        ("python3 app.py pytest", ""),
        ("python3 sub/test_a.py", "unittest?"),
        ("cd sub && timeout 5 python3 -B test_a.py", "unittest?"),
        ("coverage run -m pytest && coverage report", "pytest"),
        ("python3 -m sub.test_a", "unittest?"),
        ("cd sub && coverage run -m test_a", "unittest?"),
        ("python3 -m mypy .", ""),
        ("./t/unittest && node sub/none", ""),
        ("make owned", "pytest"),
        ("uv run --with x pytest", "pytest"),
        ("env A=1 timeout 60 nice -n 5 go test ./...", "go test"),
        ("go test -list .", ""),
        ("go vet ./...", ""),
        ("npx --no-install jest", "jest"),
        ("./node_modules/.bin/vitest run", "vitest"),
        ("yarn mocha -R json", "mocha?"),
        ("node --test", "node --test"),
        ("node app.js", ""),
        ("ctest -N", ""),
        ("./mvnw -q test", "mvn?"),
        ("./gradlew :app:test", "gradle?"),
        ("dotnet test", "dotnet test?"),
        ("bundle exec rspec spec/a_spec.rb", "rspec"),
        ("vendor/bin/phpunit", "phpunit"),
        ("grep -q 'cargo test' README.md", ""),
        ("echo cargo test", ""),
        ("cd sub && pytest", "pytest"),
        ("cargo test && pytest && cargo test --doc", "cargo test?; pytest"),
        ("pytest || true", "pytest"),
        ("true || pytest", "pytest?"),
        ("[ -d t ] && pytest", "pytest?"),
        ("pytest 2>&1 | tail -1", "pytest?"),
        ("pytest > log", "pytest?"),
        ("pytest 2>&1", "pytest"),
        ("sh -c 'pytest -q'", "pytest"),
        ("make test", "pytest, node --test"),
        ("make -j 4 unit", "pytest"),
        ("make", ""),
        ("make deep", "ctest"),
        ("make -C sub test", "ctest"),
        ("make guarded", "pytest?"),
        ("make quiet", "pytest?"),
        ("make none", ""),
        ("npm test", "jest, mocha"),
        ("npm run unit -- --watch=false", "jest"),
        ("npm test -w packages/a", "node --test"),
        ("npm run test --workspace=@x/b", "vitest"),
        ("npm test -w packages", "node --test, vitest"),
        ("npm test --workspaces", "node --test, vitest"),
        ("cd packages && npm test -w a", "node --test"),
        ("pnpm -r test", "node --test, vitest"),
        ("pnpm --filter @x/b test", "vitest"),
        ("pnpm --filter './packages/*' test", "node --test, vitest"),
        ("yarn workspace @x/b run test", "vitest"),
        ("yarn workspaces foreach -A run test", "node --test, vitest"),
        ("(cd sub && pytest) && (cd packages/a && npm test)", "pytest; node --test"),
        ("pushd sub && ctest && popd && npm run unit", "ctest; jest"),
        ("make -f all.mk", "go test"),
        ("just", "cargo nextest"),
        ("just unit", "cargo nextest"),
    ] {
        assert_eq!(named(line), expected, "{line}");
    }
}

#[test]
fn a_runner_is_found_whatever_starts_it() {
    for (line, expected) in [
        ("python3 -munittest", "unittest"),
        ("python3 -Bm unittest", "unittest"),
        ("python3 -m trace --count --module unittest", "unittest"),
        ("python3 -m cProfile app.py", ""),
        ("coverage run --context x -m unittest discover", "unittest"),
        ("python3 -m coverage run --data-file /tmp/c -m unittest", "unittest"),
        ("PY=python3; $PY -m unittest", "unittest"),
        ("$(which python3) -m unittest", "unittest"),
        ("$PY -m http.server", ""),
        ("echo a | xargs -n 1 python3 -m pytest", "pytest"),
        ("find . -name 'test_*.py' -exec python3 -m pytest {} +", "pytest"),
        ("find . -name '*.pyc' -delete", ""),
        ("env -S 'python3 -m unittest'", "unittest"),
        ("script -qec 'pytest -q' /dev/null", "pytest"),
        ("python3 -c 'import pytest; pytest.main()'", "pytest?"),
        ("python3 -c 'print(1)'", ""),
    ] {
        assert_eq!(named(line), expected, "{line}");
    }
}

#[test]
fn a_makefile_may_compute_what_it_starts() {
    for (text, line, expected) in [
        ("PY := $(shell which python3)\ntest:\n\t$(PY) -m unittest\n", "make test", "unittest"),
        ("PY := $(or $(P),python3)\ntest:\n\t$(PY) -m unittest\n", "make test", "unittest"),
        (
            "define RUN\n@python3 -m unittest $(1)\nendef\ntest:\n\t$(call RUN,a)\n",
            "make",
            "unittest",
        ),
        ("test: $(addprefix run-,a b)\nrun-%:\n\tpython3 -m unittest $*\n", "make", "unittest"),
        ("T = a b\n$(T): %: %.py\n\tpytest $<\ntest: $(T:%=%)\n", "make test", "pytest"),
        (".DEFAULT_GOAL := all\nhelp:\n\techo\nall: test\ntest:\n\tpytest\n", "make", "pytest"),
        ("FLAGS = -q\nFLAGS += -x\ntest:\n\tpytest $(FLAGS)\n", "make", "pytest"),
        ("%: %.c\n\tcc -o $@ $<\ntest: a\n\t./a\n", "make test", ""),
    ] {
        let files = Files(BTreeMap::from([("Makefile", text)]));
        let runs = test_runs(line, &files);
        let names: Vec<String> = runs.iter().map(TestRun::name).collect();
        assert_eq!(names.join("; "), expected, "{text}");
    }
    let text = "T = $(wildcard t/*.py)\ntest: $(T:.py=.ok)\n%.ok: %.py\n\tpython3 $<\n";
    let files = Files(BTreeMap::from([("Makefile", text)]));
    let found = recipes_of("make test", &files);
    assert_eq!(found.commands, [(String::new(), "'python3' 't/*.py'".to_owned())]);
    assert!(found.implicit.is_empty() && !found.is_hidden);
    let files = Files(BTreeMap::from([("Makefile", "include $(wildcard mk/*.mk)\n")]));
    assert!(recipes_of("make test", &files).is_hidden);
}

#[test]
fn a_recipe_that_needs_itself_and_a_line_without_end_are_read_once() {
    let text = "a: b\n\tpytest\nb: a\n\tmake a\n";
    let files = Files(BTreeMap::from([("Makefile", text)]));
    assert_eq!(test_runs("make a", &files).len(), 1);
    let long = "pytest && ".repeat(100_000);
    assert!(test_runs(&long, &files).is_empty());
    for line in ["'", "\"\\", "a >", "((((", "&&", "|| &", "\\", "$(", "sh -c"] {
        assert!(test_runs(line, &files).is_empty(), "{line}");
    }
}

#[test]
fn a_recipe_that_runs_one_program_comes_to_its_line() {
    for (line, expected) in [
        ("make unit", Some("python3 -m pytest -q  \t\ttests")),
        ("make test", None),
        ("make deep", None),
        ("make -C sub test", None),
        ("make unit PY=true", None),
        ("npm run unit", Some("npx --no-install jest --ci")),
        ("npm test", None),
        ("npm run unit -- --watch=false", None),
        ("just unit", Some("cargo nextest run")),
        ("just", None),
        ("python3 -m unittest", Some("python3 -m unittest")),
        ("pytest | tail -1", None),
        ("pytest && true", None),
    ] {
        assert_eq!(only_command(line, &files()).as_deref(), expected, "{line}");
    }
}

#[test]
fn a_recipe_says_what_its_rule_needs() {
    let text = "test: test_sum\n\t./$<\ntest_sum: test_sum.c sum.c\n\tcc -o $@ $^ $$HOME\n";
    let files = Files(BTreeMap::from([("Makefile", text)]));
    let commands: Vec<_> =
        recipes_of("make test", &files).commands.into_iter().map(|(_, command)| command).collect();
    assert_eq!(commands, ["'cc' '-o' 'test_sum' 'test_sum.c' 'sum.c' '$HOME'", "'./test_sum'"]);
    let started = test_runs("cd sub && python3 test_a.py", &self::files());
    let found: Vec<_> = started.iter().flat_map(|run| &run.started).collect();
    assert_eq!(found, [&Started { runner: Runner::Unittest, path: "sub/test_a.py".to_owned() }]);
}

#[test]
fn a_recipe_has_targets_that_files_may_stand_for() {
    let text = ".PHONY: sum all\nall: sum made run notes.txt out.x\nsum:\n\t./sum\nmade:\n\tsh make.sh\n%.x: %.y\n\tcp $< $@\n";
    let files = Files(BTreeMap::from([("Makefile", text)]));
    let found = recipes_of("make all", &files);
    assert_eq!(found.targets, ["made".to_owned()].into());
    assert_eq!(found.implicit, ["out.x".to_owned()].into());
    assert_eq!(found.by_own_rules, ["run".to_owned()].into());
    let lacking = |line| recipes_of(line, &files).is_lacking;
    assert!(lacking("make new") && lacking("npm run x") && !lacking("make all"));
}

#[test]
fn a_recipe_that_cannot_be_seen_is_not_lacking() {
    for (line, file, text, expected) in [
        ("make new", "Makefile", "test:\n\tsh a.sh\n", true),
        ("make new", "Makefile", "-include $(OBJS:.o=.d)\ntest:\n\tsh a.sh\n", true),
        ("make new", "Makefile", "include $(wildcard mk/*.mk)\ntest:\n\tsh a.sh\n", false),
        ("make new", "Makefile", "include $(TOP)/rules.mk\n", false),
        ("make new", "Makefile", "test:\n\tsh a.sh\n$(eval $(call rule,new))\n", false),
        ("make new", "Makefile", ".SUFFIXES: .py\n.py:\n\tcp $< $@\n", false),
        ("make new", "Makefile", "VPATH = src\ntest:\n\tsh a.sh\n", true),
        ("just new", "justfile", "test:\n  sh a.sh\n", true),
        ("just new", "justfile", "alias new := test\ntest:\n  sh a.sh\n", false),
        ("just new", "justfile", "import 'more.just'\n", false),
    ] {
        let found = recipes_of(line, &Files(BTreeMap::from([(file, text)])));
        assert_eq!(found.is_lacking, expected, "{line} {text}");
        let is_sought = file == "Makefile" && expected && !text.contains("VPATH");
        assert_eq!(found.by_own_rules.contains("new"), is_sought, "{line} {text}");
    }
}

fn counted(runner: Runner, output: &str) -> Option<(u64, u64, u64, u64)> {
    let run = TestRun { runners: vec![runner], may_be_silent: true, ..TestRun::default() };
    count(&run, output.as_bytes()).map(|it| (it.ran, it.failed, it.skipped, it.missing))
}

#[test]
fn a_script_starts_others_from_its_own_folder_and_from_where_it_went() {
    let commands = recipes_of("sh ci/all.sh", &files()).commands;
    for (folder, command) in
        [("", "'.' 'ci/lib.sh'"), ("", "'python3' 'ci/own.py'"), ("sub/", "'sh' 'check.sh'")]
    {
        let one = (folder.to_owned(), command.to_owned());
        assert!(commands.contains(&one), "{one:?} in {commands:?}");
    }
}

#[test]
fn a_runner_in_a_script_of_a_shell_is_found_and_not_counted() {
    for (line, expected) in [
        ("sh ci.sh", vec![("pytest", true)]),
        ("sh ci.sh && pytest", vec![("pytest", true), ("pytest", false)]),
        ("sh -c pytest", vec![("pytest", false)]),
    ] {
        let runs = test_runs(line, &files());
        let found: Vec<_> = runs.iter().map(|run| (run.name(), run.in_scripts)).collect();
        let expected: Vec<_> = expected.iter().map(|(name, it)| (name.to_string(), *it)).collect();
        assert_eq!(found, expected, "{line}");
    }
}

#[test]
fn the_summary_of_each_runner_of_rust_and_python_is_read() {
    use Runner::*;
    let cargo = "running 4 tests\ntest tests::one ... ok\n\ntest result: ok. 2 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.23s\n\n";
    let filtered = "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.00s\n";
    let cut = format!("{cargo}running 3 tests\n");
    let failed = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
    for (runner, output, expected) in [
        (CargoTest, cargo, Some((2, 0, 2, 0))),
        (CargoTest, &cargo.repeat(2), Some((4, 0, 4, 0))),
        (CargoTest, filtered, Some((0, 0, 0, 0))),
        (CargoTest, &cut, Some((2, 0, 2, 3))),
        (CargoTest, "running 3 tests\n", Some((0, 0, 0, 3))),
        (CargoTest, failed, Some((3, 2, 0, 0))),
        (CargoTest, "    Finished `test` profile\n", None),
        (
            Nextest,
            "     Summary [   0.147s] 3 tests run: 3 passed (1 slow), 2 skipped\n",
            Some((3, 0, 2, 0)),
        ),
        (
            Nextest,
            "     Summary [   0.147s] 3/5 tests run: 2 passed, 1 failed, 0 skipped\n",
            Some((3, 1, 0, 2)),
        ),
        (
            Nextest,
            "     Summary [   0.000s] 0 tests run: 0 passed, 5 skipped\n",
            Some((0, 0, 5, 0)),
        ),
        (
            Pytest,
            "collected 2 items\n\ntest_a.py .s   [100%]\n\n========================= 1 passed, 1 skipped in 0.01s =========================\n",
            Some((1, 0, 1, 0)),
        ),
        (
            Pytest,
            "collected 5 items / 2 deselected / 3 selected\n=== 1 passed, 2 xfailed, 2 deselected, 1 warning in 61.20s (0:01:01) ===\n",
            Some((3, 0, 0, 0)),
        ),
        (Pytest, "1 passed, 1 skipped in 0.00s\n", Some((1, 0, 1, 0))),
        (
            Pytest,
            "collecting ... collected 5 items\n!!! _pytest.outcomes.Exit: bye !!!\n=== 1 passed in 0.01s ===\n",
            Some((1, 0, 0, 4)),
        ),
        (Pytest, "collected 3 items\n", Some((0, 0, 0, 3))),
        (Pytest, "no tests ran in 0.01s\n", Some((0, 0, 0, 0))),
        (Pytest, ".s   [100%]\n", Some((1, 0, 1, 0))),
        (Pytest, "....  [ 80%]\nx     [100%]\n", Some((5, 0, 0, 0))),
        (Pytest, "..F.  [ 80%]\n.     [100%]\n", None),
        (Pytest, "....  [ 80%]\n", None),
        (Pytest, "saved [100%]\n", None),
        (Unittest, "----\nRan 2 tests in 0.000s\n\nOK (skipped=1)\n", Some((1, 0, 1, 0))),
        (Unittest, "Ran 3 tests in 0.1s\n\nFAILED (failures=1, errors=1)\n", Some((3, 2, 0, 0))),
        (Unittest, "\n----\nRan 0 tests in 0.000s\n\nOK\n", Some((0, 0, 0, 0))),
        (
            NodeTest,
            "1..4\n# tests 4\n# suites 1\n# pass 2\n# fail 0\n# cancelled 0\n# skipped 1\n# todo 1\n# duration_ms 145.7\n",
            Some((3, 0, 1, 0)),
        ),
        (
            NodeTest,
            "\u{2139} tests 1\n\u{2139} suites 0\n\u{2139} pass 0\n\u{2139} fail 1\n\u{2139} cancelled 0\n\u{2139} skipped 0\n\u{2139} todo 0\n\u{2139} duration_ms 1\n",
            Some((1, 1, 0, 0)),
        ),
        (NodeTest, "# tests 5\nok\n", None),
    ] {
        assert_eq!(counted(runner, output), expected, "{runner:?} {output}");
    }
}

#[test]
fn the_summary_of_each_runner_of_javascript_and_others_is_read() {
    use Runner::*;
    for (runner, output, expected) in [
        (
            Jest,
            "Test Suites: 1 passed, 1 total\nTests:       1 skipped, 1 passed, 2 total\n",
            Some((1, 0, 1, 0)),
        ),
        (Jest, "Tests:       2 skipped, 2 total\n", Some((0, 0, 2, 0))),
        (Jest, "No tests found, exiting with code 0\n", Some((0, 0, 0, 0))),
        (
            Vitest,
            "\u{1b}[2m      Tests \u{1b}[22m \u{1b}[1m\u{1b}[32m1 passed\u{1b}[39m\u{1b}[22m\u{1b}[2m | \u{1b}[22m\u{1b}[33m1 skipped\u{1b}[39m\u{1b}[90m (2)\u{1b}[39m\n",
            Some((1, 0, 1, 0)),
        ),
        (Vitest, "      Tests  2 skipped (2)\n", Some((0, 0, 2, 0))),
        (Vitest, "\nNo test files found, exiting with code 0\n", Some((0, 0, 0, 0))),
        (Mocha, "\n\n  1 passing (2ms)\n  1 pending\n\n", Some((1, 0, 1, 0))),
        (Mocha, "  0 passing (1ms)\n  2 failing\n", Some((2, 2, 0, 0))),
        (
            GoTest,
            "ok  \texample.com/a\t0.003s\n?   \texample.com/b\t[no test files]\nok  \texample.com/c\t(cached)\n",
            Some((2, 0, 0, 0)),
        ),
        (GoTest, "ok  \texample.com/a\t0.003s [no tests to run]\n", Some((0, 0, 0, 0))),
        (
            GoTest,
            "=== RUN   TestA\n--- PASS: TestA (0.00s)\n--- SKIP: TestB (0.00s)\nPASS\nok  \ta\t0.01s\n",
            Some((1, 0, 1, 0)),
        ),
        (GoTest, "okay\n", None),
        (
            Ctest,
            "100% tests passed, 0 tests failed out of 3\n\nThe following tests did not run:\n\t  3 - c (Skipped)\n",
            Some((2, 0, 1, 0)),
        ),
        (Ctest, "No tests were found!!!\n", Some((0, 0, 0, 0))),
        (
            Maven,
            "[INFO] Tests run: 1, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.05 s -- in A\n[INFO] Results:\n[INFO] \n[INFO] Tests run: 4, Failures: 0, Errors: 0, Skipped: 1\n",
            Some((3, 0, 1, 0)),
        ),
        (Maven, "[INFO] No tests to run.\n", Some((0, 0, 0, 0))),
        (Gradle, "> Task :compileJava\n> Task :test NO-SOURCE\n", Some((0, 0, 0, 0))),
        (Gradle, "> Task :a:test NO-SOURCE\n> Task :b:test\n", None),
        (
            DotnetTest,
            "Passed!  - Failed:     0, Passed:     3, Skipped:     1, Total:     4, Duration: 5 ms - a.dll (net8.0)\n",
            Some((3, 0, 1, 0)),
        ),
        (Rspec, "Finished in 0.01 seconds\n5 examples, 1 failure, 2 pending\n", Some((3, 1, 2, 0))),
        (Rspec, "0 examples, 0 failures\n", Some((0, 0, 0, 0))),
        (Phpunit, "OK (3 tests, 5 assertions)\n", Some((3, 0, 0, 0))),
        (Phpunit, "Tests: 5, Assertions: 4, Failures: 1, Skipped: 1.\n", Some((4, 1, 1, 0))),
        (Phpunit, "No tests executed!\n", Some((0, 0, 0, 0))),
    ] {
        assert_eq!(counted(runner, output), expected, "{runner:?} {output}");
    }
}

#[test]
fn no_test_of_the_library_says_nothing_of_programs_with_a_main_of_their_own() {
    let output = b"running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
    let runs = test_runs("cargo test", &files());
    assert_eq!(count(&runs[0], output), None);
    let plain = TestRun { runners: vec![Runner::CargoTest], ..TestRun::default() };
    assert_eq!(count(&plain, output), Some(Counts::default()));
}

#[test]
fn a_runner_is_known_by_its_name_and_by_what_it_is_asked_for() {
    for (line, expected) in [
        ("mvn -B -V clean verify", "mvn?"),
        ("mvn package", "mvn?"),
        ("mvn compile", ""),
        ("mvn org.apache.maven.plugins:maven-failsafe-plugin:verify", "mvn?"),
        ("mvn -DskipTests test", ""),
        ("mvn --help test", ""),
        ("gradle build", "gradle?"),
        ("gradle :app:testDebugUnitTest", "gradle?"),
        ("gradle build -x test", ""),
        ("gradle assemble", ""),
        ("ctest -V -R sum", "ctest"),
        ("ctest --show-only", ""),
        ("pytest-3 -q", "pytest"),
        ("pytest --co", ""),
        ("pytest-watch", ""),
        ("go -C sub test ./...", "go test"),
        ("dotnet test -t", ""),
    ] {
        assert_eq!(named(line), expected, "{line}");
    }
}

#[test]
fn a_build_that_comes_to_its_tests_on_the_way_may_have_none() {
    let project = files();
    for (line, output, expected) in [
        ("mvn test", "[INFO] No tests to run.\n", Some(0)),
        ("mvn verify", "[INFO] No tests to run.\n", None),
        ("mvn verify", "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 1\n", Some(1)),
        ("mvn clean test package", "[INFO] No tests to run.\n", Some(0)),
        ("gradle test", "> Task :test NO-SOURCE\n", Some(0)),
        ("gradle build", "> Task :test NO-SOURCE\n", None),
    ] {
        let runs = test_runs(line, &project);
        let counts = count(&runs[0], output.as_bytes());
        assert_eq!(counts.map(|counts| counts.ran), expected, "{line}");
    }
}

#[test]
fn without_a_summary_no_test_ran_unless_the_line_may_be_silent() {
    let run = |may_be_silent| TestRun {
        runners: vec![Runner::Pytest, Runner::NodeTest],
        may_be_silent,
        ..TestRun::default()
    };
    assert_eq!(count(&run(false), b"."), Some(Counts::default()));
    assert_eq!(count(&run(true), b"."), None);
    let one = Counts { ran: 1, ..Counts::default() };
    assert_eq!(count(&run(true), b"1 passed in 0.01s\n"), Some(one));
    assert_eq!(count(&run(false), b"1 passed in 0.01s\n"), Some(one));
    // One of several recipes ran nothing, and another one may have been silent.
    assert_eq!(count(&run(true), b"no tests ran in 0.01s\n"), None);
}
