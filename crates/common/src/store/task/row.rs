//! Reading tasks.

use super::columns::JudgedColumns;
use crate::domain::machine::run::RunState;
use crate::domain::stop::Terminal;
use crate::domain::toolchain::{FailureClass, Subject, TaskFailure, TaskOutcome, TaskPayload};
use crate::store::StoreError;
use crate::store::execution::read_state;
use crate::store::pool::within;
use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// A task as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTask {
    /// The id of its run.
    pub run_id: Uuid,
    /// The name of its type.
    pub task_type: String,
    /// The namespace of its run.
    pub namespace: String,
    /// The delivery and the place in it; empty for tasks that the service made.
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
    /// Whom the event asks: `account NAME` or `role NAME`.
    pub addressee: String,
    /// The agent that must act; empty while there is none.
    pub assignee: String,
    /// Whether it is accepted without waking an agent.
    pub is_notice: bool,
    /// The first task of its chain.
    pub chain_id: Uuid,
    /// The task whose failure made it.
    pub caused_by: Option<Uuid>,
    /// Its place in the chain, from 1.
    pub depth: u32,
    /// How many tasks the chain has.
    pub chain_tasks: u32,
    /// Business failures in a row before it.
    pub business_failures: u32,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
    /// When its run was made.
    pub started_at: Option<DateTime<Utc>>,
    /// When it is handed again; none while its clock stops.
    pub remind_at: Option<DateTime<Utc>>,
    /// The time without a report after which it is handed again, in seconds; 0 for never.
    pub remind_after_s: u64,
    /// How often it was handed again.
    pub reminders: u32,
    /// What the assignee waits for; empty while it acts.
    pub waiting_for: String,
    /// When the report was stored that ends its step.
    pub reported_at: Option<DateTime<Utc>>,
    /// Whether a later event left nothing to do.
    pub is_superseded: bool,
    /// Why the forge withdrew what it asks for; empty where it did not.
    pub withdrawn_by: String,
    /// How it ended; none before.
    pub end: Option<TaskEnd>,
    /// The state of its run; `INTAKE` until the run is made.
    pub state: RunState,
    /// How its run ended.
    pub terminal: Option<Terminal>,
    /// When its run last changed.
    pub updated_at: DateTime<Utc>,
    /// The columns that feed a verdict.
    pub judged: JudgedColumns,
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskEnd {
    /// When.
    pub at: DateTime<Utc>,
    /// How.
    pub outcome: TaskOutcome,
    /// Why it failed; none where it did not.
    pub failure: Option<(TaskFailure, FailureClass)>,
}

#[derive(sqlx::FromRow)]
struct TaskRow {
    run_id: Uuid,
    task_type: String,
    namespace: String,
    origin_key: String,
    action_type: String,
    forge: String,
    server: String,
    repo: String,
    number: Option<i64>,
    is_pull_request: bool,
    happened_at: DateTime<Utc>,
    addressee: String,
    assignee: String,
    payload: String,
    instructions: String,
    is_notice: bool,
    chain_id: Uuid,
    caused_by: Option<Uuid>,
    depth: i32,
    chain_tasks: i64,
    business_failures: i32,
    created_at: DateTime<Utc>,
    started_at: Option<DateTime<Utc>>,
    remind_at: Option<DateTime<Utc>>,
    remind_after_s: i64,
    reminders: i32,
    waiting_for: String,
    reported_at: Option<DateTime<Utc>>,
    superseded_by: Option<Uuid>,
    withdrawn_by: String,
    ended_at: Option<DateTime<Utc>>,
    outcome: String,
    failure: String,
    failure_class: String,
    state: Option<String>,
    blocked_from: Option<String>,
    terminal: Option<sqlx::types::Json<Terminal>>,
    updated_at: Option<DateTime<Utc>>,
}

impl TaskRow {
    fn into_task(self) -> Result<StoredTask, StoreError> {
        let what = |column: &str| format!("task {} column {column}", self.run_id);
        let payload = serde_json::from_str(&self.payload)
            .map_err(|error| StoreError::corrupt(what("payload"), error))?;
        let payload = TaskPayload::read(&payload)
            .map_err(|problem| StoreError::corrupt(what("payload"), problem.message))?;
        let state = match &self.state {
            None => RunState::Intake,
            Some(state) => read_state(self.run_id, state, self.blocked_from.as_deref())?,
        };
        let count = |column: &str, value: i64| {
            u32::try_from(value).map_err(|error| StoreError::corrupt(what(column), error))
        };
        let end = self.end().transpose()?;
        let number = self.number.map(u64::try_from).transpose();
        let number = number.map_err(|error| StoreError::corrupt(what("number"), error))?;
        let judged = JudgedColumns {
            action_type: self.action_type,
            addressee: self.addressee.clone(),
            assignee: self.assignee.clone(),
            forge: self.forge.clone(),
            happened_at: self.happened_at,
            payload: self.payload,
        };
        Ok(StoredTask {
            judged,
            depth: count("depth", self.depth.into())?,
            chain_tasks: count("chain_id", self.chain_tasks)?,
            business_failures: count("business_failures", self.business_failures.into())?,
            reminders: count("reminders", self.reminders.into())?,
            remind_after_s: u64::try_from(self.remind_after_s)
                .map_err(|error| StoreError::corrupt(what("remind_after_s"), error))?,
            run_id: self.run_id,
            task_type: self.task_type,
            namespace: self.namespace,
            origin_key: self.origin_key,
            payload,
            instructions: self.instructions,
            forge: self.forge,
            subject: Subject {
                server: self.server,
                repo: self.repo,
                number,
                is_pull_request: self.is_pull_request,
            },
            happened_at: self.happened_at,
            addressee: self.addressee,
            assignee: self.assignee,
            is_notice: self.is_notice,
            chain_id: self.chain_id,
            caused_by: self.caused_by,
            created_at: self.created_at,
            started_at: self.started_at,
            remind_at: self.remind_at,
            waiting_for: self.waiting_for,
            reported_at: self.reported_at,
            is_superseded: self.superseded_by.is_some(),
            withdrawn_by: self.withdrawn_by,
            end,
            state,
            terminal: self.terminal.map(|terminal| terminal.0),
            updated_at: self.updated_at.unwrap_or(self.created_at),
        })
    }

