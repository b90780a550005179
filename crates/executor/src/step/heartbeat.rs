//! Saying that this process is alive, and taking over from those that are not.

use super::Engine;
use super::claim::Claimer;
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::Arc;
use std::time::Duration;
use surety_common::crash;
use surety_common::store::{self, StoreError};
use tokio::time::{Interval, timeout};

/// The longest pause before this process is made known again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// How long signing off may take; a row that stays is removed by others.
const SIGN_OFF: Duration = Duration::from_millis(500);

/// The loop that keeps this process's leases.
pub struct Heartbeat {
    engine: Arc<Engine>,
    claimer: Arc<Claimer>,
    interval: Duration,
    age_limit: TimeDelta,
    slots: i32,
}

impl Heartbeat {
    /// A heartbeat every `interval`; a process silent for `age_limit` is taken for dead.
    pub fn new(
        engine: Arc<Engine>,
        claimer: Arc<Claimer>,
        interval: Duration,
        age_limit: TimeDelta,
        slots: i32,
    ) -> Self {
        Self { engine, claimer, interval, age_limit, slots }
    }

    /// Makes this process known, however long the database is away.
    pub async fn first(&self) {
        while let Err(error) = self.run_once(self.engine.now()).await {
            tracing::warn!(%error, "this executor could not be made known yet");
            tokio::select! {
                () = self.engine.drain.cancelled() => return,
                () = tokio::time::sleep(self.interval.min(FIRST_PAUSE)) => {}
            }
        }
    }

    /// Beats until the engine has drained. A beat that fails is tried again at the next interval:
    /// when too many fail, others take the leases over and the fence keeps late writes out.
    pub async fn run(&self, drained: tokio_util::sync::CancellationToken) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = drained.cancelled() => break,
                // All is handed back by then, so a beat under way may be let go.
                () = self.tick(&mut ticks) => {}
            }
        }
        let heard_since = self.engine.now() - self.age_limit;
        let retired = store::retire(&self.engine.pool, self.engine.id, heard_since);
        match timeout(SIGN_OFF, retired).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "this executor could not be signed off"),
            Err(_) => tracing::warn!("this executor could not be signed off in time"),
        }
    }

    async fn tick(&self, ticks: &mut Interval) {
        ticks.tick().await;
        if let Err(error) = self.run_once(self.engine.now()).await {
            tracing::warn!(%error, "the heartbeat was not written");
        }
    }

    /// One beat, and one look for runs whose executor died.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn run_once(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let name = std::env::var("HOSTNAME").unwrap_or_default();
        let orphans = match self.claimer.beat_once(now).await? {
            Some(orphans) => orphans,
            None => {
                let (pool, id) = (&self.engine.pool, self.engine.id);
                store::register(pool, id, &name, self.slots, now).await?;
                crash::point("executor.after_register");
                self.claimer.beat_once(now).await?.unwrap_or_default()
            }
        };
        if orphans {
            self.claimer.take_over_once(now).await?;
        }
        Ok(())
    }
}
