//! Plans as they are submitted, by a person, an agent or a model of the service: one function for all of them.

use super::request::{self, Sender};
use crate::call::Call;
use crate::intake::{self, leases};
use crate::planner::Planner;
use surety_common::domain::decision::{Usage, UsageSource};
use surety_common::domain::fault::{Fault, Reason};
use surety_common::domain::identity::Role;
use surety_common::domain::model::ModelReply;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::run::RunRecord;
use surety_common::wire::v1;
use surety_common::wire::v1::submit_plan_request::PlanSource;
use surety_model::Said;
use uuid::Uuid;

/// Stores a plan or a patch, or counts the refusal of one that was sent under a lease.
///
/// # Errors
/// The codes of `SubmitPlan`.
pub(super) async fn submit(
    planner: &Planner,
    (role, call): (Role, &Call),
    id: Uuid,
    mut request: v1::SubmitPlanRequest,
    planned: Option<(ModelReply, Usage)>,
) -> Result<v1::SubmitPlanResponse, Fault> {
    if let Some(first) = planner.answered_before(call).await? {
        return Ok(first);
    }
    let record = planner.find(id).await?;
    // A driver of the run plans as one, under a lease, whatever role this token has.
    let drives = role != Role::Driver && planner.drives(&record, call).await?;
    if drives && request.lease_epoch == 0 {
        return Err(not_leased(&record, request.expected_revision));
    }
    let role = if drives { Role::Driver } else { role };
    let policy = planner.policies.find(&record.spec.namespace).await?;
    let sender = Sender::new(call.by(), role, policy);
    intake::wanted(&record, request.expected_revision)?;
    let lease_epoch = i64::try_from(request.lease_epoch).unwrap_or(i64::MAX);
    request::check_submission(&request)?;
    let (model, usage) = match planned {
        Some((model, usage)) => (Some(model), Some((usage, UsageSource::Measured))),
        None => (None, request.usage.take().map(|usage| (usage.into(), UsageSource::Reported))),
    };
    let is_cut = model.as_ref().is_some_and(|model| model.cut);
    let read = match is_cut {
        true => Err(cut().into()),
        false => request::read_new_plan(request, &record, &sender),
    };
    let read = match read {
        Ok(read) => read,
        // A refusal counts where an agent has leased the plan.
        Err(fault) if lease_epoch != 0 => {
            let under = (lease_epoch, usage);
            return Err(intake::refuse(planner, call, &record, under, fault).await?);
        }
        Err(fault) => return Err(fault),
    };
    let request::ReadPlan { mut new, truncated_add, warnings } = read;
    (new.model, new.usage) = (model, usage);
    let plan = v1::Plan {
        revision: new.expected_revision + 1,
        digest: new.plan.digest(),
        ..new.plan.clone().into()
    };
    let warnings = warnings.into_iter().map(Into::into).collect();
    let respond =
        |run| v1::SubmitPlanResponse { plan: Some(plan), warnings, run: Some(run), truncated_add };
    intake::submit(planner, call, record, new, respond).await
}

/// Why an agent's plan without a lease is refused: a lease helps only where the run accepts a plan.
pub(super) fn not_leased(record: &RunRecord, expected_revision: u32) -> Fault {
    match intake::wanted(record, expected_revision) {
        Ok(()) => leases::not_leased(record.spec.id),
        Err(fault) => fault,
    }
}

/// Submits what a model planned under its lease. A refusal is counted, and is no error here.
///
/// # Errors
/// `lease_lost`, `version_conflict`, `run_terminal`, `plan_not_wanted`, `database_unavailable`.
pub(crate) async fn submit_planned(
    planner: &Planner,
    name: &str,
    (record, lease_epoch): (&RunRecord, i64),
    said: Said,
) -> Result<(), Fault> {
    let Said { text, usage, model, .. } = said;
    let id = record.spec.id;
    let plan_source = match record.plan {
        None => PlanSource::PlanText(text),
        Some(_) => PlanSource::PatchText(text),
    };
    let request = v1::SubmitPlanRequest {
        run_id: id.to_string(),
        expected_revision: record.execution.plan_revision,
        plan_source: Some(plan_source),
        lease_epoch: u64::try_from(lease_epoch).unwrap_or_default(),
        ..v1::SubmitPlanRequest::default()
    };
    let call = Call::of(id, name, &request)?;
    let by = (Role::Driver, &call);
    match submit(planner, by, id, request, Some((model, usage))).await {
        Ok(_) => Ok(()),
        Err(Fault { reason: Reason::Input(code), .. }) => {
            tracing::info!(run_id = %id, %code, "model: a plan was refused");
            Ok(())
        }
        Err(fault) => Err(fault),
    }
}

fn cut() -> Problem {
    let message = "the token limit ended the reply before its end, so nothing of it was read";
    Problem::new(Code::ReplyCut, message)
}
