use super::*;
use proptest::prelude::*;
use std::time::{Duration, Instant};

/// Reads a message whose only requirement is `"ok": true`, and returns its name.
fn read_ok(text: &str) -> Result<Read<String>, Problem> {
    read(text, &["ok", "name"], |members, warnings| {
        let fields = Fields::fold(members, &["ok", "name"], warnings);
        let name = fields.get("name").and_then(Value::as_str).unwrap_or("");
        match fields.get("ok") {
            Some(Value::Bool(true)) => Ok(name.to_owned()),
            Some(_) => Err(Problem::new(Code::TypeMismatch, name)),
            None => Err(Problem::new(Code::FieldMissing, name)),
        }
    })
}

fn name_in(text: &str) -> String {
    read_ok(text).unwrap().value
}

fn error_in(text: &str) -> (Code, String) {
    let problem = read_ok(text).unwrap_err();
    (problem.code, problem.message)
}

fn warnings_in(text: &str) -> Vec<WarningCode> {
    let read = read_ok(text).unwrap();
    read.warnings.iter().map(|warning| warning.code).collect()
}

#[test]
fn the_message_is_found_whatever_surrounds_it() {
    for text in [
        r#"{"ok":true,"name":"m"}"#,
        "\u{feff}\n{\"ok\":true,\"name\":\"m\"}\n",
        "\u{feff} <think>{\"ok\":true,\"name\":\"no\"}</think>{\"ok\":true,\"name\":\"m\"}",
        r#"I say "hello {x}" and 5" of {"ok":true,"name":"m"}, yes"#,
        "```json\n{\"ok\":true,\"name\":\"m\"}\n```",
        "```json\n{\"ok\":true,\"name\":\"m\"}",
        r#"[{"ok":true,"name":"m"},{"ok":true,"name":"n"}]"#,
        r#"{"wrapped":[1,{"deeper":{"ok":true,"name":"m"}}]}"#,
        r#"{ never closes {"ok":true,"name":"m"}"#,
        r#"{ "quoted" but no key {"ok":true,"name":"m"}"#,
        "计划如下：{\"ok\":true,\"name\":\"m\"}。完毕",
        r#"a } b {"ok":true,"name":"m"}"#,
        r#"{"na\u006de":"x","ok":true,"name":"m"}"#,
    ] {
        assert_eq!(name_in(text), "m", "{text}");
    }
}

