//! How a reply becomes a turn: read, counted by its fuse, judged, and applied or answered.

use super::ended::Ended;
use super::judge::{self, Judgement, Passed};
use super::leased_run::LeasedRun;
use super::outcome;
use crate::decision::{Classified, Reading, classify};
use crate::driver::{Content, Reply};
use crate::fuse::completion::{MissingCompletion, Reminder};
use crate::fuse::correction::{AfterRefusal, Corrections};
use crate::fuse::limits::{self, Next, Used};
use crate::fuse::turn::end_for_limit;
use surety_common::domain::decision::Usage;
use surety_common::domain::execution::StepProgress;
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::execution::turns::{TurnOutcome, TurnRecord};
use surety_common::domain::journal::Validation;
use surety_common::domain::machine::Refusal;
use surety_common::domain::problem::{Code, Problem, Warning};
use surety_common::domain::stop::StopReason;
use surety_common::schema::check_answer_schema;

/// What a reply came to.
pub(super) enum Taken {
    /// A decision that passed its validations and is to be applied.
    Decision(Box<Passed>),
    /// The turn is over: recorded and answered.
    Over,
}

/// Takes a reply as the next turn of a step, as far as it needs no tool.
pub(super) async fn take(run: &LeasedRun, index: usize, reply: Reply) -> Result<Taken, Ended> {
    let Reply { content, usage } = reply;
    let decision = match content {
        Content::Decision(decision) => *decision,
        Content::Replan(reason) => {
            outcome::fail(run, index, &reason).await?;
            return Ok(Taken::Over);
        }
        Content::Text(text) => match classify(&text) {
            Classified::Decided(reading) => match *reading {
                Reading { decision: Some(decision), .. } => decision,
                Reading { decision: None, control, .. } => {
                    let reason = control.map(|control| control.reason).unwrap_or_default();
                    replan(run, index, usage, &reason).await?;
                    return Ok(Taken::Over);
                }
            },
            Classified::Refused(problem) => {
                unreadable(run, index, usage, &problem).await?;
                return Ok(Taken::Over);
            }
            Classified::TextOnly => {
                remind(run, index, usage, MissingCompletion::count_text).await?;
                return Ok(Taken::Over);
            }
            Classified::ThinkingOnly => {
                remind(run, index, usage, MissingCompletion::count_thinking).await?;
                return Ok(Taken::Over);
            }
        },
    };
    if let Some(Err(problem)) = decision.answer_schema.as_ref().map(check_answer_schema) {
        unreadable(run, index, usage, &problem).await?;
        return Ok(Taken::Over);
    }
    let judgement = judge::judge(run, index, &decision).await?;
    if judgement.passed() {
        return Ok(Taken::Decision(Box::new(Passed { judgement, usage })));
    }
    correct(run, index, usage, &judgement).await?;
    Ok(Taken::Over)
}

/// The driver requests another plan: the turn is recorded, and its step fails with that reason.
async fn replan(run: &LeasedRun, index: usize, usage: Usage, reason: &str) -> Result<(), Ended> {
    let reason = if reason.is_empty() { "the driver requested a replan" } else { reason };
    let failed = |draft: &mut Draft| {
        let record = TurnRecord {
            decision: None,
            validations: Vec::new(),
            warnings: Vec::new(),
            outcome: TurnOutcome::Applied,
            usage,
        };
        draft.record_turn(&run.graph, index, record)?;
        draft.fail_step(&run.graph, index, reason)
    };
    run.change(|draft| outcome::turn(draft, run, index, Next::Turn, failed)).await.map(drop)
}

/// Answers a decision that a validation refused.
async fn correct(
    run: &LeasedRun,
    index: usize,
    usage: Usage,
    judgement: &Judgement,
) -> Result<(), Ended> {
    let refused = |said: &Validation| said.code == Some(Code::FuseReached);
    let by_limit = judgement.validations.iter().any(refused);
    let corrected = |draft: &mut Draft| {
        let record = Corrected {
            decision: Some(judgement.decision.clone()),
            validations: judgement.validations.clone(),
            warnings: judgement.warnings.clone(),
            notice: judgement.correction(),
            usage,
        };
        let after = record.apply(draft, run, index)?;
        // A limit that is reached stays reached: no other decision gets the step any further.
        let used = Used::of(draft.execution(), index, draft.now());
        let reached = limits::reached(&run.spec.limits, &used, Next::Call).filter(|_| by_limit);
        match (reached, after) {
            (Some(reached), _) => end_for_limit(draft, &run.graph, index, reached).map(drop),
            (None, AfterRefusal::Correct) => Ok(()),
            (None, AfterRefusal::Stop) => {
                stop_for_corrections(draft, run, index, &judgement.validations)
            }
        }
    };
    run.change(|draft| outcome::turn(draft, run, index, Next::Turn, corrected)).await.map(drop)
}

