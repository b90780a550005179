//! `action_report`: the gate reads the history of the run's task.
//!
//! Only runs that a planner made for tasks have a task's row, so in any other run nothing was reported.

use sqlx::PgPool;
use std::collections::BTreeMap;
use surety_common::domain::check::{AcceptCheck, CheckKind};
use surety_common::domain::toolchain::{Compatibility, ReportResult, TaskEntry, TaskFacts, judge};
use surety_common::store::{self, StoreError};
use uuid::Uuid;

/// The results of the `action_report` checks, by their index in the list. None of a run that is no task.
///
/// # Errors
/// [`StoreError`]; then there is no verdict, and none is refused for it.
pub async fn results(
    pool: &PgPool,
    run_id: Uuid,
    checks: &[AcceptCheck],
) -> Result<BTreeMap<usize, ReportResult>, StoreError> {
    let asked = || checks.iter().enumerate().filter(|(_, check)| is_asked(check));
    if asked().next().is_none() {
        return Ok(BTreeMap::new());
    }
    let Some((action_type, assignee, began_at, rows)) = store::task_facts(pool, run_id).await?
    else {
        return Ok(BTreeMap::new());
    };
    let outputs = rows.iter().filter(|row| !row.attachment.is_empty()).count();
    let entries: Vec<TaskEntry> = rows.into_iter().map(|row| row.entry).collect();
    let facts = TaskFacts {
        action_type: &action_type,
        assignee: &assignee,
        began_at,
        entries: &entries,
        outputs,
    };
    let result = |check: &AcceptCheck| judge(&facts, Compatibility::of_params(&check.params));
    Ok(asked().map(|(index, check)| (index, result(check))).collect())
}

fn is_asked(check: &AcceptCheck) -> bool {
    check.kind == CheckKind::ActionReport && !super::forge_state::is_asked(check)
}
