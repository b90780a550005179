//! What is known about the subject of an event when it is admitted.

use super::admission::{Admission, to_number};
use crate::domain::toolchain::{
    ActionType, Assignee, Forge, Ignored, Placed, Role, Subject, TaskPayload, Withdrawal,
    WithdrawnFrom, commit_of, reviewer_of,
};
use crate::store::StoreError;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use uuid::Uuid;

/// A task that is known about the subject of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTask {
    /// Its run.
    pub run_id: Uuid,
    /// What decides its order among others.
    pub placed: Placed,
    /// Whether it has not ended, and no event left nothing to do for it.
    pub is_open: bool,
    /// The forge's time of the last event that asked for it.
    pub asked_at: DateTime<Utc>,
    /// The agent that must act; empty while there is none.
    pub assignee: String,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
    /// When it ended; none before.
    pub ended_at: Option<DateTime<Utc>>,
    /// Its chain, and its place there, from 1.
    pub chain: (Uuid, u32),
}

#[derive(sqlx::FromRow)]
struct KnownRow {
    run_id: Uuid,
    action_type: String,
    is_pull_request: bool,
    addressee: String,
    assignee: String,
    happened_at: DateTime<Utc>,
    asked_at: DateTime<Utc>,
    created_at: DateTime<Utc>,
    ended_at: Option<DateTime<Utc>>,
    chain_id: Uuid,
    depth: i32,
    is_open: bool,
    payload: String,
}

impl KnownRow {
    /// None of a task of the service's own kinds, which has no place among events.
    fn into_task(self, subject: &Subject) -> Result<Option<KnownTask>, StoreError> {
        let Some(assignee) = asked(&self.addressee) else { return Ok(None) };
        let Some(action) = ActionType::from_text(&self.action_type) else { return Ok(None) };
        let context = match self.payload.as_str() {
            "" => Map::new(),
            payload => self.context(payload)?,
        };
        let commit = commit_of(action, &context).to_owned();
        let reviewer = reviewer_of(action, &context).to_owned();
        let placed = Placed {
            action,
            subject: Subject { is_pull_request: self.is_pull_request, ..subject.clone() },
            assignee,
            reviewer,
            commit,
            happened_at: self.happened_at,
        };
        Ok(Some(KnownTask {
            run_id: self.run_id,
            placed,
            is_open: self.is_open,
            asked_at: self.asked_at,
            assignee: self.assignee,
            created_at: self.created_at,
            ended_at: self.ended_at,
            chain: (self.chain_id, u32::try_from(self.depth).unwrap_or(u32::MAX)),
        }))
    }

    fn context(&self, payload: &str) -> Result<Map<String, Value>, StoreError> {
        let corrupt =
            |why: String| StoreError::corrupt(format!("task {} column payload", self.run_id), why);
        let payload: Value =
            serde_json::from_str(payload).map_err(|error| corrupt(error.to_string()))?;
        let payload = TaskPayload::read(&payload).map_err(|problem| corrupt(problem.message))?;
        Ok(payload.context)
    }
}

/// Whom an event asks, by the text of a row.
fn asked(addressee: &str) -> Option<Assignee> {
    match addressee.split_once(' ')? {
        ("account", login) => Some(Assignee::Account(login.to_owned())),
        ("role", role) => Role::from_text(role).map(Assignee::Role),
        _ => None,
    }
}

/// The task that an event made before.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct MadeBefore {
    /// Its run.
    pub run_id: Uuid,
    /// The agent that must act; empty while there is none.
    pub assignee: String,
    /// The host of the forge; empty where it is not known.
    pub server: String,
    /// The forge's time of the last event that asked for it.
    pub asked_at: DateTime<Utc>,
}

/// The task about the failed build of a commit.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct KnownBuild {
    /// Its run.
    pub run_id: Uuid,
    /// The forge's time of the last event that asked for it.
    pub asked_at: DateTime<Utc>,
    /// Whether it has not ended, and no event left nothing to do for it.
    pub is_open: bool,
    /// Whether it is about a pull request.
    pub has_pull: bool,
    /// Whom its event asked, as [`Assignee`] writes it.
    pub addressee: String,
    /// The agent that must act; empty while there is none.
    pub assignee: String,
    /// Whether it ended as accepted.
    pub is_accepted: bool,
    /// Whether it has a report.
    pub is_reported: bool,
}

#[derive(sqlx::FromRow)]
struct WithdrawalRow {
    reason: String,
    accounts: Vec<String>,
    keeps: bool,
    happened_at: DateTime<Utc>,
}

