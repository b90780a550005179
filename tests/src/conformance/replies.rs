//! Rows about replies: those without a decision, and those that are refused. Each reply is a turn of a step, taken by
//! the functions that the executor calls.

use super::movement::{Played, View};
use super::runtime::{compare_stated, count, limits_of, list, text};
use super::{compare, text_of};
use std::collections::BTreeMap;
use surety_acceptgate::verdict::{Evaluation, evaluate};
use surety_common::domain::caution::CautionRules;
use surety_common::domain::decision::{Action, Usage};
use surety_common::domain::execution::StepProgress;
use surety_common::domain::execution::turns::{ClosedCall, TurnOutcome, TurnRecord};
use surety_common::domain::json::Value;
use surety_common::domain::limits::Limits;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::receipt::EvidenceReceipt;
use surety_common::domain::step::StepState;
use surety_executor::decision::{Classified, Reading, classify};
use surety_executor::fuse::completion::{MissingCompletion, Reminder};
use surety_executor::fuse::correction::AfterRefusal;
use surety_executor::fuse::limits::{Next, Used, reached};
use surety_executor::fuse::replies::{RefusedTurn, remind, stop_for_corrections};
use surety_executor::fuse::turn::begin;

/// A run whose only step takes replies.
pub(super) struct Step {
    pub(super) run: Played,
    limits: Limits,
}

/// What became of one reply.
pub(super) enum Taken {
    /// Its decision was applied.
    Applied(Box<Reading>),
    /// It held no decision.
    Reminded(Reminder),
    /// It was refused.
    Corrected(AfterRefusal),
    /// A limit was reached before it: it was not taken.
    Ended,
}

impl Step {
    pub(super) fn start(limits: Limits) -> Result<Self, String> {
        let mut run = Played::start(&[("s", &[])], limits.clone())?;
        run.change(|draft, graph, _| draft.lease_steps(graph, 1).map(drop))?;
        Ok(Self { run, limits })
    }

    pub(super) fn progress(&self) -> StepProgress {
        self.run.execution.step(0).cloned().unwrap_or_default()
    }

    /// Whether the step takes another reply.
    pub(super) fn is_open(&self) -> bool {
        self.run.execution.state == RunState::Executing
            && self.progress().state == StepState::Running
    }

    /// Whether a limit forbids another call.
    fn is_used_up(&self) -> bool {
        let execution = &self.run.execution;
        let used = Used::of(execution, 0, execution.updated_at);
        reached(&self.limits, &used, Next::Call).is_some()
    }

    /// Takes a reply as a row names it.
    pub(super) fn take(&mut self, reply: &str) -> Result<Taken, String> {
        match classify(written(reply)) {
            Classified::TextOnly => self.remind(MissingCompletion::count_text),
            Classified::ThinkingOnly => self.remind(MissingCompletion::count_thinking),
            Classified::Refused(problem) => self.refuse(&problem.to_string()),
            Classified::Decided(reading) => self.decide(reading),
        }
    }

    fn remind(
        &mut self,
        count: fn(&mut MissingCompletion, &Limits) -> Reminder,
    ) -> Result<Taken, String> {
        let mut begun = None;
        self.run.change(|draft, graph, limits| {
            let context = (graph, limits);
            begun = begin(draft, context, (0, Next::Turn), |draft| {
                remind(draft, context, 0, count, Usage::default())
            })?;
            Ok(())
        })?;
        if begun.is_none() {
            return Ok(Taken::Ended);
        }
        let notice = self.progress().notice;
        let said = [Reminder::Normal, Reminder::FinalWarning, Reminder::Stop];
        let said = said.into_iter().find(|reminder| reminder.text() == notice);
        said.map(Taken::Reminded).ok_or_else(|| format!("the notice is {notice:?}"))
    }

    fn refuse(&mut self, why: &str) -> Result<Taken, String> {
        let mut after = None;
        self.run.change(|draft, graph, limits| {
            let context = (graph, limits);
            after = begin(draft, context, (0, Next::Turn), |draft| {
                let refused = RefusedTurn { notice: why.to_owned(), ..RefusedTurn::default() };
                let after = refused.record(draft, context, 0)?;
                if after == AfterRefusal::Stop {
                    stop_for_corrections(draft, context, 0, &[])?;
                }
                Ok(after)
            })?;
            Ok(())
        })?;
        Ok(after.map_or(Taken::Ended, Taken::Corrected))
    }

