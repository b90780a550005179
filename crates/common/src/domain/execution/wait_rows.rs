//! The rows of waits that a change opens and closes.
//!
//! ```text
//!   open --leased--> leased --answered--> answered --carried out--> closed
//!    ^                  |                     |
//!    +-- lost, released-+                     +-- the next wait of the step takes the lease over
//! ```
//!
//! The execution is the truth about what a run waits for. Its changes are compared before and after, so that
//! no change can forget a row. Leases change the rows only.

use super::{Execution, StepProgress, Wait, question_digest};
use crate::domain::model::AwayEndpoint;
use crate::domain::stop::WaitingOn;
use chrono::{DateTime, TimeDelta, Utc};
use std::fmt;
use uuid::Uuid;

/// What a wait needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitKind {
    /// A plan, or a patch of one.
    Plan,
    /// The next decision of a driver.
    Decision,
    /// The result of a call of a tool worker.
    Tool,
    /// An answer of a person.
    Question,
    /// Approval of exactly one call.
    Confirmation,
    /// Acceptance of what a verdict is in doubt about.
    Acceptance,
    /// The end of a pause.
    Resume,
    /// A time.
    Timer,
    /// The end of another run in the same workspace.
    Workspace,
    /// A larger budget.
    Budget,
    /// A plan, or a patch of one, from a model of the service.
    ModelPlan,
    /// The next decision of a model of the service.
    ModelDecision,
}

impl WaitKind {
    /// The stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Decision => "decision",
            Self::Tool => "tool",
            Self::Question => "question",
            Self::Confirmation => "confirmation",
            Self::Acceptance => "acceptance",
            Self::Resume => "resume",
            Self::Timer => "timer",
            Self::Workspace => "workspace",
            Self::Budget => "budget",
            Self::ModelPlan => "model_plan",
            Self::ModelDecision => "model_decision",
        }
    }
}

impl fmt::Display for WaitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Wait {
    /// The [`question_digest`](super::question_digest) of what it asks a person; empty for a wait that is no question.
    pub fn digest_of_question(&self) -> String {
        if self.kind() != WaitKind::Question {
            return String::new();
        }
        question_digest(&self.question, &self.choices, &self.answer_schema)
    }

    /// Whether a person is asked about a step or one of its calls.
    pub const fn asks_about_step(&self) -> bool {
        matches!(self.kind(), WaitKind::Question | WaitKind::Confirmation)
            && self.step_index.is_some()
    }

    /// What it needs.
    pub const fn kind(&self) -> WaitKind {
        match self.waiting_on {
            WaitingOn::User if self.budget.is_some() => WaitKind::Budget,
            WaitingOn::User => WaitKind::Question,
            WaitingOn::Approver if self.acceptance.is_some() => WaitKind::Acceptance,
            WaitingOn::Approver => WaitKind::Confirmation,
            WaitingOn::Worker => WaitKind::Tool,
            WaitingOn::Model if self.step_index.is_some() => WaitKind::ModelDecision,
            WaitingOn::Model if self.model.is_some() => WaitKind::ModelPlan,
            WaitingOn::Model => WaitKind::Plan,
            WaitingOn::Operator => WaitKind::Resume,
            WaitingOn::Timer => WaitKind::Timer,
            WaitingOn::Driver if self.model.is_some() => WaitKind::ModelDecision,
            WaitingOn::Driver => WaitKind::Decision,
            WaitingOn::Workspace => WaitKind::Workspace,
        }
    }
}

impl WaitKind {
    /// Whether it is the next decision of a driver.
    pub const fn is_decision(self) -> bool {
        matches!(self, Self::Decision | Self::ModelDecision)
    }
}

fn answered_kind(step: &StepProgress) -> WaitKind {
    if step.answered_by_model { WaitKind::ModelDecision } else { WaitKind::Decision }
}

/// The endpoint that a wait waits for, where it does not answer.
fn away(wait: &Wait) -> Option<&AwayEndpoint> {
    wait.model.as_deref()?.away.as_ref()
}

