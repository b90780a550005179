//! `surety verify [PLAN] [-- COMMAND...]`

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use surety_common::clock;
use surety_common::config::{ClientConfig, GateProbeConfig, SandboxConfig};
use surety_common::domain::check::AcceptCheck;
use surety_common::domain::manifest::digest;
use surety_executor::revision::{Revision, git_folder};
use surety_executor::round::Start;
use surety_executor::snapshot::Snapshots;
use surety_executor::tool::process::{Finished, run_attached};
use surety_executor::tool::{Attached, Workspace};

use crate::connection::Connection;
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::output::{Output, note};
use crate::plan_file::{folder_of, read_beside, read_text};
use crate::text::warning_line;
use crate::verify::{
    Caution, Origin, Ran, Recorded, Scene, StartFrom, StartKind, Subject, Traces, VerdictFile,
    VerifyPlan, as_text, ask, check_programs, compare, judge, of_run, resolve,
};

/// Where the checks are, below the workspace or the top of its work tree.
const DEFAULT_PLAN: &str = ".surety/checks.yaml";
/// What the workspace is compared with, where no command changes it.
const DEFAULT_BASE: &str = "HEAD";
/// The caution about hidden checks whose files a participant could read.
const OVERLAY_READABLE: &str = "overlay_readable";
/// The largest checks file in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// Verifies a workspace, without a service.
#[derive(Debug, Args)]
pub struct Verify {
    /// The file with the checks, YAML or JSON; by default `.surety/checks.yaml` in the work tree.
    #[arg(value_name = "PLAN")]
    plan: Option<PathBuf>,

    /// The folder to verify; by default the current one.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,

    /// The git revision to compare with, where no command is named; by default HEAD.
    #[arg(long, value_name = "REV", conflicts_with = "command")]
    base: Option<String>,

    /// Only say whether the workspace is still what a verdict is about: a verdict file, or a run's id, the
    /// beginning of one, or `last`.
    #[arg(long, value_name = "FILE|RUN", conflicts_with_all = ["plan", "base", "command"])]
    still: Option<String>,

    /// Where to write the verdict file; by default `surety/verdict.json` in git's own folder, and without
    /// git in the data folder.
    #[arg(long, value_name = "FILE")]
    verdict: Option<PathBuf>,

    /// Run the command outside the sandbox; the verdict then has the caution `participant_unconfined`.
    #[arg(long, requires = "command")]
    unconfined: bool,

    /// The command that changes the workspace, such as an agent, with this terminal. Its exit code decides
    /// nothing.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,

    #[command(flatten)]
    probe: GateProbeConfig,

    #[command(flatten)]
    sandbox: SandboxConfig,

    #[command(flatten)]
    client: Box<ClientConfig>,
}