    fn decide(&mut self, reading: Box<Reading>) -> Result<Taken, String> {
        let Some(decision) = reading.decision.clone() else {
            let reason = reading.control.as_ref().map_or("", |control| control.reason.as_str());
            self.run.change(|draft, graph, _| draft.fail_step(graph, 0, reason.to_owned()))?;
            return Ok(Taken::Applied(reading));
        };
        let (signalled, limits) = (reading.is_signal(), self.limits.clone());
        let view = View { proven: true, signalled, limits, ..View::default() };
        let judged = view.judge(decision)?;
        if let Some(refusal) = judged.refusal() {
            return self.refuse(&refusal.reason);
        }
        let decision = judged.decision;
        let next = if decision.tool_call.is_some() { Next::Call } else { Next::Turn };
        let mut begun = None;
        self.run.change(|draft, graph, limits| {
            begun = begin(draft, (graph, limits), (0, next), |draft| {
                let record = TurnRecord {
                    decision: Some(decision.clone()),
                    validations: Vec::new(),
                    warnings: Vec::new(),
                    outcome: TurnOutcome::Applied,
                    usage: Usage::default(),
                };
                draft.record_turn(graph, 0, record)?;
                match (&decision.tool_call, decision.action) {
                    (Some(call), _) => draft.close_call(0, closed(&call.name)),
                    (None, Action::NextPlan | Action::Done) => {
                        draft.finish_step(graph, 0, decision.goal_check.clone())
                    }
                    (None, Action::Abort) => {
                        let abort = decision.abort.clone().unwrap_or_default();
                        draft.abort(graph, abort)
                    }
                    (None, Action::Continue | Action::AskUser | Action::Confirm) => Ok(()),
                }
            })?;
            Ok(())
        })?;
        Ok(begun.map_or(Taken::Ended, |()| Taken::Applied(reading)))
    }
}

/// A call that returned.
fn closed(tool: &str) -> ClosedCall {
    let fact = surety_common::domain::receipt::Fact::of_output("done", "yes");
    let receipt = EvidenceReceipt { name: tool.to_owned(), ..super::gate::receipt_of(fact, "", 0) };
    ClosedCall { receipt, output: None, proves: true }
}

/// A reply as a row names it: a word for a kind of reply, or the reply itself.
fn written(reply: &str) -> &str {
    let word: String = reply
        .trim()
        .chars()
        .map(|letter| if "_-+".contains(letter) { ' ' } else { letter.to_ascii_lowercase() })
        .collect();
    match word.as_str() {
        "text thinking" | "thinking text" | "thinking" | "thinking only" | "only thinking" => {
            "<think>what now?</think>"
        }
        "tool" | "tool call" | "tool use" | "call" => {
            r#"{"action":"continue","tool_call":{"name":"noop"}}"#
        }
        "bad" | "invalid" | "refused" | "illegal" => r#"{"action":"fly"}"#,
        "malformed" | "bad json" | "broken" | "unparsable" | "parse error" => {
            r#"{"action":"continue",}"#
        }
        "valid" | "good" | "accepted" | "continue" => r#"{"action":"continue"}"#,
        "done without goal check" => r#"{"action":"done"}"#,
        "next plan without goal check" => r#"{"action":"next_plan"}"#,
        "done with goal check" => r#"{"action":"done","goal_check":"reached"}"#,
        "next plan" | "next plan with goal check" => {
            r#"{"action":"next_plan","goal_check":"reached"}"#
        }
        "unknown tool" => r#"{"action":"continue","tool_call":{"name":"no_such_tool"}}"#,
        "empty" | "blank" => "",
        _ => reply,
    }
}

/// Checks one row about replies without a decision.
///
/// # Errors
/// What came back and what the row expects.
pub(super) fn check_completion(given: &Value, expect: &Value) -> Result<(), String> {
    let limits = limits_of(given, &["max_missing_completion", "max_thinking_only"])?;
    compare_stated(expect, "limit", &count(limits.max_missing_completion))?;
    let mut step = Step::start(limits)?;
    // Of every turn, and of the turns without a decision.
    let (mut streak, mut undecided) = (Vec::new(), Vec::new());
    let mut reminders = Vec::new();
    let mut signal = None;
    for reply in list(given, "turns").iter().filter_map(Value::as_str) {
        if !step.is_open() {
            break;
        }
        let is_thinking = matches!(classify(written(reply)), Classified::ThinkingOnly);
        let taken = step.take(reply)?;
        let progress = step.progress();
        let in_a_row =
            if is_thinking { progress.thinking_only } else { progress.missing_completions };
        streak.push(count(in_a_row));
        match taken {
            Taken::Applied(reading) => signal = reading.final_text,
            Taken::Reminded(reminder) => {
                undecided.push(count(in_a_row));
                match reminder {
                    Reminder::Normal => reminders.push(text("normal")),
                    Reminder::FinalWarning => reminders.push(text("final")),
                    Reminder::Stop => {}
                }
            }
            Taken::Corrected(_) | Taken::Ended => {}
        }
    }
    let stated = expect.get("streak").and_then(Value::as_array);
    let streak = match stated.is_some_and(|stated| stated.len() == streak.len()) {
        true => streak,
        false => undecided,
    };
    match (expect.get("streak").and_then(Value::as_number), streak.as_slice()) {
        (Some(_), [.., last]) => compare_stated(expect, "streak", last)?,
        _ => compare_stated(expect, "streak", &Value::Array(streak))?,
    }
    compare_stated(expect, "reminders", &Value::Array(reminders))?;
    compare_stated(expect, "stop_reason", &step.run.stop_reason())?;
    let is_stopped = step.run.execution.state == RunState::Failed;
    compare_stated(expect, "terminated", &Value::Bool(is_stopped))?;
    compare_stated(expect, "signaled", &Value::Bool(signal.is_some()))?;
    match expect.get("then").and_then(Value::as_str) {
        Some(then) if then.contains("gate") => step.run.expect_state(RunState::Verifying)?,
        Some(then) => return Err(format!("then: {then:?} is not what follows a reply")),
        None => {}
    }
    if let Some(final_text) = signal.as_deref().filter(|_| expect.get("gate").is_some()) {
        check_gate(text_of(expect, "gate"), final_text)?;
    }
    compare_stated(expect, "visible_text", &text(&signal.unwrap_or_default()))?;
    compare_note(expect, &step)
}

