//! The budgets of a run: tokens and cost, reserved before a turn and settled with what it used.
//!
//! ```text
//!   reserve --> (the step waits for its driver) --> record_turn: what the reply says, else the reservation
//!      |                                       `--> the wait ends otherwise: the reservation is charged
//!      `--> nothing is left: the step waits for a budget
//!                --> other steps release some, or extend_budget: the step goes on
//! ```
//!
//! A reservation belongs to its step. What all steps reserve and what is used never exceed a budget together,
//! unless a driver used more than was reserved for its turn.

use super::draft::{Draft, Ending};
use super::{Execution, Graph, StepProgress, SuppliedReply, Wait};
use crate::domain::decision::{Usage, UsageSource};
use crate::domain::journal::Cause;
use crate::domain::limits::Limits;
use crate::domain::machine::Refusal;
use crate::domain::machine::run::{RunEvent, RunState};
use crate::domain::machine::step::StepEvent;
use crate::domain::step::StepState;
use crate::domain::stop::StopReason;
use std::fmt;

/// Whether a turn may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reservation {
    /// It may, and what it may use is reserved.
    Made,
    /// A budget has nothing left for it.
    Short(Shortage),
}

/// A budget with nothing left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// The limit's name.
    pub name: &'static str,
    /// The budget.
    pub total: u64,
    /// What is used of it.
    pub used: u64,
    /// What other steps have reserved of each budget; they may release a part of it.
    pub reserved: Usage,
    /// What the next reply needs, where something is left and it is less.
    pub needed: Option<u64>,
}

impl Shortage {
    /// Whether no other step can release anything.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        self.reserved.is_zero()
    }

    /// The end of a run whose policy allows no wait for a budget.
    #[must_use]
    pub fn ending(&self) -> Ending {
        Ending {
            stop_reason: StopReason::BudgetExceeded,
            user_message: format!("The run ended because {self}."),
            internal_reason: "policy.on_budget is fail".to_owned(),
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, total, used, .. } = self;
        if let Some(needed) = self.needed {
            let others =
                if self.is_final() { "" } else { ", and other steps have a part reserved" };
            return write!(
                f,
                "{name} ({total}) has too little left for the next reply of the model, which needs {needed}: {used} \
                 are used{others}"
            );
        }
        match self.is_final() {
            true => write!(f, "{name} ({total}) is used up: {used} are used"),
            false => {
                write!(
                    f,
                    "{name} ({total}) has nothing left: {used} are used, other steps have the rest reserved"
                )
            }
        }
    }
}

/// What the next reply needs of the budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyNeed {
    /// With less it is not asked for.
    pub least: Usage,
    /// It uses no more.
    pub most: Usage,
}

/// Why a reply gets no part of the budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unmet {
    /// A budget has too little left.
    Budget(Shortage),
    /// A turn may not have so much, however large the budget is.
    Turn { budget: &'static str, turn: u64, needed: u64 },
}

/// One budget.
struct Budget {
    name: &'static str,
    /// What it allows; none is no bound.
    total: Option<u64>,
    used: u64,
    /// What other steps have reserved.
    reserved: u64,
    /// What a turn reserves at most; none divides the budget by the parallel steps.
    turn: Option<u64>,
}

impl Budget {
    const fn left(&self) -> Option<u64> {
        match self.total {
            Some(total) => Some(total.saturating_sub(self.used).saturating_sub(self.reserved)),
            None => None,
        }
    }

    fn share(&self, parallel: u32) -> u64 {
        let (Some(total), Some(left)) = (self.total, self.left()) else { return 0 };
        let share = self.turn.unwrap_or(total / u64::from(parallel.max(1)));
        share.max(1).min(left)
    }
}

impl Execution {
    /// What all steps, and a plan that is being made, have reserved of the budgets.
    #[must_use]
    pub fn reserved(&self) -> Usage {
        let planning = self.own_wait().and_then(|wait| wait.planning.as_deref());
        let plan = planning.map(|planning| planning.reserved).unwrap_or_default();
        self.steps.iter().fold(plan, |sum, step| sum.plus(step.reserved))
    }

