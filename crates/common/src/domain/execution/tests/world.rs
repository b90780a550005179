//! A run and all operations on it, each applied only where it is legal.

use super::{check_counters, check_row};
use crate::domain::acceptance::{Acceptance, Resolution};
use crate::domain::decision::Usage;
use crate::domain::execution::budget::Reservation;
use crate::domain::execution::draft::{Draft, Ending, Write};
use crate::domain::execution::turns::{TurnOutcome, TurnRecord};
use crate::domain::execution::{Execution, Graph, OpenCall, SuppliedReply, Wait};
use crate::domain::journal::{Actor, Entry, Subject};
use crate::domain::limits::Limits;
use crate::domain::machine::Refusal;
use crate::domain::machine::run::{self, Phase, RunEvent, RunState};
use crate::domain::machine::step::{self, StepEvent};
use crate::domain::plan::{Plan, PlanStep};
use crate::domain::receipt::{EvidenceReceipt, EvidenceSource, verify_chain};
use crate::domain::run::OnBudget;
use crate::domain::scope::Writes;
use crate::domain::step::StepState;
use crate::domain::stop::{StopReason, WaitingOn};
use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use uuid::Uuid;

const PLANNING: RunState = RunState::Blocked(Phase::Planning);

/// One operation. A number selects among the steps that it applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Claim,
    TakeOver,
    Drain,
    LeaseSteps,
    Finish(usize),
    FinishAndGoOn(usize),
    Fail(usize),
    Pause(usize),
    Await(usize),
    Sleep(usize),
    Wake,
    Resume(usize),
    Supply(usize),
    Turn(usize),
    Extend,
    FailWaiting(usize),
    Skip(usize),
    Receipt,
    Recover,
    Replan,
    Revise,
    Accept,
    Refuse,
    Block,
    Doubt,
    Resolve(bool),
    Unblock,
    PauseRun,
    ResumeRun,
    Rest,
    Stop,
    Cancel,
}

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) graph: Graph,
    pub(super) limits: Limits,
    pub(super) execution: Execution,
    journal: Vec<Entry>,
    ops: Vec<Op>,
    ids: u128,
}

pub(super) fn now() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH
}

pub(super) fn actor() -> Actor {
    Actor("tester".into())
}

/// A plan of up to twelve steps in any order, with the run that executes it.
pub(super) fn worlds() -> impl Strategy<Value = World> {
    let plan = (1_usize..=12).prop_flat_map(|steps| {
        let edges =
            prop::collection::vec(prop::collection::vec(prop::bool::weighted(0.3), steps), steps);
        let order = Just((0..steps).collect::<Vec<_>>()).prop_shuffle();
        (edges, order)
    });
    let writes = prop::collection::vec(writes(), 12);
    let budgets = (prop::option::of(1_u64..200), prop::option::of(1_u64..40));
    (plan, writes, 1_u32..=4, 0_u32..=3, 0_u32..=3, budgets).prop_map(
        |((edges, order), writes, parallel, replans, repairs, (token_budget, max_turn_tokens))| {
            let plan = plan_of(&edges, &order);
            let limits = Limits {
                max_parallel_steps: parallel,
                max_replans: replans,
                max_repairs: repairs,
                token_budget,
                max_turn_tokens,
                ..Limits::default()
            };
            let mut world = World::new(&plan, limits);
            world.graph = world.graph.with_writes(writes);
            world
        },
    )
}

fn writes() -> impl Strategy<Value = Writes> {
    let within = |glob: &str| Writes::Within(vec![glob.to_owned()]);
    prop::sample::select(vec![
        Writes::Nothing,
        Writes::Nothing,
        Writes::Anywhere,
        within("a/**"),
        within("b/**"),
        within("*/c"),
    ])
}

/// Each step may depend on those before it in `order`.
fn plan_of(edges: &[Vec<bool>], order: &[usize]) -> Plan {
    let rank = |step: usize| order.iter().position(|other| *other == step).unwrap();
    let steps = edges.iter().enumerate().map(|(step, row)| PlanStep {
        id: format!("s{step}"),
        dependencies: row
            .iter()
            .enumerate()
            .filter(|(other, edge)| **edge && rank(*other) < rank(step))
            .map(|(other, _)| format!("s{other}"))
            .collect(),
        ..PlanStep::default()
    });
    Plan { steps: steps.collect(), ..Plan::default() }
}

