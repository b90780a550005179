//! The two clients of the rules: in this process, or three live services over gRPC. Both return the
//! same values, so that each subject has one comparison.

use crate::harness::Deployment;
use std::time::Duration;
use surety_acceptgate::check::expression::Allowance;
use surety_acceptgate::check::http_probe::Probes;
use surety_acceptgate::verdict::{Evaluation, evaluate_within};
use surety_common::domain::caution::CautionRules;
use surety_common::domain::check::{Author, read_checks};
use surety_common::domain::control::{Control, ControlKind};
use surety_common::domain::fault::Reason;
use surety_common::domain::json::Value;
use surety_common::domain::limits::Limits;
use surety_common::domain::plan::Plan;
use surety_common::domain::problem::{Problem, Warning};
use surety_common::domain::receipt::{EvidenceReceipt, PresentedReceipt, read_presented};
use surety_common::domain::todo::Todo;
use surety_common::domain::verdict::Verdict;
use surety_common::wire::run::read_step_state;
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_common::wire::v1::evaluate_request::ChecksSource;
use surety_common::wire::v1::receipt_input::ReceiptSource;
use surety_executor::decision::{Reading, parse_decision};
use surety_planner::plan::patch::{Patched, apply_patch, parse_patch};
use surety_planner::plan::{PlanState, parse_plan};
use tonic::Status;

/// Enough for any machine: the tests compare the outcome, not the speed.
const PLENTY: Allowance =
    Allowance { processor: Duration::from_secs(60), patience: Duration::from_secs(600) };

/// A client of the rules.
#[derive(Clone, Copy)]
pub enum StatelessClient<'a> {
    /// The rules themselves.
    InProcess,
    /// Three services, each asked over its port.
    Live(&'a Deployment),
}

/// A request and its answer. The outer error means no valid answer; the inner one is an answer.
pub type Answer<T> = Result<Result<T, Problem>, String>;

/// One evaluation.
#[derive(Debug, Clone)]
pub struct GateCase {
    /// The folder that paths are judged against.
    pub workspace_root: String,
    /// The checks as text or JSON.
    pub checks: Value,
    /// The receipts, in order.
    pub receipts: Vec<EvidenceReceipt>,
    /// The run's final text.
    pub final_text: String,
    /// The todos of the run.
    pub todos: Vec<Todo>,
}

