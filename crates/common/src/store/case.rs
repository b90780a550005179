//! What a verdict is made from, read for many runs at once.

use super::StoreError;
use super::group::{self, Writer};
use super::own::Own;
use super::pool::within;
use super::run::RunRow;
use crate::domain::journal::{Evidence, StoredRow, Turn, read_evidence};
use crate::domain::run::RunRecord;
use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgPool, Row};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use uuid::Uuid;

/// The most runs that are read in one statement.
const MAX_RUNS: usize = 64;
/// How long one waits to be read together with others.
const COMPANY: Duration = Duration::from_millis(100);

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
pub struct Cases {
    pool: PgPool,
    jobs: mpsc::Sender<Job>,
}

struct Job {
    run_id: Uuid,
    reply: Reply,
}

/// None for a run that is not there.
type Reply = oneshot::Sender<Option<PgRow>>;

impl Cases {
    /// Starts the reader, on a connection of its own.
    pub fn start(pool: PgPool) -> Self {
        let reader = Reader { own: Own::new(pool.clone()) };
        Self { pool, jobs: group::start(reader, Arc::default()) }
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
        let Some(row) = self.row(run_id).await? else { return Ok(None) };
        let row = CaseRow::from_row(&row)?;
        let evidence = row.evidence(run_id, wanted)?;
        Ok(Some(Case { run: row.run.into_record()?, evidence }))
    }

    async fn row(&self, run_id: Uuid) -> Result<Option<PgRow>, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Job { run_id, reply };
        self.jobs.send(job).await.map_err(|_| StoreError::ShuttingDown)?;
        match timeout(COMPANY, answer).await {
            Ok(Ok(row)) => Ok(row),
            // The common statement failed, or the journal of another run is large: from here on it
            // is about this one alone.
            Ok(Err(_)) | Err(_) => within(self.row_alone(run_id)).await,
        }
    }

    async fn row_alone(&self, run_id: Uuid) -> Result<Option<PgRow>, StoreError> {
        let statement = sqlx::query(include_str!("sql/cases.sql")).bind([run_id]);
        Ok(statement.fetch_optional(&self.pool).await?)
    }
}

struct Reader {
    own: Own,
}

impl Writer for Reader {
    type Job = Job;

    fn is_awaited(_: &Job) -> bool {
        true
    }

    async fn settle(&mut self, waiting: &mut VecDeque<Job>) {
        // Whoever was kept waiting for too long has asked for himself meanwhile.
        waiting.retain(|job| !job.reply.is_closed());
        let jobs = waiting.drain(..waiting.len().min(MAX_RUNS));
        // Of two who want the same run the first is told nothing, and reads it by itself.
        let replies: HashMap<Uuid, _> = jobs.map(|job| (job.run_id, job.reply)).collect();
        if let Err(error) = within(self.answer(replies)).await {
            tracing::debug!(%error, "cases could not be read together");
        }
    }
}

impl Reader {
    async fn answer(&mut self, mut replies: HashMap<Uuid, Reply>) -> Result<(), StoreError> {
        let run_ids: Vec<Uuid> = replies.keys().copied().collect();
        let mut connection = self.own.lend().await?;
        let statement = sqlx::query(include_str!("sql/cases.sql")).bind(run_ids);
        let rows = statement.fetch_all(&mut *connection).await?;
        connection.keep();
        for row in rows {
            if let Some(reply) = replies.remove(&row.try_get("run_id")?) {
                // A caller that stopped listening needs no answer.
                drop(reply.send(Some(row)));
            }
        }
        for reply in replies.into_values() {
            drop(reply.send(None));
        }
        Ok(())
    }
}
