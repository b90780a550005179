//! Agents outside the executor that decide: they lease the decision of a step and submit it.
//!
//! ```text
//!   LeaseStep ------> offers: the lease of a wait
//!   SubmitDecision -> turns: stores the reply, follows the turn, answers its outcome
//!   Heartbeat, ReleaseStep -> the leases alone
//!   RecordReceipt -> reports: what workers saw
//! ```
//!
//! Any executor serves any agent: nothing is routed to the one that works on the run.

mod held_wait;
mod models;
mod news;
mod recent_steps;
mod reports;
mod scene;
mod submission;
mod turn_rows;
mod turns;
mod words;

pub(crate) use held_wait::HeldWait;
pub(crate) use news::News;
pub(crate) use reports::{Report, check_words};
pub(crate) use scene::{StepScene, Workshop, first_words, step_context, step_messages};
pub(crate) use submission::Submission;
pub(crate) use turns::TurnResult;
pub(crate) use words::Words;

use crate::step::{Claimer, Engine, Replies};
use chrono::TimeDelta;
use recent_steps::RecentSteps;
use sqlx::PgPool;
use std::sync::Arc;
use std::time::Duration;
use surety_common::clock::{self, PRIMARY_SHARD};
use surety_common::domain::confirmation::ConfirmPolicy;
use surety_common::domain::execution::StepProgress;
use surety_common::domain::execution::wait_rows::WaitKind;
use surety_common::domain::fault::{Fault, FaultCode, Reason};
use surety_common::domain::identity::Object;
use surety_common::domain::run::{DriverKind, RunRecord};
use surety_common::domain::step::StepState;
use surety_common::store::{
    self, Extended, HeldLease, Offers, Policies, Scope, Topic, WaitHeartbeats, WaitLease, Waker,
    Wakeups,
};
use surety_common::wire::caller::Caller;
use surety_common::wire::selection::Selection;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use words::Replying;

/// The participants of one executor process.
#[derive(Clone)]
pub(crate) struct Participants {
    pool: PgPool,
    replies: Replies,
    claimer: Arc<Claimer>,
    recent: Arc<RecentSteps>,
    waker: Waker,
    wakeups: Wakeups,
    offers: Offers,
    /// The decisions that models of the service supply.
    model_offers: Offers,
    heartbeats: WaitHeartbeats,
    news: News,
    replying: Replying,
    lease_ms: i32,
    /// How long a turn is followed before its participant is told that it is still under way.
    turn_wait: Duration,
    /// The workers that may report receipts; `*` alone for every one.
    reporters: Arc<[String]>,
    policies: Arc<Policies>,
    /// Where the folders of runs are, and the tools.
    pub(crate) workshop: Arc<Workshop>,
}

/// What the operator grants to participants.
pub(crate) struct Terms {
    /// How long a participant keeps a lease without a sign of life.
    pub(crate) lease: Duration,
    /// How long a turn is followed before its participant is told that it is still under way.
    pub(crate) turn_wait: Duration,
    /// The workers that may report receipts; `*` alone for every one.
    pub(crate) reporters: Vec<String>,
}

/// What an agent asks for.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// The agent's name.
    pub(crate) driver_id: String,
    /// The namespaces and labels that it names.
    pub(crate) selection: Selection,
    /// Only this run.
    pub(crate) run_id: Option<Uuid>,
    /// How long it waits.
    pub(crate) patience: Duration,
}

/// What LeaseStep came to.
pub(crate) enum Leased {
    /// A step.
    Step(Box<LeasedStep>),
    /// No step was ready in time; the run, if one was named.
    Nothing(Option<Box<RunRecord>>),
}

/// A leased step, and what its driver decides from.
pub(crate) struct LeasedStep {
    pub(crate) lease: WaitLease,
    pub(crate) scene: StepScene,
}

