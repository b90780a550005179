//! The planner of runs whose plans a model of this service makes: a participant like an agent outside, over the
//! same functions.
//!
//! ```text
//!   lease a plan --> prompt --> ask the model --a text--> submit: a plan, a patch, or a counted refusal
//!        ^                         +--no answer--> the run waits on `model`, offered again later
//!        +-- lease lost, drained: the connection is closed, another process takes the plan
//! ```

mod ask;
mod prompt;

pub(crate) use prompt::Prompts;

use crate::intake::leases;
use crate::planner::Planner;
use crate::service::submit_planned;
use crate::shards::Shards;
use ask::{Answer, ask};
use chrono::TimeDelta;
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::execution::Graph;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::fault::Fault;
use surety_common::domain::model::AwayEndpoint;
use surety_common::domain::run::RunRecord;
use surety_common::store::{self, Commit, HeldLease, Outcome, Scope, Topic, WaitLease};
use surety_common::telemetry::trace;
use surety_model::Endpoints;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// The identity of the service's own models. No token can have a name with this first character.
pub(crate) const MODEL_NAME: &str = "~model";
/// How long the loop waits for a lease before it looks whether it is to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause after an error of the database.
const AFTER_ERROR: Duration = Duration::from_millis(500);
/// How often a lease is extended, and its loss is noticed.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// The shortest and the longest time until an endpoint that does not answer is asked again for one wait.
const SHORTEST_PAUSE: TimeDelta = TimeDelta::milliseconds(500);
const LONGEST_PAUSE: TimeDelta = TimeDelta::seconds(30);

/// What the loop works with.
pub(crate) struct PlanLoop {
    /// The planners of all databases.
    pub(crate) shards: Arc<Shards>,
    /// The models.
    pub(crate) endpoints: Endpoints,
    /// The prompts.
    pub(crate) prompts: Prompts,
    /// How many plans the models make at a time.
    pub(crate) turns: usize,
    /// How long a run waits for an endpoint that does not answer.
    pub(crate) model_wait: Duration,
    /// For how long calls under way go on once the process drains.
    pub(crate) grace: Duration,
}

/// A leased plan.
struct Leased {
    planner: Arc<Planner>,
    lease: WaitLease,
    record: RunRecord,
}

impl Leased {
    fn held(&self) -> HeldLease {
        let WaitLease { run_id, lease_epoch, .. } = self.lease;
        HeldLease { run_id, lease_epoch, identity: MODEL_NAME.to_owned() }
    }
}

impl PlanLoop {
    /// Leases plans and makes them until `drain`; then waits for the calls under way.
    pub(crate) async fn run(self, drain: CancellationToken) {
        let plans = Arc::new(self);
        let places = Arc::new(Semaphore::new(plans.turns));
        let tasks = TaskTracker::new();
        while !drain.is_cancelled() {
            let place = tokio::select! {
                () = drain.cancelled() => break,
                place = Arc::clone(&places).acquire_owned() => place,
            };
            // The semaphore is never closed.
            let Ok(place) = place else { break };
            let leased = tokio::select! {
                leased = plans.lease() => leased,
                () = ends(&drain) => break,
            };
            match leased {
                Ok(Some(leased)) => {
                    let (plans, drain) = (Arc::clone(&plans), drain.clone());
                    tasks.spawn(async move {
                        plans.plan(leased, &drain).await;
                        drop(place);
                    });
                }
                Ok(None) => {}
                Err(fault) => {
                    tracing::warn!(%fault, "model: no plan could be leased; retrying");
                    sleep(AFTER_ERROR).await;
                }
            }
        }
        tasks.close();
        tasks.wait().await;
    }

    async fn lease(&self) -> Result<Option<Leased>, Fault> {
        let ask = leases::Ask {
            holder: (MODEL_NAME.to_owned(), "planner".to_owned()),
            scope: Scope { reached: Vec::new(), namespace: String::new(), run_id: None },
            patience: PATIENCE,
        };
        let leased = leases::lease_from(&self.shards, ask, |planner| &planner.model_offers).await?;
        Ok(leased.map(|(planner, lease, record)| Leased { planner, lease, record }))
    }

