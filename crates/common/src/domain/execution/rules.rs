//! The rules for changes of several objects: what the end of a step means for other steps and for
//! the run.

use super::draft::{Draft, Ending};
use super::{Graph, StepProgress, Wait};
use crate::domain::journal::Cause;
use crate::domain::limits::Limits;
use crate::domain::machine::Refusal;
use crate::domain::machine::run::{self, RunEvent, RunState};
use crate::domain::machine::step::StepEvent;
use crate::domain::step::StepState;
use crate::domain::stop::StopReason;
use std::sync::Arc;

/// How the hint of a repair begins.
const VERDICT_REFUSED: &str =
    "The verdict on your work was refused, so this step begins again in the workspace as it is.";
/// How the hint of an attempt begins that follows a failed one.
const ATTEMPT_FAILED: &str =
    "An earlier attempt of this step failed, so it begins again in the workspace as it is:";

impl Draft {
    /// Accepts a validated plan: the run passes through PLANNING, and the steps without
    /// dependencies become ready.
    ///
    /// # Errors
    /// [`Refusal`] unless the run is in INTAKE or PLANNING.
    pub fn start_plan(&mut self, graph: &Graph, revision: u32) -> Result<(), Refusal> {
        self.start_plan_after(graph, revision, (&[], String::new()))
    }

    /// Starts a plan some of whose steps are done already, for a cause.
    pub(super) fn start_plan_after(
        &mut self,
        graph: &Graph,
        revision: u32,
        (inherited, cause): (&[usize], String),
    ) -> Result<(), Refusal> {
        if self.execution.state == RunState::Intake {
            self.run_event(RunEvent::PlanningStarted, "a plan came with the run")?;
        }
        self.run_event(RunEvent::PlanAccepted, format!("plan revision {revision} is valid"))?;
        self.execution.plan_revision = revision;
        self.execution.steps = vec![Arc::default(); graph.len()];
        for index in inherited {
            self.step_event(graph, *index, StepEvent::Inherited, cause.clone())?;
        }
        self.ready_steps(graph)?;
        // A plan without a startable step must not stay in EXECUTING for ever.
        self.settle(graph)
    }

    /// Makes every pending step with only done dependencies ready.
    pub(super) fn ready_steps(&mut self, graph: &Graph) -> Result<(), Refusal> {
        for index in 0..self.execution.steps.len() {
            let steps = &self.execution.steps;
            let is = |place: usize, state| steps.get(place).is_some_and(|step| step.state == state);
            let ready = is(index, StepState::Pending)
                && graph.dependencies(index).iter().all(|needed| is(*needed, StepState::Done));
            if ready {
                self.step_event(graph, index, StepEvent::DependenciesDone, "")?;
            }
        }
        Ok(())
    }

    /// Starts ready steps while fewer than `max_parallel` run, except those that could write the
    /// files of a running one. Returns them: started ones first, then in the plan's order. After a
    /// failure and during a pause no step starts. Where all ready ones have to wait for the step of a participant,
    /// the run is released until that one answers.
    ///
    /// # Errors
    /// [`Refusal`] never in a consistent execution.
    pub fn lease_steps(&mut self, graph: &Graph, max_parallel: u32) -> Result<Vec<usize>, Refusal> {
        let mut started = Vec::new();
        if self.execution.state != RunState::Executing
            || self.execution.paused.is_some()
            || self.execution.steps_in(StepState::Failed).next().is_some()
        {
            return Ok(started);
        }
        let ready = self.startable(graph, usize::try_from(max_parallel).unwrap_or(usize::MAX));
        for index in ready {
            self.step_event(graph, index, StepEvent::Leased, "")?;
            let now = self.now;
            if let Some(step) = self.execution.step_mut(index) {
                // A step that was released or waited continues its attempt.
                if step.started_at.is_none() {
                    step.attempt += 1;
                    step.started_at = Some(now);
                }
            }
            started.push(index);
        }
        let any = |state| self.execution.steps_in(state).next().is_some();
        if !any(StepState::Running) && any(StepState::Ready) {
            self.release_until_answered();
        }
        Ok(started)
    }

