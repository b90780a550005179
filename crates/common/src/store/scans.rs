//! The loop that searches offered waits for those that take them, and the order in which they are taken.
//!
//! A wake-up starts a scan, and one scan covers all wake-ups before it. Now and then one starts without a wake-up,
//! which may be lost. Where nothing takes waits, none is searched.

use super::StoreError;
use super::wake::{Topic, Wakeups};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// How often waits are searched without a wake-up, which may be lost, and leases expire.
const POLL: Duration = Duration::from_secs(1);
/// The shortest time between two scans while wake-ups keep arriving.
const PAUSE: Duration = Duration::from_millis(5);
/// The pause after a scan that failed.
const AFTER_ERROR: Duration = Duration::from_millis(500);

/// Searches offered waits.
pub trait Scanner {
    /// What is searched, for the log.
    const WHAT: &'static str;

    /// Whether there is anything that takes a wait.
    fn is_wanted(&self) -> bool;

    /// Resolves when something takes a wait that did not before.
    fn wanted(&self) -> impl Future<Output = ()> + Send;

    /// Searches once. Returns whether another scan at once may find more.
    ///
    /// # Errors
    /// [`StoreError`]; then it is repeated.
    fn scan(&mut self) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

/// Searches until `ended`.
pub async fn scan_until<S: Scanner>(mut scanner: S, wakeups: &Wakeups, ended: &CancellationToken) {
    let mut topics = wakeups.subscribe();
    loop {
        let begun = Instant::now();
        let next = match scanner.scan().await {
            Ok(true) => begun,
            Ok(false) => begun + POLL,
            Err(error) => {
                tracing::warn!(%error, what = S::WHAT, "waits: a scan failed; retrying");
                begun + AFTER_ERROR
            }
        };
        let is_wanted = scanner.is_wanted();
        tokio::select! {
            biased;
            () = ended.cancelled() => return,
            () = sleep_until(next), if is_wanted => {}
            () = scanner.wanted() => {}
            () = offered(&mut topics), if is_wanted => {}
        }
        tokio::select! {
            () = ended.cancelled() => return,
            () = sleep_until(begun + PAUSE) => {}
        }
        // One scan covers all earlier wake-ups.
        topics = topics.resubscribe();
    }
}

/// Resolves when a wake-up says that a wait is offered, or may be.
async fn offered(topics: &mut broadcast::Receiver<Topic>) {
    loop {
        match topics.recv().await {
            Ok(Topic::Waits(_) | Topic::Everything)
            | Err(broadcast::error::RecvError::Lagged(_)) => return,
            Ok(Topic::Ready | Topic::Run(_) | Topic::Moved(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// An offered wait, as far as its place among others depends on it.
pub trait OfferedIn {
    /// The namespace of its run.
    fn namespace(&self) -> &str;
}

/// The most namespaces of which it is kept when they were served.
const MOST_KEPT: usize = 4096;

/// Which namespaces were served last. Every scan begins with the one that was served longest ago, for all participants
/// together: one that asks for a single namespace cannot hold another namespace back.
#[derive(Debug, Default)]
pub struct Turns {
    /// By namespace, the number of the last service.
    served: HashMap<String, u64>,
    count: u64,
}

impl Turns {
    /// The waits of the namespaces by turns, beginning with the one that was served longest ago. Those of one namespace keep
    /// their order.
    pub fn order<T: OfferedIn>(&self, offers: Vec<T>) -> Vec<T> {
        let mut by_namespace: BTreeMap<String, VecDeque<T>> = BTreeMap::new();
        for offer in offers {
            by_namespace.entry(offer.namespace().to_owned()).or_default().push_back(offer);
        }
        let mut queues: Vec<(String, VecDeque<T>)> = by_namespace.into_iter().collect();
        queues.sort_by_key(|(namespace, _)| self.served.get(namespace).copied());
        let mut queues: VecDeque<VecDeque<T>> =
            queues.into_iter().map(|(_, queue)| queue).collect();
        let mut ordered = Vec::new();
        while let Some(mut queue) = queues.pop_front() {
            ordered.extend(queue.pop_front());
            if !queue.is_empty() {
                queues.push_back(queue);
            }
        }
        ordered
    }

    /// Notes that a wait of a namespace was taken.
    pub fn served(&mut self, namespace: &str) {
        self.count += 1;
        match self.served.get_mut(namespace) {
            Some(last) => *last = self.count,
            None => drop(self.served.insert(namespace.to_owned(), self.count)),
        }
        if self.served.len() > MOST_KEPT {
            let since = self.count.saturating_sub(u64::try_from(MOST_KEPT / 2).unwrap_or_default());
            self.served.retain(|_, last| *last > since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Offer(&'static str, u32);

    impl OfferedIn for Offer {
        fn namespace(&self) -> &str {
            self.0
        }
    }

    fn order(turns: &Turns, offers: &[(&'static str, u32)]) -> Vec<u32> {
        let offers = offers.iter().map(|(namespace, number)| Offer(namespace, *number)).collect();
        turns.order(offers).iter().map(|offer| offer.1).collect()
    }

    #[test]
    fn no_namespace_is_served_twice_before_another_that_waits() {
        let offers = [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("c", 6)];
        let mut turns = Turns::default();
        assert_eq!(order(&turns, &offers), [1, 4, 5, 2, 6, 3]);
        turns.served("a");
        assert_eq!(order(&turns, &offers), [4, 5, 1, 6, 2, 3]);
        turns.served("c");
        turns.served("b");
        assert_eq!(order(&turns, &offers), [1, 5, 4, 2, 6, 3]);
        assert_eq!(order(&turns, &[]), Vec::<u32>::new());
    }

    #[test]
    fn what_is_kept_of_past_services_is_bounded() {
        let mut turns = Turns::default();
        for namespace in 0..3 * MOST_KEPT {
            turns.served(&namespace.to_string());
            assert!(turns.served.len() <= MOST_KEPT);
        }
    }
}
