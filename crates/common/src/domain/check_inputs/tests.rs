//! Which files are check inputs, and what is put back and taken out.

mod added;

use super::*;
use crate::domain::manifest::{Content, Entry, FileDigest, Kind, Manifest, Place, Stamp};
use std::collections::BTreeSet;
use std::sync::Arc;

fn manifest(files: &[(&str, u8)]) -> Manifest {
    let entry = |(path, content): &(&str, u8)| Entry {
        path: path.as_bytes().into(),
        kind: Kind::File,
        mode: 0o644,
        size: 1,
        ignored: false,
        stamp: Stamp::default(),
        content: Content::File(FileDigest { blake3: [*content; 32], sha256: None }),
    };
    Manifest::new(Place::default(), Arc::default(), files.iter().map(entry).collect())
}

fn rules(protect: &[&str], may_change: &[&str]) -> InputRules {
    let texts = |globs: &[&str]| globs.iter().map(ToString::to_string).collect::<Vec<_>>();
    InputRules::new(&texts(protect), &texts(may_change)).unwrap()
}

#[test]
fn conventions_say_which_files_are_check_inputs() {
    use InputKind::{Configuration, Shadow, Test};
    for (path, expected) in [
        ("tests/data/in.json", Some(Test)),
        ("crates/a/tests/it.rs", Some(Test)),
        ("src/test/java/a/FooTest.java", Some(Test)),
        ("src/main/java/a/Contest.java", None),
        ("a/FooTest.java", Some(Test)),
        ("App.Tests/Unit.cs", Some(Test)),
        ("AppTests/Unit.swift", Some(Test)),
        ("test_calc.py", Some(Test)),
        ("calc_test.go", Some(Test)),
        ("src/calc.test.tsx", Some(Test)),
        ("src/latest.js", None),
        ("src/contest.py", None),
        ("spec/calc_spec.rb", Some(Test)),
        ("src/attest.rs", None),
        ("calc.py", None),
        ("README.md", None),
        ("docs/testing.md", None),
        ("Makefile", Some(Configuration)),
        ("build/rules.mk", Some(Configuration)),
        ("conftest.py", Some(Configuration)),
        ("pkg/conftest.py", Some(Configuration)),
        (".github/workflows/ci.yml", Some(Configuration)),
        (".cargo/config.toml", Some(Configuration)),
        ("jest.config.mjs", Some(Configuration)),
        ("Cargo.toml", None),
        ("package.json", None),
        ("unittest.py", Some(Shadow)),
        ("unittest/__init__.py", Some(Shadow)),
        ("lib/sitecustomize.py", Some(Shadow)),
        ("app/types.py", None),
        ("calendar.py", None),
        ("uuid.py", None),
        ("zoneinfo.py", Some(Shadow)),
        (".eslintrc.json", Some(Configuration)),
        ("features/steps/calc.py", Some(Test)),
        ("web/features/support/world.js", Some(Test)),
        ("features/calc.feature", Some(Test)),
        ("features/environment.py", Some(Test)),
        ("src/features/cart/cart.js", None),
        ("features/flags.py", None),
        ("t/lib/Help.pm", Some(Test)),
        ("t/data/in.txt", Some(Test)),
        ("lib/t/a.pm", None),
        ("behave.ini", Some(Configuration)),
        ("cucumber.mjs", Some(Configuration)),
        ("build.xml", Some(Configuration)),
        ("gulpfile.js", Some(Configuration)),
        ("tasks.py", None),
        ("Makefile.local", Some(Configuration)),
        ("Makefile.am", None),
        ("web/.prettierrc", Some(Configuration)),
        ("phpstan.neon", Some(Configuration)),
        (".coveragerc", Some(Configuration)),
        ("analysis_options.yaml", Some(Configuration)),
        (".gitattributes", Some(Configuration)),
        ("tsconfig.json", None),
        ("make", Some(Shadow)),
        ("web/node_modules/.bin/jest", Some(Shadow)),
        ("node_modules/.bin/tool", None),
        ("x.egg-info/entry_points.txt", Some(Shadow)),
        ("src/main/resources/META-INF/services/org.junit.platform.launcher.A", Some(Shadow)),
        ("src/main/resources/META-INF/services/com.example.A", None),
        ("vendor/unity.c", Some(Test)),
        (".bundle/config", Some(Configuration)),
    ] {
        assert_eq!(convention_of(path), expected, "{path}");
    }
}

