//! Answers to confirmations: of one tool call, and of what a verdict is in doubt about.

use super::grant::{Granted, granted};
use super::graph_of;
use super::person::Person;
use super::shown::{check_digest, check_shown};
use crate::call::Call;
use crate::planner::Planner;
use surety_common::domain::acceptance::{Acceptance, Resolution};
use surety_common::domain::confirmation::{
    AfterDenial, CallResolution, CallToConfirm, call_digest,
};
use surety_common::domain::execution::PlanAnswer;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::json::parse_stored;
use surety_common::domain::machine::Refusal;
use surety_common::domain::plan::ToolCall;
use surety_common::domain::planning::PlanApproval;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::run::RunRecord;
use surety_common::store::Topic;
use surety_common::wire::v1;
use uuid::Uuid;

/// The field of an answer that names the digest of what was shown.
const CALL: &str = "call_digest";

/// The answer to a confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Confirmation {
    /// Whether it approves.
    pub(crate) approved: bool,
    /// Whether a denial ends the run.
    pub(crate) stop: bool,
    /// The digest of what was shown.
    pub(crate) digest: String,
    /// A comment; may be empty.
    pub(crate) comment: String,
    /// What is granted with the approval of a call.
    pub(crate) grant: Option<Granted>,
}

impl Planner {
    /// Records a person's answer to the confirmation of a call, or to what a verdict is in doubt about. The first
    /// answer counts.
    ///
    /// # Errors
    /// `run_not_found`, `wait_closed`, `confirmation_mismatch`, `confirmation_expired`, `difference_not_shown`,
    /// `permission_denied`, `type_mismatch`, `grant_mismatch`, `too_large`, `too_many_grants`, `database_unavailable`.
    pub(crate) async fn resolve(
        &self,
        run_id: Uuid,
        wait_id: Uuid,
        call: &Call,
        answer: &Confirmation,
    ) -> Result<v1::Run, Fault> {
        let person = Person::of(self, run_id, call).await?;
        let resolved = self.change_once(run_id, call, |record, draft| {
            person.check(record)?;
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
    let wait =
        record.execution.waits().find(|wait| wait.id == wait_id).ok_or_else(|| {
            closed("the wait was already answered; read the run's state".to_owned())
        })?;
    match (&wait.confirmation, &wait.acceptance, &wait.plan_approval) {
        (Some(asked), ..) => give_call_answer(record, draft, (wait_id, by), (asked, answer)),
        (None, Some(asked), _) => give_acceptance(record, draft, (wait_id, by), (asked, answer)),
        (None, None, Some(asked)) => {
            give_plan_answer(record, draft, (wait_id, by), (asked, answer))
        }
        (None, None, None) => {
            Err(closed(format!("this wait takes no confirmation; to end it: {}", wait.unblocks)))
        }
    }
}

fn give_call_answer(
    record: &RunRecord,
    draft: &mut Draft,
    (wait_id, by): (Uuid, &str),
    (asked, answer): (&CallToConfirm, &Confirmation),
) -> Result<(), Fault> {
    if asked.expires_at <= draft.now() {
        let at = asked.expires_at.to_rfc3339();
        let message = format!("the time for this confirmation passed at {at}");
        return Err(Fault::new(FaultCode::ConfirmationExpired, message));
    }
    if asked.asked_by == by {
        let message = format!("{by:?} is the driver that asks for the call, and never approves it");
        return Err(Fault::new(FaultCode::PermissionDenied, message));
    }
    check_digest(&asked.digest, &answer.digest, CALL)?;
    check_shown(&asked.digest, digest_of_call(record, asked), CALL)?;
    let grant = answer.grant.as_ref();
    let grant = grant.map(|terms| granted(record, (wait_id, asked), terms, (by, draft.now())));
    let resolution = CallResolution {
        by: Some(by.to_owned()),
        approved: answer.approved,
        comment: answer.comment.clone(),
        grant: grant.transpose()?,
    };
    let spec = &record.spec;
    let after = AfterDenial::of(&spec.policy.confirm, spec.driver.thinks(), answer.stop);
    draft.resolve_call(&graph_of(record), wait_id, &resolution, after).map_err(refused)
}

fn give_acceptance(
    record: &RunRecord,
    draft: &mut Draft,
    (wait_id, by): (Uuid, &str),
    (asked, answer): (&Acceptance, &Confirmation),
) -> Result<(), Fault> {
    if answer.stop {
        let message = "a denied verdict decides about its run; leave stop out";
        return Err(Problem::at(Code::TypeMismatch, "stop", message).into());
    }
    if answer.grant.is_some() {
        let message = "only the approval of a tool call grants further calls; leave it out";
        return Err(Problem::at(Code::TypeMismatch, "grant", message).into());
    }
    check_digest(&asked.digest, &answer.digest, CALL)?;
    let whole = Acceptance::new(asked.difference.clone(), asked.cautions.clone());
    check_shown(&asked.digest, Some(whole.digest), CALL)?;
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
    draft.resolve(&graph_of(record), wait_id, &resolution).map_err(refused)
}

fn give_plan_answer(
    record: &RunRecord,
    draft: &mut Draft,
    (wait_id, by): (Uuid, &str),
    (asked, answer): (&PlanApproval, &Confirmation),
) -> Result<(), Fault> {
    if asked.expires_at <= draft.now() {
        let at = asked.expires_at.to_rfc3339();
        let message = format!("the time for this approval passed at {at}");
        return Err(Fault::new(FaultCode::ConfirmationExpired, message));
    }
    if asked.asked_by == by {
        let message = format!("{by:?} submitted the plan, and never approves it");
        return Err(Fault::new(FaultCode::PermissionDenied, message));
    }
    if answer.stop || answer.grant.is_some() {
        let (field, message) = match answer.stop {
            true => ("stop", "a denied plan ends its run in any case; leave stop out"),
            false => {
                ("grant", "only the approval of a tool call grants further calls; leave it out")
            }
        };
        return Err(Problem::at(Code::TypeMismatch, field, message).into());
    }
    check_digest(&asked.digest, &answer.digest, CALL)?;
    check_shown(&asked.digest, Some(record.plan_digest.clone()), CALL)?;
    let Confirmation { approved, comment, .. } = answer;
    let answer = PlanAnswer { by, approved: *approved, comment };
    draft.resolve_plan(&graph_of(record), wait_id, answer).map_err(refused)
}

/// The digest of the call that is shown, under the present plan; none where its arguments do not read.
fn digest_of_call(record: &RunRecord, asked: &CallToConfirm) -> Option<String> {
    let arguments = parse_stored(&asked.arguments_json).ok()?.value;
    let call = ToolCall { name: asked.tool.clone(), arguments };
    Some(call_digest(&call, &record.plan_digest))
}

fn closed(message: String) -> Fault {
    Fault::new(FaultCode::WaitClosed, message)
}

fn refused(refusal: Refusal) -> Fault {
    closed(refusal.to_string())
}
