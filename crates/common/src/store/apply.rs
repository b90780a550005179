//! The one statement that changes executions.

use super::StoreError;
use super::execution::{blocked_from, letters, progress, to_text, wait_ids};
use super::journal::entries_text;
use crate::domain::execution::draft::Write;
use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use std::collections::HashSet;
use uuid::Uuid;

/// What became of one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is stored, with its journal row.
    Applied,
    /// Somebody else moved the row first, or the lease was taken over: read again and think again.
    Lost,
}

/// The columns of many changes, as arrays.
#[derive(Default)]
struct Columns {
    run_id: Vec<Uuid>,
    read_version: Vec<i64>,
    read_epoch: Vec<i64>,
    state: Vec<&'static str>,
    blocked_from: Vec<Option<&'static str>>,
    sequence: Vec<i64>,
    priority: Vec<i16>,
    ready_at: Vec<Option<DateTime<Utc>>>,
    lease_owner: Vec<Option<Uuid>>,
    lease_epoch: Vec<i64>,
    plan_revision: Vec<i32>,
    step_states: Vec<String>,
    progress: Vec<String>,
    wait: Vec<Option<String>>,
    terminal: Vec<Option<String>>,
    deadline_at: Vec<Option<DateTime<Utc>>>,
    at: Vec<DateTime<Utc>>,
    span_id: Vec<Option<String>>,
    entries: Vec<String>,
    wait_ids: Vec<Option<String>>,
    actor: Vec<String>,
}

impl Columns {
    fn push(&mut self, write: &Write, span_id: Option<&str>) -> Result<(), StoreError> {
        let row = &write.execution;
        self.run_id.push(row.run_id);
        self.read_version.push(write.fence.version);
        self.read_epoch.push(write.fence.lease_epoch);
        self.state.push(row.state.as_str());
        self.blocked_from.push(blocked_from(row.state));
        self.sequence.push(row.sequence);
        self.priority.push(row.priority);
        self.ready_at.push(row.ready_at);
        self.lease_owner.push(row.lease_owner);
        self.lease_epoch.push(row.lease_epoch);
        self.plan_revision.push(plan_revision(row.plan_revision)?);
        self.step_states.push(letters(row));
        self.progress.push(progress(row)?);
        self.wait.push(row.wait.as_ref().map(to_text).transpose()?);
        self.terminal.push(row.terminal.as_ref().map(to_text).transpose()?);
        self.deadline_at.push(row.deadline_at);
        self.at.push(row.updated_at);
        self.span_id.push(span_id.map(str::to_owned));
        self.entries.push(entries_text(write));
        self.wait_ids.push(wait_ids(row));
        self.actor.push(write.actor.0.clone());
        Ok(())
    }
}

/// Writes many changes of different runs in one statement, and answers for each in its place.
///
/// # Errors
/// [`StoreError`]; then none of them is stored, or, where the connection broke, it is not known.
pub(super) async fn apply(
    connection: &mut PgConnection,
    changes: &[(&Write, Option<&str>)],
) -> Result<Vec<Outcome>, StoreError> {
    let mut columns = Columns::default();
    for (write, span_id) in changes {
        columns.push(write, *span_id)?;
    }
    let moved: HashSet<Uuid> = sqlx::query_scalar(include_str!("sql/apply.sql"))
        .bind(&columns.run_id)
        .bind(&columns.read_version)
        .bind(&columns.read_epoch)
        .bind(&columns.state)
        .bind(&columns.blocked_from)
        .bind(&columns.sequence)
        .bind(&columns.priority)
        .bind(&columns.ready_at)
        .bind(&columns.lease_owner)
        .bind(&columns.lease_epoch)
        .bind(&columns.plan_revision)
        .bind(&columns.step_states)
        .bind(&columns.progress)
        .bind(&columns.wait)
        .bind(&columns.terminal)
        .bind(&columns.deadline_at)
        .bind(&columns.at)
        .bind(&columns.span_id)
        .bind(&columns.entries)
        .bind(&columns.wait_ids)
        .bind(&columns.actor)
        .fetch_all(connection)
        .await?
        .into_iter()
        .collect();
    Ok(changes
        .iter()
        .map(|(write, _)| match moved.contains(&write.execution.run_id) {
            true => Outcome::Applied,
            false => Outcome::Lost,
        })
        .collect())
}

/// A plan revision as the column's type.
pub(super) fn plan_revision(revision: u32) -> Result<i32, StoreError> {
    i32::try_from(revision).map_err(|error| StoreError::corrupt("a plan revision", error))
}
