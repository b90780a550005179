//! Rows about events of forges, their tasks, and what decides them, by the functions that the services call.

use super::Row;
use super::runtime::Checked;
use super::text_of;
use chrono::DateTime;
use serde_json::Value;
use std::path::Path;
use surety_common::domain::fault::FaultCode;
use surety_common::domain::identity::{Role as Identity, rule_of};
use surety_common::domain::stop::StopReason;
use surety_common::domain::toolchain::{
    Assignee, Compatibility, Delivery, EntryKind, EventType, FailureClass, Forge, Language,
    Reading, ReportResult, Role, Rules, TASK_NAMESPACES, TaskEntry, TaskFacts, TaskFailure,
    TaskPayload, ToolchainEvent, judge,
};
use surety_planner::task::{
    HandedTask, OPTIONAL_WORDS, TASK_TYPES, TaskType, Templates, Toolchain, find_task_type,
};
use uuid::Uuid;

/// The agent that must act, where a row names none.
const ASSIGNEE: &str = "dev";

/// Checks a row.
pub fn check(row: &Row) -> Checked {
    let Ok(value) = serde_json::from_str::<Value>(&row.value.to_compact()) else {
        return Checked::Fails("the row is no JSON".to_owned());
    };
    let (given, expect) = (&value["given"], &value["expect"]);
    let held = match text_of(row.value.get("given").unwrap_or(&row.value), "kind") {
        "event" => event(given, expect),
        "verify" => verify(given, expect),
        "on_failure" => on_failure(given, expect),
        "send" => send(given, expect),
        "payload" => payload(given, expect),
        "render" => render(given, expect),
        "constraints_text" => constraints(expect),
        "isolation" => isolation(given, expect),
        "legacy_task" => legacy(given),
        "comment_type" => {
            let known = EntryKind::from_text(text(given, "value")).is_some();
            same("accepted", &expect["accepted"], known)
        }
        "status_write" => status_write(expect),
        other => Err(format!("no rule is known for the kind {other:?}")),
    };
    held.map_or_else(Checked::Fails, |()| Checked::Holds)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn same<T: Into<Value>>(what: &str, expected: &Value, found: T) -> Result<(), String> {
    let found = found.into();
    if expected.is_null() || *expected == found {
        return Ok(());
    }
    Err(format!("{what}: expected {expected}, found {found}"))
}

/// The events of the recorded deliveries.
fn recorded() -> Result<Vec<ToolchainEvent>, String> {
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
            let delivery = Delivery { forge: *forge, event: text(&row, "event"), body: &body };
            if let Ok(Reading::Tasks(tasks)) = delivery.read(&Rules::default()) {
                events.extend(tasks);
            }
        }
    }
    Ok(events)
}

fn event(given: &Value, expect: &Value) -> Result<(), String> {
    recorded_like(given)?.iter().try_for_each(|event| one_event(event, expect))
}

