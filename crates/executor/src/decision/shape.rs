//! The types and the shape of a decision: which action requires which fields.

use super::correction::quoted;
use surety_common::domain::decision::{Abort, Action, ExecuteDecision};
use surety_common::domain::fields::{TypedFields, read_optional_object};
use surety_common::domain::json::Value;
use surety_common::domain::plan::read_tool_call;
use surety_common::domain::problem::{Code, Problem, Warning, WarningCode};
use surety_common::domain::reader::DECISION_KEYS;

/// The members of an object as written.
type Members = [(String, Value)];

/// Reads one object as a decision: first every type, in the order of the fields, then the shape.
pub(super) fn read_decision(
    members: &Members,
    warnings: &mut Vec<Warning>,
) -> Result<ExecuteDecision, Problem> {
    // These stand beside the keys by which a decision is found in a text.
    let keys = [DECISION_KEYS, &["answer_schema", "question"]].concat();
    let fields = TypedFields::of_members(members, "", &keys, warnings);
    let mut speak = fields.text("speak")?;
    let action = fields.text("action")?;
    let reason = fields.text("reason")?;
    let goal_check = read_goal_check(&fields, warnings)?;
    let tool_call = match fields.get("tool_call") {
        Some(value) => read_tool_call(value, ("tool_call", Code::ToolCallNotObject), warnings)?,
        None => None,
    };
    let abort = read_abort(&fields, warnings)?;
    let action = read_action(&action, warnings)?;
    if action == Action::AskUser && speak.is_empty() {
        // Else the person would be asked a question without its words.
        speak = fields.text("question").unwrap_or_default();
        if !speak.is_empty() {
            warnings.push(Warning::at(WarningCode::QuestionAsSpeak, "question"));
        }
    }
    let answer_schema = match (action, fields.get("answer_schema")) {
        (Action::AskUser, Some(value)) => {
            read_optional_object(value, "answer_schema", Code::AnswerSchemaInvalid, warnings)?
        }
        // As any other key that means nothing here.
        (_, Some(_)) | (_, None) => None,
    };
    let decision =
        ExecuteDecision { speak, action, reason, goal_check, tool_call, abort, answer_schema };
    check_shape(&decision)?;
    Ok(decision)
}

/// The text for the user: `speak`, or by default, if the run continues, the reason or a short
/// sentence. A decision that ends the run has no default.
pub fn words(decision: &ExecuteDecision) -> &str {
    let stock = match decision.action {
        Action::Continue => "Working on the step.",
        Action::AskUser => "I need your answer to continue.",
        Action::Confirm => "I need your confirmation to continue.",
        Action::NextPlan | Action::Done | Action::Abort => return &decision.speak,
    };
    [decision.speak.as_str(), decision.reason.as_str()]
        .into_iter()
        .find(|text| !text.is_empty())
        .unwrap_or(stock)
}

/// An object or a list is kept as its JSON text.
fn read_goal_check(
    fields: &TypedFields<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<String, Problem> {
    match fields.get("goal_check") {
        Some(value @ (Value::Object(_) | Value::Array(_))) => {
            warnings.push(Warning::at(WarningCode::GoalCheckSerialized, "goal_check"));
            Ok(value.to_compact())
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => {
            fields.text("goal_check")
        }
    }
}

fn read_abort(
    fields: &TypedFields<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Abort>, Problem> {
    let Some(value) = fields.get("abort") else {
        return Ok(None);
    };
    let object = read_optional_object(value, "abort", Code::AbortNotObject, warnings)?;
    let Some(object) = object else {
        return Ok(None);
    };
    let keys = ["code", "user_message", "internal_reason"];
    let fields = TypedFields::of(&object, "abort", &keys, warnings)?;
    Ok(Some(Abort {
        code: fields.text("code")?,
        user_message: fields.text("user_message")?,
        internal_reason: fields.text("internal_reason")?,
    }))
}

fn read_action(text: &str, warnings: &mut Vec<Warning>) -> Result<Action, Problem> {
    let known = Action::ALL.map(Action::as_str).join(", ");
    if text.is_empty() {
        return Err(Problem::at(
            Code::ActionMissing,
            "action",
            format!("the decision has no action; send one of {known}"),
        ));
    }
    let action = Action::from_any_case(text).ok_or_else(|| {
        Problem::at(
            Code::ActionUnknown,
            "action",
            format!("{} is not an action; send one of {known}", quoted(text)),
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
        ("tool_call.name", "set the tool's name")
    } else if code == Code::AbortMessageMissing {
        ("abort.user_message", "write a message for the user")
    } else if matches!(code, Code::AbortForbidden | Code::AbortRequired) {
        ("abort", "send abort with the action abort and only with it")
    } else {
        ("tool_call", "send tool_call with continue or confirm only")
    };
    Problem::at(code, field, format!("{} The action was {action}; {advice}.", code.meaning()))
}
