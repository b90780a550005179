//! Runs that wait for an input.

use super::StoreError;
use super::execution::plan_revision;
use super::plan;
use super::pool::within;
use super::run::{LIST_BYTES, RunPage, page};
use crate::domain::plan::Plan;
use crate::domain::run::RunRecord;
use crate::domain::stop::WaitingOn;
use sqlx::PgPool;
use std::collections::{BTreeMap, HashMap};
use uuid::Uuid;

/// The number of plans that are read at once, each of some MiB at most.
const PLANS_AT_ONCE: usize = 16;

/// Selects waiting runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WaitFilter {
    /// Only this namespace; empty for all.
    pub namespace: String,
    /// Only these namespaces, which the caller reaches; empty for all.
    pub reached: Vec<String>,
    /// Only this run.
    pub run_id: Option<Uuid>,
    /// Only runs younger than this one: the last id of the page before.
    pub after: Option<Uuid>,
    /// At most so many.
    pub limit: i64,
}

/// A run that waits for an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The run, without its plan.
    pub run: RunRecord,
    /// The ids of the steps that wait, by their index in the plan.
    pub step_ids: BTreeMap<usize, String>,
    /// What workers last reported of its calls, by their waits.
    pub progress: BTreeMap<Uuid, Progress>,
}

/// A report of a worker about its call.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Progress {
    /// The wait of the call.
    #[sqlx(rename = "id")]
    pub wait_id: Uuid,
    /// The run.
    pub run_id: Uuid,
    /// One line.
    #[sqlx(rename = "progress")]
    pub message: String,
    /// In percent.
    #[sqlx(rename = "progress_percent")]
    pub percent: Option<i16>,
}

/// A page of waiting runs, without those whose rows cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitPage {
    /// The runs.
    pub waiting: Vec<Waiting>,
    /// Where the next page begins; none at the end.
    pub next: Option<Uuid>,
}

/// A page of at most `filter.limit` waiting runs, the oldest first. Of their plans only the ids of the
/// waiting steps are kept, and runs with the same plan share one read.
///
/// # Errors
/// [`StoreError`]
pub async fn list_waits(pool: &PgPool, filter: &WaitFilter) -> Result<WaitPage, StoreError> {
    let WaitFilter { namespace, reached, run_id, after, limit } = filter;
    let listed = sqlx::query(include_str!("sql/list_waits.sql"))
        .bind(namespace)
        .bind(run_id)
        .bind(after)
        .bind(limit.saturating_add(1))
        .bind(LIST_BYTES)
        .bind(reached);
    let rows = within(async { Ok(listed.fetch_all(pool).await?) }).await?;
    // A run that cannot be decoded is named by the list of runs.
    let RunPage { runs, next, .. } = page(rows, *limit)?;
    let mut waiting: Vec<Waiting> = runs
        .into_iter()
        .map(|run| Waiting { run, step_ids: BTreeMap::new(), progress: BTreeMap::new() })
        .collect();
    add_progress(pool, &mut waiting).await?;
    let mut by_plan: HashMap<String, Vec<&mut Waiting>> = HashMap::new();
    for one in waiting.iter_mut().filter(|one| places(&one.run).next().is_some()) {
        by_plan.entry(one.run.plan_digest.clone()).or_default().push(one);
    }
    let mut plans: Vec<Vec<&mut Waiting>> = by_plan.into_values().collect();
    for some in plans.chunks_mut(PLANS_AT_ONCE) {
        name_steps(pool, some).await?;
    }
    Ok(WaitPage { waiting, next })
}

/// Sets what workers and models reported, where a run waits for them.
async fn add_progress(pool: &PgPool, waiting: &mut [Waiting]) -> Result<(), StoreError> {
    let with_calls =
        |one: &&Waiting| one.run.execution.waits().any(|wait| may_report(wait.waiting_on));
    let run_ids: Vec<Uuid> = waiting.iter().filter(with_calls).map(|one| one.run.spec.id).collect();
    if run_ids.is_empty() {
        return Ok(());
    }
    for report in list_progress(pool, run_ids).await? {
        let of_run = |one: &&mut Waiting| one.run.spec.id == report.run_id;
        if let Some(one) = waiting.iter_mut().find(of_run) {
            one.progress.insert(report.wait_id, report);
        }
    }
    Ok(())
}

/// What workers last reported of the open calls of runs.
///
/// # Errors
/// [`StoreError`]
pub async fn list_progress(pool: &PgPool, run_ids: Vec<Uuid>) -> Result<Vec<Progress>, StoreError> {
    let listed = sqlx::query_as(include_str!("sql/list_progress.sql")).bind(run_ids);
    within(async { Ok(listed.fetch_all(pool).await?) }).await
}

const fn may_report(waiting_on: WaitingOn) -> bool {
    matches!(waiting_on, WaitingOn::Worker | WaitingOn::Driver | WaitingOn::Model)
}

/// The indexes of the steps that a run waits in.
fn places(run: &RunRecord) -> impl Iterator<Item = usize> {
    run.execution.waits().filter_map(|wait| wait.step_index)
}

/// Sets the step ids of runs; the runs of a group have the same plan.
async fn name_steps(pool: &PgPool, groups: &mut [Vec<&mut Waiting>]) -> Result<(), StoreError> {
    let firsts = || groups.iter().filter_map(|group| group.first());
    let run_ids: Vec<Uuid> = firsts().map(|one| one.run.spec.id).collect();
    let revisions = firsts()
        .map(|one| plan_revision(one.run.execution.plan_revision))
        .collect::<Result<Vec<i32>, _>>()?;
    let found = sqlx::query_as(include_str!("sql/step_plans.sql")).bind(run_ids).bind(revisions);
    let bodies: Vec<(Uuid, String)> = within(async { Ok(found.fetch_all(pool).await?) }).await?;
    for (run_id, body) in bodies {
        let of_run = |group: &&mut Vec<&mut Waiting>| {
            group.first().is_some_and(|one| one.run.spec.id == run_id)
        };
        let Some(group) = groups.iter_mut().find(of_run) else { continue };
        match plan::read(&body, run_id) {
            Ok(plan) => group.iter_mut().for_each(|one| one.step_ids = step_ids(&plan, &one.run)),
            Err(error) => {
                tracing::error!(%run_id, %error, "store: a plan cannot be read; its waits are listed without step ids");
            }
        }
    }
    Ok(())
}

fn step_ids(plan: &Plan, run: &RunRecord) -> BTreeMap<usize, String> {
    let named = |place: usize| plan.steps.get(place).map(|step| (place, step.id.clone()));
    places(run).filter_map(named).collect()
}
