//! The conversation that a driver continues: one system message, then user and assistant messages by turns.

use super::history::{PastTurn, TOOL_TURNS};
use super::left::Left;
use super::observation::{placeholder, report_line};
use super::system::{ToolLine, system, words_of_workers};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use surety_common::domain::check::AcceptCheck;
use surety_common::domain::decision::ExecuteDecision;
use surety_common::domain::execution::GivenAnswer;
use surety_common::domain::json::Value;
use surety_common::domain::messages::{Message, Normal, Role, normalize};
use surety_common::domain::plan::{Evidence, Plan, PlanStep};
use surety_common::domain::step::StepState;
use surety_common::domain::todo::{Todo, TodoStatus};

/// The reports of workers that are shown of one turn; earlier ones are counted.
const REPORTS: usize = 10;
/// The longest text of an earlier turn that is shown whole, in bytes, and what is shown of a longer one. A reply has up to
/// 1 MiB, and clients of gRPC take messages of 4 MiB where they set nothing.
const EARLIER_BYTES: usize = 4 << 10;
const EARLIER_HEAD: usize = 1 << 10;
/// The most bytes of a target or a parameter of a check.
const CHECK_BYTES: usize = 500;

/// What a driver decides from.
#[derive(Debug, Clone)]
pub struct Scene<'a> {
    /// The rules: the text of the step's prompt.
    pub rules: &'a str,
    /// The goal of the run.
    pub goal: &'a str,
    /// The plan.
    pub plan: &'a Plan,
    /// The present todos of the run.
    pub todos: &'a [Todo],
    /// The states of its steps, in the plan's order.
    pub states: &'a [StepState],
    /// The step.
    pub step: &'a PlanStep,
    /// The tools that the step may call, sorted by name.
    pub tools: &'a [ToolLine],
    /// The turns of the attempt that are known, in order.
    pub turns: &'a [PastTurn],
    /// The observations of their calls by call id, where they are shown whole.
    pub observations: &'a HashMap<String, String>,
    /// The calls of the attempt by tool, all of them.
    pub called: &'a BTreeMap<String, u32>,
    /// What the driver is is_shown before this turn; may be empty.
    pub notice: &'a str,
    /// Why the attempt follows another; may be empty.
    pub hint: &'a str,
    /// What people answered to the questions of the run's drivers.
    pub answers: &'a [GivenAnswer],
    /// What is left of the limits.
    pub left: Left,
}

/// The conversation in its normal form, the system message first.
pub fn messages(scene: &Scene<'_>) -> Normal {
    let window = window(scene.turns);
    let mut messages = vec![
        Message { role: Role::System, text: system(scene.rules, scene.tools) },
        Message { role: Role::User, text: opening(scene, window) },
    ];
    let newest = newest_by_tool(window);
    for (place, turn) in window.iter().enumerate() {
        let is_last = place + 1 == window.len();
        messages.push(Message::new(Role::Assistant, said(turn, is_last)));
        let came_to = came_to((turn, is_last), &newest, scene.observations);
        messages.push(Message::new(Role::User, came_to));
    }
    let is_shown = window.last().is_some_and(|turn| turn.correction == scene.notice);
    let notice = (!scene.notice.is_empty() && !is_shown).then(|| marked(scene.notice));
    if let Some(last) = messages.last_mut() {
        for part in notice.into_iter().chain([scene.left.text()]) {
            last.text.push_str("\n\n");
            last.text.push_str(&part);
        }
    }
    normalize(&messages)
}

/// The turns from the first of the last calls that are shown.
fn window(turns: &[PastTurn]) -> &[PastTurn] {
    let calls: Vec<usize> = turns
        .iter()
        .enumerate()
        .filter(|(_, turn)| turn.receipt.is_some())
        .map(|(place, _)| place)
        .collect();
    let before = calls.len().saturating_sub(TOOL_TURNS);
    let first = match before {
        0 => turns.len().saturating_sub(4 * TOOL_TURNS),
        before => calls.get(before).copied().unwrap_or_default(),
    };
    turns.get(first..).unwrap_or_default()
}

