//! Creating runs, each with its first plan and transitions, many in one statement.

use super::StoreError;
use super::apply::{Change, Columns, WaitColumns, room_for};
use super::dedicated_connection::DedicatedConnection;
use super::execution::{plan_revision, state_change, to_text};
use super::group::{self, Writer};
use super::plan::StoredPlan;
use super::pool::within;
use super::signing::{RowToSign, Signing};
use super::wake::{Notices, Topic, Waker};
use crate::crash;
use crate::domain::execution::draft::Write;
use crate::domain::run::RunSpec;
use crate::domain::signature::{PlanColumns, RunColumns, SignedColumns, TaskColumns, instant};
use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

/// A run to be created.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// The request's specification of the run.
    pub spec: RunSpec,
    /// The name of the identity that creates it.
    pub submitter: String,
    /// Digest of the whole request. It distinguishes a repeated call from a different one under the
    /// same request id.
    pub request_digest: String,
    /// The plan that came with the request.
    pub plan: Option<StoredPlan>,
    /// The columns of its task that feed a verdict; none for a run that is no task.
    pub task: Option<TaskColumns>,
    /// Content that the plan names by its digest: the digest, and the bytes.
    pub artifacts: Vec<(String, Vec<u8>)>,
    /// The run's first transitions.
    pub write: Write,
}

/// The outcome of a request to create a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The run is new.
    New,
    /// The same request came before and created this run.
    Before(Uuid),
    /// A different request under the same request id created this run.
    Conflict(Uuid),
}

/// The process's single creator of runs. It creates all waiting runs in one statement. Clones share
/// it.
#[derive(Clone)]
pub struct Creator {
    jobs: mpsc::Sender<Job>,
}

impl Creator {
    /// Starts the creator on a dedicated connection. It signs what it creates.
    pub fn start(pool: PgPool, waker: Waker, signing: Signing) -> Self {
        Self {
            jobs: group::start(
                Orders { dedicated: DedicatedConnection::new(pool), waker, signing },
                Arc::default(),
            ),
        }
    }

    /// Creates a run, once per request id, and wakes idle executors.
    ///
    /// # Errors
    /// [`StoreError`]; after [`StoreError::Unavailable`] it is unknown whether the run was created.
    ///
    /// # Cancel safety
    /// The run is created even if the future is dropped.
    pub async fn create(
        &self,
        new: Arc<NewRun>,
        span_id: Option<String>,
    ) -> Result<Created, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Job { new, span_id, reply };
        self.jobs.send(job).await.map_err(|_| StoreError::ShuttingDown)?;
        answer.await.map_err(|_| StoreError::ShuttingDown)?
    }
}

struct Job {
    new: Arc<NewRun>,
    span_id: Option<String>,
    reply: oneshot::Sender<Result<Created, StoreError>>,
}

impl Job {
    /// Whether an executor can claim the run as soon as it exists.
    fn is_ready(&self) -> bool {
        self.new.write.execution.ready_at.is_some()
    }
}

struct Orders {
    dedicated: DedicatedConnection,
    waker: Waker,
    signing: Signing,
}

impl Writer for Orders {
    type Job = Job;

    fn is_awaited(_: &Job) -> bool {
        true
    }

    async fn settle(&mut self, waiting: &mut VecDeque<Job>) {
        self.make(waiting.drain(..).collect()).await;
    }
}

impl Orders {
    async fn make(&mut self, jobs: Vec<Job>) {
        match make_runs(&mut self.dedicated, &jobs, &self.signing).await {
            Ok(created) => {
                if jobs.len() > 1 && jobs.iter().any(Job::is_ready) {
                    self.waker.wake_now(Topic::Ready);
                }
                for (job, created) in jobs.into_iter().zip(created) {
                    // A caller that dropped its receiver needs no answer.
                    drop(job.reply.send(Ok(created)));
                }
            }
            // One invalid request must not fail the others: each is retried alone.
            Err(_) if jobs.len() > 1 => {
                for job in jobs {
                    Box::pin(self.make(vec![job])).await;
                }
            }
            Err(error) => {
                if let Some(job) = jobs.into_iter().next() {
                    drop(job.reply.send(Err(error)));
                }
            }
        }
    }
}

/// A run that is created alone notifies idle executors in its own transaction.
async fn make_runs(
    dedicated: &mut DedicatedConnection,
    jobs: &[Job],
    signing: &Signing,
) -> Result<Vec<Created>, StoreError> {
    let mut columns = NewColumns::default();
    for job in jobs {
        columns.push(&job.new, job.span_id.as_deref())?;
    }
    columns.sign(jobs, signing)?;
    let notified = (jobs.len() == 1 && jobs.iter().any(Job::is_ready)).then_some(Topic::Ready);
    crash::point("planner.before_create");
    let made = columns.insert(dedicated, Notices::of(notified.iter())).await?;
    crash::point("planner.after_create");
    let mut created = Vec::with_capacity(jobs.len());
    for job in jobs {
        created.push(match made.contains(&job.new.spec.id) {
            true => Created::New,
            false => made_before(dedicated, &job.new).await?,
        });
    }
    Ok(created)
}

