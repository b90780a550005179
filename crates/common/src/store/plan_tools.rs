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
    /// What it does; of a worker's tool in the worker's words.
    pub description: String,
    /// The JSON Schema of its arguments; empty of a worker's tool.
    pub schema: String,
    /// Whether a worker serves it.
    pub of_worker: bool,
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
