//! Questions to forges that deliveries wait for. A forge that does not answer two of them in a row in time is asked nothing for
//! a while, so that deliveries do without its answer at once (a circuit breaker for each forge).

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// How long a forge has to say what a delivery does not.
const ASKED_FOR: Duration = Duration::from_secs(10);
/// The questions in a row without an answer in time after which a forge is asked nothing: one may only be large.
const UNANSWERED: u32 = 2;
/// How long a forge is asked nothing then.
const OPEN_FOR: Duration = Duration::from_secs(30);
/// The deliveries that wait for one forge at the same time.
const AT_ONCE: usize = 16;

/// The circuit breakers of the forges.
#[derive(Debug)]
pub(crate) struct Circuits {
    /// By the names of the forges.
    known: Mutex<HashMap<String, Arc<Circuit>>>,
    asked_for: Duration,
    open_for: Duration,
}

impl Default for Circuits {
    fn default() -> Self {
        Self { known: Mutex::default(), asked_for: ASKED_FOR, open_for: OPEN_FOR }
    }
}

#[derive(Debug)]
struct Circuit {
    permits: Semaphore,
    /// The questions without an answer in time since the last answer.
    unanswered: AtomicU32,
    /// Until when the forge is asked nothing.
    open_until: Mutex<Option<Instant>>,
}

impl Circuit {
    fn open_until(&self) -> Option<Instant> {
        *self.open_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, until: Instant) {
        *self.open_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }
}

impl Circuits {
    fn of(&self, forge: &str) -> Arc<Circuit> {
        let mut circuits = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = circuits.get(forge) {
            return Arc::clone(known);
        }
        let new = Arc::new(Circuit {
            permits: Semaphore::new(AT_ONCE),
            unanswered: AtomicU32::new(0),
            open_until: Mutex::new(None),
        });
        circuits.insert(forge.to_owned(), Arc::clone(&new));
        new
    }

    /// Asks a forge. None where it does not answer in time. One that did not answer several questions in a row is not asked for a
    /// while.
    pub(super) async fn ask<T>(&self, forge: &str, question: impl Future<Output = T>) -> Option<T> {
        let circuit = self.of(forge);
        let now = Instant::now();
        if circuit.open_until().is_some_and(|until| now < until) {
            return None;
        }
        // A forge that answers is not away because others wait for it. The semaphore is never closed.
        let waiting = timeout_at(now + self.asked_for, circuit.permits.acquire());
        let Ok(permit) = waiting.await else { return None };
        let _permit = permit.ok();
        let now = Instant::now();
        if circuit.open_until().is_some_and(|until| now < until) {
            return None;
        }
        match timeout_at(now + self.asked_for, question).await {
            Ok(answer) => {
                circuit.unanswered.store(0, Ordering::Relaxed);
                Some(answer)
            }
            Err(_) => {
                let unanswered =
                    circuit.unanswered.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                let opens = unanswered >= UNANSWERED;
                if opens {
                    circuit.open(Instant::now() + self.open_for);
                }
                tracing::warn!(
                    forge,
                    opens,
                    "planner: the forge did not answer in time; after two such questions in a row it is asked nothing about \
                     deliveries for 30 seconds"
                );
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn one_question_that_takes_too_long_closes_a_forge_to_no_other() {
        let asked_for = Duration::from_millis(50);
        let circuits = Circuits { asked_for, ..Circuits::default() };
        for _ in 0..2 {
            assert_eq!(circuits.ask("busy", pending::<u8>()).await, None);
            assert_eq!(circuits.ask("busy", async { 1 }).await, Some(1));
        }
        for _ in 0..2 {
            assert_eq!(circuits.ask("busy", pending::<u8>()).await, None);
        }
        assert_eq!(circuits.ask("busy", async { 1 }).await, None, "two in a row had no answer");
    }

    #[tokio::test]
    async fn a_forge_that_does_not_answer_is_asked_again_later_and_others_meanwhile() {
        let (asked_for, open_for) = (Duration::from_millis(200), Duration::from_secs(2));
        let circuits = Circuits { asked_for, open_for, ..Circuits::default() };
        let began = Instant::now();
        let asking = (0..100).map(|_| circuits.ask("slow", pending::<()>()));
        let answers = futures::future::join_all(asking).await;
        assert!(answers.iter().all(Option::is_none));
        assert!(began.elapsed() < open_for, "they waited for one another: {:?}", began.elapsed());
        assert_eq!(circuits.ask("slow", async { 1 }).await, None);
        assert_eq!(circuits.ask("other", async { 2 }).await, Some(2));
        while circuits.ask("slow", async { 3 }).await.is_none() {
            assert!(began.elapsed() < Duration::from_secs(20), "it is never asked again");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(began.elapsed() >= open_for, "{:?}", began.elapsed());
    }
}
