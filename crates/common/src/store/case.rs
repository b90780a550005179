//! What a verdict is made from, read for many runs at once.

use super::StoreError;
use super::run::RunRow;
use super::together::Together;
use crate::domain::journal::{Evidence, StoredRow, Turn, read_evidence};
use crate::domain::run::RunRecord;
use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgPool};
use uuid::Uuid;

/// One row of `cases.sql`: the columns of the journal as arrays, one element a row.
#[derive(FromRow)]
struct CaseRow {
    #[sqlx(flatten)]
    run: RunRow,
    sequences: Vec<i64>,
    times: Vec<DateTime<Utc>>,
    actors: Vec<String>,
    entries: Vec<String>,
}

impl CaseRow {
    fn evidence(&self, run_id: Uuid, wanted: fn(&Turn) -> bool) -> Result<Evidence, StoreError> {
        let places = self.sequences.iter().zip(&self.times).zip(&self.actors).zip(&self.entries);
        let rows = places.map(|(((sequence, at), actor), text)| StoredRow {
            sequence: *sequence,
            at: *at,
            actor,
            text,
        });
        read_evidence(rows, wanted)
            .map_err(|error| StoreError::corrupt(format!("journal of run {run_id}"), error))
    }
}

/// A run, and what its journal says to a gate, as one moment shows both.
#[derive(Debug, Clone)]
pub struct Case {
    /// The run.
    pub run: RunRecord,
    /// Its receipts, and the last turn of the kind that was asked for.
    pub evidence: Evidence,
}

/// The process's one reader of cases: all that are wanted at a time are read in one statement.
/// Cloning shares it.
#[derive(Clone)]
pub struct Cases(Together<Uuid>);

impl Cases {
    /// Starts the reader, on a connection of its own.
    pub fn start(pool: PgPool) -> Self {
        Self(Together::start(pool, |run_ids| {
            sqlx::query(include_str!("sql/cases.sql")).bind(run_ids.to_vec())
        }))
    }

    /// The case of a run, with the last of its turns that is `wanted`.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn find(
        &self,
        run_id: Uuid,
        wanted: fn(&Turn) -> bool,
    ) -> Result<Option<Case>, StoreError> {
        let Some(row) = self.0.ask(run_id).await?.pop() else { return Ok(None) };
        let row = CaseRow::from_row(&row)?;
        let evidence = row.evidence(run_id, wanted)?;
        Ok(Some(Case { run: row.run.into_record()?, evidence }))
    }
}