    /// The ready steps that may run beside the running ones, and beside each other.
    fn startable(&self, graph: &Graph, max_parallel: usize) -> Vec<usize> {
        let mut together: Vec<usize> = self.execution.steps_in(StepState::Running).collect();
        // A step that waits for its driver continues later, so it keeps its slot and its scope.
        together.extend(self.execution.waits_of_participants());
        let running = together.len();
        let mut ready: Vec<usize> = self.execution.steps_in(StepState::Ready).collect();
        // The partial work of a started step must not meet a step that could write the same files.
        let begun = |index: &usize| {
            self.execution.steps.get(*index).is_some_and(|step| step.started_at.is_some())
        };
        ready.sort_by_key(|index| !begun(index));
        for index in ready {
            if together.len() >= max_parallel {
                break;
            }
            if !together.iter().any(|other| graph.collide(index, *other)) {
                together.push(index);
            }
        }
        together.split_off(running)
    }

    /// Releases every running step, for an executor that drains or is dead. When another step had
    /// failed, the run goes to RECOVERING, because no step would start again.
    ///
    /// # Errors
    /// [`Refusal`] never in a consistent execution.
    pub fn end_leases(&mut self, graph: &Graph, cause: impl Into<Cause>) -> Result<(), Refusal> {
        self.give_steps_back(graph, cause)?;
        self.settle(graph)
    }

    /// Releases every running step, whatever follows for the run.
    pub(super) fn give_steps_back(
        &mut self,
        graph: &Graph,
        cause: impl Into<Cause>,
    ) -> Result<(), Refusal> {
        let cause = cause.into();
        let running: Vec<usize> = self.execution.steps_in(StepState::Running).collect();
        for index in running {
            self.step_event(graph, index, StepEvent::LeaseEnded, cause.clone())?;
        }
        Ok(())
    }

    /// Ends a step as done, and makes the next ones ready.
    ///
    /// # Errors
    /// [`Refusal`] unless the step is running.
    pub fn finish_step(
        &mut self,
        graph: &Graph,
        index: usize,
        cause: impl Into<Cause>,
    ) -> Result<(), Refusal> {
        self.step_event(graph, index, StepEvent::Finished, cause)?;
        self.charge_untaken(index);
        if let Some(step) = self.execution.step_mut(index) {
            // The usage of a finished step is in the journal; the row keeps its attempt and its times.
            *step = StepProgress {
                state: step.state,
                attempt: step.attempt,
                started_at: step.started_at,
                finished_at: step.finished_at,
                ..Default::default()
            };
        }
        self.ready_steps(graph)?;
        self.settle(graph)
    }

    /// Ends a step as failed, and unblocks a run that was blocked on it.
    ///
    /// # Errors
    /// [`Refusal`] unless the step is running or waiting.
    pub fn fail_step(
        &mut self,
        graph: &Graph,
        index: usize,
        cause: impl Into<Cause>,
    ) -> Result<(), Refusal> {
        let cause = cause.into();
        self.step_event(graph, index, StepEvent::Failed, cause.clone())?;
        self.forget_waits(index);
        self.end_wait(graph, index, cause)
    }

    /// Makes a step wait for an external event. When no other step can proceed, the run is blocked.
    ///
    /// # Errors
    /// [`Refusal`] unless the step is running.
    pub fn pause_step(&mut self, graph: &Graph, index: usize, wait: Wait) -> Result<(), Refusal> {
        self.step_event(graph, index, StepEvent::WaitStarted, wait.unblocks.clone())?;
        // Without a reply that no turn took, what is reserved is for the reply that the step waits for now.
        if self.execution.step(index).is_some_and(|step| step.reply.is_some()) {
            self.charge_untaken(index);
        }
        if let Some(step) = self.execution.step_mut(index) {
            step.answered_wait = None;
            let question_digest = wait.digest_of_question();
            step.wait = Some(Box::new(Wait { step_index: Some(index), question_digest, ..wait }));
        }
        self.show_wait();
        self.settle(graph)
    }

