//! Writing on forges because a task failed: intents, attempts and receipts.
//!
//! ```text
//!   due --take (leased to this planner)--> port: looks for the marker, writes if there is none
//!    ^                                       |-- written ------> done, with the address
//!    +------------- a later time ------------|-- may work later, or the end of the rate limit
//!                                            +-- given up -----> failed, and a task for the infrastructure
//! ```

use super::end::{has_room, infrastructure_task, raise};
use super::escalation_port::{PortError, Posting};
use super::start::{Start, start_runs};
use crate::planner::Planner;
use chrono::TimeDelta;
use std::time::Duration;
use surety_common::crash;
use surety_common::domain::fault::Fault;
use surety_common::domain::toolchain::{CHAIN_BOUND, marker};
use surety_common::store::{self, Escalation, EscalationAction, EscalationEnd};
use surety_common::telemetry;
use tokio::time::timeout;
use uuid::Uuid;

/// How long a planner has for one attempt before another one may take it.
const TAKEN_FOR: TimeDelta = TimeDelta::seconds(120);
/// How long an attempt may take. It ends before another planner may take it, so that no two write at the same time.
const ATTEMPT_TIME: Duration = Duration::from_secs(100);
/// The attempts before it is given up.
const MAX_ATTEMPTS: u32 = 5;
/// The pause after the first failure, which doubles, in seconds.
const FIRST_PAUSE_S: i64 = 5;
/// The longest pause that a forge can ask for: the period of the usual rate limits, and more.
const LONGEST_PAUSE: TimeDelta = TimeDelta::hours(2);

/// Attempts the due escalations of a task.
///
/// # Errors
/// `database_unavailable`; then they are attempted again, and the marker tells what was written.
pub(super) async fn escalate(planner: &Planner, run_id: Uuid) -> Result<(), Fault> {
    let now = planner.now();
    let taken = store::take_escalations(&planner.pool, run_id, (now, now + TAKEN_FOR)).await?;
    crash::point("planner.after_take_escalation");
    for escalation in taken {
        attempt(planner, &escalation).await?;
    }
    Ok(())
}

async fn attempt(planner: &Planner, escalation: &Escalation) -> Result<(), Fault> {
    let Escalation { run_id, wanted, attempts, .. } = escalation;
    let mark = marker(*run_id);
    let posting = Posting {
        forge: wanted.forge.clone(),
        subject: wanted.subject.clone(),
        account: wanted.account.clone(),
        title: wanted.title.clone(),
        body: format!("{}\n\n{mark}", wanted.body),
        marker: mark,
    };
    let port = &planner.escalations;
    let writing = match wanted.action {
        EscalationAction::Comment => port.comment_once(&posting),
        EscalationAction::Issue => port.issue_once(&posting),
    };
    let written = timeout(ATTEMPT_TIME, writing).await.unwrap_or_else(|_| {
        let message = "the forge did not answer in time".to_owned();
        Err(PortError { is_transient: true, message, not_before: None })
    });
    let key = (*run_id, wanted.action);
    let action = wanted.action.as_str();
    let now = planner.now();
    match written {
        Ok(address) => {
            crash::point("planner.before_escalation_receipt");
            store::end_escalation(&planner.pool, key, &EscalationEnd::Done(address), now).await?;
            crash::point("planner.after_escalation_receipt");
            telemetry::count_escalation(action, "done");
            Ok(())
        }
        Err(error) if error.is_transient && *attempts < MAX_ATTEMPTS => {
            let pause = FIRST_PAUSE_S << (*attempts).min(MAX_ATTEMPTS);
            tracing::warn!(%run_id, %error, action, "planner: an escalation could not be written; retrying");
            telemetry::count_escalation(action, "retried");
            // A forge that names the end of its rate limit is not asked before, so that no attempt is wasted.
            let named = error.not_before.map(|at| at.min(now + LONGEST_PAUSE));
            let at = (now + TimeDelta::seconds(pause)).max(named.unwrap_or(now));
            let again = EscalationEnd::Again(error.message, at);
            store::end_escalation(&planner.pool, key, &again, now).await?;
            Ok(())
        }
        Err(error) => {
            tracing::warn!(%run_id, %error, action, "planner: an escalation cannot be written; the infrastructure is told");
            telemetry::count_escalation(action, "failed");
            give_up(planner, escalation, error.message).await
        }
    }
}

/// Gives an escalation up: the class falls through to the infrastructure.
async fn give_up(planner: &Planner, escalation: &Escalation, why: String) -> Result<(), Fault> {
    let key = (escalation.run_id, escalation.wanted.action);
    let now = planner.now();
    let task = store::find_task(&planner.pool, escalation.run_id).await?;
    let has_room = task.as_ref().is_some_and(|task| has_room(task, 0));
    let infra = match task.as_ref().filter(|_| has_room) {
        Some(task) => infrastructure_task(planner, task, "forge_api_unreachable").await?,
        None => None,
    };
    let start = infra.as_ref().map(Start::from);
    let failed = EscalationEnd::Failed(why, infra.map(Box::new));
    if !store::end_escalation(&planner.pool, key, &failed, now).await? {
        return Ok(());
    }
    match (start, &task) {
        (Some(start), _) => start_runs(planner, vec![start]).await,
        (None, Some(task)) => {
            raise(task, if has_room { "no_infra" } else { CHAIN_BOUND });
            Ok(())
        }
        (None, None) => Ok(()),
    }
}
