//! Added files that would take the place of a module, a header or a program.

use super::*;

#[test]
fn an_added_module_takes_no_place_of_one_that_the_start_imports() {
    let start = [("dice.py", 1), ("tests/test_dice.py", 1)];
    let mut imports = Imports::default();
    let added = |imports: &Imports, path| {
        let now = manifest(&[&start[..], &[(path, 1)]].concat());
        exam_with("python3 -m unittest", imports, &manifest(&start), &now)[1].len()
    };
    assert_eq!(added(&imports, "secrets.py"), 0);
    assert_eq!(added(&imports, "random.py"), 1);
    imports.add(
        &Source::read(
            ("dice.py", "import secrets, random, queue\n"),
            false,
            &imports,
            &BTreeSet::new(),
        ),
        &BTreeSet::new(),
    );
    for (path, taken_out) in [
        ("secrets.py", 1),
        ("src/secrets.py", 1),
        ("src/random.py", 1),
        ("queue/__init__.py", 1),
        ("app/secrets.py", 0),
        ("statistics.py", 0),
    ] {
        assert_eq!(added(&imports, path), taken_out, "{path}");
    }
}

#[test]
fn no_added_file_takes_the_place_of_a_library_of_tests() {
    let mut imports = Imports::default();
    imports.add(
        &Source::read(
            ("requirements-dev.txt", "own-checks==1\n"),
            false,
            &imports,
            &BTreeSet::new(),
        ),
        &BTreeSet::new(),
    );
    for (path, text) in [("tests/a.c", "#include <math.h>\n"), ("CalcTest.java", "Math.abs(-1)")] {
        let source = Source::read((path, text), true, &imports, &BTreeSet::new());
        imports.add(&source, &BTreeSet::new());
    }
    let (none, start) =
        (rules(&[], &[]), manifest(&[("stats.py", 1), ("org/junit/own/A.java", 1)]));
    let inputs = StartInputs::new(&none, &imports, &start, b"/w");
    for (path, expected) in [
        ("own_checks.py", Some(InputKind::Shadow)),
        ("src/own_checks/__init__.py", Some(InputKind::Shadow)),
        ("hamcrest.py", Some(InputKind::Shadow)),
        ("checks.py", None),
        ("src/main/java/org/junit/jupiter/api/Assertions.java", Some(InputKind::Shadow)),
        ("org/junit/own/B.java", None),
        ("src/main/java/com/junit/A.java", None),
        ("lib/rspec/expectations.rb", Some(InputKind::Shadow)),
        ("lib/rspecs.rb", None),
        ("src/PHPUnit/Framework/Assert.php", Some(InputKind::Shadow)),
        // Nor that of a header or a class that tests take from a compiler.
        ("src/math.h", Some(InputKind::Shadow)),
        ("src/time.h", None),
        ("src/Math.java", Some(InputKind::Shadow)),
        ("src/a/Math.java", None),
        ("src/Thread.java", None),
    ] {
        assert_eq!(inputs.kind_of_added(path.as_bytes()), expected, "{path}");
    }
}

#[test]
fn a_target_without_a_rule_is_made_from_a_source_alone() {
    let mut imports = Imports::default();
    imports.add_sought("make test", "run".to_owned());
    let taken_out = |start: &[(&str, u8)], added: &str| {
        let now = [start, &[(added, 1)]].concat();
        exam_with("make test", &imports, &manifest(start), &manifest(&now))[1].len()
    };
    for (source, expected) in
        [("run.c", 1), ("src/run.c", 1), ("run.sh", 1), ("src/run.sh", 0), ("run.py", 0)]
    {
        assert_eq!(taken_out(&[(source, 1)], "run"), expected, "{source}");
    }
    assert_eq!(taken_out(&[], "other"), 0);
}

#[test]
fn an_added_file_before_a_module_or_a_program_is_taken_out_unless_the_line_starts_it() {
    let start = [("calc.py", 1), ("web/cube.js", 1), ("a/__init__.py", 1)];
    for (line, added, expected) in [
        ("python3 -m unittest", "calc/__init__.pyc", 1),
        ("python3 -m unittest", "other.pyc", 1),
        ("python3 -m unittest", "calc.cpython-311-x86_64-linux-gnu.so", 1),
        ("python3 -m unittest", "calc/__init__.so", 1),
        ("python3 -m unittest", "a.so", 1),
        ("python3 -m unittest", "_calc.so", 0),
        ("python3 -m unittest", "web/cube.obj", 0),
        ("python3 -m unittest", "bin/test", 1),
        ("bin/test", "bin/test", 0),
        ("python3 unittest.py", "unittest.py", 1),
    ] {
        let now = [&start[..], &[(added, 1)]].concat();
        assert_eq!(exam(line, &start, &now)[1].len(), expected, "{line}: {added}");
    }
}
