use super::*;
use proptest::prelude::*;

fn parts(line: &str) -> Option<Vec<Vec<String>>> {
    let parts = CommandLine::parse(line).parts?;
    let owned = |part: Arguments<'_>| part.into_iter().map(Cow::into_owned).collect();
    Some(parts.into_iter().map(owned).collect())
}

fn matches(line: &str, target: &str, by: Match) -> bool {
    CommandLine::parse(line).matches(&CommandLine::parse(target), by)
}

#[test]
fn a_line_without_need_of_a_shell_becomes_programs() {
    let found = programs("A='1 2' cargo test && B=3 cargo fmt").unwrap();
    let expected = [("A", "1 2", ["cargo", "test"]), ("B", "3", ["cargo", "fmt"])];
    for (program, (name, value, argv)) in found.iter().zip(expected) {
        assert_eq!(program.environment, [(name.to_owned(), value.to_owned())]);
        assert_eq!(program.argv, argv);
    }
    assert_eq!(found.len(), 2);
}

#[test]
fn a_line_that_needs_a_shell_becomes_no_programs() {
    for line in ["a > b", "a | b", "a; b", "A=1", "a && A=1", "a $B", "P+=1 a 'x", ""] {
        assert_eq!(programs(line), None, "{line}");
    }
}

#[test]
fn a_line_is_split_into_parts_and_arguments() {
    let table: &[(&str, &[&[&str]])] = &[
        ("cargo  test\t--all ", &[&["cargo", "test", "--all"]]),
        ("A=1 B_2='x y' cargo test", &[&["cargo", "test"]]),
        ("cargo test A=1", &[&["cargo", "test", "A=1"]]),
        ("'A=1' cargo", &[&["A=1", "cargo"]]),
        ("2A=1 cargo", &[&["2A=1", "cargo"]]),
        ("a && b c&&d", &[&["a"], &["b", "c"], &["d"]]),
        ("A=1 && b", &[&[], &["b"]]),
        ("grep 'a b' \"c d\" e\\ f", &[&["grep", "a b", "c d", "e f"]]),
        ("echo 'a && b; c | d' \"<&>\"", &[&["echo", "a && b; c | d", "<&>"]]),
        ("echo a\"b\"'c'd ''", &[&["echo", "abcd", ""]]),
        ("echo \"a\\\"b\\n\\$c\"", &[&["echo", "a\"b\\n$c"]]),
        ("echo a#b c# $ \"5$\" '$HOME `x`'", &[&["echo", "a#b", "c#", "$", "5$", "$HOME `x`"]]),
        ("a > f", &[&["a"]]),
        ("a >f >> g 2>h 2>&1 &>i &>> j < k <l >&2 b", &[&["a", "b"]]),
        ("> f a", &[&["a"]]),
        ("a 2 > f", &[&["a", "2"]]),
        ("a b2>f", &[&["a", "b2"]]),
        ("a>'my log'", &[&["a"]]),
        ("python -c 'import a\nb()'", &[&["python", "-c", "import a\nb()"]]),
        ("运行 测试 '一 二'", &[&["运行", "测试", "一 二"]]),
        ("", &[&[]]),
    ];
    for (line, wanted) in table {
        let wanted = wanted.iter().map(|part| part.iter().map(|a| (*a).to_owned()).collect());
        assert_eq!(parts(line), Some(wanted.collect()), "{line}");
    }
}

#[test]
fn a_line_whose_exit_code_does_not_hold_for_its_parts_is_compared_as_a_whole() {
    for line in [
        "a || b",
        "a | b",
        "a |& b",
        "a; b",
        "a;",
        "a & b",
        "a &",
        "a\nb",
        "a\n",
        "# a",
        "a # b",
        "a && #b",
        "a $(b)",
        "a `b`",
        "a \"$(b)\"",
        "a \"`b`\"",
        "a $B",
        "a \"$B\"",
        "a ${B}",
        "a $1",
        "a $?",
        "A=$B a",
        "(a)",
        "a && (b)",
        "a <(b)",
        "a << E",
        "a <<< b",
        "a 'b",
        "a \"b",
        "a \"b\\\"",
        "a \\",
        "a \\\n b",
        "a >",
        "a > && b",
        "a >| f",
        "a &&",
        "&& a",
        "a && && b",
        "a $'b'",
        "a $\"b\"",
        "a > $B",
        "a &&& b",
    ] {
        assert_eq!(parts(line), None, "{line}");
        for by in [Match::Prefix, Match::Exact, Match::Contains] {
            assert!(matches(line, line, by), "{line}");
            assert!(!matches(line, "a", by), "{line}");
            assert!(!matches("a", line, by), "{line}");
        }
    }
}

