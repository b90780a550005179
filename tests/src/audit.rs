//! The auditor: replays a run's journal through the machine and holds the row, the counters and the
//! receipts against it. Used at the end of every test, whatever the test was about.

use anyhow::{Context, Result, ensure};
use sqlx::PgPool;
use std::collections::{HashMap, HashSet};
use surety_common::domain::journal::{Entry, Event, Intent, Subject, Transition, VerdictRecord};
use surety_common::domain::machine::run::{self, RunEvent, RunState};
use surety_common::domain::machine::step::{self, StepEvent};
use surety_common::domain::plan::{Evidence, Plan};
use surety_common::domain::receipt::{EvidenceReceipt, Fact, verify_chain};
use surety_common::domain::run::RunRecord;
use surety_common::domain::step::StepState;
use surety_common::store::{self, RunFilter};
use surety_executor::tool::Registry;
use uuid::Uuid;

/// Audits every run of a database.
///
/// # Errors
/// The first thing that does not fit, with the run's id.
pub async fn audit_all(pool: &PgPool) -> Result<()> {
    let filter = RunFilter { limit: 1000, ..RunFilter::default() };
    for record in store::list_runs(pool, &filter).await?.runs {
        let run_id = record.spec.id;
        audit(pool, run_id).await.with_context(|| format!("the audit of run {run_id}"))?;
    }
    Ok(())
}

/// Audits one run: the journal is numbered without gaps from 1, every move in it is one the machine
/// makes and together they lead to the stored states, no step starts before what it depends on or
/// beside too many others, every effect was written down before its receipt and has one outcome at
/// most, the chain of receipts holds, the counters are the journal's, and what is accepted was
/// proven by the receipts that the verdict names.
///
/// # Errors
/// The first thing that does not fit.
pub async fn audit(pool: &PgPool, run_id: Uuid) -> Result<()> {
    // The row first: the journal only grows, and what came after the row is left out.
    let record = store::find_run(pool, run_id).await?.context("there is no such run")?;
    let mut events = store::events(pool, run_id, 1, i64::MAX).await?;
    events.retain(|event| event.sequence <= record.execution.sequence);
    let mut replay = Replay::of(&record);
    for revision in 1..=record.execution.plan_revision {
        let stored =
            store::find_plan(pool, run_id, revision).await?.context("a revision is missing")?;
        replay.revisions.insert(revision, store::plan_of(&stored, run_id)?);
    }
    for (expected, event) in (1..).zip(&events) {
        ensure!(event.sequence == expected, "event {} stands at {expected}", event.sequence);
        replay.take(event).with_context(|| format!("event {event:?}"))?;
    }
    replay.compare(&record, events.len())
}

struct Replay {
    plan: Plan,
    revisions: HashMap<u32, Plan>,
    max_parallel: usize,
    state: RunState,
    steps: HashMap<String, StepState>,
    retries: u32,
    turns: u32,
    receipts: Vec<EvidenceReceipt>,
    intents: HashSet<Uuid>,
    verdict: Option<VerdictRecord>,
    read_only: HashSet<String>,
}

impl Replay {
    fn of(record: &RunRecord) -> Self {
        let tools = Registry::with_builtin().map_or_else(
            |_| HashSet::new(),
            |tools| {
                let reads = tools.specs().filter(|spec| spec.annotations.read_only);
                reads.map(|spec| spec.name.clone()).collect()
            },
        );
        Self {
            plan: Plan::default(),
            revisions: HashMap::new(),
            steps: HashMap::new(),
            max_parallel: usize::try_from(record.spec.limits.max_parallel_steps).unwrap_or(0),
            state: RunState::Intake,
            retries: 0,
            turns: 0,
            receipts: Vec::new(),
            intents: HashSet::new(),
            verdict: None,
            read_only: tools,
        }
    }

    fn take(&mut self, event: &Event) -> Result<()> {
        ensure!(!self.state.is_terminal(), "something happened after the end");
        match &event.entry {
            Entry::Transition(transition) => self.transition(transition),
            Entry::Turn(_) => {
                self.turns += 1;
                Ok(())
            }
            Entry::Intent(intent) => self.intent(intent),
            Entry::Receipt(receipt) => self.receipt(receipt),
            Entry::Verdict(verdict) => {
                self.verdict = Some((**verdict).clone());
                ensure!(self.state == RunState::Verifying, "a verdict while {:?}", self.state);
                let seen = usize::try_from(verdict.receipts)?;
                ensure!(seen == self.receipts.len(), "the verdict saw {seen} receipts");
                ensure!(verdict.last_receipt_digest == self.last_digest(), "another last receipt");
                Ok(())
            }
            Entry::Plan(stored) => self.revise(stored.revision),
            Entry::Output(_) | Entry::Answer(_) => Ok(()),
        }
    }

    /// What is done stays as it was done, and new steps are pending.
    fn revise(&mut self, revision: u32) -> Result<()> {
        let plan = self.revisions.get(&revision).context("no such revision")?.clone();
        for step in &plan.steps {
            match self.plan.steps.iter().find(|before| before.id == step.id) {
                None => drop(self.steps.insert(step.id.clone(), StepState::Pending)),
                Some(before) => {
                    let done = self.steps.get(&step.id) == Some(&StepState::Done);
                    ensure!(!done || before == step, "{} was done and is changed", step.id);
                }
            }
        }
        self.plan = plan;
        Ok(())
    }