    /// Makes one plan, and submits it.
    async fn plan(&self, leased: Leased, drain: &CancellationToken) {
        let run_id = leased.lease.run_id;
        let cancel = CancellationToken::new();
        let out_of_time = async {
            drain.cancelled().await;
            sleep(self.grace).await;
        };
        let done = tokio::select! {
            answer = ask((&self.endpoints, &self.prompts), &leased.planner, &leased.record, &cancel) => {
                self.take(&leased, answer).await
            }
            // The connection is closed with the future.
            () = lost(&leased) => return,
            () = out_of_time => give_back(&leased).await,
        };
        match done {
            Ok(()) => {}
            Err(fault) => {
                // The lease is over in most cases: a person submitted a plan, or the run ended.
                tracing::info!(%run_id, %fault, "model: a plan was not taken; it is offered again where it is still needed");
                if let Err(fault) = give_back(&leased).await {
                    tracing::debug!(%run_id, %fault, "model: the lease of a plan is over");
                }
            }
        }
    }

    async fn take(&self, leased: &Leased, answer: Result<Answer, Fault>) -> Result<(), Fault> {
        match answer? {
            Answer::Said(planned) => {
                let Leased { planner, lease, record } = leased;
                submit_planned(planner, MODEL_NAME, (record, lease.lease_epoch), planned).await
            }
            Answer::NoTools => {
                let now = leased.planner.now();
                let times = (now, Some(now + SHORTEST_PAUSE));
                store::release_until(&leased.planner.pool, &leased.held(), times).await?;
                Ok(())
            }
            Answer::Away { endpoint, why } => self.away(leased, endpoint, why).await,
        }
    }

    /// Makes the run wait for the endpoint. One that does already is offered again later.
    async fn away(&self, leased: &Leased, endpoint: String, why: String) -> Result<(), Fault> {
        let Leased { planner, lease, record } = leased;
        let now = planner.now();
        let wait = record.execution.own_wait().filter(|wait| wait.id == lease.wait_id);
        let before = wait.and_then(|wait| wait.model.as_deref()?.away.as_ref());
        let since = before.map_or(now, |away| away.since);
        let retry_at = now + ((now - since) / 4).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        if before.is_some() {
            store::release_until(&planner.pool, &leased.held(), (now, Some(retry_at))).await?;
            return Ok(());
        }
        let model_wait = TimeDelta::from_std(self.model_wait).unwrap_or(TimeDelta::MAX);
        let until = since.checked_add_signed(model_wait).unwrap_or(now);
        let away = AwayEndpoint { endpoint, why, since, until, retry_at };
        let run_id = lease.run_id;
        let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
        let mut draft =
            Draft::new(record.execution.clone(), planner.actor_for(MODEL_NAME), planner.now());
        let ids = (lease.wait_id, lease.lease_epoch);
        if draft.model_away(&graph, ids, Uuid::now_v7(), away).is_err() {
            return Ok(());
        }
        let span = trace::plan_span("planner", &run_id.to_string(), &record.spec.trace_parent);
        let span_id = trace::span_id(&span);
        let commit =
            Commit::new(draft.into_write(), span, span_id).notify_on_commit(Topic::Moved(run_id));
        match planner.committer.commit(commit).await? {
            Outcome::Applied => Ok(()),
            // Another writer was first: the wait is offered again as it is now.
            Outcome::Lost => give_back(leased).await,
        }
    }
}

/// Completes a while after the process begins to drain: the offers have ended by then.
async fn ends(drain: &CancellationToken) {
    drain.cancelled().await;
    sleep(AFTER_ERROR).await;
}

/// Completes when the lease is lost.
async fn lost(leased: &Leased) {
    loop {
        sleep(HEARTBEAT).await;
        match leases::extend(&leased.planner, leased.held()).await {
            Ok(Some(_)) => {}
            Ok(None) => return,
            // The lease goes on until it expires; then the next heartbeat says so.
            Err(fault) => {
                tracing::debug!(%fault, run_id = %leased.lease.run_id, "model: a heartbeat could not be stored");
            }
        }
    }
}

async fn give_back(leased: &Leased) -> Result<(), Fault> {
    leases::release(&leased.planner, &leased.held()).await
}