pub(super) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let step = 0_usize..12;
    let op = prop_oneof![
        6 => Just(Op::Claim),
        1 => Just(Op::TakeOver),
        1 => Just(Op::Drain),
        3 => Just(Op::LeaseSteps),
        3 => step.clone().prop_map(Op::Finish),
        6 => step.clone().prop_map(Op::FinishAndGoOn),
        2 => step.clone().prop_map(Op::Fail),
        4 => step.clone().prop_map(Op::Pause),
        3 => step.clone().prop_map(Op::Await),
        2 => step.clone().prop_map(Op::Sleep),
        2 => Just(Op::Wake),
        4 => step.clone().prop_map(Op::Resume),
        3 => step.clone().prop_map(Op::Supply),
        6 => step.clone().prop_map(Op::Turn),
        1 => Just(Op::Extend),
        1 => step.clone().prop_map(Op::FailWaiting),
        1 => step.prop_map(Op::Skip),
        1 => Just(Op::Receipt),
        4 => Just(Op::Recover),
        1 => Just(Op::Replan),
        2 => Just(Op::Revise),
        1 => Just(Op::Accept),
        3 => Just(Op::Refuse),
        1 => Just(Op::Block),
        3 => Just(Op::Doubt),
        3 => any::<bool>().prop_map(Op::Resolve),
        3 => Just(Op::Unblock),
        2 => Just(Op::PauseRun),
        4 => Just(Op::ResumeRun),
        4 => Just(Op::Rest),
    ];
    prop::collection::vec(op, 0..120)
}

impl World {
    pub(super) fn new(plan: &Plan, limits: Limits) -> Self {
        let deadline = now() + TimeDelta::hours(1);
        let execution = Execution::new(Uuid::from_u128(1), "test".to_owned(), deadline, now());
        let graph = Graph::of(plan);
        let mut world =
            Self { graph, limits, execution, journal: Vec::new(), ops: Vec::new(), ids: 1 };
        world.change(|world, draft| draft.start_plan(&world.graph, 1));
        world
    }

    pub(super) fn played(&self, op: Op) -> bool {
        self.ops.contains(&op)
    }

    /// Plays these operations repeatedly, each where it is legal, until the run has ended.
    pub(super) fn finish(&mut self, ops: &[Op]) {
        for _ in 0..200 {
            for op in ops {
                self.play(*op);
            }
            if self.execution.state.is_terminal() {
                return;
            }
        }
        panic!("the run never ends: {:?}", self.execution);
    }

    /// Applies one operation where it is legal, and checks all invariants after it.
    pub(super) fn play(&mut self, op: Op) {
        if !self.is_legal(op) {
            return;
        }
        self.ops.push(op);
        self.ids += 1;
        self.change(|world, draft| world.apply(op, draft));
        if matches!(op, Op::Receipt | Op::Resolve(_)) {
            self.check_chain();
        }
    }

    fn is_legal(&self, op: Op) -> bool {
        let row = &self.execution;
        let open = !row.state.is_terminal();
        let held = row.lease_owner.is_some();
        let any = |state| row.steps_in(state).next().is_some();
        match op {
            Op::Claim => row.ready_at.is_some() && !held,
            Op::TakeOver | Op::Drain => held,
            Op::LeaseSteps => held && row.state == RunState::Executing,
            Op::Finish(_)
            | Op::FinishAndGoOn(_)
            | Op::Fail(_)
            | Op::Pause(_)
            | Op::Await(_)
            | Op::Turn(_)
            | Op::Sleep(_)
            | Op::Receipt => any(StepState::Running),
            Op::Extend => open && self.limits.has_budget(),
            Op::Supply(_) => self.decided_elsewhere().next().is_some(),
            Op::Wake => row.steps.iter().any(|step| step.sleep.is_some()),
            Op::Resume(_) | Op::FailWaiting(_) => any(StepState::Waiting),
            Op::Skip(_) => any(StepState::Ready) && row.state == RunState::Executing,
            Op::Recover => held && row.state == RunState::Recovering,
            Op::Replan => self.may_replan(),
            Op::Revise => row.state == PLANNING,
            Op::Accept | Op::Refuse | Op::Doubt => row.state == RunState::Verifying,
            Op::Block => open && !matches!(row.state, RunState::Blocked(_)),
            Op::Unblock => {
                matches!(row.state, RunState::Blocked(_))
                    && row.own_wait().is_some()
                    && row.state != PLANNING
            }
            Op::Resolve(_) => row.own_wait().is_some_and(|wait| wait.acceptance.is_some()),
            Op::PauseRun => open && row.paused.is_none(),
            Op::ResumeRun => row.paused.is_some(),
            Op::Rest => held && row.is_pausing(),
            Op::Stop | Op::Cancel => open,
        }
    }

