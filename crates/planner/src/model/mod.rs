//! The planner of runs whose plans a model of this service makes: a participant like an agent outside, over the
//! same functions. The loop is that of [`surety_model::serve`]; here is what it leases, and what becomes of a text:
//! a plan, a patch, or a counted refusal.

mod prompt;
mod scene;
mod schema;

pub(crate) use prompt::Prompts;

use crate::intake::leases;
use crate::planner::Planner;
use crate::service::submit_planned;
use crate::shards::Shards;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use surety_common::domain::decision::Usage;
use surety_common::domain::execution::Graph;
use surety_common::domain::execution::budget::ReplyNeed;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::limits::Limits;
use surety_common::domain::machine::Refusal;
use surety_common::domain::model::MODEL_NAME;
use surety_common::domain::run::RunRecord;
use surety_common::store::{
    self, Commit, HeldLease, Outcome, ProgressReport, Scope, Topic, WaitLease,
};
use surety_common::telemetry::trace;
use surety_model::{
    Answer, Away, Draining, Endpoints, Held, ModelUse, Question, ReplyPart, Reserved, Shown,
    Spoken, Supplier, Waiting, ask, retry_at, serve, waits_for,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often a lease is extended, and its loss is noticed.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How often the words of a plan are stored while they arrive.
const TOLD_EVERY: Duration = Duration::from_millis(500);
/// The keys of a plan or a patch that hold words.
const WORDS: Shown = Shown::All(&["\"title\"", "\"description\"", "\"reason\""]);

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
pub(crate) struct Leased {
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

impl Supplier for PlanLoop {
    type Leased = Leased;

    async fn lease(&self, patience: Duration) -> Result<Option<Leased>, Fault> {
        let wanted = leases::Ask {
            holder: (MODEL_NAME.to_owned(), "planner".to_owned()),
            scope: Scope::default(),
            patience,
        };
        let leased =
            leases::lease_from(&self.shards, wanted, |planner| &planner.model_offers).await?;
        Ok(leased.map(|(planner, lease, record)| Leased { planner, lease, record }))
    }

    /// Makes one plan, and submits it.
    async fn work(&self, leased: Leased, drain: &Draining) {
        let run_id = leased.lease.run_id;
        let done = match drain.while_held(self.ask(&leased), lost(&leased)).await {
            Held::Done(answer) => self.take(&leased, answer).await,
            Held::Lost => return,
            Held::OutOfTime => give_back(&leased).await,
        };
        if let Err(fault) = done {
            // The lease is over in most cases: a person submitted a plan, or the run ended.
            tracing::info!(%run_id, %fault, "model: a plan was not taken; it is offered again where it is still needed");
            if let Err(fault) = give_back(&leased).await {
                tracing::debug!(%run_id, %fault, "model: the lease of a plan is over");
            }
        }
    }
}

impl PlanLoop {
    /// Leases plans and makes them until `drain`; then waits for the calls under way.
    pub(crate) async fn run(self, drain: CancellationToken) {
        let (turns, draining) = (self.turns, Draining { begun: drain, grace: self.grace });
        serve(self, turns, draining).await;
    }

    /// Asks the model for a plan, or a patch of one.
    async fn ask(&self, leased: &Leased) -> Result<Next, Fault> {
        let Leased { planner, record, .. } = leased;
        let planning = record.execution.planning();
        let used_for = if planning.refused.is_some() { ModelUse::Retry } else { ModelUse::Plan };
        let model = self
            .endpoints
            .for_use(used_for)
            .map_err(|error| Fault::new(FaultCode::Internal, error.to_string()))?;
        let prompt = self.prompts.of(record.plan.is_some());
        let Some(messages) = scene::conversation(planner, record, prompt).await? else {
            return Ok(Next::NoTools);
        };
        let form = schema::schema(record.plan.is_some());
        let reserved = reserved(record);
        let mut question = Question {
            service: "planner",
            spec: &record.spec,
            prompt,
            messages: &messages,
            schema: Some(&form),
            reserved,
        };
        let words = Mutex::new(Spoken::new(WORDS));
        let mut arrives = |part: ReplyPart<'_>| {
            words.lock().unwrap_or_else(PoisonError::into_inner).take(part);
        };
        let cancel = CancellationToken::new();
        loop {
            let answer = tokio::select! {
                answer = ask(&*model, &question, &mut arrives, &cancel) => answer,
                () = tell(&words, leased) => return Ok(Next::Nothing),
            };
            match answer {
                Answer::Short(need) => {
                    let Some(part) = self.reserve(leased, need).await? else {
                        return Ok(Next::Nothing);
                    };
                    question.reserved = reserved.raised(part);
                }
                answer
                @ (Answer::Said(_) | Answer::Away(_) | Answer::Busy | Answer::TooLong(_)) => {
                    return Ok(Next::Answer(answer));
                }
            }
        }
    }

    async fn take(&self, leased: &Leased, next: Result<Next, Fault>) -> Result<(), Fault> {
        match next? {
            Next::Answer(Answer::Said(said)) => {
                let Leased { planner, lease, record } = leased;
                submit_planned(planner, MODEL_NAME, (record, lease.lease_epoch), said).await
            }
            Next::Answer(Answer::Away(away)) => self.away(leased, away).await,
            Next::Answer(Answer::TooLong(too_long)) => {
                let (lease, used) = (&leased.lease, too_long.used);
                let end = (too_long.abort(), used);
                let ids = (lease.wait_id, lease.lease_epoch);
                let change =
                    |graph: &Graph, draft: &mut Draft| draft.model_gives_up(graph, ids, end);
                change_held(leased, change).await.map(drop)
            }
            // A reservation was answered before: here it is none.
            Next::Answer(Answer::Busy | Answer::Short(_)) | Next::NoTools => {
                let now = leased.planner.now();
                let times = (now, Some(retry_at(now, now)));
                store::release_until(&leased.planner.pool, &leased.held(), times).await?;
                Ok(())
            }
            Next::Nothing => Ok(()),
        }
    }

    /// Reserves what the reply needs. None where the run has too little, and waits for a budget or ended.
    async fn reserve(&self, leased: &Leased, need: ReplyNeed) -> Result<Option<Usage>, Fault> {
        let Leased { lease, record, .. } = leased;
        let ids = (lease.wait_id, lease.lease_epoch, Uuid::now_v7());
        let terms = (&record.spec.limits, record.spec.policy.on_budget);
        let change =
            |graph: &Graph, draft: &mut Draft| draft.reserve_for_reply(graph, terms, ids, need);
        Ok(change_held(leased, change).await?.flatten())
    }

    /// Makes the run wait for the endpoint. One that does already is offered again later; it changes where that is news,
    /// or has a charge.
    async fn away(&self, leased: &Leased, away: Away) -> Result<(), Fault> {
        let Leased { planner, lease, record } = leased;
        let now = planner.now();
        let wait = record.execution.own_wait().filter(|wait| wait.id == lease.wait_id);
        let before = wait.and_then(|wait| wait.model.as_deref()?.away.as_ref());
        let Waiting { away, is_news, used } = waits_for(away, before, self.model_wait, now);
        if !is_news && used.is_zero() {
            let times = (now, Some(away.retry_at));
            store::release_until(&planner.pool, &leased.held(), times).await?;
            return Ok(());
        }
        let ids = (lease.wait_id, lease.lease_epoch);
        let change = |graph: &Graph, draft: &mut Draft| {
            draft.model_away(graph, ids, Uuid::now_v7(), (away, used))
        };
        change_held(leased, change).await.map(drop)
    }
}

/// Changes the run of a leased plan; none where its wait has ended. Where another writer was first, the wait is offered
/// again as it is now.
async fn change_held<T>(
    leased: &Leased,
    change: impl FnOnce(&Graph, &mut Draft) -> Result<T, Refusal>,
) -> Result<Option<T>, Fault> {
    let Leased { planner, lease, record } = leased;
    let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
    // It may have been changed under this lease before: more was reserved for it.
    let execution = planner.find(lease.run_id).await?.execution;
    let actor = planner.actor_for(MODEL_NAME);
    let mut draft = Draft::new(execution.clone(), actor, planner.now());
    let Ok(done) = change(&graph, &mut draft) else { return Ok(None) };
    if *draft.execution() == execution {
        return Ok(Some(done));
    }
    let span = trace::plan_span("planner", &lease.run_id.to_string(), &record.spec.trace_parent);
    let span_id = trace::span_id(&span);
    let commit =
        Commit::new(draft.into_write(), span, span_id).notify_on_commit(Topic::Moved(lease.run_id));
    match planner.committer.commit(commit).await? {
        Outcome::Applied => Ok(Some(done)),
        Outcome::Lost => {
            give_back(leased).await?;
            Ok(None)
        }
    }
}

/// What follows from asking a model.
enum Next {
    /// It answered.
    Answer(Answer),
    /// No executor has stored its tools, so there is nothing to plan with.
    NoTools,
    /// The wait was left.
    Nothing,
}

/// Stores the words of a plan while they arrive, for people who watch the run. It has no end of its own.
async fn tell(words: &Mutex<Spoken>, leased: &Leased) {
    let Leased { planner, lease, .. } = leased;
    loop {
        sleep(TOLD_EVERY).await;
        let Some(message) = words.lock().unwrap_or_else(PoisonError::into_inner).news() else {
            continue;
        };
        let WaitLease { run_id, wait_id, lease_epoch, .. } = *lease;
        let report = ProgressReport { run_id, wait_id, lease_epoch, message, percent: None };
        if let Err(error) = store::report_progress(&planner.pool, &[report]).await {
            tracing::debug!(%error, %run_id, "model: words could not be stored; later ones follow");
        }
    }
}

/// What the budgets of a run have reserved for its plan.
fn reserved(record: &RunRecord) -> Reserved {
    let Limits { token_budget, cost_budget_micros, .. } = record.spec.limits;
    let part = record.execution.planning().reserved;
    Reserved {
        tokens: token_budget.map(|_| part.tokens),
        cost_micros: cost_budget_micros.map(|_| part.cost_micros),
        is_most: false,
    }
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
