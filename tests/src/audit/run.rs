//! One run's journal, replayed.

use super::calls::{Calls, is_of_server};
use super::grants::{About, Grants};
use super::observations::Observed;
use super::steps::{Outcome, Step};
use super::writes;
use anyhow::{Context, Result, ensure};
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, HashMap, HashSet};
use surety_acceptgate::verdict::{Evaluation, evaluate};
use surety_common::domain::acceptance::Resolution;
use surety_common::domain::caution::CautionRules;
use surety_common::domain::check::CheckKind;
use surety_common::domain::confirmation::{call_digest, is_said};
use surety_common::domain::decision::{Action, Usage, UsageSource};
use surety_common::domain::fork::ForkedFrom;
use surety_common::domain::journal::{
    Entry, Event, Intent, PlanStored, Subject, Transition, Turn, VerdictRecord,
};
use surety_common::domain::json;
use surety_common::domain::machine::run::{self, Phase, RunEvent, RunState};
use surety_common::domain::machine::step::StepEvent;
use surety_common::domain::plan::{Plan, PlanStep, ToolCall};
use surety_common::domain::receipt::{EvidenceReceipt, EvidenceSource};
use surety_common::domain::repository::RepositoryOutcome;
use surety_common::domain::run::{DriverKind, Policy, RunRecord, VerifyCommands};
use surety_common::domain::step::StepState;
use surety_common::domain::stop::StopReason;
use surety_common::domain::todo::{RunTodos, TodoChange};
use surety_common::domain::verdict::Verdict;
use surety_common::domain::verification::{
    ProjectTests, is_hidden_name, wants_project_tests, wrote_files,
};
use surety_executor::tool::builtin::todo::read_change;
use uuid::Uuid;

/// Checks of these kinds use external answers, which the journal does not have.
const ASKED: [CheckKind; 2] = [CheckKind::HttpProbe, CheckKind::ActionReport];

/// The tool that changes todos.
const TODO: &str = "todo";

/// Tools whose success is no evidence for a step.
const NO_WORK: [&str; 4] = ["noop", "read_output", "sleep", "todo"];

/// The name of the runner's commands for checks.
const PROBE: &str = "verify_command";

/// The state after the journal so far.
pub(super) struct Replay {
    revisions: Vec<Plan>,
    pub(super) plan: Plan,
    pub(super) revision: u32,
    workspace: String,
    verify_commands: VerifyCommands,
    policy: Policy,
    driver: DriverKind,
    max_parallel: usize,
    pub(super) state: RunState,
    paused: bool,
    pub(super) stop_reason: Option<StopReason>,
    pub(super) steps: HashMap<String, Step>,
    pub(super) replans: u32,
    pub(super) repairs: u32,
    pub(super) turns: u32,
    /// What the turns used.
    pub(super) usage: Usage,
    /// The part of it that drivers outside the services stated.
    pub(super) reported: Usage,
    /// How often a budget was raised.
    pub(super) extensions: u32,
    pub(super) receipts: Vec<EvidenceReceipt>,
    pub(super) calls: Calls,
    pub(super) grants: Grants,
    /// Verifications that began.
    pub(super) verifications: u32,
    /// The latest verification; none before the first.
    pub(super) observed: Option<Observed>,
    /// What the request says that the run has from another one.
    forked_from: Option<Box<ForkedFrom>>,
    /// Whether the journal says so.
    pub(super) is_fork: bool,
    /// Whether a step moved for another reason than what it depends on.
    begun: bool,
    /// The answer in the entry before.
    answered: Option<String>,
    outputs: HashSet<(String, String)>,
    pub(super) todos: RunTodos,
    /// What the last turn asks to change of them.
    todo_change: Option<TodoChange>,
    /// The time of the present event.
    at: DateTime<Utc>,
    pub(super) verdict: Option<(i64, VerdictRecord)>,
    final_text: String,
    /// What the author of the plan says at the end of the step that ended last.
    authored_text: String,
}

impl Replay {
    /// `revisions` are the run's plans, in their order.
    pub(super) fn of(record: &RunRecord, revisions: Vec<Plan>, calls: Calls) -> Self {
        Self {
            revisions,
            plan: Plan::default(),
            revision: 0,
            steps: HashMap::new(),
            workspace: record.spec.workspace.clone(),
            verify_commands: record.spec.policy.verify_commands,
            policy: record.spec.policy.clone(),
            driver: record.spec.driver,
            max_parallel: usize::try_from(record.spec.limits.max_parallel_steps).unwrap_or(0),
            state: RunState::Intake,
            paused: false,
            stop_reason: None,
            replans: 0,
            repairs: 0,
            turns: 0,
            usage: Usage::default(),
            reported: Usage::default(),
            extensions: 0,
            receipts: Vec::new(),
            calls,
            grants: Grants::default(),
            verifications: 0,
            observed: None,
            forked_from: record.spec.forked_from.clone(),
            is_fork: false,
            begun: false,
            answered: None,
            outputs: HashSet::new(),
            todos: RunTodos::default(),
            todo_change: None,
            at: DateTime::UNIX_EPOCH,
            verdict: None,
            final_text: String::new(),
            authored_text: String::new(),
        }
    }

