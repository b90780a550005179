//! The outputs are those of real runners.

use super::*;
use crate::domain::tests_seen::Runner;
use Runner::*;

const PYTHON: &str = "class A(unittest.TestCase):\n    def test_mean(self):\n        pass\n    async def test_slow(self):\n        pass\n    def helper(self):\n        pass\n";

#[test]
fn a_test_that_the_files_spell_and_that_no_longer_runs_is_missing() {
    let unittest = |mean: &str, slow: &str| {
        format!(
            "test_mean (tests.test_a.A.test_mean) ... {mean}\ntest_slow (tests.test_a.A.test_slow)\n\
             Takes long. ... {slow}\ntest_made_1 (tests.test_a.A.test_made_1) ... ok\n"
        )
    };
    let literals = literals("tests/test_a.py", PYTHON);
    assert_eq!(literals.count(), 2);
    for (before, later, missing) in [
        (unittest("FAIL", "ok"), unittest("ok", "ok"), vec![]),
        (unittest("FAIL", "ok"), unittest("ok", "skipped 'no'"), vec!["tests.test_a.A.test_slow"]),
        (unittest("FAIL", "skipped 'no'"), unittest("ok", "skipped 'no'"), vec![]),
        (unittest("FAIL", "skipped 'no'"), unittest("ok", "ok"), vec![]),
        // What is made at run time is not spelled.
        (unittest("ok", "ok"), unittest("ok", "ok").replace("test_made_1", "test_made_2"), vec![]),
        // The class moved.
        (
            unittest("ok", "ok"),
            unittest("ok", "ok").replace("tests.test_a.A", "tests.test_b.B"),
            vec![],
        ),
        (
            unittest("ok", "ok"),
            "tests.test_a (unittest.loader.ModuleSkipped.tests.test_a) ... skipped 'x'\n"
                .to_owned(),
            vec!["tests.test_a.A.test_mean", "tests.test_a.A.test_slow"],
        ),
    ] {
        let [start, now] = [&before, &later].map(|text| names(&[Unittest], text.as_bytes()));
        assert_eq!(start.gone(&now, &literals), missing, "{before}\n{later}");
        assert_eq!(
            now.lack(&literals),
            !missing.is_empty() || later.contains("skipped"),
            "{later}"
        );
    }
}

