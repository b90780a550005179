//! The loop that searches offered waits for those that take them, and the order in which they are taken.
//!
//! A wake-up starts a scan, and one scan covers all wake-ups before it. Now and then one starts without a wake-up,
//! which may be lost. Where nothing takes waits, none is searched.

use super::StoreError;
use super::wake::{Topic, Wakeups};
use std::collections::{BTreeMap, VecDeque};
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

/// The waits of the namespaces by turns, beginning with another one each time. Those of one namespace keep their order.
pub fn in_turns<T: OfferedIn>(offers: Vec<T>, rotation: usize) -> Vec<T> {
    let mut by_namespace: BTreeMap<String, VecDeque<T>> = BTreeMap::new();
    for offer in offers {
        by_namespace.entry(offer.namespace().to_owned()).or_default().push_back(offer);
    }
    let mut queues: VecDeque<VecDeque<T>> = by_namespace.into_values().collect();
    let first = rotation.checked_rem(queues.len()).unwrap_or_default();
    queues.rotate_left(first);
    let mut ordered = Vec::new();
    while let Some(mut queue) = queues.pop_front() {
        ordered.extend(queue.pop_front());
        if !queue.is_empty() {
            queues.push_back(queue);
        }
    }
    ordered
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

    fn order(offers: &[(&'static str, u32)], rotation: usize) -> Vec<u32> {
        let offers = offers.iter().map(|(namespace, number)| Offer(namespace, *number)).collect();
        in_turns(offers, rotation).iter().map(|offer| offer.1).collect()
    }

    #[test]
    fn no_namespace_is_served_twice_before_another_that_waits() {
        let offers = [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("c", 6)];
        assert_eq!(order(&offers, 0), [1, 4, 5, 2, 6, 3]);
        assert_eq!(order(&offers, 1), [4, 5, 1, 6, 2, 3]);
        assert_eq!(order(&[], 7), Vec::<u32>::new());
    }
}