/// The existing run that conflicts with a new one. It came from the same or a different request
/// under the same request id, or from an earlier attempt whose answer was lost.
async fn made_before(
    dedicated: &mut DedicatedConnection,
    new: &NewRun,
) -> Result<Created, StoreError> {
    let finding = sqlx::query_as(include_str!("sql/find_request.sql"))
        .bind(&new.spec.namespace)
        .bind(&new.spec.request_id)
        .bind(new.spec.id);
    let (id, digest): (Uuid, String) =
        dedicated.ask(async |connection| finding.fetch_one(connection).await).await?;
    Ok(match (id == new.spec.id, digest == new.request_digest) {
        (true, _) => Created::New,
        (false, true) => Created::Before(id),
        (false, false) => Created::Conflict(id),
    })
}

/// The run that a request id made in a namespace, and the digest of its request.
///
/// # Errors
/// [`StoreError`]
pub async fn find_request(
    pool: &PgPool,
    namespace: &str,
    request_id: &str,
) -> Result<Option<(Uuid, String)>, StoreError> {
    let finding = sqlx::query_as(include_str!("sql/find_request.sql"))
        .bind(namespace)
        .bind(request_id)
        .bind(Uuid::nil());
    within(async { Ok(finding.fetch_optional(pool).await?) }).await
}

/// The columns of many new runs, as arrays.
#[derive(Default)]
struct NewColumns {
    rows: Columns,
    namespace: Vec<String>,
    request_id: Vec<String>,
    request_digest: Vec<String>,
    goal: Vec<String>,
    driver: Vec<&'static str>,
    workspace: Vec<String>,
    repository: Vec<Option<String>>,
    limits: Vec<String>,
    policy: Vec<String>,
    labels: Vec<String>,
    trace_parent: Vec<String>,
    forked_from: Vec<Option<String>>,
    created_at: Vec<DateTime<Utc>>,
    plan_digest: Vec<Option<String>>,
    plan_reason: Vec<Option<String>>,
    plan_body: Vec<Option<String>>,
    submitter: Vec<String>,
    artifact_run: Vec<Uuid>,
    artifact_digest: Vec<String>,
    artifact_body: Vec<Vec<u8>>,
    waits: WaitColumns,
    signature: Vec<Option<Vec<u8>>>,
}

/// The statement for runs that begin without waiting.
const CREATE: &str =
    concat!(include_str!("sql/create_run.sql"), include_str!("sql/create_end.sql"));

/// The statement for runs of which one waits from the start, as for a plan.
const CREATE_WAITING: &str = concat!(
    include_str!("sql/create_run.sql"),
    include_str!("sql/create_waits.sql"),
    include_str!("sql/create_end.sql"),
);

impl NewColumns {
    fn push(&mut self, new: &NewRun, span_id: Option<&str>) -> Result<(), StoreError> {
        let NewRun { spec, submitter, request_digest, plan, task: _, artifacts, write } = new;
        self.rows.push(&Change { write, span_id }.into())?;
        self.waits.push(spec.id, &write.waits);
        self.namespace.push(spec.namespace.clone());
        self.request_id.push(spec.request_id.clone());
        self.request_digest.push(request_digest.clone());
        self.goal.push(spec.goal.clone());
        self.driver.push(spec.driver.as_str());
        self.workspace.push(spec.workspace.clone());
        self.repository.push(spec.repository.as_ref().map(to_text).transpose()?);
        self.limits.push(to_text(&spec.limits)?);
        self.policy.push(to_text(&spec.policy)?);
        self.labels.push(to_text(&spec.labels)?);
        self.trace_parent.push(spec.trace_parent.clone());
        self.forked_from.push(spec.forked_from.as_ref().map(to_text).transpose()?);
        self.created_at.push(spec.created_at);
        self.plan_digest.push(plan.as_ref().map(|plan| plan.digest.clone()));
        self.plan_reason.push(plan.as_ref().map(|plan| plan.reason.clone()));
        self.plan_body.push(plan.as_ref().map(|plan| plan.body.clone()));
        self.submitter.push(submitter.clone());
        for (digest, body) in artifacts {
            self.artifact_run.push(spec.id);
            self.artifact_digest.push(digest.clone());
            self.artifact_body.push(body.clone());
        }
        Ok(())
    }

