//! Rows about events of forges, their tasks, and what decides them, by the functions that the services call.

use super::Row;
use super::runtime::Checked;
use super::text_of;
use crate::harness::Deployment;
use chrono::DateTime;
use serde_json::Value;
use std::path::Path;
use surety_common::domain::fault::FaultCode;
use surety_common::domain::identity::{Role as Identity, rule_of};
use surety_common::domain::machine::run::{RunEvent, RunState, decide};
use surety_common::domain::mail::MailKind;
use surety_common::domain::stop::StopReason;
use surety_common::domain::toolchain::{
    ActionType, Agent, AgentDriver, Assignee, Compatibility, Delivery, EntryKind, EventType,
    FailureClass, Forge, INFRASTRUCTURE_ROLE, Language, Reading, ReportResult, Rules, TaskEntry,
    TaskFacts, TaskFailure, TaskPayload, ToolchainEvent, is_task_namespace, judge,
};
use surety_common::store::{self, Admission, LeftOut};
use surety_planner::task::{
    HandedTask, OPTIONAL_WORDS, TASK_TYPES, TaskType, Templates, Toolchain, find_task_type,
};
use uuid::Uuid;

/// The agent that must act, where a row names none.
const ASSIGNEE: &str = "dev";

/// Checks a row. The registry of agents is that of a live deployment.
pub async fn check(row: &Row, services: Option<&Deployment>) -> Checked {
    let Ok(value) = serde_json::from_str::<Value>(&row.value.to_compact()) else {
        return Checked::Fails("the row is no JSON".to_owned());
    };
    let (given, expect) = (&value["given"], &value["expect"]);
    let held = match text_of(row.value.get("given").unwrap_or(&row.value), "kind") {
        "event" => event(given, expect),
        "verify" => verify(given, expect),
        "on_failure" => on_failure(given, expect),
        "send" if given["to"].is_string() => match services {
            Some(services) => send_to(given, expect, services).await,
            None => Err("no deployment has a registry of agents".to_owned()),
        },
        "send" => send(given, expect),
        "payload" => payload(given, expect),
        "render" => render(given, expect),
        "constraints_text" => constraints(expect),
        "isolation" => isolation(given, expect),
        "legacy_task" => legacy(given, expect),
        "comment_type" => {
            let known = EntryKind::from_text(text(given, "value")).is_some();
            same("accepted", &expect["accepted"], known)
        }
        "status_write" => status_write(given, expect),
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

/// An event and the payload of the delivery that it was read from.
type Recorded = (ToolchainEvent, Value);

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
            let delivery = Delivery { forge: *forge, event: text(&row, "event"), body: &body };
            if let Ok(Reading::Tasks(tasks)) = delivery.read(&Rules::default()) {
                events.extend(tasks.into_iter().map(|task| (task, row["payload"].clone())));
            }
        }
    }
    Ok(events)
}

