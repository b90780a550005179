//! The contract's rows about events, reports, failures and payloads.

use super::{read, rows};
use chrono::{DateTime, Utc};
use serde_json::Value;
use surety_common::domain::toolchain::*;

const ROWS: &str = include_str!("../../../../tests/conformance/toolchain.jsonl");

/// The rows whose `given.kind` is this one.
fn given(kind: &str) -> Vec<Value> {
    let rows = ROWS.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["given"]["kind"] == kind).collect()
}

#[test]
fn each_row_about_an_event_holds_for_every_forge() {
    let found = given("event");
    assert!(found.len() >= 10);
    for row in found {
        let (given, expect) = (&row["given"], &row["expect"]);
        // No delivery is one: the service makes the task itself.
        if given["event"] == ActionType::InfrastructureFailure.as_str() {
            let payload = TaskPayload::of_infrastructure(Language::En, Default::default());
            assert_eq!(payload.action_type, expect["action_type"].as_str().unwrap());
            assert_eq!(payload.steps.len(), expect["steps"].as_u64().unwrap() as usize, "{row}");
            assert_eq!(expect["assignee_role"], INFRASTRUCTURE_ROLE.as_str());
            continue;
        }
        let fits = |task: &ToolchainEvent| {
            task.action_type().as_str() == given["event"]
                && (given["result"].is_null() || task.context["result"] == given["result"])
        };
        let tasks: Vec<ToolchainEvent> = rows()
            .filter_map(|(forge, row)| {
                match read(forge, row["event"].as_str().unwrap(), &row["payload"]) {
                    Ok(Reading::Tasks(tasks)) => Some(tasks),
                    Ok(Reading::Ignored(_) | Reading::Withdrawn(_)) | Err(_) => None,
                }
            })
            .flatten()
            .filter(fits)
            .collect();
        assert!(tasks.len() >= 6, "{row}");
        for task in tasks {
            let payload = task.payload(Language::En);
            assert_eq!(payload.action_type, expect["action_type"].as_str().unwrap());
            assert_eq!(payload.steps.len(), expect["steps"].as_u64().unwrap() as usize, "{row}");
            let last = payload.steps.last().map(|step| step.to_lowercase().replace(" the ", " "));
            assert_eq!(
                last.as_deref().map(|step| step.trim_end_matches('.')),
                expect["last_step"].as_str()
            );
            for key in expect["context_keys"].as_array().unwrap() {
                assert!(payload.context.contains_key(key.as_str().unwrap()), "{row}");
            }
            assert_eq!(task.is_notice(), expect["verify"] == "always passes", "{row}");
        }
    }
}

#[test]
fn each_row_about_a_verification_holds() {
    let began_at: DateTime<Utc> = "2026-11-01T10:00:00Z".parse().unwrap();
    for row in given("verify") {
        let (given, expect) = (&row["given"], &row["expect"]);
        let passed = expect["passed"].as_bool().unwrap();
        if given["db_error"] == true {
            let failure = TaskFailure::from_text(expect["reason"].as_str().unwrap()).unwrap();
            assert_eq!(failure.class(1).as_str(), expect["class"]);
            continue;
        }
        let entries: Vec<TaskEntry> = given["comments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| TaskEntry {
                kind: EntryKind::from_text(entry["type"].as_str().unwrap()).unwrap(),
                author: entry["author"].as_str().unwrap().to_owned(),
                body: entry["body"].as_str().unwrap().to_owned(),
                at: began_at,
            })
            .collect();
        let facts = TaskFacts {
            action_type: given["action_type"].as_str().unwrap_or("review_result"),
            assignee: given["assignee"].as_str().unwrap_or_default(),
            began_at,
            entries: &entries,
            outputs: given["outputs"].as_u64().unwrap() as usize,
        };
        let compatibility = Compatibility {
            any_output: given["compat"]["output_fallback"] == true,
            any_long_comment: given["compat"]["comment_fallback"] == true,
        };
        let result = judge(&facts, compatibility);
        assert_eq!(result.passed(), passed, "{row}");
        if let Some(reason) = expect["reason"].as_str() {
            assert_eq!(result.as_str(), reason, "{row}");
        }
    }
}

#[test]
fn each_row_about_a_failure_holds() {
    let found = given("on_failure");
    assert!(found.len() >= 5);
    for row in found {
        let failure = TaskFailure::from_text(row["given"]["reason"].as_str().unwrap()).unwrap();
        let consecutive = row["given"]["consecutive"].as_u64().unwrap_or(1);
        let is_linked = row["given"].get("linked").is_none_or(|linked| !linked.is_null());
        let class = failure.class(u32::try_from(consecutive).unwrap());
        let class = class.of_subject(is_linked.then_some(1));
        // What cannot be written on a forge that is away falls through to another class.
        let expected = row["expect"]["class"].as_str().unwrap();
        let expected = expected.split(" then ").next();
        assert_eq!(Some(class.as_str()), expected, "{row}");
    }
}

#[test]
fn each_row_about_a_payload_holds() {
    let found = given("payload");
    assert!(found.len() >= 5);
    for row in found {
        let read = TaskPayload::read(&row["given"]["must_haves"]);
        assert_eq!(read.is_ok(), row["expect"]["ok"].as_bool().unwrap(), "{row}");
        if let Err(problem) = read {
            let reason = format!("{}_missing", problem.field.unwrap_or_default());
            assert_eq!(row["expect"]["error"], reason.as_str());
        }
    }
    for row in given("comment_type") {
        let kind = EntryKind::from_text(row["given"]["value"].as_str().unwrap());
        assert_eq!(kind.is_some(), row["expect"]["accepted"].as_bool().unwrap());
    }
}
