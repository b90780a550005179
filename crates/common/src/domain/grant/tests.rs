//! Which grants can be made, and which calls each covers.

use super::rule::MAX_PATTERN;
use super::*;

const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

fn call(tool: &str, arguments: &str) -> CallToConfirm {
    CallToConfirm {
        digest: "d".repeat(64),
        tool: tool.to_owned(),
        arguments_json: arguments.to_owned(),
        expires_at: NOW,
        asked_by: "agent".to_owned(),
    }
}

fn terms(arguments: &[(&str, &str)], uses: u32) -> GrantTerms {
    let named = arguments.iter().map(|(name, glob)| ((*name).to_owned(), (*glob).to_owned()));
    GrantTerms { arguments: named.collect(), uses, ttl: TimeDelta::seconds(100) }
}

fn made(shown: &CallToConfirm, arguments: &[(&str, &str)]) -> Result<CallGrant, Problem> {
    CallGrant::new(Uuid::from_u128(7), shown, &terms(arguments, 3), ("alice", NOW))
}

fn write(path: &str, content: &str) -> CallToConfirm {
    let text = |text: &str| Value::String(text.to_owned());
    let members = [("path", text(path)), ("content", text(content))];
    let members = members.map(|(name, value)| (name.to_owned(), value)).into();
    call("write_file", &Value::Object(members).to_compact())
}

