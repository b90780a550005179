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

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of a process.
#[derive(Clone)]
pub(super) struct Slots {
    worked_on: Arc<Semaphore>,
    aside: Arc<Semaphore>,
}

impl Slots {
    /// So many.
    pub(super) fn new(count: usize) -> Self {
        Self { worked_on: Arc::new(Semaphore::new(count)), aside: Arc::new(Semaphore::new(count)) }
    }

    /// How many are free.
    pub(super) fn free(&self) -> usize {
        self.worked_on.available_permits()
    }

    /// Waits until one is free.
    pub(super) async fn wait(&self) {
        drop(self.worked_on.acquire().await);
    }

    /// Takes one; none when none is free.
    pub(super) fn take(&self) -> Option<Slot> {
        let place = Arc::clone(&self.worked_on).try_acquire_owned().ok()?;
        Some(Slot { slots: self.clone(), place: Some(place) })
    }
}

/// The place of one run, until it is dropped.
pub(super) struct Slot {
    slots: Slots,
    place: Option<OwnedSemaphorePermit>,
}

impl Slot {
    /// Makes room for another run, once there is a place aside. The slot is kept until then, so that
    /// no more runs are begun than can stand aside.
    ///
    /// # Cancel safety
    /// One that is given up keeps its slot.
    pub(super) async fn step_aside(&mut self) {
        // Nobody closes them.
        if let Ok(place) = Arc::clone(&self.slots.aside).acquire_owned().await {
            self.place = Some(place);
        }
    }

    /// Makes room aside, and waits for a slot again. One that kept its place aside until it has a
    /// slot, and one that keeps its slot until there is a place aside, would wait for each other.
    ///
    /// # Cancel safety
    /// One that is given up has no place.
    pub(super) async fn come_back(&mut self) {
        self.place = None;
        self.place = Arc::clone(&self.slots.worked_on).acquire_owned().await.ok();
    }
}
