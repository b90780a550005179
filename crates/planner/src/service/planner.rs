//! `PlannerService`.

use super::{NamedRun, Plans, caller, plan_leases, request, status, submission};
use crate::call::Call;
use crate::intake::{self, leases};
use crate::plan::patch::{Patched, apply_patch, parse_patch};
use crate::plan::{PlanState, normalise_plan, parse_plan};
use futures::{StreamExt, TryStreamExt, stream};
use surety_common::domain::check::Author;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::limits::Limits;
use surety_common::domain::plan::Plan;
use surety_common::domain::problem::{Code, Problem, Warning};
use surety_common::domain::step::StepState;
use surety_common::store;
use surety_common::wire::run::read_step_state;
use surety_common::wire::v1;
use surety_common::wire::v1::planner_service_server::PlannerService;
use tonic::{Request, Response, Status};

/// The most leases of one call that are extended at a time.
const HEARTBEATS_AT_ONCE: usize = 256;

#[tonic::async_trait]
impl PlannerService for Plans {
    async fn parse_plan(
        &self,
        request: Request<v1::ParsePlanRequest>,
    ) -> Result<Response<v1::ParsePlanResponse>, Status> {
        let v1::ParsePlanRequest { raw, max_plan_steps } = request.into_inner();
        let most = max_steps(max_plan_steps).map_err(status)?;
        let parsed = parse_plan(&raw, Author::Model, most);
        Ok(Response::new(parsed_response(parsed)))
    }

    async fn validate_plan(
        &self,
        request: Request<v1::ValidatePlanRequest>,
    ) -> Result<Response<v1::ValidatePlanResponse>, Status> {
        let v1::ValidatePlanRequest { plan, max_plan_steps } = request.into_inner();
        let most = max_steps(max_plan_steps).map_err(status)?;
        let plan = plan.ok_or_else(|| status(missing("plan")))?;
        let validated = Plan::try_from(plan)
            .map_err(Problem::from)
            .and_then(|plan| normalise_plan(&plan, Author::Submitter, most));
        let v1::ParsePlanResponse { ok, outcome, warnings, statuses: _ } =
            parsed_response(validated);
        use v1::parse_plan_response::Outcome as Parsed;
        use v1::validate_plan_response::Outcome;
        let outcome = outcome.map(|outcome| match outcome {
            Parsed::Plan(plan) => Outcome::Plan(plan),
            Parsed::Problem(problem) => Outcome::Problem(problem),
        });
        Ok(Response::new(v1::ValidatePlanResponse { ok, outcome, warnings }))
    }

    async fn apply_patch(
        &self,
        request: Request<v1::ApplyPatchRequest>,
    ) -> Result<Response<v1::ApplyPatchResponse>, Status> {
        let patched = patch(request.into_inner()).map_err(status)?;
        Ok(Response::new(patched_response(patched)))
    }

    async fn submit_plan(
        &self,
        request: Request<v1::SubmitPlanRequest>,
    ) -> Result<Response<v1::SubmitPlanResponse>, Status> {
        let service = self.stateful("SubmitPlan")?;
        let caller = caller(&request)?;
        let request = request.into_inner();
        let named = service.of_run(&caller, &request.run_id).await?;
        let NamedRun { id, planner, role, is_machine, .. } = named;
        // What an agent plans counts against the limits of its lease.
        if is_machine && request.lease_epoch == 0 {
            let record = planner.find(id).await.map_err(status)?;
            return Err(status(submission::not_leased(&record, request.expected_revision)));
        }
        let call = Call::of(id, caller.name(), &request).map_err(status)?;
        let submitted = submission::submit(&planner, (role, &call), id, request, None).await;
        Ok(Response::new(submitted.map_err(status)?))
    }

    async fn lease_plan(
        &self,
        request: Request<v1::LeasePlanRequest>,
    ) -> Result<Response<v1::LeasePlanResponse>, Status> {
        let service = self.stateful("LeasePlan")?;
        let caller = caller(&request)?;
        let request = request.into_inner();
        let named = match request.run_id.as_str() {
            "" => None,
            run_id => Some(service.of_run(&caller, run_id).await?),
        };
        if let Some(NamedRun { id, planner, .. }) = &named {
            plan_leases::may_be_planned(planner, *id).await.map_err(status)?;
        }
        let ask = plan_leases::ask(&caller, request).map_err(status)?;
        let leased = leases::lease(&service.shards, ask).await.map_err(status)?;
        let Some((lease, record)) = leased else {
            // It may have ended meanwhile.
            if let Some(NamedRun { id, planner, .. }) = &named {
                plan_leases::may_be_planned(planner, *id).await.map_err(status)?;
            }
            return Ok(Response::new(v1::LeasePlanResponse::default()));
        };
        let found = service.shards.of_run(lease.run_id).await.map_err(status)?;
        let Some((_, planner)) = found else {
            // The run was deleted since, and its lease with it.
            return Ok(Response::new(v1::LeasePlanResponse::default()));
        };
        let response = plan_leases::leased(&planner, lease, &record).await.map_err(status)?;
        Ok(Response::new(response))
    }

