//! Which calls need a confirmation, and what an answer to one is.

use super::*;
use crate::domain::json;
use chrono::DateTime;
use uuid::Uuid;

const READS: ToolEffects = ToolEffects { read_only: true, destructive: false, open_world: false };
const WRITES: ToolEffects = ToolEffects { read_only: false, destructive: true, open_world: false };
const RUNS: ToolEffects = ToolEffects { open_world: true, ..WRITES };

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_pattern_stands_for_whole_names() {
    for (pattern, name, fitting) in [
        ("write_file", "write_file", true),
        ("write_file", "write_files", false),
        ("write", "write_file", false),
        ("*", "", true),
        ("*", "anything", true),
        ("write_*", "write_file", true),
        ("*_file", "write_file", true),
        ("*_file", "write_file_2", false),
        ("w*_*e", "write_a_file", true),
        ("a*b*c", "a1b2b3c", true),
        ("a*b*c", "a1b2b3", false),
        ("read_?ile", "read_file", true),
        ("read_?ile", "read_ile", false),
        ("", "", true),
        ("", "a", false),
    ] {
        assert_eq!(fits(pattern, name), fitting, "{pattern} {name}");
    }
}

#[test]
fn policies_and_steps_add_tools_and_annotations_count_where_the_policy_says_so() {
    let none = ConfirmPolicy::default();
    let listed = ConfirmPolicy { tools: names(&["run_*"]), ..ConfirmPolicy::default() };
    let destructive = ConfirmPolicy { destructive: true, ..ConfirmPolicy::default() };
    let open = ConfirmPolicy { open_world: true, ..ConfirmPolicy::default() };
    let reads_outside = ToolEffects { open_world: true, ..READS };
    let destructive_read = ToolEffects { destructive: true, ..READS };
    for (policy, step, tool, effects, needed) in [
        (&none, &[][..], "run_command", RUNS, false),
        (&none, &["run_command"][..], "run_command", RUNS, true),
        (&none, &["*"][..], "read_file", READS, true),
        (&listed, &[][..], "run_command", RUNS, true),
        (&listed, &["write_file"][..], "run_command", RUNS, true),
        (&listed, &[][..], "write_file", WRITES, false),
        (&destructive, &[][..], "write_file", WRITES, true),
        (&destructive, &[][..], "read_file", READS, false),
        (&destructive, &[][..], "read_file", destructive_read, false),
        (&open, &[][..], "write_file", WRITES, false),
        (&open, &[][..], "run_command", RUNS, true),
        (&open, &[][..], "http_get", reads_outside, true),
    ] {
        assert_eq!(policy.covers(&names(step), tool, effects), needed, "{tool} {policy:?}");
    }
}

#[test]
fn a_list_of_tools_is_bounded_and_holds_names_only() {
    let read = |patterns: &[&str]| read_tools("policy.confirm_tools", names(patterns));
    assert_eq!(read(&[" a ", "b*", "a"]), Ok(names(&["a", "b*"])));
    for (patterns, code) in [
        (vec![" "], Code::TypeMismatch),
        (vec!["a b"], Code::TypeMismatch),
        (vec!["a\0"], Code::TypeMismatch),
        (vec!["a"; 101], Code::TooLarge),
    ] {
        assert_eq!(read(&patterns).expect_err("refused").code, code, "{patterns:?}");
    }
    let long = "a".repeat(101);
    let refused = read(&["a", &long]).expect_err("refused");
    assert_eq!(refused.field.as_deref(), Some("policy.confirm_tools[1]"));
}

#[test]
fn another_tool_argument_or_plan_is_another_call_and_the_order_of_keys_is_not() {
    let call = |name: &str, arguments: &str| ToolCall {
        name: name.to_owned(),
        arguments: json::parse(arguments).expect("JSON").value,
    };
    let first = call_digest(&call("f", r#"{"a": 1, "b": 2}"#), "plan");
    assert_eq!(first, call_digest(&call("f", r#"{"b": 2, "a": 1}"#), "plan"));
    assert_ne!(first, call_digest(&call("g", r#"{"a": 1, "b": 2}"#), "plan"));
    assert_ne!(first, call_digest(&call("f", r#"{"a": 1, "b": 3}"#), "plan"));
    assert_ne!(first, call_digest(&call("f", r#"{"a": 1, "b": 2}"#), "another"));
    assert_eq!(first.len(), 64);
}

#[test]
fn a_denial_fails_a_script_is_seen_by_a_driver_and_may_end_the_run() {
    let goes_on = ConfirmPolicy::default();
    let ends = ConfirmPolicy { on_denied: OnDenied::Stop, ..ConfirmPolicy::default() };
    let lasts = ConfirmPolicy { on_expired: OnExpired::Continue, ..ConfirmPolicy::default() };
    for (policy, thinks, stop, after) in [
        (&goes_on, false, false, AfterDenial::FailStep),
        (&goes_on, true, false, AfterDenial::Continue),
        (&goes_on, true, true, AfterDenial::Stop),
        (&ends, false, false, AfterDenial::Stop),
    ] {
        assert_eq!(AfterDenial::of(policy, thinks, stop), after);
    }
    assert_eq!(AfterExpiry::of(&goes_on, true), AfterExpiry::Stop);
    assert_eq!(AfterExpiry::of(&lasts, true), AfterExpiry::Denied(AfterDenial::Continue));
}

#[test]
fn what_a_person_said_is_a_receipt_that_is_no_work() {
    let call = CallToConfirm {
        digest: "d".repeat(64),
        tool: "write_file".to_owned(),
        arguments_json: "{}".to_owned(),
        expires_at: DateTime::UNIX_EPOCH,
        asked_by: String::new(),
    };
    let at = AnsweredAt {
        step_index: 1,
        step_id: "s",
        plan_revision: 2,
        wait_id: Uuid::nil(),
        at: DateTime::UNIX_EPOCH,
    };
    for (by, approved, comment, text) in [
        (Some("alice"), true, "", "approve"),
        (Some("alice"), false, "wrong: file", "deny: wrong: file"),
        (None, false, "", "expired"),
    ] {
        let answer = CallResolution {
            by: by.map(str::to_owned),
            approved,
            comment: comment.to_owned(),
            grant: None,
        };
        assert_eq!(answer.text(), text);
        let receipt = answer.receipt(&call, at);
        assert!(is_said(&receipt));
        assert_eq!((receipt.success, receipt.step_index), (approved, 1));
        assert_eq!(receipt.arguments_digest, call.digest);
        assert!(receipt.summary.contains(comment), "{}", receipt.summary);
    }
    let reply = reply_receipt(("alice", "blue"), "d", at);
    assert!(is_said(&reply) && has_words_only(&reply));
    assert_eq!(reply.arguments_digest, "d");
    assert_eq!(reply.outputs("digest").collect::<Vec<_>>(), ["d"]);
}
