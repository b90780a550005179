//! When a request is sent again.

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use chrono::{DateTime, Utc};
use std::time::Duration;

/// The longest pause that this side chooses. An endpoint may ask for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// An endpoint is asked again after this time, however much longer it asks for: it may be back, or a quota was raised.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(15);

/// The time of a `Retry-After`: seconds, or an HTTP date.
pub(crate) fn retry_after(value: &str, now: DateTime<Utc>) -> Option<Duration> {
    let value = value.trim();
    let seconds = value.parse::<u64>().ok().map(Duration::from_secs);
    let fraction = || {
        let seconds = value.parse::<f64>().ok().filter(|it| it.is_finite() && *it >= 0.0)?;
        Duration::try_from_secs_f64(seconds).ok()
    };
    let date = || {
        let at = DateTime::parse_from_rfc2822(value).ok()?;
        Some((at.with_timezone(&Utc) - now).to_std().unwrap_or_default())
    };
    let wait = seconds.or_else(fraction).or_else(date)?;
    Some(wait.min(LONGEST_RETRY_AFTER))
}

/// Pauses that double, each with a random part, so that many requests do not come back at once.
pub(crate) fn pauses(first: Duration) -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(first)
        .with_max_delay(LONGEST_PAUSE)
        .with_jitter()
        .without_max_times()
        .build()
}

/// The pause before the next try: what the endpoint asked for and a random part of the own pause, or that pause.
pub(crate) fn pause(own: Duration, asked: Option<Duration>, first: Duration) -> Duration {
    match asked {
        Some(asked) => asked + own.saturating_sub(first).min(first),
        None => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = DateTime::parse_from_rfc3339("2026-11-24T06:00:00Z").expect("a time");
        let now = now.with_timezone(&Utc);
        for (value, seconds) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("Tue, 24 Nov 2026 06:00:30 GMT", Some(30)),
            ("Tue, 24 Nov 2026 05:00:00 GMT", Some(0)),
            ("999999999999", Some(900)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after(value, now), seconds.map(Duration::from_secs), "{value:?}");
        }
        assert_eq!(retry_after("0.5", now), Some(Duration::from_millis(500)));
    }

    #[test]
    fn pauses_double_with_jitter_and_honour_what_was_asked() {
        let first = Duration::from_millis(100);
        let own: Vec<Duration> = pauses(first).take(12).collect();
        for (place, pause) in own.iter().enumerate() {
            let least = first.saturating_mul(1 << place).min(LONGEST_PAUSE);
            assert!((least..=2 * least + first).contains(pause), "{place}: {pause:?}");
        }
        let asked = Duration::from_secs(5);
        let pause = pause(Duration::from_secs(9), Some(asked), first);
        assert!((asked..=asked + first).contains(&pause), "{pause:?}");
    }
}