    /// Signs the pushed runs, which are those of these jobs, with their first plans and rows.
    fn sign(&mut self, jobs: &[Job], signing: &Signing) -> Result<(), StoreError> {
        if !signing.has_key() {
            self.signature = vec![None; jobs.len()];
            return Ok(());
        }
        let rows = jobs.iter().enumerate().map(|(place, job)| {
            let NewRun { spec, plan, task, write, submitter, .. } = &*job.new;
            let created_at = instant(spec.created_at);
            let run = RunColumns::of([
                &created_at,
                spec.driver.as_str(),
                optional(&self.forked_from, place),
                &spec.goal,
                text(&self.limits, place),
                &spec.namespace,
                text(&self.policy, place),
                optional(&self.repository, place),
                submitter,
                &spec.workspace,
            ]);
            // The statement stores it as the first revision, without a parent, at the time of the run.
            let first = plan.as_ref().map(|StoredPlan { body, digest, reason, .. }| {
                PlanColumns::of(1, [body, &created_at, digest, "", reason])
            });
            Ok(RowToSign {
                run_id: spec.id,
                sequence: write.execution.sequence,
                at: spec.created_at,
                actor: &write.actor.0,
                text: text(&self.rows.entries, place),
                entries: write.entries.iter().collect(),
                columns: SignedColumns {
                    run: Some(run),
                    task: task.clone(),
                    plans: first.into_iter().collect(),
                },
                change: state_change(write, &write.execution)?,
            })
        });
        self.signature = signing.rows(rows.collect::<Result<_, StoreError>>()?);
        Ok(())
    }

    /// Returns the ids of the created runs.
    async fn insert(
        &self,
        dedicated: &mut DedicatedConnection,
        notified: Notices,
    ) -> Result<HashSet<Uuid>, StoreError> {
        let Self { rows, waits, .. } = self;
        let waiting = !waits.opened_id.is_empty();
        let statement = if waiting { CREATE_WAITING } else { CREATE };
        let long = [&self.goal, &self.policy, &rows.progress, &rows.entries].into_iter().flatten();
        let long = long.chain(self.plan_body.iter().flatten());
        let making = sqlx::query_scalar_with(statement, room_for(self.goal.len(), long))
            .bind(&rows.run_id)
            .bind(&self.namespace)
            .bind(&self.request_id)
            .bind(&self.request_digest)
            .bind(&self.goal)
            .bind(&self.driver)
            .bind(&self.workspace)
            .bind(&self.limits)
            .bind(&self.policy)
            .bind(&self.labels)
            .bind(&self.trace_parent)
            .bind(&self.created_at)
            .bind(&self.plan_digest)
            .bind(&self.plan_reason)
            .bind(&self.plan_body)
            .bind(&rows.version)
            .bind(&rows.state)
            .bind(&rows.blocked_from)
            .bind(&rows.sequence)
            .bind(&rows.priority)
            .bind(&rows.ready_at)
            .bind(&rows.plan_revision)
            .bind(&rows.step_states)
            .bind(&rows.progress)
            .bind(&rows.wait)
            .bind(&rows.wait_ids)
            .bind(&rows.terminal)
            .bind(&rows.deadline_at)
            .bind(&rows.entries)
            .bind(&rows.actor)
            .bind(notified.channels)
            .bind(notified.texts)
            .bind(&self.submitter)
            .bind(&self.artifact_run)
            .bind(&self.artifact_digest)
            .bind(&self.artifact_body)
            .bind(&self.forked_from)
            .bind(&self.repository)
            .bind(&self.signature);
        let making = match waiting {
            true => making.bind(&waits.opened_run).bind(&waits.opened_id).bind(&waits.opened_kind),
            false => making,
        };
        let ids: Vec<Uuid> =
            dedicated.ask(async |connection| making.fetch_all(connection).await).await?;
        Ok(ids.into_iter().collect())
    }
}

fn text(column: &[String], place: usize) -> &str {
    column.get(place).map_or("", String::as_str)
}

fn optional(column: &[Option<String>], place: usize) -> &str {
    column.get(place).and_then(Option::as_deref).unwrap_or_default()
}

/// Stores a plan revision.
pub(super) async fn store_plan(
    connection: &mut PgConnection,
    run_id: Uuid,
    plan: &StoredPlan,
) -> Result<(), StoreError> {
    sqlx::query(include_str!("sql/store_plan.sql"))
        .bind(run_id)
        .bind(plan_revision(plan.revision)?)
        .bind(&plan.digest)
        .bind(&plan.parent_digest)
        .bind(&plan.reason)
        .bind(&plan.body)
        .bind(plan.created_at)
        .execute(connection)
        .await?;
    Ok(())
}
