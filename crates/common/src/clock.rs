//! The services' clock: the database's time, advanced by this machine's monotonic clock.
//!
//! One process compares readiness times and deadlines that another wrote, so a wrong or jumping
//! system clock would end runs early or never. Every new connection therefore reads the database's
//! time. The failure detector uses no such clock, because the database's clock may be set as well.
//! A process with several databases has one clock for each.

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

/// A smaller difference is explained by the latency of the answer, and does not change the clock.
const TOLERANCE: TimeDelta = TimeDelta::milliseconds(100);

/// The shard index of the primary database; other databases have the following indexes.
pub const PRIMARY_SHARD: usize = 0;

/// The clocks, by shard index.
static CLOCKS: RwLock<BTreeMap<usize, Clock>> = RwLock::new(BTreeMap::new());

/// A known time in microseconds since 1970, as the database stores times, and when it was read.
#[derive(Debug, Clone, Copy)]
struct Clock {
    micros: i64,
    at: Instant,
}

impl Clock {
    /// A whole number is added, because the services ask for the time some ten times a step.
    fn at(&self, now: Instant) -> DateTime<Utc> {
        let passed = now.saturating_duration_since(self.at).as_micros();
        let micros = self.micros.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX));
        DateTime::from_timestamp_micros(micros).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }
}

/// The digits of a second that the database stores.
const STORED_DIGITS: u16 = 6;

/// The primary shard's time; before the first connection to its database, the system time.
pub fn now() -> DateTime<Utc> {
    now_at(PRIMARY_SHARD)
}

/// The time of the database with this shard index; before the first connection to it, the system
/// time. In whole microseconds, as the database stores times, so that what is answered from memory is what a later
/// read finds.
pub fn now_at(shard_index: usize) -> DateTime<Utc> {
    let clock = CLOCKS.read().unwrap_or_else(PoisonError::into_inner).get(&shard_index).copied();
    clock.map_or_else(|| Utc::now().trunc_subsecs(STORED_DIGITS), |clock| clock.at(Instant::now()))
}

/// Sets the time of the database with this shard index.
pub fn set(shard_index: usize, time: DateTime<Utc>) {
    let mut clocks = CLOCKS.write().unwrap_or_else(PoisonError::into_inner);
    let clock = follow(clocks.get(&shard_index).copied(), time, Instant::now());
    clocks.insert(shard_index, clock);
}

fn follow(clock: Option<Clock>, time: DateTime<Utc>, at: Instant) -> Clock {
    match clock {
        Some(clock) if (clock.at(at) - time).abs() <= TOLERANCE => clock,
        Some(_) | None => Clock { micros: time.timestamp_micros(), at },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_database_whose_clock_is_wrong_is_so_for_itself_only() {
        let (wrong, other) = (900, 901);
        set(wrong, DateTime::UNIX_EPOCH);
        assert!(now_at(wrong) - DateTime::UNIX_EPOCH < TimeDelta::minutes(5));
        for right in [now(), now_at(other)] {
            assert!((Utc::now() - right).abs() < TimeDelta::minutes(5), "{right}");
        }
    }

    #[test]
    fn it_goes_on_by_itself_keeps_still_for_a_trifle_and_follows_a_step() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let time = |ms: i64| DateTime::UNIX_EPOCH + TimeDelta::milliseconds(ms);
        let clock = follow(None, time(0), begin);
        assert_eq!(clock.at(at(10)), time(10_000));
        let clock = follow(Some(clock), time(10_050), at(10));
        assert_eq!(clock.at(at(10)), time(10_000));
        for step in [3_600_000, -3_600_000] {
            let clock = follow(Some(clock), time(step), at(10));
            assert_eq!(clock.at(at(11)), time(step + 1000));
        }
    }
}
