//! Batches the queries of many callers into one statement.

use super::StoreError;
use super::dedicated_connection::DedicatedConnection;
use super::group::{self, Writer};
use super::pool::within;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgPool, Postgres, Row};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// The most queries in one statement.
const MAX_QUESTIONS: usize = 64;
/// How long a query waits for the answer of a batch before it is sent alone.
const BATCH_WITHIN: Duration = Duration::from_millis(100);

/// The statement for these queries. Each of its rows names in the column `place` the query that it
/// answers, counted from 1.
type Statement<Q> = fn(&[Q]) -> Query<'static, Postgres, PgArguments>;

/// The process's single batcher for one kind of query. Clones share it.
#[derive(Clone)]
pub(super) struct QueryBatcher<Q> {
    pool: PgPool,
    statement: Statement<Q>,
    jobs: mpsc::Sender<Job<Q>>,
}

struct Job<Q> {
    question: Q,
    reply: oneshot::Sender<Vec<PgRow>>,
}

impl<Q: Copy + Send + Sync + 'static> QueryBatcher<Q> {
    /// Starts the batcher on a dedicated connection.
    pub(super) fn start(pool: PgPool, statement: Statement<Q>) -> Self {
        let asker = Asker { dedicated: DedicatedConnection::new(pool.clone()), statement };
        Self { pool, statement, jobs: group::start(asker, Arc::default()) }
    }

    /// The rows that answer a query, in the statement's order.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(super) async fn ask(&self, question: Q) -> Result<Vec<PgRow>, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Job { question, reply };
        self.jobs.send(job).await.map_err(|_| StoreError::ShuttingDown)?;
        match timeout(BATCH_WITHIN, answer).await {
            Ok(Ok(rows)) => Ok(rows),
            // The batch failed, or another of its queries is large: send this one alone.
            Ok(Err(_)) | Err(_) => within(self.ask_alone(question)).await,
        }
    }

    async fn ask_alone(&self, question: Q) -> Result<Vec<PgRow>, StoreError> {
        Ok((self.statement)(&[question]).fetch_all(&self.pool).await?)
    }
}

struct Asker<Q> {
    dedicated: DedicatedConnection,
    statement: Statement<Q>,
}

impl<Q: Copy + Send + Sync + 'static> Writer for Asker<Q> {
    type Job = Job<Q>;

    fn is_awaited(_: &Job<Q>) -> bool {
        true
    }

    async fn settle(&mut self, waiting: &mut VecDeque<Job<Q>>) {
        // A caller that waited too long has sent its query alone.
        waiting.retain(|job| !job.reply.is_closed());
        let jobs = waiting.drain(..waiting.len().min(MAX_QUESTIONS)).collect();
        if let Err(error) = self.answer(jobs).await {
            tracing::debug!(%error, "store: a batch of queries failed; each is sent alone");
        }
    }
}

impl<Q: Copy> Asker<Q> {
    async fn answer(&mut self, jobs: Vec<Job<Q>>) -> Result<(), StoreError> {
        let asked: Vec<Q> = jobs.iter().map(|job| job.question).collect();
        let mut answers: Vec<_> = jobs.into_iter().map(|job| (job.reply, Vec::new())).collect();
        let asking = (self.statement)(&asked);
        let rows =
            self.dedicated.ask(async |connection| asking.fetch_all(connection).await).await?;
        for row in rows {
            let place = usize::try_from(row.try_get::<i64, _>("place")?).unwrap_or_default();
            if let Some((_, rows)) = place.checked_sub(1).and_then(|place| answers.get_mut(place)) {
                rows.push(row);
            }
        }
        for (reply, rows) in answers {
            // A caller that dropped its receiver needs no answer.
            drop(reply.send(rows));
        }
        Ok(())
    }
}