/// The recorded events that a row is about.
fn recorded_like(given: &Value) -> Result<Vec<ToolchainEvent>, String> {
    let fits = |event: &ToolchainEvent| {
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

fn one_event(event: &ToolchainEvent, expect: &Value) -> Result<(), String> {
    let payload = event.payload(Language::En);
    same("action_type", &expect["action_type"], payload.action_type.as_str())?;
    same("task_type", &expect["task_type"], Toolchain.name())?;
    same("project", &expect["project"], Toolchain.namespace())?;
    same("steps", &expect["steps"], payload.steps.len())?;
    let last = payload.steps.last().map(|step| match step.as_str() {
        "Submit the action report." => "submit action report".to_owned(),
        other => other.to_owned(),
    });
    if last != expect["last_step"].as_str().map(str::to_owned) {
        return Err(format!("last_step: expected {}, found {last:?}", expect["last_step"]));
    }
    let asked = match &event.assignee {
        Assignee::Account(_) => "account",
        Assignee::Role(role) => role.as_str(),
    };
    let role = text(expect, "assignee_role");
    let of_role = match role {
        "reviewer" => asked == "account" || asked == Role::Reviewer.as_str(),
        "infra" => asked == Role::Infra.as_str(),
        "" => true,
        _ => asked == "account",
    };
    if !of_role {
        return Err(format!("assignee_role: expected {role}, found {asked}"));
    }
    for key in expect["context_keys"].as_array().into_iter().flatten() {
        let key = key.as_str().unwrap_or_default();
        if !payload.context.contains_key(key) {
            return Err(format!("the context lacks {key}"));
        }
    }
    let judged = judged(&payload.action_type, &[], 0, Compatibility::default());
    match text(expect, "verify") {
        "always passes" if !judged.passed() => Err(format!("verify: {judged}")),
        "action_report required" if judged != ReportResult::NoAction => {
            Err(format!("verify: {judged}"))
        }
        _ => Ok(()),
    }
}

fn judged(
    action_type: &str,
    entries: &[TaskEntry],
    outputs: usize,
    compatibility: Compatibility,
) -> ReportResult {
    judged_for(ASSIGNEE, (action_type, entries, outputs), compatibility)
}

fn judged_for(
    assignee: &str,
    (action_type, entries, outputs): (&str, &[TaskEntry], usize),
    compatibility: Compatibility,
) -> ReportResult {
    let began_at = DateTime::UNIX_EPOCH;
    judge(&TaskFacts { action_type, assignee, began_at, entries, outputs }, compatibility)
}

fn verify(given: &Value, expect: &Value) -> Result<(), String> {
    if given["db_error"] == Value::Bool(true) {
        let failure = TaskFailure::of_end(StopReason::AcceptCheckFailed, ["verify_error"]);
        same("reason", &expect["reason"], failure.as_str())?;
        return same("class", &expect["class"], failure.class(1).as_str());
    }
    let entry = |comment: &Value| {
        let author = text(comment, "author").to_owned();
        let kind = match EntryKind::from_text(text(comment, "type")) {
            Some(kind) => kind,
            None if author == "system" => EntryKind::System,
            None => EntryKind::Note,
        };
        let at = DateTime::UNIX_EPOCH;
        TaskEntry { kind, author, body: text(comment, "body").to_owned(), at }
    };
    let entries: Vec<TaskEntry> =
        given["comments"].as_array().into_iter().flatten().map(entry).collect();
    let outputs = given["outputs"].as_u64().and_then(|count| usize::try_from(count).ok());
    let assignee = given["assignee"].as_str().unwrap_or(ASSIGNEE);
    let compat = &given["compat"];
    let is_on = |key: &str| compat[key] == Value::Bool(true);
    let compatibility = Compatibility {
        any_output: is_on("output_fallback"),
        any_long_comment: is_on("comment_fallback"),
    };
    let action = given["action_type"].as_str().unwrap_or("ci_failure");
    let facts = (action, entries.as_slice(), outputs.unwrap_or_default());
    let result = judged_for(assignee, facts, compatibility);
    same("passed", &expect["passed"], result.passed())?;
    // A thin report is accepted as a report, with a caution.
    let is_thin = result == ReportResult::ThinReport;
    let reason = if is_thin { ReportResult::HasActionReport } else { result };
    same("reason", &expect["reason"], reason.as_str())
}

fn on_failure(given: &Value, expect: &Value) -> Result<(), String> {
    let failure = match text(given, "reason") {
        "timeout" => TaskFailure::of_end(StopReason::DeadlineExceeded, []),
        word => TaskFailure::from_text(word).ok_or_else(|| format!("no failure {word:?}"))?,
    };
    let consecutive = given["consecutive"].as_u64().unwrap_or(1);
    let class = Toolchain.class_of(failure, u32::try_from(consecutive).unwrap_or(u32::MAX));
    let is_away = text(given, "forge") == "down";
    let (word, action) = match class {
        // What is written on a forge that is away falls through to the infrastructure.
        FailureClass::Business | FailureClass::System if is_away => {
            (format!("{class} then infrastructure"), "infra task")
        }
        FailureClass::Business => (class.to_string(), "comment on the linked"),
        FailureClass::System => (class.to_string(), "create an issue"),
        FailureClass::Infrastructure => (class.to_string(), "action_type=infrastructure_failure"),
    };
    same("class", &expect["class"], word)?;
    match expect["action"].as_str() {
        Some(expected) if !expected.contains(action) => {
            Err(format!("action: expected {expected:?}, found {action:?}"))
        }
        Some(_) | None => Ok(()),
    }
}

fn send(given: &Value, expect: &Value) -> Result<(), String> {
    if given["to"].is_string() {
        return same("refused", &expect["refused"], FaultCode::AgentUnknown.as_str());
    }
    let count = given["count_same_ms"].as_u64().unwrap_or_default();
    let mut ids: Vec<Uuid> = (0..count).map(|_| Uuid::now_v7()).collect();
    let version = ids.iter().all(|id| id.get_version_num() == 7);
    let made = ids.len();
    ids.dedup();
    if version && ids.len() == made && text(expect, "ids") == "UUIDv7" {
        return Ok(());
    }
    Err(format!("ids: {ids:?}"))
}

fn payload(given: &Value, expect: &Value) -> Result<(), String> {
    let read = TaskPayload::read(&given["must_haves"]);
    same("ok", &expect["ok"], read.is_ok())?;
    match read {
        Err(problem) => same("error", &expect["error"], problem.code.as_str()),
        Ok(payload) => {
            let general = instructions(&payload, Language::En)?;
            let is_known = EventType::ALL.iter().any(|event| event.as_str() == payload.event_type);
            let hint = "You received an event that needs action";
            if !is_known && !general.starts_with(hint) {
                return Err(format!("no general hint: {general}"));
            }
            Ok(())
        }
    }
}

fn instructions(payload: &TaskPayload, language: Language) -> Result<String, String> {
    let templates = Templates::load(None).map_err(|error| error.to_string())?;
    let task = HandedTask { run_id: Uuid::nil(), payload, language };
    Toolchain.instructions(&templates, &task).map_err(|error| error.to_string())
}

fn a_payload(steps: Vec<String>) -> TaskPayload {
    TaskPayload {
        event_type: "ci_failed".to_owned(),
        action_type: "ci_failure".to_owned(),
        steps,
        from: "alice".to_owned(),
        context: serde_json::Map::new(),
        source: "gitea".to_owned(),
    }
}

fn render(given: &Value, expect: &Value) -> Result<(), String> {
    let steps = given["steps"].as_array().into_iter().flatten();
    let steps: Vec<String> = steps.filter_map(|step| step.as_str().map(str::to_owned)).collect();
    let shown = instructions(&a_payload(steps.clone()), Language::En)?;
    let places: Vec<Option<usize>> = std::iter::once("You received an event that needs action")
        .map(|part| shown.find(part))
        .chain(
            steps
                .iter()
                .enumerate()
                .map(|(index, step)| shown.find(&format!("\n{}. {step}", index + 1))),
        )
        .collect();
    let in_order = places.iter().all(Option::is_some) && places.is_sorted();
    if !in_order {
        return Err(format!("the sections are at {places:?}"));
    }
    let mut sections = vec!["action hint".to_owned(), "event text".to_owned()];
    if !steps.is_empty() {
        sections.push(format!("numbered steps 1..{}", steps.len()));
    }
    if steps.is_empty() && shown.contains("\nSteps:") {
        return Err("a heading without steps".to_owned());
    }
    same("sections", &expect["sections"], sections)
}

/// The numbered or dashed lines of a part.
fn points(shown: &str, from: &str, to: &str) -> usize {
    let part = shown.split(from).nth(1).and_then(|rest| rest.split(to).next()).unwrap_or_default();
    let is_point = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("- ")
            || line.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok())
    };
    part.lines().filter(is_point).count()
}

