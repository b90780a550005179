//! Tells addresses that the operator lists what happens: a person or a plan is waited for, a run ended.
//!
//! ```text
//!   store::note_events --> due deliveries --message--> signed text --send--> the address
//!                              ^                                               |
//!                              +------------- later, after a failure ----------+
//! ```
//!
//! Each address has a task of its own while something is due for it, so that one that does not answer delays no other.
//! Every planner of a database does this; a delivery that one takes is left alone by the others for a while. An
//! event is delivered at least once, under the same id each time.

mod message;
mod send;

use crate::planner::Planner;
use chrono::TimeDelta;
use futures::future::join_all;
use send::Address;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use surety_common::config::Webhook;
use surety_common::domain::fault::Fault;
use surety_common::store::{
    self, Delivery, StoreError, WantedEvents, due_webhooks, end_delivery, forget_deliveries,
    note_events, take_deliveries,
};
use surety_common::wire::client::Transport;
use tokio::task::{AbortHandle, JoinSet};
use uuid::Uuid;

pub use send::WebhookError;

/// How often events are looked for, by two statements: with the scans, a planner at rest stays below two a second.
const INTERVAL: Duration = Duration::from_secs(3);
/// How long a planner that took a delivery has for it: longer than an address may take to answer.
const TAKEN_FOR: TimeDelta = TimeDelta::seconds(60);
/// The deliveries that an address is sent at the same time.
const IN_PARALLEL: i64 = 8;
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
        let mut sending = Sending::default();
        loop {
            ticks.tick().await;
            match self.round(&planner, after, &mut sending).await {
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

    /// Notes what happened, and starts to deliver what is due to addresses that are not at work.
    async fn round(
        &self,
        planner: &Arc<Planner>,
        after: Uuid,
        sending: &mut Sending,
    ) -> Result<Option<Uuid>, Fault> {
        let last = note_events(&planner.pool, &self.wanted, planner.now(), after).await?;
        for name in due_webhooks(&planner.pool, &self.names, planner.now()).await? {
            let (webhooks, planner) = (self.clone(), Arc::clone(planner));
            sending.start(name, |name| async move {
                if let Err(error) = webhooks.deliver_due(&planner, &name).await {
                    let database = &planner.whose;
                    tracing::warn!(%error, database, webhook = name, "webhook: deliveries were interrupted; retrying");
                }
            });
        }
        Ok(last)
    }

    /// Delivers what is due to an address. One that takes nothing of a batch is asked again in a later round.
    async fn deliver_due(&self, planner: &Planner, name: &str) -> Result<(), Fault> {
        loop {
            let now = planner.now();
            let taken = (now, now + TAKEN_FOR);
            let due = take_deliveries(&planner.pool, name, taken, IN_PARALLEL).await?;
            let delivering = due.into_iter().map(|delivery| self.deliver(planner, delivery));
            let ended: Result<Vec<bool>, Fault> = join_all(delivering).await.into_iter().collect();
            if !ended?.contains(&true) {
                return Ok(());
            }
        }
    }

    /// Whether a delivery ended.
    async fn deliver(&self, planner: &Planner, delivery: Delivery) -> Result<bool, Fault> {
        let address = self.addresses.iter().find(|address| address.name == delivery.webhook);
        let run = match store::find_run(&planner.pool, delivery.run_id).await {
            Err(error @ StoreError::Corrupt { .. }) => {
                tracing::error!(%error, webhook = delivery.webhook, event = delivery.event, run_id = %delivery.run_id, "webhook: the run of an event does not read, and the event is given up; restore its rows from a backup");
                None
            }
            found => found?,
        };
        let text = run.as_ref().and_then(|run| message::of(&delivery, run));
        // The wait was answered meanwhile, or the run is deleted or does not read.
        let (Some(address), Some(text)) = (address, text) else {
            end_delivery(&planner.pool, &delivery, None).await?;
            return Ok(true);
        };
        let sent = address.send(delivery.subject, planner.now(), text).await;
        // Sending may have taken longer than the first pauses.
        let now = planner.now();
        let again_at = match sent {
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
        end_delivery(&planner.pool, &delivery, again_at).await?;
        Ok(again_at.is_none())
    }
}

/// The tasks that deliver, at most one for each address. They end with this value.
#[derive(Default)]
struct Sending {
    tasks: JoinSet<()>,
    at_work: HashMap<String, AbortHandle>,
}

impl Sending {
    /// Starts to deliver to an address, unless a task is at work for it.
    fn start<F>(&mut self, name: String, deliver: impl FnOnce(String) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while let Some(ended) = self.tasks.try_join_next() {
            if let Err(error) = ended {
                tracing::error!(%error, "webhook: a task that delivers ended early; its deliveries are taken again");
            }
        }
        if self.at_work.get(&name).is_some_and(|task| !task.is_finished()) {
            return;
        }
        let task = self.tasks.spawn(deliver(name.clone()));
        self.at_work.insert(name, task);
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
