//! The end of a task, what it causes, and the writing on forges.

use super::admission::{NewTask, insert_task, to_number};
use super::history::{NewEntry, insert_entry};
use crate::crash;
use crate::domain::toolchain::{FailureClass, Subject, TaskFailure, TaskOutcome};
use crate::store::Signing;
use crate::store::StoreError;
use crate::store::pool::within;
use chrono::{DateTime, Utc};
use sqlx::{PgPool, PgTransaction};
use uuid::Uuid;

/// What is written on a forge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscalationAction {
    /// A comment on the pull request or the issue of the task.
    Comment,
    /// An issue in the repository of the task.
    Issue,
}

impl EscalationAction {
    /// The stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Comment => "comment",
            Self::Issue => "issue",
        }
    }
}

/// Something to be written on a forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEscalation {
    /// What is written.
    pub action: EscalationAction,
    /// The forge.
    pub forge: String,
    /// Where.
    pub subject: Subject,
    /// The account that a comment mentions, or to which an issue is assigned; empty for none.
    pub account: String,
    /// The title of an issue.
    pub title: String,
    /// The text, without the marker.
    pub body: String,
}

/// A task that ends, and what follows.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedTask {
    /// Its run.
    pub run_id: Uuid,
    /// Its chain.
    pub chain_id: Uuid,
    /// Now.
    pub at: DateTime<Utc>,
    /// How it ended.
    pub outcome: TaskOutcome,
    /// Why it failed; none where it did not.
    pub failure: Option<(TaskFailure, FailureClass)>,
    /// What is written on a forge.
    pub escalations: Vec<NewEscalation>,
    /// The tasks that follow.
    pub tasks: Vec<NewTask>,
    /// What its history says about the end.
    pub entry: Option<NewEntry>,
}

/// Ends a task, once, and stores what follows in the same transaction. Returns false, and stores nothing, where it
/// has ended before.
///
/// # Errors
/// [`StoreError`]
pub async fn end_task(
    pool: &PgPool,
    signing: &Signing,
    ended: &EndedTask,
) -> Result<bool, StoreError> {
    let failure = ended.failure.map_or("", |(failure, _)| failure.as_str());
    let class = ended.failure.map_or("", |(_, class)| class.as_str());
    within(async {
        let mut transaction = pool.begin().await?;
        let first: Option<Uuid> = sqlx::query_scalar(include_str!("../sql/end_task.sql"))
            .bind(ended.run_id)
            .bind(ended.at)
            .bind(ended.outcome.as_str())
            .bind(failure)
            .bind(class)
            .fetch_optional(&mut *transaction)
            .await?;
        if first.is_none() {
            return Ok(false);
        }
        let of_task = (ended.run_id, ended.chain_id);
        let following = (&*ended.escalations, &*ended.tasks);
        insert_following(&mut transaction, of_task, following, ended.at).await?;
        if let Some(entry) = &ended.entry {
            insert_entry(&mut transaction, signing, entry).await?;
        }
        crash::point("planner.before_task_end");
        transaction.commit().await?;
        crash::point("planner.after_task_end");
        Ok(true)
    })
    .await
}

/// Stores what follows from the failure of a task: what is written on a forge, and tasks.
async fn insert_following(
    transaction: &mut PgTransaction<'_>,
    (run_id, chain_id): (Uuid, Uuid),
    (escalations, tasks): (&[NewEscalation], &[NewTask]),
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    for escalation in escalations {
        let NewEscalation { action, forge, subject, account, title, body } = escalation;
        sqlx::query(include_str!("../sql/insert_escalation.sql"))
            .bind(run_id)
            .bind(action.as_str())
            .bind(chain_id)
            .bind(forge)
            .bind(&subject.repo)
            .bind(subject.number.map(to_number).transpose()?)
            .bind(subject.is_pull_request)
            .bind(account)
            .bind(title)
            .bind(body)
            .bind(at)
            .execute(&mut **transaction)
            .await?;
    }
    for task in tasks {
        insert_task(transaction, task).await?;
    }
    Ok(())
}

/// Something to be written on a forge, as a planner took it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Escalation {
    /// The task that failed.
    pub run_id: Uuid,
    /// Its chain.
    pub chain_id: Uuid,
    /// What is written.
    pub wanted: NewEscalation,
    /// How often it was attempted, with this time.
    pub attempts: u32,
}

