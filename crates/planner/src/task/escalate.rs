//! Writing on forges because a task failed: intents, attempts and receipts.
//!
//! ```text
//!   due --take (leased to this planner)--> port: looks for the marker, writes if there is none
//!    ^                                       |-- written ------> done, with the address
//!    +------------- a later time ------------|-- may work later, or the end of the rate limit
//!                                            +-- given up -----> failed, and what follows from that
//! ```
//!
//! The history of the task says what was written, or why it was given up.

use super::end::{count_follow_ups, raise};
use super::escalation_port::{PortError, Posting};
use super::follow::Follow;
use super::start::{Start, start_runs};
use crate::planner::Planner;
use chrono::TimeDelta;
use std::time::Duration;
use surety_common::crash;
use surety_common::domain::fault::Fault;
use surety_common::domain::toolchain::{EntryKind, SYSTEM, marker};
use surety_common::store::{self, Escalation, EscalationAction, EscalationEnd, NewEntry};
use surety_common::telemetry;
use surety_forge::ForgeErrorCode;
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
        let code = ForgeErrorCode::Unreachable.as_str();
        Err(PortError { code, is_transient: true, message, not_before: None })
    });
    let signing = &planner.keys.signing;
    let action = wanted.action.as_str();
    let now = planner.now();
    match written {
        Ok(address) => {
            crash::point("planner.before_escalation_receipt");
            let entry = entry(planner, escalation, Ok(&address));
            let done = EscalationEnd::Done { address, entry };
            store::end_escalation(&planner.pool, signing, (escalation, &done), now).await?;
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
            let again = EscalationEnd::Again { error: error.message, at };
            store::end_escalation(&planner.pool, signing, (escalation, &again), now).await?;
            Ok(())
        }
        Err(error) => {
            tracing::warn!(%run_id, %error, action, "planner: an escalation cannot be written; the next one in their order follows");
            telemetry::count_escalation(action, "failed");
            give_up(planner, escalation, error).await
        }
    }
}

/// Gives an escalation up, and stores what follows from that.
async fn give_up(
    planner: &Planner,
    escalation: &Escalation,
    error: PortError,
) -> Result<(), Fault> {
    let Some(task) = store::find_task(&planner.pool, escalation.run_id).await? else {
        return Ok(());
    };
    let mut follow = Follow::of(planner, &task);
    follow.after_given_up(escalation.wanted.action, &error).await?;
    let Follow { escalations, tasks, alert, .. } = follow;
    let started: Vec<_> = tasks.iter().map(Start::from).collect();
    let entry = entry(planner, escalation, Err(&error));
    let failed = EscalationEnd::Failed { error: error.message, escalations, tasks, entry };
    let signing = &planner.keys.signing;
    let ending =
        store::end_escalation(&planner.pool, signing, (escalation, &failed), planner.now());
    if !ending.await? {
        return Ok(());
    }
    if let EscalationEnd::Failed { escalations, tasks, .. } = &failed {
        count_follow_ups(escalations, tasks);
    }
    if let Some(alert) = alert {
        raise(&task, alert);
    }
    start_runs(planner, started).await
}

/// What the history of the task says about a text: its address, or why it was given up.
fn entry(
    planner: &Planner,
    escalation: &Escalation,
    written: Result<&str, &PortError>,
) -> NewEntry {
    let body = match (escalation.wanted.action, written) {
        (EscalationAction::Comment, Ok(address)) => format!("The comment was written: {address}"),
        (EscalationAction::Issue, Ok(address)) => format!("The issue was opened: {address}"),
        (EscalationAction::Comment, Err(error)) => format!("The comment was given up: {error}"),
        (EscalationAction::Issue, Err(error)) => format!("The issue was given up: {error}"),
    };
    NewEntry {
        run_id: escalation.run_id,
        kind: EntryKind::System,
        author: SYSTEM.to_owned(),
        body,
        links: written.into_iter().filter(|it| !it.is_empty()).map(str::to_owned).collect(),
        attachment: String::new(),
        at: planner.now(),
    }
}
