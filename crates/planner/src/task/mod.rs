//! Task types: kinds of runs that other systems or agents ask for. Each one says in which namespace its runs
//! are, what their assignees are handed, which checks decide them, how failures are classed, and how long ended tasks
//! are kept.
//!
//! A further type is one module and one line of [`TASK_TYPES`]. Its namespace begins with `_`.

mod admit;
mod arrived;
mod assign;
mod circuits;
mod conversation;
mod end;
mod escalate;
mod escalation_port;
mod failure_text;
mod find_agent;
mod follow;
mod forge_port;
mod mail;
mod open_gauge;
#[cfg(test)]
pub(crate) mod outage_tests;
mod reading;
mod render;
mod repeated;
pub(crate) mod report;
mod rules;
mod start;
mod task_type;
mod template;
mod toolchain;
pub(crate) mod upkeep;
mod withdraw;

pub(crate) use admit::{Admitted, AdmittedState, AdmittedTask, admit, admit_all};
pub(crate) use arrived::Arrived;
pub(crate) use circuits::Circuits;
pub use escalation_port::{EscalationPort, NoForge, PortError, Posting, PullOfCommit};
pub(crate) use forge_port::ForgePort;
pub use mail::Mail;
pub(crate) use reading::reading;
pub use rules::{TaskRules, TaskRulesError};
pub(crate) use start::ensure_started;
pub use task_type::TaskType;
pub use template::{HandedTask, OPTIONAL_WORDS, TemplateError, Templates};
pub use toolchain::Toolchain;
pub(crate) use withdraw::withdraw;

use surety_common::domain::fault::{Fault, FaultCode};
use uuid::Uuid;

/// Every task type. Each one has a namespace of its own, so no two share a row.
pub const TASK_TYPES: &[&dyn TaskType] = &[
    &Toolchain,
    &Mail,
    #[cfg(test)]
    &outage_tests::Ticket,
];

/// The task type with this name.
pub fn find_task_type(name: &str) -> Option<&'static dyn TaskType> {
    TASK_TYPES.iter().copied().find(|task_type| task_type.name() == name)
}

pub(crate) fn not_found(run_id: Uuid) -> Fault {
    Fault::new(FaultCode::TaskNotFound, format!("no task has the run {run_id}"))
        .with_field("run_id")
}
