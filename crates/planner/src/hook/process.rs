//! Processes stored deliveries: each becomes tasks, or is marked with the reason why it does not.
//!
//! ```text
//!   take --> read --> admit (tasks of several in one transaction) --> end
//!              |        \-- database away: taken again; another failure: again later, then failed
//!              \-- ignored, refused, repeated
//! ```
//!
//! A planner that dies after `take` leaves the delivery to the next one, and tasks are admitted once per delivery
//! and place: nothing is lost and nothing is made twice.

use super::known::Hooks;
use crate::planner::Planner;
use crate::task::{self, Admitted, AdmittedState, AdmittedTask, Arrived};
use chrono::{DateTime, TimeDelta, Utc};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use surety_common::crash;
use surety_common::domain::fault::{Fault, FaultCode, Reason};
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::toolchain::{
    BodyKind, CHAIN_BOUND, Delivery, DeliveryState, Forge, Reading, Rules, Withdrawal,
};
use surety_common::store::{
    DeliveryEnd, TakenDelivery, delivery_backlog, end_forge_deliveries, forget_forge_deliveries,
    take_forge_deliveries,
};
use surety_common::telemetry::{count_processed, set_delivery_backlog};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often deliveries of other planners, and those that are due again, are looked for.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long a planner that took a delivery has for it.
const TAKEN_FOR: TimeDelta = TimeDelta::seconds(60);
/// The deliveries that are taken at once, and the most that a planner has taken and not ended. A forge has 10 seconds to say
/// what a delivery does not, so they end before another planner may take them.
const AT_ONCE: usize = 128;
const MOST_HELD: usize = 384;
/// Those whose tasks one transaction stores, at most, and the transactions at the same time: each takes a connection of
/// the pool.
const IN_ONE_TRANSACTION: usize = 32;
const TRANSACTIONS: usize = 4;
/// The attempts after which a delivery has failed, and the first pause between two, which doubles.
const MAX_ATTEMPTS: i32 = 10;
const FIRST_PAUSE_S: i64 = 1;
/// Bodies from this size on are read on a thread for blocking work.
const LARGE: usize = 64 * 1024;
/// Old deliveries are deleted after this many rounds without work: about every ten minutes.
const ROUNDS_PER_CLEANING: u32 = 120;

/// The loop that processes deliveries.
pub(super) struct Processing {
    /// The hooks of the process.
    pub(super) hooks: Arc<Hooks>,
}

impl Processing {
    /// Processes until the process shuts down.
    pub(super) async fn run(self, shutdown: CancellationToken) {
        let mut rounds = 0_u32;
        loop {
            tokio::select! {
                () = self.hooks.arrived.notified() => {}
                () = tokio::time::sleep(INTERVAL) => {}
                () = shutdown.cancelled() => return,
            }
            let draining = async {
                let planner = self.hooks.planner().await?;
                drain(&planner, &self.hooks.arrived, &shutdown).await
            };
            if let Err(error) = draining.await {
                tracing::warn!(%error, "hook: deliveries could not be processed; retrying");
                // Deliveries that arrive meanwhile must not make it try without a pause.
                tokio::time::sleep(INTERVAL).await;
            }
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(ROUNDS_PER_CLEANING)
                && let Err(error) = self.forget().await
            {
                tracing::warn!(%error, "hook: old deliveries were not deleted; retrying later");
            }
        }
    }

    /// Deletes deliveries that are older than the configured days.
    async fn forget(&self) -> Result<(), Fault> {
        let planner = self.hooks.planner().await?;
        let before = planner.now() - TimeDelta::days(self.hooks.retention_days.into());
        while forget_forge_deliveries(&planner.pool, before).await? > 0 {}
        Ok(())
    }
}

