//! Rows about how a run and its steps move: asked of the machine, of the rules over a whole
//! execution, and of the validations of a decision.

use super::replies::{self, Step, Taken};
use super::runtime::{compare_stated, count, limits_of, list, number, number32, text};
use super::{Row, compare, text_of, verification};
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeMap;
use std::sync::Arc;
use surety_acceptgate::verdict::{Evaluation, evaluate};
use surety_common::domain::caution::CautionRules;
use surety_common::domain::check::Author;
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::execution::{Execution, Graph, Wait};
use surety_common::domain::journal::Actor;
use surety_common::domain::json::Value;
use surety_common::domain::limits::Limits;
use surety_common::domain::machine::Refusal;
use surety_common::domain::machine::run::{RunEvent, RunState, decide};
use surety_common::domain::plan::{Evidence, Plan, PlanStep, ToolCall};
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::receipt::{counts_as_evidence, read_receipt};
use surety_common::domain::step::StepState;
use surety_common::domain::stop::{StopReason, WaitingOn};
use surety_common::domain::todo::{Todo, TodoStatus};
use surety_executor::decision::{Judged, RunView, Spent, StepView, ToolView, judge};
use surety_executor::tool::{BuiltinSettings, Registry};
use surety_planner::plan::patch::{apply_patch, read_patch};
use surety_planner::plan::{PlanState, validate_plan};
use uuid::Uuid;

type Checked = Result<(), String>;

/// Checks a row about movement; none when the row is about something else.
pub fn check_movement(row: &Row) -> Option<Checked> {
    let given = row.value.get("given")?;
    let expect = row.value.get("expect")?;
    Some(match text_of(given, "kind") {
        "states" => check_states(expect),
        "step_fuse" => replies::check_step_fuse(given, expect),
        "round_budget" => check_round_budget(given, expect),
        "replan_fuse" => check_replan_fuse(given, expect),
        "deadlock" => check_deadlock(given, expect),
        "order" => check_order(given, expect),
        "replan_keeps_done" => check_kept_done(given, expect),
        "verify" => verification::check(given, expect),
        "gate_failure_after_signal" => check_repairs(given, expect),
        "terminal_not_overwritten" => check_first_terminal(given, expect),
        "next_plan" => check_next_plan(given, expect),
        "done_early" => check_done_early(given, expect),
        "evidence_binding" => check_binding(given, expect),
        "new_run" => check_new_run(given, expect),
        _ => return None,
    })
}

/// Every list of states but the first is a way that the machine allows, one event at a time.
fn check_states(expect: &Value) -> Checked {
    let mut words: Vec<&str> = RunState::ALL.into_iter().map(RunState::as_str).collect();
    words.dedup();
    let states = words.into_iter().map(text).collect();
    compare_stated(expect, "states", &Value::Array(states))?;
    for (name, way) in expect.as_object().unwrap_or_default() {
        if name == "states" {
            continue;
        }
        let mut way = way.as_array().unwrap_or_default().iter().filter_map(Value::as_str);
        let Some(mut from) = way.next() else { continue };
        // A blocked run remembers the phase that it left, which the word alone does not name.
        let mut places: Vec<RunState> =
            RunState::ALL.into_iter().filter(|it| it.as_str() == from).collect();
        for to in way {
            let moves = |place: &RunState| {
                let place = *place;
                RunEvent::ALL.into_iter().filter_map(move |event| decide(place, event).ok())
            };
            places = places.iter().flat_map(moves).filter(|it| it.as_str() == to).collect();
            if places.is_empty() {
                return Err(format!("{name}: nothing leads from {from} to {to}"));
            }
            from = to;
        }
    }
    Ok(())
}

