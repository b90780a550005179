//! A model of the service as a participant of runs: the loop that leases what it supplies.
//!
//! ```text
//!   lease --> ask while the lease is held --a reply-----> submit
//!     ^               |                   --no answer--> the run waits on `model`, offered again later
//!     |               +--lease lost------> the connection is closed with the call
//!     +--drained------+--out of time-----> the lease is given back: another process takes it
//! ```

use crate::ask::Away;
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::decision::Usage;
use surety_common::domain::fault::Fault;
use surety_common::domain::model::AwayEndpoint;
use surety_common::telemetry;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a loop waits for a lease before it looks whether it is to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause after an error of the database.
const AFTER_ERROR: Duration = Duration::from_millis(500);
/// The shortest and the longest time until an endpoint that does not answer is asked again for one wait.
const SHORTEST_PAUSE: TimeDelta = TimeDelta::milliseconds(500);
const LONGEST_PAUSE: TimeDelta = TimeDelta::seconds(30);

/// The code of a request that the breaker kept back.
const CIRCUIT_OPEN: &str = "model_circuit_open";

/// What differs between the loops: what they lease, and how they work on it.
pub trait Supplier: Send + Sync + 'static {
    /// What is leased.
    type Leased: Send + 'static;

    /// Leases the next wait; none when that takes longer than `patience`.
    ///
    /// # Errors
    /// `database_unavailable`.
    fn lease(
        &self,
        patience: Duration,
    ) -> impl Future<Output = Result<Option<Self::Leased>, Fault>> + Send;

    /// Works on a wait until its lease is over.
    fn work(&self, leased: Self::Leased, drain: &Draining) -> impl Future<Output = ()> + Send;
}

/// The end of a process: no wait is leased any more, and calls under way go on for a while.
#[derive(Debug, Clone)]
pub struct Draining {
    /// Cancelled when the process begins to drain.
    pub begun: CancellationToken,
    /// For how long calls under way go on after that.
    pub grace: Duration,
}

/// What became of a call under a lease.
#[derive(Debug)]
pub enum Held<T> {
    /// It ended.
    Done(T),
    /// The lease was lost before.
    Lost,
    /// The process ends before: the lease is to be given back.
    OutOfTime,
}

impl Draining {
    /// Whether the process drains.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Makes a call while its lease is held. A call that is given up is dropped, which closes its connection.
    pub async fn while_held<T>(
        &self,
        call: impl Future<Output = T>,
        lost: impl Future<Output = ()>,
    ) -> Held<T> {
        tokio::select! {
            done = call => Held::Done(done),
            () = lost => Held::Lost,
            () = self.ended_for(self.grace) => Held::OutOfTime,
        }
    }

    /// Completes when the process has drained for so long.
    async fn ended_for(&self, time: Duration) {
        self.begun.cancelled().await;
        sleep(time).await;
    }
}

/// Leases waits and works on at most `turns` of them at a time, until the process drains; then waits for the calls
/// under way.
pub async fn serve<S: Supplier>(supplier: S, turns: usize, drain: Draining) {
    let supplier = Arc::new(supplier);
    let places = Arc::new(Semaphore::new(turns));
    let tasks = TaskTracker::new();
    while !drain.is_begun() {
        let place = tokio::select! {
            () = drain.begun.cancelled() => break,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        // The semaphore is never closed.
        let Ok(place) = place else { break };
        let leased = tokio::select! {
            leased = supplier.lease(PATIENCE) => leased,
            // The offers have ended by then.
            () = drain.ended_for(AFTER_ERROR) => break,
        };
        match leased {
            Ok(Some(leased)) => {
                let (supplier, drain) = (Arc::clone(&supplier), drain.clone());
                tasks.spawn(async move {
                    supplier.work(leased, &drain).await;
                    drop(place);
                });
            }
            Ok(None) => {}
            Err(fault) => {
                tracing::warn!(%fault, "model: no wait could be leased; retrying");
                sleep(AFTER_ERROR).await;
            }
        }
    }
    tasks.close();
    tasks.wait().await;
}

/// The wait of a run for an endpoint that does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// What the run waits for.
    pub away: AwayEndpoint,
    /// Whether it says something else than the wait before.
    pub is_news: bool,
    /// What the run is charged with: what tries used that broke off.
    pub used: Usage,
}

