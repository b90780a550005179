//! The bounds of a port's connections: how many, from whom, and for how long without a request.
//!
//! ```text
//!   accepted --> waiting (no request yet, or between two) --request--> serving --answer--> waiting
//!                   |
//!                   +-- a bound is reached: the oldest waiting one that was never served is closed first
//! ```
//!
//! A new connection is always the youngest, so a client that sends its request at once is served however many idle
//! connections others keep open. HTTP/2 connections wait until their first request only.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The files that connections leave free: for the database, logs, certificates, and the answer to a health check.
const FILES_KEPT_BACK: usize = 128;
/// The fewest connections of a port, however few files the system allows.
const FEWEST: usize = 16;

/// The bounds of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The most connections that wait for a request, of all peers together.
    pub waiting: usize,
    /// The same for one address.
    pub waiting_per_peer: usize,
    /// How long a request's first byte, its header, and its body may take, each.
    pub request: Duration,
    /// How long an HTTP/1 connection is kept between two requests.
    pub idle: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            waiting: 1024,
            waiting_per_peer: 256,
            request: Duration::from_secs(10),
            idle: Duration::from_secs(60),
        }
    }
}

#[cfg(feature = "config")]
impl Bounds {
    /// What the settings say.
    pub fn of(connections: &crate::config::ConnectionsConfig) -> Self {
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        Self {
            waiting: count(connections.waiting_connections),
            waiting_per_peer: count(connections.waiting_connections_per_peer),
            request: Duration::from_millis(connections.request_timeout_ms),
            idle: Duration::from_millis(connections.idle_timeout_ms),
        }
    }
}

/// The open connections of a port.
#[derive(Debug)]
pub(super) struct Connections {
    pub(super) bounds: Bounds,
    /// The most connections by the process's limit of open files.
    most: usize,
    /// The most of them that one address can have, in use or not, so that no client takes all.
    most_per_peer: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    all_of: HashMap<IpAddr, usize>,
    next: u64,
    waiting: BTreeMap<Rank, Waiting>,
    by_peer: HashMap<IpAddr, BTreeMap<Rank, ()>>,
}

/// The order in which waiting connections are closed: those that never had a request first, then by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    was_served: bool,
    number: u64,
}

#[derive(Debug)]
struct Waiting {
    peer: IpAddr,
    evicted: CancellationToken,
}

impl Open {
    fn rank(&mut self, was_served: bool) -> Rank {
        self.next += 1;
        Rank { was_served, number: self.next }
    }

    fn insert(&mut self, rank: Rank, waiting: Waiting) {
        self.by_peer.entry(waiting.peer).or_default().insert(rank, ());
        self.waiting.insert(rank, waiting);
    }

    fn remove(&mut self, rank: Rank) -> Option<Waiting> {
        let waiting = self.waiting.remove(&rank)?;
        if let Some(ranks) = self.by_peer.get_mut(&waiting.peer) {
            ranks.remove(&rank);
            if ranks.is_empty() {
                self.by_peer.remove(&waiting.peer);
            }
        }
        Some(waiting)
    }

    /// Closes the first in the order, of one peer or of all; false when none waits.
    fn evict(&mut self, peer: Option<IpAddr>) -> bool {
        let rank = match peer {
            Some(peer) => self.by_peer.get(&peer).and_then(|ranks| ranks.keys().next().copied()),
            None => self.waiting.keys().next().copied(),
        };
        let Some(evicted) = rank.and_then(|rank| self.remove(rank)) else { return false };
        evicted.evicted.cancel();
        true
    }

    fn waiting_of(&self, peer: IpAddr) -> usize {
        self.by_peer.get(&peer).map_or(0, BTreeMap::len)
    }
}

impl Connections {
    /// The connections of a port of a process that may open `files` files.
    pub(super) fn new(bounds: Bounds, files: u64) -> Arc<Self> {
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        let most = files.saturating_sub(FILES_KEPT_BACK).max(FEWEST);
        Arc::new(Self { bounds, most, most_per_peer: most / 2, open: Mutex::default() })
    }

