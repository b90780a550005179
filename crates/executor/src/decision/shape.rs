//! The types and the shape of a decision: which fields go with which action.

use surety_common::domain::decision::{Abort, Action, ExecuteDecision};
use surety_common::domain::json::{self, JsonError, Value};
use surety_common::domain::plan::ToolCall;
use surety_common::domain::problem::{Code, Problem, Warning, WarningCode};
use surety_common::domain::reader::{DECISION_KEYS, Fields, too_deep};

/// The members of an object, as written.
type Members = [(String, Value)];

/// Reads one object as a decision: first every type, in the order of the fields, then the shape.
pub(super) fn read_decision(
    members: &Members,
    warnings: &mut Vec<Warning>,
) -> Result<ExecuteDecision, Problem> {
    let fields = Fields::fold(members, DECISION_KEYS, warnings);
    let speak = read_text(&fields, "speak", "speak")?;
    let action = read_text(&fields, "action", "action")?;
    let reason = read_text(&fields, "reason", "reason")?;
    let goal_check = read_goal_check(&fields, warnings)?;
    let tool_call = read_tool_call(&fields, warnings)?;
    let abort = read_abort(&fields, warnings)?;
    let decision = ExecuteDecision {
        speak,
        action: read_action(&action, warnings)?,
        reason,
        goal_check,
        tool_call,
        abort,
    };
    check_shape(&decision)?;
    Ok(decision)
}

/// What a person is told: `speak`, and where it is empty and the run goes on, the reason or a
/// short sentence. A decision that ends something speaks for itself or not at all.
pub fn words(decision: &ExecuteDecision) -> &str {
    let stock = match decision.action {
        Action::Continue => "Working on the step.",
        Action::AskUser => "I need your answer to go on.",
        Action::Confirm => "I need your confirmation to go on.",
        Action::NextPlan | Action::Done | Action::Abort => return &decision.speak,
    };
    [decision.speak.as_str(), decision.reason.as_str()]
        .into_iter()
        .find(|text| !text.is_empty())
        .unwrap_or(stock)
}

fn mismatch(path: &str, value: &Value, expected: &str) -> Problem {
    let kind = value.kind();
    Problem::at(Code::TypeMismatch, path, format!("{path} is of type {kind}; send {expected}"))
}

/// Reads a text field; missing and null are empty.
fn read_text(fields: &Fields<'_>, name: &str, path: &str) -> Result<String, Problem> {
    let Some(value) = fields.filled(name) else {
        return Ok(String::new());
    };
    let text = value.as_str().ok_or_else(|| mismatch(path, value, "text"))?;
    Ok(text.trim().to_owned())
}