impl Participants {
    /// The participants over this database. The loops run until `ended`.
    pub(crate) fn start(
        claimer: Arc<Claimer>,
        news: News,
        (workshop, terms): (Workshop, Terms),
        ended: &CancellationToken,
    ) -> Self {
        let Engine { pool, committer, waker, wakeups, .. } = &**claimer.engine();
        let (pool, waker, wakeups) = (pool.clone(), waker.clone(), wakeups.clone());
        let replies = Replies::new(pool.clone(), committer.clone(), wakeups.clone());
        let offers = Offers::of(WaitKind::Decision, pool.clone(), PRIMARY_SHARD);
        tokio::spawn(offers.clone().run(wakeups.clone(), ended.clone()));
        let model_offers = Offers::of(WaitKind::ModelDecision, pool.clone(), PRIMARY_SHARD);
        tokio::spawn(model_offers.clone().run(wakeups.clone(), ended.clone()));
        tokio::spawn(news.clone().run(wakeups.clone(), ended.clone()));
        let heartbeats = WaitHeartbeats::start(pool.clone());
        let replying = Replying::default();
        tokio::spawn(replying.clone().run(pool.clone(), ended.clone()));
        let Terms { lease, turn_wait, reporters } = terms;
        let lease_ms = i32::try_from(lease.as_millis()).unwrap_or(i32::MAX);
        let reporters = reporters.into();
        let workshop = Arc::new(workshop);
        let policies = Arc::new(Policies::of(pool.clone()));
        Self {
            pool,
            replies,
            claimer,
            recent: Arc::default(),
            waker,
            wakeups,
            offers,
            model_offers,
            heartbeats,
            news,
            replying,
            lease_ms,
            turn_wait,
            reporters,
            policies,
            workshop,
        }
    }

    /// The words of a model's reply for a wait, which watchers see while they arrive.
    pub(crate) fn words(&self, held: HeldWait) -> Words {
        self.replying.words(held)
    }

    /// Leases the decision of a step, once one is offered; none when that takes too long.
    ///
    /// # Errors
    /// `run_not_found`, `run_terminal`, `driver_mismatch`, `database_unavailable`.
    pub(crate) async fn lease(&self, caller: &Caller, ask: Ask) -> Result<Leased, Fault> {
        let Ask { driver_id, selection, run_id, patience } = ask;
        if let Some(run_id) = run_id {
            let record = self.find(caller, run_id).await?;
            may_be_driven(&record)?;
        }
        let Selection { namespaces, labels } = selection;
        let scope = Scope { reached: caller.reached(), namespaces, run_id, labels };
        let deadline = Instant::now() + patience;
        loop {
            let holder = (caller.name().to_owned(), driver_id.clone());
            let next = self.offers.next(scope.clone(), holder, self.lease_ms);
            let Ok(Some(lease)) = timeout_at(deadline, next).await else {
                let Some(run_id) = run_id else { return Ok(Leased::Nothing(None)) };
                let record = self.find(caller, run_id).await?;
                may_be_driven(&record)?;
                return Ok(Leased::Nothing(Some(Box::new(record))));
            };
            let WaitLease { run_id, lease_epoch, .. } = lease;
            let identity = caller.name().to_owned();
            let untaken = Untaken::new(self, HeldLease { run_id, lease_epoch, identity });
            self.workshop.tools.refresh().await;
            // The wait may have ended since it was offered.
            match self.scene_of(lease).await {
                Ok(Some(scene)) => {
                    untaken.taken();
                    return Ok(Leased::Step(Box::new(LeasedStep { lease, scene })));
                }
                Ok(None) => {}
                Err(fault) => return Err(untaken.refused(fault).await),
            }
        }
    }

    async fn scene_of(&self, lease: WaitLease) -> Result<Option<StepScene>, Fault> {
        let Some(record) = store::find_run(&self.pool, lease.run_id).await? else {
            return Ok(None);
        };
        let waits = |wait: Option<Uuid>| wait == Some(lease.wait_id);
        let steps = record.execution.steps.iter();
        let found = { steps }.position(|step| waits(step.wait.as_deref().map(|wait| wait.id)));
        let Some(index) = found else { return Ok(None) };
        let scene = StepScene::load(&self.pool, record, index).await?;
        Ok(Some(scene.under(&lease)))
    }