impl Verify {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        if let Some(still) = &self.still {
            return self.compare(still, output).await;
        }
        let scene = Scene::open(&self.folder(), &self.client, self.sandbox.clone()).await?;
        let interrupted = scene.cancel.clone();
        let watching = tokio::spawn(async move {
            match tokio::signal::ctrl_c().await {
                Ok(()) => interrupted.cancel(),
                Err(error) => note(&format!("surety: Ctrl-C cannot be noticed: {error}")),
            }
        });
        let ended = self.verify(&scene, output).await;
        watching.abort();
        if scene.cancel.is_cancelled() {
            note("surety: interrupted; there is no verdict");
            return Ok(Exit::Interrupted);
        }
        ended
    }

    fn folder(&self) -> PathBuf {
        self.workspace.clone().unwrap_or_else(|| PathBuf::from("."))
    }

    async fn verify(&self, scene: &Scene, output: Output) -> Result<Exit, Failure> {
        let base = self.base.as_deref().unwrap_or(DEFAULT_BASE);
        let from = match self.command.as_slice() {
            [] => StartFrom::Revision(scene.read_revision(base).await?),
            _ => StartFrom::Now,
        };
        let plan = self.read_plan(scene, &from)?;
        self.check_programs(scene, &plan, &from)?;
        let start = scene.start(&from, &plan).await?;
        for warning in scene.assumptions(&start, &plan)? {
            note(&warning_line(&warning.into()));
        }
        let file = self.verdict_file(scene.workspace.root(), &start.snapshots)?;
        let origin = origin(&from, base, &start);
        let (mut cautions, mut is_unconfined) = (Vec::new(), false);
        let (command, absent) = match &from {
            StartFrom::Now => {
                let attached = scene.participant(self.command.clone(), !self.unconfined).await?;
                is_unconfined = !attached.is_confined;
                let ran = self.carry_out(scene, &attached).await?;
                (Some(ran), attached.absent)
            }
            StartFrom::Revision(_) => {
                cautions.extend(as_left(&start));
                (None, Vec::new())
            }
        };
        cautions.extend(self.readable(scene, &plan));
        let rules = std::sync::Arc::clone(&start.manifest.rules);
        let allowed = self.probe.gate_probe_allow.as_deref();
        let participant = Traces { absent, is_unconfined };
        let mut judged = judge(scene, start, &plan, participant, allowed).await?;
        if let Some((question, difference)) = judged.question.take() {
            let answer = ask(&question.acceptance, &difference);
            judged = resolve(scene, &plan, judged, &answer).await?;
        }
        let root = scene.workspace.root();
        let subject = Subject { root, rules: &rules, origin, command, cautions };
        let verdict = VerdictFile::of(&plan, subject, &judged, clock::now());
        verdict.write(&file)?;
        if output.json {
            output.line(&verdict.compact()?)?;
        } else {
            output.line(&as_text(&verdict))?;
            output.line(&format!("  written  {}", file.display()))?;
        }
        Ok(if verdict.accepted { Exit::Done } else { Exit::NotAccepted })
    }

    /// The checks: of the work tree before a command runs, else of the revision. A file outside the work
    /// tree is no part of a revision, and is read as it is.
    fn read_plan(&self, scene: &Scene, from: &StartFrom) -> Result<VerifyPlan, Failure> {
        let root = scene.workspace.root();
        let named = self.plan.clone().unwrap_or_else(|| root.join(DEFAULT_PLAN));
        let text = match from {
            _ if named == Path::new("-") => read_text(&named)?,
            StartFrom::Revision(revision) => match self.in_revision(&named, revision)? {
                Some(bytes) => String::from_utf8(bytes).map_err(|error| {
                    let message = format!("{} is not UTF-8 text: {error}", named.display());
                    Failure::new(Code::PlanMissing, message, "Check that it is the right file.")
                })?,
                None => read_text(&named)?,
            },
            StartFrom::Now if named.exists() => read_text(&named)?,
            StartFrom::Now => {
                let message = format!("there is no checks file {}", named.display());
                return Err(Failure::new(Code::PlanMissing, message, WRITE_ONE));
            }
        };
        let folder = folder_of(&named);
        let beside = |path: &Path| match from {
            StartFrom::Revision(revision) => {
                match self.in_revision(&folder.join(path), revision)? {
                    Some(bytes) => Ok(bytes),
                    None => read_beside(folder, path),
                }
            }
            StartFrom::Now => read_beside(folder, path),
        };
        let plan = VerifyPlan::read(&named, &text, &beside)?;
        plan.warnings.iter().for_each(|warning| note(&warning_line(&warning.clone().into())));
        Ok(plan)
    }

    /// The caution about hidden checks that the participant could read: the checks file is in the work tree.
    fn readable(&self, scene: &Scene, plan: &VerifyPlan) -> Option<Caution> {
        let hides = plan.plan.verify.iter().any(AcceptCheck::is_hidden);
        let inside = real(&plan.path).is_ok_and(|path| path.starts_with(scene.workspace.root()));
        (hides && inside).then(|| Caution {
            code: OVERLAY_READABLE.to_owned(),
            check: String::new(),
            detail: format!(
                "{} is in the workspace, where a participant reads it; keep it elsewhere",
                plan.path.display()
            ),
        })
    }

    /// The content of a file in a revision; none for a path outside its work tree.
    fn in_revision(&self, named: &Path, revision: &Revision) -> Result<Option<Vec<u8>>, Failure> {
        let whole = real(named)?;
        let Ok(inner) = whole.strip_prefix(revision.top()) else { return Ok(None) };
        let missing = |why: String| {
            let message = format!(
                "the commit {} has no usable checks file {}: {why}",
                revision.commit(),
                inner.display()
            );
            let advice =
                "Commit the file, name one outside the work tree, or run a command after `--`.";
            Failure::new(Code::PlanMissing, message, advice)
        };
        let read = || {
            let folder = Workspace::open(revision.folder())?;
            folder.read(&folder.locate(&inner.to_string_lossy())?, MOST_BYTES)
        };
        read().map(Some).map_err(|error| missing(error.code.meaning().to_owned()))
    }

    fn check_programs(
        &self,
        scene: &Scene,
        plan: &VerifyPlan,
        from: &StartFrom,
    ) -> Result<(), Failure> {
        let root = scene.workspace.root();
        let may_be_made = matches!(from, StartFrom::Now);
        check_programs(plan, &scene.environment, may_be_made, |path| {
            let at_the_start = match from {
                StartFrom::Now => false,
                StartFrom::Revision(revision) => revision.files().join(path).exists(),
            };
            at_the_start || root.join(path).exists()
        })
    }

    /// Runs the command with this terminal.
    async fn carry_out(&self, scene: &Scene, attached: &Attached) -> Result<Ran, Failure> {
        let began = Instant::now();
        let ran = run_attached(&attached.spec, &scene.cancel).await.map_err(|error| {
            let message = format!("{:?} was not started: {}", self.command, error.message);
            Failure::new(Code::CommandNotStarted, message, "Name a program that is installed.")
        })?;
        let Finished { exit_code, sandbox, left, .. } = ran;
        Ok(Ran {
            argv: self.command.clone(),
            exit_code,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            sandbox,
            left: left.into_iter().map(|left| left.name).collect(),
        })
    }

    /// Where the verdict goes. A file that counts as a part of the workspace would change what the verdict
    /// is about.
    fn verdict_file(&self, root: &Path, snapshots: &Snapshots) -> Result<PathBuf, Failure> {
        let Some(named) = &self.verdict else { return self.default_file(root) };
        let whole = real(named)?;
        let Ok(inner) = whole.strip_prefix(root) else { return Ok(whole) };
        if inner.starts_with(".git") || snapshots.ignores(inner) {
            return Ok(whole);
        }
        let message =
            format!("the verdict file {} would be a part of the workspace", named.display());
        let advice = "Name a file outside the workspace, or one that git ignores.";
        Err(Failure::new(Code::ValueInvalid, message, advice).at("--verdict"))
    }

    fn default_file(&self, root: &Path) -> Result<PathBuf, Failure> {
        if let Some(git) = git_folder(root) {
            return Ok(git.join("surety/verdict.json"));
        }
        let name = root.file_name().map(|name| name.to_string_lossy().into_owned());
        let at = clock::now().format("%Y%m%dT%H%M%S%3fZ");
        let name = format!("{}-{at}.json", name.unwrap_or_default());
        Ok(DataFolder::choose(&self.client.folder)?.path().join("verdicts").join(name))
    }

    /// What a verdict recorded of its workspace.
    async fn recorded(&self, still: &str) -> Result<Recorded, Failure> {
        let path = Path::new(still);
        if path.exists() {
            return Ok(VerdictFile::read(path)?.workspace);
        }
        if is_path(still) {
            let message = format!("there is no verdict file {still:?}");
            let advice = "Name a file that `surety verify` wrote, or a run.";
            return Err(Failure::new(Code::FileUnusable, message, advice).at("--still"));
        }
        let connection = Connection::open(&self.client)?;
        let run_id = connection.resolve(still).await?;
        of_run(&connection, &run_id).await
    }

    async fn compare(&self, still: &str, output: Output) -> Result<Exit, Failure> {
        let recorded = self.recorded(still).await?;
        let workspace = self.workspace.clone().unwrap_or_else(|| recorded.path.clone().into());
        if workspace.as_os_str().is_empty() {
            let message = format!("run {still} worked in a folder of its own");
            let advice = "Name the folder with --workspace.";
            return Err(Failure::new(Code::ValueInvalid, message, advice).at("--workspace"));
        }
        let comparison = compare(&workspace, &recorded).await?;
        output.either(&comparison.to_json(), || comparison.to_text())?;
        Ok(if comparison.holds() { Exit::Done } else { Exit::NotAccepted })
    }
}

