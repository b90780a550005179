//! Decisions: read from text, checked by three validations, corrected when refused.
//!
//! All functions are pure. A decision changes no state by itself.

mod correction;
mod read;
mod shape;
mod validate;

pub(crate) use correction::faults;
pub use correction::{Legal, correct};
pub use read::{Classified, Reading, classify, parse_decision};
pub use shape::words;
pub use validate::{Judged, RunView, Spent, StepView, ToolView, Validation, ValidationName, judge};

#[cfg(test)]
mod judging_tests;
#[cfg(test)]
mod tests;
