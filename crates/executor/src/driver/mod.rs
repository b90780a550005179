//! Drivers decide what a step does next. A driver changes no state: its replies pass the same reader
//! and the same three validations, whichever driver sent them.
//!
//! ```text
//!   situation --> Driver::next --> Now(reply)  -----------------> take the turn
//!                              \-> Later(need) --> the step waits --> supply_reply --> take the turn
//! ```

pub mod model;
pub mod remote;
pub mod script;

use std::collections::BTreeMap;
use std::sync::Arc;
use surety_common::domain::decision::{ExecuteDecision, Usage};
use surety_common::domain::execution::StepProgress;
use surety_common::domain::plan::PlanStep;
use surety_common::domain::run::DriverKind;
use surety_common::domain::stop::WaitingOn;

/// Decides what a step does next.
pub trait Driver: Send + Sync {
    /// The next reply, or what is needed before there is one. Called inside transactions that may be
    /// derived again: it must be a pure function of the situation.
    fn next(&self, situation: &Situation<'_>) -> Next;
}

/// What a driver decides from.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// The step, from the plan.
    pub step: &'a PlanStep,
    /// Where the step is, from the row.
    pub progress: &'a StepProgress,
    /// Why the call that just ended failed; none after a call that succeeded and before any call.
    pub failure: Option<&'a str>,
}

/// What a driver answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A reply at once.
    Now(Reply),
    /// A reply that arrives later; until then the step waits and the run holds no slot.
    Later(Need),
}

/// A driver's reply, and its cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The content.
    pub content: Content,
    /// The cost.
    pub usage: Usage,
}

impl Reply {
    /// A reply that cost nothing.
    pub fn free(content: Content) -> Self {
        Self { content, usage: Usage::default() }
    }
}

/// The content of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text for the tolerant reader.
    Text(String),
    /// A decision that needs no reading.
    Decision(Box<ExecuteDecision>),
    /// The step cannot be finished as planned: fail it with this reason.
    Replan(String),
    /// A text that a token limit ended: it is corrected, and never read.
    Cut,
}

/// What a driver needs before it replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The party that the step waits for.
    pub waiting_on: WaitingOn,
    /// What ends the wait, for people.
    pub unblocks: String,
    /// Whether a model of the service supplies it.
    pub of_model: bool,
}

/// The drivers that an executor serves, by kind.
#[derive(Clone)]
pub struct Drivers(BTreeMap<&'static str, Arc<dyn Driver>>);

impl Drivers {
    /// These drivers, one for each kind.
    pub fn of(drivers: impl IntoIterator<Item = (DriverKind, Arc<dyn Driver>)>) -> Self {
        Self(drivers.into_iter().map(|(kind, driver)| (kind.as_str(), driver)).collect())
    }

    /// The driver of a kind; none when this executor does not serve it.
    pub fn get(&self, kind: DriverKind) -> Option<&dyn Driver> {
        self.0.get(kind.as_str()).map(AsRef::as_ref)
    }
}