fn event(given: &Value, expect: &Value) -> Result<(), String> {
    if text(given, "event") == ActionType::InfrastructureFailure.as_str() {
        let payload = TaskPayload::of_infrastructure(Language::En, Default::default());
        return one_event(&payload, &[INFRASTRUCTURE_ROLE.as_str()], expect);
    }
    recorded_like(given)?.iter().try_for_each(|(event, delivery)| {
        let words: Vec<&str> = match &event.assignee {
            Assignee::Account(login) => accounts_words(event.event_type)
                .into_iter()
                .filter(|word| is_account_of(word, login, delivery))
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
fn recorded_like(given: &Value) -> Result<Vec<Recorded>, String> {
    let fits = |(event, _): &Recorded| {
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
        // Without a verdict no task passes.
        same("passed", &expect["passed"], false)?;
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
    let is_on = |key: &str| {
        let flat = format!("compat.{key}");
        [&given["compat"][key], &given[&flat]].contains(&&Value::Bool(true))
    };
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
    // A row that says nothing is about a pull request or an issue.
    let linked = ["linked", "pr_number", "issue_number"].iter().find_map(|key| given.get(key));
    let is_linked = linked.is_none_or(|linked| !linked.is_null());
    let class = class.of_subject(is_linked.then_some(1));
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

/// Looks the agent of an account up in the registry, which has those that the row names.
async fn send_to(given: &Value, expect: &Value, services: &Deployment) -> Result<(), String> {
    let pool = services.database.pool().await.map_err(|error| error.to_string())?;
    let named = given["agents"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let known: Vec<&str> = std::iter::once(ASSIGNEE).chain(named).collect();
    for id in known {
        let agent = Agent {
            id: id.to_owned(),
            accounts: vec![(Forge::Gitea, id.to_owned())],
            roles: Vec::new(),
            language: Language::En,
            concurrency: 1,
            credential: String::new(),
            driver: AgentDriver::Remote,
        };
        let agent = agent.normalized().map_err(|problem| problem.to_string())?;
        let kept = store::put_agent(&pool, &agent, "rows", DateTime::UNIX_EPOCH).await;
        kept.map_err(|error| error.to_string())?;
    }
    let asked = Assignee::Account(text(given, "to").to_owned());
    let found = async {
        let mut admission = Admission::begin(&pool, []).await?;
        admission.agent_of(Forge::Gitea, &asked, &LeftOut::default()).await
    };
    let found = found.await.map_err(|error| error.to_string())?;
    pool.close().await;
    let code = FaultCode::AgentUnknown.as_str();
    let refused = found.is_none().then_some(code);
    match expect["refused"].as_bool() {
        Some(wanted) => same("refused", &Value::Bool(wanted), refused.is_some()),
        None if expect["refused"].as_str() == refused => Ok(()),
        None => Err(format!("refused: expected {}, found {refused:?}", expect["refused"])),
    }
}

fn send(given: &Value, expect: &Value) -> Result<(), String> {
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
            let is_general = general.starts_with("You received an event that needs action");
            let hint = expect["hint"].as_str();
            let is_wanted = hint.map_or(!is_known, |hint| hint.contains("generic"));
            if is_wanted && !is_general || hint.is_some() && !is_wanted {
                return Err(format!("hint: expected {hint:?}, found {general}"));
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
    same("order_fixed", &expect["order_fixed"], in_order)?;
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
    if text(given, "event") != ActionType::InfrastructureFailure.as_str() {
        recorded_like(given)?;
    }
    same("written_to", &expect["written_to"], format!("{} store", Toolchain.namespace()))?;
    let namespaces: std::collections::BTreeSet<_> =
        TASK_TYPES.iter().map(|kind| kind.namespace()).collect();
    let apart = namespaces.len() == TASK_TYPES.len()
        && namespaces.iter().all(|name| is_task_namespace(name));
    same("mail_store_unchanged", &expect["mail_store_unchanged"], apart)
}

fn legacy(given: &Value, expect: &Value) -> Result<(), String> {
    let kind = find_task_type(text(given, "task_type")).ok_or("no task type has that name")?;
    same("handled_by", &expect["handled_by"], format!("{} handler", kind.name()))?;
    let is_moved = kind.namespace() != text(given, "store");
    if expect.get("migrated").is_none() && is_moved {
        return Err(format!("its namespace is {}", kind.namespace()));
    }
    same("migrated", &expect["migrated"], is_moved)?;
    let said = text(expect, "verify");
    if said.is_empty() {
        return Ok(());
    }
    // The service writes the report of a message when its receiver reads it.
    let read = TaskEntry {
        kind: EntryKind::ActionReport,
        author: ASSIGNEE.to_owned(),
        body: "The message was read.".to_owned(),
        at: DateTime::UNIX_EPOCH,
    };
    let judged = judged(MailKind::Inform.as_str(), &[read], 0, Compatibility::default());
    match said.contains("passes") && judged == ReportResult::HasActionReport {
        true => Ok(()),
        false => Err(format!("verify: expected {said:?}, found {judged}")),
    }
}

/// The states that a call of a caller may set, and the call.
const SETTING_CALLS: [(&str, &str); 3] =
    [("CANCELLED", "CancelRun"), ("BLOCKED", "PauseRun"), ("EXECUTING", "ResumeRun")];

/// The verification sets a state by an event of the machine. Others set one by a call, where one of their roles may make
/// it.
fn status_write(given: &Value, expect: &Value) -> Result<(), String> {
    let state = match text(given, "to").to_ascii_lowercase().as_str() {
        "done" | "accepted" => "DONE",
        "failed" => "FAILED",
        "cancelled" | "canceled" => "CANCELLED",
        "blocked" | "paused" => "BLOCKED",
        "executing" | "running" | "in_progress" => "EXECUTING",
        "verifying" => "VERIFYING",
        other => return Err(format!("{other:?} is no state")),
    };
    let roles = match text(given, "by") {
        "verification" | "verifier" | "gate" | "system" => {
            let states = RunEvent::ALL
                .into_iter()
                .filter_map(|event| decide(RunState::Verifying, event).ok().map(RunState::as_str));
            let may = states.into_iter().any(|found| found == state);
            return same("refused", &expect["refused"], !may);
        }
        "agent" | "assignee" | "driver" | "model" => vec![Identity::Driver],
        "user" => vec![Identity::Submitter],
        word => {
            let role = Identity::ALL.into_iter().find(|role| role.as_str() == word);
            vec![role.ok_or_else(|| format!("{word:?} is no role"))?]
        }
    };
    let call = SETTING_CALLS.iter().find(|(set, _)| *set == state).map(|(_, call)| *call);
    let rule = call.and_then(|call| rule_of(&format!("/surety.v1.RunService/{call}")));
    let may = rule.is_some_and(|rule| rule.grants.iter().any(|it| roles.contains(&it.role)));
    same("refused", &expect["refused"], !may)
}
