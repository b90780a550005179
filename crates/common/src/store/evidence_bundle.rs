//! The evidence for a verdict, read for many runs at once.

use super::StoreError;
use super::pages::{MAX_HELD, Pages};
use super::query_batcher::QueryBatcher;
use super::run_row::RunRow;
use crate::domain::journal::{Evidence, StoredError, StoredRow, Turn};
use crate::domain::machine::run::RunState;
use crate::domain::run::RunRecord;
use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgPool};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

/// Rows and bytes per journal that the statement over many runs reads. Most journals fit entirely;
/// 64 of them take 32 MiB at most.
const BEGINNING: (i64, i64) = (256, 512 * 1024);
/// A bundle that takes more than this fraction of its limit is large.
const LARGE_PART: usize = 16;
/// The number of large bundles that the process holds at once; others wait until a verdict is
/// written.
const LARGE_AT_ONCE: usize = 2;

/// One row of `bundles.sql`: the columns of the journal as arrays, one element per row.
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
    fn rows(&self) -> impl Iterator<Item = StoredRow<'_>> {
        let places = self.sequences.iter().zip(&self.times).zip(&self.actors).zip(&self.entries);
        places.map(|(((sequence, at), actor), text)| StoredRow {
            sequence: *sequence,
            at: *at,
            actor,
            text,
        })
    }
}

/// A run and the evidence in its journal, read from one snapshot.
#[derive(Debug, Clone)]
pub struct EvidenceBundle {
    /// The run.
    pub run: RunRecord,
    /// Its receipts, and the last turn of the requested kind.
    pub evidence: Evidence,
    /// The permit for a large bundle, released when it is dropped.
    permit: Option<Arc<OwnedSemaphorePermit>>,
}

/// The process's single reader of evidence bundles. One statement reads all that are requested at a
/// time; the rest of a long journal is read separately. Clones share it.
#[derive(Clone)]
pub struct EvidenceBundles {
    beginnings: QueryBatcher<Uuid>,
    pool: PgPool,
    permit: Arc<Semaphore>,
    /// The limit of stored receipts in a bundle, in bytes.
    most: usize,
}

impl EvidenceBundles {
    /// Starts the reader on a dedicated connection.
    pub fn start(pool: PgPool) -> Self {
        Self::holding(pool, MAX_HELD)
    }

    /// As [`Self::start`], with another limit of stored receipts in a bundle, in bytes.
    pub fn holding(pool: PgPool, most: usize) -> Self {
        let beginnings = QueryBatcher::start(pool.clone(), |run_ids| {
            sqlx::query(include_str!("sql/bundles.sql"))
                .bind(run_ids.to_vec())
                .bind(RunState::Verifying.as_str())
                .bind(BEGINNING.0)
                .bind(BEGINNING.1)
        });
        Self { beginnings, pool, permit: Arc::new(Semaphore::new(LARGE_AT_ONCE)), most }
    }

    /// The bundle of a run, with the last of its turns that is `wanted`. For a run that is not
    /// being verified no evidence is read.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::TooLarge`] when its receipts exceed the limit.
    pub async fn find(
        &self,
        run_id: Uuid,
        wanted: fn(&Turn) -> bool,
    ) -> Result<Option<EvidenceBundle>, StoreError> {
        let Some(row) = self.beginnings.ask(run_id).await?.pop() else { return Ok(None) };
        let row = CaseRow::from_row(&row)?;
        let mut evidence = Evidence::default();
        let bytes = evidence.read_on(row.rows(), wanted).map_err(|error| unread(run_id, error))?;
        let read = row.sequences.last().copied().unwrap_or_default();
        let mut bundle = EvidenceBundle { run: row.run.into_record()?, evidence, permit: None };
        if bundle.run.execution.state == RunState::Verifying {
            self.read_on(&mut bundle, (read, bytes), wanted).await?;
        }
        Ok(Some(bundle))
    }

    /// Reads the journal after the rows that the common statement returned, which were `read`
    /// bytes.
    async fn read_on(
        &self,
        bundle: &mut EvidenceBundle,
        (read, mut bytes): (i64, usize),
        wanted: fn(&Turn) -> bool,
    ) -> Result<(), StoreError> {
        let run_id = bundle.run.spec.id;
        // The journal only grows: this is its end when the run was read.
        let mut pages = Pages::new(self.pool.clone(), run_id, read, bundle.run.execution.sequence);
        while let Some(rows) = pages.next().await? {
            let rows = rows.iter().map(|row| row.stored());
            bytes +=
                bundle.evidence.read_on(rows, wanted).map_err(|error| unread(run_id, error))?;
            if bytes > self.most {
                return Err(StoreError::TooLarge {
                    what: format!("the size of the receipts of run {run_id}"),
                    limit: self.most,
                    instead: "so it cannot be judged: divide its work among several runs",
                });
            }
            if bytes > self.most / LARGE_PART && bundle.permit.is_none() {
                let permit = Arc::clone(&self.permit).acquire_owned().await;
                bundle.permit = Some(Arc::new(permit.map_err(|_| StoreError::ShuttingDown)?));
            }
        }
        Ok(())
    }
}

fn unread(run_id: Uuid, error: StoredError) -> StoreError {
    StoreError::corrupt(format!("journal of run {run_id}"), error)
}
