//! Storing tasks: one transaction decides which events become tasks, and which tasks they leave nothing to do for.

use super::columns::{JudgedColumns, stored_instant};
use super::row::StoredTask;
use crate::domain::toolchain::{
    ActionType, Assignee, Forge, Language, Subject, TaskPayload, failed_commit,
};
use crate::store::StoreError;
use chrono::{DateTime, Utc};
use sqlx::{PgPool, PgTransaction};
use std::collections::BTreeSet;
use uuid::Uuid;

/// A task to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// The id that its run will have.
    pub run_id: Uuid,
    /// The name of its type.
    pub task_type: String,
    /// The namespace of its run.
    pub namespace: String,
    /// Digest of what makes the event this one.
    pub event_key: String,
    /// The delivery and the place in it; empty for tasks that the service makes.
    pub origin_key: String,
    /// What the assignee is handed instructions from.
    pub payload: TaskPayload,
    /// Exactly what the assignee is handed.
    pub instructions: String,
    /// The forge; empty where the task is about nothing on a forge.
    pub forge: String,
    /// What it is about.
    pub subject: Subject,
    /// The forge's own time of the event.
    pub happened_at: DateTime<Utc>,
    /// Whom the event asks.
    pub addressee: String,
    /// The agent that must act; empty while there is none.
    pub assignee: String,
    /// Whether it is accepted without waking an agent.
    pub is_notice: bool,
    /// The first task of its chain.
    pub chain_id: Uuid,
    /// The task whose failure makes it.
    pub caused_by: Option<Uuid>,
    /// Its place in the chain, from 1.
    pub depth: u32,
    /// Business failures in a row before it.
    pub business_failures: u32,
    /// Now.
    pub created_at: DateTime<Utc>,
    /// The time without a report after which it is handed again, in seconds; 0 for never.
    pub remind_after_s: u64,
}

impl NewTask {
    /// The same task again, because it failed.
    #[must_use]
    pub fn follow_up(
        failed: &StoredTask,
        run_id: Uuid,
        event_key: String,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            run_id,
            task_type: failed.task_type.clone(),
            namespace: failed.namespace.clone(),
            event_key,
            origin_key: String::new(),
            payload: failed.payload.clone(),
            instructions: String::new(),
            forge: failed.forge.clone(),
            subject: failed.subject.clone(),
            happened_at: failed.happened_at,
            addressee: failed.addressee.clone(),
            assignee: failed.assignee.clone(),
            is_notice: false,
            chain_id: failed.chain_id,
            caused_by: Some(failed.run_id),
            depth: failed.depth.saturating_add(1),
            business_failures: 0,
            created_at: now,
            remind_after_s: failed.remind_after_s,
        }
    }
}

impl NewTask {
    /// The columns as they will be stored.
    pub fn judged(&self) -> JudgedColumns {
        JudgedColumns {
            action_type: self.payload.action_type.clone(),
            addressee: self.addressee.clone(),
            assignee: self.assignee.clone(),
            forge: self.forge.clone(),
            happened_at: stored_instant(self.happened_at),
            payload: self.payload.to_json().to_string(),
        }
    }
}

/// The agent that was found for an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    /// Its id.
    pub agent_id: String,
    /// The language of its instructions.
    pub language: Language,
}

/// Who is not given a task of a role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// The agents of these accounts.
    pub accounts: Vec<String>,
    /// These agents.
    pub agents: Vec<String>,
}

/// What came of storing a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// It is new.
    New,
    /// The same event made this one before.
    Existed(Uuid),
}

/// A transaction that stores tasks. Dropped without [`Admission::commit`], it stores nothing.
pub struct Admission {
    pub(super) transaction: PgTransaction<'static>,
}

