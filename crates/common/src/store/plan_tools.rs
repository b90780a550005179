//! The tools that plans may name. Executors store theirs, because services do not call each other.

use super::StoreError;
use super::pool::within;
use chrono::{DateTime, Utc};
use sqlx::PgPool;

/// The most tools that a model is shown.
const MOST: i64 = 500;

/// A tool, as a model that plans is shown it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct PlanTool {
    /// Its name.
    pub tool: String,
    /// What it does; of a tool from outside in the words of what serves it.
    pub description: String,
    /// The JSON Schema of its arguments; empty of a tool from outside.
    pub schema: String,
    /// Whether a worker or an MCP server serves it.
    pub from_outside: bool,
}

/// Stores the tools of an executor.
///
/// # Errors
/// [`StoreError`]
pub async fn show_tools(
    pool: &PgPool,
    tools: &[PlanTool],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let names: Vec<&str> = tools.iter().map(|tool| tool.tool.as_str()).collect();
    let descriptions: Vec<&str> = tools.iter().map(|tool| tool.description.as_str()).collect();
    let schemas: Vec<&str> = tools.iter().map(|tool| tool.schema.as_str()).collect();
    let showing = sqlx::query(include_str!("sql/show_tools.sql"))
        .bind(names)
        .bind(descriptions)
        .bind(schemas)
        .bind(now);
    within(async { Ok(showing.execute(pool).await?) }).await?;
    Ok(())
}

/// Stores the tools that an MCP server offers, by name and description, for the namespaces that it serves; none is every
/// one. What it offered before is replaced.
///
/// # Errors
/// [`StoreError`]
pub async fn show_server_tools(
    pool: &PgPool,
    server: &str,
    namespaces: Option<&[String]>,
    tools: &[(String, String)],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let (names, descriptions): (Vec<&str>, Vec<&str>) =
        tools.iter().map(|(name, description)| (name.as_str(), description.as_str())).unzip();
    let showing = sqlx::query(include_str!("sql/show_server_tools.sql"))
        .bind(server)
        .bind(names)
        .bind(descriptions)
        .bind(namespaces)
        .bind(now);
    within(async { Ok(showing.execute(pool).await?) }).await?;
    Ok(())
}

/// Forgets the tools of the MCP servers that are not among these.
///
/// # Errors
/// [`StoreError`]
pub async fn forget_other_servers(pool: &PgPool, servers: &[&str]) -> Result<(), StoreError> {
    let forgetting =
        sqlx::query("delete from shown_server_tool where server <> all($1)").bind(servers);
    within(async { Ok(forgetting.execute(pool).await?) }).await?;
    Ok(())
}

/// The tools that steps of a namespace may call, those of executors first.
///
/// # Errors
/// [`StoreError`]
pub async fn plan_tools(
    pool: &PgPool,
    namespace: &str,
    now: DateTime<Utc>,
) -> Result<Vec<PlanTool>, StoreError> {
    let listing =
        sqlx::query_as(include_str!("sql/plan_tools.sql")).bind(namespace).bind(now).bind(MOST);
    within(async { Ok(listing.fetch_all(pool).await?) }).await
}