    pub(super) fn take(&mut self, event: &Event, writer: &str) -> Result<()> {
        ensure!(!self.state.is_terminal(), "something happened after the end");
        let answered = self.answered.take();
        self.at = event.at;
        match &event.entry {
            Entry::Transition(transition) => self.transition(transition, answered),
            Entry::Turn(turn) => self.turn(turn, writer),
            Entry::Intent(intent) => self.intent(intent, writer),
            Entry::Receipt(receipt) => self.receipt(receipt, writer),
            Entry::Verdict(verdict) => self.verdict(event.sequence, verdict),
            Entry::Plan(stored) => self.plan(stored),
            Entry::Output(output) => {
                let new = self.outputs.insert((output.call_id.clone(), output.digest.clone()));
                ensure!(new, "the same output twice");
                Ok(())
            }
            Entry::Answer(answer) => {
                self.answered = Some(answer.text.clone());
                Ok(())
            }
            Entry::Forked(fork) => self.forked(fork),
        }
    }

    /// A fork says so once, between its plan and the start of its work, and as its request does.
    fn forked(&mut self, fork: &ForkedFrom) -> Result<()> {
        ensure!(
            self.forked_from.as_deref() == Some(fork),
            "the run is a fork of {:?}",
            self.forked_from
        );
        ensure!(self.state == RunState::Planning && self.revision == 1, "it became a fork later");
        ensure!(!std::mem::replace(&mut self.is_fork, true), "it is a fork twice");
        let known = |id: &String| self.plan.steps.iter().any(|step| step.id == *id);
        ensure!(fork.steps.iter().all(known) && known(&fork.step_id), "it inherits other steps");
        ensure!(!fork.steps.contains(&fork.step_id), "the first step of the fork is inherited");
        Ok(())
    }

    fn transition(&mut self, moved: &Transition, answered: Option<String>) -> Result<()> {
        match &moved.subject {
            Subject::Run => self.run_moved(moved),
            Subject::Step(id) => {
                self.step_moved(id, moved)?;
                // The answer that ended the wait is the entry before.
                if moved.event == StepEvent::WaitEnded.as_str()
                    && let Some(step) = self.steps.get_mut(id)
                {
                    step.answer = answered;
                }
                Ok(())
            }
        }
    }

    fn run_moved(&mut self, moved: &Transition) -> Result<()> {
        let event = RunEvent::ALL.into_iter().find(|event| event.as_str() == moved.event);
        let event = event.context("no event of a run")?;
        ensure!(self.state.as_str() == moved.from, "the run was {:?}", self.state);
        self.state = run::decide(self.state, event)?;
        ensure!(self.state.as_str() == moved.to, "the machine says {:?}", self.state);
        self.stop_reason = moved.stop_reason;
        match event {
            RunEvent::ReplanStarted => self.replans += 1,
            RunEvent::RetryStarted => {
                let failed = |step: &PlanStep| self.state_of(&step.id) == Some(StepState::Failed);
                match self.plan.steps.iter().any(failed) {
                    true => self.replans += 1,
                    false => self.repairs += 1,
                }
            }
            RunEvent::PauseRequested => self.paused = true,
            RunEvent::BudgetExtended => self.extensions += 1,
            RunEvent::ResumeRequested => {
                self.paused = false;
                if matches!(self.state, RunState::Verifying | RunState::Blocked(Phase::Verifying)) {
                    self.verifications += 1;
                    self.observed = Some(Observed::begin(&self.plan));
                }
            }
            RunEvent::StepsFinished if self.state == RunState::Verifying => {
                let settled =
                    |id| matches!(self.state_of(id), Some(StepState::Done | StepState::Skipped));
                let open = self.plan.steps.iter().any(|step| !settled(&step.id));
                ensure!(!open, "verification began with open steps: {:?}", self.steps);
                self.verifications += 1;
                self.observed = Some(Observed::begin(&self.plan));
            }
            RunEvent::PlanningStarted
            | RunEvent::PlanAccepted
            | RunEvent::PlanRefused
            | RunEvent::StepsFinished
            | RunEvent::StepFailed
            | RunEvent::VerdictAccepted
            | RunEvent::VerdictRefused
            | RunEvent::ReplanRequested
            | RunEvent::Blocked
            | RunEvent::Unblocked
            | RunEvent::BudgetShort
            | RunEvent::ModelAway
            | RunEvent::Stopped
            | RunEvent::CancelRequested => {}
        }
        Ok(())
    }

