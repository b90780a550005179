//! The models of this service as participants: they lease and submit like agents outside, under a name that no token
//! can have. Waits for an endpoint that does not answer are theirs alone.

use super::held_wait::HeldWait;
use super::{LeasedStep, Participants, Untaken};
use chrono::{DateTime, Utc};
use std::time::Duration;
use surety_common::clock;
use surety_common::domain::decision::{Abort, Usage};
use surety_common::domain::execution::Graph;
use surety_common::domain::execution::budget::ReplyNeed;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::fault::Fault;
use surety_common::domain::journal::Actor;
use surety_common::domain::machine::Refusal;
use surety_common::domain::model::MODEL_NAME;
use surety_common::domain::run::RunRecord;
use surety_common::store::{self, Commit, HeldLease, Outcome, Scope, Topic, WaitLease};
use surety_common::telemetry::trace;
use surety_model::Waiting;
use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

impl Participants {
    /// Leases the next decision that a model of the service supplies; none when that takes too long.
    ///
    /// # Errors
    /// `database_unavailable`.
    pub(crate) async fn lease_for_model(
        &self,
        patience: Duration,
    ) -> Result<Option<LeasedStep>, Fault> {
        let holder = (MODEL_NAME.to_owned(), format!("executor/{}", self.claimer.engine().id));
        let next = self.model_offers.next(Scope::default(), holder, self.lease_ms);
        let Ok(Some(lease)) = timeout_at(Instant::now() + patience, next).await else {
            return Ok(None);
        };
        let WaitLease { run_id, lease_epoch, .. } = lease;
        let identity = MODEL_NAME.to_owned();
        let untaken = Untaken::new(self, HeldLease { run_id, lease_epoch, identity });
        self.workshop.tools.refresh().await;
        // The wait may have ended since it was offered.
        let scene = match self.scene_of(lease).await {
            Ok(scene) => scene,
            Err(fault) => return Err(untaken.refused(fault).await),
        };
        if scene.is_some() {
            untaken.taken();
        }
        Ok(scene.map(|scene| LeasedStep { lease, scene }))
    }

    /// Completes when a model does not hold its lease any more. Dropping it changes nothing.
    pub(crate) async fn lease_lost(&self, held: HeldWait) {
        let follower = self.news.follow(held.run_id);
        let beat = Duration::from_millis(u64::from(self.lease_ms.unsigned_abs()) / 3);
        loop {
            tokio::select! {
                () = follower.changed() => {}
                () = sleep(beat) => {}
            }
            let extended = self.heartbeats.extend(vec![held.lease()], clock::now()).await;
            match extended.map(|leases| leases.into_iter().next().flatten()) {
                Ok(Some(_)) => {}
                Ok(None) => return,
                // The lease goes on until it expires; then the next heartbeat says so.
                Err(error) => {
                    tracing::debug!(%error, run_id = %held.run_id, "model: a heartbeat could not be stored");
                }
            }
        }
    }

    /// Gives a lease of a model back. The wait is offered again, from `retry_at` on where that is given.
    ///
    /// # Errors
    /// `database_unavailable`.
    pub(crate) async fn give_back(
        &self,
        held: HeldWait,
        retry_at: Option<DateTime<Utc>>,
    ) -> Result<(), Fault> {
        store::release_until(&self.pool, &held.lease(), (clock::now(), retry_at)).await?;
        self.waker.wake_now(Topic::Waits(held.run_id));
        self.wakeups.wake_here(Topic::Waits(held.run_id));
        Ok(())
    }

