//! Ends the tasks that a forge does not want any more.

use super::admit::subject_lock;
use super::end::{cancel_superseded, withdrawn};
use crate::planner::Planner;
use surety_common::crash;
use surety_common::domain::fault::Fault;
use surety_common::domain::toolchain::{Placed, Withdrawal};
use surety_common::store::{Admission, KnownTask};
use uuid::Uuid;

/// Ends the open tasks that ask for what a forge withdrew, and keeps that it did: what was asked for before and arrives later
/// makes no task. A repeated call changes nothing.
///
/// # Errors
/// `database_unavailable`; then the call may be repeated, and the upkeep of any planner cancels the runs.
pub(crate) async fn withdraw(planner: &Planner, withdrawal: &Withdrawal) -> Result<(), Fault> {
    let Withdrawal { reason, source, subject, .. } = withdrawal;
    let lock = subject_lock(*source, subject);
    let mut admission = Admission::begin(&planner.pool, lock).await?;
    let known = admission.known(*source, subject).await?;
    let is_covered = |task: &&KnownTask| {
        let asked = Placed { happened_at: task.asked_at, ..task.placed.clone() };
        task.is_open && withdrawal.covers(&asked)
    };
    let tasks: Vec<Uuid> = known.iter().filter(is_covered).map(|task| task.run_id).collect();
    admission.withdraw(withdrawal, &tasks).await?;
    admission.commit().await?;
    crash::point("planner.after_withdrawal");
    for run_id in tasks {
        cancel_superseded(planner, run_id, &withdrawn(reason.as_str())).await?;
    }
    Ok(())
}