/// Answers a reply that shows a decision and could not be read.
async fn unreadable(
    run: &LeasedRun,
    index: usize,
    usage: Usage,
    problem: &Problem,
) -> Result<(), Ended> {
    let validation = Validation {
        name: "shape".into(),
        passed: false,
        code: Some(problem.code),
        reason: problem.message.clone(),
    };
    let execution = run.execution().await;
    let notice = judge::correction(run, &execution, index, problem.code, &problem.message);
    let refused = |draft: &mut Draft| {
        let validations = vec![validation.clone()];
        let record = Corrected {
            decision: None,
            validations: validations.clone(),
            warnings: Vec::new(),
            notice: notice.clone(),
            usage,
        };
        match record.apply(draft, run, index)? {
            AfterRefusal::Correct => Ok(()),
            AfterRefusal::Stop => stop_for_corrections(draft, run, index, &validations),
        }
    };
    run.change(|draft| outcome::turn(draft, run, index, Next::Turn, refused)).await.map(drop)
}

/// A refused turn.
struct Corrected {
    decision: Option<surety_common::domain::decision::ExecuteDecision>,
    validations: Vec<Validation>,
    warnings: Vec<Warning>,
    notice: String,
    usage: Usage,
}

impl Corrected {
    /// Counts and records it. Answers what follows from the count.
    fn apply(
        self,
        draft: &mut Draft,
        run: &LeasedRun,
        index: usize,
    ) -> Result<AfterRefusal, Refusal> {
        let progress = progress(draft, index)?;
        let mut fuse = Corrections { in_a_row: progress.corrections };
        let after = fuse.refuse(&run.spec.limits);
        let Self { decision, validations, warnings, notice, usage } = self;
        let outcome = TurnOutcome::Corrected { notice, in_a_row: fuse.in_a_row };
        draft.record_turn(
            &run.graph,
            index,
            TurnRecord { decision, validations, warnings, outcome, usage },
        )?;
        Ok(after)
    }
}

fn stop_for_corrections(
    draft: &mut Draft,
    run: &LeasedRun,
    index: usize,
    validations: &[Validation],
) -> Result<(), Refusal> {
    let corrections = progress(draft, index)?.corrections;
    let limit = run.spec.limits.max_consecutive_corrections;
    draft.stop(
        &run.graph,
        Ending {
            stop_reason: StopReason::MaxConsecutiveCorrections,
            user_message: format!(
                "Step {} was refused {corrections} times in a row: {}",
                run.graph.id(index),
                first_reason(validations),
            ),
            internal_reason: format!("max_consecutive_corrections is {limit}"),
        },
    )
}

fn first_reason(validations: &[Validation]) -> String {
    validations
        .iter()
        .find(|validation| !validation.passed)
        .map(|refused| match refused.code {
            Some(code) => format!("{code}: {}", refused.reason),
            None => refused.reason.clone(),
        })
        .unwrap_or_default()
}

/// Answers a reply without a decision, and stops the run after too many.
async fn remind(
    run: &LeasedRun,
    index: usize,
    usage: Usage,
    count: fn(&mut MissingCompletion, &surety_common::domain::limits::Limits) -> Reminder,
) -> Result<(), Ended> {
    let reminded = |draft: &mut Draft| {
        let StepProgress { missing_completions, thinking_only, .. } = progress(draft, index)?;
        let mut fuse =
            MissingCompletion { text_only: *missing_completions, thinking_only: *thinking_only };
        let reminder = count(&mut fuse, &run.spec.limits);
        let outcome = TurnOutcome::Reminded {
            notice: reminder.text().to_owned(),
            missing_completions: fuse.text_only,
            thinking_only: fuse.thinking_only,
        };
        let (decision, validations, warnings) = (None, Vec::new(), Vec::new());
        draft.record_turn(
            &run.graph,
            index,
            TurnRecord { decision, validations, warnings, outcome, usage },
        )?;
        match reminder {
            Reminder::Normal | Reminder::FinalWarning => Ok(()),
            Reminder::Stop => draft.stop(&run.graph, no_completion(run, index, fuse)),
        }
    };
    run.change(|draft| outcome::turn(draft, run, index, Next::Turn, reminded)).await.map(drop)
}

fn no_completion(run: &LeasedRun, index: usize, fuse: MissingCompletion) -> Ending {
    let MissingCompletion { text_only, thinking_only } = fuse;
    let limits = &run.spec.limits;
    Ending {
        stop_reason: StopReason::MissingCompletionSignal,
        user_message: format!(
            "The driver of step {} sent replies without a decision until the limit was reached.",
            run.graph.id(index)
        ),
        internal_reason: format!(
            "{text_only} replies with text only (max_missing_completion is {}), {thinking_only} with \
             thinking only (max_thinking_only is {})",
            limits.max_missing_completion, limits.max_thinking_only
        ),
    }
}

fn progress(draft: &Draft, index: usize) -> Result<&StepProgress, Refusal> {
    draft.execution().step(index).ok_or(Refusal::Meaningless)
}
