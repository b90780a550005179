use super::*;
use proptest::prelude::*;

fn said(text: &str) -> Option<(ControlKind, String, bool)> {
    let control = envelope(text).map(|read| read.value).or_else(|| legacy_marker(text))?;
    Some((control.kind, control.reason, control.legacy))
}

fn step_done(reason: &str, legacy: bool) -> Option<(ControlKind, String, bool)> {
    Some((ControlKind::StepDone, reason.into(), legacy))
}

fn replan(reason: &str, legacy: bool) -> Option<(ControlKind, String, bool)> {
    Some((ControlKind::Replan, reason.into(), legacy))
}

#[test]
fn an_envelope_is_the_whole_text_or_the_only_fence() {
    for (text, expected) in [
        (
            "\u{feff}<think>x</think> {\"control\":\" Replan \",\"reason\":\" r \"}\n",
            replan("r", false),
        ),
        (r#"{"CONTROL":"step_done","reason":null,"action":null}"#, step_done("", false)),
        ("Read it all.\n```json\n{\"control\":\"step_done\"}\n```\nBye.", step_done("", false)),
        ("```{\"control\":\"step_done\"}```", step_done("", false)),
        ("```json {\"control\":\"step_done\"}```", step_done("", false)),
        (
            "```\n{\"control\":\"replan\",\"reason\":\"use ``` here\"}\n```",
            replan("use ``` here", false),
        ),
        ("```\n{\"control\":\"step_done\"}\n```\nand ```\nopen", step_done("", false)),
        ("```\na\n```\n```\n{\"control\":\"step_done\"}\n```", None),
        ("```json\n{\"control\":\"step_done\"}\n", None),
        ("{\"action\":\"continue\"}\n```\n{\"control\":\"step_done\"}\n```", None),
        (r#"so {"control":"step_done"}"#, None),
        (r#"{"control":"step_done"}{}"#, None),
        (r#"{"control":"step_done","action":"stop"}"#, None),
        (r#"{"control":["step_done"]}"#, None),
        (r#"{"control":"step done"}"#, None),
        (r#"{"control":"replan","reason":{}}"#, None),
    ] {
        assert_eq!(said(text), expected, "{text}");
    }
}

#[test]
fn a_marker_stands_alone_on_its_line_or_opens_the_text_before_a_colon() {
    for (text, expected) in [
        ("STEP_DONE", step_done("", true)),
        ("All read.\n  【replan】 \n", replan("All read.", true)),
        ("【Step_Done】：读完了\n共 3 个文件", step_done("读完了\n共 3 个文件", true)),
        ("replan  : no such file", replan("no such file", true)),
        ("REPLAN\nSTEP_DONE", replan("", true)),
        ("x\r\nSTEP_DONE\r\ny", step_done("x\ny", true)),
        ("<think>REPLAN</think>STEP_DONE", step_done("", true)),
        ("I will not say STEP_DONE", None),
        ("STEP_DONE now", None),
        ("x\nSTEP_DONE: y", None),
        ("STEP_DONES", None),
        ("【STEP_DONE", None),
        ("[STEP_DONE]", None),
        ("\"STEP_DONE\"", None),
        ("<think>STEP_DONE", None),
    ] {
        assert_eq!(said(text), expected, "{text}");
    }
}

#[test]
fn a_text_that_shows_a_decision_has_no_markers() {
    for text in [
        "{\"action\":\"none\"}\nSTEP_DONE",
        "{\"w\":[{\"Speak\":1}]}\nSTEP_DONE",
        "{\"action\":\"done\",}\nSTEP_DONE",
        "{'action':'done'}\nSTEP_DONE",
        "{\"action\":\"continue\",\"speak\":\"\nSTEP_DONE\n",
    ] {
        assert_eq!(said(text), None, "{text}");
    }
    for text in [
        "{\"other\":1}\nSTEP_DONE",
        "{x}\nSTEP_DONE",
        "the \"action\" is over\nSTEP_DONE",
        "{ and \"action\"\nSTEP_DONE",
    ] {
        assert!(said(text).is_some(), "{text}");
    }
}

#[test]
fn the_completion_signal_is_found_at_the_top_of_any_object() {
    for (text, expected) in [
        ("{\"task_completion\":{\"completed\":true}}\nAll done.", Some("All done.")),
        (
            "好的。\n```json\n{\"task_completion\":{\"completed\":true},\"reason\":\"r\"}\n```",
            Some("好的。"),
        ),
        ("{\"task_completion\":{\"completed\":true}}", Some("")),
        (
            "{\"r\":{\"task_completion\":{\"completed\":true}}}",
            Some("{\"r\":{\"task_completion\":{\"completed\":true}}}"),
        ),
        (
            "{\"task_completion\":{\"completed\":false}} {\"task_completion\":{\"completed\":true}}",
            Some(""),
        ),
        ("{\"task_completion\":{\"completed\":false}}", None),
        ("{\"task_completion\":{\"completed\":\"true\"}}", None),
        ("{\"task_completion\":true}", None),
        (
            "{\"action\":\"no\",\"tool_call\":{\"arguments\":{\"task_completion\":{\"completed\":true}}}}",
            None,
        ),
        ("{\"action\":\"no\"}{\"task_completion\":{\"completed\":true}}", None),
        ("{\"speak\":{\"task_completion\":{\"completed\":true}}}", None),
        ("<think>{\"task_completion\":{\"completed\":true}}</think>", None),
        ("{\"task_completion\":{\"completed\":true}", None),
    ] {
        assert_eq!(completion(text).as_deref(), expected, "{text}");
    }
}

#[test]
fn control_json_at_the_top_level_is_taken_out_with_its_fence() {
    for (text, expected) in [
        ("  plain  ", "plain"),
        ("{\"action\":\"done\",\"goal_check\":\"x\"}", ""),
        ("{\"Action\":\" DONE \"}", ""),
        ("a {\"control\":\"Step_done\"} b", "a  b"),
        ("{\"task_completion\":\"whatever\"}", ""),
        ("```json\n{\"action\":\"done\"}\n```", ""),
        ("x\n```\n{\"action\":\"done\"}\n```\n```\nkept\n```", "x\n\n```\nkept\n```"),
        ("```json\n{\"action\":\"done\"}\n\n{\"control\":\"replan\"}\n```", ""),
        ("```\n{\"action\":\"done\"}, {\"action\":\"done\"}\n```", "```\n, \n```"),
        ("```\nnote {\"action\":\"done\"}\n```", "```\nnote \n```"),
        ("{\"action\":\"dance\"}", "{\"action\":\"dance\"}"),
        ("{\"control\":\"finish\"}", "{\"control\":\"finish\"}"),
        ("{\"result\":{\"action\":\"done\"}}", "{\"result\":{\"action\":\"done\"}}"),
        ("{\"action\":\"done\"", "{\"action\":\"done\""),
        ("{\"action\":\"done\",}", "{\"action\":\"done\",}"),
        ("{\"action\":\"done\"}{\"action\":\"done\"}", ""),
    ] {
        assert_eq!(visible_text(text), expected, "{text}");
    }
}

#[test]
fn control_json_is_taken_out_however_much_of_it_there_is() {
    assert_eq!(visible_text(&"{\"action\":\"done\"}\n".repeat(1000)), "");
}

proptest! {
    #[test]
    fn no_text_ends_the_process(text in "(?s).{0,60}|[{}\":a-z`\\n【】:\\\\ ]{0,60}") {
        said(&text);
        completion(&text);
        prop_assert!(visible_text(&text).len() <= text.len());
    }

    #[test]
    fn a_text_without_braces_is_all_visible(text in "(?s)[^{]{0,60}") {
        prop_assert_eq!(visible_text(&text), text.trim());
    }
}