/// Turns without a call, until the change that begins one is refused.
fn check_round_budget(given: &Value, expect: &Value) -> Checked {
    let mut limits = limits_of(given, &[])?;
    if given.get("max_rounds").is_some() {
        limits.max_step_rounds = number32(given, "max_rounds")?;
    }
    let wanted = number32(given, "llm_rounds")?;
    let mut step = Step::start(limits)?;
    let mut taken = 0;
    while taken < wanted && !matches!(step.take("continue")?, Taken::Ended) {
        taken += 1;
    }
    compare_stated(expect, "model_calls", &count(taken))?;
    compare_stated(expect, "step", &text(step.progress().state.as_str()))?;
    compare_stated(expect, "stop_reason", &step.run.stop_reason())?;
    if step.progress().state == StepState::Failed {
        step.run.expect_state(RunState::Recovering)?;
    }
    Ok(())
}

fn check_replan_fuse(given: &Value, expect: &Value) -> Checked {
    let limits = limits_of(given, &["max_replans"])?;
    let mut run = Played::start(&[("s", &[])], limits)?;
    for _ in 0..number32(given, "replan_requests")? {
        if run.execution.state.is_terminal() {
            break;
        }
        run.run_next(|draft, graph, index| draft.fail_step(graph, index, "a wish to replan"))?;
        run.change(|draft, graph, limits| draft.recover(graph, limits))?;
    }
    compare_stated(expect, "replans_used", &count(run.execution.counters.replans))?;
    compare_stated(expect, "stop_reason", &run.stop_reason())
}

fn check_deadlock(given: &Value, expect: &Value) -> Checked {
    let plan = plan_of(list(given, "steps"));
    let refused = validate_plan(&plan, Limits::default().max_plan_steps).err();
    let refused = refused.map(|problem| problem.code);
    let code = refused.map_or(Value::Null, |code| text(code.as_str()));
    compare_stated(expect, "refused_at_parse", &code)?;
    let mut run = Played::of(&plan, Limits::default());
    run.change(|draft, graph, _| draft.start_plan(graph, 1))?;
    while run.execution.state == RunState::Executing {
        run.run_next(|draft, graph, index| draft.finish_step(graph, index, "done"))?;
    }
    let is_stuck = run.execution.stop_reason() == Some(StopReason::DependencyDeadlock);
    let wanted = match expect.get("at_run_time") {
        Some(said) => said.as_str().is_some_and(|said| said.contains("deadlock")),
        None => [Code::DependencyCycle, Code::SelfDependency].iter().any(|it| Some(*it) == refused),
    };
    compare("a deadlock at run time", &Value::Bool(wanted), &Value::Bool(is_stuck))
}

fn check_order(given: &Value, expect: &Value) -> Checked {
    let mut run = Played::of(&plan_of(list(given, "steps")), Limits::default());
    run.change(|draft, graph, _| draft.start_plan(graph, 1))?;
    compare_stated(expect, "executed", &run.play_to_the_end()?)
}

/// A failed step is taken up again, under the patch that the row gives or as it was; what is done stays done.
fn check_kept_done(given: &Value, expect: &Value) -> Checked {
    let steps = list(given, "steps");
    let plan = plan_of(steps);
    let mut run = Played::of(&plan, limits_of(given, &[])?);
    run.change(|draft, graph, _| draft.start_plan(graph, 1))?;
    for (index, step) in steps.iter().enumerate() {
        let mut words =
            step.as_array().unwrap_or_default().iter().skip(1).filter_map(Value::as_str);
        match words.next().map(|word| StepState::from_text(word).ok_or(word)) {
            Some(Ok(state @ (StepState::Done | StepState::Failed))) => run.put(index, state),
            Some(Ok(StepState::Pending | StepState::Ready)) | None => {}
            Some(Ok(other)) => return Err(format!("no step begins as {}", other.as_str())),
            Some(Err(word)) => return Err(format!("{word:?} is no state of a step")),
        }
    }
    let has_failed = run.execution.steps_in(StepState::Failed).next().is_some();
    if has_failed {
        run.execution.state = RunState::Recovering;
    }
    let refused = match given.get("patch").filter(|patch| !patch.is_null()) {
        Some(patch) => run.replan(plan, patch)?,
        None if has_failed => {
            run.change(|draft, graph, limits| draft.recover(graph, limits))?;
            None
        }
        None => None,
    };
    let code = refused.map_or(Value::Null, |problem| text(problem.code.as_str()));
    compare("error", expect.get("error").unwrap_or(&Value::Null), &code)?;
    compare_stated(expect, "executed_after", &run.play_to_the_end()?)
}