    fn step_moved(&mut self, id: &str, moved: &Transition) -> Result<()> {
        if moved.event == StepEvent::Inherited.as_str() {
            let given =
                self.forked_from.as_ref().is_some_and(|fork| fork.steps.iter().any(|it| it == id));
            ensure!(given && !self.begun, "{id} was inherited from no run");
        } else if moved.event != StepEvent::DependenciesDone.as_str() {
            self.begun = true;
        }
        self.steps.get_mut(id).context("no step of the plan")?.moved(moved)?;
        if moved.event == StepEvent::Leased.as_str() {
            ensure!(!self.paused, "{id} was started while the run was paused");
        }
        if self.state_of(id) == Some(StepState::Running) {
            let step = self.plan.steps.iter().find(|step| step.id == id).context("no step")?;
            let done = |needed: &String| self.state_of(needed) == Some(StepState::Done);
            ensure!(step.dependencies.iter().all(done), "{id} started before what it needs");
            let running = self.steps.values().filter(|step| step.state == StepState::Running);
            ensure!(running.count() <= self.max_parallel, "too many steps run at once");
            self.alone_where_it_writes(step)?;
        }
        Ok(())
    }

    /// A step does not run beside another that could write the same file.
    fn alone_where_it_writes(&self, step: &PlanStep) -> Result<()> {
        let writes = |step: &PlanStep| writes::may_write(step, self.driver, &self.calls);
        let beside = |other: &&PlanStep| {
            other.id != step.id && self.state_of(&other.id) == Some(StepState::Running)
        };
        let these = writes(step);
        for other in self.plan.steps.iter().filter(beside) {
            let meet = these.overlap(&writes(other));
            ensure!(!meet, "{} was started and could write what {} does", step.id, other.id);
        }
        Ok(())
    }

    fn state_of(&self, id: &str) -> Option<StepState> {
        self.steps.get(id).map(|step| step.state)
    }

    fn turn(&mut self, turn: &Turn, writer: &str) -> Result<()> {
        self.turns += 1;
        let call = turn.decision.as_ref().and_then(|decision| decision.tool_call.as_ref());
        let call = call.filter(|call| turn.correction.is_empty() && call.name == TODO);
        self.todo_change = call.map(|call| read_change(&call.arguments)).transpose()?;
        self.usage = self.usage.plus(turn.usage);
        if turn.usage_source == UsageSource::Reported {
            self.reported = self.reported.plus(turn.usage);
        }
        self.steps.get_mut(&turn.step_id).context("no step of the plan")?.turn(turn, writer)?;
        let ending = turn.decision.as_ref().filter(|decision| {
            turn.correction.is_empty() && matches!(decision.action, Action::NextPlan | Action::Done)
        });
        if let Some(decision) = ending {
            let spoken = Some(&decision.speak).filter(|speak| !speak.is_empty());
            self.final_text.clone_from(spoken.unwrap_or(&decision.goal_check));
            let step = self.plan.steps.iter().find(|step| step.id == turn.step_id);
            self.authored_text = step.map_or_else(String::new, |step| step.done_when.clone());
        }
        Ok(())
    }

    fn intent(&mut self, intent: &Intent, writer: &str) -> Result<()> {
        self.calls.intend(intent)?;
        match intent.step_id.as_str() {
            // A probe of the runner is no call of a step: after a crash it is begun again.
            "" => Ok(()),
            _ if intent.tool == PROBE || is_hidden_name(&intent.tool) => Ok(()),
            id => {
                let planned = self.plan.steps.iter().find(|step| step.id == id);
                let planned = planned.context("no step of the plan")?;
                let needed = self.calls.needs_confirmation(&intent.tool, planned);
                let arguments = json::parse(&intent.arguments_json)?.value;
                let call = ToolCall { name: intent.tool.clone(), arguments };
                let digest = call_digest(&call, &self.plan.digest());
                let step = self.steps.get_mut(id).context("no step of the plan")?;
                step.use_approval(&digest, needed)?;
                step.intent(intent, writer)
            }
        }
    }

