//! Tasks that wait for an agent.

use super::admit::subject_lock;
use super::end::{cancel_superseded, replaced};
use super::find_agent::Origin;
use super::render::{Found, Rendered, find_any_agent, render};
use super::start::{Start, start_runs};
use crate::planner::Planner;
use serde_json::Value;
use surety_common::crash;
use surety_common::domain::fault::Fault;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::toolchain::{Assignee, EventType, Forge, Role, ToolchainEvent};
use surety_common::store::{self, Admission, Inserted, NewTask, StoredTask};
use uuid::Uuid;

impl Planner {
    /// Gives a task without an assignee to the agent that its event asks for, or else to the coordinator: another task takes
    /// its place, in the language of the agent and with its own clock. What a run was made with never changes.
    pub(super) async fn assign(&self, run_id: Uuid) -> Result<(), Fault> {
        // The time before the look: an agent that is stored while none is found is looked at again.
        let began = self.now();
        let Some(task) = store::find_task(&self.pool, run_id).await? else { return Ok(()) };
        let Some(event) = event_of(&task) else {
            return Ok(store::try_assign(&self.pool, run_id, began).await?);
        };
        let lock = subject_lock(event.source, &event.subject);
        let mut admission = Admission::begin(&self.pool, lock).await?;
        let asked = (Origin::of(&event), &event.assignee);
        let found = find_any_agent(self, &mut admission, asked).await?;
        if matches!(found, Found::None) {
            drop(admission);
            return Ok(store::try_assign(&self.pool, run_id, began).await?);
        }
        // Under the lock: events about the same subject may have left nothing to do.
        match store::find_task(&self.pool, run_id).await?.filter(waits) {
            Some(task) => replace(self, admission, (&task, &event), &found).await,
            None => Ok(()),
        }
    }
}

/// Whether a task waits for an agent.
fn waits(task: &StoredTask) -> bool {
    task.assignee.is_empty()
        && !task.is_superseded
        && task.reported_at.is_none()
        && task.terminal.is_none()
}

/// The event that made a task; none of one that the service made.
fn event_of(task: &StoredTask) -> Option<ToolchainEvent> {
    let assignee = match task.addressee.split_once(' ')? {
        ("account", name) => Assignee::Account(name.to_owned()),
        ("role", name) => Assignee::Role(Role::from_text(name)?),
        _ => return None,
    };
    let context = task.payload.context.clone();
    let brief = context.get("brief").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(ToolchainEvent {
        event_type: EventType::from_text(&task.payload.event_type)?,
        from: task.payload.from.clone(),
        assignee,
        subject: task.subject.clone(),
        brief,
        context,
        source: Forge::from_text(&task.forge)?,
        happened_at: task.happened_at,
        key: String::new(),
        is_among_others: false,
        is_head: false,
    })
}

async fn replace(
    planner: &Planner,
    mut admission: Admission,
    (task, event): (&StoredTask, &ToolchainEvent),
    found: &Found,
) -> Result<(), Fault> {
    let run_id = Uuid::now_v7();
    let Rendered { assignee, payload, instructions } = render(planner, (run_id, event), found)?;
    let key = sha256_hex(format!("assigned|{}", task.run_id).as_bytes());
    let new = NewTask {
        depth: task.depth,
        business_failures: task.business_failures,
        payload,
        instructions,
        assignee,
        ..NewTask::follow_up(task, run_id, key, planner.now())
    };
    if admission.insert(&new).await? != Inserted::New {
        return Ok(());
    }
    admission.supersede(&[task.run_id], run_id).await?;
    admission.commit().await?;
    crash::point("planner.after_assignment");
    tracing::info!(
        %run_id, replaced = %task.run_id, agent = new.assignee,
        "planner: a task without an assignee was replaced by one for an agent"
    );
    start_runs(planner, vec![Start::from(&new)]).await?;
    cancel_superseded(planner, task.run_id, &replaced(run_id)).await
}
