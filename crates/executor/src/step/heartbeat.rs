//! The heartbeat of this process, independent of its other work.

use super::claim::Claimer;
use super::engine::Engine;
use super::failure_detector::{FailureDetector, TRIES};
use super::lease_validity::MonotonicInstant;
use super::takeover::Found;
use chrono::{DateTime, TimeDelta, Utc};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use surety_common::crash;
use surety_common::store::{self, DedicatedConnection, Pulse, StoreError};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;

/// The longest pause before the process is registered again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The time limit to sign off; other executors remove a row that stays.
const SIGN_OFF: Duration = Duration::from_millis(500);

/// The loop that keeps this process's leases. It has a dedicated connection and waits for no other
/// task, so that busy or hanging connections do not make the process appear dead.
pub struct Heartbeat {
    engine: Arc<Engine>,
    claimer: Arc<Claimer>,
    interval: Duration,
    age_limit: Duration,
    slots: i32,
    dedicated: DedicatedConnection,
    detector: FailureDetector,
}

impl Heartbeat {
    /// A heartbeat every `interval`; a process without one for `age_limit` is declared dead.
    pub fn new(
        engine: Arc<Engine>,
        claimer: Arc<Claimer>,
        interval: Duration,
        age_limit: Duration,
        slots: i32,
    ) -> Self {
        // Over a broken network the heartbeat is retried before the age limit.
        let dedicated = DedicatedConnection::bounded(engine.pool.clone(), age_limit / TRIES);
        let detector = FailureDetector::new(interval, age_limit);
        Self { engine, claimer, interval, age_limit, slots, dedicated, detector }
    }

    /// Registers this process, however long the database is unavailable.
    pub async fn first(&mut self) {
        while let Err(error) = self.run_once(self.engine.now()).await {
            tracing::warn!(%error, "heartbeat: this executor could not be registered; retrying");
            tokio::select! {
                () = self.engine.drain.cancelled() => return,
                () = tokio::time::sleep(self.interval.min(FIRST_PAUSE)) => {}
            }
        }
    }

    /// Sends heartbeats until the engine has drained. A failed one is retried at the next interval.
    /// When too many fail, every run is given up here before others take the leases over, and the
    /// fence refuses late writes.
    pub async fn run(mut self, drained: CancellationToken) {
        let (said, found) = watch::channel(Found::default());
        let (engine, claimer) = (Arc::clone(&self.engine), Arc::clone(&self.claimer));
        let interval = self.interval;
        tokio::select! {
            // All leases are released by then, so a heartbeat in progress may be cancelled.
            () = drained.cancelled() => {}
            () = claimer.tend(found) => {}
            never = self.beat_on(&said) => match never {},
            never = keep_watch(&engine, interval) => match never {},
        }
        let heard_since = earlier(self.engine.now(), self.age_limit);
        let retired = store::retire(&self.engine.pool, self.engine.id, heard_since);
        match timeout(SIGN_OFF, retired).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "heartbeat: this executor could not be signed off")
            }
            Err(_) => tracing::warn!("heartbeat: this executor could not be signed off in time"),
        }
    }

    async fn beat_on(&mut self, said: &watch::Sender<Found>) -> Infallible {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.run_once(self.engine.now()).await {
                Ok(found) => drop(said.send_replace(found)),
                Err(error) => {
                    tracing::warn!(%error, "executor: the heartbeat was not written; the next one follows")
                }
            }
        }
    }

    /// One heartbeat. Returns the work for this process that the rows show.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn run_once(&mut self, now: DateTime<Utc>) -> Result<Found, StoreError> {
        if let Some(found) = self.beat(now).await? {
            return Ok(found);
        }
        let name = std::env::var("HOSTNAME").unwrap_or_default();
        let named = (name.as_str(), self.engine.host_label.as_str());
        store::register(&mut self.dedicated, self.engine.id, named, self.slots, now).await?;
        crash::point("executor.after_register");
        Ok(self.beat(now).await?.unwrap_or_default())
    }

    /// Sends a heartbeat, and cancels the work under lost leases; none when this process is not
    /// registered.
    async fn beat(&mut self, now: DateTime<Utc>) -> Result<Option<Found>, StoreError> {
        if !self.engine.lease_validity.is_valid() {
            self.dedicated.forget();
        }
        let sent_at = MonotonicInstant::now();
        let entered = self.engine.registry.leases();
        let except = self.claimer.left_alone(now);
        let pulse = store::beat(&mut self.dedicated, self.engine.id, now, &except).await?;
        let answered_at = MonotonicInstant::now();
        let Some(Pulse { leases, others, ready }) = pulse else { return Ok(None) };
        self.engine.registry.call_off(&entered, &leases);
        self.engine.check_lease_validity();
        // After a suspend of the machine the new connection has set the clock, and the sent
        // heartbeat named an old time.
        if self.engine.now() < now + self.age_limit / 2 {
            self.engine.lease_validity.renew(sent_at);
        }
        let silent = self.detector.observe([sent_at, answered_at], now, &others);
        Ok(Some(Found { leases, silent, ready }))
    }
}

fn earlier(now: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    now.checked_sub_signed(TimeDelta::from_std(by).unwrap_or(TimeDelta::MAX)).unwrap_or(now)
}

/// Checks the lease validity at each interval, because no timer runs while the machine is
/// suspended.
async fn keep_watch(engine: &Engine, interval: Duration) -> Infallible {
    loop {
        engine.lease_validity.valid().await;
        while let Some(left) = engine.lease_validity.left() {
            tokio::time::sleep(left.min(interval)).await;
        }
        engine.check_lease_validity();
    }
}