/// Processes what is due, until nothing is. A delivery that waits for a forge holds no other back: more are taken meanwhile,
/// and each ends with its transaction.
///
/// # Errors
/// `database_unavailable`.
pub(super) async fn drain(
    planner: &Planner,
    arrived: &Notify,
    shutdown: &CancellationToken,
) -> Result<(), Fault> {
    let read = |delivery| read_one(planner, delivery);
    let end = |read| end_all(planner, read);
    let mut taking: FuturesUnordered<_> = [take(planner)].into_iter().collect();
    let mut reading: FuturesUnordered<_> = None.into_iter().map(read).collect();
    let mut ending: FuturesUnordered<_> = None.into_iter().map(end).collect();
    let (mut may_be_more, mut is_idle) = (false, true);
    // What is under way ends all the same.
    let mut failed: Option<Fault> = None;
    loop {
        let held = reading.len() + ending.len() * IN_ONE_TRANSACTION;
        let has_room = taking.is_empty() && held + AT_ONCE <= MOST_HELD;
        if may_be_more && has_room && failed.is_none() && !shutdown.is_cancelled() {
            may_be_more = false;
            taking.push(take(planner));
        }
        let is_at_work = !(taking.is_empty() && reading.is_empty() && ending.is_empty());
        tokio::select! {
            Some(taken) = taking.next() => {
                match taken {
                    Ok(taken) if taken.is_empty() => {}
                    Ok(taken) => {
                        (may_be_more, is_idle) = (true, false);
                        crash::point("planner.after_take_delivery");
                        reading.extend(taken.into_iter().map(read));
                    }
                    Err(fault) => {
                        failed.get_or_insert(fault);
                    }
                }
            }
            Some(first) = reading.next(), if ending.len() < TRANSACTIONS => {
                let mut together = vec![first];
                while together.len() < IN_ONE_TRANSACTION
                    && let Some(Some(next)) = reading.next().now_or_never()
                {
                    together.push(next);
                }
                ending.push(end(together));
            }
            Some(ended) = ending.next() => if let Err(fault) = ended {
                failed.get_or_insert(fault);
            },
            () = arrived.notified(), if is_at_work => may_be_more = true,
            () = tokio::time::sleep(INTERVAL), if is_at_work => may_be_more = true,
            else => break,
        }
    }
    if let Some(fault) = failed {
        return Err(fault);
    }
    // At rest it sends one statement.
    if !is_idle {
        set_delivery_backlog(delivery_backlog(&planner.pool).await?);
    }
    Ok(())
}

async fn take(planner: &Planner) -> Result<Vec<TakenDelivery>, Fault> {
    let now = planner.now();
    let at_once = i64::try_from(AT_ONCE).unwrap_or(i64::MAX);
    Ok(take_forge_deliveries(&planner.pool, (now, now + TAKEN_FOR), at_once).await?)
}

async fn end_all(planner: &Planner, read: Vec<Read>) -> Result<(), Fault> {
    let ended = admit(planner, read).await;
    end_forge_deliveries(&planner.pool, &ended, planner.now()).await?;
    for DeliveryEnd { forge, state, reason, .. } in &ended {
        count_processed(forge.as_str(), state.as_str(), reason);
    }
    Ok(())
}

/// A delivery of a forge, of an attempt.
#[derive(Debug, Clone, Copy)]
struct Taken {
    id: Uuid,
    forge: Forge,
    attempts: i32,
}

/// A delivery that is read.
enum Read {
    /// It makes no tasks.
    Ended(DeliveryEnd),
    /// It does.
    Arrived(Taken, Arrived),
    /// It ends tasks.
    Withdrawn(Taken, Withdrawal),
}

fn end_of(
    Taken { id, forge, attempts }: Taken,
    state: DeliveryState,
    reason: &str,
    problem: String,
) -> DeliveryEnd {
    let reason = reason.to_owned();
    DeliveryEnd { id, forge, attempts, state, reason, problem, tasks: Vec::new(), again_at: None }
}

async fn read_one(planner: &Planner, delivery: TakenDelivery) -> Read {
    let taken = Taken { id: delivery.id, forge: delivery.forge, attempts: delivery.attempts };
    let ended = |state: DeliveryState, reason: &str, problem: String| {
        Read::Ended(end_of(taken, state, reason, problem))
    };
    if let Some(first) = delivery.repeats.filter(|_| delivery.replays == 0) {
        let problem = format!("has the content of the delivery {first}");
        return ended(DeliveryState::Repeated, "same_content", problem);
    }
    let rules = task::reading(planner, delivery.forge, &delivery.body).await;
    match read_anywhere(delivery, rules).await {
        Ok(Reading::Ignored(reason)) => {
            ended(DeliveryState::Ignored, reason.as_str(), String::new())
        }
        Err(problem) => {
            let code = problem.code.as_str();
            ended(DeliveryState::Refused, code, described(problem))
        }
        Ok(Reading::Withdrawn(withdrawal)) => Read::Withdrawn(taken, withdrawal),
        Ok(Reading::Tasks(events)) => {
            let arrived = Arrived::new(planner, taken.id.to_string(), events).await;
            Read::Arrived(taken, arrived)
        }
    }
}

