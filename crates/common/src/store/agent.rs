//! The registry of agents that act on tasks.

use super::StoreError;
use super::pool::within;
use crate::domain::toolchain::{Agent, AgentDriver, Forge, Language, Role};
use chrono::{DateTime, Utc};
use sqlx::PgPool;

/// The most agents of one list.
const MOST: i64 = 10_000;

#[derive(sqlx::FromRow)]
struct AgentRow {
    id: String,
    roles: Vec<String>,
    language: String,
    concurrency: i32,
    credential: String,
    driver: String,
    forges: Vec<String>,
    logins: Vec<String>,
}

impl AgentRow {
    fn into_agent(self) -> Result<Agent, StoreError> {
        let what = |column: &str| format!("agent {:?} column {column}", self.id);
        let role = |text: &String| {
            Role::from_text(text).ok_or_else(|| StoreError::corrupt(what("roles"), text))
        };
        let account = |(forge, login): (&String, &String)| -> Result<_, StoreError> {
            let forge = Forge::from_text(forge)
                .ok_or_else(|| StoreError::corrupt(what("accounts"), forge))?;
            Ok((forge, login.clone()))
        };
        Ok(Agent {
            accounts: self
                .forges
                .iter()
                .zip(&self.logins)
                .map(account)
                .collect::<Result<_, _>>()?,
            roles: self.roles.iter().map(role).collect::<Result<_, StoreError>>()?,
            language: Language::from_text(&self.language)
                .ok_or_else(|| StoreError::corrupt(what("language"), &self.language))?,
            concurrency: u32::try_from(self.concurrency)
                .map_err(|error| StoreError::corrupt(what("concurrency"), error))?,
            credential: self.credential.clone(),
            driver: AgentDriver::from_text(&self.driver)
                .ok_or_else(|| StoreError::corrupt(what("driver"), &self.driver))?,
            id: self.id.clone(),
        })
    }
}

/// All agents, by their ids.
///
/// # Errors
/// [`StoreError`]
pub async fn list_agents(pool: &PgPool) -> Result<Vec<Agent>, StoreError> {
    let listing = sqlx::query_as(include_str!("sql/list_agents.sql"));
    let listing = listing.bind(None::<&[&str]>).bind(MOST);
    let rows: Vec<AgentRow> = within(async { Ok(listing.fetch_all(pool).await?) }).await?;
    rows.into_iter().map(AgentRow::into_agent).collect()
}

/// One agent.
///
/// # Errors
/// [`StoreError`]
pub async fn find_agent(pool: &PgPool, id: &str) -> Result<Option<Agent>, StoreError> {
    Ok(find_agents(pool, &[id]).await?.pop())
}

/// The agents with these ids, by their ids; fewer where some are not registered.
///
/// # Errors
/// [`StoreError`]
pub async fn find_agents(pool: &PgPool, ids: &[&str]) -> Result<Vec<Agent>, StoreError> {
    let listing = sqlx::query_as(include_str!("sql/list_agents.sql")).bind(Some(ids)).bind(MOST);
    let rows: Vec<AgentRow> = within(async { Ok(listing.fetch_all(pool).await?) }).await?;
    rows.into_iter().map(AgentRow::into_agent).collect()
}

/// Stores an agent in place of one with the same id. Returns false, and stores nothing, where one of its accounts
/// belongs to another agent.
///
/// # Errors
/// [`StoreError`]
pub async fn put_agent(
    pool: &PgPool,
    agent: &Agent,
    by: &str,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let roles: Vec<&str> = agent.roles.iter().map(|role| role.as_str()).collect();
    let forges: Vec<&str> = agent.accounts.iter().map(|(forge, _)| forge.as_str()).collect();
    let logins: Vec<&str> = agent.accounts.iter().map(|(_, login)| login.as_str()).collect();
    let concurrency = i32::try_from(agent.concurrency).unwrap_or(i32::MAX);
    within(async {
        let mut transaction = pool.begin().await?;
        sqlx::query(include_str!("sql/put_agent.sql"))
            .bind(&agent.id)
            .bind(roles)
            .bind(agent.language.as_str())
            .bind(concurrency)
            .bind(&agent.credential)
            .bind(agent.driver.as_str())
            .bind(now)
            .bind(by)
            .execute(&mut *transaction)
            .await?;
        let left: i64 = sqlx::query_scalar(include_str!("sql/put_agent_accounts.sql"))
            .bind(&agent.id)
            .bind(forges)
            .bind(logins)
            .fetch_one(&mut *transaction)
            .await?;
        if left > 0 {
            transaction.rollback().await?;
            return Ok(false);
        }
        transaction.commit().await?;
        Ok(true)
    })
    .await
}

/// Deletes an agent. Its open tasks stay its own. Returns false where there is none.
///
/// # Errors
/// [`StoreError`]
pub async fn delete_agent(pool: &PgPool, id: &str) -> Result<bool, StoreError> {
    let deleting = sqlx::query("delete from agent where id = $1").bind(id);
    let done = within(async { Ok(deleting.execute(pool).await?) }).await?;
    Ok(done.rows_affected() > 0)
}
