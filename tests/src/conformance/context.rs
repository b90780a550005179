//! Rows about the conversation that a driver is shown.

use super::runtime::{compare_stated, count, list, number, text};
use super::{Row, text_of};
use std::collections::{BTreeMap, HashMap};
use surety_common::domain::json::{self, Value};
use surety_common::domain::messages::{MESSAGES_NORMALIZED, Message, Normal, Role, normalize};
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::receipt::{EvidenceReceipt, read_receipt};
use surety_common::domain::step::StepState;
use surety_executor::context::{Left, PastTurn, Scene, ToolLine, messages};

/// Checks a row about the context; none when the row is about something else.
pub(super) fn check_context(row: &Row) -> Option<Result<(), String>> {
    let given = row.value.get("given")?;
    let expect = row.value.get("expect")?;
    Some(match text_of(given, "kind") {
        "context_window" => check_window(given, expect),
        "context_dedup" => check_observations(given, expect),
        "context_skeleton" => check_skeleton(expect),
        "role_alternation" => check_roles(given, expect),
        _ => return None,
    })
}

fn check_window(given: &Value, expect: &Value) -> Result<(), String> {
    let named: Vec<&str> = list(given, "loops").iter().filter_map(Value::as_str).collect();
    let loops = match named.len() {
        0 => usize::try_from(number(given, "loops").unwrap_or_default()).unwrap_or_default(),
        loops => loops,
    };
    let tools = if named.is_empty() { vec!["glob"; loops] } else { named };
    let messages = shown(&tools)?;
    let shown = messages.iter().filter(|message| message.role == Role::Assistant).count();
    compare_stated(expect, "shown", &count(shown))?;
    let folded = loops.saturating_sub(shown);
    compare_stated(expect, "folded", &count(folded))?;
    let mut of_tools: BTreeMap<&str, usize> = BTreeMap::new();
    for tool in tools.iter().take(folded) {
        *of_tools.entry(tool).or_default() += 1;
    }
    let is_told = |(tool, count): (&&str, &usize)| {
        messages.iter().any(|it| it.text.contains(&format!("{count} of {tool}")))
    };
    let is_folded = messages.iter().any(|it| it.text.contains("that are not shown"));
    match of_tools.iter().all(is_told) && (folded > 0 || !is_folded) {
        true => Ok(()),
        false => Err(format!("what is folded is not counted by tool: {messages:?}")),
    }
}

fn check_observations(given: &Value, expect: &Value) -> Result<(), String> {
    let tools: Vec<&str> = list(given, "loops").iter().filter_map(Value::as_str).collect();
    let messages = shown(&tools)?;
    let seen = (1..=tools.len()).map(|turn| {
        let is_whole = messages.iter().any(|message| message.text.contains(&whole(turn)));
        text(if is_whole { "full" } else { "<trimmed>" })
    });
    compare_stated(expect, "observations", &Value::Array(seen.collect()))
}

fn check_skeleton(expect: &Value) -> Result<(), String> {
    let messages = shown(&["glob"; 9])?;
    let part = |place: usize, parts: &[&str]| {
        let message = messages.get(place).map_or("", |message| message.text.as_str());
        parts.iter().all(|part| message.contains(part))
    };
    let last = messages.len().saturating_sub(1);
    let holds = messages.iter().take(2).map(|message| message.role).eq([Role::System, Role::User])
        && part(0, &["the rules", "- glob: "])
        && part(1, &["Goal of the run: the goal", "1 of glob"])
        && part(last, &["Left in this attempt"]);
    if !holds {
        return Err(format!("rules and tools, then the goal and the folded history: {messages:?}"));
    }
    match list(expect, "messages").len() {
        2 => Ok(()),
        found => Err(format!("the row describes {found} messages")),
    }
}