fn check_repairs(given: &Value, expect: &Value) -> Checked {
    let mut run = Played::verifying(limits_of(given, &["max_repairs"])?)?;
    let mut repairs: u32 = 0;
    loop {
        run.change(|draft, graph, limits| draft.refuse(graph, limits, not_accepted()))?;
        if run.execution.state != RunState::Recovering {
            break;
        }
        repairs += 1;
        run.change(|draft, graph, limits| draft.recover(graph, limits))?;
        run.play_to_the_end()?;
    }
    compare_stated(expect, "repairs", &count(repairs))?;
    compare_stated(expect, "stop_reason", &run.stop_reason())?;
    let Some(then) = expect.get("then").and_then(Value::as_str) else { return Ok(()) };
    let reason = run.execution.stop_reason().map_or("", StopReason::as_str);
    // The number of repairs, where the row has one.
    let counted_to =
        then.split(|letter: char| !letter.is_ascii_digit()).find(|part| !part.is_empty());
    let counted = counted_to.is_none_or(|count| count == repairs.to_string());
    let recovers = repairs == 0 || then.contains("RECOVERING");
    if counted && recovers && then.contains("FAILED") && then.contains(reason) {
        return Ok(());
    }
    Err(format!("{repairs} repairs, then {reason}"))
}

fn check_first_terminal(given: &Value, expect: &Value) -> Checked {
    let mut run = Played::verifying(Limits::default())?;
    for word in list(given, "sequence").iter().filter_map(Value::as_str) {
        let stop_reason = ending_of(word).ok_or_else(|| format!("{word:?} ends no run"))?;
        let ended = run.execution.state.is_terminal();
        let outcome = run.change(|draft, graph, _| {
            if stop_reason == StopReason::Accepted {
                draft.accept(graph)
            } else if stop_reason == StopReason::Cancelled {
                draft.cancel(graph, "caller".to_owned())
            } else {
                draft.stop(graph, Ending { stop_reason, ..not_accepted() })
            }
        });
        if outcome.is_ok() == ended {
            return Err(format!("{word:?} after a terminal: {outcome:?}"));
        }
    }
    for key in ["state", "status"] {
        compare_stated(expect, key, &text(run.execution.state.as_str()))?;
    }
    compare_stated(expect, "stop_reason", &run.stop_reason())
}

/// The stop reason that a word stands for: a reason, the start of one, or the name of a terminal state.
fn ending_of(word: &str) -> Option<StopReason> {
    let word = word.trim().to_ascii_lowercase();
    match word.as_str() {
        "done" | "accept" => Some(StopReason::Accepted),
        "cancel" | "canceled" => Some(StopReason::Cancelled),
        "fail" | "failed" => Some(StopReason::AcceptCheckFailed),
        "timeout" => Some(StopReason::DeadlineExceeded),
        word => {
            let begins = || StopReason::ALL.into_iter().filter(|it| it.as_str().starts_with(word));
            StopReason::from_text(word)
                .or_else(|| begins().next().filter(|_| begins().count() == 1))
        }
    }
}

fn check_next_plan(given: &Value, expect: &Value) -> Checked {
    let mut run = Played::start_unconnected(number32(given, "steps")?, Limits::default())?;
    let current = usize::try_from(number32(given, "current")?).unwrap_or_default();
    for _ in 0..=current {
        run.run_next(|draft, graph, index| draft.finish_step(graph, index, "reached"))?;
    }
    compare_stated(expect, "step", &text(run.step(current).as_str()))?;
    compare_stated(expect, "run", &text(run.execution.state.as_str()))
}