    fn transition(&mut self, moved: &Transition) -> Result<()> {
        match &moved.subject {
            Subject::Run => {
                let event = RunEvent::ALL.into_iter().find(|event| event.as_str() == moved.event);
                let event = event.context("no event of a run")?;
                ensure!(self.state.as_str() == moved.from, "the run was {:?}", self.state);
                self.state = run::decide(self.state, event)?;
                ensure!(self.state.as_str() == moved.to, "the machine says {:?}", self.state);
                let again = matches!(event, RunEvent::RetryStarted | RunEvent::ReplanStarted);
                self.retries += u32::from(again);
                if self.state == RunState::Verifying && event == RunEvent::StepsFinished {
                    let done = |id| self.steps.get(id) == Some(&StepState::Done);
                    let open = self.plan.steps.iter().any(|step| !done(&step.id));
                    ensure!(!open, "verification began with open steps: {:?}", self.steps);
                }
            }
            Subject::Step(id) => self.step(id, moved)?,
        }
        Ok(())
    }

    fn step(&mut self, id: &str, moved: &Transition) -> Result<()> {
        let event = StepEvent::ALL.into_iter().find(|event| event.as_str() == moved.event);
        let event = event.context("no event of a step")?;
        let state = *self.steps.get(id).context("no step of the plan")?;
        ensure!(state.as_str() == moved.from, "the step was {state:?}");
        let next = step::decide(state, event)?;
        ensure!(next.as_str() == moved.to, "the machine says {next:?}");
        self.steps.insert(id.to_owned(), next);
        if next == StepState::Running {
            let step = self.plan.steps.iter().find(|step| step.id == id).context("no step")?;
            let done = |needed: &String| self.steps.get(needed) == Some(&StepState::Done);
            ensure!(step.dependencies.iter().all(done), "{id} started before what it needs");
            let running = self.steps.values().filter(|state| **state == StepState::Running);
            ensure!(running.count() <= self.max_parallel, "too many steps run at once");
        }
        Ok(())
    }

    fn intent(&mut self, intent: &Intent) -> Result<()> {
        ensure!(self.intents.insert(intent.call_id), "the same call was begun twice");
        if !intent.step_id.is_empty() {
            let state = self.steps.get(&intent.step_id);
            ensure!(state == Some(&StepState::Running), "an effect of a step that is {state:?}");
        }
        Ok(())
    }

    fn receipt(&mut self, receipt: &EvidenceReceipt) -> Result<()> {
        let call_id = Uuid::parse_str(&receipt.call_id)?;
        let again = self.receipts.iter().any(|earlier| earlier.call_id == receipt.call_id);
        ensure!(!again, "call {call_id} has two outcomes");
        let acted = receipt
            .facts
            .iter()
            .any(|fact| matches!(fact, Fact::FileWritten { .. } | Fact::Command { .. }));
        let looks = self.read_only.contains(&receipt.name) || receipt.name == "observe";
        let acted = acted || (receipt.success && !looks);
        let begun = self.intents.contains(&call_id);
        ensure!(begun || !acted, "{} acted before it was written down", receipt.name);
        if !receipt.step_id.is_empty() {
            let state = self.steps.get(&receipt.step_id);
            ensure!(state == Some(&StepState::Running), "a receipt of a step that is {state:?}");
        }
        self.receipts.push(receipt.clone());
        Ok(())
    }

    fn last_digest(&self) -> &str {
        self.receipts.last().map_or("", |receipt| receipt.digest.as_str())
    }

    fn compare(&self, record: &RunRecord, events: usize) -> Result<()> {
        let row = &record.execution;
        ensure!(usize::try_from(row.sequence)? == events, "{events} events of {}", row.sequence);
        ensure!(
            row.state == self.state,
            "the row is {:?}, the journal {:?}",
            row.state,
            self.state
        );
        ensure!(row.terminal.is_some() == row.state.is_terminal(), "{:?}", row.terminal);
        ensure!(row.lease_owner.is_none() || !row.state.is_terminal(), "an ended run is leased");
        for (step, progress) in self.plan.steps.iter().zip(&row.steps) {
            let state = self.steps.get(&step.id);
            ensure!(state == Some(&progress.state), "{}: {state:?} {:?}", step.id, progress.state);
        }
        verify_chain(&self.receipts)?;
        let counters = &row.counters;
        let of_steps = self.receipts.iter().filter(|receipt| !receipt.step_id.is_empty()).count();
        ensure!(usize::try_from(counters.receipts)? == self.receipts.len(), "{counters:?}");
        ensure!(usize::try_from(counters.tool_calls)? == of_steps, "{counters:?}, not {of_steps}");
        ensure!(counters.rounds == self.turns, "{counters:?}, not {} turns", self.turns);
        ensure!(counters.last_receipt_digest == self.last_digest(), "{counters:?}");
        ensure!(counters.replans + counters.repairs == self.retries, "{counters:?}");
        if row.state == RunState::Done {
            self.proven(record)?;
        }
        Ok(())
    }

    fn proven(&self, record: &RunRecord) -> Result<()> {
        let verdict = self.verdict.as_ref().context("accepted without a verdict")?;
        ensure!(verdict.verdict.accepted, "the last verdict refused");
        ensure!(verdict.plan_revision == record.execution.plan_revision, "another revision's");
        for step in self.plan.steps.iter().filter(|step| step.evidence == Evidence::Required) {
            let proof = |receipt: &&EvidenceReceipt| receipt.success && receipt.step_id == step.id;
            ensure!(self.receipts.iter().any(|r| proof(&r)), "step {} has no proof", step.id);
        }
        Ok(())
    }
}