/// The one place where deliveries become tasks, and end them.
async fn admit(planner: &Planner, read: Vec<Read>) -> Vec<DeliveryEnd> {
    let (mut ended, mut places, mut arrived) = (Vec::new(), Vec::new(), Vec::new());
    for read in read {
        match read {
            Read::Ended(end) => ended.push(end),
            Read::Arrived(taken, one) => {
                places.push(taken);
                arrived.push(one);
            }
            Read::Withdrawn(taken, withdrawal) => {
                let reason = withdrawal.reason.as_str();
                ended.push(match task::withdraw(planner, &withdrawal).await {
                    Ok(()) => end_of(taken, DeliveryState::Ignored, reason, String::new()),
                    Err(fault) => not_admitted(&fault, taken, planner.now()),
                });
            }
        }
    }
    if arrived.is_empty() {
        return ended;
    }
    let admitted = task::admit_all(planner, &arrived).await;
    ended.extend(places.into_iter().zip(admitted).map(|(place, admitted)| match admitted {
        Ok(Admitted { tasks }) => {
            let reason = why_no_task(&tasks);
            let tasks: Vec<Uuid> = tasks.into_iter().filter_map(|task| task.run_id).collect();
            DeliveryEnd { tasks, ..end_of(place, DeliveryState::Processed, reason, String::new()) }
        }
        Err(fault) => not_admitted(&fault, place, planner.now()),
    }));
    ended
}

/// Why a delivery made no task; empty where it has one.
fn why_no_task(tasks: &[AdmittedTask]) -> &'static str {
    let is_bound = |task: &AdmittedTask| task.state == AdmittedState::ChainBound;
    if tasks.iter().any(|task| task.run_id.is_some()) {
        ""
    } else if tasks.iter().any(is_bound) {
        CHAIN_BOUND
    } else {
        // Later events left nothing to do.
        "superseded"
    }
}

/// A delivery whose events could not become tasks: it is tried again, and has failed after the last attempt. While
/// the database is away no attempt counts as the last.
fn not_admitted(fault: &Fault, taken: Taken, now: DateTime<Utc>) -> DeliveryEnd {
    let attempts = taken.attempts;
    let end =
        |state: DeliveryState, reason: &str, problem: String| end_of(taken, state, reason, problem);
    let is_away = fault.reason == Reason::Service(FaultCode::DatabaseUnavailable);
    let code = fault.reason.as_str();
    if attempts >= MAX_ATTEMPTS && !is_away {
        tracing::error!(
            code,
            why = fault.message,
            "hook: a delivery made no tasks after ten attempts; replay it with `surety webhooks replay`"
        );
        return end(DeliveryState::Failed, code, fault.message.clone());
    }
    tracing::warn!(
        code,
        why = fault.message,
        attempts,
        "hook: a delivery made no tasks; it is processed again later"
    );
    let doublings = u32::try_from(attempts.clamp(1, MAX_ATTEMPTS) - 1).unwrap_or_default();
    let again_at = Some(now + TimeDelta::seconds(FIRST_PAUSE_S << doublings));
    DeliveryEnd { again_at, ..end(DeliveryState::Stored, code, fault.message.clone()) }
}

async fn read_anywhere(delivery: TakenDelivery, rules: Rules) -> Result<Reading, Problem> {
    if delivery.body.len() < LARGE {
        return read(&delivery, &rules);
    }
    let reading = spawn_blocking(move || read(&delivery, &rules)).await;
    reading.unwrap_or_else(|error| {
        Err(Problem::new(Code::TypeMismatch, format!("the delivery could not be read: {error}")))
    })
}

fn read(delivery: &TakenDelivery, rules: &Rules) -> Result<Reading, Problem> {
    let headers: Value = serde_json::from_str(&delivery.headers).unwrap_or_default();
    let kind = headers.get("content-type").and_then(Value::as_str).and_then(BodyKind::of);
    // Only deliveries of these kinds are stored.
    let body = kind.unwrap_or(BodyKind::Json).payload(&delivery.body)?;
    Delivery { forge: delivery.forge, event: &delivery.event, body: &body }.read(rules)
}

fn described(problem: Problem) -> String {
    match problem.field {
        Some(field) => format!("{field}: {}", problem.message),
        None => problem.message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_without_a_task_says_why() {
        let task = |state, run_id| AdmittedTask { run_id, state, assignee: String::new() };
        let none = |state| task(state, None);
        let made = task(AdmittedState::Created, Some(Uuid::nil()));
        let (superseded, bound) = (AdmittedState::Superseded, AdmittedState::ChainBound);
        assert_eq!(why_no_task(&[none(superseded), made]), "");
        assert_eq!(why_no_task(&[none(superseded), none(bound)]), "chain_bound");
        assert_eq!(why_no_task(&[none(superseded)]), "superseded");
    }
}