    /// Ends the wait of a step: it becomes ready, and a run that was blocked on steps is unblocked.
    /// A run that is blocked as a whole stays so.
    ///
    /// # Errors
    /// [`Refusal`] unless the step waits.
    pub fn resume_step(
        &mut self,
        graph: &Graph,
        index: usize,
        cause: impl Into<Cause>,
    ) -> Result<(), Refusal> {
        let cause = cause.into();
        self.step_event(graph, index, StepEvent::WaitEnded, cause.clone())?;
        self.give_waited_time_back(index);
        self.end_wait(graph, index, cause)
    }

    /// Removes a step's wait, and applies what follows for the run.
    fn end_wait(&mut self, graph: &Graph, index: usize, cause: Cause) -> Result<(), Refusal> {
        let shown = self.execution.wait.as_ref();
        let blocked_on_steps = matches!(self.execution.state, RunState::Blocked(_))
            && shown.is_some_and(|wait| wait.step_index.is_some());
        if self.execution.step(index).is_some_and(|step| step.reply.is_none()) {
            self.charge_untaken(index);
        }
        if let Some(step) = self.execution.step_mut(index) {
            step.wait = None;
        }
        self.show_wait();
        if blocked_on_steps { self.unblock(graph, cause) } else { self.settle(graph) }
    }

    /// Applies what follows from the states of the steps; then blocks a run that is to be paused.
    pub(super) fn settle(&mut self, graph: &Graph) -> Result<(), Refusal> {
        self.offer_released_budget(graph)?;
        self.move_on(graph)?;
        self.rest(graph)
    }

    /// The run's next state when no step can start: VERIFYING when all are done, RECOVERING when
    /// one failed, BLOCKED when one waits. Otherwise it can never continue.
    fn move_on(&mut self, graph: &Graph) -> Result<(), Refusal> {
        let any = |state| self.execution.steps_in(state).next().is_some();
        if self.execution.state != RunState::Executing || any(StepState::Running) {
            return Ok(());
        }
        let (ready, waiting) = (any(StepState::Ready), any(StepState::Waiting));
        let all_over = self.execution.is_work_over();
        let failed = self.execution.steps_in(StepState::Failed).next();
        if let Some(failed) = failed {
            let cause = format!("step {} failed", graph.id(failed));
            return self.run_event(RunEvent::StepFailed, cause);
        }
        if ready {
            return Ok(());
        }
        if self.execution.waits_of_participants().next().is_some() {
            self.release();
            return Ok(());
        }
        if waiting {
            return match self.execution.wait.clone() {
                // It is paused, and shows the steps' waits again after the pause.
                Some(_) if self.execution.paused.is_some() => Ok(()),
                Some(wait) => self.block(graph, *wait),
                None => Err(Refusal::Meaningless),
            };
        }
        if all_over {
            self.begin_round();
            return self.run_event(RunEvent::StepsFinished, "every step is done");
        }
        self.stop(
            graph,
            Ending {
                stop_reason: StopReason::DependencyDeadlock,
                user_message: "Steps remain and none of them can ever start.".to_owned(),
                internal_reason: "nothing is ready, running or waiting and work remains".to_owned(),
            },
        )
    }

    /// Begins a verification round: what was observed before no longer counts.
    pub(super) fn begin_round(&mut self) {
        let counters = &mut self.execution.counters;
        counters.observed = false;
        counters.verification_round = counters.verification_round.saturating_add(1);
    }

    /// Leaves RECOVERING: failed steps are retried under `max_replans`. A refused verdict is
    /// repaired under `max_repairs`, from the done steps that no other done step depends on.
    ///
    /// # Errors
    /// [`Refusal`] unless the run is in RECOVERING.
    pub fn recover(&mut self, graph: &Graph, limits: &Limits) -> Result<(), Refusal> {
        run::decide(self.execution.state, RunEvent::RetryStarted)?;
        let failed: Vec<usize> = self.execution.steps_in(StepState::Failed).collect();
        if failed.is_empty() {
            self.repair(graph, limits)
        } else {
            self.retry(graph, limits, &failed)
        }
    }

