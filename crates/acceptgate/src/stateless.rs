//! The stateless mode of the gate: a verdict over the evidence in the request.

use crate::check::http_probe::Probes;
use crate::check::{Answer, Shortage};
use crate::verdict::{self, Evaluation};
use std::collections::BTreeMap;
use surety_common::domain::caution::CautionRules;
use surety_common::domain::check::{
    AcceptCheck, Author, normalise_checks, read_checks, validate_check,
};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::json::{self, JsonError};
use surety_common::domain::problem::{Code, Problem, Warning};
use surety_common::domain::receipt::{EvidenceReceipt, PresentedReceipt, read_presented};
use surety_common::domain::signature::{self, EvidenceReport, PresentedLink, TrustedKeys};
use surety_common::domain::todo::Todo;
use surety_common::domain::verdict::Verdict;
use surety_common::wire::error::MessageError;
use surety_common::wire::receipt::{read_receipt_proof, read_sealed};
use surety_common::wire::v1::evaluate_request::ChecksSource;
use surety_common::wire::v1::receipt_input::ReceiptSource;
use surety_common::wire::v1::{self, evaluate_response};

/// The outcome of a stateless evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluated {
    /// The verdict, or why the checks or the receipts are invalid.
    pub outcome: Result<Verdict, Problem>,
    /// The checks that were evaluated.
    pub checks: Vec<AcceptCheck>,
    /// The receipts that were evaluated, with the signatures that they were presented with, unchecked.
    pub receipts: Vec<PresentedReceipt>,
    /// The reader's corrections.
    pub warnings: Vec<Warning>,
}

/// Decides about the evidence in the request. It runs outside the runtime's threads, because an
/// expression may block for its whole time limit.
///
/// # Errors
/// `overloaded` when the gate had no capacity for a check and reached no verdict.
pub async fn evaluate(request: v1::EvaluateRequest, probes: &Probes) -> Result<Evaluated, Fault> {
    let submitted = match SubmittedEvidence::read(request) {
        Ok(submitted) => submitted,
        Err(refused) => return Ok(*refused),
    };
    let answers = probes.answers(&submitted.checks).await?;
    Ok(beside(move || submitted.judge(&answers)).await??)
}

/// Runs work outside the runtime's own threads.
///
/// # Errors
/// `internal` when the work panics.
pub(crate) async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "acceptgate: an evaluation panicked; report the error");
        Fault::new(
            FaultCode::Internal,
            "the evaluation failed because of a defect and reached no verdict",
        )
    })
}

/// Checks the chain of the receipts in the request, without normalizing them, and their signatures.
pub fn check_receipts(chain: v1::ReceiptChain, keys: Option<&TrustedKeys>) -> EvidenceReport {
    let v1::ReceiptChain { receipts, run_id } = chain;
    let links = receipts.into_iter().map(read_link).collect();
    signature::check_receipts(&run_id, links, keys)
}

fn read_link(receipt: v1::EvidenceReceipt) -> PresentedLink {
    match read_receipt_proof(&receipt) {
        Err(why) => (Err(why), None),
        Ok(proof) => {
            let read = read_sealed(receipt);
            (read.map_err(|error| format!("the receipt is invalid: {error}")), proof)
        }
    }
}

/// The parsed evidence of a request.
struct SubmittedEvidence {
    workspace_root: String,
    checks: Vec<AcceptCheck>,
    receipts: Vec<PresentedReceipt>,
    final_text: String,
    todos: Vec<Todo>,
    warnings: Vec<Warning>,
}

impl SubmittedEvidence {
    fn read(request: v1::EvaluateRequest) -> Result<Self, Box<Evaluated>> {
        let v1::EvaluateRequest { workspace_root, checks_source, receipts, final_text, todos } =
            request;
        let (checks, warnings) = read_check_list(checks_source).map_err(Evaluated::refused)?;
        let read = read_receipts(receipts).and_then(|receipts| Ok((receipts, read_todos(todos)?)));
        match read {
            Ok((receipts, todos)) => {
                Ok(Self { workspace_root, checks, receipts, final_text, todos, warnings })
            }
            Err(problem) => {
                Err(Box::new(Evaluated { checks, warnings, ..*Evaluated::refused(problem) }))
            }
        }
    }

