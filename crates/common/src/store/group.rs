//! Group commit: one writer takes everything that waits, writes it, and then takes what came
//! meanwhile. There is no timer, so nothing waits when the process is idle, and the cost of one
//! piece falls as the load rises.

use std::collections::VecDeque;
use tokio::sync::mpsc;

/// The most pieces that are gathered at once.
const MAX_JOBS: usize = 1024;
/// Pieces that may wait before callers wait to hand theirs in.
const QUEUE: usize = 4096;

/// Somebody who writes what was gathered.
pub(super) trait Writer: Send + 'static {
    /// One piece, with the way to its caller.
    type Job: Send + 'static;

    /// Takes as much as it can off what waits, writes it, and answers the callers. What it leaves
    /// comes first the next time.
    fn settle(&mut self, waiting: &mut VecDeque<Self::Job>) -> impl Future<Output = ()> + Send;
}

/// Starts a writer. It ends when the last sender is dropped and nothing waits.
pub(super) fn start<W: Writer>(writer: W) -> mpsc::Sender<W::Job> {
    let (jobs, queue) = mpsc::channel(QUEUE);
    tokio::spawn(run(writer, queue));
    jobs
}

async fn run<W: Writer>(mut writer: W, mut queue: mpsc::Receiver<W::Job>) {
    let mut waiting = VecDeque::new();
    let mut fresh = Vec::new();
    loop {
        if waiting.is_empty() && queue.recv_many(&mut fresh, MAX_JOBS).await == 0 {
            return;
        }
        waiting.extend(fresh.drain(..));
        gather(&mut queue, &mut waiting).await;
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

fn take<J>(queue: &mut mpsc::Receiver<J>, waiting: &mut VecDeque<J>) {
    while waiting.len() < MAX_JOBS {
        let Ok(job) = queue.try_recv() else { return };
        waiting.push_back(job);
    }
}