/// The steps before the present one are done, unless the row names those that are.
fn check_done_early(given: &Value, expect: &Value) -> Checked {
    let current = usize::try_from(number(given, "current").unwrap_or_default()).unwrap_or_default();
    let mut run = Played::start_unconnected(number32(given, "steps")?, limits_of(given, &[])?)?;
    let named = given.get("done").and_then(Value::as_array);
    let place = |value: &Value| value.as_number().and_then(|number| number.parse().ok());
    let done: Vec<usize> = match named {
        Some(named) => named.iter().filter_map(place).collect(),
        None => (0..current).collect(),
    };
    done.iter().for_each(|index| run.put(*index, StepState::Done));
    let decision = ExecuteDecision {
        goal_check: text_of(given, "goal_check").trim().to_owned(),
        ..saying(Action::Done)
    };
    let proven = given.get("evidence").and_then(Value::as_bool).unwrap_or(true);
    let others_open = run.execution.is_other_step_open(current);
    let judged = View { others_open, proven, ..View::default() }.judge(decision)?;
    compare_stated(expect, "accepted", &Value::Bool(judged.refusal().is_none()))?;
    let code = refused_code(&judged).map_or(Value::Null, |code| text(code.as_str()));
    compare_stated(expect, "error", &code)
}

fn check_binding(given: &Value, expect: &Value) -> Checked {
    let mut receipts = Vec::new();
    for receipt in list(given, "receipts") {
        receipts.push(read_receipt(receipt).map_err(|problem| problem.to_string())?);
    }
    let current = number32(given, "current_step")?;
    let stated = ["plan_revision", "current_plan_revision", "current_revision", "revision"];
    let stated = stated.into_iter().find(|key| given.get(key).is_some());
    // A row that names no present revision is about receipts of the last one.
    let revision = match stated {
        Some(key) => number32(given, key)?,
        None => receipts.iter().map(|receipt| receipt.plan_revision).max().unwrap_or(1),
    };
    let proven = receipts.iter().any(|receipt| counts_as_evidence(receipt, current, revision));
    let evidence = match text_of(given, "evidence") {
        "" => Evidence::Required,
        word => Evidence::from_text(word).ok_or_else(|| format!("{word:?} is no evidence"))?,
    };
    let view = View { proven, evidence, ..View::default() };
    let action = Action::from_any_case(text_of(given, "action")).ok_or("no such action")?;
    let goal_check = "reached".to_owned();
    let judged = view.judge(ExecuteDecision { goal_check, ..saying(action) })?;
    let passed = refused_code(&judged) != Some(Code::EvidenceMissing);
    compare_stated(expect, "evidence_passed", &Value::Bool(passed))?;
    let code = refused_code(&judged).map_or(Value::Null, |code| text(code.as_str()));
    compare_stated(expect, "error", &code)
}

/// Todos from before the plan do not count for it.
fn check_new_run(given: &Value, expect: &Value) -> Checked {
    let made_at = DateTime::<Utc>::UNIX_EPOCH;
    let old = |id: &str| Todo {
        id: id.to_owned(),
        content: String::new(),
        required: true,
        status: TodoStatus::Pending,
        dependencies: Vec::new(),
        replaces: Vec::new(),
        created_at: Some(made_at - TimeDelta::seconds(1)),
    };
    let todos = list(given, "session_todos").iter().filter_map(Value::as_str);
    let todos: Vec<Todo> = todos.map(old).collect();
    let verdict = evaluate(&Evaluation {
        workspace_root: "/",
        checks: &[],
        receipts: &[],
        final_text: "done",
        todos: &todos,
        plan_made_at: Some(made_at),
        answers: &BTreeMap::new(),
        project_tests: None,
        round: None,
        require_independent: false,
        cautions: CautionRules::default(),
        authored_text: None,
    });
    let results = verdict.iter().flat_map(|verdict| &verdict.results);
    let counted = results.filter(|result| !result.passed);
    let counted = counted.map(|result| text(&result.reason)).collect();
    compare_stated(expect, "todos_after", &Value::Array(counted))
}

pub(super) fn not_accepted() -> Ending {
    Ending {
        stop_reason: StopReason::AcceptCheckFailed,
        user_message: String::new(),
        internal_reason: String::new(),
    }
}