#[test]
fn a_line_names_what_it_starts_and_never_its_operands() {
    for (line, expected) in [
        ("grep -q fixed CHANGELOG.md", vec![]),
        ("python3 app.py", vec![("app.py", true)]),
        ("python3 check.py --fast", vec![("check.py", false)]),
        ("sh tests/lint.sh --config lint.cfg", vec![("lint.cfg", false), ("tests/lint.sh", false)]),
        ("./ci.py --rcfile=x.rc -f data.txt", vec![("ci.py", false), ("x.rc", false)]),
        ("python3 app.py --config app.toml", vec![("app.py", true)]),
        ("cc @warn.rsp -c sum.c", vec![("warn.rsp", false)]),
        (
            "java @test.args && python3 -m mypy @typed.txt",
            vec![("test.args", false), ("typed.txt", false)],
        ),
        ("curl -d @data.json http://127.0.0.1", vec![]),
        ("./build/tool -c a", vec![("build/tool", false)]),
        ("python3 -c 'import a' x.py", vec![]),
        ("python3 -m pytest -c ci.ini tests", vec![("ci.ini", false)]),
        ("./check.sh data.txt", vec![("check.sh", false)]),
        ("cd sub && sh ./run.sh", vec![("sub/run.sh", false)]),
        ("make -f ci/rules.make test", vec![("ci/rules.make", false)]),
        ("A=1 timeout 60 bash -x scripts/all.sh | tee log", vec![("scripts/all.sh", false)]),
        ("node src/tool.js", vec![("src/tool.js", true)]),
        ("node --import ./init.js --test", vec![("init.js", false)]),
        ("mocha -r tools/init.js test", vec![("tools/init.js", false)]),
        ("sort -f names.txt", vec![]),
        ("/usr/bin/env python3 check.py", vec![("check.py", false)]),
        ("cargo run -q --example check_add", vec![("examples/check_add.rs", false)]),
        ("cargo run --example demo", vec![]),
    ] {
        let found = scripts(line);
        let found: Vec<_> =
            found.iter().map(|script| (script.path.as_str(), script.is_product)).collect();
        assert_eq!(found, expected, "{line}");
    }
}

#[test]
fn an_ignore_file_that_hides_sources_is_as_at_the_start() {
    let (start, imports, rules) =
        (manifest(&[(".gitignore", 1)]), Imports::default(), rules(&[], &["b/**"]));
    let now = manifest(&[
        (".gitignore", 2),
        ("a/.gitignore", 1),
        ("b/.gitignore", 1),
        ("c/.gitignore", 1),
    ]);
    let hiding =
        [".gitignore", "a/.gitignore", "b/.gitignore"].map(|path| path.as_bytes().to_vec());
    let inputs = StartInputs::new(&rules, &imports, &start, b"/w").hiding(hiding.into());
    let paths = |differences: &[Difference]| -> Vec<String> {
        let paths = differences.iter().map(|it| String::from_utf8_lossy(&it.path).into_owned());
        paths.collect()
    };
    for (line, back, out) in [
        ("ruff check .", &[".gitignore"][..], &["a/.gitignore"][..]),
        ("sh tests/lint.sh", &[".gitignore"], &["a/.gitignore"]),
        ("git check-ignore -q a/x.py", &[], &[]),
    ] {
        let exam = Exam::of(&inputs, line, &start, &now);
        assert_eq!(paths(&exam.put_back), back, "{line}");
        assert_eq!(paths(&exam.take_out), out, "{line}");
    }
}

fn exam(line: &str, start: &[(&str, u8)], now: &[(&str, u8)]) -> [Vec<String>; 3] {
    exam_with(line, &Imports::default(), &manifest(start), &manifest(now))
}

fn exam_with(line: &str, imports: &Imports, start: &Manifest, now: &Manifest) -> [Vec<String>; 3] {
    let rules = rules(&[], &[]);
    let inputs = StartInputs::new(&rules, imports, start, b"/w");
    let exam = Exam::of(&inputs, line, start, now);
    [exam.put_back, exam.take_out, exam.new].map(|list| {
        let path = |it: &Difference| String::from_utf8_lossy(&it.path).into_owned();
        list.iter().map(path).collect()
    })
}