fn check_roles(given: &Value, expect: &Value) -> Result<(), String> {
    let known = [Role::System, Role::User, Role::Assistant];
    let mut given_messages = Vec::new();
    for name in list(given, "roles").iter().filter_map(Value::as_str) {
        let role = known.into_iter().find(|role| role.as_str() == name);
        let role = role.ok_or_else(|| format!("{name} is no role"))?;
        given_messages.push(Message::new(role, format!("text {}", given_messages.len())));
    }
    let Normal { messages, merged, changed } = normalize(&given_messages);
    let sent = messages.iter().map(|message| text(message.role.as_str())).collect();
    compare_stated(expect, "sent", &Value::Array(sent))?;
    compare_stated(expect, "merged_count", &count(merged))?;
    let event = if changed { text(MESSAGES_NORMALIZED) } else { Value::Null };
    compare_stated(expect, "event", &event)?;
    // Each given text is a part of one message, and a blank line is between the parts.
    let parts =
        |message: &Message| message.text.split("\n\n").map(str::to_owned).collect::<Vec<_>>();
    let parts: Vec<Vec<String>> = messages.iter().map(parts).collect();
    let is_kept = |message: &Message| parts.iter().flatten().any(|part| *part == message.text);
    if !given_messages.iter().all(is_kept) {
        return Err(format!("a text is lost, or the joiner is no blank line: {messages:?}"));
    }
    match expect.get("joiner").and_then(Value::as_str) {
        Some("blank line" | "\n\n") if parts.iter().any(|parts| parts.len() > 1) => Ok(()),
        Some(joiner) => Err(format!("no neighbours are joined by {joiner:?}: {messages:?}")),
        None => Ok(()),
    }
}

/// The whole observation of a turn.
fn whole(turn: usize) -> String {
    format!("the whole output of turn {turn}.")
}

/// The conversation after these calls, each with its receipt.
fn shown(tools: &[&str]) -> Result<Vec<Message>, String> {
    let turns = tools.iter().zip(1..).map(|(tool, number)| turn(tool, number));
    let turns: Vec<PastTurn> = turns.collect::<Result<_, _>>()?;
    let observations: HashMap<String, String> =
        (1..=tools.len()).map(|turn| (turn.to_string(), whole(turn))).collect();
    let mut called = BTreeMap::new();
    for tool in tools {
        *called.entry((*tool).to_owned()).or_default() += 1;
    }
    let step = PlanStep { id: "s".into(), description: "look".into(), ..PlanStep::default() };
    let plan = Plan { title: "t".into(), steps: vec![step.clone()], ..Plan::default() };
    let tool = ToolLine {
        name: "glob".to_owned(),
        description: "Finds files.".to_owned(),
        schema: "{}".to_owned(),
        sample: "a.rs".to_owned(),
        is_confirmed: false,
        is_from_outside: false,
    };
    let scene = Scene {
        rules: "the rules",
        goal: "the goal",
        plan: &plan,
        todos: &[],
        states: &[StepState::Waiting],
        step: &step,
        tools: &[tool],
        turns: &turns,
        observations: &observations,
        called: &called,
        notice: "",
        hint: "",
        answers: &[],
        left: Left { rounds: 1, tool_calls: 1, ..Left::default() },
    };
    Ok(messages(&scene).messages)
}

fn turn(tool: &str, number: u32) -> Result<PastTurn, String> {
    let text = format!(
        r#"{{"step_index": 0, "step_id": "s", "source": "tool_observation", "name": "{tool}", "success": true}}"#
    );
    let value = json::parse(&text).map_err(|problem| problem.to_string())?.value;
    let read = read_receipt(&value).map_err(|problem| problem.to_string())?;
    let receipt = EvidenceReceipt { call_id: number.to_string(), ..read };
    let (decision, output, answer) = (None, None, None);
    Ok(PastTurn {
        number,
        decision,
        correction: String::new(),
        receipt: Some(receipt),
        output,
        answer,
        answered_wait: None,
        reports: Vec::new(),
    })
}
