//! What was administered, and by whom. The rows are written with the changes, and are never changed.

use super::StoreError;
use super::pool::within;
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct AuditRow {
    /// In the order of time.
    pub id: Uuid,
    /// When.
    pub at: DateTime<Utc>,
    /// The identity that made it.
    pub identity: String,
    /// What was done.
    pub action: String,
    /// What was changed.
    pub object: String,
    /// JSON of what it was.
    pub before: Option<String>,
    /// JSON of what it is.
    pub after: Option<String>,
}

/// At most `limit` changes before `before`, the newest first, all of whose namespaces are among
/// `reached`; an empty list stands for every namespace.
///
/// # Errors
/// [`StoreError`]
pub async fn list_audit(
    pool: &PgPool,
    reached: &[String],
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<AuditRow>, StoreError> {
    let listing =
        sqlx::query_as(include_str!("sql/list_audit.sql")).bind(before).bind(reached).bind(limit);
    within(async { Ok(listing.fetch_all(pool).await?) }).await
}
