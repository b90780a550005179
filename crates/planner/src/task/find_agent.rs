//! The agent that an event asks for: by the registry, and by the accounts of the forges file.

use crate::planner::Planner;
use serde_json::{Map, Value};
use surety_common::domain::fault::Fault;
use surety_common::domain::toolchain::{
    ActionType, Assignee, Forge, Role, ToolchainEvent, authors_of,
};
use surety_common::store::{Admission, Assigned, LeftOut};

/// Where an event happened, and who caused it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    /// The forge and the repository.
    pub(super) place: (Forge, &'a str),
    /// What the event asks for.
    pub(super) action: ActionType,
    /// The account that caused it.
    pub(super) from: &'a str,
    /// Its facts.
    pub(super) context: &'a Map<String, Value>,
}

impl<'a> Origin<'a> {
    /// That of an event.
    pub(super) fn of(event: &'a ToolchainEvent) -> Self {
        Self {
            place: (event.source, &event.subject.repo),
            action: event.action_type(),
            from: &event.from,
            context: &event.context,
        }
    }
}

/// The agent of an account, or one with a role; an author is not given the review of its own work.
pub(super) async fn find_agent(
    planner: &Planner,
    admission: &mut Admission,
    origin: Origin<'_>,
    assignee: &Assignee,
) -> Result<Option<Assigned>, Fault> {
    let (forge, repo) = origin.place;
    let left_out = match assignee {
        Assignee::Role(Role::Reviewer) => authors(planner, origin),
        Assignee::Role(_) | Assignee::Account(_) => LeftOut::default(),
    };
    if let Some(agent) = admission.agent_of(forge, assignee, &left_out).await? {
        return Ok(Some(agent));
    }
    let of_file = assignee
        .account()
        .and_then(|login| planner.escalations.agent_of_account(forge, repo, login));
    match of_file {
        Some(id) => Ok(admission.agent(&id).await?),
        None => Ok(None),
    }
}

/// The accounts that wrote what is reviewed, and their agents by the forges file.
fn authors(planner: &Planner, Origin { place, action, from, context }: Origin<'_>) -> LeftOut {
    let (forge, repo) = place;
    let accounts = authors_of(action, from, context);
    let of_file = |login: &String| planner.escalations.agent_of_account(forge, repo, login);
    LeftOut { agents: accounts.iter().filter_map(of_file).collect(), accounts }
}