/// A plan of the steps `[id, [dependency, ...]]`, which may name a state as well.
fn plan_of(steps: &[Value]) -> Plan {
    let step = |step: &Value| {
        let pair = step.as_array().unwrap_or_default();
        let needed = pair.iter().find_map(Value::as_array).unwrap_or_default();
        PlanStep {
            id: pair.first().and_then(Value::as_str).unwrap_or_default().to_owned(),
            description: "work".to_owned(),
            dependencies: needed.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            ..PlanStep::default()
        }
    };
    Plan { title: "a plan".to_owned(), steps: steps.iter().map(step).collect(), ..Plan::default() }
}

/// A patch as a row shortens it: an added step has some description, and an update without a field changes it.
fn described(patch: &Value) -> Value {
    let completed = |list: &str, step: &Value| {
        let mut members = step.as_object().unwrap_or_default().to_vec();
        let is_bare = match list {
            "add_steps" => step.get("description").is_none(),
            _ => members.len() == 1,
        };
        if is_bare {
            members.push(("description".to_owned(), text("work of the next revision")));
        }
        Value::Object(members)
    };
    let members = patch.as_object().unwrap_or_default().iter().map(|(key, value)| {
        let value = match (key.as_str(), value.as_array()) {
            (list @ ("add_steps" | "update_steps"), Some(steps)) => {
                Value::Array(steps.iter().map(|step| completed(list, step)).collect())
            }
            _ => value.clone(),
        };
        (key.clone(), value)
    });
    Value::Object(members.collect())
}

/// An execution that is moved by hand.
pub(super) struct Played {
    pub(super) execution: Execution,
    graph: Graph,
    limits: Limits,
}

impl Played {
    fn of(plan: &Plan, limits: Limits) -> Self {
        let now = DateTime::<Utc>::UNIX_EPOCH;
        let mut execution = Execution::new(Uuid::nil(), "rows".to_owned(), now, now);
        execution.deadline_at = Some(now + TimeDelta::days(1));
        Self { execution, graph: Graph::of(plan), limits }
    }

    pub(super) fn start(steps: &[(&str, &[&str])], limits: Limits) -> Result<Self, String> {
        let step = |(id, needed): &(&str, &[&str])| PlanStep {
            id: (*id).to_owned(),
            dependencies: needed.iter().map(ToString::to_string).collect(),
            ..PlanStep::default()
        };
        let plan = Plan { steps: steps.iter().map(step).collect(), ..Plan::default() };
        let mut run = Self::of(&plan, limits);
        run.change(|draft, graph, _| draft.start_plan(graph, 1))?;
        Ok(run)
    }

    /// A run of so many steps that need nothing.
    fn start_unconnected(steps: u32, limits: Limits) -> Result<Self, String> {
        let names: Vec<String> = (0..steps).map(|step| step.to_string()).collect();
        let shape: Vec<(&str, &[&str])> =
            names.iter().map(|name| (name.as_str(), &[][..])).collect();
        Self::start(&shape, limits)
    }

    /// Puts a step into the state that a row gives.
    fn put(&mut self, index: usize, state: StepState) {
        if let Some(step) = self.execution.steps.get_mut(index) {
            Arc::make_mut(step).state = state;
        }
    }

    /// Starts the next revision of the plan by a patch, unless that is refused.
    fn replan(&mut self, plan: Plan, patch: &Value) -> Result<Option<Problem>, String> {
        let statuses = self.execution.steps.iter().map(|step| step.state).collect();
        let read = read_patch(&described(patch), Author::Model, &mut Vec::new());
        let state = PlanState { plan, statuses };
        let applied = read.and_then(|patch| apply_patch(&state, patch, self.limits.max_plan_steps));
        let patched = match applied {
            Ok(patched) => patched,
            Err(problem) => return Ok(Some(problem)),
        };
        let next = Graph::of(&patched.state.plan);
        let since = self.execution.updated_at;
        let wait = Wait::new(Uuid::nil(), WaitingOn::Operator, since, "a patch".to_owned());
        self.change(|draft, graph, limits| {
            if draft.execution().state == RunState::Recovering {
                draft.recover_by_plan(graph, limits, wait)?;
            } else {
                draft.replan(graph, wait, "another plan is asked for")?;
            }
            draft.unblock(graph, "a patch was submitted")?;
            draft.revise_plan(graph, &next, 2)
        })?;
        self.graph = next;
        Ok(None)
    }

