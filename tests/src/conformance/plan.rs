//! Rows about plans, patches and checks.

use super::decision::check_warnings;
use super::stateless::StatelessClient;
use super::{Row, compare, text_of};
use surety_common::domain::check::AcceptCheck;
use surety_common::domain::fields::SparseObject;
use surety_common::domain::json::Value;
use surety_common::domain::limits::Limits;
use surety_common::domain::plan::Plan;
use surety_common::domain::problem::Problem;
use surety_common::domain::step::StepState;
use surety_planner::plan::PlanState;

/// Checks one row of `plan.jsonl`.
///
/// # Errors
/// What came back and what the row expects.
pub async fn check_plan(row: &Row, stateless: StatelessClient<'_>) -> Result<(), String> {
    let outcome = stateless.plan(text_of(&row.value, "raw")).await?;
    compare_outcome(row, outcome, |(state, warnings), expect| {
        compare_state(&state, expect)?;
        check_warnings(&warnings, expect)
    })
}

/// Checks one row of `patch.jsonl`.
///
/// # Errors
/// What came back and what the row expects.
pub async fn check_patch(row: &Row, stateless: StatelessClient<'_>) -> Result<(), String> {
    let plan = row.value.get("plan").ok_or("the row has no plan")?;
    let state = read_state(plan).map_err(|problem| format!("the row's plan: {problem}"))?;
    let patch = row.value.get("patch").ok_or("the row has no patch")?;
    let patch = patch.as_str().map_or_else(|| patch.to_compact(), str::to_owned);
    let limit = row.value.get("max_plan_steps").and_then(Value::as_number);
    let limit = limit.map_or(Ok(Limits::default().max_plan_steps), str::parse);
    let limit: u32 = limit.map_err(|error| format!("max_plan_steps: {error}"))?;
    let outcome = stateless.patch(state, &patch, limit).await?;
    compare_outcome(row, outcome, |patched, expect| {
        compare_state(&patched.state, expect)?;
        if let Some(truncated) = expect.get("truncated_add") {
            compare("truncated_add", truncated, &Value::Bool(patched.truncated_add))?;
        }
        check_warnings(&patched.warnings, expect)
    })
}

/// Checks one row of `checks.jsonl`: the checks of a plan with one step.
///
/// # Errors
/// What came back and what the row expects.
pub async fn check_checks(row: &Row, stateless: StatelessClient<'_>) -> Result<(), String> {
    let step = SparseObject::default().text("id", "a").text("description", "d");
    let verify = row.value.get("verify").ok_or("the row has no verify")?;
    let raw = SparseObject::default()
        .text("title", "T")
        .list("steps", std::iter::once(step.build()))
        .value_if(true, "verify", verify.clone())
        .build()
        .to_compact();
    let outcome = stateless.plan(&raw).await?;
    compare_outcome(row, outcome, |(state, warnings), expect| {
        let expected = expect.get("checks").and_then(Value::as_array);
        let expected = expected.ok_or("the row expects no checks")?;
        let expected = expected.iter().map(without_defaults).collect();
        let found = state.plan.verify.iter().map(AcceptCheck::to_json).collect();
        compare("checks", &Value::Array(expected), &Value::Array(found))?;
        check_warnings(&warnings, expect)
    })
}

/// The states of steps in a plan's text, which the plan's own reader ignores.
fn read_state(value: &Value) -> Result<PlanState, Problem> {
    let plan = Plan::from_json(value)?;
    let steps = value.get("steps").and_then(Value::as_array);
    let status = |step: &Value| StepState::from_text(text_of(step, "status"));
    let statuses = steps.unwrap_or_default().iter();
    Ok(PlanState {
        plan,
        statuses: statuses.map(|step| status(step).unwrap_or(StepState::Pending)).collect(),
    })
}

fn compare_outcome<T>(
    row: &Row,
    outcome: Result<T, Problem>,
    compare_good: impl FnOnce(T, &Value) -> Result<(), String>,
) -> Result<(), String> {
    let expect = row.value.get("expect").ok_or("the row expects nothing")?;
    let ok = expect.get("ok").and_then(Value::as_bool);
    match (outcome, ok.ok_or("the row does not say ok")?) {
        (Ok(good), true) => compare_good(good, expect),
        (Ok(_), false) => Err(format!("expected {}, was read", text_of(expect, "error"))),
        (Err(problem), true) => Err(format!("refused: {problem}")),
        (Err(problem), false) => compare_problem(&problem, expect),
    }
}

fn compare_problem(problem: &Problem, expect: &Value) -> Result<(), String> {
    let field = problem.field.as_deref().unwrap_or_default();
    let (code, end) = (text_of(expect, "error"), text_of(expect, "field"));
    let said = text_of(expect, "message_names");
    if problem.code.as_str().eq_ignore_ascii_case(code)
        && field.ends_with(end)
        && problem.message.contains(said)
    {
        return Ok(());
    }
    Err(format!("expected {code} at {end:?} {said:?}, found {problem}"))
}

/// Compares the title, and of each step the fields that the row names.
fn compare_state(state: &PlanState, expect: &Value) -> Result<(), String> {
    if let Some(title) = expect.get("title") {
        compare("title", title, &Value::String(state.plan.title.clone()))?;
    }
    let expected = expect.get("steps").and_then(Value::as_array);
    let expected = expected.ok_or("the row expects no steps")?;
    let found: Vec<Value> = (0..state.plan.steps.len())
        .filter_map(|at| found_step(state, at, expected.get(at)))
        .collect();
    compare("steps", &Value::Array(expected.to_vec()), &Value::Array(found))
}

fn found_step(state: &PlanState, at: usize, expected: Option<&Value>) -> Option<Value> {
    let step = state.plan.steps.get(at)?;
    let texts = |texts: &[String]| Value::Array(texts.iter().cloned().map(Value::String).collect());
    let calls = step.script.iter().map(|call| call.to_json()).collect();
    let checks = step.verify.iter().map(AcceptCheck::to_json).collect();
    let named = |key: &str| expected.is_some_and(|step| step.get(key).is_some());
    let text = |text: &str| Value::String(text.to_owned());
    let step = SparseObject::default()
        .value_if(true, "id", text(&step.id))
        .value_if(true, "status", text(state.status(at).as_str()))
        .value_if(true, "dependencies", texts(&step.dependencies))
        .value_if(named("description"), "description", text(&step.description))
        .value_if(named("tools_expected"), "tools_expected", texts(&step.tools_expected))
        .value_if(named("outputs_expected"), "outputs_expected", texts(&step.outputs_expected))
        .value_if(named("confirm_tools"), "confirm_tools", texts(&step.confirm_tools))
        .value_if(named("write_scope"), "write_scope", texts(&step.write_scope))
        .value_if(named("done_when"), "done_when", text(&step.done_when))
        .value_if(named("evidence"), "evidence", text(step.evidence.as_str()))
        .value_if(named("script"), "script", Value::Array(calls))
        .value_if(named("verify"), "verify", Value::Array(checks));
    Some(step.build())
}

/// A check without the members that say nothing more than their absence would.
fn without_defaults(check: &Value) -> Value {
    let is_default = |key: &str, value: &Value| match key {
        "required" => value.as_bool() == Some(true),
        "match" => value.as_str() == Some("prefix"),
        "owner" => value.as_str() == Some("plan"),
        "params" => value.as_object().is_some_and(<[_]>::is_empty),
        _ => value.as_str() == Some(""),
    };
    let members = check.as_object().unwrap_or_default().iter();
    Value::Object(members.filter(|(key, value)| !is_default(key, value)).cloned().collect())
}