#[test]
fn changed_and_deleted_inputs_are_put_back_and_added_ones_are_taken_out() {
    let start = [("calc.py", 1), ("tests/test_a.py", 1), ("tests/test_b.py", 1), ("CHANGELOG", 1)];
    let now = [
        ("CHANGELOG", 2),
        ("calc.py", 2),
        ("conftest.py", 1),
        ("sitecustomize.py", 1),
        ("tests/test_a.py", 2),
        ("tests/test_c.py", 1),
    ];
    let [put_back, take_out, new] = exam("pytest", &start, &now);
    assert_eq!(put_back, ["tests/test_a.py", "tests/test_b.py"]);
    assert_eq!(take_out, ["conftest.py", "sitecustomize.py", "tests/test_c.py"]);
    assert_eq!(new, Vec::<String>::new());
}

#[test]
fn what_a_line_asks_to_be_made_and_the_first_tests_stay() {
    let tests = [("test_a.py", 1)];
    for (line, start, added, stays) in [
        ("pytest tests/test_new.py", &tests[..], "tests/test_new.py", true),
        ("pytest tests/test_new.py::test_x", &tests, "tests/test_new.py", true),
        ("python3 -m unittest tests.test_new", &tests, "tests/test_new.py", true),
        ("cargo test --test new", &[("tests/old.rs", 1)], "tests/new.rs", true),
        ("sh -c 'pytest tests/test_new.py'", &tests, "tests/test_new.py", true),
        ("if pytest tests/test_new.py; then exit 0; fi", &tests, "tests/test_new.py", true),
        ("uv run pytest tests/test_new.py", &tests, "tests/test_new.py", true),
        ("pytest /w/tests/test_new.py", &tests, "tests/test_new.py", true),
        ("python3 - < tests/test_new.py", &tests, "tests/test_new.py", true),
        ("sh -c pytest", &tests, "tests/test_new.py", false),
        ("go test ./newpkg/...", &[("a_test.go", 1)], "newpkg/b_test.go", true),
        ("go test ./pkg/...", &[("pkg/a_test.go", 1)], "pkg/b_test.go", false),
        ("pytest tests", &[("tests/__init__.py", 1)], "tests/test_new.py", true),
        (
            "pytest tests/new",
            &[("tests/new/__init__.py", 1), ("tests/test_a.py", 1)],
            "tests/new/test_x.py",
            true,
        ),
        ("pytest tests", &[("tests/test_a.py", 1)], "tests/test_new.py", false),
        ("pytest tests", &[("tests/test_a.py", 1)], "tests/conftest.py", false),
        ("pytest tests new", &[("tests/test_a.py", 1)], "new/conftest.py", false),
        ("pytest new", &[("tests/test_a.py", 1)], "new/conftest.py", true),
        ("rspec spec", &[("spec/b_spec.rb", 1)], "spec/aaa_spec.rb", false),
        ("npm test", &[("a.test.js", 1)], "test/.mocharc.js", false),
        ("make -C backend test", &[("backend/Makefile", 1)], "backend/GNUmakefile", false),
        ("make -C new test", &[("Makefile", 1)], "new/Makefile", true),
        ("make test", &[("a.c", 1)], "rules.mk", true),
        ("make test", &[("Makefile", 1)], "rules.mk", false),
        ("ruff check src", &[("src/a.py", 1)], "src/ruff.toml", false),
        ("ruff check .", &[("a.py", 1)], "ruff.toml", false),
        ("ruff check --config ruff.toml .", &[("a.py", 1)], "ruff.toml", true),
        ("flake8", &[("a.py", 1)], ".flake8", false),
        ("shellcheck a.sh", &[("a.sh", 1)], ".shellcheckrc", false),
        ("npx eslint .", &[("a.js", 1)], "eslint.config.js", true),
        ("cargo test", &[("src/lib.rs", 1)], ".cargo/config.toml", false),
        ("cargo test", &[("src/lib.rs", 1)], "tests/it.rs", true),
        ("pytest --doctest-modules", &[("a.py", 1)], "conftest.py", true),
        ("cargo test -p new", &[("a/tests/it.rs", 1)], "new/tests/it.rs", true),
        ("cargo test", &[("tests/it.rs", 1)], "tests/more.rs", false),
        ("npm test -w packages/new", &[("a.test.js", 1)], "packages/new/a.test.js", true),
        ("npx jest --ci", &[("a.test.js", 1)], "__snapshots__/a.snap", false),
        ("invoke test", &[("a.py", 1)], "tasks.py", true),
        ("pytest tests", &[("web/a.test.js", 1)], "tests/data.json", true),
        ("cd sub && pytest t", &tests, "sub/t/test_x.py", true),
        ("pytest", &tests, "tests/test_new.py", false),
        ("pytest", &[("calc.py", 1)], "tests/test_new.py", true),
        ("pytest", &[("web/a.test.js", 1)], "tests/test_new.py", true),
        ("pytest", &[("calc.py", 1)], "conftest.py", true),
        ("pytest", &tests, "conftest.py", false),
        ("make test", &tests, "Makefile", true),
        ("make test", &[("Makefile", 1)], "GNUmakefile", false),
        ("pytest", &tests, "Makefile", false),
        ("./check.sh", &tests, "check.sh", true),
        ("pytest", &[("calc.py", 1)], "unittest.py", false),
    ] {
        let mut now = start.to_vec();
        now.push((added, 1));
        let [put_back, take_out, new] = exam(line, start, &now);
        assert!(put_back.is_empty(), "{line}");
        let expected = [usize::from(!stays), usize::from(stays)];
        assert_eq!([take_out.len(), new.len()], expected, "{line} with {added}");
    }
}