    fn may_replan(&self) -> bool {
        let row = &self.execution;
        let on_steps = row.wait.as_ref().is_some_and(|wait| wait.step_index.is_some());
        let there = match row.state {
            RunState::Executing | RunState::Recovering => true,
            RunState::Blocked(Phase::Executing) => on_steps,
            RunState::Intake
            | RunState::Planning
            | RunState::Verifying
            | RunState::Blocked(_)
            | RunState::Done
            | RunState::Failed
            | RunState::Cancelled => false,
        };
        there && row.counters.replans < self.limits.max_replans
    }

    fn apply(&self, op: Op, draft: &mut Draft) -> Result<(), Refusal> {
        let graph = &self.graph;
        let pick = |state, number: usize| {
            let steps: Vec<usize> = self.execution.steps_in(state).collect();
            steps[number % steps.len()]
        };
        match op {
            Op::Claim | Op::TakeOver => self.claim(draft),
            Op::Drain => draft.end_leases(graph, "drains").map(|()| draft.release()),
            Op::LeaseSteps => self.lease_steps(draft),
            Op::Finish(number) => draft.finish_step(graph, pick(StepState::Running, number), ""),
            Op::FinishAndGoOn(number) => {
                draft.finish_step(graph, pick(StepState::Running, number), "")?;
                self.lease_steps(draft)
            }
            Op::Fail(number) => {
                draft.fail_step(graph, pick(StepState::Running, number), "it broke")
            }
            Op::Pause(number) => {
                let index = pick(StepState::Running, number);
                draft.pause_step(graph, index, self.wait(Some(index)))
            }
            Op::Await(number) => self.ask(draft, pick(StepState::Running, number)),
            Op::Turn(number) => draft.record_turn(graph, pick(StepState::Running, number), turn()),
            Op::Extend => self.extend(draft),
            Op::Sleep(number) => {
                let index = pick(StepState::Running, number);
                let wait = Wait { waiting_on: WaitingOn::Timer, ..self.wait(Some(index)) };
                draft.sleep_step(graph, index, asleep(self.ids), (now(), wait))
            }
            Op::Wake => draft.wake_steps(graph),
            Op::Supply(number) => draft.supply_reply(graph, self.reply(number), TimeDelta::zero()),
            Op::Resume(number) => draft.resume_step(graph, pick(StepState::Waiting, number), ""),
            Op::FailWaiting(number) => draft.fail_step(graph, pick(StepState::Waiting, number), ""),
            Op::Skip(number) => {
                draft.step_event(graph, pick(StepState::Ready, number), StepEvent::Skipped, "")?;
                draft.settle(graph)
            }
            Op::Receipt => {
                draft.receipt(receipt());
                Ok(())
            }
            Op::Recover => draft.recover(graph, &self.limits),
            Op::Replan => self.replan(draft),
            Op::Revise => self.revise(draft),
            Op::Accept => draft.accept(graph),
            Op::Refuse => draft.refuse(graph, &self.limits, ending(StopReason::AcceptCheckFailed)),
            Op::Block => draft.block(graph, self.wait(None)),
            Op::Doubt => {
                let acceptance = Some(Box::default());
                draft.block(graph, Wait { acceptance, ..self.wait(None) })
            }
            Op::Resolve(approved) => {
                let wait_id = self.execution.own_wait().map(|wait| wait.id).unwrap_or_default();
                draft.resolve(graph, wait_id, &resolution(approved))
            }
            Op::Unblock => draft.unblock(graph, "came"),
            Op::PauseRun => {
                let wait = Wait { waiting_on: WaitingOn::Operator, ..self.wait(None) };
                draft.pause(graph, wait, "enough for now")
            }
            Op::ResumeRun => draft.resume(graph, "go on"),
            Op::Rest => draft.end_leases(graph, "the run is being paused"),
            Op::Stop => draft.stop(graph, ending(StopReason::Aborted)),
            Op::Cancel => draft.cancel(graph, "cancelled".to_owned()),
        }
    }