fn constraints(expect: &Value) -> Result<(), String> {
    let shown = instructions(&a_payload(vec!["Act.".to_owned()]), Language::En)?;
    let chinese = instructions(&a_payload(vec!["执行。".to_owned()]), Language::Zh)?;
    same("rules", &expect["rules"], points(&shown, "Rules:", "Excuses"))?;
    same("red_flags", &expect["red_flags"], points(&shown, "Excuses", "How to report"))?;
    let own = |text: &str| -> String {
        text.lines().filter(|line| !line.starts_with("> ")).collect::<Vec<_>>().join("\n")
    };
    let forbidden = expect["forbidden_words"].as_array().into_iter().flatten();
    let forbidden: Vec<&str> = forbidden.filter_map(Value::as_str).collect();
    for word in forbidden.iter().chain(&OPTIONAL_WORDS) {
        if own(&chinese).contains(word) || own(&shown).to_lowercase().contains(word) {
            return Err(format!("the instructions have {word:?}"));
        }
    }
    same("no_manual_done", &expect["no_manual_done"], shown.contains("status"))?;
    same("no_mail", &expect["no_mail"], shown.contains("mail"))
}

fn isolation(given: &Value, expect: &Value) -> Result<(), String> {
    recorded_like(given)?;
    same("written_to", &expect["written_to"], format!("{} store", Toolchain.namespace()))?;
    let namespaces: std::collections::BTreeSet<_> =
        TASK_TYPES.iter().map(|kind| kind.namespace()).collect();
    let apart = namespaces.len() == TASK_TYPES.len()
        && namespaces.iter().all(|name| TASK_NAMESPACES.contains(name));
    same("mail_store_unchanged", &expect["mail_store_unchanged"], apart)
}

fn legacy(given: &Value) -> Result<(), String> {
    let found = find_task_type(text(given, "task_type")).map(|kind| kind.namespace());
    match found == given["store"].as_str() {
        true => Ok(()),
        false => Err(format!("its namespace is {found:?}")),
    }
}

/// No call of a driver sets a state, and no entry of an agent is one of the service.
fn status_write(expect: &Value) -> Result<(), String> {
    let sets = ["CancelRun", "PauseRun", "ResumeRun"];
    let may = sets.iter().any(|method| {
        rule_of(&format!("/surety.v1.RunService/{method}"))
            .is_some_and(|rule| rule.grants.iter().any(|grant| grant.role == Identity::Driver))
    });
    same("refused", &expect["refused"], !may)
}
