//! The words of models while they arrive, for people who watch a run.
//!
//! ```text
//!   parts of a reply --> text so far, by wait --every 500 ms, one statement--> progress of the wait
//! ```
//!
//! Nothing is journalled: the turn has the decision, and the wait goes with it. A reply that is shorter than the
//! interval is stored never.

use super::held_wait::HeldWait;
use sqlx::PgPool;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use surety_common::store::{self, ProgressReport};
use surety_model::{ReplyPart, Shown, Spoken};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often words are stored.
const EVERY: Duration = Duration::from_millis(500);
/// The keys of a decision that hold words, the first that is there first.
const WORDS: Shown = Shown::First(&["\"speak\"", "\"reason\""]);

/// The replies that arrive in this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replying {
    replies: Arc<Mutex<HashMap<Uuid, Reply>>>,
    news: Arc<Notify>,
}

/// A reply so far.
#[derive(Debug)]
struct Reply {
    run_id: Uuid,
    lease_epoch: i64,
    spoken: Spoken,
}

/// One reply, until it is dropped.
#[derive(Debug)]
pub(crate) struct Words {
    held: HeldWait,
    replying: Replying,
}

impl Replying {
    /// The words of the reply for a wait.
    pub(crate) fn words(&self, held: HeldWait) -> Words {
        Words { held, replying: self.clone() }
    }

    /// Stores words until `ended`.
    pub(super) async fn run(self, pool: PgPool, ended: CancellationToken) {
        loop {
            tokio::select! {
                () = ended.cancelled() => return,
                () = self.news.notified() => sleep(EVERY).await,
            }
            let reports = self.reports();
            if reports.is_empty() {
                continue;
            }
            if let Err(error) = store::report_progress(&pool, &reports).await {
                tracing::debug!(%error, "model: words could not be stored; later ones follow");
            }
        }
    }

    fn reports(&self) -> Vec<ProgressReport> {
        let report = |(wait_id, reply): (&Uuid, &mut Reply)| {
            let message = reply.spoken.news()?;
            Some(ProgressReport {
                run_id: reply.run_id,
                wait_id: *wait_id,
                lease_epoch: reply.lease_epoch,
                message,
                percent: None,
            })
        };
        self.lock().iter_mut().filter_map(report).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Reply>> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Words {
    /// Takes a part of the reply, as it arrives.
    pub(crate) fn take(&self, part: ReplyPart<'_>) {
        let HeldWait { run_id, wait_id, lease_epoch } = self.held;
        let mut replies = self.replying.lock();
        let empty = || Reply { run_id, lease_epoch, spoken: Spoken::new(WORDS) };
        let may_change = replies.entry(wait_id).or_insert_with(empty).spoken.take(part);
        drop(replies);
        if may_change {
            self.replying.news.notify_one();
        }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        self.replying.lock().remove(&self.held.wait_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::domain::decision::Usage;

    #[test]
    fn words_go_with_their_reply_and_a_restart_voids_them() {
        let replying = Replying::default();
        let wait_id = Uuid::from_u128(1);
        let held = HeldWait { run_id: Uuid::nil(), wait_id, lease_epoch: 3 };
        let words = replying.words(held);
        words.take(ReplyPart::Text("one"));
        words.take(ReplyPart::Restart(Usage::default()));
        words.take(ReplyPart::Reasoning("hm"));
        assert!(replying.reports().is_empty(), "nothing arrived since");
        words.take(ReplyPart::Text("two"));
        let reports = replying.reports();
        assert_eq!(reports.len(), 1);
        assert_eq!((reports[0].wait_id, reports[0].lease_epoch), (wait_id, 3));
        assert_eq!(reports[0].message, "two");
        assert!(replying.reports().is_empty(), "it was said");
        words.take(ReplyPart::Text(" three"));
        drop(words);
        assert!(replying.reports().is_empty(), "the reply has ended");
    }
}