    fn extend(&self, draft: &mut Draft) -> Result<(), Refusal> {
        draft.extend_budget(&self.graph, Usage { tokens: 20, cost_micros: 0 }, "more")?;
        let terms = (&self.limits, OnBudget::Block);
        draft.wait_for_plan_again(&self.graph, Uuid::from_u128(self.ids), terms)
    }

    /// The run waits for a model's plan, or for the budget of one.
    fn replan(&self, draft: &mut Draft) -> Result<(), Refusal> {
        let model = Some(Box::default());
        let wait = Wait { waiting_on: WaitingOn::Model, model, ..self.wait(None) };
        draft.replan(&self.graph, wait, "another plan is wanted")?;
        draft.reserve_plan(&self.graph, &self.limits, OnBudget::Block)
    }

    fn revise(&self, draft: &mut Draft) -> Result<(), Refusal> {
        draft.settle_plan(None, false);
        draft.unblock(&self.graph, "a plan came")?;
        draft.revise_plan(&self.graph, &self.graph, self.execution.plan_revision + 1)
    }

    /// A step waits for its driver, or for a budget.
    fn ask(&self, draft: &mut Draft, index: usize) -> Result<(), Refusal> {
        let wait = self.wait(Some(index));
        match draft.reserve(index, &self.limits)? {
            Reservation::Made => {
                let wait = Wait { waiting_on: WaitingOn::Driver, ..wait };
                draft.await_reply(&self.graph, index, wait)
            }
            Reservation::Short(shortage) => draft.await_budget(&self.graph, index, wait, &shortage),
        }
    }

    /// A driver reports at most what was reserved, or nothing.
    fn reply(&self, number: usize) -> SuppliedReply {
        let steps: Vec<usize> = self.decided_elsewhere().collect();
        let step = &self.execution.steps[steps[number % steps.len()]];
        let wait_id = step.wait.as_deref().map(|wait| wait.id).unwrap_or_default();
        SuppliedReply {
            wait_id,
            lease_epoch: 0,
            text: "a reply".to_owned(),
            usage: match number % 3 {
                0 => None,
                1 => Some(step.reserved),
                _ => Some(Usage { tokens: step.reserved.tokens / 2, cost_micros: 0 }),
            },
            trace_parent: String::new(),
            by: String::new(),
            model: None,
        }
    }