    /// A person said something about a step that waits for it.
    fn said(&mut self, receipt: &EvidenceReceipt) -> Result<()> {
        let place = usize::try_from(receipt.step_index)?;
        let planned = self.plan.steps.get(place).context("no step of the plan")?;
        ensure!(planned.id == receipt.step_id, "the step at {place} is {}", planned.id);
        let step = self.steps.get_mut(&receipt.step_id).context("no step of the plan")?;
        step.said(receipt)
    }

    fn receipt(&mut self, receipt: &EvidenceReceipt, writer: &str) -> Result<()> {
        let call_id = Uuid::parse_str(&receipt.call_id)?;
        let again = self.receipts.iter().any(|earlier| earlier.call_id == receipt.call_id);
        ensure!(!again, "call {call_id} has two outcomes");
        ensure!(receipt.plan_revision == self.revision, "the receipt is of another plan");
        let reporter = receipt.reporter();
        if let Some(worker) = reporter {
            if writer.starts_with("worker/") {
                return self.reported(receipt, worker, writer);
            }
            // An executor writes in the name of a worker what that worker answered to a call.
            let step = self.steps.get(&receipt.step_id);
            let served = step.is_some_and(|step| step.is_served_by(worker))
                || is_of_server(receipt) && writer.starts_with("executor/");
            ensure!(served, "{writer} reported in the name of {worker}");
        }
        let about = About::of(receipt);
        if let Some(about) = about {
            self.grants.take(about, receipt)?;
        }
        if about == Some(About::Use) {
            // The intent of this call is the next entry of its step.
            let step = self.steps.get_mut(&receipt.step_id).context("no step of the plan")?;
            step.granted(receipt, writer)?;
        }
        if matches!(about, Some(About::Use | About::Revocation)) {
            self.receipts.push(receipt.clone());
            return Ok(());
        }
        if is_said(receipt) && !receipt.step_id.is_empty() {
            self.said(receipt)?;
            self.receipts.push(receipt.clone());
            return Ok(());
        }
        self.calls.begun(receipt, call_id)?;
        if !receipt.step_id.is_empty() {
            let place = usize::try_from(receipt.step_index)?;
            let planned = self.plan.steps.get(place).context("no step of the plan")?;
            ensure!(planned.id == receipt.step_id, "the step at {place} is {}", planned.id);
            // What a worker says that it wrote is its words alone.
            if reporter.is_none() || is_of_server(receipt) {
                writes::stayed_inside(planned, receipt)?;
            }
            self.todos_changed(receipt)?;
            let step = self.steps.get_mut(&receipt.step_id).context("no step of the plan")?;
            if receipt.source == EvidenceSource::Probe {
                step.works(writer)?;
                self.receipts.push(receipt.clone());
                return Ok(());
            }
            let evidence = receipt.success && !NO_WORK.contains(&receipt.name.as_str());
            let testified = receipt.source == EvidenceSource::UserReply;
            let call = Outcome { id: call_id, success: receipt.success, evidence, testified };
            step.receipt(&call, self.calls.again(call_id), writer)?;
        }
        if let Some(observed) = &mut self.observed {
            observed.receipt(receipt);
        }
        if let Some(resolution) = Resolution::of(receipt) {
            self.resolved(&resolution)?;
        }
        self.receipts.push(receipt.clone());
        Ok(())
    }

    /// The todos follow from the calls alone.
    fn todos_changed(&mut self, receipt: &EvidenceReceipt) -> Result<()> {
        if receipt.name != TODO || !receipt.success {
            return Ok(());
        }
        let change =
            self.todo_change.take().context("todos changed without a turn that asks it")?;
        let plan = (&self.plan.todos[..], self.revision);
        self.todos.apply(plan, self.at, &change).context("the change of todos was not allowed")
    }

    /// A worker reported what it saw about a step under way: its words, and no call.
    fn reported(&mut self, receipt: &EvidenceReceipt, worker: &str, writer: &str) -> Result<()> {
        ensure!(writer == format!("worker/{worker}"), "{writer} reported in the name of {worker}");
        let plain = receipt.source == EvidenceSource::ToolObservation
            && receipt.probe_of.is_none()
            && receipt.output_digest.is_empty();
        ensure!(plain, "a worker reported as the runner: {receipt:?}");
        let place = usize::try_from(receipt.step_index)?;
        let planned = self.plan.steps.get(place).context("no step of the plan")?;
        ensure!(planned.id == receipt.step_id, "the step at {place} is {}", planned.id);
        let step = self.steps.get_mut(&receipt.step_id).context("no step of the plan")?;
        step.reported(receipt.success && receipt.name != "noop")?;
        self.receipts.push(receipt.clone());
        Ok(())
    }

