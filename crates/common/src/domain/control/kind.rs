//! What a control envelope or marker requests.

/// A request about the step, in the form of older prompts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// What is requested.
    pub kind: ControlKind,
    /// The reason, trimmed; may be empty.
    pub reason: String,
    /// Whether it was a marker rather than an object.
    pub legacy: bool,
}

/// What a control envelope may request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlKind {
    /// The step is done: a `next_plan` with the reason as its goal check.
    StepDone,
    /// The step fails and the plan is to be changed.
    Replan,
}

impl ControlKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::StepDone, Self::Replan];

    /// The value's name in the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StepDone => "step_done",
            Self::Replan => "replan",
        }
    }

    /// The kind with this name, in any case.
    pub fn from_any_case(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text))
    }
}
