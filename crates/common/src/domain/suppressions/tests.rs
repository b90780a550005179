use super::{Suppressions, may_suppress};

/// What a view has of a file that the run changed from one text to the other; none where it stays as it is.
fn cut(path: &str, before: &str, now: &str) -> Option<String> {
    let mut all = Suppressions::default();
    all.add(path, Some(before), Some(now));
    all.without_added(path, false, now).map(|(text, _)| text)
}

#[test]
fn an_added_suppression_is_cut_from_its_comment_and_lines_keep_their_numbers() {
    for (path, before, now, view) in [
        ("a.py", "import os\n", "import os  # noqa: F401\n", "import os  # x\n"),
        ("a.py", "x = f()\n", "x = f()  # type:ignore\n", "x = f()  # x\n"),
        (
            "a.py",
            "def f():\n    g()\n",
            "def f():  # pragma: no cover\n    g()\n",
            "def f():  # x\n    g()\n",
        ),
        ("a.py", "x = 1\n", "# why\n# pylint: disable=all\nx = 1\n", "# why\n# x\nx = 1\n"),
        ("a.js", "eval(a)\n", "// eslint-disable-next-line no-eval\neval(a)\n", "// x\neval(a)\n"),
        ("a.js", "f()\n", "/* istanbul ignore next */ f()\n", "/* x*/ f()\n"),
        ("a.ts", "f(1)\n", "/* eslint-disable\n   no-eval */\nf(1)\n", "/* x\n*/\nf(1)\n"),
        ("a.go", "f()\n", "f() //nolint:errcheck\n", "f() //x\n"),
        ("a.sh", "echo $a\n", "# shellcheck disable=SC2086\necho $a\n", "# x\necho $a\n"),
        ("a.rs", "fn f() {}\n", "#[allow(dead_code)]\nfn f() {}\n", "\nfn f() {}\n"),
        ("a.rs", "fn f() {}\n", "#![allow(\n    unused,\n)]\nfn f() {}\n", "\n\n\nfn f() {}\n"),
        (
            "a.rs",
            "fn f<'a>() {}\n",
            "#[cfg_attr(not(test), allow(unused))]\nfn f<'a>() {}\n",
            "\nfn f<'a>() {}\n",
        ),
        ("a.rs", "fn f() {}\n", "#[cfg(not(clippy))]\nfn f() {}\n", "\nfn f() {}\n"),
        ("a.py", "def f():\n", "@no_type_check\ndef f():\n", "\ndef f():\n"),
        ("a.py", "class A:\n", "class A:\n  @typing.no_type_check\n", "class A:\n  \n"),
        ("a.c", "int a;\n", "#pragma GCC diagnostic ignored \"-Wall\"\nint a;\n", "\nint a;\n"),
        ("A.java", "void f() {}\n", "@SuppressWarnings(\"all\")\nvoid f() {}\n", "\nvoid f() {}\n"),
        ("a.cs", "int a;\n", "#pragma warning disable CS1\nint a;\n", "\nint a;\n"),
        ("a.md", "text\n", "<!-- markdownlint-disable -->\ntext\n", "<!-- x-->\ntext\n"),
        ("a.py", "x = 1\n", "x = 1  # Lint: off\n", "x = 1  # x\n"),
    ] {
        assert_eq!(cut(path, before, now).as_deref(), Some(view), "{path}: {now}");
    }
}

