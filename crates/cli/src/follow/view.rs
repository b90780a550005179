//! The state of a run after its events, for a view of all steps. Pure.

use chrono::{DateTime, TimeDelta, Utc};
use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;
use surety_common::wire::v1::transition::Subject;

use crate::lines::verdict_line;
use crate::report::{is_answered_in_words, needs_a_person};
use crate::text::{moment, one_line, shortened};

/// The most characters of a tool's summary.
const LONGEST_SUMMARY: usize = 200;

/// The state of a run.
#[derive(Debug, Clone)]
pub(super) struct RunView {
    /// The run, as it was last read; its state and its steps are followed by the events.
    pub run: v1::Run,
    /// The plan's title; empty before there is a plan.
    pub title: String,
    /// Its steps, in the plan's order.
    pub steps: Vec<StepView>,
    /// What it waits for.
    pub waits: Vec<v1::Wait>,
    /// The last observation of any step, or the last verdict.
    pub last: String,
    /// The number of the last event.
    sequence: u64,
}

/// The state of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StepView {
    /// Its id.
    pub id: String,
    /// Its task.
    pub description: String,
    /// The steps that it needs.
    pub dependencies: Vec<String>,
    /// Its state.
    pub state: v1::StepState,
    /// When it last started.
    pub began: Option<DateTime<Utc>>,
    /// How long it ran, once it has ended.
    pub took: Option<TimeDelta>,
    /// The last tool and its result.
    pub last: String,
    /// What its driver said last.
    pub speech: String,
}

impl RunView {
    /// The run before its events are applied.
    #[must_use]
    pub(super) fn of(run: &v1::Run) -> Self {
        let mut view = Self {
            run: v1::Run::default(),
            title: String::new(),
            steps: Vec::new(),
            waits: Vec::new(),
            last: String::new(),
            sequence: 0,
        };
        view.read(run.clone(), None, Vec::new());
        view
    }

    /// The run after it was read again. A read that is older than the last event says nothing of states.
    pub(super) fn read(&mut self, run: v1::Run, plan: Option<v1::Plan>, waits: Vec<v1::Wait>) {
        if let Some(plan) = plan {
            self.title = plan.title;
            let known: Vec<_> = plan.steps.iter().map(|step| step.id.clone()).collect();
            self.steps.retain(|step| known.contains(&step.id));
            for step in plan.steps {
                let seen = self.step(&step.id);
                (seen.description, seen.dependencies) = (step.description, step.dependencies);
            }
            let place = |step: &StepView| known.iter().position(|id| *id == step.id);
            self.steps.sort_by_key(place);
        }
        let state = self.run.state;
        let is_late = run.last_sequence < self.sequence;
        for progress in &run.steps {
            let step = self.step(&progress.id);
            step.description.clone_from(&progress.description);
            if !is_late {
                step.state = progress.state();
                step.began = moment(progress.started_at.as_ref());
                let ended = moment(progress.finished_at.as_ref());
                step.took = step.began.zip(ended).map(|(began, ended)| ended - began);
            }
        }
        (self.run, self.waits) = (run, waits);
        if is_late {
            self.run.state = state;
        }
    }

    /// The run after one more event.
    pub(super) fn take(&mut self, event: &v1::Event) {
        let at = moment(event.at.as_ref());
        self.sequence = self.sequence.max(event.sequence);
        match &event.kind {
            Some(Kind::Transition(moved)) => match &moved.subject {
                Some(Subject::StepId(id)) => self.step(id).moved(moved.step_to(), at),
                Some(Subject::RunId(_)) | None => self.run.set_state(moved.run_to()),
            },
            Some(Kind::Intent(intent)) if !intent.step_id.is_empty() => {
                self.step(&intent.step_id).last = one_line(&intent.tool);
            }
            Some(Kind::Receipt(receipt)) => {
                let mark = if receipt.success { "" } else { " failed" };
                let summary = shortened(&receipt.summary, LONGEST_SUMMARY);
                let last = format!("{}{mark}: {summary}", one_line(&receipt.name));
                if !receipt.step_id.is_empty() {
                    self.step(&receipt.step_id).last.clone_from(&last);
                }
                self.last = last;
            }
            Some(Kind::Turn(turn)) => {
                let said = turn.decision.as_ref().map(said).unwrap_or_default();
                self.step(&turn.step_id).speech = said;
                if !turn.correction.is_empty() {
                    let correction = shortened(&turn.correction, LONGEST_SUMMARY);
                    self.step(&turn.step_id).last = format!("corrected: {correction}");
                }
            }
            Some(Kind::Verdict(verdict)) => self.last = verdict_line(verdict),
            Some(
                Kind::Intent(_)
                | Kind::PlanStored(_)
                | Kind::Output(_)
                | Kind::Answer(_)
                | Kind::Forked(_),
            )
            | None => {}
        }
    }