#[test]
fn each_match_compares_whole_arguments() {
    use Match::{Contains, Exact, Prefix};
    for (line, target, by, wanted) in [
        ("cargo test --all", "cargo test", Prefix, true),
        ("cargo testing", "cargo test", Prefix, false),
        ("cargo", "cargo test", Prefix, false),
        ("cargo --locked test", "cargo test", Prefix, false),
        ("Cargo test", "cargo test", Prefix, false),
        ("cargo test", "cargo test", Exact, true),
        ("X=1 'cargo' te\"s\"t > log", "Y=2 cargo test 2>&1", Exact, true),
        ("cargo test --all", "cargo test", Exact, false),
        ("cd sub && cargo test", "cargo test", Exact, true),
        ("cargo --locked test --all", "cargo test", Contains, true),
        ("cargo a test b --all", "cargo test --all", Contains, true),
        ("cargo --all test", "cargo test --all", Contains, false),
        ("cross cargo test", "cargo test", Contains, false),
        ("cargo test", "cargo cargo", Contains, false),
        ("cargo test test", "cargo test test", Contains, true),
        ("cargo test", "cargo test test", Contains, false),
        ("a && b && c", "b && c", Prefix, true),
        ("a && b && c", "a && c", Prefix, false),
        ("a && b && c", "a && c", Contains, false),
        ("b && a", "a && b", Prefix, false),
        ("a x && b y", "a && b", Prefix, true),
        ("a x && b", "a && b", Exact, false),
        ("a", "a && b", Prefix, false),
        ("anything", "A=1", Prefix, false),
        ("A=1", "B=2", Prefix, false),
    ] {
        assert_eq!(matches(line, target, by), wanted, "{line} / {target} / {by:?}");
    }
}

#[test]
fn an_argument_list_is_never_split() {
    let argv =
        |argv: &[&str]| Command::Argv(argv.iter().map(|argument| (*argument).to_owned()).collect());
    for (argv, target, wanted) in [
        (argv(&["cargo", "test", "-q"]), "cargo test", true),
        (argv(&["A=1", "cargo", "test"]), "cargo test", false),
        (argv(&["cargo test"]), "cargo test", false),
        (argv(&["cargo test"]), "'cargo test'", true),
        (argv(&["true", "&&", "cargo", "test"]), "cargo test", false),
        (argv(&["sh", "-c", "cargo test"]), "cargo test", false),
        (argv(&["sh", "-c", "cargo test"]), "sh -c 'cargo test'", true),
        (argv(&["echo", "$HOME"]), "echo $HOME", false),
        (argv(&[]), "cargo", false),
    ] {
        let target = CommandLine::parse(target);
        assert_eq!(CommandLine::of(&argv).matches(&target, Match::Prefix), wanted, "{argv:?}");
    }
}

#[test]
fn a_line_of_assignments_and_redirections_runs_nothing() {
    for line in ["", "  ", "A=1", "A=1 B=2", "> f", "A=1 && B=2"] {
        assert!(CommandLine::parse(line).is_empty(), "{line}");
    }
    for line in ["A=1 b", "a; b", "''"] {
        assert!(!CommandLine::parse(line).is_empty(), "{line}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_the_scanner_and_every_line_is_itself(line in r#"[a-c=$&|;<>#'"\\`(){} 0-9\n变]{0,24}"#) {
        let parsed = CommandLine::parse(&line);
        prop_assert!(parsed.matches(&parsed, Match::Exact));
    }

    #[test]
    fn quoting_the_arguments_gives_them_back(arguments in prop::collection::vec("[ -~变]{0,8}", 1..5)) {
        let quoted: Vec<String> = arguments
            .iter()
            .map(|argument| format!("'{}'", argument.replace('\'', "'\\''")))
            .collect();
        prop_assert_eq!(parts(&quoted.join(" ")), Some(vec![arguments]));
    }
}

#[test]
fn a_line_that_a_shell_reads_otherwise_needs_one() {
    for line in [
        "cd sub && make test",
        "! grep -q TODO src/lib.rs",
        "ls *.txt",
        "make test | tail -1",
        "HOME=/tmp make test",
        "make test > out.txt",
        "echo $HOME",
        "a; b",
        "for f in a; do true; done",
    ] {
        assert!(needs_shell(line), "{line}");
    }
    for line in ["make test", "cargo test --workspace && cargo clippy", "python3 -m unittest 'a b'"]
    {
        assert!(!needs_shell(line), "{line}");
    }
}

#[test]
fn redirections_that_change_nothing_need_no_shell() {
    for line in
        ["make test 2>&1", "make test >/dev/null 2>&1", "make test 2> /dev/null", "make <&- "]
    {
        let found = programs(line).map(|programs| programs.len());
        assert_eq!(found, (!line.contains("<&-")).then_some(1), "{line}");
    }
    for line in ["make test > out", "make test 2>&3", "make test &> log"] {
        assert_eq!(programs(line), None, "{line}");
    }
}
