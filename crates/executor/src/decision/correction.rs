//! The correction that a driver receives for a refused decision.

use surety_common::domain::decision::Action;
use surety_common::domain::problem::Code;

/// The decisions that are legal now.
#[derive(Debug, Clone, Copy)]
pub struct Legal<'a> {
    /// Names of the tools that this step may call, in any order.
    pub tools: &'a [&'a str],
    /// Names of those among them that need a confirmation.
    pub confirmed_tools: &'a [&'a str],
    /// Whether another step is not done, so that `done` is not legal.
    pub other_steps_open: bool,
    /// Whether a confirmation is open, so that only `abort` is legal.
    pub pending_confirmation: bool,
}

/// The most bytes of a driver's own text that a refusal repeats: an answer repeats it four times, and clients of gRPC take
/// messages of 4 MiB where they set nothing.
const QUOTED: usize = 100;
/// The most bytes of what does not fit a schema.
const FAULTS: usize = 1 << 10;

/// A text of the driver in quotes, or its beginning.
pub(super) fn quoted(text: &str) -> String {
    match text.get(..text.floor_char_boundary(QUOTED)) {
        Some(start) if start.len() < text.len() => {
            format!("{start:?} (the first of {} bytes)", text.len())
        }
        Some(_) | None => format!("{text:?}"),
    }
}

/// What does not fit a schema, in one text of bounded length: a path has keys that the driver chose.
pub(crate) fn faults(wrong: &[String]) -> String {
    let mut text = wrong.join("; ");
    if text.len() > FAULTS {
        text.truncate(text.floor_char_boundary(FAULTS));
        text.push_str(" [...]");
    }
    text
}

/// Composes the correction: the code, the error, the legal actions, and for a tool that cannot be
/// called the list of those that can. `detail` describes the error.
pub fn correct(code: Code, detail: &str, legal: &Legal<'_>) -> String {
    let mut lines = vec![
        format!("Correction, no user input. Your last reply was refused: {code}."),
        format!("What was wrong: {detail}"),
        format!("Legal now: {}.", legal_actions(legal)),
    ];
    if matches!(code, Code::UnknownTool | Code::ToolNotAllowed) {
        lines.push(format!("Tools: {}.", names(legal.tools)));
    }
    if code == Code::WriteRequiresConfirm {
        let confirmed = names(legal.confirmed_tools);
        lines.push(format!("Tools that need a confirmation: {confirmed}."));
    }
    lines.push("Answer with one JSON object and nothing else.".to_owned());
    lines.join("\n")
}

fn legal_actions(legal: &Legal<'_>) -> String {
    let legal_now = Action::ALL.into_iter().filter(|action| match action {
        Action::Continue | Action::AskUser | Action::Confirm | Action::NextPlan => {
            !legal.pending_confirmation
        }
        Action::Done => !legal.pending_confirmation && !legal.other_steps_open,
        Action::Abort => true,
    });
    let described: Vec<String> =
        legal_now.map(|action| format!("{} ({})", action.as_str(), demands(action))).collect();
    described.join("; ")
}

const fn demands(action: Action) -> &'static str {
    match action {
        Action::Continue => "with or without a tool_call",
        Action::AskUser => "a question in speak, no tool_call",
        Action::Confirm => "with the tool_call to be confirmed",
        Action::NextPlan => "this step is done, with a goal_check and no tool_call",
        Action::Done => "the plan is done, with a goal_check and no tool_call",
        Action::Abort => "with abort.user_message and no tool_call",
    }
}

fn names(tools: &[&str]) -> String {
    if tools.is_empty() {
        return "none".to_owned();
    }
    let mut sorted = tools.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.join(", ")
}