    /// Makes the wait of a leased decision wait for the model's endpoint, which does not answer. A wait that does
    /// already is offered again at its `retry_at`; it changes where that is news, or has a charge.
    ///
    /// # Errors
    /// `database_unavailable`.
    pub(crate) async fn model_away(
        &self,
        held: HeldWait,
        Waiting { away, is_news, used }: Waiting,
    ) -> Result<(), Fault> {
        let (next, retry_at) = (Uuid::now_v7(), away.retry_at);
        let change = |record: &RunRecord, draft: &mut Draft| {
            let wait = record.execution.waits().find(|wait| wait.id == held.wait_id);
            let model = wait.and_then(|wait| wait.model.as_deref());
            if model.is_none() || !is_news && used.is_zero() {
                return Ok(());
            }
            let ids = (held.wait_id, held.lease_epoch);
            draft.model_away(&graph_of(record), ids, next, (away.clone(), used))
        };
        match self.change_held(held, change).await? {
            Changed::Stored(()) | Changed::Over => Ok(()),
            Changed::Nothing(()) => self.give_back(held, Some(retry_at)).await,
        }
    }

    /// Ends the run of a leased decision, which no model can make.
    ///
    /// # Errors
    /// `database_unavailable`.
    pub(crate) async fn model_gives_up(
        &self,
        held: HeldWait,
        (abort, used): (Abort, Usage),
    ) -> Result<(), Fault> {
        let ids = (held.wait_id, held.lease_epoch);
        let change = |record: &RunRecord, draft: &mut Draft| {
            draft.model_gives_up(&graph_of(record), ids, (abort.clone(), used))
        };
        self.change_held(held, change).await.map(drop)
    }

    /// Reserves what a leased decision needs. None where the run has too little, and waits for a budget or ended.
    ///
    /// # Errors
    /// `database_unavailable`.
    pub(crate) async fn reserve_for_reply(
        &self,
        held: HeldWait,
        need: ReplyNeed,
    ) -> Result<Option<Usage>, Fault> {
        let ids = (held.wait_id, held.lease_epoch, Uuid::now_v7());
        let change = |record: &RunRecord, draft: &mut Draft| {
            let terms = (&record.spec.limits, record.spec.policy.on_budget);
            draft.reserve_for_reply(&graph_of(record), terms, ids, need)
        };
        match self.change_held(held, change).await? {
            Changed::Stored(part) | Changed::Nothing(part) => Ok(part),
            Changed::Over => Ok(None),
        }
    }

    /// Changes the run of a leased decision, again where another writer was first.
    async fn change_held<T>(
        &self,
        held: HeldWait,
        change: impl Fn(&RunRecord, &mut Draft) -> Result<T, Refusal>,
    ) -> Result<Changed<T>, Fault> {
        let by = Actor(format!("driver/{MODEL_NAME}").into());
        loop {
            let Some(record) = store::find_run(&self.pool, held.run_id).await? else {
                return Ok(Changed::Over);
            };
            if !record.execution.waits().any(|wait| wait.id == held.wait_id) {
                return Ok(Changed::Over);
            }
            let span =
                trace::work_span("executor", &held.run_id.to_string(), &record.spec.trace_parent);
            let version = record.execution.version;
            let mut draft = Draft::new(record.execution.clone(), by.clone(), clock::now());
            let Ok(done) = change(&record, &mut draft) else { return Ok(Changed::Over) };
            if *draft.execution() == record.execution {
                return Ok(Changed::Nothing(done));
            }
            let span_id = trace::span_id(&span);
            let topic = Topic::Moved(held.run_id);
            let commit = Commit::new(draft.into_write(), span, span_id).notify_on_commit(topic);
            if self.replies.store(commit).await? == Outcome::Applied {
                return Ok(Changed::Stored(done));
            }
            // Refused without another writer: the lease is lost.
            let after = store::find_run(&self.pool, held.run_id).await?;
            if after.is_none_or(|after| after.execution.version == version) {
                return Ok(Changed::Over);
            }
        }
    }
}

/// What became of a change of a leased wait.
enum Changed<T> {
    /// It is stored.
    Stored(T),
    /// There was nothing to change.
    Nothing(T),
    /// The wait or the lease has ended.
    Over,
}

fn graph_of(record: &RunRecord) -> Graph {
    record.plan.as_deref().map(Graph::of).unwrap_or_default()
}
