//! What a verification works with: the workspace, its start, the sandbox, and a folder that goes away with
//! it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use surety_common::clock;
use surety_common::config::{ClientConfig, SandboxConfig};
use surety_common::domain::check_inputs::{InputRules, StartInputs, assumptions_at_start};
use surety_common::domain::manifest::{Content, Entry, Kind, Manifest};
use surety_common::domain::problem::Warning;
use surety_common::domain::workspace::{Reserved, check_workspace};
use surety_executor::revision::{Reader, Revision, RevisionError};
use surety_executor::round::{
    MAX_ORIGINAL, Reading, Start, StartFacts, counted, lines_with_originals,
};
use surety_executor::scratch::{self, ScratchFolder};
use surety_executor::snapshot::{Snapshots, altered, keep, resumed};
use surety_executor::tool::{
    Attached, Environment, ErrorCode, Folder, Participant, Sandbox, SandboxError, ToolError,
    Workspace,
};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::plan::VerifyPlan;
use super::set_aside::set_aside;
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::output::note;

/// The folder below the data folder that keeps what goes away with each verification.
const KEPT: &str = "verify";
/// What the names of these folders begin with.
const PREFIX: &str = "surety-verify-";
/// Variables that a participant does not get: the service's own.
const OWN_PREFIX: &str = "SURETY_";
/// The ports of services that are started without other ones.
const SERVICE_PORTS: [u16; 3] = [7401, 7402, 7403];
const OWN_DATABASE: &str = "DATABASE_URL";

/// What the workspace is compared with, where no command changes it.
pub const DEFAULT_BASE: &str = "HEAD";

/// What the workspace is compared with.
#[derive(Debug, Clone)]
pub enum StartFrom {
    /// The workspace itself, before a command changes it.
    Now,
    /// A revision of its git repository.
    Revision(Arc<Revision>),
    /// A copy of it that was kept, where it is in no git repository.
    Kept(Arc<Kept>),
}

/// A workspace as it was earlier.
#[derive(Debug)]
pub struct Kept {
    /// The copy of what was neither ignored nor in a revision, and of ignored files that the policy protects.
    pub folder: PathBuf,
    /// What it was.
    pub manifest: Arc<Manifest>,
}

impl StartFrom {
    /// The folder with the files of the start; none where that is the workspace itself.
    #[must_use]
    pub fn files(&self) -> Option<&Path> {
        match self {
            Self::Now => None,
            Self::Revision(revision) => Some(revision.files()),
            Self::Kept(kept) => Some(&kept.folder),
        }
    }
}

/// The surroundings of one verification.
#[derive(Debug)]
pub struct Scene {
    /// The workspace.
    pub workspace: Arc<Workspace>,
    /// The same, for the round.
    pub folder: Arc<Folder>,
    /// Confines what is run.
    pub sandbox: Sandbox,
    /// The environment of checks.
    pub environment: Arc<Environment>,
    /// Ends everything.
    pub cancel: CancellationToken,
    /// The ports of the services of this machine.
    service_ports: Vec<u16>,
    /// The data folder; none where no place for one is known.
    data: Option<PathBuf>,
    scratch: ScratchFolder,
}

impl Scene {
    /// Opens a workspace, and finds out what confines commands on this machine.
    ///
    /// # Errors
    /// The folder may not be a workspace; the sandbox cannot be set up.
    pub async fn open(
        named: &Path,
        client: &ClientConfig,
        config: SandboxConfig,
    ) -> Result<Self, Failure> {
        let workspace = Workspace::open(named).map_err(|error| unusable(named, &error))?;
        let data = DataFolder::choose(&client.folder).ok();
        refuse(&workspace, data.as_ref())?;
        let scratch = scratch_folder(data.as_ref())?;
        let mut hidden: Vec<_> = data.iter().map(|data| data.path().to_owned()).collect();
        hidden.extend(client.token_file.clone());
        let noted = data.as_ref().map(DataFolder::noted_ports).unwrap_or_default();
        let service_ports = noted.into_iter().chain(SERVICE_PORTS).collect();
        let data_dir = scratch.path().to_owned();
        let probing = spawn_blocking(move || Sandbox::probe(&config, &data_dir, hidden));
        let sandbox = probing.await.map_err(defect)?.map_err(|error| confined(&error))?;
        let folder = Arc::new(Folder::given(named.to_owned()));
        let workspace = Arc::new(workspace);
        let environment = Arc::new(Environment::of_process());
        let cancel = CancellationToken::new();
        let data = data.map(|data| data.path().to_owned());
        Ok(Self { workspace, folder, sandbox, environment, cancel, service_ports, data, scratch })
    }

