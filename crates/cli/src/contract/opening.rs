//! Opens a contract.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use surety_common::config::{ClientConfig, SandboxConfig};
use surety_common::domain::manifest::Entry;
use surety_common::domain::problem::Warning;
use surety_executor::revision::git_folder;
use surety_executor::round::Start;
use surety_executor::snapshot::keep;
use surety_executor::tool::ToolError;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use super::checks::Checks;
use super::file::{Contract, FORM, What, now};
use super::store::Store;
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::verify::{DEFAULT_BASE, Scene, StartFrom, VerifyPlan, is_protected, rules};

/// The most bytes of a workspace that is kept, because no repository keeps it.
const MOST_KEPT: u64 = 1 << 30;

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
        let has_repository = git_folder(scene.workspace.root()).is_some();
        let (base, from) = match wanted.base.as_deref() {
            Some(base) => (base, StartFrom::Revision(scene.read_revision(base).await?)),
            None if has_repository => {
                let head = scene.read_head().await?;
                (DEFAULT_BASE, head.map_or(StartFrom::Now, StartFrom::Revision))
            }
            None => ("", StartFrom::Now),
        };
        let root = scene.workspace.root();
        let read = Checks::read(wanted.checks.as_deref(), root, &from)?;
        let (checks, plan) = read.unzip();
        let plan = plan.unwrap_or_else(VerifyPlan::without_checks);
        let start = scene.start(&from, &plan, None).await?;
        let mut warnings = plan.warnings.clone();
        warnings.extend(scene.assumptions(&start, &plan)?);
        let mut contract = Contract {
            form: FORM.to_owned(),
            workspace: root.to_string_lossy().into_owned(),
            opened_at: now(),
            opened_by: by.to_owned(),
            base: base.to_owned(),
            commit: start.revision.clone(),
            checks,
            proposal: None,
            reports: BTreeMap::new(),
            questions: Vec::new(),
            rounds: 0,
            verdict: None,
            events: Vec::new(),
        };
        let place = contract.start();
        contract.note(What::Opened, format!("by {by} at {place}"));
        let is_revision = matches!(from, StartFrom::Revision(_));
        let rules = rules(&plan)?;
        let which =
            move |entry: &Entry| !entry.ignored && !is_revision || is_protected(&rules, entry);
        let copy = match !is_revision || start.manifest.entries().iter().any(&which) {
            true => Some(copied(scene, store, &start, which).await?),
            false => None,
        };
        Ok((store.keep(contract, &start.manifest, copy)?, warnings))
    }
}

/// Copies paths of the workspace as they are at the opening, beside the contract.
async fn copied(
    scene: &Scene,
    store: &Store,
    start: &Start,
    which: impl Fn(&Entry) -> bool + Send + 'static,
) -> Result<TempDir, Failure> {
    let folder = store.folder_for_copy()?;
    let (workspace, manifest) = (Arc::clone(&scene.workspace), Arc::clone(&start.manifest));
    let (cancel, place) = (scene.cancel.clone(), folder.path().to_owned());
    let copying = spawn_blocking(move || {
        let check = || if cancel.is_cancelled() { Err(ToolError::called_off()) } else { Ok(()) };
        keep(&workspace, &manifest, &place, (&which, MOST_KEPT), &check)
    });
    let copied =
        copying.await.map_err(|error| Failure::new(Code::Internal, error.to_string(), ""))?;
    copied.map_err(|error| {
        let message = format!("the start of the workspace cannot be kept: {error}");
        let advice = "Make the folder a git repository with a commit: the start is then a revision. \
                      Protect no ignored files that are large.";
        Failure::new(Code::WorkspaceRefused, message, advice)
    })?;
    Ok(folder)
}
