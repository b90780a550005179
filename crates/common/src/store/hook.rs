//! Hooks of forges: where deliveries arrive, and which configured secrets sign them.

use super::StoreError;
use super::pool::within;
use crate::domain::toolchain::{Forge, Hook};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

/// A stored hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHook {
    /// The hook.
    pub hook: Hook,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
    /// The identity that changed it.
    pub updated_by: String,
}

#[derive(sqlx::FromRow)]
struct Row {
    name: String,
    forge: String,
    secrets: Vec<String>,
    updated_at: DateTime<Utc>,
    updated_by: String,
}

impl Row {
    fn into_hook(self) -> Result<StoredHook, StoreError> {
        let Self { name, forge, secrets, updated_at, updated_by } = self;
        let forge = read_forge(&forge, || format!("hook {name}"))?;
        Ok(StoredHook { hook: Hook { name, forge, secrets }, updated_at, updated_by })
    }
}

pub(super) fn read_forge(text: &str, what: impl Fn() -> String) -> Result<Forge, StoreError> {
    Forge::from_text(text).ok_or_else(|| StoreError::corrupt(what(), format!("{text} is no forge")))
}

/// Who changes a hook, and when.
#[derive(Debug, Clone, Copy)]
pub struct HookChange<'a> {
    /// The identity.
    pub identity: &'a str,
    /// The time.
    pub now: DateTime<Utc>,
}

/// Makes or replaces a hook.
///
/// # Errors
/// [`StoreError`]
pub async fn put_hook(
    pool: &PgPool,
    hook: &Hook,
    change: HookChange<'_>,
) -> Result<StoredHook, StoreError> {
    let putting = sqlx::query_as(include_str!("sql/hook_put.sql"))
        .bind(&hook.name)
        .bind(hook.forge.as_str())
        .bind(&hook.secrets)
        .bind(hook.is_unsigned())
        .bind(change.now)
        .bind(change.identity)
        .bind(Uuid::now_v7());
    let row: Row = within(async { Ok(putting.fetch_one(pool).await?) }).await?;
    row.into_hook()
}

/// All hooks, by name.
///
/// # Errors
/// [`StoreError`]
pub async fn list_hooks(pool: &PgPool) -> Result<Vec<StoredHook>, StoreError> {
    let listing = sqlx::query_as(include_str!("sql/hook_list.sql"));
    let rows: Vec<Row> = within(async { Ok(listing.fetch_all(pool).await?) }).await?;
    rows.into_iter().map(Row::into_hook).collect()
}

/// Deletes a hook and returns it; none when there is none of that name.
///
/// # Errors
/// [`StoreError`]
pub async fn delete_hook(
    pool: &PgPool,
    name: &str,
    change: HookChange<'_>,
) -> Result<Option<StoredHook>, StoreError> {
    let deleting = sqlx::query_as(include_str!("sql/hook_delete.sql"))
        .bind(name)
        .bind(change.now)
        .bind(change.identity)
        .bind(Uuid::now_v7());
    let row: Option<Row> = within(async { Ok(deleting.fetch_optional(pool).await?) }).await?;
    row.map(Row::into_hook).transpose()
}