    /// A person answered what a verdict is in doubt about. After an approval everything is verified anew.
    fn resolved(&mut self, resolution: &Resolution) -> Result<()> {
        let waits = self.state == RunState::Blocked(Phase::Verifying);
        ensure!(waits, "a doubt was answered while {:?}", self.state);
        let earlier = self.receipts.iter().filter_map(Resolution::of);
        let again = earlier.filter(|earlier| earlier.digest == resolution.digest).count();
        ensure!(again == 0, "the same doubt was answered twice");
        if resolution.approved {
            self.verifications += 1;
            self.observed = Some(Observed::begin(&self.plan));
        }
        Ok(())
    }

    fn verdict(&mut self, sequence: i64, given: &VerdictRecord) -> Result<()> {
        ensure!(self.state == RunState::Verifying, "a verdict while {:?}", self.state);
        let seen = usize::try_from(given.receipts)?;
        ensure!(seen == self.receipts.len(), "the verdict saw {seen} receipts");
        ensure!(given.last_receipt_digest == self.last_digest(), "another last receipt");
        ensure!(given.plan_revision == self.revision, "the verdict is on another revision");
        self.verdict = Some((sequence, given.clone()));
        if let Some(observed) = &mut self.observed {
            observed.verdict();
        }
        if self.plan.verify.iter().any(|check| ASKED.contains(&check.kind)) {
            return Ok(());
        }
        let before = self.forked_from.as_ref().is_some_and(|fork| fork.wrote);
        let wrote = before || wrote_files(&self.receipts);
        let tested = wants_project_tests(&self.plan.verify, self.verify_commands, wrote);
        let again = evaluate(&Evaluation {
            project_tests: tested.then(|| ProjectTests::of(&self.receipts, self.verifications)),
            require_independent: self.policy.require_independent,
            cautions: CautionRules::of(&self.policy),
            authored_text: (self.driver == DriverKind::Script)
                .then_some(self.authored_text.as_str()),
            round: (self.verify_commands == VerifyCommands::Runner).then_some(self.verifications),
            workspace_root: &self.workspace,
            checks: &self.plan.verify,
            receipts: &self.receipts,
            final_text: &self.final_text,
            todos: &self.todos.counted(&self.plan.todos, self.revision),
            plan_made_at: None,
            answers: &BTreeMap::new(),
        });
        // The gate adds the commit that the runner recorded.
        let repository = RepositoryOutcome::of_round(&self.receipts, self.verifications);
        let again = again.map(|verdict| Verdict { repository, ..verdict });
        ensure!(again.as_ref() == Ok(&given.verdict), "the stored receipts prove {again:?}");
        Ok(())
    }

    fn plan(&mut self, stored: &PlanStored) -> Result<()> {
        ensure!(stored.revision == self.revision + 1, "revision {} came first", self.revision);
        let place = usize::try_from(self.revision)?;
        let plan = self.revisions.get(place).context("no such revision is stored")?.clone();
        ensure!(plan.digest() == stored.digest, "the plan is not what its digest says");
        let before = if self.revision == 0 { String::new() } else { self.plan.digest() };
        ensure!(stored.parent_digest == before, "the revision follows another plan");
        let steps = std::mem::take(&mut self.steps);
        self.steps = carried(steps, &self.plan, &plan)?;
        self.revision = stored.revision;
        self.plan = plan;
        Ok(())
    }

    pub(super) fn last_digest(&self) -> &str {
        self.receipts.last().map_or("", |receipt| receipt.digest.as_str())
    }

    /// Whether the output of a receipt was journalled with it.
    pub(super) fn has_output(&self, receipt: &EvidenceReceipt) -> bool {
        receipt.output_digest.is_empty()
            || self.outputs.contains(&(receipt.call_id.clone(), receipt.output_digest.clone()))
    }
}

/// The steps under the next revision: done steps stay done, new ones are pending, and removed ones
/// are still to be cancelled.
fn carried(
    mut steps: HashMap<String, Step>,
    before: &Plan,
    after: &Plan,
) -> Result<HashMap<String, Step>> {
    steps.values_mut().for_each(Step::renew);
    for step in &after.steps {
        match before.steps.iter().find(|earlier| earlier.id == step.id) {
            None => drop(steps.insert(step.id.clone(), Step::default())),
            Some(earlier) => {
                let done = steps.get(&step.id).is_some_and(|step| step.state == StepState::Done);
                ensure!(!done || earlier == step, "{} was done and is changed", step.id);
            }
        }
    }
    Ok(steps)
}
