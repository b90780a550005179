//! The accounts by which an agent acts on the forge of a task.

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

/// The accounts whose work counts for a task: that of the assignee in the registry, that of the forges file (`of_file`),
/// and the account that the event asked. A coordinator acts in place of an account that no agent has, or has its owner act.
///
/// # Errors
/// [`StoreError`]
pub async fn accounts_of_task(
    pool: &PgPool,
    task: &StoredTask,
    of_file: Option<&str>,
) -> Result<Vec<String>, StoreError> {
    let (_, registered) = account_of_task(pool, task).await?;
    let mut accounts: Vec<String> = Vec::new();
    for account in [registered.as_str(), of_file.unwrap_or_default(), asked(task)] {
        if !account.is_empty() && !accounts.iter().any(|it| it.eq_ignore_ascii_case(account)) {
            accounts.push(account.to_owned());
        }
    }
    Ok(accounts)
}

/// The account that the event asked; empty where it asked a role.
fn asked(task: &StoredTask) -> &str {
    task.addressee.strip_prefix("account ").unwrap_or_default()
}

/// The account that the event asked, where it is one of the assignee's; else the assignee's first on that forge. Of an
/// assignee that is not registered, the account that the event asked.
fn account(task: &StoredTask, agent: Option<&Agent>) -> String {
    let asked = asked(task);
    let Some(agent) = agent else { return asked.to_owned() };
    let forge = Forge::from_text(&task.forge);
    let of_forge = || {
        let accounts = agent.accounts.iter().filter(|(of, _)| Some(*of) == forge);
        accounts.map(|(_, login)| login.as_str())
    };
    let same = of_forge().find(|login| login.eq_ignore_ascii_case(asked));
    same.or_else(|| of_forge().next()).unwrap_or_default().to_owned()
}
