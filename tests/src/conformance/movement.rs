//! Rows about how a run and its steps move: asked of the machine, of the rules over a whole
//! execution, and of the validations of a decision.

use super::runtime::{compare_stated, count, list, number, text};
use super::{Row, compare, text_of, verification};
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeMap;
use surety_acceptgate::verdict::{Evaluation, evaluate};
use surety_common::domain::caution::CautionRules;
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::execution::{Execution, Graph};
use surety_common::domain::journal::Actor;
use surety_common::domain::json::Value;
use surety_common::domain::limits::Limits;
use surety_common::domain::machine::Refusal;
use surety_common::domain::machine::run::{RunEvent, RunState, decide};
use surety_common::domain::plan::{Evidence, Plan, PlanStep, ToolCall};
use surety_common::domain::problem::Code;
use surety_common::domain::receipt::{NOOP, counts_as_evidence, read_receipt};
use surety_common::domain::step::StepState;
use surety_common::domain::stop::StopReason;
use surety_common::domain::todo::{Todo, TodoStatus};
use surety_executor::decision::{Judged, RunView, Spent, StepView, ToolView, judge};
use surety_executor::fuse::limits::{Next, Used, reached};
use surety_executor::tool::{BuiltinSettings, Registry};
use surety_planner::plan::validate_plan;
use uuid::Uuid;

type Checked = Result<(), String>;

