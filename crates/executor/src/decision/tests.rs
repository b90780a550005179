use super::*;
use proptest::prelude::*;
use std::time::{Duration, Instant};
use surety_common::domain::control::ControlKind;
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::json;
use surety_common::domain::problem::{Code, WarningCode};

pub(super) fn decision(text: &str) -> ExecuteDecision {
    parse_decision(text).unwrap().decision.unwrap()
}

#[test]
fn a_correction_names_the_code_what_is_legal_and_the_tools_in_order() {
    let legal = Legal {
        tools: &["write", "grep", "read", "grep"],
        confirmed_tools: &["write"],
        other_steps_open: true,
        pending_confirmation: false,
    };
    let text = correct(Code::UnknownTool, "no tool is named \"raed\"", &legal);
    assert!(text.contains("unknown_tool") && text.contains("raed"), "{text}");
    assert!(text.contains("Tools: grep, read, write."), "{text}");
    assert!(text.contains("next_plan") && !text.contains("; done"), "{text}");
    let text = correct(Code::JsonSyntax, "a comma", &legal);
    assert!(!text.contains("Tools:"), "{text}");
    let text = correct(Code::WriteRequiresConfirm, "write", &legal);
    assert!(text.contains("need a confirmation: write."), "{text}");
}

#[test]
fn a_reply_with_several_calls_of_functions_is_refused_as_one_tool_a_turn() {
    // The text that the clients of models make of several calls, each of which is a decision.
    let call = r#"{"action": "continue", "tool_call": {"name": "noop", "arguments": {}}}"#;
    let text = format!(r#"{{"tool_call": [{call}, {call}]}}"#);
    assert_eq!(parse_decision(&text).unwrap_err().code, Code::ToolCallNotObject);
}

#[test]
fn while_a_confirmation_is_open_a_correction_offers_abort_alone() {
    let legal = Legal {
        tools: &[],
        confirmed_tools: &[],
        other_steps_open: false,
        pending_confirmation: true,
    };
    let text = correct(Code::PendingConfirmation, "wait", &legal);
    assert!(text.contains("Legal now: abort (with"), "{text}");
    assert!(correct(Code::UnknownTool, "x", &legal).contains("Tools: none."));
}

#[test]
fn words_fall_back_to_the_reason_and_then_to_a_sentence() {
    for (text, expected) in [
        (r#"{"action":"continue","speak":"s","reason":"r"}"#, "s"),
        (r#"{"action":"ask_user","speak":" ","reason":"原因"}"#, "原因"),
        (r#"{"action":"done","goal_check":"g","reason":"r"}"#, ""),
        (r#"{"action":"next_plan","reason":"r"}"#, ""),
        (r#"{"action":"abort","reason":"r","abort":{"user_message":"m"}}"#, ""),
    ] {
        assert_eq!(words(&decision(text)), expected, "{text}");
    }
    for text in [
        r#"{"action":"continue"}"#,
        r#"{"action":"ask_user"}"#,
        r#"{"action":"confirm","tool_call":{"name":"f"}}"#,
    ] {
        assert!(!words(&decision(text)).is_empty(), "{text}");
    }
}

#[test]
fn a_question_in_a_key_of_its_own_is_what_the_person_reads() {
    for (text, asked, warnings) in [
        (r#"{"action":"ask_user","question":" Which word? "}"#, "Which word?", 1),
        (r#"{"action":"ask_user","speak":"This?","question":"That?"}"#, "This?", 0),
        (r#"{"action":"done","goal_check":"g","question":"Which word?"}"#, "", 0),
        // As any key that a decision does not know.
        (r#"{"action":"ask_user","question":["Which?"]}"#, "", 0),
    ] {
        let reading = parse_decision(text).unwrap();
        let codes: Vec<WarningCode> = reading.warnings.iter().map(|each| each.code).collect();
        assert_eq!(codes, vec![WarningCode::QuestionAsSpeak; warnings], "{text}");
        assert_eq!(reading.decision.unwrap().speak, asked, "{text}");
    }
}

#[test]
fn step_done_arrives_as_next_plan_with_the_reason_as_its_goal_check() {
    let reading = parse_decision(r#"{"control":"step_done","reason":"read 3 files"}"#).unwrap();
    let next = reading.decision.unwrap();
    assert_eq!((next.action, next.goal_check.as_str()), (Action::NextPlan, "read 3 files"));
    assert_eq!(reading.warnings, []);
}

#[test]
fn a_marker_is_distinguished_from_an_envelope() {
    let reading = parse_decision("REPLAN: 没有这个目录").unwrap();
    let control = reading.control.unwrap();
    assert_eq!((control.kind, control.legacy), (ControlKind::Replan, true));
    assert_eq!(control.reason, "没有这个目录");
    assert_eq!(reading.decision, None);
    let codes: Vec<WarningCode> = reading.warnings.iter().map(|each| each.code).collect();
    assert_eq!(codes, [WarningCode::ControlProtocolLegacy]);
}

#[test]
fn a_completion_signal_is_read_as_done_with_the_remaining_text() {
    let said = |text: &str| {
        let reading = parse_decision(text).unwrap();
        (reading.decision.unwrap(), reading.final_text.unwrap())
    };
    let (done, text) = said("{\"task_completion\":{\"completed\":true}}\nAll done.");
    assert_eq!((done.action, text.as_str()), (Action::Done, "All done."));
    let (done, text) = said(r#"{"task_completion":{"completed":true}}"#);
    assert_eq!(text, "");
    assert_eq!(done.last_word(), "", "the runner puts no words into the driver's mouth");
}

#[test]
fn each_reply_is_counted_by_its_limit() {
    let kind = |text: &str| match classify(text) {
        Classified::Decided(_) => "decided",
        Classified::Refused(_) => "refused",
        Classified::TextOnly => "text",
        Classified::ThinkingOnly => "thinking",
    };
    for (text, expected) in [
        (r#"{"action":"continue"}"#, "decided"),
        ("STEP_DONE", "decided"),
        (r#"{"action":"jump"}"#, "refused"),
        (r#"{"action":"done",}"#, "refused"),
        (r#"{"action":"done","goal"#, "refused"),
        ("", "refused"),
        ("我还在看。", "text"),
        (r#"The config is {"a":1}."#, "text"),
        ("fn main() { run() }", "text"),
        (r#"{"task_completion":{"completed":false}}"#, "text"),
        (r#"{"task_completion":"yes"}"#, "text"),
        ("<think>hm</think>", "thinking"),
        ("<think>hm", "thinking"),
    ] {
        assert_eq!(kind(text), expected, "{text}");
    }
    assert_eq!(kind(&" ".repeat(1_048_577)), "refused");
}

#[test]
fn text_beyond_a_mebibyte_is_refused_whatever_it_holds() {
    let text = format!("{}{}", r#"{"action":"continue"}"#, " ".repeat(1 << 20));
    assert_eq!(parse_decision(&text).unwrap_err().code, Code::TooLarge);
}

#[test]
fn no_text_makes_a_decision_slow() {
    let fill = |unit: &str| unit.repeat((1 << 20) / unit.len());
    let list = format!("{{\"a\":[{}0]}}", "{\"b\":1},".repeat(120_000));
    let signals = format!("{{\"task_completion\":[{}0]}}", "{\"control\":1},".repeat(70_000));
    for text in [
        fill("{"),
        fill("{\""),
        fill("{\\\""),
        fill("`"),
        fill("```\n"),
        fill("STEP_DONE, x\n"),
        fill("{\"reason\":{"),
        fill("{task_completion control}"),
        list,
        signals,
    ] {
        let shown: String = text.chars().take(24).collect();
        let start = Instant::now();
        let reply = classify(&text);
        let took = start.elapsed();
        assert!(!matches!(reply, Classified::Decided(_)), "{shown}");
        // A quadratic reader would need minutes.
        assert!(took < Duration::from_secs(10), "{shown} took {took:?}");
        if std::env::var_os("SURETY_PRINT_TIMES").is_some() {
            println!("{took:>12?} {shown}");
        }
    }
}

proptest! {
    #[test]
    fn no_text_ends_the_process(text in "(?s).{0,80}|[{}\\[\\]\":,a-z_`\\n\\\\]{0,80}") {
        classify(&text);
    }

    #[test]
    fn whatever_a_field_holds_is_read_or_refused_by_name(
        field in prop::sample::select(vec!["speak", "action", "reason", "goal_check", "tool_call", "abort"]),
        value in prop::sample::select(vec![
            "null", "true", "0", "\"\"", "\"x\"", "\"{}\"", "[]", "[1]", "{}", "{\"name\":\"f\"}",
        ]),
    ) {
        let text = format!(r#"{{"action":"continue","{field}":{value}}}"#);
        if let Err(problem) = parse_decision(&text) {
            let named = problem.field.unwrap_or_default();
            prop_assert!(named.starts_with(field), "{text} blames {named}");
        }
    }

    #[test]
    fn arguments_arrive_as_they_were_written(arguments in "\\{\"[a-zA-Z]{1,5}\":(-?[1-9][0-9]{0,40}|0\\.[0-9]{1,20}|\"[^\"\\\\\\x00-\\x1f]{0,9}\")\\}") {
        let text = format!(r#"{{"action":"continue","tool_call":{{"name":"f","arguments":{arguments}}}}}"#);
        let call = decision(&text).tool_call.unwrap();
        prop_assert_eq!(call.arguments, json::parse(&arguments).unwrap().value);
    }
}

#[test]
fn a_long_value_is_repeated_by_its_beginning_only() {
    let long = format!(r#"{{"action":"{}"}}"#, "\u{301}".repeat(500_000));
    let problem = parse_decision(&long).expect_err("no action");
    assert_eq!(problem.code, Code::ActionUnknown);
    assert!(problem.message.len() < 1000, "{}", problem.message.len());
    assert!(problem.message.contains("the first of 1000000 bytes"), "{}", problem.message);
    let wrong = faults(&["x".repeat(100_000)]);
    assert!(wrong.len() < 1100 && wrong.ends_with("[...]"), "{wrong}");
}
