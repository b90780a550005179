//! A planner with its database.

use crate::task::{Circuits, EscalationPort, TaskRules};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::sync::Arc;
use surety_common::clock;
use surety_common::domain::execution::draft::Write;
use surety_common::domain::execution::wait_rows::WaitKind;
use surety_common::domain::journal::Actor;
use surety_common::store::{
    Committer, Creator, Journals, Listener, Observer, Offers, Policies, Signing, Topic,
    TrustSource, WaitHeartbeats, Waker, Wakeups,
};
use surety_common::telemetry;
use tokio_util::sync::CancellationToken;

/// The planner of one database: the state that its handlers share.
pub struct Planner {
    /// The shard index of the database.
    pub(crate) shard_index: usize,
    /// The database's name in messages.
    pub(crate) whose: String,
    /// Names the machine on which workspace paths hold.
    pub(crate) host_label: String,
    pub(crate) pool: PgPool,
    pub(crate) committer: Committer,
    pub(crate) creator: Creator,
    pub(crate) journals: Journals,
    pub(crate) waker: Waker,
    pub(crate) wakeups: Wakeups,
    pub(crate) policies: Policies,
    /// The runs that need a plan, for planning agents.
    pub(crate) offers: Offers,
    /// The runs whose plan a model of the service makes.
    pub(crate) model_offers: Offers,
    pub(crate) heartbeats: WaitHeartbeats,
    /// The rules for tasks.
    pub(crate) rules: Arc<TaskRules>,
    /// Writes on forges.
    pub(crate) escalations: Arc<dyn EscalationPort>,
    /// Which forges answer deliveries in time.
    pub(crate) circuits: Circuits,
    pub(crate) shutdown: CancellationToken,
    pub(crate) keys: Keys,
}

/// What a planner signs with, and what it trusts.
#[derive(Clone, Default)]
pub(crate) struct Keys {
    /// Signs runs, plans, approvals and answers.
    pub(crate) signing: Signing,
    /// The keys whose signatures count; none where no file names them.
    pub(crate) trust: Option<Arc<dyn TrustSource>>,
}

/// Which database a planner serves, and from where.
#[derive(Clone)]
pub(crate) struct ShardIdentity {
    /// The shard index of the database.
    pub(crate) shard_index: usize,
    /// The database's name in messages.
    pub(crate) whose: String,
    /// Names the machine on which workspace paths hold.
    pub(crate) host_label: String,
}

/// What the operator configured about tasks.
#[derive(Clone)]
pub(crate) struct TaskSetup {
    /// The rules.
    pub(crate) rules: Arc<TaskRules>,
    /// Writes on forges.
    pub(crate) escalations: Arc<dyn EscalationPort>,
}

impl Planner {
    pub(crate) fn start(
        pool: PgPool,
        shard: ShardIdentity,
        tasks: TaskSetup,
        keys: Keys,
        shutdown: CancellationToken,
    ) -> Self {
        let ShardIdentity { shard_index, whose, host_label } = shard;
        let TaskSetup { rules, escalations } = tasks;
        let signing = keys.signing.clone();
        let waker = Waker::start(pool.clone());
        let observer: Observer = Arc::new({
            let waker = waker.clone();
            move |write, span| observe(&waker, write, span)
        });
        let wakeups = Wakeups::start(pool.clone(), Listener::Follower);
        let offers = Offers::of(WaitKind::Plan, pool.clone(), shard_index);
        tokio::spawn(offers.clone().run(wakeups.clone(), shutdown.clone()));
        let model_offers = Offers::of(WaitKind::ModelPlan, pool.clone(), shard_index);
        tokio::spawn(model_offers.clone().run(wakeups.clone(), shutdown.clone()));
        Self {
            offers,
            model_offers,
            heartbeats: WaitHeartbeats::start(pool.clone()),
            shard_index,
            whose,
            host_label,
            rules,
            escalations,
            circuits: Circuits::default(),
            committer: Committer::start(pool.clone(), waker.clone(), observer, signing.clone()),
            creator: Creator::start(pool.clone(), waker.clone(), signing),
            keys,
            journals: Journals::start(pool.clone()),
            policies: Policies::of(pool.clone()),
            waker,
            wakeups,
            pool,
            shutdown,
        }
    }

    /// The planner, moving a run by itself.
    pub(crate) fn actor(&self) -> Actor {
        Actor("planner".into())
    }

    /// The planner, moving a run because an identity asked for it.
    pub(crate) fn actor_for(&self, identity: &str) -> Actor {
        Actor(format!("planner/{identity}").into())
    }

    /// The current time, the planner's only clock.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        clock::now_at(self.shard_index)
    }
}

#[cfg(test)]
impl TaskSetup {
    /// The default rules, and no forge.
    pub(crate) fn for_tests() -> Self {
        let rules = TaskRules::load(surety_common::config::ToolchainConfig::default()).unwrap();
        Self { rules: Arc::new(rules), escalations: Arc::new(crate::task::NoForge) }
    }
}

/// Passes a stored change on: to the telemetry, and to participants whose waits it opened, ended, or offers again.
pub(crate) fn observe(waker: &Waker, write: &Write, span: &tracing::Span) {
    telemetry::observe(write, span);
    if !write.waits.is_empty() {
        waker.wake_now(Topic::Waits(write.execution.run_id));
    }
}
