//! How a reply becomes a turn: read, counted by its fuse, judged, and applied or answered.

use super::ended::Ended;
use super::judge::{self, Judgement, Passed, Read};
use super::leased_run::LeasedRun;
use super::outcome;
use crate::decision::{Classified, Reading, classify};
use crate::driver::{Content, Reply};
use crate::fuse::completion::{MissingCompletion, Reminder};
use crate::fuse::correction::AfterRefusal;
use crate::fuse::limits::{self, Next, Used};
use crate::fuse::replies::{self, RefusedTurn, stop_for_corrections};
use crate::fuse::turn::end_for_limit;
use surety_common::domain::decision::Usage;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::turns::{TurnOutcome, TurnRecord};
use surety_common::domain::journal::Validation;
use surety_common::domain::limits::Limits;
use surety_common::domain::problem::{Code, Problem, Warning};
use surety_common::schema::check_answer_schema;

/// What a driver is told whose reply a token limit ended.
const CUT: &str = "the token limit ended the reply before its end, so nothing of it was read. Answer with a much shorter \
                   one: one JSON object with short texts, and large contents in several calls";

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
    let read = match content {
        Content::Decision(decision) => Read::plain(*decision),
        Content::Replan(reason) => {
            Box::pin(outcome::fail(run, index, &reason)).await?;
            return Ok(Taken::Over);
        }
        Content::Cut => {
            Box::pin(unreadable(
                run,
                index,
                usage,
                (&Problem::new(Code::ReplyCut, CUT), Vec::new()),
            ))
            .await?;
            return Ok(Taken::Over);
        }
        Content::Text(text) => match classify(&text) {
            Classified::Decided(reading) => {
                let signalled = reading.is_signal();
                let Reading { decision, control, warnings, .. } = *reading;
                let Some(decision) = decision else {
                    let reason = control.map(|control| control.reason).unwrap_or_default();
                    Box::pin(replan(run, index, usage, (&reason, warnings))).await?;
                    return Ok(Taken::Over);
                };
                Read { decision, signalled, warnings }
            }
            Classified::Refused(problem) => {
                Box::pin(unreadable(run, index, usage, (&problem, Vec::new()))).await?;
                return Ok(Taken::Over);
            }
            Classified::TextOnly => {
                Box::pin(remind(run, index, usage, MissingCompletion::count_text)).await?;
                return Ok(Taken::Over);
            }
            Classified::ThinkingOnly => {
                Box::pin(remind(run, index, usage, MissingCompletion::count_thinking)).await?;
                return Ok(Taken::Over);
            }
        },
    };
    if let Some(Err(problem)) = read.decision.answer_schema.as_ref().map(check_answer_schema) {
        Box::pin(unreadable(run, index, usage, (&problem, read.warnings))).await?;
        return Ok(Taken::Over);
    }
    let judgement = judge::judge(run, index, read).await?;
    if judgement.passed() {
        return Ok(Taken::Decision(Box::new(Passed { judgement, usage })));
    }
    Box::pin(correct(run, index, usage, &judgement)).await?;
    Ok(Taken::Over)
}

/// The driver requests another plan: the turn is recorded, and its step fails with that reason.
async fn replan(
    run: &LeasedRun,
    index: usize,
    usage: Usage,
    (reason, warnings): (&str, Vec<Warning>),
) -> Result<(), Ended> {
    let reason = if reason.is_empty() { "the driver requested a replan" } else { reason };
    let failed = |draft: &mut Draft| {
        let record = TurnRecord {
            decision: None,
            validations: Vec::new(),
            warnings: warnings.clone(),
            outcome: TurnOutcome::Applied,
            usage,
        };
        draft.record_turn(&run.graph, index, record)?;
        draft.fail_step(&run.graph, index, reason.to_owned())
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
    let context = (&run.graph, &run.spec.limits);
    let refused = |said: &Validation| said.code == Some(Code::FuseReached);
    let by_limit = judgement.validations.iter().any(refused);
    let corrected = |draft: &mut Draft| {
        let refused = RefusedTurn {
            decision: Some(judgement.decision.clone()),
            validations: judgement.validations.clone(),
            warnings: judgement.warnings.clone(),
            notice: judgement.correction(),
            usage,
        };
        let after = refused.record(draft, context, index)?;
        // A limit that is reached stays reached: no other decision gets the step any further.
        let used = Used::of(draft.execution(), index, draft.now());
        let reached = limits::reached(&run.spec.limits, &used, Next::Call).filter(|_| by_limit);
        match (reached, after) {
            (Some(reached), _) => end_for_limit(draft, &run.graph, index, reached).map(drop),
            (None, AfterRefusal::Correct) => Ok(()),
            (None, AfterRefusal::Stop) => {
                stop_for_corrections(draft, context, index, &judgement.validations)
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
    (problem, warnings): (&Problem, Vec<Warning>),
) -> Result<(), Ended> {
    let validation = Validation {
        name: "shape".into(),
        passed: false,
        code: Some(problem.code),
        reason: problem.message.clone(),
    };
    let execution = run.execution().await;
    let notice = judge::correction(run, &execution, index, problem.code, &problem.message);
    let context = (&run.graph, &run.spec.limits);
    let refused = |draft: &mut Draft| {
        let validations = vec![validation.clone()];
        let notice = notice.clone();
        let warnings = warnings.clone();
        let refused = RefusedTurn {
            decision: None,
            validations: validations.clone(),
            warnings,
            notice,
            usage,
        };
        match refused.record(draft, context, index)? {
            AfterRefusal::Correct => Ok(()),
            AfterRefusal::Stop => stop_for_corrections(draft, context, index, &validations),
        }
    };
    run.change(|draft| outcome::turn(draft, run, index, Next::Turn, refused)).await.map(drop)
}

/// Answers a reply without a decision, and stops the run after too many.
async fn remind(
    run: &LeasedRun,
    index: usize,
    usage: Usage,
    count: fn(&mut MissingCompletion, &Limits) -> Reminder,
) -> Result<(), Ended> {
    let context = (&run.graph, &run.spec.limits);
    let reminded = |draft: &mut Draft| replies::remind(draft, context, index, count, usage);
    run.change(|draft| outcome::turn(draft, run, index, Next::Turn, reminded)).await.map(drop)
}