    fn judge(self, answers: &BTreeMap<usize, Answer>) -> Result<Evaluated, Shortage> {
        let receipts: Vec<EvidenceReceipt> =
            self.receipts.iter().map(|presented| presented.receipt.clone()).collect();
        let verdict = verdict::evaluate(&Evaluation {
            workspace_root: &self.workspace_root,
            checks: &self.checks,
            receipts: &receipts,
            final_text: &self.final_text,
            todos: &self.todos,
            plan_made_at: None,
            answers,
            project_tests: None,
            round: None,
            require_independent: false,
            cautions: CautionRules::default(),
            authored_text: None,
        })?;
        let Self { checks, receipts, warnings, .. } = self;
        Ok(Evaluated { outcome: Ok(verdict), checks, receipts, warnings })
    }
}

impl Evaluated {
    fn refused(problem: Problem) -> Box<Self> {
        Box::new(Self {
            outcome: Err(problem),
            checks: Vec::new(),
            receipts: Vec::new(),
            warnings: Vec::new(),
        })
    }
}

fn read_check_list(
    source: Option<ChecksSource>,
) -> Result<(Vec<AcceptCheck>, Vec<Warning>), Problem> {
    match source {
        None => Ok((Vec::new(), Vec::new())),
        Some(ChecksSource::ChecksJson(text)) => {
            let value = parse("checks_json", &text)?;
            read_checks(&value, "checks", Author::Service)
        }
        Some(ChecksSource::Checks(v1::AcceptChecks { checks })) => {
            let checks = checks
                .into_iter()
                .enumerate()
                .map(|(index, check)| {
                    let path = format!("checks[{index}]");
                    let check = AcceptCheck::try_from(check)
                        .map_err(|error: MessageError| error.under(&path))?
                        .normalised();
                    validate_check(&check, &path)?;
                    Ok(check)
                })
                .collect::<Result<Vec<_>, Problem>>()?;
            Ok(normalise_checks(checks, "checks"))
        }
    }
}

fn read_receipts(receipts: Vec<v1::ReceiptInput>) -> Result<Vec<PresentedReceipt>, Problem> {
    let read = |(index, input): (usize, v1::ReceiptInput)| {
        let path = format!("receipts[{index}]");
        let under = |mut problem: Problem| {
            problem.field = Some(match problem.field {
                Some(field) => format!("{path}.{field}"),
                None => path.clone(),
            });
            problem
        };
        match input.receipt_source {
            Some(ReceiptSource::Receipt(receipt)) => {
                PresentedReceipt::try_from(receipt).map_err(|error| error.under(&path).into())
            }
            Some(ReceiptSource::ReceiptJson(text)) => {
                let value = parse("receipt_json", &text).map_err(under)?;
                read_presented(&value).map_err(under)
            }
            None => Err(Problem::at(Code::FieldMissing, path, "contains no receipt; set it")),
        }
    };
    receipts.into_iter().enumerate().map(read).collect()
}

fn read_todos(todos: Vec<v1::Todo>) -> Result<Vec<Todo>, Problem> {
    todos
        .into_iter()
        .enumerate()
        .map(|(index, todo)| {
            Todo::try_from(todo)
                .map_err(|error: MessageError| error.under(&format!("todos[{index}]")).into())
        })
        .collect()
}

fn parse(field: &str, text: &str) -> Result<json::Value, Problem> {
    match json::parse(text) {
        Ok(parsed) => Ok(parsed.value),
        Err(error @ JsonError::Syntax { .. }) => {
            Err(Problem::at(Code::JsonSyntax, field, error.to_string()))
        }
        Err(error @ JsonError::TooDeep { .. }) => {
            Err(Problem::at(Code::TooDeep, field, error.to_string()))
        }
    }
}

impl From<Evaluated> for v1::EvaluateResponse {
    fn from(evaluated: Evaluated) -> Self {
        let Evaluated { outcome, checks, receipts, warnings } = evaluated;
        let outcome = match outcome {
            Ok(verdict) => evaluate_response::Outcome::Verdict(verdict.into()),
            Err(problem) => evaluate_response::Outcome::Problem(problem.into()),
        };
        Self {
            outcome: Some(outcome),
            normalised_checks: checks.into_iter().map(Into::into).collect(),
            normalised_receipts: receipts.into_iter().map(Into::into).collect(),
            warnings: warnings.into_iter().map(Into::into).collect(),
        }
    }
}
