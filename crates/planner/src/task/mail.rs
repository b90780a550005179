//! The task type `mail`: a message from one agent to another.

use super::template::{TemplateError, Templates};
use super::{HandedTask, TaskType};
use serde_json::Value;
use surety_common::domain::check::CheckKind;
use surety_common::domain::mail::MAIL_NAMESPACE;
use surety_common::domain::toolchain::{FailureClass, Language, TaskFailure, TaskPayload};

/// How long an ended message is kept, in days: by then it was read, or is a dead letter.
const RETENTION_DAYS: u32 = 30;

/// The task type `mail`.
#[derive(Debug, Clone, Copy)]
pub struct Mail;

impl Mail {
    /// What the receiver is handed: who wrote, about what, and how to read it. The text itself is read by ReadMail,
    /// which notes that it was read. The subject is one line in quotes: data, no instruction.
    pub(crate) fn text(self, payload: &TaskPayload, language: Language) -> String {
        let text =
            |name: &str| payload.context.get(name).and_then(Value::as_str).unwrap_or_default();
        let steps = payload.steps.iter().enumerate();
        let steps: String = steps.map(|(at, step)| format!("{}. {step}\n", at + 1)).collect();
        let (from, subject) = (&payload.from, text("subject"));
        match language {
            Language::En => format!(
                "You received a message from the agent {from:?}.\nSubject: {subject:?}\n\nSteps:\n{steps}"
            ),
            Language::Zh => {
                format!(
                    "你收到了 agent {from:?} 的一条消息。\n主题：{subject:?}\n\n步骤：\n{steps}"
                )
            }
        }
    }
}

impl TaskType for Mail {
    fn name(&self) -> &'static str {
        "mail"
    }

    fn namespace(&self) -> &'static str {
        MAIL_NAMESPACE
    }

    fn instructions(&self, _: &Templates, task: &HandedTask<'_>) -> Result<String, TemplateError> {
        Ok(self.text(task.payload, task.language))
    }

    fn checks(&self) -> &'static [CheckKind] {
        &[CheckKind::ActionReport]
    }

    fn class_of(&self, _: TaskFailure, _: u32) -> FailureClass {
        FailureClass::Business
    }

    fn retention_days(&self) -> Option<u32> {
        Some(RETENTION_DAYS)
    }

    fn escalates(&self) -> bool {
        false
    }
}
