use super::*;
use proptest::prelude::*;
use surety_common::domain::json;

/// Runs turns written as letters; a dash is a turn with an unknown part.
fn run(limit: u32, turns: &str) -> String {
    let mut fuse = RepeatCycle::new(limit).unwrap();
    let verdicts = turns.chars().map(|letter| {
        let part = if letter == '-' { String::new() } else { letter.to_string() };
        let turn = Turn { call: part, result: "r".into(), subgoal: "g".into() };
        match fuse.record(turn) {
            Repeat::Ok => '.',
            Repeat::Remind => 'r',
            Repeat::Terminate => 'T',
        }
    });
    verdicts.collect()
}

#[test]
fn a_repeated_turn_gives_one_reminder_and_then_stops_the_work() {
    for (limit, turns, expected) in [
        (3, "sssss", "...rT"),
        (1, "sss", ".rT"),
        (2, "ssss", "..rT"),
        (3, "sssst", "...r."),
        (3, "ssssXssss", "...r....r"),
        (3, "------", "......"),
        (3, "ss-ssss", "......r"),
        (3, "sssttt", "......"),
    ] {
        assert_eq!(run(limit, turns), expected, "{limit} {turns}");
    }
}

#[test]
fn cycles_of_two_and_three_turns_are_found_too() {
    for (limit, turns, expected) in [
        (3, "stststst", ".....r.T"),
        (3, "stuSstustustustu", "............r..T"),
        (3, "stustustustu", "........r..T"),
        (1, "ststst", "...r.T"),
        (3, "ststsx", "......"),
        (3, "abcdabcdabcdabcd", "................"),
    ] {
        assert_eq!(run(limit, turns), expected, "{limit} {turns}");
    }
}

#[test]
fn any_of_the_three_parts_makes_a_turn_a_new_one() {
    let turn = |call: &str, result: &str, subgoal: &str| Turn {
        call: call.into(),
        result: result.into(),
        subgoal: subgoal.into(),
    };
    for other in [turn("x", "r", "g"), turn("s", "x", "g"), turn("s", "r", "x"), turn("s", "", "g")]
    {
        let mut fuse = RepeatCycle::new(1).unwrap();
        fuse.record(turn("s", "r", "g"));
        assert_eq!(fuse.record(other.clone()), Repeat::Ok, "{other:?}");
    }
}

#[test]
fn a_limit_of_zero_is_refused() {
    assert!(RepeatCycle::new(0).is_err());
}

#[test]
fn the_detector_survives_being_stored() {
    let mut fuse = RepeatCycle::new(1).unwrap();
    let turn = Turn { call: "s".into(), result: "r".into(), subgoal: "g".into() };
    fuse.record(turn.clone());
    let stored = serde_json::to_string(&fuse).unwrap();
    let mut restored: RepeatCycle = serde_json::from_str(&stored).unwrap();
    assert_eq!(restored.record(turn.clone()), Repeat::Remind);
    assert_eq!(restored.record(turn), Repeat::Terminate);
    assert!(restored.is_terminated());
}

#[test]
fn a_signature_depends_on_the_order_of_calls_and_not_on_that_of_keys() {
    let call = |name: &str, arguments: &str| ToolCall {
        name: name.to_owned(),
        arguments: json::parse(arguments).unwrap().value,
    };
    let one = call_signature([&call("f", r#"{"b":1, "a":2.0}"#)]);
    assert_eq!(one, call_signature([&call("f", r#"{"a":2,"b":1}"#)]));
    assert_ne!(one, call_signature([&call("g", r#"{"a":2,"b":1}"#)]));
    let pair = |first, second| call_signature([&call(first, "{}"), &call(second, "{}")]);
    assert_ne!(pair("f", "g"), pair("g", "f"));
    assert_eq!(call_signature([]), "");
}

#[test]
fn results_and_subgoals_are_hashed_whole() {
    let long = "x".repeat(100_000);
    assert_ne!(result_fingerprint(&format!("{long}a")), result_fingerprint(&format!("{long}b")));
    assert_eq!(result_fingerprint(""), "");
    assert_eq!(subgoal_fingerprint("s1", &["b", "a"]), subgoal_fingerprint("s1", &["a", "b"]));
    assert_ne!(subgoal_fingerprint("s1", &["a"]), subgoal_fingerprint("s1", &[]));
    assert_eq!(subgoal_fingerprint("", &["a"]), "");
}

proptest! {
    #[test]
    fn no_work_is_stopped_without_a_reminder(limit in 1u32..6, turns in "[ab-]{0,40}") {
        let verdicts = run(limit, &turns);
        if let Some(stop) = verdicts.find('T') {
            prop_assert!(verdicts.get(..stop).unwrap().contains('r'), "{turns} {verdicts}");
        }
    }

    #[test]
    fn turns_that_all_differ_are_never_limited(limit in 1u32..6, length in 0usize..60) {
        let turns: String = ('\u{100}'..).take(length).collect();
        prop_assert!(run(limit, &turns).chars().all(|verdict| verdict == '.'));
    }
}
