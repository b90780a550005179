//! Answers to what a verdict is in doubt about.

use super::graph_of;
use crate::call::Call;
use crate::planner::Planner;
use surety_common::domain::acceptance::Resolution;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::run::RunRecord;
use surety_common::store::Topic;
use surety_common::wire::v1;
use uuid::Uuid;

/// The answer to a confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Confirmation {
    /// Whether it approves.
    pub(crate) approved: bool,
    /// The digest of what was shown.
    pub(crate) digest: String,
    /// A comment; may be empty.
    pub(crate) comment: String,
}

impl Planner {
    /// Records a person's answer to what a verdict is in doubt about. The first answer counts.
    ///
    /// # Errors
    /// `run_not_found`, `wait_closed`, `confirmation_mismatch`, `difference_not_shown`,
    /// `database_unavailable`.
    pub(crate) async fn resolve(
        &self,
        run_id: Uuid,
        wait_id: Uuid,
        call: &Call,
        answer: &Confirmation,
    ) -> Result<v1::Run, Fault> {
        let resolved = self.change_once(run_id, call, |record, draft| {
            give_resolution(record, draft, (wait_id, call.by()), answer)
        });
        let run = resolved.await?;
        self.waker.wake_now(Topic::Ready);
        Ok(run)
    }
}

pub(super) fn give_resolution(
    record: &RunRecord,
    draft: &mut Draft,
    (wait_id, by): (Uuid, &str),
    answer: &Confirmation,
) -> Result<(), Fault> {
    let closed = |message: String| Fault::new(FaultCode::WaitClosed, message);
    let wait =
        record.execution.waits().find(|wait| wait.id == wait_id).ok_or_else(|| {
            closed("the wait was already answered; read the run's state".to_owned())
        })?;
    let asked = wait.acceptance.as_deref().ok_or_else(|| {
        closed(format!("this wait takes no confirmation; to end it: {}", wait.unblocks))
    })?;
    if answer.digest != asked.digest {
        let message = format!(
            "the digest {:?} is not {}, that of what is asked now; look at it again",
            answer.digest, asked.digest
        );
        let fault = Fault::new(FaultCode::ConfirmationMismatch, message);
        return Err(fault.with_field("call_digest"));
    }
    let not_shown = asked.difference.not_shown.as_str();
    if answer.approved && !not_shown.is_empty() {
        let message = format!("what changed cannot be shown whole: {not_shown}");
        return Err(Fault::new(FaultCode::DifferenceNotShown, message));
    }
    let resolution = Resolution {
        by: by.to_owned(),
        approved: answer.approved,
        digest: asked.digest.clone(),
        workspace: asked.difference.workspace.clone(),
        comment: answer.comment.clone(),
    };
    let refused = |refusal: surety_common::domain::machine::Refusal| closed(refusal.to_string());
    draft.resolve(&graph_of(record), wait_id, &resolution).map_err(refused)
}