#[test]
fn a_grant_covers_the_calls_whose_every_argument_fits_and_no_others() {
    let anywhere = [("path", "src/**"), ("content", "**")];
    let beside = [("path", "src/*.rs")];
    let shown = write("src/a.rs", "one");
    for (patterns, later, fitting) in [
        (&anywhere[..], write("src/a.rs", "two"), true),
        (&anywhere, write("src/deep/er/b.txt", ""), true),
        (&anywhere, write("src/a.rs", "fn f() {\n\t\"../x; rm\"\r\n}\n"), true),
        (&anywhere, write("src/a.rs", "a\u{7}b"), false),
        (&anywhere, write("src", "two"), false),
        (&anywhere, write("lib/a.rs", "two"), false),
        (&anywhere, write("/src/a.rs", "two"), false),
        (&anywhere, write("src/../lib/a.rs", "two"), false),
        (&anywhere, write("src/..", "two"), false),
        (&anywhere, write("src\\..\\a", "two"), false),
        (&anywhere, write("src/..a", "two"), true),
        (&anywhere, write("src/a\n.rs", "two"), false),
        (&anywhere, write("src/a\u{1b}[0m.rs", "two"), false),
        (&anywhere, call("write_files", &shown.arguments_json), false),
        (&anywhere, call("write_file", r#"{"path":"src/a.rs"}"#), false),
        (&anywhere, call("write_file", r#"{"path":"src/a","content":"","mode":"x"}"#), false),
        (&anywhere, call("write_file", r#"{"path":"src/a","text":""}"#), false),
        (&anywhere, call("write_file", r#"{"path":["src/a"],"content":""}"#), false),
        (&anywhere, call("write_file", r#"{"path":"src/a","path":"x","content":""}"#), false),
        (&anywhere, call("write_file", "[]"), false),
        (&anywhere, call("write_file", "no JSON"), false),
        (&beside, write("src/b.rs", "one"), true),
        (&beside, write("src/b.rs", "two"), false),
        (&beside, write("src/deep/b.rs", "one"), false),
        (&[], write("src/a.rs", "one"), true),
        (&[], write("src/b.rs", "one"), false),
        (&[], call("write_file", r#"{"content":"one","path":"src/a.rs"}"#), true),
    ] {
        let grant = made(&shown, patterns).expect("a grant");
        assert_eq!(grant.covers(&later, NOW), fitting, "{patterns:?} {}", later.arguments_json);
    }
}

#[test]
fn no_wildcard_stands_for_what_a_shell_reads() {
    let line = |line: &str| {
        let command = Value::String(line.to_owned());
        let members = Value::Object(vec![("command".to_owned(), command)]);
        call("run_command", &members.to_compact())
    };
    let grant = made(&line("cargo test"), &[("command", "cargo test*")]).expect("a grant");
    for (later, fitting) in [
        ("cargo test", true),
        ("cargo test --all", true),
        ("cargo test; rm x", false),
        ("cargo test & rm x", false),
        ("cargo test | sh", false),
        ("cargo test `x`", false),
        ("cargo test $(x)", false),
        ("cargo test $HOME", false),
        ("cargo test >x", false),
        ("cargo test <x", false),
        ("cargo test\nrm x", false),
        ("cargo test\rx", false),
        ("cargo test 'x'", false),
        ("cargo test \"x\"", false),
        ("cargo test \\x", false),
        ("cargo test ../x", false),
        ("cargo test --config=..", false),
        ("cargo test a/b", false),
        ("cargo build", false),
    ] {
        assert_eq!(grant.covers(&line(later), NOW), fitting, "{later}");
    }
    // Exactly the shown line is granted, whatever it holds.
    let piped = line("make | tee log");
    assert!(made(&piped, &[]).expect("a grant").covers(&piped, NOW));
    let refused = made(&piped, &[("command", "make*")]).expect_err("refused");
    assert_eq!(refused.code, Code::GrantMismatch);
    assert!(refused.message.contains("a shell reads"), "{}", refused.message);
}

#[test]
fn what_is_no_string_is_granted_exactly() {
    let shown = call("run_command", r#"{"argv":["make","test"],"timeout_s":60}"#);
    let grant = made(&shown, &[("timeout_s", "60")]).expect("a grant");
    for (arguments, fitting) in [
        (r#"{"timeout_s":60,"argv":["make","test"]}"#, true),
        (r#"{"argv":["make","test"],"timeout_s":61}"#, false),
        (r#"{"argv":["make","test"],"timeout_s":"60"}"#, false),
        (r#"{"argv":["make","test","x"],"timeout_s":60}"#, false),
    ] {
        assert_eq!(grant.covers(&call("run_command", arguments), NOW), fitting, "{arguments}");
    }
    let refused = made(&shown, &[("timeout_s", "*")]).expect_err("refused");
    let expected = (Code::GrantMismatch, Some("grant.arguments[timeout_s]"));
    assert_eq!((refused.code, refused.field.as_deref()), expected);
}

fn argv(argv: &[&str]) -> CallToConfirm {
    let argv = argv.iter().map(|text| Value::String((*text).to_owned())).collect();
    let members = Value::Object(vec![("argv".to_owned(), Value::Array(argv))]);
    call("run_command", &members.to_compact())
}

#[test]
fn a_list_of_strings_is_granted_element_by_element() {
    let shown = argv(&["cargo", "test", "-p", "common"]);
    let ends = r#"["cargo","test","**"]"#;
    let same = r#"["cargo","t*","-p","comm?n"]"#;
    for (pattern, later, fitting) in [
        (ends, argv(&["cargo", "test"]), true),
        (ends, argv(&["cargo", "test", "--all", "crates/a"]), true),
        (ends, argv(&["cargo", "test", "a b"]), true),
        (ends, argv(&["cargo"]), false),
        (ends, argv(&["cargo", "build", "test"]), false),
        (ends, argv(&["cargo", "test2"]), false),
        (ends, argv(&["cargo test"]), false),
        (ends, argv(&["cargo", "test", "../x"]), false),
        (ends, argv(&["cargo", "test", "--config=../x"]), false),
        (ends, argv(&["cargo", "test", "-C.."]), false),
        (ends, argv(&["cargo", "test", "-I../x"]), false),
        (ends, argv(&["go", "test", "./..."]), false),
        (ends, argv(&["cargo", "test", "./..."]), true),
        (ends, argv(&["cargo", "test", "x; rm y"]), false),
        (ends, argv(&["cargo", "test", "$(x)"]), false),
        (ends, argv(&["cargo", "test", "a\nb"]), false),
        (ends, call("run_command", r#"{"argv":"cargo test"}"#), false),
        (ends, call("run_command", r#"{"argv":["cargo","test",1]}"#), false),
        (same, argv(&["cargo", "test", "-p", "common"]), true),
        (same, argv(&["cargo", "tree", "-p", "commen"]), true),
        (same, argv(&["cargo", "t/x", "-p", "common"]), false),
        (same, argv(&["cargo", "test", "-p"]), false),
        (same, argv(&["cargo", "test", "-p", "common", "-q"]), false),
        (same, argv(&["cargo", "test", "-q", "common"]), false),
    ] {
        let grant = made(&shown, &[("argv", pattern)]).expect("a grant");
        assert_eq!(grant.covers(&later, NOW), fitting, "{pattern} {}", later.arguments_json);
    }
    // What the approver writes out may hold anything.
    let piped = argv(&["sh", "-c", "make | tee log"]);
    let grant = made(&piped, &[("argv", r#"["sh","-c","make | tee log","**"]"#)]).expect("a grant");
    assert!(grant.covers(&argv(&["sh", "-c", "make | tee log", "x"]), NOW));
    assert!(!grant.covers(&argv(&["sh", "-c", "make | tee log; x"]), NOW));
    let words: Vec<String> = grant.arguments.values().map(ArgumentRule::in_words).collect();
    assert_eq!(words, [r#"is a list of "sh", "-c", "make | tee log", any further elements"#]);
    let stored = serde_json::to_string(&grant).expect("JSON");
    assert_eq!(serde_json::from_str::<CallGrant>(&stored).expect("a grant"), grant);
}

#[test]
fn a_list_that_the_shown_one_does_not_fit_is_refused_with_its_path() {
    let shown = argv(&["cargo", "test", "a b", "x|y"]);
    for (pattern, code, why) in [
        ("cargo test *", Code::GrantMismatch, "a JSON list"),
        (r#"["cargo",7]"#, Code::GrantMismatch, "a JSON list"),
        (r#"["cargo","test"]"#, Code::GrantMismatch, "does not match"),
        (r#"["cargo","test","**"]"#, Code::GrantMismatch, "has one"),
        (r#"["cargo","build","a b","x|y"]"#, Code::GrantMismatch, "does not match"),
        (r#"["cargo","[a","a b","x|y"]"#, Code::TypeMismatch, "not a valid glob"),
        (r#"["[c\u0000]*","test","a b","x|y"]"#, Code::TypeMismatch, "U+0000"),
    ] {
        let refused = made(&shown, &[("argv", pattern)]).expect_err(pattern);
        assert_eq!(refused.field.as_deref(), Some("grant.arguments[argv]"), "{pattern}");
        assert_eq!(refused.code, code, "{pattern}");
        assert!(refused.message.contains(why), "{pattern}: {}", refused.message);
    }
    let refused = made(&argv(&["make"]), &[("argv", r#"["m*","x"]"#)]).expect_err("refused");
    assert!(refused.message.contains("does not match"), "{}", refused.message);
}

#[test]
fn a_long_exact_value_is_kept_as_its_digest() {
    let shown = write("a", &"x".repeat(100_000));
    let grant = made(&shown, &[("path", "*")]).expect("a grant");
    let kept = &grant.arguments["content"];
    assert!(matches!(kept, ArgumentRule::Exact(text) if text.starts_with("sha256:")), "{kept:?}");
    assert!(grant.covers(&write("b", &"x".repeat(100_000)), NOW));
    assert!(!grant.covers(&write("b", &"x".repeat(99_999)), NOW));
}

#[test]
fn a_grant_that_the_shown_call_does_not_fit_is_refused_with_its_path() {
    let shown = write("src/a.rs", "one");
    let long = "x".repeat(MAX_PATTERN + 1);
    for (name, pattern, code) in [
        ("path", "lib/**", Code::GrantMismatch),
        ("path", "src/b.rs", Code::GrantMismatch),
        ("path", "", Code::GrantMismatch),
        ("mode", "*", Code::GrantMismatch),
        ("path", "src/[a", Code::TypeMismatch),
        ("path", "{src", Code::TypeMismatch),
        ("path", long.as_str(), Code::TooLarge),
    ] {
        let refused = made(&shown, &[(name, pattern)]).expect_err(pattern);
        let field = format!("grant.arguments[{name}]");
        assert_eq!((refused.code, refused.field), (code, Some(field)), "{pattern}");
    }
    let many: Vec<_> = (0..200).map(|n| format!(r#""a{n}":"{}""#, "x".repeat(50))).collect();
    let shown = call("write_file", &format!("{{{}}}", many.join(",")));
    assert_eq!(made(&shown, &[]).expect_err("refused").code, Code::TooLarge);
}

#[test]
fn a_grant_ends_by_its_uses_its_time_and_its_revocation_and_never_covers_its_makers_calls() {
    let shown = write("a", "one");
    let grant = made(&shown, &[]).expect("a grant");
    assert_eq!((grant.used, grant.state(NOW)), (1, GrantState::Open));
    let later = NOW + TimeDelta::seconds(99);
    assert!(grant.covers(&shown, later));
    assert!(!grant.covers(&CallToConfirm { asked_by: "alice".to_owned(), ..shown.clone() }, later));
    let ended = later + TimeDelta::seconds(1);
    assert_eq!(grant.state(ended), GrantState::Expired);
    let used = CallGrant { used: 3, ..grant.clone() };
    assert_eq!(used.state(NOW), GrantState::UsedUp);
    let revoked = Some(Revoked { by: "bob".to_owned(), at: NOW });
    let revoked = CallGrant { revoked, ..grant.clone() };
    assert_eq!(revoked.state(NOW), GrantState::Revoked);
    for (grant, at) in [(&grant, ended), (&used, NOW), (&revoked, NOW)] {
        assert!(!grant.covers(&shown, at), "{grant:?}");
    }
    let one = CallGrant::new(Uuid::nil(), &shown, &terms(&[], 1), ("alice", NOW)).expect("a grant");
    assert_eq!(one.state(NOW), GrantState::UsedUp);
}