    /// The limits of the run with what was added to its budgets.
    #[must_use]
    pub fn limits_of(&self, limits: &Limits) -> Limits {
        let added = self.counters.added_budget;
        let more = |budget: Option<u64>, added| budget.map(|total| total.saturating_add(added));
        Limits {
            token_budget: more(limits.token_budget, added.tokens),
            cost_budget_micros: more(limits.cost_budget_micros, added.cost_micros),
            ..limits.clone()
        }
    }

    /// The part of the budgets that the next reply may use; `own` is what is reserved for it already.
    ///
    /// # Errors
    /// A budget has nothing left.
    pub(super) fn part_of_budgets(&self, limits: &Limits, own: Usage) -> Result<Usage, Shortage> {
        let [tokens, cost] = self.budgets(limits, own);
        let reserved = Usage { tokens: tokens.reserved, cost_micros: cost.reserved };
        let mut both = [&tokens, &cost].into_iter();
        if let Some(Budget { name, total, used, .. }) = both.find(|it| it.left() == Some(0)) {
            let total = total.unwrap_or_default();
            return Err(Shortage { name, total, used: *used, reserved, needed: None });
        }
        let parallel = limits.max_parallel_steps;
        Ok(Usage { tokens: tokens.share(parallel), cost_micros: cost.share(parallel) })
    }

    /// The part of the budgets for a reply that needs at least and can use at most so much; `own` is what is reserved
    /// for it already.
    ///
    /// # Errors
    /// A budget, or the limit of a turn, has too little.
    pub(super) fn part_for_reply(
        &self,
        limits: &Limits,
        own: Usage,
        ReplyNeed { least, most }: ReplyNeed,
    ) -> Result<Usage, Unmet> {
        let [tokens, cost] = self.budgets(limits, own);
        let reserved = Usage { tokens: tokens.reserved, cost_micros: cost.reserved };
        let part = |budget: &Budget, own: u64, least: u64, most: u64| -> Result<u64, Unmet> {
            let (Some(total), Some(left)) = (budget.total, budget.left()) else { return Ok(0) };
            let Budget { name, used, turn, .. } = *budget;
            if let Some(turn) = turn.filter(|turn| *turn < least) {
                return Err(Unmet::Turn { budget: name, turn, needed: least });
            }
            if left < least {
                let needed = Some(least);
                return Err(Unmet::Budget(Shortage { name, total, used, reserved, needed }));
            }
            Ok(most.min(turn.unwrap_or(u64::MAX)).max(own).min(left))
        };
        Ok(Usage {
            tokens: part(&tokens, own.tokens, least.tokens, most.tokens)?,
            cost_micros: part(&cost, own.cost_micros, least.cost_micros, most.cost_micros)?,
        })
    }

    fn budgets(&self, limits: &Limits, own: Usage) -> [Budget; 2] {
        let (all, used) = (self.reserved(), self.counters.usage);
        let Limits { token_budget, cost_budget_micros, .. } = self.limits_of(limits);
        [
            Budget {
                name: "token_budget",
                total: token_budget,
                used: used.tokens,
                reserved: all.tokens.saturating_sub(own.tokens),
                turn: limits.max_turn_tokens,
            },
            Budget {
                name: "cost_budget_micros",
                total: cost_budget_micros,
                used: used.cost_micros,
                reserved: all.cost_micros.saturating_sub(own.cost_micros),
                turn: limits.max_turn_cost_micros,
            },
        ]
    }
}

impl Draft {
    /// Reserves what the next turn of a step may use, where the run has budgets.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when there is no such step.
    pub fn reserve(&mut self, index: usize, limits: &Limits) -> Result<Reservation, Refusal> {
        if !limits.has_budget() {
            return Ok(Reservation::Made);
        }
        let own = self.execution.step(index).map(|step| step.reserved).unwrap_or_default();
        let part = match self.execution.part_of_budgets(limits, own) {
            Ok(part) => part,
            Err(shortage) => return Ok(Reservation::Short(shortage)),
        };
        let step = self.execution.step_mut(index).ok_or(Refusal::Meaningless)?;
        step.reserved = part;
        Ok(Reservation::Made)
    }