    /// Leaves RECOVERING where a participant plans: failed steps wait for a patch of the plan, under
    /// `max_replans`. A refused verdict is repaired as by [`Draft::recover`].
    ///
    /// # Errors
    /// [`Refusal`] unless the run is in RECOVERING.
    pub fn recover_by_plan(
        &mut self,
        graph: &Graph,
        limits: &Limits,
        wait: Wait,
    ) -> Result<(), Refusal> {
        run::decide(self.execution.state, RunEvent::RetryStarted)?;
        let failed: Vec<usize> = self.execution.steps_in(StepState::Failed).collect();
        if failed.is_empty() {
            return self.repair(graph, limits);
        }
        if let Some(end) = self.no_retry(graph, limits, &failed) {
            self.block_dependents(graph, &failed)?;
            return self.stop(graph, end);
        }
        let cause = self.failures(graph, &failed);
        let wait = Wait { question: cause.clone(), ..wait };
        self.replan(graph, wait, cause)
    }

    /// Which steps failed, and why.
    fn failures(&self, graph: &Graph, failed: &[usize]) -> String {
        let said = failed.iter().filter_map(|index| {
            let step = self.execution.step(*index)?;
            Some(format!("step {} failed: {}", graph.id(*index), step.reason))
        });
        said.collect::<Vec<_>>().join("; ")
    }

    fn retry(&mut self, graph: &Graph, limits: &Limits, failed: &[usize]) -> Result<(), Refusal> {
        if let Some(end) = self.no_retry(graph, limits, failed) {
            self.block_dependents(graph, failed)?;
            return self.stop(graph, end);
        }
        self.execution.counters.replans += 1;
        let cause = format!("try {} of {}", self.execution.counters.replans, limits.max_replans);
        self.run_event(RunEvent::RetryStarted, cause)?;
        for index in failed {
            let hint = self.hint_of_next_attempt(*index);
            self.step_event(graph, *index, StepEvent::Retried, "the same plan is tried again")?;
            self.begin_attempt(*index, hint);
        }
        self.ready_steps(graph)?;
        self.settle(graph)
    }

    /// Blocks the pending steps that depend on a failed one, directly or through others, because
    /// they can never start.
    fn block_dependents(&mut self, graph: &Graph, failed: &[usize]) -> Result<(), Refusal> {
        let mut settled = failed.to_vec();
        while let Some(index) = settled.pop() {
            let cause = format!("step {} is {}", graph.id(index), self.state_of(index).as_str());
            for dependent in 0..graph.len() {
                let depends = graph.dependencies(dependent).contains(&index);
                if depends && self.state_of(dependent) == StepState::Pending {
                    self.step_event(graph, dependent, StepEvent::DependencyFailed, cause.clone())?;
                    settled.push(dependent);
                }
            }
        }
        Ok(())
    }

    pub(super) fn state_of(&self, index: usize) -> StepState {
        self.execution.steps.get(index).map(|step| step.state).unwrap_or_default()
    }

    /// Why failed steps are not retried: no retry remains, or a user failed a step because the
    /// outcome of its call is unknown, and a retry would repeat the call.
    fn no_retry(&self, graph: &Graph, limits: &Limits, failed: &[usize]) -> Option<Ending> {
        let of = |index: &usize| {
            let step = self.execution.steps.get(*index)?;
            // A sleep has no effect, so it may be repeated.
            step.open_call.as_ref().filter(|_| step.sleep.is_none())
        };
        let in_doubt = failed.iter().find_map(|index| Some((graph.id(*index), of(index)?)));
        let (user_message, internal_reason) = if let Some((id, call)) = in_doubt {
            (
                format!(
                    "Step {id} failed: it is unknown whether its call of {} happened.",
                    call.tool
                ),
                format!("call {} has no outcome and must not be repeated", call.call_id),
            )
        } else if self.execution.counters.replans >= limits.max_replans {
            let ids: Vec<&str> = failed.iter().map(|index| graph.id(*index)).collect();
            let reasons = failed.iter().filter_map(|index| self.execution.steps.get(*index));
            let reasons = reasons.map(|step| step.reason.trim_end_matches('.'));
            let reasons: Vec<&str> = reasons.filter(|reason| !reason.is_empty()).collect();
            let reasons = match reasons.is_empty() {
                true => String::new(),
                false => format!(": {}", reasons.join("; ")),
            };
            (
                format!("Step {} failed and no retry remains{reasons}.", ids.join(", ")),
                format!("max_replans is {}", limits.max_replans),
            )
        } else {
            return None;
        };
        Some(Ending { stop_reason: StopReason::MaxReplansReached, user_message, internal_reason })
    }