/// Checks a row about movement; none when the row is about something else.
pub fn check_movement(row: &Row) -> Option<Checked> {
    let given = row.value.get("given")?;
    let expect = row.value.get("expect")?;
    Some(match text_of(given, "kind") {
        "states" => check_states(expect),
        "step_fuse" => check_step_fuse(given, expect),
        "round_budget" => check_round_budget(given, expect),
        "replan_fuse" => check_replan_fuse(given, expect),
        "deadlock" => check_deadlock(given, expect),
        "order" => check_order(given, expect),
        "replan_keeps_done" => check_kept_done(given, expect),
        "verify" => verification::check(given, expect),
        "gate_failure_after_signal" => check_repairs(expect),
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
        let ways = way.as_array().unwrap_or_default();
        let words: Vec<&str> = ways.iter().filter_map(Value::as_str).collect();
        // A blocked run returns to its phase, which the word alone does not name.
        let blocked = words.contains(&"BLOCKED");
        if name == "states" || blocked {
            continue;
        }
        for pair in words.windows(2) {
            let [from, to] = pair else { continue };
            let state = RunState::from_text(from, None).ok_or(format!("{from} is no state"))?;
            let moves = RunEvent::ALL.into_iter().filter_map(|event| decide(state, event).ok());
            if !moves.map(RunState::as_str).any(|word| word == *to) {
                return Err(format!("{name}: nothing leads from {from} to {to}"));
            }
        }
    }
    Ok(())
}

/// Decisions with a tool call until the fuse refuses one; then the step fails.
fn check_step_fuse(given: &Value, expect: &Value) -> Checked {
    let limits = limited(given)?;
    let called =
        list(given, "step_outputs").iter().filter(|output| output.as_str() == Some("tool"));
    let mut carried_out = 0;
    // One more than the row gives: the step only ends by a refusal, as nothing in it is done.
    for _ in 0..=called.count() {
        let used = Used { step_tool_calls: carried_out, ..Used::default() };
        let spent = Spent { used, ..Spent::default() };
        let view = View { limits: limits.clone(), spent, ..View::default() };
        if refused_code(&view.judge(calling(NOOP))?) == Some(Code::FuseReached) {
            break;
        }
        carried_out += 1;
    }
    compare_stated(expect, "iterations", &count(carried_out))?;
    let mut run = Played::start(&[("s", &[])], limits)?;
    run.run_next(|draft, graph, index| draft.fail_step(graph, index, "a fuse"))?;
    compare_stated(expect, "step_status", &text(run.step(0).as_str()))?;
    run.expect_state(RunState::Recovering)
}

fn check_round_budget(given: &Value, expect: &Value) -> Checked {
    let most = number32(given, "max_rounds")?;
    let wanted = number32(given, "llm_rounds")?;
    let limits = Limits { max_step_rounds: most, ..Limits::default() };
    let may_begin = |taken: &u32| {
        let used = Used { step_rounds: *taken, ..Used::default() };
        reached(&limits, &used, Next::Turn).is_none()
    };
    let allowed = (0..wanted).take_while(may_begin).count();
    compare_stated(expect, "model_calls", &count(allowed))?;
    if allowed == usize::try_from(wanted).unwrap_or_default() {
        return compare_stated(expect, "step", &text(StepState::Running.as_str()));
    }
    let mut run = Played::start(&[("s", &[])], limits)?;
    run.run_next(|draft, graph, index| draft.fail_step(graph, index, "max_step_rounds"))?;
    compare_stated(expect, "step", &text(run.step(0).as_str()))?;
    run.expect_state(RunState::Recovering)
}

fn check_replan_fuse(given: &Value, expect: &Value) -> Checked {
    let limits = Limits { max_replans: number32(given, "max_replans")?, ..Limits::default() };
    let mut run = Played::start(&[("s", &[])], limits)?;
    for _ in 0..number32(given, "replan_requests")? {
        run.run_next(|draft, graph, index| draft.fail_step(graph, index, "a wish to replan"))?;
        run.change(|draft, graph, limits| draft.recover(graph, limits))?;
    }
    compare_stated(expect, "replans_used", &count(run.execution.counters.replans))?;
    compare_stated(expect, "stop_reason", &run.stop_reason())
}

fn check_deadlock(given: &Value, expect: &Value) -> Checked {
    let plan = plan_of(list(given, "steps"));
    let refused = validate_plan(&plan, Limits::default().max_plan_steps).err();
    let code = refused.map_or(Value::Null, |problem| text(problem.code.as_str()));
    compare_stated(expect, "refused_at_parse", &code)?;
    let mut run = Played::of(&plan, Limits::default());
    run.change(|draft, graph, _| draft.start_plan(graph, 1))?;
    while run.execution.state == RunState::Executing {
        run.run_next(|draft, graph, index| draft.finish_step(graph, index, "done"))?;
    }
    let stopped = text(StopReason::DependencyDeadlock.as_str());
    compare("at_run_time", &stopped, &run.stop_reason())
}

fn check_order(given: &Value, expect: &Value) -> Checked {
    let mut run = Played::of(&plan_of(list(given, "steps")), Limits::default());
    run.change(|draft, graph, _| draft.start_plan(graph, 1))?;
    compare_stated(expect, "executed", &run.play_to_the_end()?)
}

/// A failed step is taken up again; what is done stays done.
fn check_kept_done(given: &Value, expect: &Value) -> Checked {
    let steps = list(given, "steps");
    let mut run = Played::of(&plan_of(steps), Limits::default());
    run.change(|draft, graph, _| draft.start_plan(graph, 1))?;
    for step in steps {
        let word = step.as_array().and_then(|pair| pair.get(1)?.as_str());
        match word.and_then(StepState::from_text) {
            Some(StepState::Done) => {
                run.run_next(|draft, graph, index| draft.finish_step(graph, index, "done"))?;
            }
            Some(StepState::Failed) => {
                run.run_next(|draft, graph, index| draft.fail_step(graph, index, "failed"))?;
            }
            _ => {}
        }
    }
    run.change(|draft, graph, limits| draft.recover(graph, limits))?;
    compare_stated(expect, "executed_after", &run.play_to_the_end()?)
}

fn check_repairs(expect: &Value) -> Checked {
    let mut run = Played::verifying()?;
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
    let then = text_of(expect, "then");
    let reason = run.execution.stop_reason().map_or("", StopReason::as_str);
    let said =
        then.contains(&format!("({repairs})")) && then.ends_with(&format!("FAILED {reason}"));
    if said { Ok(()) } else { Err(format!("{repairs} repairs, then {reason}")) }
}

fn check_first_terminal(given: &Value, expect: &Value) -> Checked {
    let mut run = Played::verifying()?;
    for word in list(given, "sequence").iter().filter_map(Value::as_str) {
        let outcome = run.change(|draft, graph, _| match word {
            "done" => draft.accept(graph),
            "cancel" => draft.cancel(graph, "caller".to_owned()),
            _ => draft.stop(graph, Ending { stop_reason: StopReason::Aborted, ..not_accepted() }),
        });
        // Only the first may count; what follows must be refused.
        drop(outcome);
    }
    compare_stated(expect, "stop_reason", &run.stop_reason())
}

fn check_next_plan(given: &Value, expect: &Value) -> Checked {
    let names: Vec<String> = (0..number32(given, "steps")?).map(|step| step.to_string()).collect();
    let shape: Vec<(&str, &[&str])> = names.iter().map(|name| (name.as_str(), &[][..])).collect();
    let mut run = Played::start(&shape, Limits::default())?;
    let current = usize::try_from(number32(given, "current")?).unwrap_or_default();
    for _ in 0..=current {
        run.run_next(|draft, graph, index| draft.finish_step(graph, index, "reached"))?;
    }
    compare_stated(expect, "step", &text(run.step(current).as_str()))?;
    compare_stated(expect, "run", &text(run.execution.state.as_str()))
}

fn check_done_early(given: &Value, expect: &Value) -> Checked {
    let decision = ExecuteDecision {
        goal_check: text_of(given, "goal_check").to_owned(),
        ..saying(Action::Done)
    };
    let view = View { others_open: number(given, "steps") > Some(1), ..View::default() };
    let judged = view.judge(decision)?;
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
    let revision = receipts.first().map_or(1, |receipt| receipt.plan_revision);
    let proven = receipts.iter().any(|receipt| counts_as_evidence(receipt, current, revision));
    let view = View { proven, ..View::default() };
    let action = Action::from_any_case(text_of(given, "action")).ok_or("no such action")?;
    let goal_check = "reached".to_owned();
    let judged = view.judge(ExecuteDecision { goal_check, ..saying(action) })?;
    let passed = refused_code(&judged) != Some(Code::EvidenceMissing);
    compare_stated(expect, "evidence_passed", &Value::Bool(passed))
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

fn limited(given: &Value) -> Result<Limits, String> {
    Ok(Limits { max_step_tool_calls: number32(given, "max_step_tool_calls")?, ..Limits::default() })
}

fn number32(given: &Value, key: &str) -> Result<u32, String> {
    let number = number(given, key).ok_or_else(|| format!("{key} is no number"))?;
    u32::try_from(number).map_err(|error| format!("{key}: {error}"))
}

/// A plan of the steps `[id, [dependency, ...]]`.
fn plan_of(steps: &[Value]) -> Plan {
    let step = |step: &Value| {
        let pair = step.as_array().unwrap_or_default();
        let needed = pair.get(1).and_then(Value::as_array).unwrap_or_default();
        PlanStep {
            id: pair.first().and_then(Value::as_str).unwrap_or_default().to_owned(),
            description: "work".to_owned(),
            dependencies: needed.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            ..PlanStep::default()
        }
    };
    Plan { title: "a plan".to_owned(), steps: steps.iter().map(step).collect(), ..Plan::default() }
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
        let execution = Execution::new(Uuid::nil(), "rows".to_owned(), now, now);
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

    /// A run whose only step is done.
    pub(super) fn verifying() -> Result<Self, String> {
        let mut run = Self::start(&[("s", &[])], Limits::default())?;
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

    fn stop_reason(&self) -> Value {
        self.execution.stop_reason().map_or(Value::Null, |reason| text(reason.as_str()))
    }

    pub(super) fn expect_state(&self, wanted: RunState) -> Checked {
        compare("the run's state", &text(wanted.as_str()), &text(self.execution.state.as_str()))
    }
}

/// What a row says about the run around a decision; all the rest lets every decision pass.
#[derive(Default)]
pub(super) struct View {
    others_open: bool,
    proven: bool,
    limits: Limits,
    spent: Spent,
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
                    evidence: Evidence::Required,
                    proven: self.proven,
                    checks: &[],
                },
                other_steps_open: self.others_open,
                tools: &tools,
                always_allowed: &[],
                pending_confirmation: false,
                limits: &self.limits,
                spent: self.spent,
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

fn calling(tool: &str) -> ExecuteDecision {
    let call = ToolCall { name: tool.to_owned(), arguments: Value::Object(Vec::new()) };
    ExecuteDecision { tool_call: Some(call), ..saying(Action::Continue) }
}