    /// Takes a connection in, which waits for its first request. None when the process has no file left for it and no
    /// waiting connection can be closed instead.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Arc<Slot>> {
        let mut open = self.lock();
        if open.waiting_of(peer) >= self.bounds.waiting_per_peer {
            open.evict(Some(peer));
        }
        if open.waiting.len() >= self.bounds.waiting {
            open.evict(None);
        }
        let own = open.all_of.get(&peer).copied().unwrap_or_default();
        if own >= self.most_per_peer && !open.evict(Some(peer)) {
            return None;
        }
        if open.all >= self.most && !open.evict(None) {
            return None;
        }
        open.all += 1;
        open.all_of.insert(peer, own + 1);
        let (rank, evicted) = (open.rank(false), CancellationToken::new());
        open.insert(rank, Waiting { peer, evicted: evicted.clone() });
        drop(open);
        let state =
            Mutex::new(State { rank: Some(rank), waits_since: Instant::now(), is_shared: false });
        Some(Arc::new(Slot { connections: Arc::clone(self), peer, evicted, state }))
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One open connection.
#[derive(Debug)]
pub(super) struct Slot {
    connections: Arc<Connections>,
    peer: IpAddr,
    /// Cancelled when the connection has to be closed in favour of another one.
    pub(super) evicted: CancellationToken,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The rank while the connection waits.
    rank: Option<Rank>,
    /// Since when it has waited last.
    waits_since: Instant,
    /// Whether several requests share it.
    is_shared: bool,
}

impl Slot {
    pub(super) fn bounds(&self) -> Bounds {
        self.connections.bounds
    }

    /// A request arrived: the connection is not closed in favour of others.
    pub(super) fn serve(&self) {
        let mut state = self.lock();
        if let Some(rank) = state.rank.take() {
            self.connections.lock().remove(rank);
        }
    }

    /// Several requests share the connection, so it waits for its first one only.
    pub(super) fn share(&self) {
        self.lock().is_shared = true;
    }

    /// The connection waits for bytes of its client again.
    pub(super) fn wait(&self) {
        let mut state = self.lock();
        if state.rank.is_some() || state.is_shared || self.evicted.is_cancelled() {
            return;
        }
        let mut open = self.connections.lock();
        let rank = open.rank(true);
        open.insert(rank, Waiting { peer: self.peer, evicted: self.evicted.clone() });
        (state.rank, state.waits_since) = (Some(rank), Instant::now());
    }

    /// Since when the connection has waited; none while a request is served.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        let state = self.lock();
        state.rank.map(|_| state.waits_since)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let rank = self.lock().rank.take();
        let mut open = self.connections.lock();
        open.all = open.all.saturating_sub(1);
        if let Some(own) = open.all_of.get_mut(&self.peer) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                open.all_of.remove(&self.peer);
            }
        }
        if let Some(rank) = rank {
            open.remove(rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(waiting: usize, waiting_per_peer: usize) -> Arc<Connections> {
        Connections::new(Bounds { waiting, waiting_per_peer, ..Bounds::default() }, 1_000)
    }

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn is_closed(slot: &Slot) -> bool {
        slot.evicted.is_cancelled()
    }

    #[test]
    fn the_oldest_waiting_connection_of_a_peer_makes_place_for_its_newest() {
        let connections = bounded(10, 2);
        let slots: Vec<_> = (0..3).filter_map(|_| connections.admit(peer(1))).collect();
        let other = connections.admit(peer(2)).expect("a slot");
        assert_eq!(
            slots.iter().map(|slot| is_closed(slot)).collect::<Vec<_>>(),
            [true, false, false]
        );
        assert!(!is_closed(&other));
    }

    #[test]
    fn a_connection_with_a_request_is_never_closed_and_a_served_one_last() {
        let connections = bounded(2, 2);
        let serving = connections.admit(peer(1)).expect("a slot");
        serving.serve();
        let served = connections.admit(peer(2)).expect("a slot");
        served.serve();
        served.wait();
        let idle = connections.admit(peer(3)).expect("a slot");
        let newest = connections.admit(peer(4)).expect("a slot");
        assert_eq!(
            [&serving, &served, &idle, &newest].map(|slot| is_closed(slot)),
            [false, false, true, false]
        );
    }

    #[test]
    fn files_are_kept_back_and_a_closed_connection_gives_its_own_back() {
        let connections = Connections::new(Bounds::default(), 0);
        let take = |own: u8| -> Vec<_> {
            (0..FEWEST)
                .filter_map(|_| connections.admit(peer(own)))
                .inspect(|it| it.serve())
                .collect()
        };
        let slots = take(1);
        assert_eq!(slots.len(), FEWEST / 2, "one address has half of them at most");
        let others = take(2);
        assert_eq!(others.len(), FEWEST / 2);
        assert!(connections.admit(peer(3)).is_none());
        drop((slots, others));
        assert!(connections.admit(peer(3)).is_some());
        assert_eq!(connections.lock().all, 0);
        assert!(connections.lock().by_peer.is_empty() && connections.lock().all_of.is_empty());
    }
}