#[test]
fn other_spellings_of_suppressions_are_cut_too() {
    for (path, before, now, view) in [
        ("a.py", "import os\n", "import os  # ruff: ignore[F401]\n", "import os  # x\n"),
        ("a.py", "import os\n", "# ruff: disable[F401]\nimport os\n", "# x\nimport os\n"),
        ("a.py", "import os\n", "# ruff: file-ignore[F401]\nimport os\n", "# x\nimport os\n"),
        ("a.py", "f()\n", "f()  # pragma no cover\n", "f()  # x\n"),
        ("a.py", "x = 'ab'\n", "x = 'a\\\nb'; f()  # noqa\n", "x = 'a\\\nb'; f()  # x\n"),
        ("a.c", "int a;\n", "#pragma GCC diagnostic warning \"-Wall\"\nint a;\n", "\nint a;\n"),
        (
            "a.c",
            "int a;\n",
            "_Pragma(\"GCC diagnostic ignored \\\"-Wall\\\"\") int a;\n",
            " int a;\n",
        ),
        ("a.rs", "fn f() {}\n", "#![warn(warnings)]\nfn f() {}\n", "\nfn f() {}\n"),
        ("a.rs", "fn f() {}\n", "#[cfg_attr(rustfmt, rustfmt_skip)]\nfn f() {}\n", "\nfn f() {}\n"),
        (
            "A.java",
            "void f() {}\n",
            "@java.lang.SuppressWarnings(\"all\") void f() {}\n",
            " void f() {}\n",
        ),
        (
            "A.java",
            "void f() {}\n",
            "@ SuppressWarnings ( \"a\" )\nvoid f() {}\n",
            "\nvoid f() {}\n",
        ),
        ("A.kt", "fun f() {}\n", "@file:Suppress(\"a\")\nfun f() {}\n", "\nfun f() {}\n"),
    ] {
        assert_eq!(cut(path, before, now).as_deref(), Some(view), "{path}: {now}");
    }
}

#[test]
fn what_was_there_what_only_looks_alike_and_what_a_string_says_stays() {
    for (path, before, now) in [
        ("a.py", "import os  # noqa\n", "import os  # noqa\nx = 1\n"),
        // The line was edited, and its directive is no further one.
        ("a.py", "import os  # noqa\n", "import os, re  # noqa\n"),
        ("a.py", "", "x = 'a  # noqa'\n"),
        ("a.py", "", "x = '''\n# noqa\n'''\n"),
        ("a.py", "", "# a list of ignored types\nx = 1\n"),
        ("a.js", "", "const u = 'http://x/nolint';\n"),
        ("a.js", "", "const u = `\n// eslint-disable\n`;\n"),
        ("a.rs", "", "#[derive(Debug)]\nstruct A;\n"),
        ("a.rs", "", "let a = \"#[allow(unused)]\";\n"),
        ("A.java", "", "@SuppressedUser void f() {}\n"),
        ("a.c", "", "_Pragma(\"once\") int a;\n"),
        ("a.sh", "", "echo $#noqa\n"),
        ("a.txt", "", "# noqa\n"),
        ("a.py", "", "x = a @no_type_check\n@no_type_checker\n"),
    ] {
        assert_eq!(cut(path, before, now), None, "{path}: {now}");
    }
}

#[test]
fn a_suppression_that_moves_with_its_code_to_another_file_is_not_added() {
    let (a, b) = ("import os  # noqa\nx = 1\n", "import os  # noqa\n");
    let mut all = Suppressions::default();
    all.add("a.py", Some(a), Some("x = 1\n"));
    all.add("b.py", None, Some(b));
    assert_eq!(all.without_added("b.py", true, b), None);
}

#[test]
fn a_new_file_keeps_its_own_suppressions_but_not_for_all_of_it_or_for_code_of_the_start() {
    for (now, view) in [
        ("from .a import b  # noqa: F401\n", None),
        ("# ruff: noqa\nfrom .a import b\n", Some("# x\nfrom .a import b\n")),
        ("total = slow(a, b)  # noqa\n", Some("total = slow(a, b)  # x\n")),
    ] {
        let mut all = Suppressions::default();
        all.add("a.py", Some("total = slow(a, b)\n"), None);
        all.add("b.py", None, Some(now));
        let seen = all.without_added("b.py", true, now);
        assert_eq!(seen.map(|(text, _)| text).as_deref(), view, "{now}");
    }
}

#[test]
fn a_suppression_is_named_by_what_it_says() {
    let (before, now) = ("x = 1\n", "x = 1  # noqa:  E501\n");
    let mut all = Suppressions::default();
    all.add("a.py", Some(before), Some(now));
    let (_, said) = all.without_added("a.py", false, now).unwrap();
    assert_eq!(said, ["noqa: E501"]);
    assert!(may_suppress("a.py") && !may_suppress("a.txt"));
    assert!(Suppressions::are_in("a.py", now) && !Suppressions::are_in("a.py", before));
}
