//! Tells callers of this process that their run changed, and what was stored of it here.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use surety_common::domain::execution::Execution;
use surety_common::domain::execution::draft::Write;
use surety_common::domain::execution::wait_rows::{AnsweredWait, OpenedWait};
use surety_common::domain::journal::{Entry, Event};
use surety_common::store::{Topic, Wakeups};
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often a caller reads again without a wake-up, which may be lost.
const POLL: Duration = Duration::from_secs(1);
/// The changes that a caller is kept at most; one that is further behind reads the rows.
const MAX_KEPT: usize = 64;

/// The callers that follow a run. One subscription serves them all, so that a wake-up costs the same for any
/// number of callers that follow other runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct News(Arc<Mutex<HashMap<Uuid, Vec<Arc<Inbox>>>>>);

/// A change that this process stored.
#[derive(Debug)]
pub(super) struct Stored {
    /// The version of the row that it was decided from.
    pub(super) read_version: i64,
    /// The row after it.
    pub(super) execution: Arc<Execution>,
    /// The waits that it opened.
    pub(super) opened: Vec<OpenedWait>,
    /// The wait that it answered.
    answered: Option<AnsweredWait>,
    entries: Vec<Entry>,
}

impl Stored {
    fn of(write: &Write) -> Self {
        Self {
            read_version: write.fence.version,
            execution: Arc::clone(&write.execution),
            opened: write.waits.opened.clone(),
            answered: write.waits.answered,
            entries: write.entries.clone(),
        }
    }

    /// Its events, as a reader of the journal finds them, but without their spans.
    pub(super) fn events(&self) -> impl Iterator<Item = Event> + '_ {
        let count = i64::try_from(self.entries.len()).unwrap_or(i64::MAX);
        let first = self.execution.sequence.saturating_sub(count).saturating_add(1);
        let at = self.execution.updated_at;
        (first..).zip(&self.entries).map(move |(sequence, entry)| Event {
            sequence,
            at,
            span_id: None,
            entry: entry.clone(),
        })
    }
}

#[derive(Debug, Default)]
struct Inbox {
    stored: Mutex<VecDeque<Arc<Stored>>>,
    has_stored: Notify,
    changed: Notify,
}

/// One caller that follows a run, until it is dropped.
pub(crate) struct Follower {
    news: News,
    run_id: Uuid,
    inbox: Arc<Inbox>,
}

impl News {
    /// Passes wake-ups on until `ended`.
    pub(super) async fn run(self, wakeups: Wakeups, ended: CancellationToken) {
        let mut topics = wakeups.subscribe();
        loop {
            let topic = tokio::select! {
                () = ended.cancelled() => return,
                topic = topics.recv() => topic,
            };
            match topic {
                Ok(Topic::Waits(run_id)) => self.tell(run_id),
                Ok(Topic::Everything) | Err(broadcast::error::RecvError::Lagged(_)) => {
                    self.tell_all();
                }
                Ok(Topic::Ready | Topic::Run(_) | Topic::Moved(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return,
            }
        }
    }

    /// Follows a run from now on.
    pub(crate) fn follow(&self, run_id: Uuid) -> Follower {
        let inbox = Arc::<Inbox>::default();
        self.lock().entry(run_id).or_default().push(Arc::clone(&inbox));
        Follower { news: self.clone(), run_id, inbox }
    }

    /// Passes on a change that this process stored.
    pub(crate) fn stored(&self, write: &Write) {
        let followed = self.lock();
        let Some(inboxes) = followed.get(&write.execution.run_id) else { return };
        let change = Arc::new(Stored::of(write));
        for inbox in inboxes {
            let mut kept = inbox.kept();
            // A gap tells the caller that it missed some.
            if kept.len() < MAX_KEPT {
                kept.push_back(Arc::clone(&change));
            }
            drop(kept);
            inbox.has_stored.notify_one();
        }
    }

    fn tell(&self, run_id: Uuid) {
        for inbox in self.lock().get(&run_id).into_iter().flatten() {
            inbox.changed.notify_one();
        }
    }

    fn tell_all(&self) {
        for inbox in self.lock().values().flatten() {
            inbox.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Vec<Arc<Inbox>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inbox {
    fn kept(&self) -> MutexGuard<'_, VecDeque<Arc<Stored>>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    /// Waits until the run's waits may have changed.
    pub(super) async fn changed(&self) {
        tokio::select! {
            () = self.inbox.changed.notified() => {}
            () = tokio::time::sleep(POLL) => {}
        }
    }

    /// The next change that this process stored; waits for one.
    pub(super) async fn stored(&self) -> Arc<Stored> {
        loop {
            if let Some(change) = self.stored_already() {
                return change;
            }
            self.inbox.has_stored.notified().await;
        }
    }

    /// Waits until the answer to a wait under this lease is stored. False when the work that began with it is `over`
    /// before.
    pub(crate) async fn sees_answer(&self, lease: AnsweredWait, over: JoinHandle<()>) -> bool {
        let seen = async { while self.stored().await.answered != Some(lease) {} };
        tokio::select! {
            biased;
            () = seen => true,
            // The changes of the work were passed on before it was over.
            _ = over => self.saw_answer(lease),
        }
    }

    /// Whether the answer to a wait under this lease is stored already.
    pub(crate) fn saw_answer(&self, lease: AnsweredWait) -> bool {
        std::iter::from_fn(|| self.stored_already()).any(|change| change.answered == Some(lease))
    }

    /// The next change that this process has stored already.
    pub(super) fn stored_already(&self) -> Option<Arc<Stored>> {
        self.inbox.kept().pop_front()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut followed = self.news.lock();
        let Some(inboxes) = followed.get_mut(&self.run_id) else { return };
        inboxes.retain(|inbox| !Arc::ptr_eq(inbox, &self.inbox));
        if inboxes.is_empty() {
            followed.remove(&self.run_id);
        }
    }
}
