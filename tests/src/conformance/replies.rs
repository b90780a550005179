//! Rows about replies: those without a decision, and those that are refused.

use super::movement::{Played, View, saying};
use super::runtime::{compare_stated, count, list, text};
use surety_common::domain::decision::{Action, ExecuteDecision, Usage};
use surety_common::domain::execution::StepProgress;
use surety_common::domain::execution::turns::{TurnOutcome, TurnRecord};
use surety_common::domain::json::Value;
use surety_common::domain::limits::Limits;
use surety_executor::decision::{Classified, classify};
use surety_executor::fuse::completion::{MissingCompletion, Reminder};
use surety_executor::fuse::correction::{AfterRefusal, Corrections};

/// A run whose only step takes replies.
struct Step(Played);

impl Step {
    fn start() -> Result<Self, String> {
        let mut run = Played::start(&[("s", &[])], Limits::default())?;
        run.change(|draft, graph, _| draft.lease_steps(graph, 1).map(drop))?;
        Ok(Self(run))
    }

    fn progress(&self) -> StepProgress {
        self.0.execution.step(0).cloned().unwrap_or_default()
    }

    fn record(
        &mut self,
        decision: Option<ExecuteDecision>,
        outcome: TurnOutcome,
    ) -> Result<(), String> {
        let (validations, warnings, usage) = (Vec::new(), Vec::new(), Usage::default());
        let record = TurnRecord { decision, validations, warnings, outcome, usage };
        self.0.change(|draft, graph, _| draft.record_turn(graph, 0, record))
    }

    /// Counts a reply without a decision.
    fn remind(
        &mut self,
        count: fn(&mut MissingCompletion, &Limits) -> Reminder,
    ) -> Result<Reminder, String> {
        let StepProgress { missing_completions, thinking_only, .. } = self.progress();
        let mut fuse = MissingCompletion { text_only: missing_completions, thinking_only };
        let reminder = count(&mut fuse, &Limits::default());
        let outcome = TurnOutcome::Reminded {
            notice: reminder.text().to_owned(),
            missing_completions: fuse.text_only,
            thinking_only: fuse.thinking_only,
        };
        self.record(None, outcome)?;
        Ok(reminder)
    }

    /// Counts a refused reply.
    fn correct(&mut self) -> Result<AfterRefusal, String> {
        let mut fuse = Corrections { in_a_row: self.progress().corrections };
        let after = fuse.refuse(&Limits::default());
        let notice = "a correction".to_owned();
        self.record(None, TurnOutcome::Corrected { notice, in_a_row: fuse.in_a_row })?;
        Ok(after)
    }
}

/// A reply as a row names it: a word for a kind of reply, or the reply itself.
fn written(reply: &str) -> &str {
    match reply {
        "text+thinking" => "<think>what now?</think>",
        "tool_call" => r#"{"action":"continue","tool_call":{"name":"noop"}}"#,
        "bad" => r#"{"action":"fly"}"#,
        "valid" => r#"{"action":"continue"}"#,
        "done without goal_check" => r#"{"action":"done"}"#,
        itself => itself,
    }
}

/// Checks one row about replies without a decision.
///
/// # Errors
/// What came back and what the row expects.
pub(super) fn check_completion(given: &Value, expect: &Value) -> Result<(), String> {
    let mut step = Step::start()?;
    let (mut streak, mut reminders) = (Vec::new(), Vec::new());
    let mut stopped = Value::Null;
    let mut signal = None;
    for reply in list(given, "turns").iter().filter_map(Value::as_str) {
        let reminder = match classify(written(reply)) {
            Classified::Decided(reading) => {
                signal = reading.final_text;
                step.record(reading.decision, TurnOutcome::Applied)?;
                continue;
            }
            Classified::TextOnly => step.remind(MissingCompletion::count_text)?,
            Classified::ThinkingOnly => step.remind(MissingCompletion::count_thinking)?,
            Classified::Refused(problem) => return Err(format!("{reply:?} is refused: {problem}")),
        };
        streak.push(count(step.progress().missing_completions));
        match reminder {
            Reminder::Normal => reminders.push(text("normal")),
            Reminder::FinalWarning => reminders.push(text("final")),
            Reminder::Stop => {
                stopped = text("missing_completion_signal");
                break;
            }
        }
    }
    if let [only] = streak.as_slice() {
        compare_stated(expect, "streak", only)?;
    } else {
        compare_stated(expect, "streak", &Value::Array(streak))?;
    }
    compare_stated(expect, "reminders", &Value::Array(reminders))?;
    compare_stated(expect, "stop_reason", &stopped)?;
    compare_stated(expect, "terminated", &Value::Bool(!stopped.is_null()))?;
    compare_stated(expect, "signaled", &Value::Bool(signal.is_some()))?;
    compare_stated(expect, "visible_text", &text(&signal.unwrap_or_default()))
}

/// Checks one row about refused replies.
///
/// # Errors
/// What came back and what the row expects.
pub(super) fn check_corrections(given: &Value, expect: &Value) -> Result<(), String> {
    let mut step = Step::start()?;
    let mut sent = 0;
    let mut stopped = Value::Null;
    for output in list(given, "outputs").iter().filter_map(Value::as_str) {
        if let Some(decision) = accepted(output)? {
            step.record(Some(decision), TurnOutcome::Applied)?;
            continue;
        }
        match step.correct()? {
            AfterRefusal::Correct => sent += 1,
            AfterRefusal::Stop => stopped = text("max_consecutive_corrections"),
        }
    }
    compare_stated(expect, "corrections_appended", &count(sent))?;
    compare_stated(expect, "run_error", &stopped)?;
    compare_stated(expect, "terminated", &Value::Bool(!stopped.is_null()))?;
    compare_stated(expect, "counter_after", &count(step.progress().corrections))
}

/// The decision of a reply that is read and passes its validations.
fn accepted(output: &str) -> Result<Option<ExecuteDecision>, String> {
    let decision = match classify(written(output)) {
        Classified::Decided(reading) => reading.decision.unwrap_or_else(|| saying(Action::Abort)),
        Classified::Refused(_) => return Ok(None),
        Classified::TextOnly | Classified::ThinkingOnly => {
            return Err(format!("{output:?} tries no decision"));
        }
    };
    let judged = View::default().judge(decision)?;
    Ok(judged.refusal().is_none().then_some(judged.decision))
}