#[test]
fn a_project_with_examples_alone_has_tests() {
    let (start, now) = (manifest(&[("a.py", 1)]), manifest(&[("a.py", 1), ("conftest.py", 1)]));
    let mut imports = Imports::default();
    imports.add(
        &Source::read(("a.py", "# >>> a()\n"), false, &imports, &BTreeSet::new()),
        &BTreeSet::new(),
    );
    for (line, taken_out) in [("pytest --doctest-modules", 1), ("pytest", 0)] {
        assert_eq!(exam_with(line, &imports, &start, &now)[1].len(), taken_out, "{line}");
    }
    let asks = "[tool:pytest]\naddopts = --doctest-modules\n";
    imports.add(
        &Source::read(("setup.cfg", asks), false, &imports, &BTreeSet::new()),
        &BTreeSet::new(),
    );
    assert_eq!(exam_with("pytest", &imports, &start, &now)[1].len(), 1);
}

#[test]
fn a_manifest_decides_about_the_tests_of_its_own_language() {
    let (rules, imports) = (rules(&[], &[]), Imports::default());
    let start = manifest(&[("a.test.js", 1), ("src/lib.rs", 1), ("b.py", 1)]);
    let inputs = StartInputs::new(&rules, &imports, &start, b"/w");
    let tests = StartTests::of(&inputs, &start);
    for (path, decides) in [
        ("package.json", true),
        ("web/deno.json", true),
        ("Cargo.toml", true),
        ("pyproject.toml", false),
        ("setup.cfg", false),
        ("notes.txt", false),
    ] {
        assert_eq!(tests.decides(path), decides, "{path}");
    }
}

#[test]
fn a_module_inside_another_one_takes_no_tests_away() {
    let start = [("go.mod", 1), ("a/a_test.go", 1), ("b/b.go", 1)];
    for (added, taken_out) in [("a/go.mod", 1), ("b/go.mod", 0), ("c/go.mod", 0)] {
        let now = [&start[..], &[(added, 1)]].concat();
        assert_eq!(exam("go test ./...", &start, &now)[1].len(), taken_out, "{added}");
    }
}

#[test]
fn scripts_are_put_back_and_products_are_not() {
    let changed = |line, path: &str| {
        let [put_back, ..] = exam(line, &[(path, 1)], &[(path, 2)]);
        put_back == [path]
    };
    assert!(changed("python3 verify.py", "verify.py"));
    assert!(changed("./ci.sh", "ci.sh"));
    assert!(changed("invoke test", "tasks.py"));
    assert!(!changed("pytest", "tasks.py"));
    assert!(!changed("python3 app.py", "app.py"));
    assert!(!changed("node src/tool.js", "src/tool.js"));
    assert!(!changed("grep -q fixed CHANGELOG.md", "CHANGELOG.md"));
}

