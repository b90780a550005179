//! Whether other executors still consider this process alive, as far as it can determine by itself.
//!
//! ```text
//!   a beat is sent --------- patience --------->|<-- margin -->|
//!   (and answered)   runs are worked on         |  commands    |  others may take
//!                                               |  are killed  |  the runs over
//! ```
//!
//! Others count from the heartbeat's observation or from its named time. This process counts from
//! when it was sent, so it gives its leases up before others can take them over.

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;
use tokio::sync::watch;

/// The part of the age limit that is reserved for ending commands before others take over.
const MARGIN: u32 = 8;

/// A time of a clock that is never set, and that advances while the machine is suspended, because
/// other machines' clocks do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MonotonicInstant(Duration);

impl MonotonicInstant {
    /// Now.
    pub(super) fn now() -> Self {
        // This clock is older in Linux than the other system calls used here.
        let time = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |time| time.num_nanoseconds());
        Self(Duration::from_nanos(u64::try_from(time).unwrap_or_default()))
    }

    /// The duration since an earlier time; zero for a later one.
    pub(super) const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The time that is this much earlier, or the clock's start.
    pub(super) const fn before(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time))
    }

    /// The time this long after the clock's start.
    #[cfg(test)]
    pub(super) const fn at(time: Duration) -> Self {
        Self(time)
    }
}

/// When the last answered heartbeat was sent, and for how long it counts.
pub struct LeaseValidity {
    patience: Duration,
    sent_at: watch::Sender<Option<MonotonicInstant>>,
}

impl LeaseValidity {
    /// Not valid yet. The process sends a heartbeat every `interval` and is declared dead after
    /// `age_limit` without one, which is at least two intervals.
    pub fn new(interval: Duration, age_limit: Duration) -> Self {
        let margin = interval.max(age_limit / MARGIN);
        let patience = age_limit.saturating_sub(margin).max(age_limit / 2);
        Self { patience, sent_at: watch::Sender::new(None) }
    }

    /// Records an answered heartbeat that was sent at this time, unless that is too long ago.
    pub(super) fn renew(&self, sent_at: MonotonicInstant) {
        if self.counts(sent_at, MonotonicInstant::now()) {
            self.sent_at.send_replace(Some(sent_at));
        }
    }

    /// Whether this process may rely on its leases.
    pub fn is_valid(&self) -> bool {
        self.left().is_some()
    }

    /// For how long it may; none when it may not.
    pub(super) fn left(&self) -> Option<Duration> {
        let sent_at = (*self.sent_at.borrow())?;
        let left = self.patience.checked_sub(MonotonicInstant::now().since(sent_at))?;
        (!left.is_zero()).then_some(left)
    }

    /// Waits until it may.
    pub(super) async fn valid(&self) {
        let now_kept = |sent_at: &Option<MonotonicInstant>| {
            sent_at.is_some_and(|sent_at| self.counts(sent_at, MonotonicInstant::now()))
        };
        // The sender is owned by this object, so it is never dropped.
        self.sent_at.subscribe().wait_for(now_kept).await.ok();
    }

    /// Invalidates the leases; returns whether they were valid before.
    pub(super) fn lose(&self) -> bool {
        self.sent_at.send_if_modified(|sent_at| {
            let over =
                sent_at.is_some_and(|sent_at| !self.counts(sent_at, MonotonicInstant::now()));
            if over {
                *sent_at = None;
            }
            over
        })
    }

    fn counts(&self, sent_at: MonotonicInstant, now: MonotonicInstant) -> bool {
        now.since(sent_at) < self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_an_interval_before_the_age_limit_and_never_before_half_of_it() {
        for (interval_ms, age_limit_ms, patience_ms) in [
            (1000, 10_000, 8750),
            (2000, 10_000, 8000),
            (200, 2000, 1750),
            (666, 2000, 1334),
            (1000, 2000, 1000),
            (10, 600_000, 525_000),
        ] {
            let [interval, age_limit, patience] =
                [interval_ms, age_limit_ms, patience_ms].map(Duration::from_millis);
            assert_eq!(LeaseValidity::new(interval, age_limit).patience, patience, "{interval_ms}");
        }
    }

    #[test]
    fn a_beat_that_was_sent_too_long_ago_is_no_contact_whenever_its_answer_comes() {
        let lease_validity = LeaseValidity::new(Duration::from_secs(1), Duration::from_mins(1));
        assert!(!lease_validity.is_valid() && !lease_validity.lose(), "there was none to lose");
        lease_validity.renew(MonotonicInstant::at(Duration::ZERO));
        assert!(!lease_validity.is_valid());
        lease_validity.renew(MonotonicInstant::now());
        assert!(
            lease_validity.is_valid() && !lease_validity.lose(),
            "it is not lost while it is kept"
        );
        lease_validity.sent_at.send_replace(Some(MonotonicInstant::at(Duration::ZERO)));
        assert!(
            !lease_validity.is_valid() && lease_validity.lose() && !lease_validity.lose(),
            "it is lost once"
        );
    }
}
