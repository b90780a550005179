//! Who acts on an event, and what that agent is handed: in its language, with the operator's steps, and with the steps of a
//! coordinator where it acts in place of another agent.

use super::find_agent::{Origin, find_agent};
use super::template::unusable;
use super::{HandedTask, Toolchain};
use crate::planner::Planner;
use surety_common::domain::fault::Fault;
use surety_common::domain::toolchain::{
    Assignee, Language, MAX_STEPS, Role, TaskPayload, ToolchainEvent,
};
use surety_common::store::{Admission, Assigned};
use uuid::Uuid;

/// Who acts on an event.
pub(super) enum Found {
    /// The one that the event asks for.
    Asked(Assigned),
    /// The coordinator, in its place.
    Coordinator(Assigned),
    /// No agent: the registry has no coordinator.
    None,
}

/// The agent that an event asks for, or else the coordinator.
pub(super) async fn find_any_agent(
    planner: &Planner,
    admission: &mut Admission,
    (origin, assignee): (Origin<'_>, &Assignee),
) -> Result<Found, Fault> {
    if let Some(agent) = find_agent(planner, admission, origin, assignee).await? {
        return Ok(Found::Asked(agent));
    }
    let coordinator = Assignee::Role(Role::Coordinator);
    Ok(match find_agent(planner, admission, origin, &coordinator).await? {
        Some(agent) => Found::Coordinator(agent),
        None => Found::None,
    })
}

/// A task for an agent.
pub(super) struct Rendered {
    /// The agent; empty where none was found.
    pub(super) assignee: String,
    /// What it is handed instructions from.
    pub(super) payload: TaskPayload,
    /// The instructions.
    pub(super) instructions: String,
}

/// Renders the task of an event for the agent that was found.
///
/// # Errors
/// `internal` for a template that cannot be rendered.
pub(super) fn render(
    planner: &Planner,
    (run_id, event): (Uuid, &ToolchainEvent),
    found: &Found,
) -> Result<Rendered, Fault> {
    let (assignee, language) = match found {
        Found::Asked(agent) | Found::Coordinator(agent) => (agent.agent_id.clone(), agent.language),
        Found::None => (String::new(), Language::En),
    };
    let mut payload = planner.rules.payload(event, language).map_err(unusable)?;
    // A notice has no steps.
    if matches!(found, Found::Coordinator(_)) && !payload.steps.is_empty() {
        coordinate(&mut payload, event, language);
    }
    let task = HandedTask { run_id, payload: &payload, language };
    let instructions = planner.rules.instructions(&Toolchain, &task).map_err(unusable)?;
    Ok(Rendered { assignee, payload, instructions })
}

/// Makes the payload one for the coordinator: it finds who acts, and sees to it that the steps are carried out.
fn coordinate(payload: &mut TaskPayload, event: &ToolchainEvent, language: Language) {
    let (name, kind) = match &event.assignee {
        Assignee::Account(login) => (login.clone(), "unknown_account"),
        Assignee::Role(role) => (role.to_string(), "unknown_role"),
    };
    payload.context.insert(kind.to_owned(), name.clone().into());
    let first = match (language, &event.assignee) {
        (Language::En, Assignee::Account(_)) => {
            format!("Register the agent of the account {name}: surety agents put.")
        }
        (Language::En, Assignee::Role(_)) => {
            format!("Give an agent the role {name}: surety agents put.")
        }
        (Language::Zh, Assignee::Account(_)) => {
            format!("登记账号 {name} 对应的 agent：surety agents put。")
        }
        (Language::Zh, Assignee::Role(_)) => {
            format!("为一个 agent 指定角色 {name}：surety agents put。")
        }
    };
    let second = match language {
        Language::En => "Carry out the following steps, or have that agent carry them out.",
        Language::Zh => "执行以下步骤，或让该 agent 执行。",
    };
    let last = payload.steps.pop();
    payload.steps.splice(0..0, [first, second.to_owned()]);
    // A payload with more steps is not read. The last one asks for the report.
    payload.steps.truncate(MAX_STEPS - 1);
    payload.steps.extend(last);
}