impl StatelessClient<'_> {
    /// Its name in a report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InProcess => "in process",
            Self::Live(_) => "over gRPC",
        }
    }

    /// Reads a decision.
    ///
    /// # Errors
    /// No valid answer.
    pub async fn decision(self, raw: &str) -> Answer<Reading> {
        match self {
            Self::InProcess => Ok(parse_decision(raw)),
            Self::Live(services) => {
                let request = v1::ParseDecisionRequest { raw: raw.to_owned() };
                let mut client = services.executor().map_err(said)?;
                answered(client.parse_decision(request).await, read_decision)
            }
        }
    }

    /// Reads a plan with the default limits, with its steps' states.
    ///
    /// # Errors
    /// No valid answer.
    pub async fn plan(self, raw: &str) -> Answer<(PlanState, Vec<Warning>)> {
        match self {
            Self::InProcess => {
                let limit = Limits::default().max_plan_steps;
                let parsed = parse_plan(raw, Author::Model, limit);
                let pending =
                    |(plan, warnings)| (PlanState { plan, statuses: Vec::new() }, warnings);
                Ok(parsed.map(pending))
            }
            Self::Live(services) => {
                let request = v1::ParsePlanRequest { raw: raw.to_owned(), max_plan_steps: 0 };
                let mut client = services.plans().map_err(said)?;
                answered(client.parse_plan(request).await, read_plan)
            }
        }
    }

    /// Applies a patch, as a model wrote it, to a plan.
    ///
    /// # Errors
    /// No valid answer.
    pub async fn patch(
        self,
        before: PlanState,
        patch: &str,
        max_plan_steps: u32,
    ) -> Answer<Patched> {
        match self {
            Self::InProcess => {
                let read = parse_patch(patch, Author::Model);
                Ok(read.and_then(|(patch, mut warnings)| {
                    let mut patched = apply_patch(&before, patch, max_plan_steps)?;
                    warnings.append(&mut patched.warnings);
                    Ok(Patched { warnings, ..patched })
                }))
            }
            Self::Live(services) => {
                let request = patch_request(before, patch, max_plan_steps);
                let mut client = services.plans().map_err(said)?;
                answered(client.apply_patch(request).await, read_patched)
            }
        }
    }

    /// Decides about checks and receipts.
    ///
    /// # Errors
    /// No valid answer.
    pub async fn evaluate(self, case: GateCase) -> Answer<Verdict> {
        match self {
            Self::InProcess => evaluate_here(&case).await,
            Self::Live(services) => {
                let mut client = services.gate().map_err(said)?;
                answered(client.evaluate(gate_request(case)).await, |response| {
                    match outcome(response.outcome)? {
                        Evaluated::Verdict(verdict) => {
                            Ok(Ok(Verdict::try_from(verdict).map_err(said)?))
                        }
                        Evaluated::Problem(problem) => refused(problem),
                    }
                })
            }
        }
    }

    /// Reads a receipt.
    ///
    /// # Errors
    /// No valid answer.
    pub async fn receipt(self, receipt: &Value) -> Answer<PresentedReceipt> {
        match self {
            Self::InProcess => Ok(read_presented(receipt)),
            Self::Live(services) => {
                let source = Some(ReceiptSource::ReceiptJson(receipt.to_compact()));
                let request = v1::EvaluateRequest {
                    receipts: vec![v1::ReceiptInput { receipt_source: source }],
                    ..v1::EvaluateRequest::default()
                };
                let mut client = services.gate().map_err(said)?;
                answered(client.evaluate(request).await, |response| {
                    match outcome(response.outcome)? {
                        Evaluated::Verdict(_) => {
                            let only = response.normalised_receipts.into_iter().next();
                            let only = only.ok_or("the answer holds no receipt")?;
                            Ok(Ok(PresentedReceipt::try_from(only).map_err(said)?))
                        }
                        Evaluated::Problem(problem) => refused(problem),
                    }
                })
            }
        }
    }
}

use v1::evaluate_response::Outcome as Evaluated;

async fn evaluate_here(case: &GateCase) -> Answer<Verdict> {
    let checks = match read_checks(&case.checks, "checks", Author::Service) {
        Ok((checks, _)) => checks,
        Err(problem) => return Ok(Err(problem)),
    };
    // As the service without a setting: it asks no address.
    let probes = Probes::new(None).map_err(said)?;
    let answers = probes.answers(&checks).await.map_err(said)?;
    let input = Evaluation {
        workspace_root: &case.workspace_root,
        checks: &checks,
        receipts: &case.receipts,
        final_text: &case.final_text,
        todos: &case.todos,
        plan_made_at: None,
        answers: &answers,
        project_tests: None,
        round: None,
        require_independent: false,
        cautions: CautionRules::default(),
        authored_text: None,
    };
    evaluate_within(&input, PLENTY).map(Ok).map_err(said)
}

fn gate_request(case: GateCase) -> v1::EvaluateRequest {
    let GateCase { workspace_root, checks, receipts, final_text, todos } = case;
    let receipts = receipts.into_iter().map(|receipt| v1::ReceiptInput {
        receipt_source: Some(ReceiptSource::Receipt(receipt.into())),
    });
    v1::EvaluateRequest {
        workspace_root,
        checks_source: Some(ChecksSource::ChecksJson(checks.to_compact())),
        receipts: receipts.collect(),
        final_text,
        todos: todos.into_iter().map(Into::into).collect(),
    }
}

fn patch_request(before: PlanState, patch: &str, max_plan_steps: u32) -> v1::ApplyPatchRequest {
    let status = |(at, id): (usize, String)| v1::StepStatus {
        step_id: id,
        state: v1::StepState::from(before.status(at)).into(),
    };
    let ids = before.plan.steps.iter().map(|step| step.id.clone());
    v1::ApplyPatchRequest {
        statuses: ids.enumerate().map(status).collect(),
        plan_source: Some(v1::apply_patch_request::PlanSource::Plan(before.plan.into())),
        patch: patch.to_owned(),
        max_plan_steps,
    }
}

