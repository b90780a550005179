//! A run with parallel steps, and what may happen to it, each applied only where it is legal.

use super::super::completion::MissingCompletion;
use super::super::correction::AfterRefusal;
use super::super::limits::{Next, Used, reached};
use super::super::repeat::Turn;
use super::super::replies::{RefusedTurn, count_repeat, remembered, remind, stop_for_corrections};
use super::super::turn::{begin, short_of_budget};
use super::{Kind, Op};
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::{BTreeMap, BTreeSet};
use surety_common::domain::confirmation::{
    AfterDenial, AfterExpiry, CallResolution, CallToConfirm,
};
use surety_common::domain::decision::Usage;
use surety_common::domain::execution::budget::Reservation;
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::execution::turns::{ClosedCall, TurnOutcome, TurnRecord};
use surety_common::domain::execution::{
    Approval, Execution, Graph, StepProgress, SuppliedReply, Wait,
};
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

/// What follows where a budget or the time of a confirmation is used up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    pub(super) on_budget: OnBudget,
    pub(super) on_expired: AfterExpiry,
}

#[derive(Debug)]
pub(super) struct World {
    graph: Graph,
    limits: Limits,
    policy: Policy,
    pub(super) row: Execution,
    now: DateTime<Utc>,
    ids: u128,
    /// When each call was asked about, by its digest, until it begins.
    asked: BTreeMap<String, DateTime<Utc>>,
    /// Turns that began.
    pub(super) turns: u32,
    /// Limits that were reached, by their names.
    pub(super) reached: BTreeSet<&'static str>,
}

impl World {
    pub(super) fn new(steps: usize, limits: Limits, policy: Policy) -> Self {
        let step = |number: usize| PlanStep { id: format!("s{number}"), ..PlanStep::default() };
        let plan = Plan { steps: (0..steps).map(step).collect(), ..Plan::default() };
        let (graph, now) = (Graph::of(&plan), DateTime::UNIX_EPOCH);
        let deadline = now + TimeDelta::seconds(limits.run_deadline_s.try_into().unwrap());
        let row = Execution::new(Uuid::from_u128(1), "test".to_owned(), deadline, now);
        let (asked, reached) = (BTreeMap::new(), BTreeSet::new());
        let mut world = Self { graph, limits, policy, row, now, ids: 1, asked, turns: 0, reached };
        world.change(|world, draft| draft.start_plan(&world.graph, 1));
        world
    }

