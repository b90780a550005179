//! Decisions.

use super::error::{MessageError, MessageErrorKind as Kind};
use super::v1;
use super::value::{json_object, optional};
use crate::domain::decision::{Abort, Action, ExecuteDecision, Usage};
use crate::domain::json::Value;

impl TryFrom<v1::ExecuteDecision> for ExecuteDecision {
    type Error = MessageError;

    /// Texts are trimmed, as in a decision that is read from text. The domain validates which
    /// action requires which fields.
    fn try_from(decision: v1::ExecuteDecision) -> Result<Self, Self::Error> {
        let v1::ExecuteDecision {
            speak,
            action,
            reason,
            goal_check,
            tool_call,
            abort,
            answer_schema_json,
        } = decision;
        let answer_schema = match answer_schema_json.trim() {
            "" => None,
            // What is no object is refused with the decision, which is no error of the call.
            text => Some(
                json_object("answer_schema_json", text)
                    .unwrap_or_else(|_| Value::String(text.to_owned())),
            ),
        };
        Ok(Self {
            speak: trimmed(&speak),
            action: read_action(action)?,
            reason: trimmed(&reason),
            goal_check: trimmed(&goal_check),
            tool_call: optional("tool_call", tool_call)?,
            abort: abort.map(Abort::from),
            answer_schema,
        })
    }
}

impl From<v1::Usage> for Usage {
    fn from(usage: v1::Usage) -> Self {
        let v1::Usage { input_tokens, output_tokens, cost_micros, model: _ } = usage;
        Self { tokens: input_tokens.saturating_add(output_tokens), cost_micros }
    }
}

impl From<ExecuteDecision> for v1::ExecuteDecision {
    fn from(decision: ExecuteDecision) -> Self {
        let ExecuteDecision { speak, action, reason, goal_check, tool_call, abort, answer_schema } =
            decision;
        Self {
            speak,
            action: v1::DecisionAction::from(action).into(),
            reason,
            goal_check,
            tool_call: tool_call.map(Into::into),
            abort: abort.map(Into::into),
            answer_schema_json: answer_schema.map(|it| it.to_compact()).unwrap_or_default(),
        }
    }
}

impl From<v1::Abort> for Abort {
    fn from(abort: v1::Abort) -> Self {
        let v1::Abort { code, user_message, internal_reason } = abort;
        Self {
            code: trimmed(&code),
            user_message: trimmed(&user_message),
            internal_reason: trimmed(&internal_reason),
        }
    }
}

impl From<Abort> for v1::Abort {
    fn from(abort: Abort) -> Self {
        let Abort { code, user_message, internal_reason } = abort;
        Self { code, user_message, internal_reason }
    }
}

fn trimmed(text: &str) -> String {
    text.trim().to_owned()
}

fn read_action(number: i32) -> Result<Action, MessageError> {
    match v1::DecisionAction::try_from(number) {
        Ok(v1::DecisionAction::Unspecified) => Err(MessageError::at("action", Kind::ActionMissing)),
        Ok(v1::DecisionAction::Continue) => Ok(Action::Continue),
        Ok(v1::DecisionAction::AskUser) => Ok(Action::AskUser),
        Ok(v1::DecisionAction::Confirm) => Ok(Action::Confirm),
        Ok(v1::DecisionAction::NextPlan) => Ok(Action::NextPlan),
        Ok(v1::DecisionAction::Done) => Ok(Action::Done),
        Ok(v1::DecisionAction::Abort) => Ok(Action::Abort),
        Err(_) => Err(MessageError::at("action", Kind::ActionUnknown(number))),
    }
}

impl From<Action> for v1::DecisionAction {
    fn from(action: Action) -> Self {
        match action {
            Action::Continue => Self::Continue,
            Action::AskUser => Self::AskUser,
            Action::Confirm => Self::Confirm,
            Action::NextPlan => Self::NextPlan,
            Action::Done => Self::Done,
            Action::Abort => Self::Abort,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::problem::{Code, Problem};

    #[test]
    fn a_decision_without_a_known_action_is_refused_as_its_text_would_be() {
        for (action, code) in [(0, Code::ActionMissing), (77, Code::ActionUnknown)] {
            let decision = v1::ExecuteDecision { action, ..v1::ExecuteDecision::default() };
            let problem = Problem::from(ExecuteDecision::try_from(decision).unwrap_err());
            assert_eq!((problem.code, problem.field.as_deref()), (code, Some("action")));
        }
    }

    #[test]
    fn bad_arguments_are_named_by_their_whole_path() {
        let decision = v1::ExecuteDecision {
            action: v1::DecisionAction::Continue.into(),
            tool_call: Some(v1::ToolCall { name: "f".into(), arguments_json: "[]".into() }),
            ..v1::ExecuteDecision::default()
        };
        let problem = Problem::from(ExecuteDecision::try_from(decision).unwrap_err());
        assert_eq!(problem.field.as_deref(), Some("tool_call.arguments_json"));
    }
}
