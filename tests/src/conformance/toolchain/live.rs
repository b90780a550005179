//! Rows whose outcome is what services store: the tasks of deliveries, once for each delivery id, and their store.

use super::event::recorded_like;
use super::{same, text};
use crate::agent::{AGENT, PERSON};
use crate::toolchain::delivery::{Answer, OLD, SECRETS, Sent, exchange, new_id};
use crate::toolchain::{LOGIN, OnForge, issue};
use anyhow::{Context, Error, Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Value, json};
use sqlx::PgPool;
use std::collections::BTreeSet;
use surety_common::domain::toolchain::{ActionType, Forge};
use surety_common::wire::v1;
use tokio::sync::OnceCell;
use uuid::Uuid;

/// The most deliveries that are on their way at the same time.
const AT_ONCE: usize = 100;
/// An agent that a model drives, and its account. No model answers.
pub(super) const ROBOT: &str = "robot";
/// The only agent with the role of a reviewer. It has no account.
pub(super) const REVIEWER: &str = "reviewer";
/// How long a run waits for the model, in seconds.
const MODEL_WAIT_S: &str = "2";
/// No service listens there.
const NO_MODEL: &str = "http://127.0.0.1:1/v1";

/// All rows of the store of mail.
const MAIL_STORE: &str = "select coalesce(string_agg(line, e'\\n' order by line), '') from (
    select 'mail ' || mail::text from mail
    union all select 'run ' || id from run where namespace = '_mail'
    union all select 'task ' || run_id from task where namespace = '_mail'
) as store (line)";

/// The services of these rows. The first row that needs them starts them.
#[derive(Default)]
pub struct Live {
    started: OnceCell<OnForge>,
}

impl Live {
    /// Audits the runs of the rows, and drops their database.
    ///
    /// # Errors
    /// The first violation.
    pub async fn finish(self) -> Result<()> {
        match self.started.into_inner() {
            Some(on) => on.stage.deployment.finish().await,
            None => Ok(()),
        }
    }

    pub(super) async fn services(&self) -> Result<&OnForge> {
        self.started.get_or_try_init(start).await.context("the services of the rows")
    }
}

async fn start() -> Result<OnForge> {
    let model = [
        ("SURETY_MODEL_URL", NO_MODEL),
        ("SURETY_MODEL_NAME", "none"),
        ("SURETY_MODEL_WAIT_S", MODEL_WAIT_S),
    ];
    let on = OnForge::start_with(&[&SECRETS[..], &model].concat()).await?;
    on.stage.put_hook(Forge::Gitea).await?;
    on.stage.put_driven(ROBOT, &[("gitea", ROBOT)], (&[], "model")).await?;
    on.stage.put(REVIEWER, &[], &["reviewer"]).await?;
    // An empty store could not show that its rows stay.
    let mail = v1::SendMailRequest {
        to: AGENT.to_owned(),
        subject: "The build moved".to_owned(),
        ..v1::SendMailRequest::default()
    };
    let sent = on.stage.tasks(PERSON)?.send_mail(mail).await?.into_inner().mail;
    on.stage.deployment.wait_for(&sent.context("no message")?.id, "made", |_| true).await?;
    Ok(on)
}

fn agree<T: Into<Value>>(what: &str, expected: &Value, found: T) -> Result<()> {
    same(what, expected, found).map_err(Error::msg)
}

/// A repository that no other row has, and that no forge is configured for.
fn own_repository() -> String {
    format!("rows/{}", Uuid::now_v7().simple())
}

/// The payload of a delivery as of another repository.
fn in_repository(mut payload: Value, name: &str) -> Value {
    for place in ["/repository/full_name", "/run/repository/full_name"] {
        if let Some(found) = payload.pointer_mut(place) {
            *found = json!(name);
        }
    }
    payload
}

