//! Rows about the tasks that events ask for, by the recorded deliveries of the forges.

use super::{judged, same, text};
use serde_json::Value;
use std::path::Path;
use surety_common::domain::toolchain::{
    ActionType, Assignee, Compatibility, Delivery, EventType, Forge, INFRASTRUCTURE_ROLE, Language,
    Reading, ReportResult, Rules, TaskPayload, ToolchainEvent,
};
use surety_planner::task::{TaskType, Toolchain};

/// An event, and the delivery that it was read from.
pub(super) struct Recorded {
    pub(super) event: ToolchainEvent,
    /// The name of the event in the header of the delivery.
    pub(super) header: String,
    pub(super) payload: Value,
}

/// The events of the recorded deliveries.
fn recorded() -> Result<Vec<Recorded>, String> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/common/tests/forge_events/fixtures");
    let mut events = Vec::new();
    for forge in Forge::ALL {
        let path = folder.join(format!("{forge}.jsonl"));
        let rows = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        for line in rows.lines().filter(|line| !line.trim().is_empty()) {
            let row: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            let body = row["payload"].to_string();
            let header = text(&row, "event");
            let delivery = Delivery { forge: *forge, event: header, body: &body };
            if let Ok(Reading::Tasks(tasks)) = delivery.read(&Rules::default()) {
                events.extend(tasks.into_iter().map(|event| Recorded {
                    event,
                    header: header.to_owned(),
                    payload: row["payload"].clone(),
                }));
            }
        }
    }
    Ok(events)
}

/// Checks what the recorded events of a kind ask for.
pub(super) fn check(given: &Value, expect: &Value) -> Result<(), String> {
    if text(given, "event") == ActionType::InfrastructureFailure.as_str() {
        let payload = TaskPayload::of_infrastructure(Language::En, Default::default());
        return one_event(&payload, &[INFRASTRUCTURE_ROLE.as_str()], expect);
    }
    recorded_like(given)?.iter().try_for_each(|Recorded { event, payload, .. }| {
        let words: Vec<&str> = match &event.assignee {
            Assignee::Account(login) => accounts_words(event.event_type)
                .into_iter()
                .filter(|word| is_account_of(word, login, payload))
                .collect(),
            Assignee::Role(role) => vec![role.as_str()],
        };
        one_event(&event.payload(Language::En), &words, expect)
    })
}

/// What the account that must act on an event is to it.
fn accounts_words(event: EventType) -> Vec<&'static str> {
    match event {
        EventType::ReviewRequested | EventType::CommitsPushed => vec!["reviewer"],
        EventType::IssueAssigned => vec!["developer", "assignee"],
        EventType::Mention => vec!["mentioned"],
        EventType::ReviewApproved
        | EventType::ChangesRequested
        | EventType::ReviewComment
        | EventType::CiFailed
        | EventType::PullRequestMerged => vec!["pr_author"],
        EventType::DeploymentFailed | EventType::InfrastructureFailure => Vec::new(),
    }
}

/// Whether a delivery names an account as what a word says; a delivery that names none agrees.
fn is_account_of(word: &str, login: &str, delivery: &Value) -> bool {
    let places: &[&str] = match word {
        "pr_author" => &["/pull_request/user/login", "/issue/user/login"],
        "developer" | "assignee" => {
            &["/issue/assignees", "/issue/assignee/login", "/assignee/login"]
        }
        "reviewer" => &["/pull_request/requested_reviewers", "/requested_reviewer/login"],
        _ => {
            return delivery
                .to_string()
                .to_lowercase()
                .contains(&format!("@{}", login.to_lowercase()));
        }
    };
    let found = places.iter().filter_map(|place| delivery.pointer(place));
    let logins = found.flat_map(|found| match found.as_array() {
        Some(accounts) => accounts.iter().filter_map(|account| account["login"].as_str()).collect(),
        None => found.as_str().into_iter().collect::<Vec<_>>(),
    });
    let mut logins = logins.peekable();
    logins.peek().is_none() || logins.any(|found| found.eq_ignore_ascii_case(login))
}

/// The recorded events that a row is about.
pub(super) fn recorded_like(given: &Value) -> Result<Vec<Recorded>, String> {
    let fits = |Recorded { event, .. }: &Recorded| {
        let result = &given["result"];
        let found = event.context.get("result").unwrap_or(&Value::Null);
        event.action_type().as_str() == text(given, "event")
            && (result.is_null() || result == found)
    };
    let events: Vec<_> = recorded()?.into_iter().filter(fits).collect();
    if events.is_empty() {
        return Err("no recorded delivery is such an event".to_owned());
    }
    Ok(events)
}

/// Checks the task of an event; `words` name who must act.
fn one_event(payload: &TaskPayload, words: &[&str], expect: &Value) -> Result<(), String> {
    same("action_type", &expect["action_type"], payload.action_type.as_str())?;
    same("task_type", &expect["task_type"], Toolchain.name())?;
    same("project", &expect["project"], Toolchain.namespace())?;
    same("steps", &expect["steps"], payload.steps.len())?;
    let last = payload.steps.last().map(|step| match step.as_str() {
        "Submit the action report." => "submit action report".to_owned(),
        other => other.to_owned(),
    });
    let is_stated = expect.get("last_step").is_some();
    if is_stated && last != expect["last_step"].as_str().map(str::to_owned) {
        return Err(format!("last_step: expected {}, found {last:?}", expect["last_step"]));
    }
    let role = text(expect, "assignee_role");
    if !role.is_empty() && !words.contains(&role) {
        return Err(format!("assignee_role: expected {role}, found {words:?}"));
    }
    same("from", &expect["from"], payload.from.as_str())?;
    for key in expect["context_keys"].as_array().into_iter().flatten() {
        let key = key.as_str().unwrap_or_default();
        if !payload.context.contains_key(key) {
            return Err(format!("the context lacks {key}"));
        }
    }
    let judged = judged(&payload.action_type, &[], 0, Compatibility::default());
    match text(expect, "verify") {
        "" => Ok(()),
        "action_report required" if judged == ReportResult::NoAction => Ok(()),
        "action_report required" => Err(format!("verify: {judged}")),
        said if said.contains("passes") && judged.passed() => Ok(()),
        said => Err(format!("verify: expected {said:?}, found {judged}")),
    }
}
