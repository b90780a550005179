//! Which executors have sent no heartbeat for too long, as this process observes it.
//!
//! ```text
//!   poll     poll     poll     poll         poll
//!    |  beat  |        |        |     ...    |
//!    +---*----+--------+--------+------------+
//!        |<--------- age limit ------------->| silent
//! ```
//!
//! A heartbeat names a time, but the database's clock may be set. The detector therefore observes
//! that the named time *changes*, measured by a monotonic clock. It uses the named time where that
//! is consistent with its observations. For an executor seen for the first time, or after a gap, it
//! adds a grace period for the next heartbeat.

use super::lease_validity::MonotonicInstant;
use chrono::{DateTime, Utc};
use std::collections::HashMap;
use std::time::Duration;
use surety_common::store::Owner;
use uuid::Uuid;

/// A hanging heartbeat is abandoned after this part of the age limit, and sent again.
pub(super) const TRIES: u32 = 4;

/// The observed heartbeats of other executors.
pub(super) struct FailureDetector {
    limit: Duration,
    grace: Duration,
    looked_at: Option<MonotonicInstant>,
    seen: HashMap<Uuid, Sight>,
}

/// A heartbeat, and since when no later one was observed.
struct Sight {
    heartbeat_at: Option<DateTime<Utc>>,
    since: MonotonicInstant,
}

impl FailureDetector {
    /// A detector without observations. The others send a heartbeat every `interval` and are dead
    /// after `limit` without one, which is at least two intervals.
    pub(super) fn new(interval: Duration, limit: Duration) -> Self {
        let grace = (interval + interval.max(limit / TRIES)).min(limit);
        Self { limit, grace, looked_at: None, seen: HashMap::new() }
    }

    /// Processes the answer of a query that was sent and answered at these times. `now` is the time
    /// of its sending by the clock of the heartbeats. Returns the executors that are silent for too
    /// long.
    pub(super) fn observe(
        &mut self,
        [sent_at, answered_at]: [MonotonicInstant; 2],
        now: DateTime<Utc>,
        others: &[Owner],
    ) -> Vec<Owner> {
        let gap = self.looked_at.replace(sent_at).map(|before| answered_at.since(before));
        // A process that could not query for that long does not know whether the others were
        // silent.
        let gap = gap.filter(|gap| *gap < self.grace);
        let seen = std::mem::take(&mut self.seen);
        let mut silent = Vec::new();
        for owner in others {
            let age = age(owner, now);
            let before = seen.get(&owner.id);
            // The heartbeat may be as late as the answer, and the silence lasted at least until the
            // query. A query that hung therefore proves less.
            let since = match (gap, before) {
                (Some(_), Some(sight)) if sight.heartbeat_at == owner.heartbeat_at => sight.since,
                // It came after the last query; a clock that contradicts this was set.
                (Some(gap), Some(_)) => {
                    answered_at.before(if age <= gap { age } else { Duration::ZERO })
                }
                (None, _) | (Some(_), None) => answered_at.before(age.min(self.limit - self.grace)),
            };
            if sent_at.since(since) >= self.limit {
                silent.push(*owner);
            }
            self.seen.insert(owner.id, Sight { heartbeat_at: owner.heartbeat_at, since });
        }
        silent
    }
}

