//! Rows about events of forges, their tasks, and what decides them: by the functions that the services call, and by calls
//! to services where the outcome is what they store.

mod event;
mod live;
mod outage;

pub use live::Live;

use super::Row;
use super::runtime::Checked;
use super::text_of;
use crate::harness::Deployment;
use chrono::DateTime;
use serde_json::Value;
use surety_common::domain::fault::FaultCode;
use surety_common::domain::identity::{Role as Identity, rule_of};
use surety_common::domain::machine::run::{RunEvent, RunState, decide};
use surety_common::domain::mail::MailKind;
use surety_common::domain::stop::StopReason;
use surety_common::domain::toolchain::{
    Agent, AgentDriver, Assignee, Compatibility, EntryKind, EventType, FailureClass, Forge,
    Language, ReportResult, TaskEntry, TaskFacts, TaskFailure, TaskPayload, judge,
};
use surety_common::store::{self, Admission, LeftOut};
use surety_planner::task::{
    HandedTask, OPTIONAL_WORDS, TaskType, Templates, Toolchain, find_task_type,
};
use uuid::Uuid;

/// The agent that must act, where a row names none.
const ASSIGNEE: &str = "dev";

/// Checks a row. The registry of agents is that of a live deployment; rows about what is stored have services of their own.
pub async fn check(row: &Row, services: Option<&Deployment>, live: &Live) -> Checked {
    let Ok(value) = serde_json::from_str::<Value>(&row.value.to_compact()) else {
        return Checked::Fails("the row is no JSON".to_owned());
    };
    let (given, expect) = (&value["given"], &value["expect"]);
    let held = match text_of(row.value.get("given").unwrap_or(&row.value), "kind") {
        "event" => event::check(given, expect),
        "verify" if given["db_error"] == Value::Bool(true) => outage::verify(live, expect).await,
        "verify" => verify(given, expect),
        "on_failure" if is_away(given) => outage::on_failure(live, given, expect).await,
        "on_failure" => on_failure(given, expect),
        "send" if given["to"].is_string() => match services {
            Some(services) => send_to(given, expect, services).await,
            None => Err("no deployment has a registry of agents".to_owned()),
        },
        "send" => said(live::send(live, given, expect).await),
        "payload" => payload(given, expect),
        "render" => render(given, expect),
        "constraints_text" => constraints(expect),
        "isolation" => said(live::isolation(live, given, expect).await),
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

/// The outcome of a row whose calls may fail.
fn said(held: anyhow::Result<()>) -> Result<(), String> {
    held.map_err(|error| format!("{error:#}"))
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

/// Whether the forge of a row cannot be reached.
fn is_away(given: &Value) -> bool {
    text(given, "forge") == "down"
}

/// A failed task, as a row states it.
#[derive(Clone, Copy)]
struct Failed {
    failure: TaskFailure,
    /// The failures of its chain, this one included.
    consecutive: u32,
    /// Whether it is about a pull request or an issue.
    is_linked: bool,
}

impl Failed {
    fn of(given: &Value) -> Result<Self, String> {
        let failure = match text(given, "reason") {
            "timeout" => TaskFailure::of_end(StopReason::DeadlineExceeded, []),
            word => TaskFailure::from_text(word).ok_or_else(|| format!("no failure {word:?}"))?,
        };
        let consecutive = given["consecutive"].as_u64().unwrap_or(1);
        let consecutive = u32::try_from(consecutive).unwrap_or(u32::MAX);
        // A row that says nothing is about a pull request or an issue.
        let linked = ["linked", "pr_number", "issue_number"].iter().find_map(|key| given.get(key));
        let is_linked = linked.is_none_or(|linked| !linked.is_null());
        Ok(Self { failure, consecutive, is_linked })
    }
}

fn on_failure(given: &Value, expect: &Value) -> Result<(), String> {
    let Failed { failure, consecutive, is_linked } = Failed::of(given)?;
    let class = Toolchain.class_of(failure, consecutive).of_subject(is_linked.then_some(1));
    compare_class(class, is_away(given), expect)
}

/// Compares the class that a failure is acted on by.
fn compare_class(class: FailureClass, is_away: bool, expect: &Value) -> Result<(), String> {
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