#[test]
fn the_same_name_in_several_files_counts_as_often_as_the_files_spell_it() {
    let text = "#[test]\nfn works() {}\n";
    let mut two = literals("tests/a.rs", text);
    two.extend(literals("tests/b.rs", text));
    let of = |lines: &str| names(&[CargoTest], lines.as_bytes());
    let both = of("test a::works ... ok\ntest b::works ... FAILED\n");
    assert_eq!(both.gone(&of("test a::works ... ok\n"), &two), ["b::works"]);
    assert_eq!(both.gone(&of("test a::works ... ok\n"), &literals("tests/a.rs", text)), [""; 0]);
    let same = of("test works ... ok\ntest works ... ok\n");
    assert_eq!(same.gone(&of("test works ... ok\n"), &two), ["works"]);
    let gone = literals("src/a.rs", text).within(&literals("src/a.rs", ""));
    assert!(gone.is_empty());
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn each_runner_names_its_tests() {
    for (runner, path, text, output, expected) in [
        (
            CargoTest,
            "tests/a.rs",
            "#[test]\n#[should_panic]\nfn adds() {}\nfn helper() {}\n#[tokio::test]\nasync fn waits() {}\n#[test]\n#[ignore]\npub fn later() {}\n",
            "running 3 tests\ntest adds - should panic ... ok\ntest later ... ignored, slow\ntest src/lib.rs - add (line 3) ... ok\n",
            vec!["waits"],
        ),
        (
            Nextest,
            "tests/a.rs",
            "#[test] fn one() {}\n#[test]\nfn two() {}\n",
            "        PASS [   0.005s] (1/2) p::a one\n        FAIL [   0.005s] (2/2) p::a two\n     Summary [   0.1s] 2 tests run\n",
            vec![],
        ),
        (
            Pytest,
            "tests/test_a.py",
            "def test_a():\n  pass\n@pytest.mark.parametrize('x', [1])\ndef test_b(x):\n  pass\ndef test_c():\n  pass\n",
            "tests/test_a.py::test_a PASSED [ 50%]\nPASSED tests/test_a.py::test_b[1]\nSKIPPED [1] tests/test_a.py:9: no\n",
            vec!["tests/test_a.py::test_c"],
        ),
        (
            GoTest,
            "a_test.go",
            "func TestA(t *testing.T) {\nfunc TestB(t *testing.T) {\n",
            "=== RUN   TestA\n    --- PASS: TestA/sub (0.00s)\n--- PASS: TestA (0.00s)\n--- SKIP: TestB (0.00s)\n",
            vec!["TestB"],
        ),
        (
            NodeTest,
            "a.test.js",
            "test('adds', () => {}); it(\"inner\"); test.skip('off'); test(`made ${x}`); fit('x'); test('gone');",
            "ok 1 - adds\n    not ok 1 - inner\nok 2 - off # SKIP\n",
            vec!["gone"],
        ),
        (
            NodeTest,
            "a.test.js",
            "test('adds', f); test('is marked', f); test('is shown', f)",
            "ok 1 - adds # TODO\nnot ok 2 - is marked # TODO why\n\u{2716} is shown (1.6ms) # TODO\n",
            vec!["is marked", "is shown"],
        ),
        (NodeTest, "a.test.js", "test('adds', f)", "\u{2714} adds (1.264263ms)\n", vec![]),
        (Jest, "a.test.js", "it('adds', f)", "  \u{2715} adds (2 ms)\n", vec![]),
        (Vitest, "a.test.js", "it('adds', f)", " \u{2713} test/a.test.js > s > adds 5ms\n", vec![]),
        (Mocha, "a.test.js", "it('adds'); it('ends')", "    \u{2714} adds\n    1) ends\n", vec![]),
        (
            Maven,
            "src/test/java/ATest.java",
            "class ATest {}",
            "[INFO] Tests run: 1, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.05 s -- in com.ATest\n",
            vec![],
        ),
        (
            Gradle,
            "src/test/java/ATest.java",
            "class ATest {}",
            "com.ATest > adds() PASSED\n\ncom.ATest > later() SKIPPED\n",
            vec![],
        ),
        (
            DotnetTest,
            "ATests.cs",
            "  [Fact]\n  public void Adds()\n  {\n  [Theory]\n  [InlineData(1)]\n  public async Task Waits(int n)\n  private void Helper()\n",
            "  Passed Example.ATests.Adds [5 ms]\n  Skipped Example.ATests.Waits [1 ms]\n",
            vec!["Waits"],
        ),
        (
            Rspec,
            "spec/a_spec.rb",
            "describe A do\n  it 'adds' do\n  end\n  it \"ends\" do\n  end\n  xit 'off' do\n  end\nend\n",
            "A\n  adds (FAILED - 1)\n  ends (PENDING: No reason given)\n",
            vec!["ends"],
        ),
        (
            Phpunit,
            "tests/ATest.php",
            "  public function testAdds(): void {\n  public function testLater() {\n  private function helper() {\n",
            "##teamcity[testStarted name='testAdds' locationHint='php_qn:///tests/ATest.php::\\ATest::testAdds' flowId='1']\n##teamcity[testFinished name='testAdds' duration='1' flowId='1']\n##teamcity[testStarted name='testLater' flowId='1']\n##teamcity[testIgnored name='testLater' message='no' flowId='1']\n",
            vec!["testLater"],
        ),
        (
            Ctest,
            "CMakeLists.txt",
            "enable_testing()\n# add_test(NAME old COMMAND t)\nadd_test(NAME adds COMMAND t 1)\nADD_TEST (\n  ends t)\n\
             add_test(NAME off COMMAND t)\nadd_test(NAME ${made} COMMAND t)\n",
            "    Start 1: adds\n1/3 Test #1: adds .............................   Passed    0.00 sec\n\
             2/3 Test #2: ends .............................***Failed    0.00 sec\n\
             3/3 Test #3: off ..............................***Not Run (Disabled)   0.00 sec\n",
            vec!["off"],
        ),
    ] {
        let literals = literals(path, text);
        let found = names(&[runner], output.as_bytes());
        assert!(!found.is_empty(), "{runner:?}");
        assert_eq!(
            found.lack(&literals),
            !expected.is_empty(),
            "{runner:?} {found:?} {literals:?}"
        );
        // At the start all of them ran.
        for whole in expected {
            let name = whole.rsplit("::").next().unwrap();
            assert!(text.contains(name), "{whole}");
        }
    }
}

#[test]
fn a_line_about_a_file_and_the_number_of_its_tests_names_no_test() {
    for line in [
        " \u{2713} test/a.test.js (2 tests) 16ms",
        " \u{2713} test/a.test.js (1 test) 1ms",
        " \u{2713} src/b.spec.ts (3 tests | 1 skipped) 5ms",
    ] {
        assert!(names(&[Vitest], line.as_bytes()).is_empty(), "{line}");
    }
    for line in [" \u{2713} adds (2 tests)", " \u{2713} reads a.js (fast) 5ms"] {
        assert!(!names(&[Vitest], line.as_bytes()).is_empty(), "{line}");
    }
}

#[test]
fn a_line_is_made_to_name_its_tests_where_it_starts_one_runner() {
    let line = |line: &str, runner| naming(line, runner).map(|naming| naming.line);
    for (given, runner, expected) in [
        ("python3 -m unittest", Unittest, Some("python3 -m unittest -v")),
        ("python3 -m unittest -v", Unittest, Some("python3 -m unittest -v")),
        (
            "cd app && python3 -m unittest -k 'a b'",
            Unittest,
            Some("cd app && python3 -m unittest -k 'a b' -v"),
        ),
        ("python3 -m unittest | tail -1", Unittest, None),
        ("make test", Unittest, None),
        ("python3 -m unittest && echo done", Unittest, None),
        ("make test", NodeTest, Some("make test")),
        ("go test ./...", GoTest, Some("go test -v ./...")),
        (
            "cmake --build b && ctest --test-dir b",
            Ctest,
            Some("cmake --build b && ctest --test-dir b"),
        ),
        ("./gradlew test", Gradle, Some("./gradlew test --info")),
        ("bundle exec rspec spec/a_spec.rb", Rspec, Some("bundle exec rspec spec/a_spec.rb -fd")),
        ("vendor/bin/phpunit tests", Phpunit, Some("vendor/bin/phpunit tests --teamcity")),
        (
            "dotnet test App.Tests",
            DotnetTest,
            Some("dotnet test --logger 'console;verbosity=normal' App.Tests"),
        ),
    ] {
        let expected = expected.map(str::to_owned);
        assert_eq!(line(given, runner), expected, "{given}");
    }
    assert_eq!(naming("make test", Pytest).unwrap().environment, [("PYTEST_ADDOPTS", "-rA")]);
}

#[test]
fn the_files_that_a_line_names_are_those_that_count() {
    let file = |path: &str| (path.to_owned(), "def test_a():\n    pass\n".to_owned());
    let files = [file("tests/test_a.py"), file("tests/test_b.py")];
    let of = |line: &str| selected(line, &files).len();
    assert_eq!((of("pytest"), of("pytest tests/test_a.py")), (2, 1));
    assert_eq!(of("python3 -m unittest tests.test_b"), 1);
}

#[test]
fn a_test_that_is_skipped_and_was_not_known_before_is_named() {
    let of = |lines: &str| names(&[Unittest], lines.as_bytes());
    let literals = literals("tests/test_a.py", PYTHON);
    let start = of("test_a (unittest.loader._FailedTest.test_a) ... ERROR\n");
    let skipped = "test_mean (test_a.A.test_mean) ... skipped 'x'\n\
                   test_slow (test_a.A.test_slow) ... ok\ntest_made (test_a.A.test_made) ... skipped 'x'\n";
    assert_eq!(of(skipped).skipped_anew(&start, &literals), ["test_mean"]);
    let known = of("test_mean (test_a.A.test_mean) ... skipped 'x'\n");
    assert_eq!(of(skipped).skipped_anew(&known, &literals), [""; 0]);
    let ran = of("test_mean (test_a.A.test_mean) ... FAIL\n");
    assert_eq!(of(skipped).skipped_anew(&ran, &literals), [""; 0]);
}
