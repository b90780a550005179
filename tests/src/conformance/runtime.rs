//! Rows about repeat cycles, completion, corrections and tool timeouts.

use super::context::check_context;
use super::{Row, compare, movement, replies, text_of};
use surety_common::domain::json::{self, Value};
use surety_common::domain::limits::Limits;
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

pub(super) fn number32(given: &Value, key: &str) -> Result<u32, String> {
    let number = number(given, key).ok_or_else(|| format!("{key} is no number"))?;
    u32::try_from(number).map_err(|error| format!("{key}: {error}"))
}

/// The limits that a row names, the others by default. `limit` stands for those with the names in `meant`.
pub(super) fn limits_of(given: &Value, meant: &[&str]) -> Result<Limits, String> {
    let mut limits = Limits::default();
    let named = [
        ("max_plan_steps", &mut limits.max_plan_steps),
        ("max_step_tool_calls", &mut limits.max_step_tool_calls),
        ("max_step_rounds", &mut limits.max_step_rounds),
        ("max_run_rounds", &mut limits.max_run_rounds),
        ("max_replans", &mut limits.max_replans),
        ("max_repairs", &mut limits.max_repairs),
        ("max_consecutive_corrections", &mut limits.max_consecutive_corrections),
        ("max_missing_completion", &mut limits.max_missing_completion),
        ("max_thinking_only", &mut limits.max_thinking_only),
        ("max_repeat_cycle", &mut limits.max_repeat_cycle),
        ("max_parallel_steps", &mut limits.max_parallel_steps),
    ];
    for (name, limit) in named {
        if given.get(name).is_some() {
            *limit = number32(given, name)?;
        } else if meant.contains(&name) && given.get("limit").is_some() {
            *limit = number32(given, "limit")?;
        }
    }
    limits.validate().map_err(|problem| problem.to_string())?;
    Ok(limits)
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
    let refused = expect.get("refused").is_some_and(|refused| !refused.is_null());
    let limit = match given.get("limit").or_else(|| given.get("max_repeat_cycle")) {
        None => Limits::default().max_repeat_cycle,
        // A limit below every number is below the range as well.
        Some(limit) => limit.as_number().and_then(|limit| limit.parse().ok()).unwrap_or_default(),
    };
    let mut fuse = match RepeatCycle::new(limit) {
        Ok(_) if refused => return Err(format!("the limit {limit} was taken")),
        Ok(fuse) => fuse,
        Err(_) if refused => return Ok(()),
        Err(problem) => return Err(format!("the limit was refused: {problem}")),
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

/// A call whose arguments a row writes, mostly as text. Text that is no JSON stays text.
fn written_call(call: &Value) -> ToolCall {
    let arguments = match call.get("arguments") {
        Some(Value::String(arguments)) => {
            let read = json::parse(arguments).map(|parsed| parsed.value);
            read.unwrap_or_else(|_| text(arguments))
        }
        Some(arguments) => arguments.clone(),
        None => Value::Object(Vec::new()),
    };
    call_of(text_of(call, "name"), arguments)
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
        let is_late = ["timeout", "timed_out", "deadline_passed"];
        let end = if outcome.as_str().is_some_and(|outcome| is_late.contains(&outcome)) {
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
        let arguments = call.get("args").or_else(|| call.get("arguments"));
        let arguments = arguments.cloned().unwrap_or_else(|| Value::Object(Vec::new()));
        let call = call_of(text_of(call, "tool"), arguments);
        Some(Timing::of(&call, None, None).key().to_owned())
    };
    let (Some(a), Some(b)) = (key("a"), key("b")) else {
        return Err("the row has not both calls".to_owned());
    };
    compare_stated(expect, "same_key", &Value::Bool(a == b))
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
    let is_true = |key: &&str| result.get(key).and_then(Value::as_bool) == Some(true);
    let passed = ["deadline_passed", "timed_out", "timeout"].iter().any(is_true);
    let timing = timing_of("run_command", None);
    let mut state = Timeouts::default();
    let before = state.budget_s(&timing);
    state.record(&timing, if passed { CallEnd::DeadlinePassed } else { CallEnd::Returned });
    let counted = state.budget_s(&timing) != before;
    compare_stated(expect, "counted_as_timeout", &Value::Bool(counted))
}