    /// Extends leases. Answers for each of them what it is now; none for a lost one.
    ///
    /// # Errors
    /// `database_unavailable`.
    pub(crate) async fn extend(
        &self,
        caller: &Caller,
        leases: &[(Uuid, i64)],
    ) -> Result<Vec<Option<Extended>>, Fault> {
        let identity = || caller.name().to_owned();
        let held = leases.iter().map(|(run_id, lease_epoch)| HeldLease {
            run_id: *run_id,
            lease_epoch: *lease_epoch,
            identity: identity(),
        });
        Ok(self.heartbeats.extend(held.collect(), clock::now()).await?)
    }

    /// Ends a lease, so that another agent can take the step at once. Answers the step's state.
    ///
    /// # Errors
    /// `run_not_found`, `step_not_found`, `lease_lost`, `database_unavailable`.
    pub(crate) async fn release(
        &self,
        caller: &Caller,
        (run_id, step_id): (Uuid, &str),
        lease_epoch: i64,
    ) -> Result<StepState, Fault> {
        let mut record = self.find(caller, run_id).await?;
        let index = index_of(&record, step_id)?;
        let lease = HeldLease { run_id, lease_epoch, identity: caller.name().to_owned() };
        let mut before = None;
        loop {
            let held = store::find_lease(&self.pool, &lease, clock::now()).await?;
            let Some(held) = held else { return Err(lease_lost(step_id)) };
            let is_of = |step: &StepProgress| {
                let waits = step.wait.as_deref().map(|wait| wait.id);
                [waits, step.answered_wait].contains(&Some(held.wait_id))
            };
            if record.execution.step(index).is_some_and(is_of) {
                break;
            }
            // The row was read before the wait changed, unless it says the same of the same wait again.
            if before == Some(held.wait_id) {
                return Err(lease_of_another(step_id));
            }
            before = Some(held.wait_id);
            record = self.find(caller, run_id).await?;
        }
        if !self.end_lease(&lease).await? {
            return Err(lease_lost(step_id));
        }
        Ok(record.execution.step(index).map(|step| step.state).unwrap_or_default())
    }

    /// Ends a lease; others are offered the wait at once. Answers whether it was held.
    async fn end_lease(&self, lease: &HeldLease) -> Result<bool, Fault> {
        let released = store::release_wait(&self.pool, lease, clock::now()).await?;
        if released {
            self.waker.wake_now(Topic::Waits(lease.run_id));
            self.wakeups.wake_here(Topic::Waits(lease.run_id));
        }
        Ok(released)
    }

    /// What needs a confirmation in every run of a namespace.
    ///
    /// # Errors
    /// `namespace_not_found`, `database_unavailable`.
    pub(crate) async fn confirmed(
        &self,
        caller: &Caller,
        namespace: &str,
    ) -> Result<ConfirmPolicy, Fault> {
        caller.may(&Object::namespace(namespace), || {
            let message = format!("no namespace {namespace:?} is reached by this identity");
            Fault::new(FaultCode::NamespaceNotFound, message).with_field("namespace")
        })?;
        Ok(self.policies.find(namespace).await?.confirmed(ConfirmPolicy::default()))
    }

    /// A run that the caller reaches.
    async fn find(&self, caller: &Caller, run_id: Uuid) -> Result<RunRecord, Fault> {
        let record = store::find_run(&self.pool, run_id).await?.ok_or_else(|| not_found(run_id))?;
        caller.may(&Object::namespace(&record.spec.namespace), || not_found(run_id))?;
        Ok(record)
    }
}