#[derive(sqlx::FromRow)]
struct EscalationRow {
    run_id: Uuid,
    action: String,
    chain_id: Uuid,
    forge: String,
    server: String,
    repo: String,
    number: Option<i64>,
    is_pull_request: bool,
    account: String,
    title: String,
    body: String,
    attempts: i32,
}

impl EscalationRow {
    fn into_escalation(self) -> Result<Escalation, StoreError> {
        let what = |column: &str| format!("escalation of task {} column {column}", self.run_id);
        let action = match self.action.as_str() {
            "comment" => EscalationAction::Comment,
            "issue" => EscalationAction::Issue,
            other => return Err(StoreError::corrupt(what("action"), other)),
        };
        let number = self.number.map(u64::try_from).transpose();
        let number = number.map_err(|error| StoreError::corrupt(what("number"), error))?;
        Ok(Escalation {
            run_id: self.run_id,
            chain_id: self.chain_id,
            attempts: u32::try_from(self.attempts).unwrap_or_default(),
            wanted: NewEscalation {
                action,
                forge: self.forge,
                subject: Subject {
                    server: self.server,
                    repo: self.repo,
                    number,
                    is_pull_request: self.is_pull_request,
                },
                account: self.account,
                title: self.title,
                body: self.body,
            },
        })
    }
}

/// Takes the due escalations of a task. No other planner takes them until `until`.
///
/// # Errors
/// [`StoreError`]
pub async fn take_escalations(
    pool: &PgPool,
    run_id: Uuid,
    (now, until): (DateTime<Utc>, DateTime<Utc>),
) -> Result<Vec<Escalation>, StoreError> {
    let taking = sqlx::query_as(include_str!("../sql/take_escalations.sql"))
        .bind(run_id)
        .bind(now)
        .bind(until);
    let rows: Vec<EscalationRow> = within(async { Ok(taking.fetch_all(pool).await?) }).await?;
    rows.into_iter().map(EscalationRow::into_escalation).collect()
}

/// What came of an attempt to write on a forge.
#[derive(Debug, Clone, PartialEq)]
pub enum EscalationEnd {
    /// It is written.
    Done {
        /// Where.
        address: String,
        /// What the history of the task says about it.
        entry: NewEntry,
    },
    /// It is attempted again.
    Again {
        /// Why it was not written.
        error: String,
        /// When.
        at: DateTime<Utc>,
    },
    /// It is given up.
    Failed {
        /// Why.
        error: String,
        /// What is written in its place.
        escalations: Vec<NewEscalation>,
        /// The tasks that follow.
        tasks: Vec<NewTask>,
        /// What the history of the task says about it.
        entry: NewEntry,
    },
}

/// Ends an attempt, in one transaction with what follows from it and the entry in the history of the task. Returns false, and
/// stores nothing, where it had ended.
///
/// # Errors
/// [`StoreError`]
pub async fn end_escalation(
    pool: &PgPool,
    signing: &Signing,
    (escalation, end): (&Escalation, &EscalationEnd),
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let Escalation { run_id, chain_id, wanted, .. } = escalation;
    let (state, address, error, again_at, entry) = match end {
        EscalationEnd::Done { address, entry } => ("done", address.as_str(), "", None, Some(entry)),
        EscalationEnd::Again { error, at } => ("due", "", error.as_str(), Some(*at), None),
        EscalationEnd::Failed { error, entry, .. } => {
            ("failed", "", error.as_str(), None, Some(entry))
        }
    };
    within(async {
        let mut transaction = pool.begin().await?;
        let ended: Option<Uuid> = sqlx::query_scalar(include_str!("../sql/end_escalation.sql"))
            .bind(run_id)
            .bind(wanted.action.as_str())
            .bind(state)
            .bind(address)
            .bind(error)
            .bind(again_at)
            .bind(now)
            .fetch_optional(&mut *transaction)
            .await?;
        if ended.is_none() {
            return Ok(false);
        }
        if let EscalationEnd::Failed { escalations, tasks, .. } = end {
            let following = (&**escalations, &**tasks);
            insert_following(&mut transaction, (*run_id, *chain_id), following, now).await?;
        }
        if let Some(entry) = entry {
            insert_entry(&mut transaction, signing, entry).await?;
        }
        transaction.commit().await?;
        Ok(true)
    })
    .await
}
