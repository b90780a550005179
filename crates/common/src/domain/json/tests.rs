use super::*;
use proptest::prelude::*;

fn value(text: &str) -> Value {
    parse(text).unwrap().value
}

fn is_syntax(text: &str) -> bool {
    matches!(parse(text), Err(JsonError::Syntax { .. }))
}

#[test]
fn what_is_not_strict_json_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "}",
        "{\"a\":1,}",
        "[1,]",
        "{'a':1}",
        "{a:1}",
        "{\"a\" 1}",
        "{\"a\":1} x",
        "{\"a\":1}{}",
        "// c\n1",
        "{\"a\":1 /* c */}",
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "1e",
        "0x10",
        "NaN",
        "Infinity",
        "True",
        "nul",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u+123\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\ud800\"",
        "\"\\ud800x\"",
        "\"a\nb\"",
        "\"a\tb\"",
        "\"open",
        "\"\\",
        "[1 2]",
        "[1}",
        "{\"a\":1]",
        "\u{feff}1",
        "\u{a0}1",
    ] {
        assert!(is_syntax(text), "{text:?} was read");
    }
}

#[test]
fn strings_are_unescaped_and_pairs_become_one_character() {
    assert_eq!(
        value(r#""\"\\\/\b\f\n\r\t\u0041\ud83d\ude00中""#),
        Value::String("\"\\/\u{8}\u{c}\n\r\tA😀中".into())
    );
}

#[test]
fn numbers_and_keys_keep_their_spelling_and_order() {
    let text = r#"{"b":1.50,"a":[12345678901234567890123,-0,1E+2],"":null}"#;
    assert_eq!(value(text).to_compact(), text);
}

#[test]
fn the_last_value_of_a_repeated_key_wins_at_its_first_position_and_is_reported() {
    let parsed = parse(r#"{"x":[{"a":1,"b":2,"\u0061":3}]}"#).unwrap();
    assert!(parsed.duplicate_key);
    assert_eq!(parsed.value.to_compact(), r#"{"x":[{"a":3,"b":2}]}"#);
    assert!(!parse(r#"{"a":{"a":1},"b":{"a":1}}"#).unwrap().duplicate_key);
}

#[test]
fn of_the_spellings_of_a_repeated_key_the_last_one_in_the_text_comes_last() {
    for (text, expected) in [
        (r#"{"Ab":1,"x":0,"AB":2,"Ab":3}"#, r#"{"AB":2,"x":0,"Ab":3}"#),
        (r#"{"Ab":1,"AB":2,"aB":4,"AB":5,"Ab":6}"#, r#"{"aB":4,"AB":5,"Ab":6}"#),
        (r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#),
        (r#"{"Ab":1,"AB":2}"#, r#"{"Ab":1,"AB":2}"#),
        (r#"{"c":{"Ab":1,"AB":2,"Ab":3},"d":4}"#, r#"{"c":{"AB":2,"Ab":3},"d":4}"#),
    ] {
        assert_eq!(value(text).to_compact(), expected, "{text}");
    }
}

#[test]
fn a_repeated_key_among_many_is_found() {
    let members: Vec<String> = (0..40).map(|n| format!("\"k{n}\":{n}")).collect();
    let text = format!("{{{},\"k7\":true}}", members.join(","));
    let parsed = parse(&text).unwrap();
    assert!(parsed.duplicate_key);
    assert_eq!(parsed.value.get("k7"), Some(&Value::Bool(true)));
    assert_eq!(parsed.value.as_object().unwrap().len(), 40);
}

#[test]
fn level_128_is_read_and_level_129_is_too_deep_with_its_top_level_keys() {
    let nest = |levels: usize| {
        format!("{{\"k\":1,\"a\":{}0{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1))
    };
    assert!(parse(&nest(128)).is_ok());
    assert_eq!(parse(&nest(129)), Err(JsonError::TooDeep { keys: vec!["k".into(), "a".into()] }));
    let empty_below = format!("{}{{}}{}", "[".repeat(128), "]".repeat(128));
    assert_eq!(parse(&empty_below), Err(JsonError::TooDeep { keys: Vec::new() }));
}

#[test]
fn a_million_levels_exhaust_no_stack() {
    let open = "[".repeat(1 << 20);
    assert!(is_syntax(&open));
    let closed = format!("{}{}", "[".repeat(1 << 19), "]".repeat(1 << 19));
    assert!(matches!(parse(&closed), Err(JsonError::TooDeep { .. })));
    assert!(is_syntax(&"{\"a\":".repeat(200_000)));
}

#[test]
fn too_deep_is_reported_for_valid_json_only() {
    let text = format!("{}x{}", "[".repeat(200), "]".repeat(200));
    assert!(is_syntax(&text));
}

#[test]
fn equal_numbers_have_one_canonical_text() {
    for (canonical, spellings) in [
        ("1", vec!["1", "1.0", "1e0", "10e-1", "0.1E+1", "1.000e00"]),
        ("0", vec!["0", "-0", "0.0", "0e99999999999999999999"]),
        ("1000", vec!["1000", "1e3", "1.0e+3"]),
        ("-12.5", vec!["-12.5", "-125e-1", "-0.125e2"]),
        ("1e-3", vec!["0.001", "1e-3", "0.0010"]),
        ("1e999999999", vec!["1e999999999", "10e999999998"]),
        (
            "123456789012345678901234567890",
            vec!["123456789012345678901234567890", "1.2345678901234567890123456789e29"],
        ),
    ] {
        for spelling in spellings {
            assert_eq!(value(spelling).to_canonical(), canonical, "{spelling}");
        }
    }
    assert_ne!(value("1e99999999999999999999").digest(), value("1e99999999999999999998").digest());
}

#[test]
fn integers_of_64_bits_reach_serde_exactly() {
    assert_eq!(value("18446744073709551615").to_serde(), serde_json::json!(u64::MAX));
    assert_eq!(value("-9223372036854775808").to_serde(), serde_json::json!(i64::MIN));
    assert_eq!(value("1e999").to_serde(), serde_json::json!(f64::MAX));
    for whole in ["30.0", "3e1", "300e-1"] {
        assert_eq!(value(whole).to_serde(), serde_json::json!(30), "{whole}");
    }
    assert_eq!(value("-0.0").to_serde(), serde_json::json!(0));
    assert_eq!(value("1e16").to_serde(), serde_json::json!(1e16));
    assert_eq!(
        value(r#"{"a":[null,true,"x",1.5]}"#).to_serde(),
        serde_json::json!({"a": [null, true, "x", 1.5]})
    );
}

fn any_value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,3})?",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number.prop_map(Value::Number),
        any::<String>().prop_map(Value::String),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
            prop::collection::btree_map("[a-c]{0,3}|\\PC{0,4}", inner, 0..24)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The same value with the keys of every object in reverse order.
fn reversed(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(reversed).collect()),
        Value::Object(members) => Value::Object(
            members.into_iter().rev().map(|(key, value)| (key, reversed(value))).collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(value in any_value()) {
        let parsed = parse(&value.to_compact()).unwrap();
        prop_assert_eq!(&parsed.value, &value);
        prop_assert!(!parsed.duplicate_key);
    }

    #[test]
    fn the_canonical_text_ignores_the_order_of_keys_and_is_idempotent(value in any_value()) {
        let canonical = value.to_canonical();
        prop_assert_eq!(&reversed(value).to_canonical(), &canonical);
        prop_assert_eq!(parse(&canonical).unwrap().value.to_canonical(), canonical);
    }

    #[test]
    fn any_text_is_accepted_or_refused_as_by_serde(text in "[\\[\\]{}\",:0-9a\\\\u \\n.eE+-]{0,24}|\\PC{0,12}") {
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        let ours = parse(&text);
        // serde refuses numbers beyond a double, which are valid JSON.
        let out_of_range = theirs.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
        if !out_of_range {
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
        }
    }
}
