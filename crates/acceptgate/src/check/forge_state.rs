//! `action_report` with the target `forge`: the gate asks the forge what a task led to.
//!
//! A forge that does not answer is no fault of the assignee: the reasons `forge_api_unreachable` and `verify_error` make
//! the failure one of the infrastructure.

use super::Answer;
use sqlx::PgPool;
use std::collections::BTreeMap;
use std::time::Duration;
use surety_common::domain::check::{AcceptCheck, CheckKind};
use surety_common::domain::toolchain::{FORGE_TARGET, NotAsked, TaskFailure};
use surety_common::store::{self, JudgedTask, StoreError};
use surety_forge::{Forges, ProbeAnswer, Probed};
use tokio::time::timeout;
use uuid::Uuid;

/// The time limit of all questions about one task, with the client's own attempts.
const LIMIT: Duration = Duration::from_secs(45);

/// Whether the forge decides a check, and not the history of the task.
#[must_use]
pub fn is_asked(check: &AcceptCheck) -> bool {
    check.kind == CheckKind::ActionReport && check.target == FORGE_TARGET
}

/// The results of the checks that the forge decides, by their index in the list. None of a run that is no task.
///
/// # Errors
/// [`StoreError`]; then there is no verdict, and none is refused for it.
pub async fn answers(
    pool: &PgPool,
    forges: &Forges,
    task: Option<&JudgedTask>,
    checks: &[AcceptCheck],
) -> Result<BTreeMap<usize, Answer>, StoreError> {
    let asked = || checks.iter().enumerate().filter(|(_, check)| is_asked(check));
    if asked().next().is_none() {
        return Ok(BTreeMap::new());
    }
    let Some(JudgedTask { task, .. }) = task else { return Ok(BTreeMap::new()) };
    let run_id = task.run_id;
    let (_, account) = store::account_of_task(pool, task).await?;
    let asking = forges.probe(&task.payload, &account, task.happened_at);
    let answer = match timeout(LIMIT, asking).await {
        Ok(probed) => answer(&probed, run_id),
        Err(_) => Err(TaskFailure::ForgeApiUnreachable.as_str()),
    };
    Ok(asked().map(|(index, _)| (index, answer)).collect())
}

fn answer(probed: &Probed, run_id: Uuid) -> Answer {
    match &probed.answer {
        ProbeAnswer::Passed { .. } => Ok(()),
        ProbeAnswer::Failed { reason, .. } => Err(reason.as_str()),
        // The planner's configuration asked for the check, and the gate's own has no forge for it.
        ProbeAnswer::NotAsked(NotAsked::NotConfigured) => Err(TaskFailure::VerifyError.as_str()),
        // There is nothing that the forge could show.
        ProbeAnswer::NotAsked(
            NotAsked::NothingToShow
            | NotAsked::SubjectUnknown
            | NotAsked::AccountUnknown
            | NotAsked::NotServed,
        ) => Ok(()),
        ProbeAnswer::Unreachable(error) => {
            tracing::warn!(%run_id, %error, "acceptgate: the forge could not be asked about a task");
            let is_outage = error.code.is_outage();
            let failure =
                if is_outage { TaskFailure::ForgeApiUnreachable } else { TaskFailure::VerifyError };
            Err(failure.as_str())
        }
    }
}