    /// A run whose only step is done.
    pub(super) fn verifying(limits: Limits) -> Result<Self, String> {
        let mut run = Self::start(&[("s", &[])], limits)?;
        run.play_to_the_end()?;
        run.expect_state(RunState::Verifying)?;
        Ok(run)
    }

    pub(super) fn change(
        &mut self,
        change: impl FnOnce(&mut Draft, &Graph, &Limits) -> Result<(), Refusal>,
    ) -> Checked {
        let now = DateTime::<Utc>::UNIX_EPOCH;
        let mut draft = Draft::new(self.execution.clone(), Actor("a row".into()), now);
        change(&mut draft, &self.graph, &self.limits).map_err(|refusal| refusal.to_string())?;
        self.execution = Execution::clone(&draft.into_write().execution);
        Ok(())
    }

    /// Leases the next ready step and ends it.
    fn run_next(
        &mut self,
        end: impl FnOnce(&mut Draft, &Graph, usize) -> Result<(), Refusal>,
    ) -> Result<usize, String> {
        let mut leased = None;
        self.change(|draft, graph, _| {
            leased = draft.lease_steps(graph, 1)?.first().copied();
            leased.map_or(Err(Refusal::Meaningless), |index| end(draft, graph, index))
        })?;
        leased.ok_or_else(|| "no step is ready".to_owned())
    }

    /// Finishes every step that becomes ready; answers their ids in the order they ran.
    fn play_to_the_end(&mut self) -> Result<Value, String> {
        let mut ran = Vec::new();
        while self.execution.state == RunState::Executing {
            let index =
                self.run_next(|draft, graph, index| draft.finish_step(graph, index, "ok"))?;
            ran.push(text(self.graph.id(index)));
        }
        Ok(Value::Array(ran))
    }

    fn step(&self, index: usize) -> StepState {
        self.execution.steps.get(index).map(|step| step.state).unwrap_or_default()
    }

    pub(super) fn stop_reason(&self) -> Value {
        self.execution.stop_reason().map_or(Value::Null, |reason| text(reason.as_str()))
    }

    pub(super) fn expect_state(&self, wanted: RunState) -> Checked {
        compare("the run's state", &text(wanted.as_str()), &text(self.execution.state.as_str()))
    }
}

/// What a row says about the run around a decision; all the rest lets every decision pass.
#[derive(Default)]
pub(super) struct View {
    pub(super) signalled: bool,
    pub(super) others_open: bool,
    pub(super) proven: bool,
    pub(super) evidence: Evidence,
    pub(super) limits: Limits,
}

impl View {
    pub(super) fn judge(&self, decision: ExecuteDecision) -> Result<Judged, String> {
        let registry = Registry::with_builtin(&BuiltinSettings::default())
            .map_err(|error| error.to_string())?;
        let tools: Vec<ToolView<'_>> = registry
            .specs()
            .map(|spec| ToolView {
                name: &spec.name,
                read_only: spec.annotations.read_only,
                requires_confirmation: false,
            })
            .collect();
        let fits = |call: &ToolCall| {
            registry.validate(&call.name, &call.arguments).map_err(|wrong| wrong.join("; "))
        };
        Ok(judge(
            decision,
            &RunView {
                step: StepView {
                    tools_expected: &[],
                    evidence: self.evidence,
                    proven: self.proven,
                    checks: &[],
                },
                signalled: self.signalled,
                other_steps_open: self.others_open,
                tools: &tools,
                always_allowed: &[],
                pending_confirmation: false,
                limits: &self.limits,
                spent: Spent::default(),
                repeats: false,
                fits_schema: &fits,
            },
        ))
    }
}

fn refused_code(judged: &Judged) -> Option<Code> {
    judged.refusal().and_then(|refusal| refusal.code)
}

pub(super) fn saying(action: Action) -> ExecuteDecision {
    ExecuteDecision {
        speak: String::new(),
        action,
        reason: String::new(),
        goal_check: String::new(),
        tool_call: None,
        abort: None,
        answer_schema: None,
    }
}