    async fn heartbeat_plan(
        &self,
        request: Request<v1::HeartbeatPlanRequest>,
    ) -> Result<Response<v1::HeartbeatPlanResponse>, Status> {
        let service = self.stateful("HeartbeatPlan")?;
        let caller = caller(&request)?;
        let v1::HeartbeatPlanRequest { planner_id, fences } = request.into_inner();
        plan_leases::few(&planner_id, &fences).map_err(status)?;
        let extend = async |fence: v1::PlanFence| {
            let lease = plan_leases::held(&caller, &fence)?;
            // A run that is gone has no lease.
            let extended = match service.shards.of_run(lease.run_id).await? {
                Some((_, planner)) => leases::extend(&planner, lease).await?,
                None => None,
            };
            Ok::<_, Fault>((fence, extended))
        };
        // Those that are under way together are one statement.
        let extended = stream::iter(fences).map(extend).buffered(HEARTBEATS_AT_ONCE);
        let beats = extended.try_fold(
            plan_leases::Beats::default(),
            async |mut beats, (fence, extended)| {
                beats.add(fence, extended);
                Ok(beats)
            },
        );
        Ok(Response::new(beats.await.map_err(status)?.0))
    }

    async fn release_plan(
        &self,
        request: Request<v1::ReleasePlanRequest>,
    ) -> Result<Response<v1::ReleasePlanResponse>, Status> {
        let service = self.stateful("ReleasePlan")?;
        let caller = caller(&request)?;
        let v1::ReleasePlanRequest { fence, reason } = request.into_inner();
        request::read_reason(&reason).map_err(status)?;
        let fence = fence.ok_or_else(|| status(missing("fence")))?;
        let NamedRun { id, planner, .. } = service.of_run(&caller, &fence.run_id).await?;
        let lease = plan_leases::held(&caller, &fence).map_err(status)?;
        leases::release(&planner, &lease).await.map_err(status)?;
        tracing::info!(run_id = %id, "waits: a planning agent released a plan");
        Ok(Response::new(v1::ReleasePlanResponse {}))
    }

    async fn get_plan(
        &self,
        request: Request<v1::GetPlanRequest>,
    ) -> Result<Response<v1::GetPlanResponse>, Status> {
        let service = self.stateful("GetPlan")?;
        let caller = caller(&request)?;
        let v1::GetPlanRequest { run_id, revision } = request.into_inner();
        let NamedRun { id, planner, .. } = service.of_run(&caller, &run_id).await?;
        let record = planner.find(id).await.map_err(status)?;
        let stored = store::find_plan(&planner.pool, id, revision)
            .await
            .map_err(status)?
            .ok_or_else(|| {
                let message = format!("run {id} has no plan revision {revision}");
                status(Fault::new(FaultCode::PlanNotFound, message))
            })?;
        let plan = store::plan_of(&stored, id).map_err(status)?;
        let current = stored.revision == record.execution.plan_revision;
        let statuses =
            if current { statuses(&plan, record.execution.step_states()) } else { Vec::new() };
        Ok(Response::new(v1::GetPlanResponse {
            plan: Some(v1::Plan {
                revision: stored.revision,
                digest: stored.digest,
                ..plan.into()
            }),
            statuses,
            parent_digest: stored.parent_digest,
            reason: stored.reason,
        }))
    }

    async fn request_replan(
        &self,
        request: Request<v1::RequestReplanRequest>,
    ) -> Result<Response<v1::RequestReplanResponse>, Status> {
        let service = self.stateful("RequestReplan")?;
        let caller = caller(&request)?;
        let request = request.into_inner();
        let NamedRun { id, planner, .. } = service.of_run(&caller, &request.run_id).await?;
        let call = Call::of(id, caller.name(), &request).map_err(status)?;
        let cause = request::read_replan_cause(request.cause).map_err(status)?;
        let reason = request::read_reason(&request.reason).map_err(status)?;
        let run = intake::request_replan(&planner, id, &call, (cause, &reason)).await;
        Ok(Response::new(v1::RequestReplanResponse { run: Some(run.map_err(status)?) }))
    }
}

