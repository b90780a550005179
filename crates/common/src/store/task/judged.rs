//! What a verdict rests on of a task: its columns and its history, with what signs them.

use super::columns::JudgedColumns;
use super::entry::{EntryRow, JudgedRow};
use super::row::StoredTask;
use crate::domain::journal::TaskHistory;
use crate::domain::signature::{SignedEntry, TaskColumns};
use crate::store::StoreError;
use crate::store::pool::within;
use data_encoding::HEXLOWER;
use futures::TryStreamExt;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// The most entries that the gate reads of one task.
const JUDGED: i64 = 2_000;

/// The task of a run with its history, as one snapshot of the database has them.
#[derive(Debug, Clone)]
pub struct JudgedTask {
    /// The task.
    pub task: StoredTask,
    /// Its entries in the order of their chain, at most 2000.
    pub entries: Vec<EntryRow>,
    /// What is signed of it.
    pub(in crate::store) signed: SignedTask,
}

/// What is signed of a task.
#[derive(Debug, Clone, Default)]
pub(in crate::store) struct SignedTask {
    /// Its columns; none of a run without a task.
    pub(in crate::store) columns: Option<TaskColumns>,
    /// Its entries in the order of their chain.
    pub(in crate::store) entries: Vec<SignedEntry>,
}

impl SignedTask {
    /// What is signed of the task of a run, in the snapshot of a transaction. Texts are read and dropped one by one.
    pub(in crate::store) async fn find(
        connection: &mut PgConnection,
        run_id: Uuid,
    ) -> Result<Self, StoreError> {
        let columns = sqlx::query_as(include_str!("../sql/judged_task.sql")).bind(run_id);
        let columns: Option<JudgedColumns> = columns.fetch_optional(&mut *connection).await?;
        let (mut entries, mut assigned) = (Vec::new(), None);
        let reading = sqlx::query_as(include_str!("../sql/judged_entries.sql"));
        let mut rows = reading.bind(run_id).bind(None::<i64>).fetch(connection);
        while let Some(row) = rows.try_next().await? {
            let row: JudgedRow = row;
            assigned = row.assigned().map(str::to_owned).or(assigned);
            entries.push(row.signed());
        }
        let columns = columns.map(|columns| columns.signed(assigned.as_deref()));
        Ok(Self { columns, entries })
    }
}

/// The history of a task as the gate would read it now; none without an entry.
///
/// # Errors
/// [`StoreError`]
pub async fn task_history(pool: &PgPool, run_id: Uuid) -> Result<Option<TaskHistory>, StoreError> {
    let last = sqlx::query_as(include_str!("../sql/last_task_entry.sql")).bind(run_id).bind(JUDGED);
    let last: Option<JudgedRow> = within(async { Ok(last.fetch_optional(pool).await?) }).await?;
    Ok(last.map(|last| history_to(run_id, &last.signed())))
}

fn history_to(run_id: Uuid, last: &SignedEntry) -> TaskHistory {
    let digest = last.line.digest(&run_id.to_string());
    TaskHistory { entries: last.line.number, last_digest: HEXLOWER.encode(&digest) }
}

/// What the gate judges a task by; none for a run that is no task.
///
/// # Errors
/// [`StoreError`]
pub(in crate::store) async fn judged_task(
    pool: &PgPool,
    run_id: Uuid,
) -> Result<Option<JudgedTask>, StoreError> {
    within(async {
        let mut snapshot = pool.begin_with("begin isolation level repeatable read").await?;
        let Some(task) = super::row::find_in(&mut snapshot, run_id).await? else {
            return Ok(None);
        };
        let reading = sqlx::query_as(include_str!("../sql/judged_entries.sql"));
        let rows: Vec<JudgedRow> =
            reading.bind(run_id).bind(JUDGED).fetch_all(&mut *snapshot).await?;
        snapshot.commit().await?;
        let assigned = rows.iter().rev().find_map(JudgedRow::assigned);
        let columns = Some(task.judged.signed(assigned));
        let signed = SignedTask { columns, entries: rows.iter().map(JudgedRow::signed).collect() };
        let entries = rows.into_iter().map(|judged| judged.row.into_entry(run_id));
        Ok(Some(JudgedTask { task, entries: entries.collect::<Result<_, _>>()?, signed }))
    })
    .await
}

impl JudgedTask {
    /// The entries that a verdict names; none without an entry.
    pub fn history(&self) -> Option<TaskHistory> {
        self.signed.entries.last().map(|last| history_to(self.task.run_id, last))
    }
}