/// A plan without checks: the gate goes by the final text.
fn check_gate(expected: &str, final_text: &str) -> Result<(), String> {
    let verdict = evaluate(&Evaluation {
        workspace_root: "/",
        checks: &[],
        receipts: &[],
        final_text,
        todos: &[],
        plan_made_at: None,
        answers: &BTreeMap::new(),
        project_tests: None,
        round: None,
        require_independent: false,
        cautions: CautionRules::default(),
        authored_text: None,
    });
    let stop_reason = verdict.map_err(|error| error.to_string())?.stop_reason.as_str();
    match expected.contains(stop_reason) {
        true => Ok(()),
        false => Err(format!("gate: expected {expected}, found {stop_reason}")),
    }
}

/// Of a row that has nothing but a note, the note names why the run stopped.
fn compare_note(expect: &Value, step: &Step) -> Result<(), String> {
    let members = expect.as_object().unwrap_or_default();
    let is_note = members.iter().all(|(key, _)| key == "note");
    let reason = step.run.stop_reason();
    let reason = reason.as_str().unwrap_or("the run goes on");
    if !is_note || text_of(expect, "note").contains(reason) {
        return Ok(());
    }
    Err(format!("note: expected {:?}, found {reason}", text_of(expect, "note")))
}

/// Checks one row about refused replies.
///
/// # Errors
/// What came back and what the row expects.
pub(super) fn check_corrections(given: &Value, expect: &Value) -> Result<(), String> {
    let limits = limits_of(given, &["max_consecutive_corrections"])?;
    compare_stated(expect, "limit", &count(limits.max_consecutive_corrections))?;
    let mut step = Step::start(limits)?;
    let mut sent = 0;
    for output in list(given, "outputs").iter().filter_map(Value::as_str) {
        if !step.is_open() {
            break;
        }
        if matches!(step.take(output)?, Taken::Corrected(AfterRefusal::Correct)) {
            sent += 1;
        }
    }
    compare_stated(expect, "corrections_appended", &count(sent))?;
    let stopped = step.run.stop_reason();
    for key in ["run_error", "stop_reason"] {
        compare_stated(expect, key, &stopped)?;
    }
    compare_stated(expect, "terminated", &Value::Bool(!stopped.is_null()))?;
    compare_stated(expect, "counter_after", &count(step.progress().corrections))
}

/// Checks one row about the limit of a step's tool calls: replies until a limit refuses one.
///
/// # Errors
/// What came back and what the row expects.
pub(super) fn check_step_fuse(given: &Value, expect: &Value) -> Result<(), String> {
    let outputs: Vec<&str> = list(given, "step_outputs").iter().filter_map(Value::as_str).collect();
    let mut limits = limits_of(given, &["max_step_tool_calls"])?;
    // A row bounds its loop by one number. A reply without a call uses up a turn and no call, so the limit of turns
    // has to end such a loop.
    let calls = |output: &&str| written(output).contains("tool_call");
    if !outputs.iter().all(calls) && given.get("max_step_rounds").is_none() {
        limits.max_step_rounds = limits.max_step_tool_calls;
    }
    let mut step = Step::start(limits)?;
    let mut taken = 0;
    // One more than the row gives: the driver goes on, and only a reached limit ends the step.
    for output in outputs.iter().copied().chain(["tool call"]) {
        let is_extra = taken == outputs.len();
        if !step.is_open() || (is_extra && !step.is_used_up()) {
            break;
        }
        if matches!(step.take(output)?, Taken::Ended) {
            break;
        }
        taken += 1;
    }
    compare_stated(expect, "iterations", &count(taken))?;
    compare_stated(expect, "stop_reason", &step.run.stop_reason())?;
    compare_stated(expect, "step_status", &text(step.progress().state.as_str()))?;
    let wants_replan = text_of(expect, "then").to_ascii_lowercase().contains("replan");
    if wants_replan || step.progress().state == StepState::Failed {
        step.run.expect_state(RunState::Recovering)?;
    }
    match expect.get("then").and_then(Value::as_str) {
        Some(then) if !wants_replan && !then.contains("RECOVERING") => {
            compare("then", &text(then), &text(step.run.execution.state.as_str()))
        }
        Some(_) | None => Ok(()),
    }
}
