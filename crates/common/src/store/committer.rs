//! The process's single writer. It writes all finished changes in one statement, and stores changes
//! of one run that build on each other as one row.

use super::StoreError;
use super::apply::{Chain, Change, Outcome, apply};
use super::dedicated_connection::DedicatedConnection;
use super::group::{self, Writer};
use super::pool::{pauses, within};
use super::signing::Signing;
use super::wake::{Topic, Waker};
use crate::crash;
use crate::domain::execution::draft::Write;
use sqlx::PgPool;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use uuid::Uuid;

/// The most runs that one statement changes.
const MAX_RUNS: usize = 512;

/// A callback for each applied change, called in the span that came with it.
pub type Observer = Arc<dyn Fn(&Write, &tracing::Span) + Send + Sync>;

/// A change to be written. The outputs that it refers to by digest are stored before, by the run
/// itself, so that they do not delay the changes of other runs.
pub struct Commit {
    /// The change.
    pub write: Write,
    /// The span of the work that led to it.
    pub span: tracing::Span,
    /// The id of that span, as it is journalled.
    pub span_id: Option<String>,
    /// The earlier changes that it was decided from before they were known to be stored.
    pub pipeline: WritePipeline,
    /// The topic whose idle subscribers are woken once it is stored.
    pub notified: Option<Topic>,
}

impl Commit {
    /// A change decided from a row that was read, in a span.
    pub fn new(write: Write, span: tracing::Span, span_id: Option<String>) -> Self {
        Self { write, span, span_id, pipeline: WritePipeline::default(), notified: None }
    }

    /// The same change, which wakes the idle subscribers of `topic` once it is stored.
    pub fn notify_on_commit(self, topic: Topic) -> Self {
        Self { notified: Some(topic), ..self }
    }

    pub(super) fn change(&self) -> Change<'_> {
        Change { write: &self.write, span_id: self.span_id.as_deref() }
    }
}

/// Changes that are each decided from the one before while that is not yet known to be stored. Once
/// one of them is lost, all later ones are too. The fence compares a version, which counts changes
/// but does not name their writer, so another writer's changes could make it match.
#[derive(Debug, Clone, Default)]
pub struct WritePipeline(Arc<AtomicU8>);

/// A change of a pipeline is stored. A pipeline with neither mark is on its way with its first change.
const STORED: u8 = 1;
/// A change of it was lost.
const ENDED: u8 = 2;

impl WritePipeline {
    fn advance(&self) {
        self.0.fetch_or(STORED, Ordering::Relaxed);
    }

    fn end(&self) {
        self.0.fetch_or(ENDED, Ordering::Relaxed);
    }

    fn has_ended(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ENDED != 0
    }

    /// Whether it is known what became of its first change.
    pub fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Whether its first change was lost, so that none of it is stored.
    pub fn never_began(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ENDED
    }

    /// Whether both are the same pipeline.
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether its first change is stored, and none was lost.
    pub fn holds(&self) -> bool {
        self.0.load(Ordering::Relaxed) == STORED
    }
}

/// A submitted change, with the channel for its outcome.
pub(super) struct Job {
    commit: Commit,
    awaited: bool,
    reply: oneshot::Sender<Result<Outcome, StoreError>>,
}

/// A submitted change whose outcome its caller has not received yet.
#[derive(Debug)]
pub struct Pending {
    answer: oneshot::Receiver<Result<Outcome, StoreError>>,
    hurry: Arc<Notify>,
}

impl Pending {
    /// The outcome, if it is known by now.
    ///
    /// # Errors
    /// Those of [`Committer::commit`].
    pub fn try_outcome(&mut self) -> Result<Option<Outcome>, StoreError> {
        match self.answer.try_recv() {
            Ok(outcome) => outcome.map(Some),
            Err(oneshot::error::TryRecvError::Empty) => Ok(None),
            Err(oneshot::error::TryRecvError::Closed) => Err(StoreError::ShuttingDown),
        }
    }

    /// Waits for the outcome.
    ///
    /// # Errors
    /// Those of [`Committer::commit`].
    ///
    /// # Cancel safety
    /// The change is written even if the future is dropped.
    pub async fn outcome(mut self) -> Result<Outcome, StoreError> {
        if let Some(known) = self.try_outcome()? {
            return Ok(known);
        }
        self.hurry.notify_one();
        self.answer.await.map_err(|_| StoreError::ShuttingDown)?
    }
}

