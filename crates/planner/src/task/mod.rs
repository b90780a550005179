//! Task types: kinds of runs that other systems or agents ask for. Each one says in which namespace its runs
//! are, what their assignees are handed, which checks decide them, how failures are classed, and how long ended
//! tasks are kept.
//!
//! A further type is one module and one line of [`TASK_TYPES`].

mod admit;
mod end;
mod escalate;
mod escalation_port;
mod forge_port;
mod mail;
pub(crate) mod report;
mod rules;
mod start;
mod template;
mod toolchain;
pub(crate) mod upkeep;

pub(crate) use admit::{Admitted, AdmittedTask, admit};
pub use escalation_port::{EscalationPort, NoForge, PortError, Posting};
pub(crate) use forge_port::ForgePort;
pub use mail::Mail;
pub use rules::{TaskRules, TaskRulesError};
pub use template::{OPTIONAL_WORDS, TemplateError, Templates};
pub use toolchain::Toolchain;

use crate::planner::Planner;
use surety_common::domain::check::CheckKind;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::toolchain::{FailureClass, Language, TaskFailure, TaskPayload};
use surety_common::store::{self, NewTask};
use uuid::Uuid;

/// Every task type. Each one has a namespace of its own, so no two share a row.
pub const TASK_TYPES: &[&dyn TaskType] = &[&Toolchain, &Mail];

/// The task type with this name.
pub fn find_task_type(name: &str) -> Option<&'static dyn TaskType> {
    TASK_TYPES.iter().copied().find(|task_type| task_type.name() == name)
}

/// Makes the run of a task that is stored.
///
/// # Errors
/// `database_unavailable`; the upkeep of any planner makes it then.
pub(crate) async fn start(planner: &Planner, task: &NewTask) -> Result<(), Fault> {
    start::start_runs(planner, vec![start::Start::from(task)]).await
}

/// Makes the run of a stored task, if a planner that ended left it unmade.
///
/// # Errors
/// `database_unavailable`.
pub(crate) async fn ensure_started(planner: &Planner, run_id: Uuid) -> Result<(), Fault> {
    match store::find_task(&planner.pool, run_id).await? {
        Some(task) if task.started_at.is_none() => {
            start::start_runs(planner, vec![start::Start::from(&task)]).await
        }
        Some(_) | None => Ok(()),
    }
}

pub(crate) fn not_found(run_id: Uuid) -> Fault {
    Fault::new(FaultCode::TaskNotFound, format!("no task has the run {run_id}"))
        .with_field("run_id")
}

/// A kind of task.
pub trait TaskType: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// The namespace of its runs.
    fn namespace(&self) -> &'static str;

    /// What the assignee is handed.
    ///
    /// # Errors
    /// A template of the operator cannot be rendered with this payload.
    fn instructions(
        &self,
        templates: &Templates,
        task: &HandedTask<'_>,
    ) -> Result<String, TemplateError>;

    /// The kinds of the checks that decide it.
    fn checks(&self) -> &'static [CheckKind];

    /// The class of a failure, which is number `consecutive` in its chain, from 1.
    fn class_of(&self, failure: TaskFailure, consecutive: u32) -> FailureClass;

    /// Whether a failure makes another task or is written on a forge. Otherwise the type itself says who is told.
    fn escalates(&self) -> bool;

    /// How long an ended task is kept, in days.
    fn retention_days(&self) -> u32;
}

/// A task as it is handed to its assignee.
#[derive(Debug, Clone, Copy)]
pub struct HandedTask<'a> {
    /// Its run.
    pub run_id: Uuid,
    /// Its payload.
    pub payload: &'a TaskPayload,
    /// The language of the assignee.
    pub language: Language,
}