#[test]
fn a_script_that_another_file_imports_is_a_product() {
    let start = [("tool.py", 1), ("other.py", 1)];
    let now = [("tool.py", 2), ("other.py", 1)];
    let mut imports = Imports::default();
    let wanted = BTreeSet::from(["tool.py".to_owned()]);
    let put_back = |imports: &Imports| {
        let (start, now) = (manifest(&start), manifest(&now));
        exam_with("python3 tool.py", imports, &start, &now)[0].len()
    };
    assert_eq!(put_back(&imports), 1);
    imports.add(&Source::read(("other.py", "import tool\n"), false, &imports, &wanted), &wanted);
    assert_eq!(put_back(&imports), 0);
}

#[test]
fn what_links_of_check_inputs_lead_to_is_a_check_input() {
    let links = [
        ("tests/expected.txt", "../data/expected.txt"),
        ("tests/fixtures", "../shared"),
        ("tests/support", "../support"),
        ("tests/now.txt", "../current/x.txt"),
        ("current", "v1"),
        ("tests/whole.txt", "/w/data/whole.txt"),
        ("tests/calc.py", "../calc.py"),
        ("tests/src", "../src"),
        ("tests/helper.py", "../tools/helper.py"),
        ("tests/away", "../../etc/passwd"),
        ("tests/round", "round"),
        ("check.sh", "tools/check.sh"),
        ("docs/link", "../data/other.txt"),
    ];
    let files = |content| {
        [
            ("data/expected.txt", true),
            ("shared/a/in.json", true),
            ("shared/code.py", false),
            ("support/help.py", true),
            ("support/in.txt", true),
            ("v1/x.txt", true),
            ("data/whole.txt", true),
            ("calc.py", false),
            ("src/a.txt", false),
            ("tools/helper.py", true),
            ("tools/check.sh", true),
            ("data/other.txt", false),
        ]
        .map(|(path, expected)| ((path, content), expected))
    };
    let with_links = |content| {
        let plain = manifest(&files(content).map(|(file, _)| file));
        let folders = ["shared", "src", "support", "v1"].map(|path| Entry {
            path: path.as_bytes().into(),
            kind: Kind::Folder,
            content: Content::None,
            ..plain.entries()[0].clone()
        });
        let links = links.map(|(path, target)| Entry {
            path: path.as_bytes().into(),
            kind: Kind::Link,
            content: Content::Target(target.as_bytes().into()),
            ..plain.entries()[0].clone()
        });
        let all = [plain.entries(), &links, &folders].concat();
        Manifest::new(Place::default(), Arc::default(), all)
    };
    let (start, now) = (with_links(1), with_links(2));
    let [put_back, take_out, _] = exam_with("./check.sh", &Imports::default(), &start, &now);
    for ((path, _), expected) in files(1) {
        assert_eq!(put_back.iter().any(|it| it == path), expected, "{path}");
    }
    assert_eq!(take_out, Vec::<String>::new());
}

#[test]
fn a_namespace_protects_and_bounds_what_runs_may_change() {
    let texts = |globs: &[&str]| globs.iter().map(ToString::to_string).collect::<Vec<_>>();
    let policy = Policy {
        may_change: texts(&["tests/**"]),
        always_protect: texts(&["tests/security/**", "schema/**"]),
        may_change_within: texts(&["tests/unit/**", "tests/security/**"]),
        ..Policy::default()
    };
    let rules = InputRules::of(&policy).unwrap();
    for (path, expected) in [
        ("tests/unit/a.py", None),
        ("tests/other/a.py", Some(InputKind::Test)),
        ("tests/security/a.py", Some(InputKind::Protected)),
        ("schema/a.sql", Some(InputKind::Protected)),
    ] {
        assert_eq!(rules.kind_of(path.as_bytes()), expected, "{path}");
    }
}

