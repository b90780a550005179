//! Rows about repeat cycles, completion, corrections and tool timeouts.

use super::context::check_context;
use super::{Row, compare, movement, replies, text_of};
use surety_common::domain::json::{self, Value};
use surety_common::domain::plan::ToolCall;
use surety_executor::fuse::repeat::{self, Repeat, RepeatCycle, Turn};
use surety_executor::fuse::timeout::{CallEnd, Timeouts, Timing};

/// The result of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// It passes.
    Holds,
    /// It fails; the actual result.
    Fails(String),
}

/// Checks a row of `runtime.jsonl` by asking the pure module that decides what it is about.
pub fn check(row: &Row) -> Checked {
    let kind = row.value.get("given").map_or("", |given| text_of(given, "kind"));
    let outcome = check_fuse(row).or_else(|| movement::check_movement(row));
    match outcome.or_else(|| check_context(row)) {
        Some(Ok(())) => Checked::Holds,
        Some(Err(message)) => Checked::Fails(message),
        None => Checked::Fails(format!("rows of the kind {kind:?} are unknown")),
    }
}

/// Checks a row about a fuse; none when the row is about something else.
fn check_fuse(row: &Row) -> Option<Result<(), String>> {
    let given = row.value.get("given")?;
    let expect = row.value.get("expect")?;
    Some(match text_of(given, "kind") {
        "repeat_cycle" => check_repeat(given, expect),
        "tool_signature" => check_signature(given, expect),
        "result_fingerprint" => check_fingerprint(given, expect),
        "completion" => replies::check_completion(given, expect),
        "corrections" => replies::check_corrections(given, expect),
        "timeout_seq" => check_timeouts(given, expect),
        "timeout_key" => check_timeout_key(given, expect),
        "timeout_excluded" => check_timeout_excluded(given, expect),
        "timeout_detect" => check_timeout_detect(given, expect),
        _ => return None,
    })
}

pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).unwrap_or_default()
}

pub(super) fn number(value: &Value, key: &str) -> Option<u64> {
    value.get(key)?.as_number()?.parse().ok()
}

pub(super) fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

pub(super) fn count(count: impl ToString) -> Value {
    Value::Number(count.to_string())
}

/// Compares what was found with an expectation, where the row states one.
pub(super) fn compare_stated(expect: &Value, key: &str, found: &Value) -> Result<(), String> {
    match expect.get(key) {
        Some(expected) => compare(key, expected, found),
        None => Ok(()),
    }
}

fn check_repeat(given: &Value, expect: &Value) -> Result<(), String> {
    let limit = number(given, "limit").unwrap_or_default();
    let limit = u32::try_from(limit).map_err(|error| error.to_string())?;
    let Ok(mut fuse) = RepeatCycle::new(limit) else {
        let refused = expect.get("refused").is_some();
        return refused.then_some(()).ok_or("the limit was refused".into());
    };
    let mut verdicts = Vec::new();
    for round in list(given, "rounds") {
        let verdict = fuse.record(Turn {
            call: text_of(round, "sig").to_owned(),
            result: text_of(round, "result").to_owned(),
            subgoal: text_of(round, "subgoal").to_owned(),
        });
        verdicts.push(text(match verdict {
            Repeat::Ok => "ok",
            Repeat::Remind => "remind",
            Repeat::Terminate => "terminate",
        }));
    }
    if expect.get("per_round").is_some_and(|rounds| !rounds.is_null()) {
        compare_stated(expect, "per_round", &Value::Array(verdicts))?;
    }
    let stopped = if fuse.is_terminated() { text("repeat_cycle") } else { Value::Null };
    compare_stated(expect, "stop_reason", &stopped)
}

fn check_signature(given: &Value, expect: &Value) -> Result<(), String> {
    let signature = |key| {
        let calls: Vec<ToolCall> = list(given, key).iter().map(written_call).collect();
        repeat::call_signature(&calls)
    };
    let equal = signature("calls_a") == signature("calls_b");
    compare_stated(expect, "equal", &Value::Bool(equal))
}