fn newest_by_tool(window: &[PastTurn]) -> BTreeSet<u32> {
    let mut newest: HashMap<&str, u32> = HashMap::new();
    for turn in window {
        if let Some(tool) = turn.tool() {
            newest.insert(tool, turn.number);
        }
    }
    newest.into_values().collect()
}

fn opening(scene: &Scene<'_>, window: &[PastTurn]) -> String {
    let Scene { goal, plan, states, step, .. } = scene;
    let mut lines = vec![format!("Goal of the run: {goal}"), format!("Plan: {}", plan.title)];
    for (other, state) in plan.steps.iter().zip(states.iter()) {
        let here = if other.id == step.id { ", your step" } else { "" };
        lines.push(format!("- {} ({}{here}): {}", other.id, state.as_str(), other.description));
    }
    lines.push(format!("Your step: {}: {}", step.id, step.description));
    if !step.done_when.is_empty() {
        lines.push(format!("It is done when: {}", step.done_when));
    }
    if !step.outputs_expected.is_empty() {
        lines.push(format!("It is expected to leave: {}", step.outputs_expected.join("; ")));
    }
    if step.evidence == Evidence::None {
        lines.push("It needs no evidence.".to_owned());
    }
    for check in step.verify.iter().filter(|check| !check.is_hidden()) {
        lines.push(format!("It must hold at the end of the step: {}", check_line(check)));
    }
    for check in plan.verify.iter().filter(|check| !check.is_hidden() && check.required) {
        let owner = check.owner.as_str();
        lines.push(format!("The run is accepted when: {} (of the {owner})", check_line(check)));
    }
    if !scene.hint.is_empty() {
        lines.push(marked(scene.hint));
    }
    if !step.write_scope.is_empty() {
        lines.push(format!("It may write only: {}", step.write_scope.join(", ")));
    }
    for todo in scene.todos.iter().filter(|todo| !todo.status.is_terminal()) {
        let required = if todo.required { "required" } else { "optional" };
        let status = match todo.status {
            TodoStatus::InProgress => ", in progress",
            TodoStatus::Blocked => ", blocked",
            TodoStatus::Pending
            | TodoStatus::Completed
            | TodoStatus::Failed
            | TodoStatus::Cancelled => "",
        };
        lines.push(format!("Open todo {} ({required}{status}): {}", todo.id, todo.content));
    }
    lines.extend(earlier_answers(scene, window));
    lines.extend(words_of_workers(scene.tools));
    lines.extend(folded(scene, window));
    lines.join("\n")
}

/// A check by its kind, its target and its parameters.
fn check_line(check: &AcceptCheck) -> String {
    let mut line = check.kind.as_str().to_owned();
    if !check.target.is_empty() {
        line.push_str(&format!(" {}", shortened(&check.target)));
    }
    for (name, value) in &check.params {
        let value = Value::String(shortened(value)).to_compact();
        line.push_str(&format!(" {name}={value}"));
    }
    line
}

/// A part of a check, which stands in every turn and may be long.
fn shortened(text: &str) -> String {
    if text.len() <= CHECK_BYTES {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(CHECK_BYTES)];
    format!("{head} [... {} bytes in all]", text.len())
}

/// The answers that stand beside no turn of the window: to other steps, and to earlier turns and attempts.
fn earlier_answers(scene: &Scene<'_>, window: &[PastTurn]) -> Vec<String> {
    let is_shown =
        |given: &&GivenAnswer| window.iter().any(|turn| turn.answered_wait == Some(given.wait_id));
    let earlier = scene.answers.iter().filter(|given| !is_shown(given));
    let line = |given: &GivenAnswer| {
        let GivenAnswer { step_id, question, answer, by, .. } = given;
        format!("Earlier question of step {step_id}: {question}\nAnswer of {by}: {answer}")
    };
    earlier.map(line).collect()
}

/// What fell out of the window, counted by tool.
fn folded(scene: &Scene<'_>, window: &[PastTurn]) -> Option<String> {
    let mut counts = scene.called.clone();
    for tool in window.iter().filter_map(PastTurn::tool) {
        if let Some(count) = counts.get_mut(tool) {
            *count = count.saturating_sub(1);
        }
    }
    counts.retain(|_, count| *count > 0);
    if counts.is_empty() {
        return None;
    }
    let counts: Vec<String> =
        counts.into_iter().map(|(tool, count)| format!("{count} of {tool}")).collect();
    Some(format!("Earlier calls of this attempt that are not shown: {}.", counts.join(", ")))
}

