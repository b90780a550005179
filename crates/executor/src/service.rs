//! The RPCs of the executor: wire to domain, one call, domain to wire.

use crate::context::decision_text;
use crate::decision::parse_decision;
use crate::participant::{
    Ask, Leased, LeasedStep, Participants, Report, Submission, TurnResult, step_context,
};
use crate::stateless;
use crate::tool::{Toolbox, shown};
use crate::worker::Workers;
use futures::stream::BoxStream;
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::confirmation::ConfirmPolicy;
use surety_common::domain::decision::{ExecuteDecision, Usage};
use surety_common::domain::execution::StepProgress;
use surety_common::domain::fault::Fault;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::receipt::EvidenceReceipt;
use surety_common::domain::step::StepState;
use surety_common::domain::text::{MAX_REASON, check_text};
use surety_common::wire::caller::Caller;
use surety_common::wire::run::blocked;
use surety_common::wire::selection::Selection;
use surety_common::wire::status::{needs_database, to_status};
use surety_common::wire::trace::TraceContext;
use surety_common::wire::v1;
use surety_common::wire::v1::executor_service_server::ExecutorService;
use surety_common::wire::v1::submit_decision_request::DecisionSource;
use surety_common::wire::v1::tool_service_server::ToolService;
use surety_common::wire::value::{id, patience, sha256_of, timestamp};
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

/// The longest wait of one call for a step.
const LONGEST_POLL: Duration = Duration::from_secs(60);
/// The wait of a call that names none.
const POLL: Duration = Duration::from_secs(30);
/// The longest name of a driver, in bytes.
const MAX_DRIVER_ID: usize = 200;
/// The longest idempotency key, in bytes.
const MAX_REQUEST_ID: usize = 200;
/// The most leases of one heartbeat.
const MAX_FENCES: usize = 1000;

/// The executor's handlers.
#[derive(Clone)]
pub(crate) struct Service {
    tools: Arc<Toolbox>,
    /// None without a database.
    served: Option<(Participants, Workers)>,
}

impl Service {
    /// Creates handlers over the tools and the participants of this process.
    pub(crate) fn new(tools: Arc<Toolbox>, participants: Participants, workers: Workers) -> Self {
        Self { tools, served: Some((participants, workers)) }
    }

    /// The handlers that store no state.
    pub(crate) fn stateless(tools: Arc<Toolbox>) -> Self {
        Self { tools, served: None }
    }

    fn participants(&self, rpc: &str) -> Result<&Participants, Status> {
        let served = self.served.as_ref().ok_or_else(|| needs_database(rpc))?;
        Ok(&served.0)
    }

    /// What needs a confirmation in every run of a namespace; nothing where none is named.
    async fn confirmed(&self, caller: &Caller, namespace: &str) -> Result<ConfirmPolicy, Fault> {
        match (&self.served, namespace) {
            (_, "") | (None, _) => Ok(ConfirmPolicy::default()),
            (Some((participants, _)), namespace) => participants.confirmed(caller, namespace).await,
        }
    }
}

#[tonic::async_trait]
impl ExecutorService for Service {
    async fn parse_decision(
        &self,
        request: Request<v1::ParseDecisionRequest>,
    ) -> Result<Response<v1::ParseDecisionResponse>, Status> {
        let v1::ParseDecisionRequest { raw } = request.into_inner();
        Ok(Response::new(stateless::read_decision(&raw)))
    }

    async fn lease_step(
        &self,
        request: Request<v1::LeaseStepRequest>,
    ) -> Result<Response<v1::LeaseStepResponse>, Status> {
        let participants = self.participants("LeaseStep")?;
        let caller = Caller::of(&request).map_err(status)?;
        let ask = ask(&caller, request.into_inner()).map_err(status)?;
        let leased = participants.lease(&caller, ask).await.map_err(status)?;
        Ok(Response::new(match leased {
            Leased::Step(leased) => v1::LeaseStepResponse {
                lease: Some(lease(&leased)),
                context: Some(step_context(&leased.scene, &participants.workshop)),
                ..v1::LeaseStepResponse::default()
            },
            Leased::Nothing(None) => v1::LeaseStepResponse::default(),
            Leased::Nothing(Some(record)) => v1::LeaseStepResponse {
                run_state: v1::RunState::from(record.execution.state).into(),
                blocked: blocked(&record.execution),
                ..v1::LeaseStepResponse::default()
            },
        }))
    }

