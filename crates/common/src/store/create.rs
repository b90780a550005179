//! Making a run, with its first plan and its first transitions, in one statement.

use super::StoreError;
use super::apply::{Outcome, apply, plan_revision};
use super::execution::{blocked_from, letters, progress, to_text, wait_ids};
use super::journal::entries_text;
use super::plan::StoredPlan;
use crate::domain::execution::draft::Write;
use crate::domain::run::RunSpec;
use sqlx::postgres::PgArguments;
use sqlx::query::QueryScalar;
use sqlx::{PgPool, Postgres};
use uuid::Uuid;

/// A run to be made.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// What it is asked to do.
    pub spec: RunSpec,
    /// Digest of the whole request, to tell a repeated call from another one under the same id.
    pub request_digest: String,
    /// The plan that came with it.
    pub plan: Option<StoredPlan>,
    /// Its first moves.
    pub write: Write,
}

/// What became of the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// It is a new run.
    New,
    /// The same order came before and made this run.
    Before(Uuid),
    /// Another order under the same request id made this run.
    Conflict(Uuid),
}

/// Makes a run, once for a request id.
///
/// # Errors
/// [`StoreError`]
pub async fn create_run(
    pool: &PgPool,
    new: &NewRun,
    span_id: Option<&str>,
) -> Result<Created, StoreError> {
    let made = bind_execution(bind_spec(new)?, &new.write, span_id)?;
    if made.fetch_optional(pool).await?.is_some() {
        return Ok(Created::New);
    }
    let (id, digest): (Uuid, String) = sqlx::query_as(include_str!("sql/find_request.sql"))
        .bind(&new.spec.namespace)
        .bind(&new.spec.request_id)
        .fetch_one(pool)
        .await?;
    Ok(if digest == new.request_digest { Created::Before(id) } else { Created::Conflict(id) })
}

type Making<'q> = QueryScalar<'q, Postgres, Uuid, PgArguments>;

fn bind_spec(new: &NewRun) -> Result<Making<'_>, StoreError> {
    let NewRun { spec, request_digest, plan, .. } = new;
    Ok(sqlx::query_scalar(include_str!("sql/create_run.sql"))
        .bind(spec.id)
        .bind(&spec.namespace)
        .bind(&spec.request_id)
        .bind(request_digest)
        .bind(&spec.goal)
        .bind(spec.driver.as_str())
        .bind(&spec.workspace)
        .bind(to_text(&spec.limits)?)
        .bind(to_text(&spec.policy)?)
        .bind(to_text(&spec.labels)?)
        .bind(&spec.trace_parent)
        .bind(spec.created_at)
        .bind(plan.as_ref().map(|plan| &plan.digest))
        .bind(plan.as_ref().map(|plan| &plan.reason))
        .bind(plan.as_ref().map(|plan| &plan.body)))
}

fn bind_execution<'q>(
    query: Making<'q>,
    write: &'q Write,
    span_id: Option<&'q str>,
) -> Result<Making<'q>, StoreError> {
    let row = &write.execution;
    Ok(query
        .bind(row.state.as_str())
        .bind(blocked_from(row.state))
        .bind(row.sequence)
        .bind(row.priority)
        .bind(row.ready_at)
        .bind(plan_revision(row.plan_revision)?)
        .bind(letters(row))
        .bind(progress(row)?)
        .bind(row.wait.as_ref().map(to_text).transpose()?)
        .bind(row.terminal.as_ref().map(to_text).transpose()?)
        .bind(row.deadline_at)
        .bind(span_id)
        .bind(entries_text(write))
        .bind(wait_ids(row))
        .bind(&write.actor.0))
}

/// Stores a plan revision together with the moves it leads to.
///
/// # Errors
/// [`StoreError`]; `plan_pkey` in [`StoreError::Constraint`] when the revision is taken.
pub async fn submit_plan(
    pool: &PgPool,
    plan: &StoredPlan,
    write: &Write,
    span_id: Option<&str>,
) -> Result<Outcome, StoreError> {
    let mut transaction = pool.begin().await?;
    sqlx::query(include_str!("sql/store_plan.sql"))
        .bind(write.execution.run_id)
        .bind(plan_revision(plan.revision)?)
        .bind(&plan.digest)
        .bind(&plan.parent_digest)
        .bind(&plan.reason)
        .bind(&plan.body)
        .bind(plan.created_at)
        .execute(&mut *transaction)
        .await?;
    let outcome = apply(&mut transaction, &[(write, span_id)]).await?;
    match outcome.first() {
        Some(Outcome::Applied) => transaction.commit().await?,
        Some(Outcome::Lost) | None => {
            transaction.rollback().await?;
            return Ok(Outcome::Lost);
        }
    }
    Ok(Outcome::Applied)
}
