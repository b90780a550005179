//! The task type `toolchain`: an event of a forge.
//!
//! ```text
//!   hint -> event (quotes the forge) -> steps (a review: with its checklist) -> rules -> excuses -> how to report
//! ```

use super::template::{Part, TemplateError, Templates};
use super::{HandedTask, TaskType};
use surety_common::domain::check::CheckKind;
use surety_common::domain::toolchain::{ActionType, FailureClass, Language, TaskFailure};

/// The task type `toolchain`.
#[derive(Debug, Clone, Copy)]
pub struct Toolchain;

impl TaskType for Toolchain {
    fn name(&self) -> &'static str {
        "toolchain"
    }

    fn namespace(&self) -> &'static str {
        "_toolchain"
    }

    fn instructions(
        &self,
        templates: &Templates,
        task: &HandedTask<'_>,
    ) -> Result<String, TemplateError> {
        let mut parts =
            vec![templates.render(Part::Hint, task)?, templates.render(Part::Event, task)?];
        // A notice has no steps: nothing to follow, to excuse or to report.
        if !task.payload.steps.is_empty() {
            parts.push(steps(task));
            if task.payload.action_type == ActionType::ReviewRequest.as_str() {
                parts.push(templates.render(Part::Checklist, task)?);
            }
            for part in [Part::Rules, Part::Excuses, Part::Report] {
                parts.push(templates.render(part, task)?);
            }
        }
        Ok(format!("{}\n", parts.join("\n\n")))
    }

    fn checks(&self) -> &'static [CheckKind] {
        &[CheckKind::ActionReport]
    }

    fn class_of(&self, failure: TaskFailure, consecutive: u32) -> FailureClass {
        failure.class(consecutive)
    }

    fn retention_days(&self) -> Option<u32> {
        None
    }

    fn escalates(&self) -> bool {
        true
    }
}

fn steps(task: &HandedTask<'_>) -> String {
    let title = match task.language {
        Language::En => "Steps:",
        Language::Zh => "步骤：",
    };
    let steps = task.payload.steps.iter().enumerate();
    let lines = steps.map(|(index, step)| format!("\n{}. {step}", index + 1));
    format!("{title}{}", lines.collect::<String>())
}