    /// Reads a revision of the workspace's repository.
    ///
    /// # Errors
    /// There is no such commit or no repository; git failed.
    pub async fn read_revision(&self, revision: &str) -> Result<Arc<Revision>, Failure> {
        self.read(revision).await?.map_err(|error| unread(&error))
    }

    /// Reads the commit of `HEAD`; none where that is a branch without a commit.
    ///
    /// # Errors
    /// There is no repository; git failed.
    pub async fn read_head(&self) -> Result<Option<Arc<Revision>>, Failure> {
        match self.read(DEFAULT_BASE).await? {
            Ok(revision) => Ok(Some(revision)),
            Err(RevisionError::Unborn { .. }) => Ok(None),
            Err(error) => Err(unread(&error)),
        }
    }

    async fn read(&self, revision: &str) -> Result<Result<Arc<Revision>, RevisionError>, Failure> {
        let folder = self.scratch.path().join("revision");
        std::fs::create_dir(&folder).map_err(Failure::file(&folder))?;
        let reader = Reader {
            sandbox: Arc::new(self.sandbox.clone()),
            environment: Arc::clone(&self.environment),
            folder,
            cancel: self.cancel.clone(),
        };
        Ok(reader.read(&self.workspace, revision).await.map(Arc::new))
    }

    /// The start of the verification (S0). `opened` is the start of an earlier one from the same revision: ignored
    /// paths are then those of that time, and what is kept of them is added to the files of the revision.
    ///
    /// # Errors
    /// The workspace cannot be read.
    pub async fn start(
        &self,
        from: &StartFrom,
        plan: &VerifyPlan,
        opened: Option<Arc<Kept>>,
    ) -> Result<Start, Failure> {
        let rules = rules(plan)?;
        let counted = counted(&plan.plan, &plan.policy);
        let started = match from {
            StartFrom::Revision(revision) => {
                let known = opened.as_ref().map(|opened| Arc::clone(&opened.manifest));
                revision.start(&self.workspace, counted, known, &self.cancel).await
            }
            StartFrom::Now => {
                let (workspace, cancel) = (Arc::clone(&self.workspace), self.cancel.clone());
                let begun = spawn_blocking(move || begin(&workspace, &counted, &cancel)).await;
                begun.map_err(defect)?
            }
            StartFrom::Kept(kept) => {
                let (workspace, cancel) = (Arc::clone(&self.workspace), self.cancel.clone());
                let (kept, rules) = (Arc::clone(kept), rules.clone());
                let begun =
                    spawn_blocking(move || again(&workspace, &kept, &rules, &counted, &cancel));
                begun.await.map_err(defect)?
            }
        };
        let start = started.map_err(|error| failed(&error))?;
        if let (StartFrom::Revision(revision), Some(opened)) = (from, opened) {
            self.add_protected(revision, &start, rules.clone(), opened).await?;
        }
        let root = self.workspace.root().to_owned();
        let (folder, revision_of) = match from.files() {
            Some(files) => (files.to_owned(), Some(root)),
            None => (root, None),
        };
        let lines = lines_with_originals(&plan.plan, &plan.policy);
        let (manifest, cancel) = (Arc::clone(&start.manifest), self.cancel.clone());
        let reading = spawn_blocking(move || {
            let check =
                || if cancel.is_cancelled() { Err(ToolError::called_off()) } else { Ok(()) };
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            let folder = Workspace::open(&folder)?;
            let revision_of = revision_of.as_deref();
            let reading = Reading { rules: &rules, lines: &lines, revision_of };
            StartFacts::read(&folder, &manifest, reading, &check)
        });
        let read = reading.await.map_err(defect)?;
        let (facts, originals) = read.map_err(|error| failed(&error))?;
        // The facts of a revision are about files alone.
        if let Some(folders) = facts.folders_of_git().filter(|_| from.files().is_none()) {
            self.folder.keep_git(folders);
        }
        Ok(Start { facts: Arc::new(facts), originals: Arc::new(originals), ..start })
    }