#[test]
fn the_first_object_that_validates_wins() {
    assert_eq!(name_in(r#"{"ok":false} {"ok":true,"name":"b"} {"ok":true}"#), "b");
}

#[test]
fn nothing_under_a_shield_is_a_message() {
    for (text, code) in [
        (r#"{"ok":1,"in":{"ok":true}}"#, Code::TypeMismatch),
        (r#"{"NAME":1,"in":[{"ok":true}]}"#, Code::FieldMissing),
        (r#"{"n\u0061me":1,"in":[{"ok":true}]}"#, Code::FieldMissing),
        (r#"{"wrap":{"name":"x","in":{"ok":true}}}"#, Code::FieldMissing),
        (r#"{not json {"ok":true}}"#, Code::JsonSyntax),
        (r#"{"a":1,, "in":{"ok":true}}"#, Code::JsonSyntax),
        (r#"{"a": {"ok":true}"#, Code::NoJsonObject),
        ("{\n \"a\" : [ {\"ok\":true} ]", Code::NoJsonObject),
        (r#"talk { "a\"b" : 1 } no: { "k":{"ok":true}"#, Code::FieldMissing),
    ] {
        assert_eq!(error_in(text).0, code, "{text}");
    }
}

#[test]
fn the_error_is_that_of_the_most_similar_object() {
    let read = |text: &str| error_in(text);
    assert_eq!(
        read(r#"{x} {"other":1} {"name":"first"} {"ok":0,"name":"second"}"#),
        (Code::FieldMissing, "first".into())
    );
    assert_eq!(read(r#"{x} {"other":1}"#).0, Code::FieldMissing);
    assert_eq!(read("{x} {").0, Code::JsonSyntax);
    assert_eq!(read("no braces").0, Code::NoJsonObject);
    assert_eq!(read(r#"{"ok":true"#).0, Code::NoJsonObject);
    for blank in
        ["", " \n\t", "\u{feff}", "\u{feff} \u{3000}", "<think>{\"ok\":true}", "<think>a</think> "]
    {
        assert_eq!(read(blank).0, Code::EmptyOutput, "{blank:?}");
    }
}

#[test]
fn thinking_is_one_leading_block_in_lower_case() {
    assert_eq!(name_in(r#"<THINK>{"ok":true,"name":"m"}</THINK>"#), "m");
    assert_eq!(name_in(r#"<think>a</think><think>{"ok":true,"name":"m"}</think>"#), "m");
    assert_eq!(name_in(r#"so <think>{"ok":true,"name":"m"}"#), "m");
}

#[test]
fn corrections_are_reported_as_warnings() {
    use WarningCode::{ArrayUnwrapped, DuplicateKey, ExtraObjectIgnored, KeyCaseFolded};
    for (text, expected) in [
        (r#"{"ok":true}"#, vec![]),
        (r#"[ {"ok":true} ]"#, vec![ArrayUnwrapped]),
        (r#"[{"ok":true},{"x":1}]"#, vec![ExtraObjectIgnored]),
        (r#"{"ok":true}{x}{"a":}"#, vec![]),
        (r#"{"ok":true}{x {"a":1}}"#, vec![]),
        (r#"{"ok":true} tail {"#, vec![]),
        (r#"{"ok":true} tail { {}"#, vec![ExtraObjectIgnored]),
        (r#"{"a":1} {"ok":true}"#, vec![]),
        (r#"{"w":{"ok":true},"v":{}}"#, vec![ExtraObjectIgnored]),
        (r#"{"ok":false,"ok":true}"#, vec![DuplicateKey]),
        (r#"{"ok":true,"d":[{"x":1,"x":2}]}"#, vec![DuplicateKey]),
        (r#"{"OK":false,"Ok":true}"#, vec![KeyCaseFolded]),
        (r#"{"ok":true,"OK":false}"#, vec![KeyCaseFolded]),
    ] {
        assert_eq!(warnings_in(text), expected, "{text}");
    }
}

#[test]
fn a_refused_object_leaves_no_warning_behind() {
    assert_eq!(warnings_in(r#"{"ok":0,"x":1,"x":2} {"ok":true}"#), vec![]);
}

#[test]
fn at_most_sixty_four_braces_are_examined() {
    let behind = |junk: &str, times: usize| format!("{}{{\"ok\":true}}", junk.repeat(times));
    for junk in ["{x}", "{}", "{ "] {
        assert!(read_ok(&behind(junk, 63)).is_ok(), "{junk}");
        assert!(read_ok(&behind(junk, 64)).is_err(), "{junk}");
    }
    let nested = |levels: usize| {
        let open = "{\"a\":".repeat(levels);
        format!("{open}{{\"ok\":true}}{}", "}".repeat(levels))
    };
    assert!(read_ok(&nested(63)).is_ok());
    assert!(read_ok(&nested(64)).is_err());
}

#[test]
fn braces_in_strings_and_under_a_shield_are_not_counted() {
    let in_string = format!("{{\"a\":\"{}\"}} {{\"ok\":true}}", "{".repeat(100));
    assert!(read_ok(&in_string).is_ok());
    let unreadable = format!("{{{}x{}}} {{\"ok\":true}}", "{".repeat(100), "}".repeat(100));
    assert!(read_ok(&unreadable).is_ok());
    let refused = format!("{{\"name\":[{}]}} {{\"ok\":true}}", "{},".repeat(99) + "{}");
    assert!(read_ok(&refused).is_ok());
}

#[test]
fn an_object_too_deep_counts_as_read_with_its_keys() {
    let deep = |key: &str, inside: &str| {
        format!("{{\"{key}\":{}{inside}{}}}", "[".repeat(128), "]".repeat(128))
    };
    assert_eq!(error_in(&deep("other", "1")).0, Code::TooDeep);
    assert_eq!(error_in(&deep("name", "{\"ok\":true}")).0, Code::TooDeep);
    assert_eq!(name_in(&deep("other", r#"{"ok":true,"name":"m"}"#)), "m");
    let behind = format!("{}{{\"name\":\"keyed\"}}", deep("other", "1"));
    assert_eq!(error_in(&behind), (Code::FieldMissing, "keyed".into()));
    let extra = format!("{{\"ok\":true}}{}", deep("other", "1"));
    assert_eq!(warnings_in(&extra), vec![WarningCode::ExtraObjectIgnored]);
}

#[test]
fn a_mebibyte_is_read_and_one_byte_more_is_not() {
    let message = r#"{"ok":true}"#;
    let full = format!("{message}{}", " ".repeat(MAX_TEXT_BYTES - message.len()));
    assert!(read_ok(&full).is_ok());
    assert_eq!(error_in(&format!("{full} ")).0, Code::TooLarge);
    assert_eq!(error_in(&" ".repeat(MAX_TEXT_BYTES + 1)).0, Code::TooLarge);
}

/// Texts that take quadratic time in a naive reader.
fn adversarial() -> Vec<String> {
    let fill = |unit: &str| unit.repeat(MAX_TEXT_BYTES / unit.len());
    let deep = |open: &str, close: &str| {
        let levels = MAX_TEXT_BYTES / (open.len() + close.len());
        open.repeat(levels) + &close.repeat(levels)
    };
    let head = |head: &str, unit: &str| {
        let free = (MAX_TEXT_BYTES - head.len()) / unit.len();
        head.to_owned() + &unit.repeat(free)
    };
    vec![
        fill("{"),
        fill("}"),
        fill("{\""),
        fill("{\\\""),
        fill("\""),
        fill("{ \""),
        fill("{\"a\":"),
        fill("{\"a\" "),
        fill("{\"ok\":0}"),
        fill("{} "),
        fill("{\"a\":{\"b\":[{}]}}"),
        fill("\\"),
        fill("[{"),
        deep("{", "}"),
        deep("{\"a\":", "}"),
        deep("[{\"a\":", "}]"),
        head(&"{ \"x ".repeat(64), "a"),
        head(&"{ ".repeat(64), "\"\\\""),
        head("{\"a\":\"", "\\u0041"),
        head(&"{".repeat(63), " "),
        format!("{{\"a\":[{}0]}}", "{\"b\":1},".repeat(120_000)),
        format!("{{{}\"z\":0}}", (0..70_000).map(|n| format!("\"k{n}\":1,")).collect::<String>()),
    ]
}

#[test]
fn no_text_makes_the_reader_slow() {
    // A quadratic reader needs minutes here, even a fast one; the limit allows a debug build on a
    // loaded machine.
    for text in adversarial() {
        let shown: String = text.chars().take(24).collect();
        let start = Instant::now();
        let outcome = read_ok(&text);
        let took = start.elapsed();
        assert!(outcome.is_err(), "{shown}");
        assert!(took < Duration::from_secs(10), "{shown} took {took:?}");
        if std::env::var_os("SURETY_PRINT_TIMES").is_some() {
            println!("{took:>12?} {shown}");
        }
    }
}

#[test]
fn a_brace_closes_where_a_scan_from_it_alone_says() {
    fn alone(text: &str) -> bool {
        let (mut depth, mut string, mut escape) = (0_i64, false, false);
        for byte in text.bytes() {
            match (string, escape, byte) {
                (true, true, _) => escape = false,
                (true, false, b'\\') => escape = true,
                (_, _, b'"') => string = !string,
                (false, _, b'{') => depth += 1,
                (false, _, b'}') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return true;
            }
        }
        false
    }
    proptest!(|(text in "[{}\"\\\\x]{1,24}")| {
        let first = Scan::new(&text, &[], 1).next();
        let balanced = first.as_ref().map(|find| !matches!(find.what, What::Open { .. }));
        let expected = text.find('{').map(|at| alone(text.get(at..).unwrap()));
        prop_assert_eq!(balanced, expected, "{:?}", first);
    });
}

proptest! {
    #[test]
    fn no_text_ends_the_process(text in "(?s).{0,80}|[{}\\[\\]\":,ok true\\\\`<>/think\\n]{0,80}") {
        if let Err(problem) = read_ok(&text) {
            prop_assert!(!problem.message.is_empty() || problem.code == Code::FieldMissing || problem.code == Code::TypeMismatch);
        }
        fences(&text);
    }

    #[test]
    fn no_bytes_end_the_process(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        prop_assert!(read_ok(&text).is_err());
    }

    #[test]
    fn text_around_a_message_never_hides_it(before in "[^{}<]{0,40}", after in "(?s)[^{}]{0,40}") {
        let text = format!("{before}{{\"ok\":true,\"name\":\"m\"}}{after}");
        prop_assert_eq!(read_ok(&text).unwrap().value, "m");
    }
}
