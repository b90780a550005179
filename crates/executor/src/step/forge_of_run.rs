//! The forge of a run that is a task, by its task's row and its assignee's credential.

use super::engine::Engine;
use super::task_forges::{TOOLCHAIN, TaskForges, unread};
use crate::tool::{ForgeOfTask, RunForge, ToolError, unavailable};
use futures::future::BoxFuture;
use sqlx::PgPool;
use std::sync::Arc;
use surety_common::domain::run::RunSpec;
use surety_common::domain::toolchain::Forge as ForgeKind;
use surety_common::store;
use surety_forge::RepoName;
use uuid::Uuid;

/// The forge of a run, which is found when a tool asks for it.
pub(super) fn forge_of_run(engine: &Engine, spec: &RunSpec) -> RunForge {
    if spec.namespace != TOOLCHAIN || engine.forges.is_empty() {
        return RunForge::default();
    }
    let (pool, forges, run_id) = (engine.pool.clone(), engine.forges.clone(), spec.id);
    RunForge::found_by(Arc::new(move || -> BoxFuture<'static, _> {
        let (pool, forges) = (pool.clone(), forges.clone());
        Box::pin(async move { find(&pool, &forges, run_id).await })
    }))
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
    Ok(ForgeOfTask { forge, repo, number: task.subject.number, began_at: task.created_at })
}