/// A call that is offered to workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedCall {
    /// The tool.
    pub tool: String,
    /// Not before this time.
    pub offered_at: DateTime<Utc>,
}

/// A wait of an execution that has a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptWait {
    /// The wait.
    pub id: Uuid,
    /// What it needs.
    pub kind: WaitKind,
    /// The step that it is about; none for the whole run.
    pub step_index: Option<usize>,
    /// Whether its answer is stored and not carried out yet.
    pub answered: bool,
    /// When it expires; none for a wait that only the run's deadline ends.
    pub expires_at: Option<DateTime<Utc>>,
    /// When its step's time is over, if a participant has the lease from now on; none for a wait that the step's clock
    /// does not end.
    pub step_until: Option<DateTime<Utc>>,
    /// The call, if it waits for a worker.
    pub call: Option<OfferedCall>,
    /// Not before this time it is offered to a model, if its endpoint did not answer.
    pub retry_at: Option<DateTime<Utc>>,
}

impl Execution {
    /// The waits that have a row: those that are open, and those whose answer is being carried out.
    pub fn kept_waits(&self) -> impl Iterator<Item = KeptWait> + '_ {
        let open = self.waits().map(|wait| KeptWait {
            id: wait.id,
            kind: wait.kind(),
            step_index: wait.step_index,
            answered: false,
            expires_at: self.expiry_of(wait),
            step_until: self.step_until(wait),
            call: self.offered_call(wait),
            retry_at: away(wait).map(|away| away.retry_at),
        });
        let answered = self.steps.iter().enumerate().filter_map(|(index, step)| {
            let (kind, step_index) = (answered_kind(step), Some(index));
            let kept = |id| KeptWait {
                id,
                kind,
                step_index,
                answered: true,
                expires_at: None,
                step_until: None,
                call: None,
                retry_at: None,
            };
            step.answered_wait.map(kept)
        });
        open.chain(answered)
    }

    fn worker_step(&self, wait: &Wait) -> Option<&StepProgress> {
        let index = wait.step_index.filter(|_| wait.waiting_on == WaitingOn::Worker)?;
        self.step(index)
    }

    fn expiry_of(&self, wait: &Wait) -> Option<DateTime<Utc>> {
        let task = self.worker_step(wait).and_then(|step| step.worker_call.as_deref());
        let confirmation = wait.confirmation.as_deref().map(|call| call.expires_at);
        let away = away(wait).map(|away| away.until);
        let plan = wait.plan_approval.as_deref().map(|asked| asked.expires_at);
        confirmation.or(task.map(|task| task.deadline_at)).or(away).or(plan)
    }

    /// When the time of a wait's step is over. The wait for an endpoint that does not answer is given back whole.
    pub fn step_until(&self, wait: &Wait) -> Option<DateTime<Utc>> {
        let decides = wait.kind().is_decision() && wait.waiting_on.keeps_executing();
        let limit = wait.step_deadline_s.filter(|_| decides)?;
        let started_at = self.step(wait.step_index?)?.started_at?;
        started_at.checked_add_signed(TimeDelta::try_seconds(i64::try_from(limit).ok()?)?)
    }

    fn offered_call(&self, wait: &Wait) -> Option<OfferedCall> {
        let step = self.worker_step(wait)?;
        let (call, task) = (step.open_call.as_deref()?, step.worker_call.as_deref()?);
        Some(OfferedCall { tool: call.tool.clone(), offered_at: task.offered_at })
    }
}

/// What a change means for the rows of waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WaitChanges {
    /// The waits that begin.
    pub opened: Vec<OpenedWait>,
    /// The waits that end.
    pub closed: Vec<Uuid>,
    /// The wait whose answer the change stores. The change applies only under its lease.
    pub answered: Option<AnsweredWait>,
    /// Whether the run's waits are offered from now on; none when that stays as it is.
    pub withheld: Option<bool>,
    /// How long a pause that ends rested, which is given back to the steps.
    pub rested: TimeDelta,
}

