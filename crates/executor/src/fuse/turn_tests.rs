//! Parallel steps in any order of events: none of the limits that they share, or have for themselves, is overspent.

use super::completion::MissingCompletion;
use super::correction::AfterRefusal;
use super::limits::{Next, Used, reached};
use super::repeat::Turn;
use super::replies::{RefusedTurn, count_repeat, remembered, remind, stop_for_corrections};
use super::turn::{begin, short_of_budget};
use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use surety_common::domain::decision::Usage;
use surety_common::domain::execution::budget::Reservation;
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::execution::turns::{ClosedCall, TurnOutcome, TurnRecord};
use surety_common::domain::execution::{Execution, Graph, StepProgress, SuppliedReply, Wait};
use surety_common::domain::journal::Actor;
use surety_common::domain::limits::Limits;
use surety_common::domain::machine::Refusal;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::receipt::{EvidenceReceipt, EvidenceSource};
use surety_common::domain::run::OnBudget;
use surety_common::domain::step::StepState;
use surety_common::domain::stop::{StopReason, WaitingOn};
use uuid::Uuid;

/// What happens to a run; a number selects among the steps that it applies to.
#[derive(Debug, Clone, Copy)]
enum Op {
    /// An executor leases the run, and steps.
    Lease,
    /// A running step asks its driver.
    Ask(usize),
    /// A driver replies, and says what it cost, or nothing.
    Reply(usize, Option<u64>),
    /// A reply becomes a turn without a call, with one, or a refused one.
    Apply(usize),
    /// A call with one of two results.
    Call(usize, bool),
    Refuse(usize),
    /// A reply that holds no decision, or only thinking, is answered.
    Talk(usize),
    Think(usize),
    Finish(usize),
    Recover,
    Judge,
    /// Seconds pass.
    Pass(i64),
    Extend,
}

#[derive(Debug)]
struct World {
    graph: Graph,
    limits: Limits,
    on_budget: OnBudget,
    row: Execution,
    now: DateTime<Utc>,
    ids: u128,
}

