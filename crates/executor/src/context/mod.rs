//! What a driver is shown before a decision. All functions are pure.
//!
//! ```text
//!   journal --history--> turns of one attempt --observation--> what each call came to
//!                                 |
//!                                 +--messages--> system, then user and assistant by turns
//! ```

mod history;
mod left;
mod messages;
mod observation;
mod system;

#[cfg(test)]
mod tests;

pub use history::{Kind, PastTurn, StepCalls, TOOL_TURNS, is_complete, needed, turns};
pub use left::Left;
pub(crate) use messages::decision_text;
pub use messages::{Scene, messages};
pub(crate) use observation::WHOLE_BYTES;
pub use observation::{Shown, observation, placeholder, report_line};
pub use surety_common::domain::messages::{Message, Role};
pub(crate) use system::STEP_PROMPT;
pub use system::ToolLine;