/// Delivers several events at the same time, and the same deliveries again. Each event is one task; the id of a delivery
/// decides whether it is a repetition.
pub(super) async fn send(live: &Live, given: &Value, expect: &Value) -> Result<()> {
    let on = live.services().await?;
    let count = given["count_same_ms"].as_u64().context("the row states no number")?;
    ensure!(count > 0, "the row delivers nothing");
    let repository = own_repository();
    let body = |number: u64| in_repository(issue(number, LOGIN), &repository);
    let sent =
        |id: &str, number: u64| Sent::gitea(id, "issues", body(number).to_string().as_bytes(), OLD);
    let deliveries: Vec<(String, u64)> = (1..=count).map(|number| (new_id(), number)).collect();
    let all: Vec<_> = deliveries.iter().map(|(id, number)| sent(id, *number)).collect();
    let mut runs = Vec::new();
    for answer in send_all(on, &all).await? {
        ensure!(answer.status == 202 && answer.body["state"] == "stored", "{answer:?}");
        runs.push(run_of(on, answer.body["delivery"].as_str().context("no id")?).await?);
    }
    let ids: BTreeSet<Uuid> = runs.iter().copied().collect();
    ensure!(ids.len() == all.len(), "one run has several deliveries: {runs:?}");
    let versions: BTreeSet<usize> = ids.iter().map(Uuid::get_version_num).collect();
    let versions: Vec<String> = versions.iter().map(|version| format!("UUIDv{version}")).collect();
    agree("ids", &expect["ids"], versions.join(", "))?;

    for answer in send_all(on, &all).await? {
        ensure!(answer.status == 202 && answer.body["state"] == "repeated", "{answer:?}");
    }
    let (first, _) = deliveries.first().context("no delivery")?;
    let changed = send_all(on, &[sent(first, count + 1)]).await?;
    let by_id = changed.iter().all(|answer| answer.body["state"] == "repeated");
    for ((_, number), run_id) in deliveries.iter().zip(&runs) {
        let again = on.stage.submit("issues", &body(*number)).await?;
        let [task] = again.tasks.as_slice() else { anyhow::bail!("{again:#?}") };
        let is_known = task.result == "existed" && task.run_id == run_id.to_string();
        ensure!(is_known, "the run was {run_id}: {task:#?}");
    }
    let pool = on.stage.deployment.database.pool().await?;
    let stored = sqlx::query_scalar("select run_id from task where repo = $1");
    let stored: Vec<Uuid> = stored.bind(&repository).fetch_all(&pool).await?;
    pool.close().await;
    ensure!(stored.iter().copied().collect::<BTreeSet<_>>() == ids, "{stored:?} are not {ids:?}");
    let found = if by_id { "by webhook delivery id" } else { "by content" };
    agree("idempotency", &expect["idempotency"], found)
}

/// The answers to deliveries that are sent at the same time, in their order.
async fn send_all(on: &OnForge, all: &[Sent<'_>]) -> Result<Vec<Answer>> {
    let address = on.stage.deployment.planner.address();
    let sending = all.iter().map(|sent| async move { exchange(address, &sent.to_bytes()).await });
    stream::iter(sending).buffered(AT_ONCE).try_collect().await
}

/// The run of the one task that a stored delivery became.
async fn run_of(on: &OnForge, delivery_id: &str) -> Result<Uuid> {
    let delivery = on.stage.delivery(delivery_id).await?;
    let [run_id] = delivery.run_ids.as_slice() else { anyhow::bail!("{delivery:#?}") };
    let task = on.stage.task(run_id).await?;
    ensure!(task.assignee == AGENT && task.outcome.is_empty(), "{task:#?}");
    Ok(run_id.parse()?)
}

/// Submits an event, and reads in which store its task is and what the store of mail has then.
pub(super) async fn isolation(live: &Live, given: &Value, expect: &Value) -> Result<()> {
    let on = live.services().await?;
    let pool = on.stage.deployment.database.pool().await?;
    let before = mail_store(&pool).await?;
    let runs = match text(given, "event") == ActionType::InfrastructureFailure.as_str() {
        true => vec![infrastructure_task(on).await?],
        false => recorded_tasks(on, given).await?,
    };
    for run_id in &runs {
        let run = on.stage.deployment.run(run_id).await?;
        let stored = "select namespace from task where run_id = $1 and namespace = $2";
        let stored = sqlx::query_scalar(stored).bind(run_id.parse::<Uuid>()?).bind(&run.namespace);
        let namespace: String = stored.fetch_one(&pool).await.context("the row of the task")?;
        agree("written_to", &expect["written_to"], format!("{namespace} store"))?;
    }
    let is_unchanged = before == mail_store(&pool).await?;
    pool.close().await;
    agree("mail_store_unchanged", &expect["mail_store_unchanged"], is_unchanged)
}

async fn mail_store(pool: &PgPool) -> Result<String> {
    Ok(sqlx::query_scalar(MAIL_STORE).fetch_one(pool).await?)
}

/// The runs of the tasks that the first recorded delivery of each forge makes.
async fn recorded_tasks(on: &OnForge, given: &Value) -> Result<Vec<String>> {
    let mut forges = BTreeSet::new();
    let mut runs = Vec::new();
    for recorded in recorded_like(given).map_err(Error::msg)? {
        let forge = recorded.event.source;
        if forges.insert(forge) {
            let payload = in_repository(recorded.payload, &own_repository());
            let answer = on.stage.submit_of(forge, &recorded.header, &payload).await?;
            let created: Vec<_> =
                answer.tasks.iter().filter(|task| task.result == "created").collect();
            ensure!(!created.is_empty(), "{forge}: {answer:#?}");
            runs.extend(created.into_iter().map(|task| task.run_id.clone()));
        }
    }
    Ok(runs)
}

/// The run of a task for the infrastructure. No forge is configured for the repository of the task that fails, so it
/// follows at once.
async fn infrastructure_task(on: &OnForge) -> Result<String> {
    let body = in_repository(issue(1, LOGIN), &own_repository());
    let failed = on.submitted("issues", &body).await?;
    on.stage.done_without_a_report(&failed).await?;
    let mut caused = on.stage.caused_by(&failed, 3).await?.into_iter();
    let infrastructure = ActionType::InfrastructureFailure.as_str();
    let task = caused.find(|task| task.action_type == infrastructure);
    Ok(task.context("no task for the infrastructure")?.run_id)
}
