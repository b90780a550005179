//! Tells addresses that the operator lists what happens: a person is waited for, a run ended.
//!
//! ```text
//!   store::note_events --> due deliveries --message--> signed text --send--> the address
//!                              ^                                               |
//!                              +------------- later, after a failure ----------+
//! ```
//!
//! Every planner of a database does this; a delivery that one takes is left alone by the others for a while. An
//! event is delivered at least once, under the same id each time.

mod message;
mod send;

use crate::planner::Planner;
use chrono::TimeDelta;
use futures::StreamExt;
use send::Address;
use std::sync::Arc;
use std::time::Duration;
use surety_common::config::Webhook;
use surety_common::domain::fault::Fault;
use surety_common::store::{
    self, Delivery, WantedEvents, end_delivery, forget_deliveries, note_events, take_deliveries,
};
use surety_common::wire::client::Transport;
use uuid::Uuid;

pub use send::WebhookError;

/// How often events are looked for, by two statements: with the scans, a planner at rest stays below two a second.
const INTERVAL: Duration = Duration::from_secs(3);
/// How long a planner that took a delivery has for it: longer than an address may take to answer.
const TAKEN_FOR: TimeDelta = TimeDelta::seconds(60);
/// The deliveries of one round, and those that are sent at the same time.
const AT_ONCE: i64 = 64;
const IN_PARALLEL: usize = 8;
/// The first pause after a failure, which doubles, and the longest.
const FIRST_PAUSE_S: i64 = 2;
const LONGEST_PAUSE_S: i64 = 3600;
/// The doublings after which the pause is the longest.
const DOUBLINGS: u32 = 11;
/// An event that cannot be delivered for so long is given up.
const GIVEN_UP_AFTER: TimeDelta = TimeDelta::hours(24);
/// Deliveries that ended are deleted after this many rounds: every ten minutes.
const ROUNDS_PER_CLEANING: u32 = 200;

/// The webhooks of a process.
#[derive(Clone)]
pub(crate) struct Webhooks {
    addresses: Arc<[Address]>,
    wanted: Arc<[WantedEvents]>,
    names: Arc<[String]>,
}

impl Webhooks {
    /// Prepares the webhooks of the configuration.
    ///
    /// # Errors
    /// An address is invalid or would be told without TLS on another host, or TLS cannot be used.
    pub(crate) fn new(webhooks: &[Webhook], transport: &Transport) -> Result<Self, WebhookError> {
        let addresses: Result<Vec<Address>, WebhookError> =
            webhooks.iter().map(|webhook| Address::of(webhook, transport)).collect();
        let wanted = webhooks.iter().map(|webhook| WantedEvents {
            name: webhook.name.clone(),
            namespaces: webhook.namespaces.clone(),
            waits: webhook.waits,
            runs: webhook.runs,
        });
        Ok(Self {
            addresses: addresses?.into(),
            wanted: wanted.collect(),
            names: webhooks.iter().map(|webhook| webhook.name.clone()).collect(),
        })
    }

    /// Delivers events of a database until the process shuts down. Without webhooks it ends at once.
    pub(crate) async fn run(self, planner: Arc<Planner>) {
        if self.names.is_empty() {
            return;
        }
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut after, mut rounds) = (Uuid::nil(), 0_u32);
        loop {
            ticks.tick().await;
            match self.round(&planner, after).await {
                Ok(last) => after = last.unwrap_or_default(),
                Err(error) => {
                    let database = &planner.whose;
                    tracing::warn!(%error, database, "webhook: events could not be read; retrying");
                }
            }
            rounds = rounds.wrapping_add(1);
            if rounds % ROUNDS_PER_CLEANING == 0
                && let Err(error) = forget_deliveries(&planner.pool, planner.now()).await
            {
                tracing::warn!(%error, "webhook: old deliveries were not deleted; retrying in 10 minutes");
            }
        }
    }

    /// Notes what happened, and delivers what is due.
    async fn round(&self, planner: &Planner, after: Uuid) -> Result<Option<Uuid>, Fault> {
        let last = note_events(&planner.pool, &self.wanted, planner.now(), after).await?;
        loop {
            let now = planner.now();
            let taken = (now, now + TAKEN_FOR);
            let due = take_deliveries(&planner.pool, &self.names, taken, AT_ONCE).await?;
            if due.is_empty() {
                return Ok(last);
            }
            let delivering = due.into_iter().map(|delivery| self.deliver(planner, delivery));
            let ended: Vec<Result<(), Fault>> =
                futures::stream::iter(delivering).buffer_unordered(IN_PARALLEL).collect().await;
            ended.into_iter().collect::<Result<(), Fault>>()?;
        }
    }

    async fn deliver(&self, planner: &Planner, delivery: Delivery) -> Result<(), Fault> {
        let address = self.addresses.iter().find(|address| address.name == delivery.webhook);
        let run = store::find_run(&planner.pool, delivery.run_id).await?;
        let text = run.as_ref().and_then(|run| message::of(&delivery, run));
        // The wait was answered meanwhile, or the run is deleted.
        let (Some(address), Some(text)) = (address, text) else {
            return Ok(end_delivery(&planner.pool, &delivery, None).await?);
        };
        let now = planner.now();
        let again_at = match address.send(delivery.subject, now, text).await {
            Ok(()) => None,
            Err(why) if now - delivery.noted_at > GIVEN_UP_AFTER => {
                tracing::error!(webhook = address.name, event = delivery.event, run_id = %delivery.run_id, why, "webhook: an event was not delivered for 24 hours and is given up; read it with ListWaits or GetRun");
                None
            }
            Err(why) => {
                tracing::warn!(webhook = address.name, event = delivery.event, run_id = %delivery.run_id, why, attempts = delivery.attempts, "webhook: an event was not delivered; it is sent again later");
                Some(now + pause(delivery.attempts))
            }
        };
        Ok(end_delivery(&planner.pool, &delivery, again_at).await?)
    }
}

/// The pause after this many attempts: 2 s, doubled each time, at most an hour.
fn pause(attempts: i32) -> TimeDelta {
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or_default().min(DOUBLINGS);
    TimeDelta::seconds((FIRST_PAUSE_S << doublings).min(LONGEST_PAUSE_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_an_hour() {
        let of = |attempts| pause(attempts).num_seconds();
        assert_eq!([1, 2, 3, 11, 12, i32::MAX].map(of), [2, 4, 8, 2048, 3600, 3600]);
        assert_eq!(of(i32::MIN), 2);
    }
}
