//! `action_report`: the gate reads the history of the run's task.
//!
//! Only runs that a planner made for tasks have a task's row, so in any other run nothing was reported.

use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use surety_common::domain::check::{AcceptCheck, CheckKind};
use surety_common::domain::toolchain::{Compatibility, ReportResult, TaskEntry, TaskFacts, judge};
use surety_common::store::JudgedTask;

/// The results of the `action_report` checks, by their index in the list. None of a run that is no task. A report counts
/// from `began_at`, the time of the run, which is signed.
pub fn results(
    task: Option<&JudgedTask>,
    began_at: DateTime<Utc>,
    checks: &[AcceptCheck],
) -> BTreeMap<usize, ReportResult> {
    let asked = checks.iter().enumerate().filter(|(_, check)| is_asked(check));
    let Some(JudgedTask { task, entries: rows, .. }) = task else { return BTreeMap::new() };
    let outputs = rows.iter().filter(|row| !row.attachment.is_empty()).count();
    let entries: Vec<TaskEntry> = rows.iter().map(|row| row.entry.clone()).collect();
    let facts = TaskFacts {
        action_type: &task.judged.action_type,
        assignee: &task.assignee,
        began_at,
        entries: &entries,
        outputs,
    };
    let result = |check: &AcceptCheck| judge(&facts, Compatibility::of_params(&check.params));
    asked.map(|(index, check)| (index, result(check))).collect()
}

fn is_asked(check: &AcceptCheck) -> bool {
    check.kind == CheckKind::ActionReport && !super::forge_state::is_asked(check)
}