fn worlds() -> impl Strategy<Value = World> {
    let counts = (1_u32..6, 1_u32..9, 1_u32..9, 1_u32..5, 0_u32..3, 0_u32..3, 1_u32..4);
    let fuses = (1_u32..4, 1_u32..4, 1_u32..4, 20_u64..400);
    let budgets = (
        prop::option::of(1_u64..60),
        prop::option::of(1_u64..60),
        prop::option::of(1_u64..20),
        any::<bool>(),
    );
    (1_usize..8, counts, 5_u64..50, fuses, budgets).prop_map(
        |(
            steps,
            (run, step, calls, parallel, replans, repairs, corrections),
            deadline,
            (missing, thinking, cycle, run_deadline),
            budgets,
        )| {
            let (token_budget, cost_budget_micros, max_turn_tokens, fails) = budgets;
            let limits = Limits {
                max_run_rounds: run * 3,
                max_step_rounds: step,
                max_step_tool_calls: calls,
                max_parallel_steps: parallel,
                max_replans: replans,
                max_repairs: repairs,
                max_consecutive_corrections: corrections,
                max_missing_completion: missing,
                max_thinking_only: thinking,
                max_repeat_cycle: cycle,
                step_deadline_s: deadline,
                run_deadline_s: run_deadline,
                token_budget,
                cost_budget_micros,
                max_turn_tokens,
                ..Limits::default()
            };
            let on_budget = if fails { OnBudget::Fail } else { OnBudget::Block };
            World::new(steps, limits, on_budget)
        },
    )
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let step = 0_usize..8;
    let op = prop_oneof![
        6 => Just(Op::Lease),
        8 => step.clone().prop_map(Op::Ask),
        8 => (step.clone(), prop::option::of(0_u64..20)).prop_map(|(at, cost)| Op::Reply(at, cost)),
        3 => step.clone().prop_map(Op::Apply),
        6 => (step.clone(), any::<bool>()).prop_map(|(at, same)| Op::Call(at, same)),
        2 => step.clone().prop_map(Op::Refuse),
        2 => step.clone().prop_map(Op::Talk),
        2 => step.clone().prop_map(Op::Think),
        2 => step.prop_map(Op::Finish),
        4 => Just(Op::Recover),
        2 => Just(Op::Judge),
        2 => (1_i64..10).prop_map(Op::Pass),
        1 => Just(Op::Extend),
    ];
    prop::collection::vec(op, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_limit_is_overspent_by_steps_that_run_beside_one_another(
        mut world in worlds(),
        ops in ops(),
    ) {
        for op in ops {
            world.play(op);
            world.check();
        }
    }
}

impl World {
    fn new(steps: usize, limits: Limits, on_budget: OnBudget) -> Self {
        let step = |number: usize| PlanStep { id: format!("s{number}"), ..PlanStep::default() };
        let plan = Plan { steps: (0..steps).map(step).collect(), ..Plan::default() };
        let (graph, now) = (Graph::of(&plan), DateTime::UNIX_EPOCH);
        let deadline = now + TimeDelta::seconds(limits.run_deadline_s.try_into().unwrap());
        let row = Execution::new(Uuid::from_u128(1), "test".to_owned(), now, deadline);
        let mut world = Self { graph, limits, on_budget, row, now, ids: 1 };
        world.change(|world, draft| draft.start_plan(&world.graph, 1));
        world
    }

    fn change(&mut self, change: impl Fn(&Self, &mut Draft) -> Result<(), Refusal>) {
        self.ids += 1;
        let mut draft = Draft::new(self.row.clone(), Actor("test".into()), self.now);
        change(self, &mut draft).expect("a legal change");
        self.row = Execution::clone(&draft.into_write().execution);
    }

    /// One of the steps, if there is one.
    fn pick(&self, number: usize, wanted: impl Fn(&Self, usize) -> bool) -> Option<usize> {
        let steps: Vec<usize> =
            (0..self.row.steps.len()).filter(|index| wanted(self, *index)).collect();
        (!steps.is_empty()).then(|| steps[number % steps.len()])
    }

    fn runs(&self, index: usize) -> bool {
        self.row.state == RunState::Executing && self.row.steps[index].state == StepState::Running
    }

    fn has_reply(&self, index: usize) -> bool {
        self.runs(index) && self.row.steps[index].reply.is_some()
    }

    fn play(&mut self, op: Op) {
        match op {
            Op::Lease if self.row.needs_executor() => self.change(|world, draft| {
                draft.lease(Uuid::from_u128(world.ids));
                draft.lease_steps(&world.graph, world.limits.max_parallel_steps).map(drop)
            }),
            Op::Ask(number) => {
                let asks = |world: &Self, index| world.runs(index) && !world.has_reply(index);
                if let Some(index) = self.pick(number, asks) {
                    self.change(|world, draft| world.ask(draft, index));
                }
            }
            Op::Reply(number, cost) => {
                let waits = |world: &Self, index| {
                    world.row.waits_of_participants().any(|other| other == index)
                };
                if let Some(index) = self.pick(number, waits) {
                    self.change(|world, draft| world.reply(draft, index, cost));
                }
            }
            Op::Apply(number) => self.turn(number, Next::Turn, |world, draft, index| {
                draft.record_turn(&world.graph, index, applied())
            }),
            Op::Call(number, same) => {
                self.turn(number, Next::Call, |world, draft, index| world.call(draft, index, same))
            }
            Op::Refuse(number) => self.turn(number, Next::Turn, Self::refuse),
            Op::Talk(number) => self.turn(number, Next::Turn, |world, draft, index| {
                let count = MissingCompletion::count_text;
                remind(draft, world.context(), index, count, Usage::default())
            }),
            Op::Think(number) => self.turn(number, Next::Turn, |world, draft, index| {
                let count = MissingCompletion::count_thinking;
                remind(draft, world.context(), index, count, Usage::default())
            }),
            Op::Finish(number) => {
                if let Some(index) = self.pick(number, |world, index| world.runs(index)) {
                    self.change(|world, draft| draft.finish_step(&world.graph, index, ""));
                }
            }
            Op::Recover if self.row.state == RunState::Recovering => {
                self.change(|world, draft| draft.recover(&world.graph, &world.limits));
            }
            Op::Judge if self.row.state == RunState::Verifying => {
                let end = || Ending {
                    stop_reason: StopReason::AcceptCheckFailed,
                    user_message: "refused".to_owned(),
                    internal_reason: String::new(),
                };
                self.change(|world, draft| draft.refuse(&world.graph, &world.limits, end()));
            }
            Op::Pass(seconds) => self.now += TimeDelta::seconds(seconds),
            Op::Extend if !self.row.state.is_terminal() && self.limits.has_budget() => {
                self.change(|world, draft| {
                    let added = Usage { tokens: 3, cost_micros: 5 };
                    draft.extend_budget(&world.graph, added, "more")
                });
            }
            Op::Lease | Op::Recover | Op::Judge | Op::Extend => {}
        }
    }

    fn ask(&self, draft: &mut Draft, index: usize) -> Result<(), Refusal> {
        let wait = |on| Wait::new(Uuid::from_u128(self.ids), on, self.now, String::new());
        match draft.reserve(index, &self.limits)? {
            Reservation::Made => draft.await_reply(&self.graph, index, wait(WaitingOn::Driver)),
            Reservation::Short(shortage) => {
                let waiting = (index, wait(WaitingOn::User));
                short_of_budget(draft, &self.graph, waiting, &shortage, self.on_budget)
            }
        }
    }

    /// A driver says at most what was reserved, or nothing.
    fn reply(&self, draft: &mut Draft, index: usize, cost: Option<u64>) -> Result<(), Refusal> {
        let step = &self.row.steps[index];
        let reserved = step.reserved;
        let usage = cost.map(|cost| Usage {
            tokens: cost.min(reserved.tokens),
            cost_micros: cost.min(reserved.cost_micros),
        });
        let wait_id = step.wait.as_deref().map(|wait| wait.id).unwrap_or_default();
        let text = "a reply".to_owned();
        let (trace_parent, by) = (String::new(), String::new());
        let reply =
            SuppliedReply { wait_id, lease_epoch: 0, text, usage, trace_parent, by, model: None };
        draft.supply_reply(&self.graph, reply, TimeDelta::zero())
    }

    fn context(&self) -> (&Graph, &Limits) {
        (&self.graph, &self.limits)
    }

    /// The reply of a step becomes a turn, as in the executor: in the change that begins it.
    fn turn(
        &mut self,
        number: usize,
        next: Next,
        change: impl Fn(&Self, &mut Draft, usize) -> Result<(), Refusal>,
    ) {
        let Some(index) = self.pick(number, Self::has_reply) else { return };
        let allowed = reached(&self.limits, &Used::of(&self.row, index, self.now), next).is_none();
        let late = self.row.deadline_at.is_some_and(|deadline| deadline <= self.now);
        assert!(!(late && allowed), "no turn begins after the deadline");
        let before = self.row.counters.rounds;
        self.change(|world, draft| {
            let step = (index, next);
            let begun = begin(draft, world.context(), step, |draft| change(world, draft, index))?;
            assert_eq!(begun.is_some(), allowed);
            Ok(())
        });
        assert_eq!(self.row.counters.rounds, before + u32::from(allowed));
        assert!(!late || self.row.stop_reason() == Some(StopReason::DeadlineExceeded));
    }

    fn call(&self, draft: &mut Draft, index: usize, same: bool) -> Result<(), Refusal> {
        draft.record_turn(&self.graph, index, applied())?;
        draft.close_call(index, closed(index))?;
        let result = if same { "a result".to_owned() } else { self.ids.to_string() };
        let turn = Turn { call: "a call".to_owned(), result, subgoal: "a subgoal".to_owned() };
        count_repeat(draft, self.context(), index, turn, "glob").map(drop)
    }

    fn refuse(&self, draft: &mut Draft, index: usize) -> Result<(), Refusal> {
        let refused = RefusedTurn { notice: "wrong".to_owned(), ..RefusedTurn::default() };
        match refused.record(draft, self.context(), index)? {
            AfterRefusal::Correct => Ok(()),
            AfterRefusal::Stop => stop_for_corrections(draft, self.context(), index, &[]),
        }
    }

    fn check(&self) {
        let (row, limits) = (&self.row, &self.limits);
        assert!(row.counters.rounds <= limits.max_run_rounds);
        assert!(row.counters.replans <= limits.max_replans);
        assert!(row.counters.repairs <= limits.max_repairs);
        let together =
            row.steps_in(StepState::Running).count() + row.waits_of_participants().count();
        assert!(together <= usize::try_from(limits.max_parallel_steps).unwrap());
        for step in &row.steps {
            assert!(step.rounds <= limits.max_step_rounds);
            assert!(step.tool_calls <= limits.max_step_tool_calls);
            let ended_for = |reason| row.stop_reason() == Some(reason);
            for (count, limit, reason) in [
                (
                    step.corrections,
                    limits.max_consecutive_corrections,
                    StopReason::MaxConsecutiveCorrections,
                ),
                (
                    step.missing_completions,
                    limits.max_missing_completion,
                    StopReason::MissingCompletionSignal,
                ),
                (step.thinking_only, limits.max_thinking_only, StopReason::MissingCompletionSignal),
                // One repeat after the reminder.
                (repeats(step), limits.max_repeat_cycle + 1, StopReason::RepeatCycle),
            ] {
                assert!(
                    count < limit || count == limit && ended_for(reason),
                    "{reason:?} {row:#?}"
                );
            }
        }
        let (reserved, used) = (row.reserved(), row.counters.usage);
        let with_more = row.limits_of(limits);
        for (budget, reserved, used) in [
            (with_more.token_budget, reserved.tokens, used.tokens),
            (with_more.cost_budget_micros, reserved.cost_micros, used.cost_micros),
        ] {
            assert!(budget.is_none_or(|budget| used + reserved <= budget), "{row:#?}");
        }
        if row.state.is_terminal() {
            assert!(reserved.is_zero(), "an ended run reserves: {row:#?}");
        }
        let ended_for_budget = row.stop_reason() == Some(StopReason::BudgetExceeded);
        assert!(!ended_for_budget || self.on_budget == OnBudget::Fail);
    }
}

fn repeats(step: &StepProgress) -> u32 {
    remembered(step).map_or(0, |cycle| cycle.streak())
}

fn applied() -> TurnRecord {
    TurnRecord {
        decision: None,
        validations: Vec::new(),
        warnings: Vec::new(),
        outcome: TurnOutcome::Applied,
        usage: Usage::default(),
    }
}

fn closed(index: usize) -> ClosedCall {
    let receipt = EvidenceReceipt {
        step_index: u32::try_from(index).unwrap(),
        step_id: format!("s{index}"),
        plan_revision: 1,
        seq: 0,
        call_id: String::new(),
        probe_of: None,
        source: EvidenceSource::ToolObservation,
        name: "glob".to_owned(),
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
    };
    ClosedCall { receipt, output: None, proves: true }
}
