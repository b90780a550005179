//! Writing on forges because a task failed: intents, attempts and receipts.
//!
//! ```text
//!   due --take (leased to this planner)--> port: looks for the marker, writes if there is none
//!    ^                                       |-- written ------> done, with the address
//!    +------------- a later time ------------|-- may work later
//!                                            +-- given up -----> failed, and a task for the infrastructure
//! ```

use super::end::{infrastructure_task, raise};
use super::start::{Start, start_runs};
use crate::planner::Planner;
use chrono::TimeDelta;
use futures::future::BoxFuture;
use surety_common::domain::fault::Fault;
use surety_common::domain::toolchain::{
    MAX_CHAIN_DEPTH, MAX_CHAIN_TASKS, ProbeMode, Subject, marker,
};
use surety_common::store::{self, Escalation, EscalationAction, EscalationEnd};
use surety_common::telemetry;
use uuid::Uuid;

/// How long a planner has for one attempt before another one may take it.
const TAKEN_FOR: TimeDelta = TimeDelta::seconds(120);
/// The attempts before it is given up.
const MAX_ATTEMPTS: u32 = 5;
/// The pause after the first failure, which doubles, in seconds.
const FIRST_PAUSE_S: i64 = 5;

/// A text to be written on a forge, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posting {
    /// The kind of the forge.
    pub forge: String,
    /// The repository, and the pull request or the issue.
    pub subject: Subject,
    /// The account that a comment mentions, or to which an issue is assigned; empty for none.
    pub account: String,
    /// The title of an issue; empty for a comment.
    pub title: String,
    /// The text with its hidden marker, by which an earlier attempt is found.
    pub body: String,
    /// The hidden marker.
    pub marker: String,
}

/// Why a text was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PortError {
    /// Whether the same call may succeed later.
    pub is_transient: bool,
    /// What happened, without a credential.
    pub message: String,
}

/// Writes on forges. An implementation looks for the marker first: a text that an earlier attempt wrote is not
/// written again.
pub trait EscalationPort: Send + Sync {
    /// Whether a client is configured for the repository.
    fn reaches(&self, forge: &str, repo: &str) -> bool;

    /// Writes a comment on a pull request or an issue, and answers its address.
    fn comment_once<'a>(&'a self, posting: &'a Posting)
    -> BoxFuture<'a, Result<String, PortError>>;

    /// Opens an issue, and answers its address.
    fn issue_once<'a>(&'a self, posting: &'a Posting) -> BoxFuture<'a, Result<String, PortError>>;

    /// The files that a pull request changes; none where the forge does not say.
    fn changed_files<'a>(
        &'a self,
        forge: &'a str,
        subject: &'a Subject,
    ) -> BoxFuture<'a, Option<Vec<String>>>;

    /// Whether the gate asks the forge about tasks of a repository.
    fn probe_mode(&self, forge: &str, repo: &str) -> ProbeMode;

    /// Whether the assignee's own part of a task holds, so that only a build or a reviewer is missing: then the clock
    /// of the report stops. None where the forge does not say.
    fn own_part_holds<'a>(&'a self, task: &'a store::StoredTask) -> BoxFuture<'a, Option<bool>>;
}

/// No forge is configured.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoForge;

impl NoForge {
    fn refused() -> PortError {
        let message = "no client is configured for the forge".to_owned();
        PortError { is_transient: false, message }
    }
}

impl EscalationPort for NoForge {
    fn reaches(&self, _: &str, _: &str) -> bool {
        false
    }

    fn probe_mode(&self, _: &str, _: &str) -> ProbeMode {
        ProbeMode::Off
    }

    fn comment_once<'a>(&'a self, _: &'a Posting) -> BoxFuture<'a, Result<String, PortError>> {
        Box::pin(std::future::ready(Err(Self::refused())))
    }

    fn issue_once<'a>(&'a self, _: &'a Posting) -> BoxFuture<'a, Result<String, PortError>> {
        Box::pin(std::future::ready(Err(Self::refused())))
    }

    fn changed_files<'a>(
        &'a self,
        _: &'a str,
        _: &'a Subject,
    ) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(std::future::ready(None))
    }

    fn own_part_holds<'a>(&'a self, _: &'a store::StoredTask) -> BoxFuture<'a, Option<bool>> {
        Box::pin(std::future::ready(None))
    }
}

/// Attempts the due escalations of a task.
///
/// # Errors
/// `database_unavailable`; then they are attempted again, and the marker tells what was written.
pub(super) async fn escalate(planner: &Planner, run_id: Uuid) -> Result<(), Fault> {
    let now = planner.now();
    let taken = store::take_escalations(&planner.pool, run_id, (now, now + TAKEN_FOR)).await?;
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
    let written = match wanted.action {
        EscalationAction::Comment => port.comment_once(&posting).await,
        EscalationAction::Issue => port.issue_once(&posting).await,
    };
    let key = (*run_id, wanted.action);
    let action = wanted.action.as_str();
    let now = planner.now();
    match written {
        Ok(address) => {
            telemetry::count_escalation(action, "done");
            store::end_escalation(&planner.pool, key, &EscalationEnd::Done(address), now).await?;
            Ok(())
        }
        Err(error) if error.is_transient && *attempts < MAX_ATTEMPTS => {
            let pause = FIRST_PAUSE_S << (*attempts).min(MAX_ATTEMPTS);
            tracing::warn!(%run_id, %error, action, "planner: an escalation could not be written; retrying");
            telemetry::count_escalation(action, "retried");
            let again = EscalationEnd::Again(error.message, now + TimeDelta::seconds(pause));
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
    let has_room = |task: &store::StoredTask| {
        task.depth < MAX_CHAIN_DEPTH && task.chain_tasks < MAX_CHAIN_TASKS
    };
    let infra = match task.as_ref().filter(|task| has_room(task)) {
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
            raise(task, "no_infra");
            Ok(())
        }
        (None, None) => Ok(()),
    }
}
