//! The forge of a run that is a task, by its task's row and its assignee's credential.

use super::engine::Engine;
use super::task_forges::{TOOLCHAIN, TaskForges, unread};
use crate::tool::{ErrorCode, ForgeOfTask, NewReport, RunForge, ToolError, unavailable};
use futures::future::BoxFuture;
use sqlx::PgPool;
use std::sync::Arc;
use surety_common::clock;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::run::RunSpec;
use surety_common::domain::toolchain::{EntryKind, Forge as ForgeKind, push_branch};
use surety_common::store::{self, NewEntry, NewOutcome, Signing, StoredOutcome};
use surety_forge::RepoName;
use uuid::Uuid;

/// The call of the API that does the same.
const METHOD: &str = "SubmitActionReport";

/// The forge of a run, which is found when a tool asks for it.
pub(super) fn forge_of_run(engine: &Engine, spec: &RunSpec) -> RunForge {
    if spec.namespace != TOOLCHAIN {
        return RunForge::default();
    }
    let (pool, forges, run_id) = (engine.pool.clone(), engine.forges.clone(), spec.id);
    let reports = (pool.clone(), engine.committer.signing().clone());
    let report = Arc::new(move |report: NewReport| -> BoxFuture<'static, _> {
        let (pool, signing) = reports.clone();
        Box::pin(async move { store_report(&pool, &signing, run_id, report).await })
    });
    if forges.is_empty() {
        return RunForge::default().reporting_to(report);
    }
    let of_forge = RunForge::found_by(Arc::new(move || -> BoxFuture<'static, _> {
        let (pool, forges) = (pool.clone(), forges.clone());
        Box::pin(async move { find(&pool, &forges, run_id).await })
    }));
    of_forge.reporting_to(report)
}

/// Stores a report as the assignee's: no other participant is offered the turns of a task. A repeated call stores none.
async fn store_report(
    pool: &PgPool,
    signing: &Signing,
    run_id: Uuid,
    report: NewReport,
) -> Result<(), ToolError> {
    let NewReport { call_id, text, links } = report;
    let task = store::find_task(pool, run_id).await.map_err(unread)?;
    let task = task.ok_or_else(|| unavailable("the run is no task, so it takes no report"))?;
    let digest = sha256_hex(format!("{text}\n{}", links.join("\n")).as_bytes());
    let entry = NewEntry {
        run_id,
        kind: EntryKind::ActionReport,
        author: task.assignee.clone(),
        body: text,
        links,
        attachment: String::new(),
        at: clock::now(),
    };
    let outcome = |_| {
        let stored = StoredOutcome {
            method: METHOD.to_owned(),
            request_digest: digest,
            response: Vec::new(),
        };
        Some(NewOutcome {
            subject: run_id.to_string(),
            identity: task.assignee,
            request_id: call_id.to_string(),
            run_id: Some(run_id),
            stored,
            at: entry.at,
        })
    };
    // None: an earlier attempt of the same call stored it.
    let stored = store::report_task(pool, signing, &entry, outcome).await;
    stored.map(drop).map_err(|error| {
        ToolError::new(ErrorCode::IoFailed, format!("the report could not be stored: {error}"))
    })
}

async fn find(pool: &PgPool, forges: &TaskForges, run_id: Uuid) -> Result<ForgeOfTask, ToolError> {
    let task = store::find_task(pool, run_id).await.map_err(unread)?;
    let task = task.ok_or_else(|| unavailable("the run is no task of a forge"))?;
    let kind = ForgeKind::from_text(&task.forge)
        .ok_or_else(|| unavailable("the task is about nothing on a forge"))?;
    let forge = forges.of_assignee(pool, (&task, kind)).await?.ok_or_else(|| {
        let (assignee, repo) = (&task.assignee, &task.subject.repo);
        unavailable(&format!(
            "the agent {assignee:?} has no credential for {repo} on a {kind}; its operator adds [agents.ID.FORGE] to \
             the forges file, or names a secret in the agents' registry"
        ))
    })?;
    let repo = RepoName::new(&task.subject.repo).map_err(|error| unavailable(&error.message))?;
    Ok(ForgeOfTask {
        forge,
        repo,
        number: task.subject.number,
        branch: push_branch(&task.payload, &task.subject),
        began_at: task.created_at,
    })
}
