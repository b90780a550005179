//! Reads a decision from a driver's text, or the forms that older prompts use instead.

use super::shape;
use surety_common::domain::control::{self, Control, ControlKind};
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::problem::{Code, Problem, Warning, WarningCode};
use surety_common::domain::reader::{self, DECISION_KEYS};

/// The content of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The decision; none only for a replan request.
    pub decision: Option<ExecuteDecision>,
    /// The control envelope or marker that it was read from, if it was one.
    pub control: Option<Control>,
    /// The final text of a completion signal; may be empty.
    pub final_text: Option<String>,
    /// The reader's corrections.
    pub warnings: Vec<Warning>,
}

impl Reading {
    /// Whether it is a completion signal, which needs no goal check.
    pub const fn is_signal(&self) -> bool {
        self.final_text.is_some()
    }
}

/// What kind of reply a text is: each kind has a fuse of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Classified {
    /// A decision.
    Decided(Box<Reading>),
    /// An invalid or empty decision, which is to be corrected.
    Refused(Problem),
    /// Text without a decision: a missing completion signal.
    TextOnly,
    /// Thinking without text.
    ThinkingOnly,
}

/// Reads a decision, a control envelope, a legacy marker or a completion signal.
///
/// # Errors
/// The reader's errors, those of the types, then those of the shape.
pub fn parse_decision(text: &str) -> Result<Reading, Problem> {
    // Each reader below strips the thinking from the whole text: stripping it twice would remove a
    // second block, which is no thinking.
    reader::spoken(text)?;
    if let Some(read) = control::envelope(text) {
        return Ok(from_control(read.value, read.warnings));
    }
    let problem = match reader::read(text, DECISION_KEYS, shape::read_decision) {
        Ok(read) => {
            return Ok(Reading {
                decision: Some(read.value),
                control: None,
                final_text: None,
                warnings: read.warnings,
            });
        }
        Err(problem) => problem,
    };
    if let Some(final_text) = control::completion(text) {
        return Ok(from_completion(final_text));
    }
    match control::legacy_marker(text) {
        Some(marker) => {
            Ok(from_control(marker, vec![Warning::new(WarningCode::ControlProtocolLegacy)]))
        }
        None => Err(problem),
    }
}

/// Classifies a driver's reply by the fuse that counts it.
pub fn classify(text: &str) -> Classified {
    let problem = match parse_decision(text) {
        Ok(reading) => return Classified::Decided(Box::new(reading)),
        Err(problem) => problem,
    };
    if problem.code == Code::TooLarge {
        return Classified::Refused(problem);
    }
    if problem.code == Code::EmptyOutput {
        return if reader::strip_thinking(text).thinking {
            Classified::ThinkingOnly
        } else {
            Classified::Refused(problem)
        };
    }
    if control::shows_decision(text) { Classified::Refused(problem) } else { Classified::TextOnly }
}

fn from_control(control: Control, warnings: Vec<Warning>) -> Reading {
    let decision = match control.kind {
        ControlKind::StepDone => Some(saying(Action::NextPlan, control.reason.clone())),
        ControlKind::Replan => None,
    };
    Reading { decision, control: Some(control), final_text: None, warnings }
}

fn from_completion(final_text: String) -> Reading {
    Reading {
        // A signal without other text has no words of the driver, and gets none of the runner.
        decision: Some(saying(Action::Done, final_text.clone())),
        control: None,
        final_text: Some(final_text),
        warnings: Vec::new(),
    }
}

fn saying(action: Action, goal_check: String) -> ExecuteDecision {
    ExecuteDecision {
        speak: String::new(),
        action,
        reason: String::new(),
        goal_check,
        tool_call: None,
        abort: None,
        answer_schema: None,
    }
}