#[test]
fn a_policy_protects_and_allows() {
    let rules = rules(&["schema/"], &["tests/**", "./Makefile"]);
    assert_eq!(rules.kind_of(b"schema/a.sql"), Some(InputKind::Protected));
    assert_eq!(rules.kind_of(b"tests/test_a.py"), None);
    assert_eq!(rules.kind_of(b"Makefile"), None);
    let start = manifest(&[("schema/a.sql", 1)]);
    assert_eq!(rules.unmatched(&start), None);
    assert_eq!(rules.unmatched(&manifest(&[("other", 1)])), Some("schema/"));
    for (glob, code) in
        [("a[", "type_mismatch"), ("/etc", "type_mismatch"), ("../x", "type_mismatch")]
    {
        let refused = InputRules::new(&[glob.to_owned()], &[]).unwrap_err();
        assert_eq!(refused.code.as_str(), code, "{glob}");
        assert_eq!(refused.field.as_deref(), Some("policy.protect"));
    }
}

#[test]
fn ignored_files_are_protected_by_globs_that_name_them() {
    let rules = rules(&["*.db", "e2e/*", "tests/**", "schema/", "build/a", "**/*.k"], &["m.db"]);
    for path in ["cases.db", "e2e/a", "build/a"] {
        assert!(rules.protects_ignored(path.as_bytes()), "{path}");
    }
    for path in ["tests/a", "schema/a", "e2e/node_modules", "e2e/target", "build/b", "a.k", "m.db"]
    {
        assert!(!rules.protects_ignored(path.as_bytes()), "{path}");
    }
}

#[test]
fn a_check_input_decides_by_its_text_unless_it_is_data_of_tests() {
    let (none, imports) = (rules(&[], &[]), Imports::default());
    let files = ["tests/a.py", "tests/last.txt", "tests/golden/a", "Makefile", "ci.sh", "stats.py"];
    let start: Vec<(&str, u8)> = files.iter().map(|path| (*path, 1)).collect();
    let start = manifest(&start);
    let inputs = StartInputs::new(&none, &imports, &start, b"/w");
    let decides = files.map(|path| inputs.decides("sh ci.sh", path.as_bytes()));
    assert_eq!(decides, [true, false, true, true, true, false]);
    assert!(!inputs.decides("sh ci.sh", b"tests/new.py"));
}

#[test]
fn a_script_of_checks_is_helped_by_what_its_names_say_and_no_test_is_about() {
    let files = ["scripts/checklib.py", "scripts/report.py", "scripts/common.py", "calc.py"];
    let start = files.map(|path| (path, 1));
    let start = manifest(&[&start[..], &[("tests/test_common.py", 1)]].concat());
    let imported = files.map(str::to_owned);
    assert_eq!(helpers_of_script("scripts/check.py", &imported, &start), ["scripts/checklib.py"]);
    let (none, mut imports) = (rules(&[], &[]), Imports::default());
    imports.add_helper("python3 scripts/check.py", "scripts/checklib.py".to_owned());
    let imports = Imports::decode(&imports.encode());
    let inputs = StartInputs::new(&none, &imports, &start, b"/w");
    for (line, is_one) in [("python3 scripts/check.py", true), ("python3 calc.py", false)] {
        assert_eq!(inputs.decides(line, b"scripts/checklib.py"), is_one, "{line}");
    }
}

#[test]
fn a_folder_stands_for_all_below_it_and_only_a_glob_that_names_the_repository_reaches_into_it() {
    let rules = rules(&["schema"], &["tests", "**/*.cfg", ".git/refs/heads/topic", "**"]);
    assert_eq!(rules.kind_of(b"schema/a/b.sql"), None, "what the run may change wins");
    for (globs, path, expected) in [
        (&["tests"][..], "tests/a/test_b.py", true),
        (&["tests/"], "tests/a/test_b.py", true),
        (&["*"], "tests/test_b.py", false),
        (&["tests"], "tests2/test_b.py", false),
    ] {
        let rules = self::rules(&[], globs);
        assert_eq!(rules.may_change(path.as_bytes()), expected, "{globs:?} {path}");
    }
    assert_eq!(
        self::rules(&["schema"], &[]).kind_of(b"schema/a/b.sql"),
        Some(InputKind::Protected)
    );
    assert!(rules.may_change_git(b".git/refs/heads/topic"));
    assert!(!rules.may_change_git(b".git/config"));
}