/// A handle to the process's single writer. Clones share it; the writer ends when the last clone is
/// dropped.
#[derive(Clone)]
pub struct Committer {
    jobs: mpsc::Sender<Job>,
    hurry: Arc<Notify>,
    signing: Signing,
}

impl Committer {
    /// Starts the writer on a dedicated connection. It signs what it writes.
    pub fn start(pool: PgPool, waker: Waker, observer: Observer, signing: Signing) -> Self {
        let hurry = Arc::default();
        let dedicated = DedicatedConnection::new(pool);
        let changes = Changes { dedicated, waker, observer, signing: signing.clone() };
        Self { jobs: group::start(changes, Arc::clone(&hurry)), hurry, signing }
    }

    /// What signs the changes, for those that are written in a transaction of their caller.
    pub const fn signing(&self) -> &Signing {
        &self.signing
    }

    /// Writes one change and returns its outcome. While the database is unavailable it waits; the
    /// fence decides afterwards whether the change still applies.
    ///
    /// # Errors
    /// [`StoreError::Constraint`], [`StoreError::Corrupt`] and [`StoreError::Refused`] name
    /// defects; [`StoreError::ShuttingDown`] when the writer has ended.
    ///
    /// # Cancel safety
    /// A submitted change is written even if the future is dropped.
    pub async fn commit(&self, commit: Commit) -> Result<Outcome, StoreError> {
        let pending = self.send(commit, true).await?;
        pending.answer.await.map_err(|_| StoreError::ShuttingDown)?
    }

    /// Submits one change. It is written with the changes that already wait, or within five
    /// milliseconds, or as soon as a caller awaits it. Changes of one run are written in the order
    /// of submission.
    ///
    /// # Errors
    /// [`StoreError::ShuttingDown`] when the writer has ended.
    pub async fn hand_in(&self, commit: Commit) -> Result<Pending, StoreError> {
        self.send(commit, false).await
    }

    async fn send(&self, commit: Commit, awaited: bool) -> Result<Pending, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Job { commit, awaited, reply };
        self.jobs.send(job).await.map_err(|_| StoreError::ShuttingDown)?;
        Ok(Pending { answer, hurry: Arc::clone(&self.hurry) })
    }
}

struct Changes {
    dedicated: DedicatedConnection,
    waker: Waker,
    observer: Observer,
    signing: Signing,
}

impl Writer for Changes {
    type Job = Job;

    fn is_awaited(job: &Job) -> bool {
        job.awaited
    }

    async fn settle(&mut self, waiting: &mut VecDeque<Job>) {
        self.write(next_batch(waiting)).await;
    }
}

/// Takes waiting changes in order. Those of one run that build on each other form one chain; any
/// other change of that run waits for the next batch.
fn next_batch(waiting: &mut VecDeque<Job>) -> Vec<Vec<Job>> {
    let mut batch: Vec<Vec<Job>> = Vec::new();
    let mut places: HashMap<Uuid, usize> = HashMap::new();
    let mut later = VecDeque::new();
    while let Some(job) = waiting.pop_front() {
        let run_id = job.commit.write.execution.run_id;
        match places.get(&run_id) {
            Some(place) => match batch.get_mut(*place) {
                Some(chain) if goes_on(chain, &job) => chain.push(job),
                Some(_) | None => {
                    // All later changes of this run wait too.
                    places.insert(run_id, usize::MAX);
                    later.push_back(job);
                }
            },
            None if batch.len() < MAX_RUNS => {
                places.insert(run_id, batch.len());
                batch.push(vec![job]);
            }
            None => later.push_back(job),
        }
    }
    *waiting = later;
    batch
}

/// Changes of different pipelines were decided from rows that were read, so one of them does not build on the other even
/// where its version and its author fit: the row of that version may be another writer's.
fn goes_on(chain: &[Job], next: &Job) -> bool {
    chain.last().is_some_and(|last| {
        last.commit.pipeline.is(&next.commit.pipeline)
            && last.commit.change().is_followed_by(&next.commit.write)
    })
}