    /// Adds the ignored files that the policy protects to the files of a revision, as they were kept at an opening.
    async fn add_protected(
        &self,
        revision: &Arc<Revision>,
        start: &Start,
        rules: InputRules,
        opened: Arc<Kept>,
    ) -> Result<(), Failure> {
        let (revision, manifest) = (Arc::clone(revision), Arc::clone(&start.manifest));
        let cancel = self.cancel.clone();
        let adding = spawn_blocking(move || {
            let check =
                || if cancel.is_cancelled() { Err(ToolError::called_off()) } else { Ok(()) };
            let is_kept = |entry: &Entry| {
                opened.manifest.get(&entry.path).is_some_and(|it| it.content == entry.content)
            };
            // A path below what is no folder at the revision cannot be put beside its files.
            let fits = |entry: &Entry| {
                let above = Path::new(OsStr::from_bytes(&entry.path)).ancestors().skip(1);
                above.filter(|above| !above.as_os_str().is_empty()).all(|above| {
                    let found = manifest.get(above.as_os_str().as_bytes());
                    found.is_none_or(|found| found.kind == Kind::Folder)
                })
            };
            let which =
                |entry: &Entry| is_protected(&rules, entry) && is_kept(entry) && fits(entry);
            if !manifest.entries().iter().any(which) {
                return Ok(());
            }
            let from = Workspace::open(&opened.folder)?;
            keep(&from, &manifest, revision.files(), (&which, u64::MAX), &check)
        });
        adding.await.map_err(defect)?.map_err(|error| failed(&error))
    }

    /// What is assumed of the files that checks name.
    ///
    /// # Errors
    /// `value_invalid` for a protected glob that names nothing.
    pub fn assumptions(&self, start: &Start, plan: &VerifyPlan) -> Result<Vec<Warning>, Failure> {
        let rules = rules(plan)?;
        if let Some(glob) = rules.unmatched(&start.manifest) {
            let message =
                format!("`policy.protect` has {glob:?}, which names nothing at the start");
            let advice = "Name a file or a folder that is there, or leave it out.";
            return Err(Failure::new(Code::ValueInvalid, message, advice).at("policy.protect"));
        }
        let root = self.workspace.root().as_os_str().as_bytes();
        let inputs = StartInputs::new(&rules, &start.facts.imports, &start.manifest, root);
        Ok(assumptions_at_start(&plan.plan.verify, &inputs))
    }

    /// How a person's own command is run. `confine` is whether it is confined where the machine can.
    ///
    /// # Errors
    /// The current folder is unknown.
    pub async fn participant(&self, argv: Vec<String>, confine: bool) -> Result<Attached, Failure> {
        let here = std::env::current_dir().map_err(Failure::file(Path::new(".")))?;
        let root = self.workspace.root();
        // The command begins where the person stands, if that is a part of the workspace.
        let folder = here.canonicalize().ok().filter(|here| here.starts_with(root));
        let own = |name: &OsString| {
            name == OWN_DATABASE || name.to_string_lossy().starts_with(OWN_PREFIX)
        };
        let participant = Participant {
            argv,
            folder: folder.unwrap_or_else(|| root.to_owned()),
            environment: std::env::vars_os().filter(|(name, _)| !own(name)).collect(),
            closed_ports: self.service_ports.clone(),
            confine,
        };
        let (sandbox, workspace) = (self.sandbox.clone(), Arc::clone(&self.workspace));
        let folder = Arc::clone(&self.folder);
        let describing = spawn_blocking(move || {
            Ok(sandbox.participant((&workspace, folder.git()?), &participant))
        });
        describing.await.map_err(defect)?.map_err(|error: ToolError| failed(&error))
    }
}

impl Scene {
    /// Moves what a command added to toolchains, program folders and caches to the data folder, and says so. Answers whether
    /// something stayed that a later verification would use.
    ///
    /// # Errors
    /// The task failed.
    pub async fn set_aside(&self, absent: &[PathBuf]) -> Result<bool, Failure> {
        let Some(data) = self.data.clone() else {
            return Ok(absent.iter().any(|path| path.symlink_metadata().is_ok()));
        };
        let absent = absent.to_vec();
        let name = clock::now().format("%Y%m%dT%H%M%S%.6f").to_string();
        let moving = spawn_blocking(move || set_aside(&absent, &data, &name));
        let found = moving.await.map_err(defect)?;
        for (from, to) in &found.moved {
            note(&format!(
                "surety: the command added {}, which later checks would use; it is in {} now",
                from.display(),
                to.display()
            ));
        }
        for (path, error) in &found.left {
            note(&format!(
                "surety: the command added {}, which later checks will use: it could not be moved away ({error}); look at it, and \
                 remove it",
                path.display()
            ));
        }
        Ok(!found.left.is_empty())
    }
}

fn begin(
    workspace: &Workspace,
    counted: &[String],
    cancel: &CancellationToken,
) -> Result<Start, ToolError> {
    let check = || if cancel.is_cancelled() { Err(ToolError::called_off()) } else { Ok(()) };
    let (snapshots, manifest) = Snapshots::begin(workspace, counted, &check)?;
    Ok(Start {
        snapshots: Arc::new(snapshots),
        manifest: Arc::new(manifest),
        facts: Arc::default(),
        originals: Arc::default(),
        revision: None,
    })
}

