//! How many runs are worked on at once.
//!
//! ```text
//!   claimed --> in a slot: its steps, its looks --> aside: the gate decides --> over
//!                  ^                                             |
//!                  +---------------- not accepted ---------------+
//! ```
//!
//! A run that waits for the gate does nothing here, so another one is begun meanwhile. As many stand
//! aside as there are slots, and no more: a gate that does not answer must end the claims, and not
//! the memory.
//!
//! Slots are taken before leases are: a slot that is only counted may be gone once the lease is
//! written, and then nobody works under it. Who holds places waits for no other one, but for the one
//! order that the places themselves know: from a slot to a place aside.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of a process.
#[derive(Clone)]
pub(super) struct Slots {
    worked_on: Arc<Semaphore>,
    released: Arc<Semaphore>,
}

impl Slots {
    /// So many.
    pub(super) fn new(count: usize) -> Self {
        Self {
            worked_on: Arc::new(Semaphore::new(count)),
            released: Arc::new(Semaphore::new(count)),
        }
    }

    /// How many are free.
    pub(super) fn free(&self) -> usize {
        self.worked_on.available_permits()
    }

    /// Waits until one is free.
    pub(super) async fn wait(&self) {
        drop(self.worked_on.acquire().await);
    }

    /// Takes all that are free, for runs that are about to be leased.
    pub(super) fn take_free(&self) -> Free {
        loop {
            let count = u32::try_from(self.free()).unwrap_or(u32::MAX);
            // Some may have been taken since they were counted.
            if let Ok(places) = Arc::clone(&self.worked_on).try_acquire_many_owned(count) {
                return Free { slots: self.clone(), places };
            }
        }
    }
}

/// Slots that are nobody else's. Those that no run is put in are free again when it is dropped.
pub(super) struct Free {
    slots: Slots,
    places: OwnedSemaphorePermit,
}

impl Free {
    /// How many are left.
    pub(super) fn count(&self) -> usize {
        self.places.num_permits()
    }

    /// One of them, for one run; none when none is left.
    pub(super) fn take(&mut self) -> Option<Slot> {
        let place = self.places.split(1)?;
        Some(Slot { slots: self.slots.clone(), place: Some(place), released: false })
    }
}

/// The place of one run, until it is dropped.
pub(super) struct Slot {
    slots: Slots,
    /// None on the way back from aside.
    place: Option<OwnedSemaphorePermit>,
    released: bool,
}

impl Slot {
    /// Makes room for another run, once there is a place aside. The slot is kept until then, so that
    /// no more runs are begun than can stand aside.
    ///
    /// # Cancel safety
    /// One that is given up keeps its slot.
    pub(super) async fn release_slot(&mut self) {
        if self.released {
            return;
        }
        // Nobody closes them.
        if let Ok(place) = Arc::clone(&self.slots.released).acquire_owned().await {
            self.place = Some(place);
            self.released = true;
        }
    }

    /// Makes room aside, and waits for a slot again, unless the run has one. One that kept its place
    /// aside until it has a slot, and one that keeps its slot until there is a place aside, would wait
    /// for each other.
    ///
    /// # Cancel safety
    /// One that is given up has no place.
    pub(super) async fn reacquire_slot(&mut self) {
        if self.place.is_some() && !self.released {
            return;
        }
        self.place = None;
        self.released = false;
        self.place = Arc::clone(&self.slots.worked_on).acquire_owned().await.ok();
    }
}
