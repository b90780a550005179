//! The circuit breaker of an endpoint.
//!
//! ```text
//!   closed --threshold failures in a row--> open --time is over--> trial --success--> closed
//!                                            ^------- failure -------'
//! ```

use std::time::{Duration, Instant};

/// Lets requests through, or not.
#[derive(Debug, Clone)]
pub(crate) struct Breaker {
    threshold: u32,
    open_for: Duration,
    failures: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Instant },
    Trial,
}

impl Breaker {
    pub(crate) const fn new(threshold: u32, open_for: Duration) -> Self {
        Self { threshold, open_for, failures: 0, state: State::Closed }
    }

    /// Whether a request may be sent; otherwise the time until then. After the open time one request is let
    /// through, and the others wait for what becomes of it.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        match self.state {
            State::Closed => Ok(()),
            State::Open { until } if until <= now => {
                self.state = State::Trial;
                Ok(())
            }
            State::Open { until } => Err(until.saturating_duration_since(now)),
            State::Trial => Err(self.open_for),
        }
    }

    pub(crate) const fn succeeded(&mut self) {
        self.failures = 0;
        self.state = State::Closed;
    }

    /// The reply to the trial begins to arrive: other requests are let through, and the next failure keeps them back.
    pub(crate) const fn began(&mut self) {
        if matches!(self.state, State::Trial) {
            self.failures = self.threshold.saturating_sub(1);
            self.state = State::Closed;
        }
    }

    pub(crate) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= self.threshold || self.state == State::Trial {
            self.state = State::Open { until: now + self.open_for };
        }
    }

    /// The request ended without a word about the endpoint, such as by its caller.
    pub(crate) fn abandoned(&mut self, now: Instant) {
        if self.state == State::Trial {
            self.state = State::Open { until: now };
        }
    }

    /// Failures in a row.
    pub(crate) const fn failures(&self) -> u32 {
        self.failures
    }

    /// For how long no request is sent; none while they are.
    pub(crate) fn open_for(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Closed => None,
            State::Open { until } => Some(until.saturating_duration_since(now)),
            State::Trial => Some(Duration::ZERO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_request_try() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let mut breaker = Breaker::new(3, 10 * second);
        breaker.failed(start);
        breaker.failed(start);
        breaker.succeeded();
        for _ in 0..2 {
            breaker.failed(start);
            assert_eq!(breaker.admit(start), Ok(()));
        }
        breaker.failed(start);
        assert_eq!(breaker.admit(start + second), Err(9 * second));
        let later = start + 10 * second;
        assert_eq!(breaker.admit(later), Ok(()));
        assert!(breaker.admit(later).is_err(), "a second request during the trial");
        breaker.failed(later);
        assert_eq!(breaker.admit(later + second), Err(9 * second));
        let again = later + 10 * second;
        assert_eq!(breaker.admit(again), Ok(()));
        breaker.abandoned(again);
        assert_eq!(breaker.admit(again), Ok(()), "a trial without a result is made again");
        breaker.began();
        assert_eq!(breaker.admit(again), Ok(()), "the reply to the trial has begun");
        breaker.failed(again);
        assert!(breaker.admit(again).is_err(), "the trial's reply broke");
        breaker.succeeded();
        assert_eq!((breaker.admit(again), breaker.failures()), (Ok(()), 0));
    }
}
