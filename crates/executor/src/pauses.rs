//! The pauses between retries that continue until they succeed.

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use std::time::Duration;

/// The shortest and the longest pause.
const BOUNDS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Pauses that grow from 50 ms to 2 s, with jitter.
pub(crate) struct Pauses(ExponentialBackoff);

impl Pauses {
    /// The pauses, before the first one.
    pub(crate) fn new() -> Self {
        let growing = ExponentialBuilder::default()
            .with_jitter()
            .with_min_delay(BOUNDS.0)
            .with_max_delay(BOUNDS.1)
            .without_max_times();
        Self(growing.build())
    }

    /// The next pause; there is no last one.
    pub(crate) fn next(&mut self) -> Duration {
        self.0.next().unwrap_or(BOUNDS.1)
    }
}