fn max_steps(wanted: u32) -> Result<u32, Problem> {
    let default = Limits::default();
    let limits = match wanted {
        0 => default,
        max_plan_steps => Limits { max_plan_steps, ..default },
    };
    let here = |problem| Problem { field: Some("max_plan_steps".to_owned()), ..problem };
    limits.validate().map_err(here)?;
    Ok(limits.max_plan_steps)
}

fn wire_warnings(warnings: Vec<Warning>) -> Vec<v1::Warning> {
    warnings.into_iter().map(Into::into).collect()
}

fn parsed_response(parsed: Result<(Plan, Vec<Warning>), Problem>) -> v1::ParsePlanResponse {
    use v1::parse_plan_response::Outcome;
    match parsed {
        Ok((plan, warnings)) => v1::ParsePlanResponse {
            ok: true,
            statuses: statuses(&plan, std::iter::empty()),
            outcome: Some(Outcome::Plan(v1::Plan { digest: plan.digest(), ..plan.into() })),
            warnings: wire_warnings(warnings),
        },
        Err(problem) => v1::ParsePlanResponse {
            ok: false,
            outcome: Some(Outcome::Problem(problem.into())),
            warnings: Vec::new(),
            statuses: Vec::new(),
        },
    }
}

/// The states of a plan's steps; pending by default.
fn statuses(plan: &Plan, states: impl Iterator<Item = StepState>) -> Vec<v1::StepStatus> {
    let states = states.chain(std::iter::repeat(StepState::Pending));
    plan.steps
        .iter()
        .zip(states)
        .map(|(step, state)| v1::StepStatus {
            step_id: step.id.clone(),
            state: v1::StepState::from(state).into(),
        })
        .collect()
}

/// An invalid patch is part of the answer; only an invalid or missing plan is an error.
fn patch(request: v1::ApplyPatchRequest) -> Result<Result<Patched, Problem>, Problem> {
    use v1::apply_patch_request::PlanSource;
    let v1::ApplyPatchRequest { plan_source, statuses, patch, max_plan_steps } = request;
    let max_plan_steps = max_steps(max_plan_steps)?;
    // The plan may already exceed the capacity: then the error is the patch's, not the plan's.
    let any_length = u32::MAX;
    let (plan, _) = match plan_source {
        Some(PlanSource::Plan(plan)) => {
            let plan = Plan::try_from(plan).map_err(Problem::from)?;
            normalise_plan(&plan, Author::Service, any_length)?
        }
        Some(PlanSource::PlanText(text)) => parse_plan(&text, Author::Service, any_length)?,
        None => return Err(missing("plan")),
    };
    let states = states_of(&plan, statuses)?;
    let state = PlanState { plan, statuses: states };
    Ok(parse_patch(&patch, Author::Model).and_then(|(patch, warnings)| {
        let mut patched = apply_patch(&state, patch, max_plan_steps)?;
        patched.warnings.splice(0..0, warnings);
        Ok(patched)
    }))
}

fn states_of(plan: &Plan, given: Vec<v1::StepStatus>) -> Result<Vec<StepState>, Problem> {
    let mut states = vec![StepState::Pending; plan.steps.len()];
    for (index, status) in given.into_iter().enumerate() {
        let v1::StepStatus { step_id, state } = status;
        let at = |field: &str| format!("statuses[{index}].{field}");
        let place = plan.steps.iter().position(|step| step.id == step_id).ok_or_else(|| {
            Problem::at(Code::UnknownStep, at("step_id"), format!("no step has the id {step_id:?}"))
        })?;
        let state = read_step_state(state).ok_or_else(|| {
            Problem::at(Code::TypeMismatch, at("state"), format!("{state} is not a step state"))
        })?;
        if let Some(slot) = states.get_mut(place) {
            *slot = state;
        }
    }
    Ok(states)
}

fn patched_response(patched: Result<Patched, Problem>) -> v1::ApplyPatchResponse {
    use v1::apply_patch_response::Outcome;
    match patched {
        Ok(Patched { state, truncated_add, warnings }) => v1::ApplyPatchResponse {
            ok: true,
            statuses: statuses(&state.plan, state.statuses.into_iter()),
            outcome: Some(Outcome::Plan(v1::Plan {
                digest: state.plan.digest(),
                ..state.plan.into()
            })),
            truncated_add,
            warnings: wire_warnings(warnings),
        },
        Err(problem) => v1::ApplyPatchResponse {
            ok: false,
            outcome: Some(Outcome::Problem(problem.into())),
            ..v1::ApplyPatchResponse::default()
        },
    }
}

fn missing(field: &str) -> Problem {
    Problem::at(Code::FieldMissing, field, "is missing; set it")
}
