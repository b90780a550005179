//! Tells callers of this process that the waits of their run changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use surety_common::store::{Topic, Wakeups};
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often a caller reads again without a wake-up, which may be lost.
const POLL: Duration = Duration::from_secs(1);

/// The callers that follow a run. One subscription serves them all, so that a wake-up costs the same for any
/// number of callers that follow other runs.
#[derive(Debug, Clone, Default)]
pub(super) struct News(Arc<Mutex<HashMap<Uuid, Followed>>>);

#[derive(Debug, Default)]
struct Followed {
    callers: usize,
    changed: Arc<Notify>,
}

/// One caller that follows a run, until it is dropped.
pub(super) struct Follower {
    news: News,
    run_id: Uuid,
    changed: Arc<Notify>,
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
    pub(super) fn follow(&self, run_id: Uuid) -> Follower {
        let mut followed = self.lock();
        let entry = followed.entry(run_id).or_default();
        entry.callers += 1;
        Follower { news: self.clone(), run_id, changed: Arc::clone(&entry.changed) }
    }

    fn tell(&self, run_id: Uuid) {
        if let Some(followed) = self.lock().get(&run_id) {
            followed.changed.notify_waiters();
            // One that is about to wait.
            followed.changed.notify_one();
        }
    }

    fn tell_all(&self) {
        let runs: Vec<Uuid> = self.lock().keys().copied().collect();
        runs.into_iter().for_each(|run_id| self.tell(run_id));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Followed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    /// Waits until the run's waits may have changed.
    pub(super) async fn changed(&self) {
        tokio::select! {
            () = self.changed.notified() => {}
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut followed = self.news.lock();
        let Some(entry) = followed.get_mut(&self.run_id) else { return };
        entry.callers = entry.callers.saturating_sub(1);
        if entry.callers == 0 {
            followed.remove(&self.run_id);
        }
    }
}
