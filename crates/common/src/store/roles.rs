//! Database roles, one for each service: a stolen login can write only what its service writes.

use super::StoreError;
use super::hosts::Hosts;
use super::pool::within_work;
use sqlx::{AssertSqlSafe, PgPool};

/// The roles of planner, executor and gate.
pub const SERVICE_ROLES: [&str; 3] = ["surety_planner", "surety_executor", "surety_gate"];

/// The role that an address of a database logs in as.
///
/// # Errors
/// [`StoreError::Refused`] when it cannot be parsed.
pub fn role_of(database_url: &str) -> Result<String, StoreError> {
    let hosts = Hosts::read(database_url, 0)?;
    Ok(hosts.role().unwrap_or_default().to_owned())
}

/// Makes the roles of the services where they are missing, and sets the rights of each. The caller's role owns the
/// schema and may create roles.
///
/// # Errors
/// [`StoreError`]
pub async fn make_service_roles(pool: &PgPool) -> Result<(), StoreError> {
    // Several statements in one transaction; the text has no parameters.
    within_work(async {
        let statements = AssertSqlSafe(include_str!("sql/service_roles.sql").to_owned());
        let mut transaction = pool.begin().await?;
        sqlx::raw_sql(statements).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    })
    .await
}

/// Whether the pool's role may change the schema. The role of a service may not: the owner migrates.
pub(super) async fn may_change_schema(pool: &PgPool) -> Result<bool, StoreError> {
    let asking = sqlx::query_scalar("select has_schema_privilege(current_schema(), 'create')");
    let may: Option<bool> = within_work(async { Ok(asking.fetch_one(pool).await?) }).await?;
    Ok(may.unwrap_or_default())
}