/// A step whose run cannot be read is offered again after this time.
const UNREADABLE_FOR: TimeDelta = TimeDelta::seconds(60);
const UNTAKEN: &str = "waits: a lease that no driver got was not given back; it expires";

/// A lease that its participant has not got: it is given back where the run cannot be read, or the call is given up.
struct Untaken {
    participants: Participants,
    lease: Option<HeldLease>,
}

impl Untaken {
    fn new(participants: &Participants, lease: HeldLease) -> Self {
        Self { participants: participants.clone(), lease: Some(lease) }
    }

    /// The participant gets it.
    fn taken(mut self) {
        self.lease = None;
    }

    /// Gives it back. Where the run cannot be read, its wait is offered again later, so that it does not hold up the others.
    async fn refused(self, fault: Fault) -> Fault {
        if fault.reason != Reason::Service(FaultCode::DatabaseUnavailable) {
            self.put_off().await;
        }
        fault
    }

    async fn put_off(mut self) {
        let Some(lease) = self.lease.take() else { return };
        let now = clock::now();
        let until = (now, Some(now + UNREADABLE_FOR));
        if let Err(error) = store::release_until(&self.participants.pool, &lease, until).await {
            let HeldLease { run_id, lease_epoch, .. } = lease;
            tracing::warn!(%run_id, lease_epoch, %error, "{UNTAKEN}");
        }
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        // Without a runtime the process ends, and the lease expires.
        let (Some(lease), Ok(runtime)) = (self.lease.take(), Handle::try_current()) else { return };
        let participants = self.participants.clone();
        runtime.spawn(async move {
            if let Err(fault) = participants.end_lease(&lease).await {
                let HeldLease { run_id, lease_epoch, .. } = lease;
                tracing::warn!(%run_id, lease_epoch, code = %fault.reason, "{UNTAKEN}");
            }
        });
    }
}

fn not_found(run_id: Uuid) -> Fault {
    let message = format!("no run has the id {run_id}");
    Fault::new(FaultCode::RunNotFound, message).with_field("run_id")
}

fn may_be_driven(record: &RunRecord) -> Result<(), Fault> {
    if record.spec.driver != DriverKind::Remote {
        let kind = record.spec.driver.as_str();
        let message = format!("the run has the driver {kind}; LeaseStep serves runs with remote");
        return Err(Fault::new(FaultCode::DriverMismatch, message).with_field("run_id"));
    }
    if record.execution.state.is_terminal() {
        return Err(run_terminal(record));
    }
    Ok(())
}

fn run_terminal(record: &RunRecord) -> Fault {
    let state = record.execution.state.as_str();
    let message = match &record.execution.terminal {
        Some(end) => {
            let (reason, said) = (end.stop_reason.as_str(), &end.user_message);
            format!("the run already ended as {state} ({reason}), which is final: {said}")
        }
        None => format!("the run already ended as {state}, which is final"),
    };
    Fault::new(FaultCode::RunTerminal, message)
}

fn lease_lost(step_id: &str) -> Fault {
    let message = format!(
        "the lease of step {step_id:?} is not held by this caller under that lease_epoch any more; lease a \
         step again"
    );
    Fault::new(FaultCode::LeaseLost, message).with_field("fence")
}

/// A lease of this caller that is of another step of the run, or of its plan.
fn lease_of_another(step_id: &str) -> Fault {
    let message = format!(
        "the lease of that lease_epoch is not of step {step_id:?}; send the step_id that the lease was given for"
    );
    Fault::new(FaultCode::LeaseLost, message).with_field("fence.step_id")
}

fn index_of(record: &RunRecord, step_id: &str) -> Result<usize, Fault> {
    let steps = record.plan.as_deref().map_or(&[][..], |plan| &plan.steps);
    steps.iter().position(|step| step.id == step_id).ok_or_else(|| {
        let message = format!("the plan of the run has no step {step_id:?}");
        Fault::new(FaultCode::StepNotFound, message).with_field("fence.step_id")
    })
}