/// The age of a heartbeat according to its own time.
fn age(owner: &Owner, now: DateTime<Utc>) -> Duration {
    match owner.heartbeat_at {
        Some(heartbeat_at) => (now - heartbeat_at).to_std().unwrap_or_default(),
        None => Duration::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;
    use proptest::prelude::*;

    const INTERVAL: Duration = Duration::from_secs(1);
    const LIMIT: Duration = Duration::from_secs(10);

    fn moment(ms: u64) -> MonotonicInstant {
        // Later than the clock's start, so that no subtraction reaches it.
        MonotonicInstant::at(Duration::from_hours(1) + Duration::from_millis(ms))
    }

    /// A query that is answered at once.
    fn moments(ms: u64) -> [MonotonicInstant; 2] {
        [moment(ms); 2]
    }

    fn time(ms: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::days(20_000) + TimeDelta::milliseconds(ms)
    }

    fn owner(heartbeat_ms: i64) -> Owner {
        Owner { id: Uuid::from_u128(1), heartbeat_at: Some(time(heartbeat_ms)) }
    }

    /// Polls an executor every second whose last heartbeat was at 300 ms; returns when it is
    /// silent.
    fn noticed_at(detector: &mut FailureDetector, from_ms: u64, step_ms: i64) -> Option<u64> {
        (from_ms..from_ms + 30_000).step_by(1000).find(|ms| {
            let now = time(i64::try_from(*ms).unwrap() + step_ms);
            !detector.observe(moments(*ms), now, &[owner(300)]).is_empty()
        })
    }

    #[test]
    fn the_dead_are_noticed_at_the_first_heartbeat_after_the_limit() {
        let mut detector = FailureDetector::new(INTERVAL, LIMIT);
        assert_eq!(detector.observe(moments(0), time(0), &[owner(-700)]), []);
        assert_eq!(noticed_at(&mut detector, 1000, 0), Some(11_000));
    }

    #[test]
    fn who_comes_new_believes_the_past_but_for_the_time_in_which_the_living_beat() {
        let mut detector = FailureDetector::new(INTERVAL, LIMIT);
        assert_eq!(noticed_at(&mut detector, 3_600_000, 0), Some(3_604_000));
        let mut detector = FailureDetector::new(INTERVAL, LIMIT);
        assert_eq!(
            noticed_at(&mut detector, 2000, 0),
            Some(11_000),
            "it is no earlier than it was"
        );
        let unknown = Owner { heartbeat_at: None, ..owner(0) };
        let mut detector = FailureDetector::new(INTERVAL, LIMIT);
        let found =
            (0..9).find(|s| !detector.observe(moments(s * 1000), time(0), &[unknown]).is_empty());
        assert_eq!(found, Some(4), "an unregistered executor");
    }

    #[test]
    fn a_clock_that_is_set_neither_kills_the_living_nor_hides_the_dead() {
        for step_ms in [3_600_000, -3_600_000] {
            let mut detector = FailureDetector::new(INTERVAL, LIMIT);
            assert_eq!(detector.observe(moments(0), time(0), &[owner(-700)]), []);
            // Its heartbeats name the old time, and this process has the new one.
            assert_eq!(noticed_at(&mut detector, 1000, step_ms), Some(11_000), "{step_ms}");
            let mut detector = FailureDetector::new(INTERVAL, LIMIT);
            let found = noticed_at(&mut detector, 1000, step_ms);
            assert!(found.is_some_and(|at_ms| (4000..=11_000).contains(&at_ms)), "{found:?}");
        }
    }

    #[test]
    fn a_heartbeat_that_came_while_a_question_hung_counts_from_its_answer() {
        let mut detector = FailureDetector::new(INTERVAL, LIMIT);
        assert_eq!(detector.observe(moments(0), time(0), &[owner(-700)]), []);
        // It named 3.2 s, and the query that was sent at 1 s was answered at 3.4 s.
        let hung = [moment(1000), moment(3400)];
        assert_eq!(detector.observe(hung, time(1000), &[owner(3200)]), []);
        let found = (4000..20_000).step_by(100).find(|ms| {
            let now = time(i64::try_from(*ms).unwrap());
            !detector.observe(moments(*ms), now, &[owner(3200)]).is_empty()
        });
        assert_eq!(found, Some(13_400));
    }

    #[test]
    fn who_was_cut_off_gives_others_the_time_to_be_heard_again() {
        let mut detector = FailureDetector::new(INTERVAL, LIMIT);
        assert_eq!(detector.observe(moments(0), time(0), &[owner(0)]), []);
        assert_eq!(detector.observe(moments(60_000), time(60_000), &[owner(0)]), []);
        assert_eq!(detector.observe(moments(61_000), time(61_000), &[owner(60_700)]), []);
        // If it had stayed silent, that would be counted from here on.
        let mut detector = FailureDetector::new(INTERVAL, LIMIT);
        assert_eq!(detector.observe(moments(0), time(0), &[owner(0)]), []);
        assert_eq!(detector.observe(moments(60_000), time(60_000), &[owner(0)]), []);
        let observations = (61..80)
            .find(|s| !detector.observe(moments(s * 1000), time(0), &[owner(0)]).is_empty());
        assert_eq!(observations, Some(64));
    }

    proptest! {
        /// An executor with a heartbeat at least every two seconds is never silent for a process
        /// that polls as often, under any clocks.
        #[test]
        fn an_executor_with_heartbeats_is_never_silent(
            turns in prop::collection::vec((1_u64..2000, any::<bool>(), -1_i64 << 40..1 << 40), 1..200),
        ) {
            let mut detector = FailureDetector::new(INTERVAL, LIMIT);
            let (mut now_ms, mut beaten_ms, mut named, mut number) = (0_u64, 0_u64, owner(0), 0_i64);
            for (pause_ms, beats, clock_ms) in turns {
                now_ms += pause_ms;
                if beats || now_ms - beaten_ms >= 2000 {
                    number += 1;
                    // No two heartbeats name the same time.
                    (beaten_ms, named) = (now_ms, owner((clock_ms << 10) + number));
                }
                prop_assert_eq!(detector.observe(moments(now_ms), time(clock_ms), &[named]), []);
            }
        }

        /// A dead executor is detected by a process that polls, under any clocks.
        #[test]
        fn a_dead_executor_is_detected(
            before in prop::collection::vec(-1_i64 << 40..1 << 40, 1..20),
            clocks in prop::collection::vec(-1_i64 << 40..1 << 40, 12),
        ) {
            let mut detector = FailureDetector::new(INTERVAL, LIMIT);
            let mut at_ms = 0;
            for (number, clock_ms) in before.iter().enumerate() {
                at_ms += 1000;
                let named = owner(i64::try_from(number).unwrap());
                detector.observe(moments(at_ms), time(*clock_ms), &[named]);
            }
            let last = owner(-1);
            let found = clocks.iter().any(|clock_ms| {
                at_ms += 1000;
                !detector.observe(moments(at_ms), time(*clock_ms), &[last]).is_empty()
            });
            prop_assert!(found);
        }
    }
}