/// Whether a text can only be the path of a file.
fn is_path(text: &str) -> bool {
    text.contains(['/', '.'])
}

/// What to do without a checks file.
const WRITE_ONE: &str = "Write one with a list of commands under `verify`, such as `verify: [make test]`, \
                         or name another file.";

/// An absolute path without links in its folder; the file itself need not be there.
fn real(named: &Path) -> Result<PathBuf, Failure> {
    let whole = std::path::absolute(named).map_err(Failure::file(named))?;
    let (Some(folder), Some(name)) = (whole.parent(), whole.file_name()) else { return Ok(whole) };
    Ok(folder.canonicalize().map_or_else(|_| whole.clone(), |folder| folder.join(name)))
}

fn origin(from: &StartFrom, base: &str, start: &Start) -> Origin {
    let digest = digest(&start.manifest);
    match from {
        StartFrom::Now => Origin { kind: StartKind::Command, digest, revision: None, commit: None },
        StartFrom::Revision(revision) => Origin {
            kind: StartKind::Revision,
            digest,
            revision: Some(base.to_owned()),
            commit: Some(revision.commit().to_owned()),
        },
    }
}

fn as_left(start: &Start) -> Option<Caution> {
    let ignored = start.manifest.entries().iter().filter(|entry| entry.ignored).count();
    (ignored > 0).then(|| Caution {
        code: "ignored_inputs_as_left".to_owned(),
        check: String::new(),
        detail: "a revision holds no ignored files: the checks used those that were there"
            .to_owned(),
    })
}
