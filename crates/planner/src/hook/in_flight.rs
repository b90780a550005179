//! The bytes of bodies that are received and not stored yet, of all connections together.
//!
//! ```text
//!   chunk --> room left? --yes--> kept
//!                \-- no --> the oldest unfinished body is given up in its favour; its sender is told to send it again
//! ```
//!
//! A client that stalls in the midst of large bodies thus keeps no other delivery out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use surety_common::domain::fault::{Fault, FaultCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long the room of a body that was given up is waited for.
const ROOM_TIME: Duration = Duration::from_secs(1);

/// The bodies that are received at the moment.
#[derive(Debug)]
pub(super) struct InFlight {
    room: Arc<Semaphore>,
    unfinished: Mutex<Unfinished>,
}

#[derive(Debug, Default)]
struct Unfinished {
    next: u64,
    /// By their beginning.
    bodies: BTreeMap<u64, CancellationToken>,
}

impl InFlight {
    /// Room for this many bytes.
    pub(super) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { room: Arc::new(Semaphore::new(bytes)), unfinished: Mutex::default() })
    }

    /// A body that begins to arrive.
    pub(super) fn begin(self: &Arc<Self>) -> Share {
        let given_up = CancellationToken::new();
        let mut unfinished = self.lock();
        unfinished.next += 1;
        let number = unfinished.next;
        unfinished.bodies.insert(number, given_up.clone());
        drop(unfinished);
        Share { in_flight: Arc::clone(self), number, given_up, held: None }
    }

    /// Gives the oldest unfinished body up, unless that is this one.
    fn give_up_oldest_but(&self, number: u64) -> bool {
        let mut unfinished = self.lock();
        let Some(oldest) = unfinished.bodies.first_entry().filter(|it| *it.key() != number) else {
            return false;
        };
        oldest.remove().cancel();
        true
    }

    fn lock(&self) -> MutexGuard<'_, Unfinished> {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.room.available_permits()
    }
}

/// The share of one body.
#[derive(Debug)]
pub(super) struct Share {
    in_flight: Arc<InFlight>,
    number: u64,
    given_up: CancellationToken,
    held: Option<OwnedSemaphorePermit>,
}

impl Share {
    /// Completes when the body is given up in favour of another one.
    pub(super) async fn given_up(&self) {
        self.given_up.cancelled().await;
    }

    /// Takes room for more bytes.
    ///
    /// # Errors
    /// `overloaded` where none is left and no older body is unfinished.
    pub(super) async fn take(&mut self, bytes: usize) -> Result<(), Fault> {
        let more = u32::try_from(bytes).unwrap_or(u32::MAX);
        let room = &self.in_flight.room;
        let permit = match Arc::clone(room).try_acquire_many_owned(more) {
            Ok(permit) => Some(permit),
            Err(_) if self.in_flight.give_up_oldest_but(self.number) => {
                let waiting = timeout(ROOM_TIME, Arc::clone(room).acquire_many_owned(more)).await;
                waiting.ok().and_then(Result::ok)
            }
            Err(_) => None,
        };
        let permit = permit.ok_or_else(|| {
            let message = "too many bytes of deliveries are being received; send it again";
            Fault::new(FaultCode::Overloaded, message)
        })?;
        match &mut self.held {
            Some(held) => held.merge(permit),
            None => self.held = Some(permit),
        }
        Ok(())
    }

    /// The body is whole: it is not given up any more, and its room is held until the permit is dropped.
    pub(super) fn whole(mut self) -> Option<OwnedSemaphorePermit> {
        self.held.take()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.in_flight.lock().bodies.remove(&self.number);
    }
}
