//! The slots of concurrent runs.
//!
//! ```text
//!   claimed --> in a slot: steps, observations --> released: the gate decides --> over
//!                  ^                                             |
//!                  +---------------- not accepted ---------------+
//! ```
//!
//! A run that waits for the gate uses no slot, so another one is started. At most as many runs wait
//! for the gate as there are slots, so that an unavailable gate limits the claims and not the
//! memory.
//!
//! Slots are acquired before leases, because a slot that is only counted could be taken before the
//! lease is written. To avoid deadlocks, a run waits for a second permit in one order only: from a
//! slot to a place for released runs.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a claim, which holds every free slot, takes at most on a loaded database. Without this time, an answer
/// that arrives during a claim would need a claim of its own.
const CLAIM_TIME: Duration = Duration::from_millis(20);

/// The slots of a process.
#[derive(Clone)]
pub(super) struct Slots {
    worked_on: Arc<Semaphore>,
    released: Arc<Semaphore>,
}

impl Slots {
    /// This number of slots.
    pub(super) fn new(count: usize) -> Self {
        Self {
            worked_on: Arc::new(Semaphore::new(count)),
            released: Arc::new(Semaphore::new(count)),
        }
    }

    /// The number of free slots.
    pub(super) fn free(&self) -> usize {
        self.worked_on.available_permits()
    }

    /// Waits until one is free.
    pub(super) async fn wait(&self) {
        drop(self.worked_on.acquire().await);
    }

    /// Acquires one slot; none when none becomes free within [`CLAIM_TIME`]. A claim that begins meanwhile
    /// comes after it.
    pub(super) async fn take_one(&self) -> Option<Slot> {
        let place = match Arc::clone(&self.worked_on).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                let waiting = Arc::clone(&self.worked_on).acquire_owned();
                tokio::time::timeout(CLAIM_TIME, waiting).await.ok()?.ok()?
            }
        };
        Some(Slot { slots: self.clone(), place: Some(place), released: false })
    }

    /// Acquires all free slots, for runs that are about to be leased.
    pub(super) fn take_free(&self) -> Free {
        loop {
            let count = u32::try_from(self.free()).unwrap_or(u32::MAX);
            // Some may have been acquired since they were counted.
            if let Ok(places) = Arc::clone(&self.worked_on).try_acquire_many_owned(count) {
                return Free { slots: self.clone(), places };
            }
        }
    }
}

/// Acquired slots. Those without a run are released when it is dropped.
pub(super) struct Free {
    slots: Slots,
    places: OwnedSemaphorePermit,
}

impl Free {
    /// The number of remaining slots.
    pub(super) fn count(&self) -> usize {
        self.places.num_permits()
    }

    /// One slot for one run; none when none is left.
    pub(super) fn take(&mut self) -> Option<Slot> {
        let place = self.places.split(1)?;
        Some(Slot { slots: self.slots.clone(), place: Some(place), released: false })
    }
}

/// The slot of one run, until it is dropped.
pub(super) struct Slot {
    slots: Slots,
    /// None while it is being acquired again.
    place: Option<OwnedSemaphorePermit>,
    released: bool,
}

impl Slot {
    /// Releases the slot for another run once a place for released runs is free. The slot is kept
    /// until then, which limits the runs that wait for the gate.
    ///
    /// # Cancel safety
    /// When cancelled, the slot is kept.
    pub(super) async fn release_slot(&mut self) {
        if self.released {
            return;
        }
        // The semaphore is never closed.
        if let Ok(place) = Arc::clone(&self.slots.released).acquire_owned().await {
            self.place = Some(place);
            self.released = true;
        }
    }

    /// Releases the place for released runs, and waits for a slot, unless the run has one. Keeping
    /// the place until a slot is free would deadlock with runs that keep their slot until a place
    /// is free.
    ///
    /// # Cancel safety
    /// When cancelled, the run has neither.
    pub(super) async fn reacquire_slot(&mut self) {
        if self.place.is_some() && !self.released {
            return;
        }
        self.place = None;
        self.released = false;
        self.place = Arc::clone(&self.slots.worked_on).acquire_owned().await.ok();
    }
}
