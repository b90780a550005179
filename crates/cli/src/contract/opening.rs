//! Opens a contract.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use surety_common::config::{ClientConfig, SandboxConfig};
use surety_common::domain::manifest::{IgnoreRules, digest};
use surety_common::domain::problem::Warning;
use surety_executor::revision::Revision;
use surety_executor::snapshot::{Reach, Snapshots};
use surety_executor::tool::{ToolError, Workspace};
use tokio::task::spawn_blocking;

use super::checks::Checks;
use super::file::{Contract, FORM, What, now};
use super::store::Store;
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::verify::{DEFAULT_BASE, Scene, StartFrom, VerifyPlan};

/// The digest of the files of a revision, as git read them.
pub(super) async fn files_digest(revision: &Arc<Revision>) -> Result<String, Failure> {
    let folder = revision.folder().to_owned();
    let reading = spawn_blocking(move || -> Result<String, ToolError> {
        let files = Workspace::open(&folder)?;
        let all = Snapshots::resume(&Arc::new(IgnoreRules::default()))?;
        Ok(digest(&all.take(&files, None, Reach::Everything, &|| Ok(()))?))
    });
    let read =
        reading.await.map_err(|error| Failure::new(Code::Internal, error.to_string(), ""))?;
    read.map_err(|error| Failure::new(Code::VerificationFailed, error.to_string(), ""))
}

/// What a new contract is to be.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The revision; none for `HEAD`.
    pub base: Option<String>,
    /// The checks file; none for the default one of the revision.
    pub checks: Option<PathBuf>,
}

/// The surroundings of contracts of one workspace.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The workspace, as it was named.
    pub folder: PathBuf,
    /// Settings of a client: the data folder.
    pub client: ClientConfig,
    /// Settings of the sandbox.
    pub sandbox: SandboxConfig,
}

impl Opening {
    /// The surroundings of one verification.
    ///
    /// # Errors
    /// As [`Scene::open`].
    pub async fn scene(&self) -> Result<Scene, Failure> {
        Scene::open(&self.folder, &self.client, self.sandbox.clone()).await
    }

    /// The scene, and the contracts of its workspace.
    ///
    /// # Errors
    /// As [`Self::scene`] and [`Self::store`].
    pub async fn at(&self) -> Result<(Scene, Store), Failure> {
        let scene = self.scene().await?;
        let store = self.store(&scene)?;
        Ok((scene, store))
    }

    /// The contracts of the workspace of a scene.
    ///
    /// # Errors
    /// There is no data folder.
    pub fn store(&self, scene: &Scene) -> Result<Store, Failure> {
        let data = DataFolder::choose(&self.client.folder)?;
        data.make()?;
        Ok(Store::of(&data, scene.workspace.root()))
    }

    /// Opens a contract where none is open. Answers the open one, and what the reader of the checks assumed.
    ///
    /// # Errors
    /// There is no such revision; the checks do not read; the data folder cannot be written.
    pub async fn open(
        &self,
        scene: &Scene,
        store: &Store,
        wanted: &Wanted,
        by: &str,
    ) -> Result<(Contract, Vec<Warning>), Failure> {
        if let Some(contract) = store.load()? {
            return Ok((contract, Vec::new()));
        }
        let base = wanted.base.as_deref().unwrap_or(DEFAULT_BASE);
        let revision = scene.read_revision(base).await?;
        let root = scene.workspace.root();
        let read = Checks::read(wanted.checks.as_deref(), root, &revision)?;
        let (checks, plan) = read.unzip();
        let plan = plan.unwrap_or_else(VerifyPlan::without_checks);
        let from = StartFrom::Revision(Arc::clone(&revision));
        let start = scene.start(&from, &plan, None).await?;
        let mut warnings = plan.warnings.clone();
        warnings.extend(scene.assumptions(&start, &plan)?);
        let mut contract = Contract {
            form: FORM.to_owned(),
            workspace: root.to_string_lossy().into_owned(),
            opened_at: now(),
            opened_by: by.to_owned(),
            base: base.to_owned(),
            commit: revision.commit().to_owned(),
            files: files_digest(&revision).await?,
            checks,
            proposal: None,
            reports: BTreeMap::new(),
            questions: Vec::new(),
            rounds: 0,
            verdict: None,
            events: Vec::new(),
        };
        contract.note(What::Opened, format!("by {by} at {}", revision.commit()));
        Ok((store.keep(contract, &start.manifest)?, warnings))
    }
}