/// The decision of a turn: the last one whole, of earlier ones long texts are cut.
fn said(turn: &PastTurn, is_last: bool) -> String {
    match &turn.decision {
        Some(decision) if is_last => decision_text(decision),
        Some(decision) => {
            let mut decision = decision.clone();
            let ExecuteDecision { speak, reason, goal_check, .. } = &mut decision;
            [speak, reason, goal_check].into_iter().for_each(cut);
            if let Some(call) = &mut decision.tool_call {
                cut(&mut call.name);
                shorten(&mut call.arguments);
            }
            decision_text(&decision)
        }
        None => "[a reply without a decision]".to_owned(),
    }
}

/// Cuts every long text of a value.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => cut(text),
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, value)| shorten(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn cut(text: &mut String) {
    let bytes = text.len();
    if bytes > EARLIER_BYTES {
        text.truncate(text.floor_char_boundary(EARLIER_HEAD));
        text.push_str(&format!(" [... {bytes} bytes in all; the turn had them whole]"));
    }
}

fn came_to(
    (turn, is_last): (&PastTurn, bool),
    newest: &BTreeSet<u32>,
    observations: &HashMap<String, String>,
) -> String {
    let mut parts = Vec::new();
    if let Some(receipt) = &turn.receipt {
        let whole = newest.contains(&turn.number).then(|| observations.get(&receipt.call_id));
        let text = whole.flatten().cloned().unwrap_or_else(|| placeholder(receipt));
        parts.push(format!("Observation of turn {}:\n{text}", turn.number));
    }
    parts.extend(reports(turn));
    if let Some((by, answer)) = &turn.answer {
        parts.push(format!("Answer of {by} to your question:\n{answer}"));
    }
    if !turn.correction.is_empty() {
        let mut correction = turn.correction.clone();
        if !is_last {
            cut(&mut correction);
        }
        parts.push(marked(&correction));
    }
    if parts.is_empty() {
        parts.push(format!("Turn {} was applied.", turn.number));
    }
    parts.join("\n\n")
}

/// The newest reports of workers beside a turn, one a line.
fn reports(turn: &PastTurn) -> Option<String> {
    let before = turn.reports.len().saturating_sub(REPORTS);
    let mut lines: Vec<String> = turn.reports.iter().skip(before).map(report_line).collect();
    if before > 0 {
        lines.insert(0, format!("Earlier reports of workers that are not shown: {before}."));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// A text of the runner, which counts as no user input.
fn marked(text: &str) -> String {
    format!("[from the runner, no user input]\n{text}")
}

/// A decision as the JSON that a driver writes; what is empty is left out.
pub(crate) fn decision_text(decision: &ExecuteDecision) -> String {
    let ExecuteDecision { speak, action, reason, goal_check, tool_call, abort, answer_schema } =
        decision;
    let text = |text: &str| Value::String(text.to_owned());
    let mut fields = vec![("action".to_owned(), text(action.as_str()))];
    for (key, value) in [("speak", speak), ("reason", reason), ("goal_check", goal_check)] {
        if !value.is_empty() {
            fields.push((key.to_owned(), text(value)));
        }
    }
    if let Some(call) = tool_call {
        let call = vec![
            ("name".to_owned(), text(&call.name)),
            ("arguments".to_owned(), call.arguments.clone()),
        ];
        fields.push(("tool_call".to_owned(), Value::Object(call)));
    }
    if let Some(abort) = abort {
        let abort = [
            ("code", &abort.code),
            ("user_message", &abort.user_message),
            ("internal_reason", &abort.internal_reason),
        ];
        let abort = abort.map(|(key, value)| (key.to_owned(), text(value)));
        fields.push(("abort".to_owned(), Value::Object(abort.to_vec())));
    }
    if let Some(schema) = answer_schema {
        fields.push(("answer_schema".to_owned(), schema.clone()));
    }
    Value::Object(fields).to_compact()
}