    async fn submit_decision(
        &self,
        request: Request<v1::SubmitDecisionRequest>,
    ) -> Result<Response<v1::SubmitDecisionResponse>, Status> {
        let participants = self.participants("SubmitDecision")?;
        let caller = Caller::of(&request).map_err(status)?;
        let trace = request.extensions().get::<TraceContext>();
        let trace_parent = trace.map(|trace| trace.traceparent().to_owned()).unwrap_or_default();
        let submission = submission(request.into_inner(), trace_parent).map_err(status)?;
        let text = submission.text.clone();
        let result = participants.submit(&caller, submission).await.map_err(status)?;
        let next = result.next.as_ref();
        let next = next.map(|scene| step_context(scene, &participants.workshop));
        Ok(Response::new(submitted(result, &text, next)))
    }

    async fn record_receipt(
        &self,
        request: Request<v1::RecordReceiptRequest>,
    ) -> Result<Response<v1::RecordReceiptResponse>, Status> {
        let participants = self.participants("RecordReceipt")?;
        let caller = Caller::of(&request).map_err(status)?;
        let report = report(request.into_inner()).map_err(status)?;
        Ok(Response::new(participants.record(&caller, report).await.map_err(status)?))
    }

    async fn heartbeat(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatResponse>, Status> {
        let participants = self.participants("Heartbeat")?;
        let caller = Caller::of(&request).map_err(status)?;
        let v1::HeartbeatRequest { driver_id, fences } = request.into_inner();
        named(&driver_id).map_err(status)?;
        if fences.len() > MAX_FENCES {
            let message = format!("names {} leases; at most {MAX_FENCES} at a time", fences.len());
            return Err(status(Problem::at(Code::LimitOutOfRange, "fences", message)));
        }
        let leases = fences.iter().map(|fence| Ok((fence_of(fence)?, fence)));
        let leases: Vec<_> = leases.collect::<Result<_, Fault>>().map_err(status)?;
        let held: Vec<(Uuid, i64)> = leases.iter().map(|(held, _)| *held).collect();
        let extended = participants.extend(&caller, &held).await.map_err(status)?;
        let mut response = v1::HeartbeatResponse::default();
        for ((_, fence), extended) in leases.into_iter().zip(extended) {
            match extended {
                None => response.lost.push(fence.clone()),
                Some(extended) => {
                    let earlier = response.expires_at.map(|at| (at.seconds, at.nanos));
                    let expires_at = timestamp(extended.expires_at);
                    // The first of the leases that ends.
                    if earlier.is_none_or(|at| (expires_at.seconds, expires_at.nanos) < at) {
                        response.expires_at = Some(expires_at);
                    }
                    if extended.withheld {
                        response.stopping.push(fence.clone());
                    }
                }
            }
        }
        Ok(Response::new(response))
    }

    async fn release_step(
        &self,
        request: Request<v1::ReleaseStepRequest>,
    ) -> Result<Response<v1::ReleaseStepResponse>, Status> {
        let participants = self.participants("ReleaseStep")?;
        let caller = Caller::of(&request).map_err(status)?;
        let v1::ReleaseStepRequest { fence, reason } = request.into_inner();
        check_text("reason", reason.trim(), MAX_REASON).map_err(status)?;
        let fence = fence.ok_or_else(|| missing("fence")).map_err(status)?;
        let (run_id, lease_epoch) = fence_of(&fence).map_err(status)?;
        let step = (run_id, fence.step_id.as_str());
        let state = participants.release(&caller, step, lease_epoch).await.map_err(status)?;
        tracing::info!(%run_id, step = fence.step_id, "waits: a driver released its step");
        Ok(Response::new(v1::ReleaseStepResponse { step_state: v1::StepState::from(state).into() }))
    }
}

fn status(fault: impl Into<Fault>) -> Status {
    to_status(&fault.into())
}

fn missing(field: &str) -> Problem {
    Problem::at(Code::FieldMissing, field, "is missing; set it")
}

/// A driver's name that can be stored.
fn named(driver_id: &str) -> Result<String, Problem> {
    let name = driver_id.trim();
    if name.is_empty() {
        return Err(missing("driver_id"));
    }
    if name.len() > MAX_DRIVER_ID {
        let message = format!("is longer than {MAX_DRIVER_ID} bytes; shorten it");
        return Err(Problem::at(Code::TooLarge, "driver_id", message));
    }
    if name.contains(char::is_control) {
        let message = "contains a control character; use letters and digits";
        return Err(Problem::at(Code::TypeMismatch, "driver_id", message));
    }
    Ok(name.to_owned())
}

fn ask(caller: &Caller, request: v1::LeaseStepRequest) -> Result<Ask, Fault> {
    let v1::LeaseStepRequest { driver_id, namespace, run_id, wait, namespaces, labels } = request;
    let run_id = match run_id.as_str() {
        "" => None,
        text => Some(id("run_id", text)?),
    };
    let selection = Selection::read(caller, namespace, namespaces, labels)?;
    let patience = match wait {
        None => POLL,
        Some(wait) => patience("wait", wait)?.min(LONGEST_POLL),
    };
    Ok(Ask { driver_id: named(&driver_id)?, selection, run_id, patience })
}

/// The run and the fencing token of a lease.
fn fence_of(fence: &v1::StepFence) -> Result<(Uuid, i64), Fault> {
    let run_id = id("fence.run_id", &fence.run_id)?;
    Ok((run_id, i64::try_from(fence.lease_epoch).unwrap_or(i64::MAX)))
}

fn submission(
    request: v1::SubmitDecisionRequest,
    trace_parent: String,
) -> Result<Submission, Fault> {
    let v1::SubmitDecisionRequest { fence, turn, decision_source, usage } = request;
    let fence = fence.ok_or_else(|| missing("fence"))?;
    let (run_id, lease_epoch) = fence_of(&fence)?;
    let text = match decision_source {
        None => return Err(missing("decision").into()),
        Some(DecisionSource::Raw(raw)) => raw,
        Some(DecisionSource::Decision(decision)) => {
            let decision = ExecuteDecision::try_from(decision);
            decision_text(&decision.map_err(|error| error.under("decision"))?)
        }
    };
    if text.contains('\0') {
        let message = "contains the character U+0000, which cannot be stored; remove it";
        return Err(Problem::at(Code::TypeMismatch, "raw", message).into());
    }
    let usage = usage.map(Usage::from);
    let step_id = fence.step_id;
    let model = None;
    Ok(Submission { run_id, step_id, lease_epoch, turn, text, usage, trace_parent, model })
}

fn report(request: v1::RecordReceiptRequest) -> Result<Report, Fault> {
    let request_digest = sha256_of(&request);
    let v1::RecordReceiptRequest { fence, receipt, request_id } = request;
    let fence = fence.ok_or_else(|| missing("fence"))?;
    let (run_id, lease_epoch) = fence_of(&fence)?;
    if request_id.trim().is_empty() {
        return Err(missing("request_id").into());
    }
    if request_id.len() > MAX_REQUEST_ID {
        let message = format!("is longer than {MAX_REQUEST_ID} bytes; shorten it");
        return Err(Problem::at(Code::TooLarge, "request_id", message).into());
    }
    if request_id.contains('\0') {
        let message = "contains the character U+0000, which cannot be stored; remove it";
        return Err(Problem::at(Code::TypeMismatch, "request_id", message).into());
    }
    let receipt = receipt.ok_or_else(|| missing("receipt"))?;
    let receipt = EvidenceReceipt::try_from(receipt).map_err(|error| error.under("receipt"))?;
    let step_id = fence.step_id;
    let report = Report { run_id, step_id, lease_epoch, receipt, request_id, request_digest };
    report.check()?;
    Ok(report)
}

fn lease(leased: &LeasedStep) -> v1::StepLease {
    let LeasedStep { lease, scene } = leased;
    v1::StepLease {
        run_id: lease.run_id.to_string(),
        step_id: scene.step().id,
        lease_epoch: u64::try_from(lease.lease_epoch).unwrap_or_default(),
        expires_at: Some(timestamp(lease.expires_at)),
        attempt: scene.progress().attempt,
        plan_revision: scene.record.execution.plan_revision,
        traceparent: scene.record.spec.trace_parent.clone(),
    }
}

/// What a turn, given by its attempt and number, led to whose call ended after the turn was stored; none where the
/// step goes on, as with the next decision.
fn later_end(run_ended: bool, step: &StepProgress, turn: (u32, u32)) -> Option<v1::TurnOutcome> {
    if turn != (step.attempt, step.rounds) {
        return None;
    }
    if run_ended {
        return Some(v1::TurnOutcome::RunEnded);
    }
    let decides = step.wait.as_deref().is_some_and(|wait| wait.kind().is_decision());
    match step.state {
        StepState::Failed => Some(v1::TurnOutcome::StepFailed),
        StepState::Waiting if !decides => Some(v1::TurnOutcome::Waiting),
        StepState::Waiting
        | StepState::Pending
        | StepState::Ready
        | StepState::Running
        | StepState::Done
        | StepState::Blocked
        | StepState::Skipped
        | StepState::Cancelled => None,
    }
}

fn submitted(
    result: TurnResult,
    text: &str,
    next: Option<v1::StepContext>,
) -> v1::SubmitDecisionResponse {
    let TurnResult { turn, is_pending, receipts, observation, record, step, .. } = result;
    let problem = parse_decision(text).err();
    let run_ended = record.execution.state.is_terminal();
    let open = turn.as_ref().filter(|turn| turn.end.is_none() && next.is_none());
    let later = open.and_then(|turn| later_end(run_ended, &step, (turn.attempt, turn.number)));
    let turn = turn.map(v1::Turn::from);
    let outcome = match &turn {
        Some(turn) => match (turn.outcome(), later) {
            (v1::TurnOutcome::Applied, Some(later)) => later,
            (stored, _) => stored,
        },
        None if is_pending => v1::TurnOutcome::Pending,
        None if run_ended => v1::TurnOutcome::RunEnded,
        None => v1::TurnOutcome::StepFailed,
    };
    let v1::Turn { decision, validations, correction, warnings, .. } = turn.unwrap_or_default();
    v1::SubmitDecisionResponse {
        outcome: outcome.into(),
        problem: problem.filter(|_| decision.is_none()).map(Into::into),
        decision,
        validations,
        correction,
        observation,
        receipts: receipts.into_iter().map(Into::into).collect(),
        step_state: v1::StepState::from(step.state).into(),
        next,
        warnings,
    }
}

#[tonic::async_trait]
impl ToolService for Service {
    type ConnectStream = BoxStream<'static, Result<v1::ConnectResponse, Status>>;

