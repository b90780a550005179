//! Group commit: one writer takes everything that waits, writes it, and then takes what came
//! meanwhile. A piece that somebody waits for is written at once when the process is idle, and its
//! cost falls as the load rises. One that nobody waits for yet may wait a moment for those that build
//! on it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout_at};

/// The most pieces that are gathered at once.
const MAX_JOBS: usize = 1024;
/// Pieces that may wait before callers wait to hand theirs in.
const QUEUE: usize = 4096;

/// How long a piece may lie here that nobody waits for.
const LEISURE: Duration = Duration::from_millis(5);

/// Somebody who writes what was gathered.
pub(super) trait Writer: Send + 'static {
    /// One piece, with the way to its caller.
    type Job: Send + 'static;

    /// Whether somebody waits for it already.
    fn is_awaited(job: &Self::Job) -> bool;

    /// Takes as much as it can off what waits, writes it, and answers the callers. What it leaves
    /// comes first the next time.
    fn settle(&mut self, waiting: &mut VecDeque<Self::Job>) -> impl Future<Output = ()> + Send;
}

/// Starts a writer. It ends when the last sender is dropped and nothing waits. `hurry` is rung when
/// somebody begins to wait for a piece that was handed in before.
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
        // What was left lay here long enough, and whoever waits for it may have rung before.
        if !left {
            linger::<W>(&mut queue, &mut waiting, &hurry).await;
        }
        writer.settle(&mut waiting).await;
    }
}

/// Takes what waits, and lets whoever can run hand in more, for as long as somebody does: a
/// statement over many costs little more than one over few. A lone piece waits for nobody.
async fn gather<J>(queue: &mut mpsc::Receiver<J>, waiting: &mut VecDeque<J>) {
    take(queue, waiting);
    let mut before = 1;
    while waiting.len() > before {
        before = waiting.len();
        tokio::task::yield_now().await;
        take(queue, waiting);
    }
}

/// While nobody waits for any of it, waits for more.
async fn linger<W: Writer>(
    queue: &mut mpsc::Receiver<W::Job>,
    waiting: &mut VecDeque<W::Job>,
    hurry: &Notify,
) {
    let until = Instant::now() + LEISURE;
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
