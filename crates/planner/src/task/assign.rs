//! Tasks that wait for an agent.

use super::end::{cancel_superseded, later_event};
use super::find_agent::{Origin, find_agent};
use super::start::{Start, start_runs};
use super::template::unusable;
use crate::planner::Planner;
use surety_common::domain::fault::Fault;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::toolchain::{AgentDriver, Assignee, Language, Role};
use surety_common::store::{self, Admission, Assigned, Inserted, NewTask, StoredTask};
use uuid::Uuid;

impl Planner {
    /// Gives a task without an assignee to the agent that its event asks for, or else to the coordinator.
    pub(super) async fn assign(&self, run_id: Uuid) -> Result<(), Fault> {
        let Some(task) = store::find_task(&self.pool, run_id).await? else { return Ok(()) };
        let asked = task.addressee.split_once(' ').and_then(|(kind, name)| match kind {
            "account" => Some(Assignee::Account(name.to_owned())),
            "role" => Role::from_text(name).map(Assignee::Role),
            _ => None,
        });
        let mut reading = Admission::begin(&self.pool, []).await?;
        let mut found = None;
        for assignee in asked.iter().chain(&[Assignee::Role(Role::Coordinator)]) {
            found = find_agent(self, &mut reading, Origin::of_task(&task), assignee).await?;
            if found.is_some() {
                break;
            }
        }
        drop(reading);
        let Some(Assigned { agent_id, language }) = found else { return Ok(()) };
        let agent = store::find_agent(&self.pool, &agent_id).await?;
        if agent.is_some_and(|agent| agent.driver == AgentDriver::Model) {
            return replace(self, &task, (agent_id, language)).await;
        }
        let instructions =
            self.rules.instructions(run_id, &task.payload, language).map_err(unusable)?;
        let given = (agent_id.as_str(), instructions.as_str());
        let (signing, now) = (&self.keys.signing, self.now());
        if store::assign_task(&self.pool, signing, run_id, given, now).await? {
            tracing::info!(%run_id, agent = agent_id, "planner: a task without an assignee was given to an agent");
            self.waker.wake_now(store::Topic::Waits(run_id));
        }
        Ok(())
    }
}

/// Puts a task for an agent that the model drives in place of one whose run waits for an agent outside: the driver of a
/// run never changes.
async fn replace(
    planner: &Planner,
    task: &StoredTask,
    (agent, language): (String, Language),
) -> Result<(), Fault> {
    let key = sha256_hex(format!("assigned|{}", task.run_id).as_bytes());
    let mut new = NewTask::follow_up(task, Uuid::now_v7(), key, planner.now());
    new.depth = task.depth;
    new.business_failures = task.business_failures;
    new.instructions =
        planner.rules.instructions(new.run_id, &new.payload, language).map_err(unusable)?;
    new.assignee = agent;
    let mut admission = Admission::begin(&planner.pool, []).await?;
    if admission.insert(&new).await? != Inserted::New {
        return Ok(());
    }
    admission.supersede(&[task.run_id], new.run_id).await?;
    admission.commit().await?;
    tracing::info!(
        run_id = %new.run_id, replaced = %task.run_id, agent = new.assignee,
        "planner: a task without an assignee was replaced by one for an agent that the model drives"
    );
    start_runs(planner, vec![Start::from(&new)]).await?;
    cancel_superseded(planner, task.run_id, &later_event(new.run_id)).await
}