    /// Makes a running step wait for a budget.
    ///
    /// # Errors
    /// [`Refusal`] unless the step is running.
    pub fn await_budget(
        &mut self,
        graph: &Graph,
        index: usize,
        wait: Wait,
        shortage: &Shortage,
    ) -> Result<(), Refusal> {
        let budget = Some(shortage.reserved);
        self.pause_step(graph, index, Wait { question: shortage.to_string(), budget, ..wait })
    }

    /// Raises the budgets. The steps that wait for one go on.
    ///
    /// # Errors
    /// [`Refusal::Terminal`] when the run has ended.
    pub fn extend_budget(
        &mut self,
        graph: &Graph,
        added: Usage,
        cause: impl Into<Cause>,
    ) -> Result<(), Refusal> {
        self.run_event(RunEvent::BudgetExtended, cause)?;
        let counters = &mut self.execution.counters;
        counters.added_budget = counters.added_budget.plus(added);
        // The end of one wait may end others.
        loop {
            let next = self.waiting_for_budget(|_| true).next();
            let Some(index) = next else { return Ok(()) };
            self.resume_step(graph, index, "the budget was extended")?;
        }
    }

    /// The steps that wait for a budget, by what other steps had reserved when they began to.
    fn waiting_for_budget(&self, wanted: impl Fn(Usage) -> bool) -> impl Iterator<Item = usize> {
        let waits = move |step: &StepProgress| {
            let seen = step.wait.as_deref().and_then(|wait| wait.budget);
            step.state == StepState::Waiting && seen.is_some_and(&wanted)
        };
        let steps = self.execution.steps.iter().enumerate();
        steps.filter(move |(_, step)| waits(step)).map(|(index, _)| index)
    }

    /// Ends the waits for a budget of which other steps have released a part.
    pub(super) fn offer_released_budget(&mut self, graph: &Graph) -> Result<(), Refusal> {
        if self.execution.state != RunState::Executing
            || self.waiting_for_budget(|_| true).next().is_none()
        {
            return Ok(());
        }
        let now = self.execution.reserved();
        let is_less = |seen: Usage| now.tokens < seen.tokens || now.cost_micros < seen.cost_micros;
        let released: Vec<usize> = self.waiting_for_budget(is_less).collect();
        for index in released {
            let cause = "other steps released a part of the budget";
            self.step_event(graph, index, StepEvent::WaitEnded, cause)?;
            self.give_waited_time_back(index);
            if let Some(step) = self.execution.step_mut(index) {
                step.wait = None;
            }
            self.show_wait();
        }
        Ok(())
    }

    /// Ends what a step waits for, and the lease of the participant that answered.
    pub(super) fn forget_waits(&mut self, index: usize) {
        self.charge_untaken(index);
        if let Some(step) = self.execution.step_mut(index) {
            step.wait = None;
            step.answered_wait = None;
            step.approved = None;
        }
    }

    /// Charges a reply that no turn takes any more: what it says, else what was reserved for it, because a
    /// driver may have used that much.
    pub(super) fn charge_untaken(&mut self, index: usize) {
        let holds = |step: &StepProgress| step.reply.is_some() || !step.reserved.is_zero();
        if !self.execution.step(index).is_some_and(holds) {
            return;
        }
        let Some(step) = self.execution.step_mut(index) else { return };
        let reserved = std::mem::take(&mut step.reserved);
        let reply = step.reply.take();
        let (usage, source) = reply
            .as_deref()
            .and_then(SuppliedReply::usage_of)
            .unwrap_or((reserved, UsageSource::Reserved));
        let counters = &mut self.execution.counters;
        counters.charge(usage, source);
        counters.usage_without_turn = counters.usage_without_turn.plus(usage);
    }
}