    fn end(&self) -> Option<Result<TaskEnd, StoreError>> {
        let at = self.ended_at?;
        let corrupt = |column: &str, value: &str| {
            StoreError::corrupt(format!("task {} column {column}", self.run_id), value)
        };
        let read = || {
            let outcome = TaskOutcome::from_text(&self.outcome)
                .ok_or_else(|| corrupt("outcome", &self.outcome))?;
            let failure = match self.failure.as_str() {
                "" => None,
                failure => Some((
                    TaskFailure::from_text(failure).ok_or_else(|| corrupt("failure", failure))?,
                    FailureClass::from_text(&self.failure_class)
                        .ok_or_else(|| corrupt("failure_class", &self.failure_class))?,
                )),
            };
            Ok(TaskEnd { at, outcome, failure })
        };
        Some(read())
    }
}

/// Selects tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskFilter {
    /// Their namespace.
    pub namespace: String,
    /// Only tasks of this agent; empty for all.
    pub assignee: String,
    /// Only these states of their runs; empty for all. The phase inside BLOCKED is ignored.
    pub states: Vec<RunState>,
    /// Only tasks older than this one, the last of the page before.
    pub before: Option<Uuid>,
    /// The most tasks.
    pub limit: i64,
}

/// A page of tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskPage {
    /// The tasks, the newest first.
    pub tasks: Vec<StoredTask>,
    /// Where the next page begins; none at the end.
    pub next: Option<Uuid>,
}

const FIND: &str = concat!(include_str!("../sql/task_with_run.sql"), "where task.run_id = $1");
const LIST: &str =
    concat!(include_str!("../sql/task_with_run.sql"), include_str!("../sql/list_tasks.sql"));

/// A page of at most `filter.limit` tasks, the newest first.
///
/// # Errors
/// [`StoreError`]
pub async fn list_tasks(pool: &PgPool, filter: &TaskFilter) -> Result<TaskPage, StoreError> {
    let TaskFilter { namespace, assignee, states, before, limit } = filter;
    let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    let listing = sqlx::query_as(LIST)
        .bind(namespace)
        .bind(assignee)
        .bind(states)
        .bind(before)
        .bind(limit.saturating_add(1));
    let mut rows: Vec<TaskRow> = within(async { Ok(listing.fetch_all(pool).await?) }).await?;
    let most = usize::try_from(*limit).unwrap_or_default();
    let is_more = rows.len() > most;
    rows.truncate(most);
    let next = rows.last().map(|row| row.run_id).filter(|_| is_more);
    let tasks = rows.into_iter().map(TaskRow::into_task).collect::<Result<_, _>>()?;
    Ok(TaskPage { tasks, next })
}

/// One task; none where no run of this database with that id is one.
///
/// # Errors
/// [`StoreError`]
pub async fn find_task(pool: &PgPool, run_id: Uuid) -> Result<Option<StoredTask>, StoreError> {
    let finding = sqlx::query_as(FIND).bind(run_id);
    let found: Option<TaskRow> = within(async { Ok(finding.fetch_optional(pool).await?) }).await?;
    found.map(TaskRow::into_task).transpose()
}

/// What the assignee of a task is handed since its last reminder; none before the first one.
///
/// # Errors
/// [`StoreError`]
pub async fn reminded_instructions(
    pool: &PgPool,
    run_id: Uuid,
) -> Result<Option<String>, StoreError> {
    let finding = sqlx::query_scalar(include_str!("../sql/reminded_instructions.sql")).bind(run_id);
    let found: Option<String> = within(async { Ok(finding.fetch_optional(pool).await?) }).await?;
    // As the plan of the run has them.
    Ok(found.map(|instructions| instructions.trim().to_owned()))
}

/// As [`find_task`], in a transaction.
pub(super) async fn find_in(
    connection: &mut PgConnection,
    run_id: Uuid,
) -> Result<Option<StoredTask>, StoreError> {
    let found: Option<TaskRow> =
        sqlx::query_as(FIND).bind(run_id).fetch_optional(connection).await?;
    found.map(TaskRow::into_task).transpose()
}
