//! The forges whose tasks are worked on, and the credentials of agents there.

use crate::tool::{ErrorCode, ToolError, unavailable};
use sqlx::PgPool;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use surety_common::config::{NamedSecrets, Secret, SecretSource};
use surety_common::domain::toolchain::Forge as ForgeKind;
use surety_common::store::{self, StoreError, StoredTask};
use surety_forge::{Forge, ForgeError, Forges};

/// The namespace of tasks about events of forges.
pub const TOOLCHAIN: &str = "_toolchain";

/// The forges whose tasks are worked on, and the credentials of agents there.
#[derive(Debug, Clone, Default)]
pub struct TaskForges {
    forges: Forges,
    /// The files of secrets that tasks may use, by the names that the agents' registry has.
    files: Arc<BTreeMap<String, PathBuf>>,
}

impl TaskForges {
    /// The forges of the configuration, and the secrets of the executor.
    #[must_use]
    pub fn new(forges: Forges, secrets: Option<&NamedSecrets>) -> Self {
        let listed = secrets.into_iter().flat_map(|secrets| &secrets.0);
        let files = listed.filter_map(|secret| {
            let covers = |names: &Vec<String>| names.iter().any(|name| name == TOOLCHAIN);
            let serves = secret.namespaces.as_ref().is_none_or(covers);
            match &secret.source {
                SecretSource::File(path) if serves => Some((secret.name.clone(), path.clone())),
                SecretSource::File(_) | SecretSource::Variable(_) => None,
            }
        });
        Self { forges, files: Arc::new(files.collect()) }
    }

    /// The forge of a task, as its assignee's own account sees it: by the credential of the forges file, else by the
    /// one that the agents' registry names.
    pub(super) async fn of_assignee(
        &self,
        pool: &PgPool,
        (task, kind): (&StoredTask, ForgeKind),
    ) -> Result<Option<Arc<dyn Forge>>, ToolError> {
        let repo = task.subject.repo.as_str();
        if let Some(forge) = self.forges.of_agent(kind, repo, &task.assignee) {
            return Ok(Some(forge));
        }
        let (agent, account) = store::account_of_task(pool, task).await.map_err(unread)?;
        let Some(file) = agent.and_then(|agent| self.files.get(&agent.credential)) else {
            return Ok(None);
        };
        let opened = self.forges.with_credential(kind, repo, (account.as_str(), file.as_path()));
        opened.map_err(|error: ForgeError| unavailable(&error.to_string()))
    }

    /// The credential of a clone that the forges file names; none for a name of another kind. It blocks.
    pub(super) fn clone_credential(&self, name: &str) -> Option<Result<Secret, ForgeError>> {
        self.forges.clone_credential(name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.forges.is_empty()
    }
}

/// The failure of reading rows of tasks.
pub(super) fn unread(error: StoreError) -> ToolError {
    ToolError::new(ErrorCode::IoFailed, format!("the task could not be read: {error}"))
}
