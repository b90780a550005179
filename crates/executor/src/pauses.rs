//! How long is waited between two tries of what is tried for as long as it takes.

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use std::time::Duration;

/// The shortest and the longest.
const BOUNDS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Pauses that grow from 50 ms to 2 s, each by chance a little longer.
pub(crate) struct Pauses(ExponentialBackoff);

impl Pauses {
    /// Before the first.
    pub(crate) fn new() -> Self {
        let growing = ExponentialBuilder::default()
            .with_jitter()
            .with_min_delay(BOUNDS.0)
            .with_max_delay(BOUNDS.1)
            .without_max_times();
        Self(growing.build())
    }

    /// The next one; there is always one more.
    pub(crate) fn next(&mut self) -> Duration {
        self.0.next().unwrap_or(BOUNDS.1)
    }
}