/// The wait of a run for an endpoint that does not answer at `now`, `before` where it waits already. The longer that
/// takes, the less often it is asked, and not before the endpoint allows it.
#[must_use]
pub fn waits_for(
    away: Away,
    before: Option<&AwayEndpoint>,
    model_wait: Duration,
    now: DateTime<Utc>,
) -> Waiting {
    let is_news = before.is_none_or(|before| says_else(&away, before));
    let Away { profile, code, why, retry_after, used, .. } = away;
    if before.is_none() {
        telemetry::count_model_wait(&profile, code);
    }
    let since = before.map_or(now, |away| away.since);
    let model_wait = TimeDelta::from_std(model_wait).unwrap_or(TimeDelta::MAX);
    let until = since.checked_add_signed(model_wait).unwrap_or(now);
    let asked = retry_after.and_then(|after| TimeDelta::from_std(after).ok());
    let asked = asked.and_then(|after| now.checked_add_signed(after));
    let retry_at = retry_at(since, now).max(asked.unwrap_or(now));
    Waiting { away: AwayEndpoint { endpoint: profile, why, since, until, retry_at }, is_news, used }
}

/// Whether a failure is another one than that of the wait before. The breaker only repeats what it was opened by, and
/// the words of an endpoint that is down may differ each time.
fn says_else(away: &Away, before: &AwayEndpoint) -> bool {
    let code = before.why.split(':').next().unwrap_or_default();
    away.code != CIRCUIT_OPEN
        && (away.code != code || away.is_correctable && away.why != before.why)
}

/// When an endpoint that has not answered since a time is asked again.
#[must_use]
pub fn retry_at(since: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
    now + ((now - since) / 4).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_asked_less_often_the_longer_it_does_not_answer() {
        let since = DateTime::UNIX_EPOCH;
        for (away_s, pause_ms) in [(0, 500), (4, 1000), (60, 15_000), (3600, 30_000)] {
            let now = since + TimeDelta::seconds(away_s);
            let pause = retry_at(since, now) - now;
            assert_eq!(pause, TimeDelta::milliseconds(pause_ms), "after {away_s} s");
        }
    }

    #[test]
    fn an_endpoint_is_not_asked_before_the_time_that_it_names() {
        let now = DateTime::UNIX_EPOCH;
        for (asked_s, pause_ms) in [(900, 900_000), (0, 500)] {
            let away = Away {
                profile: "fast".to_owned(),
                code: "model_rate_limited",
                why: String::new(),
                retry_after: Some(Duration::from_secs(asked_s)),
                is_correctable: false,
                used: Usage::default(),
            };
            let waits = waits_for(away, None, Duration::from_secs(3600), now);
            assert_eq!(waits.away.retry_at - now, TimeDelta::milliseconds(pause_ms));
        }
    }

    #[test]
    fn a_wait_says_what_an_operator_has_to_correct_once_that_is_known() {
        let (now, hour) = (DateTime::UNIX_EPOCH, Duration::from_secs(3600));
        let away = |code: &'static str, words: &str, is_correctable| Away {
            profile: "fast".to_owned(),
            code,
            why: format!("{code}: {words}"),
            retry_after: None,
            is_correctable,
            used: Usage::default(),
        };
        let first = waits_for(away("model_unreachable", "refused", false), None, hour, now).away;
        let later = now + TimeDelta::seconds(9);
        for (next, is_news) in [
            (away("model_unreachable", "reset", false), false),
            (away(CIRCUIT_OPEN, "it failed", false), false),
            (away("model_unknown", "it has a", true), true),
        ] {
            let waiting = waits_for(next.clone(), Some(&first), hour, later);
            assert_eq!(waiting.is_news, is_news, "{next:?}");
            assert_eq!((waiting.away.since, waiting.away.until), (first.since, first.until));
        }
        let unknown = waits_for(away("model_unknown", "it has a", true), None, hour, now).away;
        let is_news = |words: &str| {
            waits_for(away("model_unknown", words, true), Some(&unknown), hour, later).is_news
        };
        assert!(is_news("it has b") && !is_news("it has a"));
    }
}