    /// The steps whose wait a driver answers.
    fn decided_elsewhere(&self) -> impl Iterator<Item = usize> + '_ {
        self.execution.waits_of_participants().filter(|index| {
            let step = self.execution.step(*index);
            step.and_then(|step| step.wait.as_deref())
                .is_some_and(|wait| wait.waiting_on != WaitingOn::Timer)
        })
    }

    fn claim(&self, draft: &mut Draft) -> Result<(), Refusal> {
        draft.end_leases(&self.graph, "its executor is dead")?;
        if !draft.execution().needs_executor() {
            return Ok(());
        }
        draft.lease(Uuid::from_u128(self.ids));
        self.lease_steps(draft)
    }

    fn lease_steps(&self, draft: &mut Draft) -> Result<(), Refusal> {
        draft.lease_steps(&self.graph, self.limits.max_parallel_steps).map(drop)
    }

    pub(super) fn wait(&self, step_index: Option<usize>) -> Wait {
        Wait {
            question: "Which?".to_owned(),
            step_index,
            ..Wait::new(Uuid::from_u128(self.ids), WaitingOn::User, now(), "an answer".to_owned())
        }
    }

    pub(super) fn change(&mut self, change: impl Fn(&Self, &mut Draft) -> Result<(), Refusal>) {
        let before = self.execution.clone();
        let mut draft = Draft::new(before.clone(), actor(), now());
        let answer = change(self, &mut draft);
        assert_eq!(answer, Ok(()), "a legal change was refused: {before:?} after {:?}", self.ops);
        let write = draft.into_write();
        self.check_change(&before, &write);
        self.journal.extend(write.entries);
        self.execution = Execution::clone(&write.execution);
        check_row(&self.graph, &self.limits, &self.execution);
        check_counters(&self.execution, &self.journal);
    }

    /// The fence is the row that was read, numbers have no gaps, and replaying the journal entries
    /// leads from the old row to the new one.
    fn check_change(&self, before: &Execution, write: &Write) {
        let after = &write.execution;
        assert_eq!(write.fence.version, before.version);
        assert_eq!(write.fence.lease_epoch, before.lease_epoch);
        assert_eq!(after.version, before.version + 1);
        assert_eq!(write.first_sequence(), before.sequence + 1);
        let mut run_state = before.state;
        let mut steps: Vec<StepState> = match before.steps.is_empty() {
            true => vec![StepState::Pending; after.steps.len()],
            false => before.step_states().collect(),
        };
        for entry in &write.entries {
            let Entry::Transition(moved) = entry else { continue };
            match &moved.subject {
                Subject::Run => {
                    assert_eq!(moved.from, run_state.as_str());
                    let event = RunEvent::ALL.into_iter().find(|e| e.as_str() == moved.event);
                    run_state = run::decide(run_state, event.unwrap()).unwrap();
                    assert_eq!(moved.to, run_state.as_str());
                    assert_eq!(moved.stop_reason.is_some(), run_state.is_terminal());
                }
                Subject::Step(id) => {
                    let index = (0..self.graph.len()).find(|i| self.graph.id(*i) == id).unwrap();
                    assert_eq!(moved.from, steps[index].as_str());
                    let event = StepEvent::ALL.into_iter().find(|e| e.as_str() == moved.event);
                    steps[index] = step::decide(steps[index], event.unwrap()).unwrap();
                    assert_eq!(moved.to, steps[index].as_str());
                }
            }
        }
        assert_eq!(run_state, after.state);
        assert_eq!(steps, after.step_states().collect::<Vec<_>>());
    }

    fn check_chain(&self) {
        let receipts: Vec<EvidenceReceipt> = self
            .journal
            .iter()
            .filter_map(|entry| {
                let Entry::Receipt(receipt) = entry else { return None };
                Some((**receipt).clone())
            })
            .collect();
        verify_chain(&receipts).unwrap();
        let last = receipts.last().map_or("", |receipt| receipt.digest.as_str());
        assert_eq!(self.execution.counters.last_receipt_digest, last);
    }
}

/// The open call of a sleep.
pub(super) fn asleep(id: u128) -> OpenCall {
    OpenCall {
        call_id: Uuid::from_u128(id),
        tool: "sleep".to_owned(),
        arguments_json: "{}".to_owned(),
        effect: serde_json::Value::Null,
        intended_at: now(),
    }
}

pub(super) fn ending(stop_reason: StopReason) -> Ending {
    Ending { stop_reason, user_message: "it ends".to_owned(), internal_reason: String::new() }
}

pub(super) fn resolution(approved: bool) -> Resolution {
    let Acceptance { digest, difference, .. } = Acceptance::default();
    let (by, comment) = ("alice".to_owned(), String::new());
    Resolution { by, approved, digest, workspace: difference.workspace, comment }
}

fn turn() -> TurnRecord {
    TurnRecord {
        decision: None,
        validations: Vec::new(),
        warnings: Vec::new(),
        outcome: TurnOutcome::Applied,
        usage: Usage::default(),
    }
}

pub(super) fn receipt() -> EvidenceReceipt {
    EvidenceReceipt {
        step_index: 0,
        step_id: "s0".to_owned(),
        plan_revision: 1,
        seq: 0,
        call_id: String::new(),
        probe_of: None,
        source: EvidenceSource::ToolObservation,
        name: "read_file".to_owned(),
        arguments_digest: String::new(),
        success: true,
        summary: String::new(),
        facts: Vec::new(),
        output_digest: String::new(),
        sandbox: String::new(),
        started_at: None,
        finished_at: None,
        prev_digest: String::new(),
        digest: String::new(),
    }
}