fn read_decision(response: v1::ParseDecisionResponse) -> Answer<Reading> {
    use v1::parse_decision_response::Outcome;
    let v1::ParseDecisionResponse { outcome: said_outcome, envelope, legacy, warnings } = response;
    let warnings = read_warnings(warnings)?;
    let kind = match v1::ControlKind::try_from(envelope).map_err(said)? {
        v1::ControlKind::Unspecified => None,
        v1::ControlKind::StepDone => Some(ControlKind::StepDone),
        v1::ControlKind::Replan => Some(ControlKind::Replan),
    };
    let (decision, reason) = match outcome(said_outcome)? {
        Outcome::Decision(decision) => (Some(decision.try_into().map_err(said)?), String::new()),
        Outcome::Control(control) => (None, control.reason),
        Outcome::Problem(problem) => return refused(problem),
    };
    let control = kind.map(|kind| Control { kind, reason, legacy });
    Ok(Ok(Reading { decision, control, final_text: None, warnings }))
}

fn read_plan(response: v1::ParsePlanResponse) -> Answer<(PlanState, Vec<Warning>)> {
    use v1::parse_plan_response::Outcome;
    let v1::ParsePlanResponse { ok, outcome: said_outcome, warnings, statuses } = response;
    match (outcome(said_outcome)?, ok) {
        (Outcome::Plan(plan), true) => {
            Ok(Ok((read_state(plan, statuses)?, read_warnings(warnings)?)))
        }
        (Outcome::Problem(problem), false) => refused(problem),
        (Outcome::Plan(_) | Outcome::Problem(_), _) => Err("ok and the outcome disagree".into()),
    }
}

fn read_patched(response: v1::ApplyPatchResponse) -> Answer<Patched> {
    use v1::apply_patch_response::Outcome;
    let v1::ApplyPatchResponse { ok, outcome: said_outcome, statuses, truncated_add, warnings } =
        response;
    match (outcome(said_outcome)?, ok) {
        (Outcome::Plan(plan), true) => {
            let state = read_state(plan, statuses)?;
            Ok(Ok(Patched { state, truncated_add, warnings: read_warnings(warnings)? }))
        }
        (Outcome::Problem(problem), false) => refused(problem),
        (Outcome::Plan(_) | Outcome::Problem(_), _) => Err("ok and the outcome disagree".into()),
    }
}

fn read_state(plan: v1::Plan, statuses: Vec<v1::StepStatus>) -> Result<PlanState, String> {
    let plan = Plan::try_from(plan).map_err(said)?;
    let states = plan.steps.iter().zip(&statuses).map(|(step, status)| {
        let state = read_step_state(status.state).filter(|_| status.step_id == step.id);
        state.ok_or_else(|| format!("the status of {} is {status:?}", step.id))
    });
    let states = states.collect::<Result<Vec<_>, String>>()?;
    if states.len() != plan.steps.len() || statuses.len() != plan.steps.len() {
        return Err("not every step has one status".into());
    }
    Ok(PlanState { plan, statuses: states })
}

fn read_warnings(warnings: Vec<v1::Warning>) -> Result<Vec<Warning>, String> {
    warnings.into_iter().map(|warning| Warning::try_from(warning).map_err(said)).collect()
}

/// What a response says, or the problem that a status carries in its place.
fn answered<R, T>(
    response: Result<tonic::Response<R>, Status>,
    read: impl FnOnce(R) -> Answer<T>,
) -> Answer<T> {
    let status = match response {
        Ok(response) => return read(response.into_inner()),
        Err(status) => status,
    };
    let fault = from_status(&status);
    match fault.reason {
        Reason::Input(code) => {
            Ok(Err(Problem { code, field: fault.field, message: fault.message }))
        }
        Reason::Service(_) => Err(fault.to_string()),
    }
}

fn outcome<T>(outcome: Option<T>) -> Result<T, String> {
    outcome.ok_or_else(|| "the answer has no outcome".to_owned())
}

fn refused<T>(problem: v1::Problem) -> Answer<T> {
    Ok(Err(Problem::try_from(problem).map_err(said)?))
}

fn said(error: impl ToString) -> String {
    error.to_string()
}
