//! The account by which an agent acts on the forge of a task.

use super::row::StoredTask;
use crate::domain::toolchain::{Agent, Forge};
use crate::store::StoreError;
use crate::store::agent::find_agent;
use sqlx::PgPool;

/// The assignee of a task in the registry, and its account on the task's forge; an empty account where it has none.
///
/// # Errors
/// [`StoreError`]
pub async fn account_of_task(
    pool: &PgPool,
    task: &StoredTask,
) -> Result<(Option<Agent>, String), StoreError> {
    let agent = find_agent(pool, &task.assignee).await?;
    let account = account(task, agent.as_ref());
    Ok((agent, account))
}

/// The account that the event asked, where it is one of the assignee's; else the assignee's first on that forge. Of an
/// assignee that is not registered, the account that the event asked.
fn account(task: &StoredTask, agent: Option<&Agent>) -> String {
    let asked = task.addressee.strip_prefix("account ").unwrap_or_default();
    let Some(agent) = agent else { return asked.to_owned() };
    let forge = Forge::from_text(&task.forge);
    let of_forge = || {
        let accounts = agent.accounts.iter().filter(|(of, _)| Some(*of) == forge);
        accounts.map(|(_, login)| login.as_str())
    };
    let same = of_forge().find(|login| login.eq_ignore_ascii_case(asked));
    same.or_else(|| of_forge().next()).unwrap_or_default().to_owned()
}