/// The start of an earlier moment, whose copy must be what it was.
fn again(
    workspace: &Workspace,
    kept: &Kept,
    rules: &InputRules,
    counted: &[String],
    cancel: &CancellationToken,
) -> Result<Start, ToolError> {
    let check = || if cancel.is_cancelled() { Err(ToolError::called_off()) } else { Ok(()) };
    let which = |entry: &Entry| !entry.ignored || is_protected(rules, entry);
    if let Some(path) = altered(&kept.folder, &kept.manifest, &which, &check)? {
        let message = format!(
            "the copy of the start in {} was changed at {}; open a new contract",
            kept.folder.display(),
            path.display()
        );
        return Err(ToolError::new(ErrorCode::IoFailed, message));
    }
    let (snapshots, manifest) = resumed(workspace, &kept.manifest, counted, &check)?;
    Ok(Start {
        snapshots: Arc::new(snapshots),
        manifest: Arc::new(manifest),
        facts: Arc::default(),
        originals: Arc::default(),
        revision: None,
    })
}

/// Whether an entry of a start is an ignored file that is a check input, and small enough to be put back.
#[must_use]
pub fn is_protected(rules: &InputRules, entry: &Entry) -> bool {
    entry.ignored
        && entry.size <= MAX_ORIGINAL
        && matches!(entry.content, Content::File(_))
        && rules.keeps_ignored(&entry.path)
}

/// Which files are check inputs.
///
/// # Errors
/// `value_invalid` for a glob that does not read.
pub fn rules(plan: &VerifyPlan) -> Result<InputRules, Failure> {
    InputRules::new(&plan.policy.protect, &plan.policy.may_change)
        .map_err(|problem| Failure::new(Code::ValueInvalid, problem.to_string(), "").at("policy"))
}

fn refuse(workspace: &Workspace, data: Option<&DataFolder>) -> Result<(), Failure> {
    let both = |path: PathBuf| {
        let real = path.canonicalize().ok();
        std::iter::once(path).chain(real)
    };
    let home = std::env::home_dir().filter(|home| home.parent().is_some());
    let reserved = Reserved {
        homes: home.into_iter().flat_map(both).collect(),
        data: data.map(|data| data.path().to_owned()).into_iter().flat_map(both).collect(),
    };
    check_workspace(workspace.root(), &reserved).map_err(|unfit| {
        Failure::new(Code::WorkspaceRefused, unfit.to_string(), "").at("--workspace")
    })
}

/// A folder in the data folder where that can be written, else in the machine's temporary one.
fn scratch_folder(data: Option<&DataFolder>) -> Result<ScratchFolder, Failure> {
    let kept = data.map(|data| data.path().join(KEPT));
    // A command may run under another account, which has to get through.
    let made = kept.filter(|kept| scratch::make(kept).is_ok());
    let inside = made.and_then(|kept| {
        scratch::sweep(&kept, PREFIX);
        ScratchFolder::make(&kept, PREFIX).ok()
    });
    match inside {
        Some(scratch) => Ok(scratch),
        None => {
            let temporary = std::env::temp_dir();
            ScratchFolder::make(&temporary, PREFIX).map_err(Failure::file(&temporary))
        }
    }
}

fn unusable(path: &Path, error: &ToolError) -> Failure {
    let message = format!("the workspace {} cannot be used: {}", path.display(), error.message);
    Failure::new(Code::FileUnusable, message, "Name a folder with --workspace.")
}

fn confined(error: &SandboxError) -> Failure {
    Failure::new(Code::VerificationFailed, error.to_string(), "")
}

fn unread(error: &RevisionError) -> Failure {
    let (code, advice) = match error {
        RevisionError::NoRepository(_) => (
            Code::RevisionUnknown,
            "Make a repository with a commit, or let `surety verify` run a command (after `--`): the workspace is \
             then compared with itself before the command.",
        ),
        RevisionError::Unknown { .. } => (
            Code::RevisionUnknown,
            "Name a commit, a branch or a tag with --base; fetch it first in CI.",
        ),
        RevisionError::Unborn { .. } => {
            (Code::RevisionUnknown, "Make a first commit: `git commit --allow-empty -m start`.")
        }
        RevisionError::Forged { .. } => {
            (Code::GitFailed, "Its objects were changed: fetch the repository again.")
        }
        RevisionError::Git { .. } => (Code::GitFailed, ""),
        RevisionError::Tool(_) => (Code::VerificationFailed, ""),
    };
    Failure::new(code, error.to_string(), advice)
}

/// A failure of the runner, after which there is no verdict.
pub(super) fn failed(error: &ToolError) -> Failure {
    Failure::new(Code::VerificationFailed, error.to_string(), "")
}

pub(super) fn defect(error: tokio::task::JoinError) -> Failure {
    Failure::new(Code::Internal, error.to_string(), "")
}
