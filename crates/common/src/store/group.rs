//! Group commit. One writer takes all waiting jobs, writes them in one statement, and repeats.
//!
//! An idle process writes an awaited job at once, and the cost per job falls as the load rises. A
//! job that no caller awaits yet may wait a moment for jobs that build on it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout_at};

/// The most jobs in one batch.
const MAX_JOBS: usize = 1024;
/// Waiting jobs above which callers wait to submit.
const QUEUE: usize = 4096;

/// How long a job that no caller awaits may wait.
const LINGER: Duration = Duration::from_millis(5);

/// Writes batches of jobs.
pub(super) trait Writer: Send + 'static {
    /// One job, with the channel to its caller.
    type Job: Send + 'static;

    /// Whether a caller awaits the job already.
    fn is_awaited(job: &Self::Job) -> bool;

    /// Takes as many waiting jobs as it can, writes them and answers their callers. Jobs that it
    /// leaves come first in the next batch.
    fn settle(&mut self, waiting: &mut VecDeque<Self::Job>) -> impl Future<Output = ()> + Send;
}

/// Starts a writer. It ends when the last sender is dropped and no job waits. `hurry` is notified
/// when a caller begins to await a job that was submitted before.
pub(super) fn start<W: Writer>(writer: W, hurry: Arc<Notify>) -> mpsc::Sender<W::Job> {
    let (jobs, queue) = mpsc::channel(QUEUE);
    tokio::spawn(run(writer, queue, hurry));
    jobs
}

async fn run<W: Writer>(mut writer: W, mut queue: mpsc::Receiver<W::Job>, hurry: Arc<Notify>) {
    let mut waiting = VecDeque::new();
    let mut fresh = Vec::new();
    loop {
        let left = !waiting.is_empty();
        if !left && queue.recv_many(&mut fresh, MAX_JOBS).await == 0 {
            return;
        }
        waiting.extend(fresh.drain(..));
        gather(&mut queue, &mut waiting).await;
        // Jobs left from the last batch have waited long enough, and their callers may have
        // notified before.
        if !left {
            linger::<W>(&mut queue, &mut waiting, &hurry).await;
        }
        writer.settle(&mut waiting).await;
    }
}

/// Takes waiting jobs, and yields to other tasks for as long as they submit more. A statement over
/// many jobs costs little more than one over few, and a lone job is not delayed.
async fn gather<J>(queue: &mut mpsc::Receiver<J>, waiting: &mut VecDeque<J>) {
    take(queue, waiting);
    let mut before = 1;
    while waiting.len() > before {
        before = waiting.len();
        tokio::task::yield_now().await;
        take(queue, waiting);
    }
}

/// Waits for more jobs while no caller awaits any of these.
async fn linger<W: Writer>(
    queue: &mut mpsc::Receiver<W::Job>,
    waiting: &mut VecDeque<W::Job>,
    hurry: &Notify,
) {
    let until = Instant::now() + LINGER;
    let mut seen = 0;
    while waiting.len() < MAX_JOBS && !waiting.range(seen..).any(W::is_awaited) {
        seen = waiting.len();
        let more = async {
            tokio::select! {
                job = queue.recv() => job,
                () = hurry.notified() => None,
            }
        };
        let Ok(Some(job)) = timeout_at(until, more).await else { break };
        waiting.push_back(job);
        take(queue, waiting);
    }
    take(queue, waiting);
}

fn take<J>(queue: &mut mpsc::Receiver<J>, waiting: &mut VecDeque<J>) {
    while waiting.len() < MAX_JOBS {
        let Ok(job) = queue.try_recv() else { return };
        waiting.push_back(job);
    }
}