impl Admission {
    /// The tasks about a pull request or an issue; none about what has no number.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn known(
        &mut self,
        forge: Forge,
        subject: &Subject,
    ) -> Result<Vec<KnownTask>, StoreError> {
        let Some(number) = subject.number else { return Ok(Vec::new()) };
        let rows: Vec<KnownRow> = sqlx::query_as(include_str!("../sql/tasks_of_subject.sql"))
            .bind(forge.as_str())
            .bind(&subject.repo)
            .bind(to_number(number)?)
            .bind(&subject.server)
            .fetch_all(&mut *self.transaction)
            .await?;
        rows.into_iter().filter_map(|row| row.into_task(subject).transpose()).collect()
    }

    /// What the forge withdrew about a pull request or an issue; nothing about what has no number.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn withdrawals(
        &mut self,
        forge: Forge,
        subject: &Subject,
    ) -> Result<Vec<Withdrawal>, StoreError> {
        let Some(number) = subject.number else { return Ok(Vec::new()) };
        let rows: Vec<WithdrawalRow> =
            sqlx::query_as(include_str!("../sql/withdrawals_of_subject.sql"))
                .bind(forge.as_str())
                .bind(&subject.repo)
                .bind(to_number(number)?)
                .bind(&subject.server)
                .fetch_all(&mut *self.transaction)
                .await?;
        let withdrawal = |row: WithdrawalRow| {
            let reason = Ignored::from_text(&row.reason).ok_or_else(|| {
                StoreError::corrupt("table forge_withdrawal column reason", &row.reason)
            })?;
            let from = match row.keeps {
                true => WithdrawnFrom::AllBut(row.accounts),
                false => WithdrawnFrom::Accounts(row.accounts),
            };
            let subject = subject.clone();
            Ok(Withdrawal { reason, source: forge, subject, from, happened_at: row.happened_at })
        };
        rows.into_iter().map(withdrawal).collect()
    }

    /// Keeps what a forge withdrew, and notes that there is nothing left to do for these tasks. Their runs are cancelled
    /// after the commit.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn withdraw(
        &mut self,
        withdrawal: &Withdrawal,
        tasks: &[Uuid],
    ) -> Result<(), StoreError> {
        let Withdrawal { reason, source, subject, from, happened_at } = withdrawal;
        let (accounts, keeps) = match from {
            WithdrawnFrom::Accounts(accounts) => (accounts, false),
            WithdrawnFrom::AllBut(accounts) => (accounts, true),
        };
        if let Some(number) = subject.number {
            sqlx::query(include_str!("../sql/add_withdrawal.sql"))
                .bind(source.as_str())
                .bind(&subject.repo)
                .bind(to_number(number)?)
                .bind(reason.as_str())
                .bind(accounts)
                .bind(keeps)
                .bind(happened_at)
                .bind(&subject.server)
                .execute(&mut *self.transaction)
                .await?;
        }
        sqlx::query(include_str!("../sql/withdraw_tasks.sql"))
            .bind(tasks)
            .bind(reason.as_str())
            .execute(&mut *self.transaction)
            .await?;
        Ok(())
    }

    /// The task that an event made before.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn made_before(
        &mut self,
        namespace: &str,
        event_key: &str,
    ) -> Result<Option<MadeBefore>, StoreError> {
        Ok(sqlx::query_as(include_str!("../sql/task_of_event.sql"))
            .bind(namespace)
            .bind(event_key)
            .fetch_optional(&mut *self.transaction)
            .await?)
    }

    /// The task about the failed build of a commit: an open one, else the one that was asked for last.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn build_of(
        &mut self,
        (forge, subject): (Forge, &Subject),
        commit: &str,
    ) -> Result<Option<KnownBuild>, StoreError> {
        Ok(sqlx::query_as(include_str!("../sql/task_of_build.sql"))
            .bind(forge.as_str())
            .bind(&subject.repo)
            .bind(commit)
            .bind(&subject.server)
            .fetch_optional(&mut *self.transaction)
            .await?)
    }

    /// Whether an agent has a role.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn has_role(&mut self, agent: &str, role: Role) -> Result<bool, StoreError> {
        let asking = "select exists (select from agent where id = $1 and $2 = any(roles))";
        Ok(sqlx::query_scalar(asking)
            .bind(agent)
            .bind(role.as_str())
            .fetch_one(&mut *self.transaction)
            .await?)
    }

    /// Notes that the forge asked for tasks again, by its own time.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn ask_again(&mut self, tasks: &[Uuid], at: DateTime<Utc>) -> Result<(), StoreError> {
        sqlx::query(include_str!("../sql/ask_again.sql"))
            .bind(tasks)
            .bind(at)
            .execute(&mut *self.transaction)
            .await?;
        Ok(())
    }

    /// How many tasks a chain has.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn chain_tasks(&mut self, chain_id: Uuid) -> Result<u32, StoreError> {
        let count: i64 = sqlx::query_scalar("select count(*) from task where chain_id = $1")
            .bind(chain_id)
            .fetch_one(&mut *self.transaction)
            .await?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }
}
