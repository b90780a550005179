//! The calls with which a person acts on a run, for the commands and for the live view.
//!
//! ```text
//!   asked    what a confirmation asks, once it is known to be what its digest is over
//!   resolve  approves or denies exactly that
//!   answer   a question      extend  a budget      control  pause, resume, cancel
//! ```

mod asked;

use surety_common::wire::v1;
use tonic::{Response, Status};

use crate::connection::{Connection, bounded};
use crate::failure::{Code, Failure};

pub use asked::asked;

/// How a run is controlled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// No new turn starts.
    Pause,
    /// It goes on.
    Resume,
    /// It ends.
    Cancel,
}

/// Pauses, resumes or cancels a run. Answers the run.
///
/// # Errors
/// The service's error.
pub async fn control(
    connection: &Connection,
    run_id: String,
    reason: String,
    way: Way,
) -> Result<v1::Run, Failure> {
    let mut runs = connection.runs();
    let answer = match way {
        Way::Pause => {
            let request = v1::PauseRunRequest { run_id, reason, ..Default::default() };
            runs.pause_run(bounded(request)).await.map(|answer| answer.into_inner().run)
        }
        Way::Resume => {
            let request = v1::ResumeRunRequest { run_id, reason, ..Default::default() };
            runs.resume_run(bounded(request)).await.map(|answer| answer.into_inner().run)
        }
        Way::Cancel => {
            let request = v1::CancelRunRequest { run_id, reason, ..Default::default() };
            runs.cancel_run(bounded(request)).await.map(|answer| answer.into_inner().run)
        }
    };
    Ok(answer.map_err(|status| connection.failure(&status))?.unwrap_or_default())
}

/// Answers a question of a run, the one with this digest where it is not empty. Answers the run.
///
/// # Errors
/// The service's error.
pub async fn answer(
    connection: &Connection,
    (wait_id, question_digest): (String, String),
    answer: String,
) -> Result<v1::Run, Failure> {
    let request =
        v1::AnswerQuestionRequest { wait_id, answer, question_digest, ..Default::default() };
    let answered = connection.runs().answer_question(bounded(request)).await;
    Ok(of(connection, answered)?.run.unwrap_or_default())
}

/// Answers a confirmation. Answers the run.
///
/// # Errors
/// The service's error.
pub async fn resolve(
    connection: &Connection,
    request: v1::ResolveConfirmationRequest,
) -> Result<v1::Run, Failure> {
    let answered = connection.runs().resolve_confirmation(bounded(request)).await;
    Ok(of(connection, answered)?.run.unwrap_or_default())
}

/// Raises the budgets of a run, or ends a run that waits for one. Answers the run.
///
/// # Errors
/// The service's error.
pub async fn extend(
    connection: &Connection,
    request: v1::ExtendBudgetRequest,
) -> Result<v1::Run, Failure> {
    let answered = connection.runs().extend_budget(bounded(request)).await;
    Ok(of(connection, answered)?.run.unwrap_or_default())
}

/// The present budgets of a run: tokens, and cost in millionths of the billing currency.
///
/// # Errors
/// The run has none; the service's error.
pub async fn budgets(connection: &Connection, run_id: &str) -> Result<(u64, u64), Failure> {
    let found = connection.run(run_id, v1::RunView::Basic).await;
    let run = found.map_err(|status| connection.failure(&status))?.run.unwrap_or_default();
    let limits = run.limits.unwrap_or_default();
    match (limits.token_budget, limits.cost_budget_micros) {
        (None, None) => {
            let message = format!("run {run_id} has no budget");
            Err(Failure::new(Code::ValueInvalid, message, "Its tokens and its cost are unlimited."))
        }
        (tokens, cost) => Ok((tokens.unwrap_or_default(), cost.unwrap_or_default())),
    }
}

fn of<T>(connection: &Connection, answered: Result<Response<T>, Status>) -> Result<T, Failure> {
    answered.map(Response::into_inner).map_err(|status| connection.failure(&status))
}
