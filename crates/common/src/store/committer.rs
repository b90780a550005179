//! Group commit: one writer a process takes every finished change that waits and writes them in
//! one statement, then takes what came meanwhile. There is no timer, so nothing waits when the
//! process is idle, and the cost of a change falls as the load rises.

use super::StoreError;
use super::apply::{Outcome, apply};
use super::artifact::{self, Artifact};
use crate::crash;
use crate::domain::execution::draft::Write;
use backon::{BackoffBuilder, ExponentialBuilder};
use sqlx::PgPool;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

/// The most changes one statement carries.
const MAX_BATCH: usize = 512;
/// Changes that may wait before callers wait to hand theirs in.
const QUEUE: usize = 4096;

/// Called once for each applied change, in the span it was handed in with.
pub type Observer = fn(&Write, &tracing::Span);

/// A change to be written, and what goes with it.
pub struct Commit {
    /// The change.
    pub write: Write,
    /// Outputs it refers to by digest. They are stored first; one that nothing refers to is only
    /// space.
    pub artifacts: Vec<Artifact>,
    /// The span of the work that led to it.
    pub span: tracing::Span,
    /// That span's id, as it is journalled.
    pub span_id: Option<String>,
}

impl Commit {
    /// A change without artifacts, under the present span.
    pub fn new(write: Write, span: tracing::Span, span_id: Option<String>) -> Self {
        Self { write, artifacts: Vec::new(), span, span_id }
    }
}

struct Job {
    commit: Commit,
    reply: oneshot::Sender<Result<Outcome, StoreError>>,
}

/// The process's one writer. Cloning shares it; the writer ends when the last clone is dropped.
#[derive(Clone)]
pub struct Committer {
    jobs: mpsc::Sender<Job>,
}

impl Committer {
    /// Starts the writer over a pool.
    pub fn start(pool: PgPool, observer: Observer) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE);
        tokio::spawn(run(pool, queue, observer));
        Self { jobs }
    }

    /// Writes one change and says what became of it. While the database is away it waits: the
    /// fence decides, once it is back, whether the change still fits.
    ///
    /// # Errors
    /// [`StoreError::Constraint`], [`StoreError::Corrupt`] and [`StoreError::Refused`] name defects;
    /// [`StoreError::ShuttingDown`] when the writer is gone.
    ///
    /// # Cancel safety
    /// A change that was handed in is written even when nobody waits for the answer any more.
    pub async fn commit(&self, commit: Commit) -> Result<Outcome, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.jobs.send(Job { commit, reply }).await.map_err(|_| StoreError::ShuttingDown)?;
        answer.await.map_err(|_| StoreError::ShuttingDown)?
    }
}

async fn run(pool: PgPool, mut queue: mpsc::Receiver<Job>, observer: Observer) {
    let mut waiting = VecDeque::new();
    let mut fresh = Vec::new();
    loop {
        if waiting.is_empty() && queue.recv_many(&mut fresh, MAX_BATCH).await == 0 {
            return;
        }
        while fresh.len() + waiting.len() < MAX_BATCH {
            let Ok(job) = queue.try_recv() else { break };
            fresh.push(job);
        }
        waiting.extend(fresh.drain(..));
        let batch = next_batch(&mut waiting);
        settle(&pool, batch, observer).await;
    }
}

/// Takes waiting changes in order, at most one a run: the second of a run builds on the first.
fn next_batch(waiting: &mut VecDeque<Job>) -> Vec<Job> {
    let mut seen: HashSet<Uuid> = HashSet::new();
    let mut batch = Vec::new();
    let mut later = VecDeque::new();
    while let Some(job) = waiting.pop_front() {
        if batch.len() < MAX_BATCH && seen.insert(job.commit.write.execution.run_id) {
            batch.push(job);
        } else {
            later.push_back(job);
        }
    }
    *waiting = later;
    batch
}

async fn settle(pool: &PgPool, batch: Vec<Job>, observer: Observer) {
    match write_until_known(pool, &batch).await {
        Ok(outcomes) => {
            for (job, outcome) in batch.into_iter().zip(outcomes) {
                if outcome == Outcome::Applied {
                    observer(&job.commit.write, &job.commit.span);
                }
                answer(job.reply, Ok(outcome));
            }
        }
        // One bad change must not take the others down with it: each is tried by itself.
        Err(_) if batch.len() > 1 => {
            for job in batch {
                Box::pin(settle(pool, vec![job], observer)).await;
            }
        }
        Err(error) => {
            if let Some(job) = batch.into_iter().next() {
                let run_id = job.commit.write.execution.run_id;
                tracing::error!(%run_id, %error, "a change was refused");
                answer(job.reply, Err(error));
            }
        }
    }
}

/// A caller that stopped listening needs no answer.
fn answer(
    reply: oneshot::Sender<Result<Outcome, StoreError>>,
    result: Result<Outcome, StoreError>,
) {
    drop(reply.send(result));
}

/// Writes a batch, again and again while the database is away.
async fn write_until_known(pool: &PgPool, batch: &[Job]) -> Result<Vec<Outcome>, StoreError> {
    let mut pauses = pauses();
    let mut in_doubt = false;
    loop {
        match write_once(pool, batch, in_doubt).await {
            Err(error) if error.is_transient() => {
                in_doubt = true;
                let pause = pauses.next().unwrap_or(Duration::from_secs(2));
                tracing::warn!(%error, changes = batch.len(), "waiting for the database to write");
                tokio::time::sleep(pause).await;
            }
            known => return known,
        }
    }
}

fn pauses() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_jitter()
        .with_min_delay(Duration::from_millis(20))
        .with_max_delay(Duration::from_secs(2))
        .without_max_times()
        .build()
}

async fn write_once(
    pool: &PgPool,
    batch: &[Job],
    in_doubt: bool,
) -> Result<Vec<Outcome>, StoreError> {
    let mut connection = pool.acquire().await?;
    let run_of = |job: &Job| job.commit.write.execution.run_id;
    let artifacts: Vec<(Uuid, &Artifact)> = batch
        .iter()
        .flat_map(|job| job.commit.artifacts.iter().map(|artifact| (run_of(job), artifact)))
        .collect();
    if !artifacts.is_empty() {
        artifact::store(&mut connection, &artifacts).await?;
    }
    let changes: Vec<_> =
        batch.iter().map(|job| (&job.commit.write, job.commit.span_id.as_deref())).collect();
    crash::point("committer.before_write");
    let mut outcomes = apply(&mut connection, &changes).await?;
    crash::point("committer.after_write");
    if in_doubt {
        // An earlier try may have been committed although its answer was lost on the way.
        for ((write, span_id), outcome) in changes.iter().zip(&mut outcomes) {
            if *outcome == Outcome::Lost
                && super::journal::holds(&mut connection, write, *span_id).await?
            {
                *outcome = Outcome::Applied;
            }
        }
    }
    Ok(outcomes)
}