/// A wait that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedWait {
    /// The wait.
    pub id: Uuid,
    /// What it needs.
    pub kind: WaitKind,
    /// The wait of the same step that ends with it: its participant keeps the lease.
    pub follows: Option<Uuid>,
    /// Whether it is not offered, because the run is paused.
    pub withheld: bool,
    /// When it expires; none for a wait that only the run's deadline ends.
    pub expires_at: Option<DateTime<Utc>>,
    /// When its step's time is over, if a participant has the lease from now on.
    pub step_until: Option<DateTime<Utc>>,
    /// The call, if it waits for a worker.
    pub call: Option<OfferedCall>,
    /// Not before this time it is offered to a model, if its endpoint did not answer.
    pub retry_at: Option<DateTime<Utc>>,
}

/// A wait that is answered, and the lease under which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnsweredWait {
    /// The wait.
    pub id: Uuid,
    /// The fencing token of its lease.
    pub lease_epoch: i64,
}

impl WaitChanges {
    /// The difference between the waits `before` a change and those of the execution after it.
    pub(super) fn between(before: &Before, after: &Execution) -> Self {
        let now: Vec<KeptWait> = after.kept_waits().collect();
        let withheld = after.paused.is_some();
        let is_among = |waits: &[KeptWait], id| waits.iter().any(|wait| wait.id == id);
        let gone = |wait: &&KeptWait| !is_among(&now, wait.id);
        let opened = now.iter().filter(|wait| !is_among(&before.waits, wait.id)).map(|wait| {
            let followed = |other: &&KeptWait| {
                other.answered && wait.step_index.is_some() && other.step_index == wait.step_index
            };
            let follows = before.waits.iter().filter(gone).find(followed);
            let follows = follows.filter(|_| wait.kind.is_decision()).map(|other| other.id);
            let KeptWait { id, kind, expires_at, step_until, call, retry_at, .. } = wait.clone();
            OpenedWait { id, kind, follows, withheld, expires_at, step_until, call, retry_at }
        });
        let stays = now.iter().any(|wait| is_among(&before.waits, wait.id));
        Self {
            opened: opened.collect(),
            closed: before.waits.iter().filter(gone).map(|wait| wait.id).collect(),
            answered: None,
            withheld: (stays && before.withheld != withheld).then_some(withheld),
            rested: match before.rests_since.filter(|_| stays && !withheld) {
                Some(since) => after.updated_at - since,
                None => TimeDelta::zero(),
            },
        }
    }

    /// Whether no row changes.
    pub fn is_empty(&self) -> bool {
        let Self { opened, closed, answered, withheld, .. } = self;
        opened.is_empty() && closed.is_empty() && answered.is_none() && withheld.is_none()
    }

    /// Whether a wait begins, ends, or is offered from now on or no more. An answer alone moves nothing that a
    /// participant waits for.
    pub const fn moves_waits(&self) -> bool {
        !self.opened.is_empty() || !self.closed.is_empty() || self.withheld.is_some()
    }

    /// Adds the changes of a later change of the same run, which is stored together with this one.
    pub fn and_then(&mut self, later: &Self) {
        for id in &later.closed {
            match self.opened.iter().position(|wait| wait.id == *id) {
                Some(place) => drop(self.opened.remove(place)),
                None => self.closed.push(*id),
            }
        }
        if let Some(withheld) = later.withheld {
            self.withheld = Some(withheld);
            self.opened.iter_mut().for_each(|wait| wait.withheld = withheld);
        }
        self.rested += later.rested;
        self.opened.extend_from_slice(&later.opened);
        self.answered = self.answered.or(later.answered);
    }
}

/// The waits of an execution before a change.
#[derive(Debug, Clone, Default)]
pub(super) struct Before {
    waits: Vec<KeptWait>,
    withheld: bool,
    rests_since: Option<DateTime<Utc>>,
}

impl Before {
    pub(super) fn of(execution: &Execution) -> Self {
        let paused = execution.paused.as_ref();
        Self {
            waits: execution.kept_waits().collect(),
            withheld: paused.is_some(),
            rests_since: paused.and_then(|paused| paused.rests_since),
        }
    }
}
