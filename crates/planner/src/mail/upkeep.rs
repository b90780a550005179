//! Dead letters: messages that were not read, or not answered, by their deadline, or before they were cancelled.

use super::new_mail;
use crate::planner::Planner;
use std::sync::Arc;
use std::time::Duration;
use surety_common::crash;
use surety_common::domain::execution::Graph;
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::fault::Fault;
use surety_common::domain::mail::{CANCELLED, MAIL_SYSTEM, Message};
use surety_common::domain::run::RunRecord;
use surety_common::store::{self, NewMail, StoredMail};
use surety_common::telemetry::count_dead_letter;
use uuid::Uuid;

/// How often deadlines are looked at: one statement at rest.
const INTERVAL: Duration = Duration::from_secs(5);
/// The most messages of a round.
const LIMIT: i64 = 200;

/// Runs until the process shuts down. Every planner of a database does this.
pub(crate) async fn run(planner: Arc<Planner>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(fault) = round(&planner).await {
            let database = &planner.whose;
            tracing::warn!(%fault, database, "mail: deadlines could not be looked at; retrying");
        }
    }
}

/// Fails what is overdue, once, and ends the runs of dead letters.
///
/// # Errors
/// `database_unavailable`.
async fn round(planner: &Planner) -> Result<(), Fault> {
    let now = planner.now();
    if !store::mail_is_due(&planner.pool, now).await? {
        return Ok(());
    }
    let notice_of = |mail: &StoredMail| notice(mail, planner);
    let failed = store::fail_overdue_mail(&planner.pool, now, LIMIT, notice_of).await?;
    for mail in &failed {
        let is_cancelled = mail.failure == CANCELLED;
        count_dead_letter(if is_cancelled { CANCELLED } else { mail.kind.failure() });
        tracing::warn!(
            mail_id = %mail.id, to = mail.to, failure = mail.failure,
            "mail: a message is a dead letter: its deadline passed, or its run was cancelled"
        );
    }
    crash::point("planner.after_dead_letter");
    for run_id in store::unended_mail(&planner.pool, LIMIT).await? {
        end(planner, run_id).await?;
    }
    Ok(())
}

/// What the sender of a dead letter is told; nothing where the service sent it.
fn notice(mail: &StoredMail, planner: &Planner) -> Option<NewMail> {
    if mail.from == MAIL_SYSTEM {
        return None;
    }
    let agents = (mail.to.as_str(), mail.from.as_str());
    let message = Message::notice(&mail.subject, agents, (mail.kind, &mail.failure));
    let key = (String::new(), String::new());
    Some(new_mail(message, (Some(mail.thread_id), Some(mail.id)), key, planner.now()))
}

/// Ends the run of a dead letter. A run that ended first stays as it is.
async fn end(planner: &Planner, run_id: Uuid) -> Result<(), Fault> {
    let change = |record: &RunRecord, draft: &mut Draft| {
        let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
        draft.stop(&graph, Ending::late(record.spec.limits.run_deadline_s)).or(Ok(()))
    };
    planner.change(run_id, &planner.actor(), change).await
}