/// A call whose arguments a row writes as text. Text that is no JSON stays text.
fn written_call(call: &Value) -> ToolCall {
    let arguments = text_of(call, "arguments");
    let read = json::parse(arguments).map(|parsed| parsed.value);
    call_of(text_of(call, "name"), read.unwrap_or_else(|_| text(arguments)))
}

fn check_fingerprint(given: &Value, expect: &Value) -> Result<(), String> {
    let print = |key| repeat::result_fingerprint(text_of(given, key));
    let equal = print("content_a") == print("content_b");
    compare_stated(expect, "equal", &Value::Bool(equal))
}

fn call_of(tool: &str, arguments: Value) -> ToolCall {
    ToolCall { name: tool.to_owned(), arguments }
}

fn timing_of(tool: &str, base_s: Option<u64>) -> Timing {
    Timing::of(&call_of(tool, Value::Object(Vec::new())), base_s, None)
}

fn check_timeouts(given: &Value, expect: &Value) -> Result<(), String> {
    let base_s = number(given, "base_s");
    let timing = timing_of(text_of(given, "tool"), base_s);
    let mut state = Timeouts::default();
    let mut seen = Vec::new();
    for outcome in list(given, "outcomes") {
        seen.push(count(state.budget_s(&timing)));
        let end = if outcome.as_str() == Some("timeout") {
            CallEnd::DeadlinePassed
        } else {
            CallEnd::Returned
        };
        state.record(&timing, end);
    }
    let next = count(state.budget_s(&timing));
    compare_stated(expect, "timeouts_s", &Value::Array(seen))?;
    compare_stated(expect, "next_s", &next)?;
    compare_stated(expect, "after_ok_s", &next)
}

fn check_timeout_key(given: &Value, expect: &Value) -> Result<(), String> {
    let key = |side| {
        let call = given.get(side)?;
        let call = call_of(text_of(call, "tool"), call.get("args")?.clone());
        Some(Timing::of(&call, None, None).key().to_owned())
    };
    compare_stated(expect, "same_key", &Value::Bool(key("a") == key("b")))
}

fn check_timeout_excluded(given: &Value, expect: &Value) -> Result<(), String> {
    for tool in list(given, "tools").iter().filter_map(Value::as_str) {
        let timing = timing_of(tool, None);
        let mut state = Timeouts::default();
        let before = state.budget_s(&timing);
        state.record(&timing, CallEnd::DeadlinePassed);
        let backs_off = state.budget_s(&timing) != before;
        compare_stated(expect, "backoff", &Value::Bool(backs_off))?;
    }
    let budget = |tool, base_s| count(Timeouts::default().budget_s(&timing_of(tool, base_s)));
    let bounds = |tool| Value::Array(vec![budget(tool, Some(0)), budget(tool, Some(u64::MAX))]);
    compare_stated(expect, "ask_user_s", &bounds("ask_user"))?;
    if let Some(subagent) = expect.get("subagent_s") {
        for (key, base_s) in [("default", None), ("min", Some(0)), ("max", Some(u64::MAX))] {
            compare_stated(subagent, key, &budget("spawn_subagent", base_s))?;
        }
    }
    compare_stated(expect, "diagnose_min_s", &budget("diagnose", Some(0)))
}

/// Only a passed deadline counts, whatever a result says.
fn check_timeout_detect(given: &Value, expect: &Value) -> Result<(), String> {
    let result = given.get("result").ok_or("the row has no result")?;
    let passed = result.get("deadline_passed").and_then(Value::as_bool) == Some(true);
    let timing = timing_of("run_command", None);
    let mut state = Timeouts::default();
    let before = state.budget_s(&timing);
    state.record(&timing, if passed { CallEnd::DeadlinePassed } else { CallEnd::Returned });
    let counted = state.budget_s(&timing) != before;
    compare_stated(expect, "counted_as_timeout", &Value::Bool(counted))
}