fn read_goal_check(fields: &Fields<'_>, warnings: &mut Vec<Warning>) -> Result<String, Problem> {
    match fields.get("goal_check") {
        Some(value @ (Value::Object(_) | Value::Array(_))) => {
            warnings.push(Warning::at(WarningCode::GoalCheckSerialized, "goal_check"));
            Ok(value.to_compact())
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => {
            read_text(fields, "goal_check", "goal_check")
        }
    }
}

fn read_tool_call(
    fields: &Fields<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<ToolCall>, Problem> {
    let filled = read_filled(fields, "tool_call", Code::ToolCallNotObject, warnings)?;
    let Some(members) = filled else {
        return Ok(None);
    };
    let fields = Fields::fold(&members, &["name", "arguments", "parameters"], warnings);
    Ok(Some(ToolCall {
        name: read_text(&fields, "name", "tool_call.name")?,
        arguments: read_arguments(&fields, warnings)?,
    }))
}

/// `arguments` wins; `parameters`, as some models call them, is read only in its absence.
fn read_arguments(fields: &Fields<'_>, warnings: &mut Vec<Warning>) -> Result<Value, Problem> {
    let arguments = read_object(fields.filled("arguments"), "tool_call.arguments", warnings)?;
    let members = if arguments.is_empty() {
        read_object(fields.filled("parameters"), "tool_call.parameters", warnings)?
    } else {
        arguments
    };
    Ok(Value::Object(members))
}

/// Reads an object that may be written as text, or be blank text for an empty one.
fn read_object(
    value: Option<&Value>,
    path: &str,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<(String, Value)>, Problem> {
    let Some(value) = value else {
        return Ok(Vec::new());
    };
    match value {
        Value::Object(members) => Ok(members.clone()),
        Value::String(text) if text.trim().is_empty() => {
            warnings.push(Warning::at(WarningCode::EmptyStringAsObject, path));
            Ok(Vec::new())
        }
        Value::String(text) => {
            object_in(text, path, warnings)?.ok_or_else(|| mismatch(path, value, "an object"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            Err(mismatch(path, value, "an object"))
        }
    }
}

fn read_abort(fields: &Fields<'_>, warnings: &mut Vec<Warning>) -> Result<Option<Abort>, Problem> {
    let Some(members) = read_filled(fields, "abort", Code::AbortNotObject, warnings)? else {
        return Ok(None);
    };
    let names = ["code", "user_message", "internal_reason"];
    let fields = Fields::fold(&members, &names, warnings);
    Ok(Some(Abort {
        code: read_text(&fields, "code", "abort.code")?,
        user_message: read_text(&fields, "user_message", "abort.user_message")?,
        internal_reason: read_text(&fields, "internal_reason", "abort.internal_reason")?,
    }))
}

/// Reads an optional object: none when it is not filled. `{}` is filled.
fn read_filled(
    fields: &Fields<'_>,
    name: &str,
    not_object: Code,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Vec<(String, Value)>>, Problem> {
    let refuse = |what: &str| {
        Problem::at(not_object, name, format!("{name} is {what}; send one object or leave it out"))
    };
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(members)) => Ok(Some(members.clone())),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => object_in(text, name, warnings)?
            .map(Some)
            .ok_or_else(|| refuse("text that is no object")),
        Some(Value::Array(items)) if items.is_empty() => {
            warnings.push(Warning::at(WarningCode::EmptyArrayAsAbsent, name));
            Ok(None)
        }
        Some(Value::Array(_)) => Err(refuse("a list")),
        Some(value @ (Value::Bool(_) | Value::Number(_))) => Err(refuse(value.kind())),
    }
}

/// The members of an object written as text; none when the text is anything else.
fn object_in(
    text: &str,
    path: &str,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Vec<(String, Value)>>, Problem> {
    let parsed = match json::parse(text.trim()) {
        Ok(parsed) => parsed,
        Err(JsonError::TooDeep { .. }) => {
            return Err(Problem { field: Some(path.to_owned()), ..too_deep() });
        }
        Err(JsonError::Syntax { .. }) => return Ok(None),
    };
    let Value::Object(members) = parsed.value else {
        return Ok(None);
    };
    warnings.push(Warning::at(WarningCode::ObjectInString, path));
    if parsed.duplicate_key {
        warnings.push(Warning::at(WarningCode::DuplicateKey, path));
    }
    Ok(Some(members))
}

fn read_action(text: &str, warnings: &mut Vec<Warning>) -> Result<Action, Problem> {
    let known = Action::ALL.map(Action::as_str).join(", ");
    if text.is_empty() {
        return Err(Problem::at(
            Code::ActionMissing,
            "action",
            format!("no action is named; send one of {known}"),
        ));
    }
    let action = Action::from_any_case(text).ok_or_else(|| {
        Problem::at(
            Code::ActionUnknown,
            "action",
            format!("{text:?} is no action; send one of {known}"),
        )
    })?;
    if action.as_str() != text {
        warnings.push(Warning::at(WarningCode::ActionCaseFolded, "action"));
    }
    Ok(action)
}

fn check_shape(decision: &ExecuteDecision) -> Result<(), Problem> {
    let nameless = decision.tool_call.as_ref().is_some_and(|call| call.name.is_empty());
    let faults = match decision.action {
        Action::Continue => vec![
            (decision.abort.is_some(), Code::AbortForbidden),
            (nameless, Code::ToolNameMissing),
        ],
        Action::Confirm => vec![
            (decision.tool_call.is_none(), Code::ToolCallRequired),
            (decision.abort.is_some(), Code::AbortForbidden),
            (nameless, Code::ToolNameMissing),
        ],
        Action::AskUser | Action::NextPlan | Action::Done => vec![
            (decision.tool_call.is_some(), Code::ToolCallForbidden),
            (decision.abort.is_some(), Code::AbortForbidden),
        ],
        Action::Abort => vec![
            (decision.tool_call.is_some(), Code::ToolCallForbidden),
            (decision.abort.is_none(), Code::AbortRequired),
            (is_mute(decision.abort.as_ref()), Code::AbortMessageMissing),
        ],
    };
    match faults.into_iter().find(|(fault, _)| *fault) {
        Some((_, code)) => Err(shape_problem(code, decision.action)),
        None => Ok(()),
    }
}

fn is_mute(abort: Option<&Abort>) -> bool {
    abort.is_some_and(|abort| abort.user_message.is_empty())
}

fn shape_problem(code: Code, action: Action) -> Problem {
    let action = action.as_str();
    let (field, advice) = if code == Code::ToolNameMissing {
        ("tool_call.name", "name the tool")
    } else if code == Code::AbortMessageMissing {
        ("abort.user_message", "say what the person is to be told")
    } else if matches!(code, Code::AbortForbidden | Code::AbortRequired) {
        ("abort", "send abort with the action abort and only with it")
    } else {
        ("tool_call", "send tool_call with continue or confirm only")
    };
    Problem::at(code, field, format!("{} The action was {action}; {advice}.", code.meaning()))
}