impl Changes {
    async fn write(&mut self, batch: Vec<Vec<Job>>) {
        let mut batch = turn_away(batch);
        if batch.is_empty() {
            return;
        }
        match write_until_known(&mut self.dedicated, &batch, &self.signing).await {
            Ok(outcomes) => {
                let notified = batch.len() == 1;
                for (chain, outcome) in batch.into_iter().zip(outcomes) {
                    self.answer(chain, outcome, notified);
                }
            }
            // One invalid change must not fail the others: each chain is retried alone.
            Err(_) if batch.len() > 1 => {
                for chain in batch {
                    Box::pin(self.write(vec![chain])).await;
                }
            }
            Err(_) if batch.first().is_some_and(|chain| chain.len() > 1) => {
                for job in batch.pop().unwrap_or_default() {
                    Box::pin(self.write(vec![vec![job]])).await;
                }
            }
            Err(error) => {
                if let Some(job) = batch.pop().and_then(|mut chain| chain.pop()) {
                    let run_id = job.commit.write.execution.run_id;
                    tracing::error!(%run_id, %error, "store: the database refused a change; the run's turn is lost");
                    job.commit.pipeline.end();
                    reply(job.reply, Err(error));
                }
            }
        }
    }

    /// `notified` says that the statement itself woke the idle subscribers.
    fn answer(&self, chain: Vec<Job>, outcome: Outcome, notified: bool) {
        for job in chain {
            match outcome {
                Outcome::Applied => {
                    job.commit.pipeline.advance();
                    (self.observer)(&job.commit.write, &job.commit.span);
                    job.commit
                        .notified
                        .filter(|_| !notified)
                        .into_iter()
                        .for_each(|topic| self.waker.wake_now(topic));
                }
                Outcome::Lost => job.commit.pipeline.end(),
            }
            reply(job.reply, Ok(outcome));
        }
    }
}

/// Answers the jobs whose pipeline has ended, and returns the others.
fn turn_away(batch: Vec<Vec<Job>>) -> Vec<Vec<Job>> {
    let left = batch.into_iter().map(|chain| {
        let (late, left): (Vec<Job>, Vec<Job>) =
            chain.into_iter().partition(|job| job.commit.pipeline.has_ended());
        late.into_iter().for_each(|job| reply(job.reply, Ok(Outcome::Lost)));
        left
    });
    left.filter(|chain| !chain.is_empty()).collect()
}

/// A caller that dropped its receiver needs no answer.
fn reply(
    caller: oneshot::Sender<Result<Outcome, StoreError>>,
    result: Result<Outcome, StoreError>,
) {
    drop(caller.send(result));
}

/// Writes a batch, and retries while the database is unavailable.
async fn write_until_known(
    dedicated: &mut DedicatedConnection,
    batch: &[Vec<Job>],
    signing: &Signing,
) -> Result<Vec<Outcome>, StoreError> {
    let mut pauses = pauses();
    let mut in_doubt = false;
    loop {
        match within(write_once(dedicated, batch, (signing, in_doubt))).await {
            Err(error) if error.is_transient() => {
                in_doubt = true;
                let pause = pauses.next().unwrap_or(Duration::from_secs(2));
                tracing::warn!(%error, changes = batch.len(), "store: waiting for the database to write");
                tokio::time::sleep(pause).await;
            }
            known => return known,
        }
    }
}

async fn write_once(
    dedicated: &mut DedicatedConnection,
    batch: &[Vec<Job>],
    (signing, in_doubt): (&Signing, bool),
) -> Result<Vec<Outcome>, StoreError> {
    let mut connection = dedicated.lend().await?;
    let alone = batch.len() == 1;
    let chains: Vec<Chain<'_>> = batch.iter().filter_map(|chain| chain_of(chain, alone)).collect();
    crash::point("committer.before_write");
    let mut outcomes = apply(&mut connection, &chains, signing).await?;
    crash::point("committer.after_write");
    if in_doubt {
        // An earlier attempt may have been committed although its answer was lost.
        for (chain, outcome) in chains.iter().zip(&mut outcomes) {
            if *outcome == Outcome::Lost && super::journal::holds(&mut connection, chain).await? {
                *outcome = Outcome::Applied;
            }
        }
    }
    connection.keep();
    Ok(outcomes)
}

/// A chain that is written alone notifies idle subscribers in its own transaction.
fn chain_of(jobs: &[Job], alone: bool) -> Option<Chain<'_>> {
    let (first, later) = jobs.split_first()?;
    let notified = jobs.iter().filter_map(|job| job.commit.notified).filter(|_| alone).collect();
    let later = later.iter().map(|job| job.commit.change()).collect();
    Some(Chain::new(first.commit.change(), later).notify_on_commit(notified))
}