    fn change<T>(&mut self, change: impl FnOnce(&Self, &mut Draft) -> Result<T, Refusal>) -> T {
        self.ids += 1;
        let mut draft = Draft::new(self.row.clone(), Actor("test".into()), self.now);
        let changed = change(self, &mut draft).expect("a legal change");
        self.row = Execution::clone(&draft.into_write().execution);
        changed
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

    /// Whether a running step has no approved call, which comes before everything else.
    fn is_free(&self, index: usize) -> bool {
        self.runs(index) && self.row.steps[index].approved.is_none()
    }

    fn has_reply(&self, index: usize) -> bool {
        self.is_free(index) && self.row.steps[index].reply.is_some()
    }

    pub(super) fn play(&mut self, op: Op) {
        match op {
            Op::Lease if self.row.needs_executor() => self.change(|world, draft| {
                draft.lease(Uuid::from_u128(world.ids));
                draft.lease_steps(&world.graph, world.limits.max_parallel_steps).map(drop)
            }),
            Op::Ask(number) => {
                let asks = |world: &Self, index| world.is_free(index) && !world.has_reply(index);
                if let Some(index) = self.pick(number, asks) {
                    let short = self.change(|world, draft| world.ask(draft, index));
                    self.reached.extend(short);
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
            Op::Turn(number, kind) => {
                self.reply_as(number, kind);
            }
            Op::Confirm(number) => self.confirm(number),
            Op::Approve(number) => self.approve(number),
            Op::Begin(number) => self.begin_approved(number),
            Op::Expire => self.expire(),
            Op::Finish(number) => {
                if let Some(index) = self.pick(number, Self::is_free) {
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

    fn reply_as(&mut self, number: usize, kind: Kind) -> bool {
        let remind = |world: &Self, draft: &mut Draft, index, count| {
            remind(draft, world.context(), index, count, Usage::default())
        };
        match kind {
            Kind::Plain => self.turn(number, Next::Turn, |world, draft, index| {
                draft.record_turn(&world.graph, index, applied())
            }),
            Kind::Call { same } => {
                self.turn(number, Next::Call, |world, draft, index| world.call(draft, index, same))
            }
            Kind::Refused => self.turn(number, Next::Turn, Self::refuse),
            Kind::Text => self.turn(number, Next::Turn, |world, draft, index| {
                remind(world, draft, index, MissingCompletion::count_text)
            }),
            Kind::Thinking => self.turn(number, Next::Turn, |world, draft, index| {
                remind(world, draft, index, MissingCompletion::count_thinking)
            }),
        }
    }

    /// Asks the driver of a step. Returns the budget that has nothing left for it.
    fn ask(&self, draft: &mut Draft, index: usize) -> Result<Option<&'static str>, Refusal> {
        match draft.reserve(index, &self.limits)? {
            Reservation::Made => {
                draft.await_reply(&self.graph, index, self.wait(WaitingOn::Driver))?;
                Ok(None)
            }
            Reservation::Short(shortage) => {
                let waiting = (index, self.wait(WaitingOn::User));
                let on_budget = self.policy.on_budget;
                short_of_budget(draft, &self.graph, waiting, &shortage, on_budget)?;
                Ok(Some(shortage.name))
            }
        }
    }

    fn wait(&self, on: WaitingOn) -> Wait {
        Wait::new(Uuid::from_u128(self.ids), on, self.now, String::new())
    }

    /// Whole seconds for which a call that was asked about then has waited.
    fn waited(&self, asked: DateTime<Utc>) -> u64 {
        u64::try_from((self.now - asked).num_seconds()).unwrap()
    }

    fn confirm(&mut self, number: usize) {
        let digest = format!("call {}", self.ids);
        let shown = CallToConfirm {
            digest: digest.clone(),
            tool: "write_file".to_owned(),
            arguments_json: "{}".to_owned(),
            expires_at: self.now
                + TimeDelta::seconds(self.limits.confirm_ttl_s.try_into().unwrap()),
            asked_by: "agent".to_owned(),
        };
        let asked = self.turn(number, Next::Call, |world, draft, index| {
            draft.record_turn(&world.graph, index, applied())?;
            let confirmation = Some(Box::new(shown.clone()));
            let wait = Wait { confirmation, ..world.wait(WaitingOn::Approver) };
            draft.pause_step(&world.graph, index, wait)
        });
        if asked {
            self.asked.insert(digest, self.now);
        }
    }

    fn approve(&mut self, number: usize) {
        let calls: Vec<Uuid> = self.confirmations().map(|wait| wait.id).collect();
        let Some(wait_id) = calls.get(number % calls.len().max(1)).copied() else { return };
        let said = CallResolution {
            by: Some("alice".to_owned()),
            approved: true,
            comment: String::new(),
            grant: None,
        };
        self.change(|world, draft| {
            draft.resolve_call(&world.graph, wait_id, &said, AfterDenial::Continue)
        });
    }

    fn confirmations(&self) -> impl Iterator<Item = &Wait> {
        self.row.waits().filter(|wait| wait.confirmation.is_some())
    }

    /// The approved call of a step begins, once and in its time, and ends.
    fn begin_approved(&mut self, number: usize) {
        let approved = |world: &Self, index| world.runs(index) && !world.is_free(index);
        let Some(index) = self.pick(number, approved) else { return };
        let call = self.row.steps[index].approved.clone().unwrap().call;
        let used = self.change(|world, draft| {
            let after = world.policy.on_expired;
            let used = draft.use_approval(&world.graph, index, &call.digest, after)?;
            if used == Approval::Used {
                draft.close_call(index, closed(index))?;
            }
            Ok(used)
        });
        let asked = self.asked.remove(&call.digest).expect("a call begins once");
        let is_over = self.waited(asked) >= self.limits.confirm_ttl_s;
        assert_eq!(used == Approval::Expired, is_over, "{used:?} {call:?}");
        if is_over {
            self.reached.insert("confirm_ttl");
        }
    }

    fn expire(&mut self) {
        if self.row.state.is_terminal() {
            return;
        }
        let before = self.confirmations().count();
        self.change(|world, draft| draft.expire_calls(&world.graph, world.policy.on_expired));
        let waiting = self.confirmations().filter_map(|wait| wait.confirmation.as_deref());
        for call in waiting {
            assert!(self.waited(self.asked[&call.digest]) < self.limits.confirm_ttl_s, "{call:?}");
        }
        if self.confirmations().count() < before {
            self.reached.insert("confirm_ttl");
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

    /// The reply of a step becomes a turn, as in the executor: in the change that begins it. Returns whether it began.
    fn turn(
        &mut self,
        number: usize,
        next: Next,
        change: impl Fn(&Self, &mut Draft, usize) -> Result<(), Refusal>,
    ) -> bool {
        let Some(index) = self.pick(number, Self::has_reply) else { return false };
        let limit = reached(&self.limits, &Used::of(&self.row, index, self.now), next);
        let allowed = limit.is_none();
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
        self.turns += u32::from(allowed);
        self.reached.extend(limit.map(|limit| limit.name));
        allowed
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

    pub(super) fn check(&self) {
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
        assert!(!ended_for_budget || self.policy.on_budget == OnBudget::Fail);
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
