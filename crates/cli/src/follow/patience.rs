//! How long a lost connection is retried. Pure: the time is an argument.

use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The longest outage that is waited for, longer than a restart of the service takes.
const LONGEST_LOSS: Duration = Duration::from_secs(120);
/// A stream of at least this duration counts as a working connection, even without events.
const STEADY: Duration = Duration::from_secs(10);

/// The remaining retries.
#[derive(Debug, Default)]
pub(super) struct Patience {
    lost_since: Option<Instant>,
    pause: Option<Duration>,
}

/// What to do after a loss.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Retry after this pause.
    Retry {
        /// The duration of the pause.
        pause: Duration,
        /// Whether the connection had been working before.
        first: bool,
    },
    /// The outage is too long.
    GiveUp,
}

impl Patience {
    /// The next action after a loss. `opened` is the time when the stream opened, if it did, and
    /// `news` whether it had new events.
    pub(super) fn lost(&mut self, now: Instant, opened: Option<Instant>, news: bool) -> Next {
        let steady = opened.is_some_and(|opened| now.duration_since(opened) >= STEADY);
        if news || steady {
            *self = Self::default();
        }
        let first = self.lost_since.is_none();
        let since = *self.lost_since.get_or_insert(now);
        if now.duration_since(since) > LONGEST_LOSS {
            return Next::GiveUp;
        }
        let pause = self.pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
        self.pause = Some(pause);
        Next::Retry { pause, first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_end_when_the_service_stays_away() {
        let began = Instant::now();
        let mut now = began;
        let mut patience = Patience::default();
        let mut pauses = Vec::new();
        while let Next::Retry { pause, first } = patience.lost(now, None, false) {
            assert_eq!(first, pauses.is_empty());
            pauses.push(pause);
            now += pause;
        }
        assert!(pauses.is_sorted() && pauses.last() == Some(&LONGEST_PAUSE));
        assert!(now - began > LONGEST_LOSS && now - began <= LONGEST_LOSS + LONGEST_PAUSE);
    }

    #[test]
    fn a_quiet_run_may_lose_its_service_again_hours_later() {
        let began = Instant::now();
        let mut patience = Patience::default();
        let first = Next::Retry { pause: FIRST_PAUSE, first: true };
        assert_eq!(patience.lost(began, None, false), first);
        let later = began + Duration::from_secs(7_200);
        let opened = Some(began + Duration::from_secs(1));
        assert_eq!(patience.lost(later, opened, false), first);
        assert_eq!(patience.lost(later + LONGEST_LOSS * 2, None, true), first);
    }
}