    /// The wait that a person at this terminal can end; the first where there are several.
    #[must_use]
    pub(super) fn asking(&self) -> Option<&v1::Wait> {
        let asks = |wait: &&v1::Wait| {
            needs_a_person(wait.waiting_on())
                && (!wait.call_digest.is_empty()
                    || wait.kind() == v1::WaitKind::Budget
                    || is_answered_in_words(wait.waiting_on(), &wait.question))
        };
        self.waits.iter().find(asks)
    }

    /// Whether an operator paused it.
    #[must_use]
    pub(super) fn is_paused(&self) -> bool {
        self.waits.iter().any(|wait| wait.kind() == v1::WaitKind::Resume)
    }

    /// What is reported of a step before its result: the words of its driver as they arrive, or a worker's report.
    #[must_use]
    pub(super) fn reported(&self, step_id: &str) -> Option<&v1::Wait> {
        self.waits.iter().find(|wait| wait.step_id == step_id && !wait.progress.is_empty())
    }

    /// The words of a model while it plans; empty without any.
    #[must_use]
    pub(super) fn planned(&self) -> String {
        let plans = |wait: &&v1::Wait| wait.kind() == v1::WaitKind::Plan;
        self.waits.iter().find(plans).map(|wait| one_line(&wait.progress)).unwrap_or_default()
    }

    /// Whether a model of the service replies, or a worker has a call.
    #[must_use]
    pub(super) fn hears_reports(&self) -> bool {
        self.waits.iter().any(|wait| match wait.kind() {
            v1::WaitKind::Tool => true,
            v1::WaitKind::Decision | v1::WaitKind::Plan => self.run.driver() == v1::Driver::Model,
            v1::WaitKind::Unspecified
            | v1::WaitKind::Question
            | v1::WaitKind::Confirmation
            | v1::WaitKind::Acceptance
            | v1::WaitKind::Resume
            | v1::WaitKind::Timer
            | v1::WaitKind::Workspace
            | v1::WaitKind::Budget => false,
        })
    }

    fn step(&mut self, id: &str) -> &mut StepView {
        let at = self.steps.iter().position(|step| step.id == id).unwrap_or_else(|| {
            self.steps.push(StepView::new(id));
            self.steps.len() - 1
        });
        // The line above found or created the index.
        &mut self.steps[at]
    }
}

/// What a driver says with a decision.
fn said(decision: &v1::ExecuteDecision) -> String {
    let texts = [&decision.speak, &decision.reason, &decision.goal_check];
    texts
        .into_iter()
        .find(|text| !text.trim().is_empty())
        .map(|it| one_line(it))
        .unwrap_or_default()
}

impl StepView {
    fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            description: String::new(),
            dependencies: Vec::new(),
            state: v1::StepState::Pending,
            began: None,
            took: None,
            last: String::new(),
            speech: String::new(),
        }
    }

    fn moved(&mut self, to: v1::StepState, at: Option<DateTime<Utc>>) {
        let ran = self.is_at_work();
        self.state = to;
        match (ran, self.is_at_work()) {
            (false, true) => (self.began, self.took) = (at, None),
            (true, false) => self.took = self.began.zip(at).map(|(began, at)| at - began),
            (true, true) | (false, false) => {}
        }
    }

    /// Whether work on it has begun and not ended.
    #[must_use]
    pub(super) const fn is_at_work(&self) -> bool {
        matches!(self.state, v1::StepState::Running | v1::StepState::Waiting)
    }

    /// How long it has run, or ran.
    #[must_use]
    pub(super) fn time(&self, now: DateTime<Utc>) -> Option<TimeDelta> {
        if self.is_at_work() { self.began.map(|began| now - began) } else { self.took }
    }
}
