//! From a driver's text to a decision, or to what older prompts say in its place.

use super::shape;
use surety_common::domain::control::{self, Control, ControlKind};
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::problem::{Code, Problem, Warning, WarningCode};
use surety_common::domain::reader::{self, DECISION_KEYS};

/// What stands as the goal check of a completion signal without any other text.
const SIGNALLED: &str = "The driver signalled completion.";

/// What a text says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The decision; none only for a wish to replan.
    pub decision: Option<ExecuteDecision>,
    /// The control envelope or marker it was read from, when it was one.
    pub control: Option<Control>,
    /// The final text, when it was read from a completion signal; may be empty.
    pub final_text: Option<String>,
    /// What the reader put right.
    pub warnings: Vec<Warning>,
}

/// What kind of reply a text is: each kind has a fuse of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Classified {
    /// It decided.
    Decided(Box<Reading>),
    /// It tried to decide, or said nothing at all, and is to be corrected.
    Refused(Problem),
    /// It talked: a missing completion signal.
    TextOnly,
    /// It thought and said nothing.
    ThinkingOnly,
}

/// Reads a decision, a control envelope, a legacy marker or a completion signal.
///
/// # Errors
/// The reader's errors, those of the types, then those of the shape.
pub fn parse_decision(text: &str) -> Result<Reading, Problem> {
    // Each reader below takes the thinking off the whole text: taken off twice, a second block,
    // which is no thinking, would go with it.
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
    let grounds = if final_text.is_empty() { SIGNALLED.to_owned() } else { final_text.clone() };
    Reading {
        decision: Some(saying(Action::Done, grounds)),
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
    }
}