    async fn connect(
        &self,
        request: Request<Streaming<v1::ConnectRequest>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let (_, workers) = self.served.as_ref().ok_or_else(|| needs_database("Connect"))?;
        let caller = Caller::of(&request).map_err(status)?;
        Ok(Response::new(workers.connect(caller, request.into_inner())))
    }

    async fn list_tools(
        &self,
        request: Request<v1::ListToolsRequest>,
    ) -> Result<Response<v1::ListToolsResponse>, Status> {
        let caller = Caller::of(&request).map_err(status)?;
        let v1::ListToolsRequest { provider, namespace } = request.into_inner();
        let namespace = namespace.trim();
        let policy = self.confirmed(&caller, namespace).await.map_err(status)?;
        self.tools.refresh_now().await;
        let tools = self.tools.of(namespace);
        let listed = tools
            .specs()
            .filter(|spec| provider.is_empty() || provider == tools.provider_of(&spec.name));
        let confirmed = |spec| tools.needs_confirmation(spec, &policy, &[]);
        let listed = listed.map(|spec| shown(&tools, spec, confirmed(spec))).collect();
        Ok(Response::new(v1::ListToolsResponse { tools: listed }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;
    use surety_common::domain::execution::Wait;
    use surety_common::domain::stop::WaitingOn;

    fn step(state: StepState, waiting_on: Option<WaitingOn>) -> StepProgress {
        let wait = |on| Wait::new(Uuid::nil(), on, DateTime::UNIX_EPOCH, "it".to_owned());
        let wait = waiting_on.map(wait).map(Box::new);
        StepProgress { state, attempt: 1, rounds: 2, wait, ..StepProgress::default() }
    }

    #[test]
    fn a_turn_whose_call_ended_its_step_or_run_says_so_and_an_earlier_turn_does_not() {
        let (user, driver) = (Some(WaitingOn::User), Some(WaitingOn::Driver));
        for (run_ended, step, expected) in [
            (true, step(StepState::Cancelled, None), Some(v1::TurnOutcome::RunEnded)),
            (true, step(StepState::Failed, None), Some(v1::TurnOutcome::RunEnded)),
            (false, step(StepState::Failed, None), Some(v1::TurnOutcome::StepFailed)),
            (false, step(StepState::Waiting, user), Some(v1::TurnOutcome::Waiting)),
            (false, step(StepState::Waiting, driver), None),
            (false, step(StepState::Ready, None), None),
        ] {
            assert_eq!(later_end(run_ended, &step, (1, 2)), expected, "{step:?}");
            assert_eq!(later_end(run_ended, &step, (1, 1)), None, "{step:?}");
            assert_eq!(later_end(run_ended, &step, (0, 2)), None, "{step:?}");
        }
    }
}