    /// Adds what failed checks put out to the hint of the repair that follows. Changes nothing without a refused
    /// verdict.
    pub fn explain_repair(&mut self, shown: &str) {
        let hint = &mut self.execution.counters.repair_hint;
        if !hint.is_empty() && !shown.is_empty() {
            hint.push('\n');
            hint.push_str(shown);
        }
    }

    fn repair(&mut self, graph: &Graph, limits: &Limits) -> Result<(), Refusal> {
        self.execution.counters.repairs += 1;
        let cause = format!("repair {} of {}", self.execution.counters.repairs, limits.max_repairs);
        self.run_event(RunEvent::RetryStarted, cause)?;
        let hint = std::mem::take(&mut self.execution.counters.repair_hint);
        let hint = match hint.is_empty() {
            true => hint,
            false => format!("{VERDICT_REFUSED} Repair what failed: {hint}"),
        };
        let done: Vec<usize> = self.execution.steps_in(StepState::Done).collect();
        // A skipped step cannot be reopened.
        let is_last =
            |step: &usize| !done.iter().any(|other| graph.dependencies(*other).contains(step));
        for index in done.iter().copied().filter(is_last) {
            self.step_event(graph, index, StepEvent::Reopened, "the verdict was not accepted")?;
            self.begin_attempt(index, hint.clone());
        }
        self.ready_steps(graph)?;
        self.settle(graph)
    }

    /// What the next attempt of a step is told: the verdict that the work repairs, and how the attempt before failed.
    pub(super) fn hint_of_next_attempt(&self, index: usize) -> String {
        let Some(step) = self.execution.step(index) else { return String::new() };
        if step.state != StepState::Failed || step.reason.is_empty() {
            return step.hint.clone();
        }
        let failed = format!("{ATTEMPT_FAILED} {}", step.reason);
        // Of several failures the last one counts.
        let verdict = step.hint.split(ATTEMPT_FAILED).next().unwrap_or_default().trim_end();
        match verdict.starts_with(VERDICT_REFUSED) {
            true => format!("{verdict}\n{failed}"),
            false => failed,
        }
    }

    /// Resets a step for another attempt, every turn of which is shown the hint.
    pub(super) fn begin_attempt(&mut self, index: usize, hint: String) {
        self.forget_attempt(index);
        if let Some(step) = self.execution.step_mut(index) {
            step.hint = hint;
        }
    }

    pub(super) fn forget_attempt(&mut self, index: usize) {
        self.charge_untaken(index);
        if let Some(step) = self.execution.step_mut(index) {
            *step = StepProgress { state: step.state, attempt: step.attempt, ..Default::default() };
        }
    }

    /// Ends a refused verdict: RECOVERING while repairs remain, else FAILED for the verdict's own
    /// reason.
    ///
    /// # Errors
    /// [`Refusal`] unless the run is being verified.
    pub fn refuse(&mut self, graph: &Graph, limits: &Limits, end: Ending) -> Result<(), Refusal> {
        if self.execution.counters.repairs < limits.max_repairs {
            self.execution.counters.repair_hint.clone_from(&end.user_message);
            return self.run_event(RunEvent::VerdictRefused, end.user_message);
        }
        self.stop(graph, end)
    }
}