impl Admission {
    /// Begins, and holds back other admissions that name one of the same `locks`, until the end.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn begin(
        pool: &PgPool,
        locks: impl IntoIterator<Item = String>,
    ) -> Result<Self, StoreError> {
        let mut transaction = pool.begin().await?;
        // In one order, so that two admissions never wait for each other.
        let locks: Vec<String> = locks.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        if !locks.is_empty() {
            sqlx::query(
                "select pg_advisory_xact_lock(hashtextextended(lock, 0)) from unnest($1::text[]) as lock",
            )
            .bind(locks)
            .execute(&mut *transaction)
            .await?;
        }
        Ok(Self { transaction })
    }

    /// The agent that an event asks for; one of a role without those that are left out.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn agent_of(
        &mut self,
        forge: Forge,
        assignee: &Assignee,
        left_out: &LeftOut,
    ) -> Result<Option<Assigned>, StoreError> {
        let found: Option<(String, String)> = match assignee {
            Assignee::Account(login) => {
                sqlx::query_as(include_str!("../sql/agent_of_account.sql"))
                    .bind(forge.as_str())
                    .bind(login)
                    .fetch_optional(&mut *self.transaction)
                    .await?
            }
            Assignee::Role(role) => {
                let LeftOut { accounts, agents } = left_out;
                let accounts: Vec<String> =
                    accounts.iter().map(|login| login.to_lowercase()).collect();
                sqlx::query_as(include_str!("../sql/agent_with_role.sql"))
                    .bind(role.as_str())
                    .bind(forge.as_str())
                    .bind(accounts)
                    .bind(agents)
                    .fetch_optional(&mut *self.transaction)
                    .await?
            }
        };
        found.map(assigned).transpose()
    }

    /// A registered agent by its id.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn agent(&mut self, id: &str) -> Result<Option<Assigned>, StoreError> {
        let found: Option<(String, String)> =
            sqlx::query_as("select id, language from agent where id = $1")
                .bind(id)
                .fetch_optional(&mut *self.transaction)
                .await?;
        found.map(assigned).transpose()
    }

    /// Stores a task, once for each event.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn insert(&mut self, task: &NewTask) -> Result<Inserted, StoreError> {
        insert_task(&mut self.transaction, task).await
    }

    /// Notes that an event left nothing to do for open tasks. Their runs are cancelled after the commit.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn supersede(&mut self, tasks: &[Uuid], by: Uuid) -> Result<(), StoreError> {
        sqlx::query(
            "update task set superseded_by = $2, remind_at = null \
             where run_id = any($1) and ended_at is null and superseded_by is null",
        )
        .bind(tasks)
        .bind(by)
        .execute(&mut *self.transaction)
        .await?;
        Ok(())
    }

    /// Stores everything.
    ///
    /// # Errors
    /// [`StoreError`]; after [`StoreError::Unavailable`] it is unknown whether anything was stored.
    pub async fn commit(self) -> Result<(), StoreError> {
        Ok(self.transaction.commit().await?)
    }
}

fn assigned((agent_id, language): (String, String)) -> Result<Assigned, StoreError> {
    let language = Language::from_text(&language).ok_or_else(|| {
        StoreError::corrupt(format!("agent {agent_id:?} column language"), &language)
    })?;
    Ok(Assigned { agent_id, language })
}

async fn find_by_event(
    transaction: &mut PgTransaction<'_>,
    namespace: &str,
    event_key: &str,
) -> Result<Option<Uuid>, StoreError> {
    Ok(sqlx::query_scalar(include_str!("../sql/task_of_event.sql"))
        .bind(namespace)
        .bind(event_key)
        .fetch_optional(&mut **transaction)
        .await?)
}

pub(super) fn to_number(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|error| StoreError::corrupt("the number of a subject", error))
}

/// The commit whose failed build a task is about; empty for another task.
fn build_commit(payload: &TaskPayload) -> &str {
    let action = ActionType::from_text(&payload.action_type);
    action.and_then(|action| failed_commit(action, &payload.context)).unwrap_or_default()
}

pub(in crate::store) async fn insert_task(
    transaction: &mut PgTransaction<'_>,
    task: &NewTask,
) -> Result<Inserted, StoreError> {
    // As they are signed with the run.
    let judged = task.judged();
    let number = task.subject.number.map(to_number).transpose()?;
    let count = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    let stored: Option<Uuid> = sqlx::query_scalar(include_str!("../sql/insert_task.sql"))
        .bind(task.run_id)
        .bind(&task.task_type)
        .bind(&task.namespace)
        .bind(&task.event_key)
        .bind(&task.origin_key)
        .bind(&task.payload.event_type)
        .bind(judged.action_type)
        .bind(&task.forge)
        .bind(&task.subject.repo)
        .bind(number)
        .bind(task.subject.is_pull_request)
        .bind(judged.happened_at)
        .bind(&task.addressee)
        .bind(&task.assignee)
        .bind(judged.payload)
        .bind(&task.instructions)
        .bind(task.is_notice)
        .bind(task.chain_id)
        .bind(task.caused_by)
        .bind(count(task.depth))
        .bind(count(task.business_failures))
        .bind(task.created_at)
        .bind(i64::try_from(task.remind_after_s).unwrap_or(i64::MAX))
        .bind(build_commit(&task.payload))
        .bind(&task.subject.server)
        .fetch_optional(&mut **transaction)
        .await?;
    if stored.is_some() {
        return Ok(Inserted::New);
    }
    let before = find_by_event(transaction, &task.namespace, &task.event_key).await?;
    before.map(Inserted::Existed).ok_or_else(|| {
        // Another transaction stored it and deleted it since.
        StoreError::corrupt(format!("task of event {}", task.event_key), "it was deleted meanwhile")
    })
}
