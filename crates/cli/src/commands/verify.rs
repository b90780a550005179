//! `surety verify [PLAN] [-- COMMAND...]`

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use surety_common::clock;
use surety_common::config::{ClientConfig, GateProbeConfig, SandboxConfig};
use surety_common::domain::check::AcceptCheck;
use surety_executor::snapshot::Snapshots;
use surety_executor::tool::process::{Finished, run_attached};
use surety_executor::tool::{Attached, ErrorCode};
use surety_planner::plan::standing_at;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::{Output, note};
use crate::plan_file::{folder_of, read_text};
use crate::text::warning_line;
use crate::verify::{
    Caution, DEFAULT_BASE, DEFAULT_PLAN, Document, OVERLAY_READABLE, Ran, Recorded, Scene, Signed,
    Signer, StartFrom, Subject, Traces, VerdictFile, VerifyPlan, as_left, as_text, ask, beside_at,
    check_programs, compare, default_verdict_file, ensure_writable, judge, not_compared, of_run,
    origin_of, real, resolve, text_at,
};

/// Verifies a workspace, without a service.
#[derive(Debug, Args)]
pub struct Verify {
    /// The file with the checks, YAML or JSON; by default `.surety/checks.yaml` in the folder that is verified.
    #[arg(value_name = "PLAN")]
    pub(super) plan: Option<PathBuf>,

    /// The folder to verify; by default the current one.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,

    /// The git revision to compare with, where no command is named; by default HEAD.
    #[arg(long, value_name = "REV", conflicts_with = "command")]
    pub(super) base: Option<String>,

    /// Only say whether the workspace is still what a verdict is about: a verdict file, or a run's id, the
    /// beginning of one, or `last`.
    #[arg(long, value_name = "FILE|RUN", conflicts_with_all = ["plan", "base", "command"])]
    still: Option<String>,

    /// Where to write the verdict file; by default `surety/verdict.json` in git's own folder, and without
    /// git in the data folder.
    #[arg(long, value_name = "FILE")]
    verdict: Option<PathBuf>,

    /// Answer the stop hook of an agent, whose input is on standard input: the agent goes on while the verdict
    /// refuses. The verdict is that of the open contract, if there is one and neither PLAN nor --base is named.
    #[arg(long, conflicts_with_all = ["still", "command"])]
    hook: bool,

    /// How often a hook makes one session go on before it lets the agent stop without an accepted verdict.
    #[arg(long, value_name = "N", default_value_t = 5, requires = "hook")]
    pub(super) hook_limit: u32,

    /// Run the command outside the sandbox; the verdict then has the caution `participant_unconfined`.
    #[arg(long, requires = "command")]
    unconfined: bool,

    /// The command that changes the workspace, such as an agent, with this terminal. Its exit code decides
    /// nothing.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,

    #[command(flatten)]
    pub(super) probe: GateProbeConfig,

    #[command(flatten)]
    sandbox: SandboxConfig,

    #[command(flatten)]
    pub(super) client: Box<ClientConfig>,
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
        if self.hook {
            return self.answer_hook(scene, output).await;
        }
        let (verdict, file) =
            self.judged(scene, Traces { asks: true, ..Traces::default() }).await?;
        if output.json {
            output.line(&verdict.compact()?)?;
        } else {
            output.line(&as_text(&verdict))?;
            output.line(&format!("  written  {}", file.display()))?;
        }
        Ok(if verdict.accepted { Exit::Done } else { Exit::NotAccepted })
    }

    /// Runs the command, if there is one, carries out the round, and writes the verdict.
    pub(super) async fn judged(
        &self,
        scene: &Scene,
        mut participant: Traces,
    ) -> Result<(VerdictFile, PathBuf), Failure> {
        let base = self.base.as_deref().unwrap_or(DEFAULT_BASE);
        let from = match self.command.as_slice() {
            [] => StartFrom::Revision(scene.read_revision(base).await?),
            _ => StartFrom::Now,
        };
        let plan = self.read_plan(scene, &from)?;
        self.check_programs(scene, &plan, &from)?;
        let start = scene.start(&from, &plan, None).await?;
        for warning in scene.assumptions(&start, &plan)? {
            note(&warning_line(&warning.into()));
        }
        let file = self.verdict_file(scene.workspace.root(), &start.snapshots)?;
        ensure_writable(&file)?;
        let signer = Signer::open(&self.client)?;
        let origin = origin_of(&from, base, &start);
        let command = match &from {
            StartFrom::Now => {
                let attached = scene.participant(self.command.clone(), !self.unconfined).await?;
                participant.is_unconfined = !attached.is_confined;
                let ran = self.carry_out(scene, &attached).await?;
                if attached.is_confined {
                    participant.is_unconfined |= scene.set_aside(&attached.absent).await?;
                }
                participant.absent = attached.absent;
                Some(ran)
            }
            StartFrom::Revision(_) | StartFrom::Kept(_) => {
                participant.cautions.extend(as_left(&start));
                None
            }
        };
        participant.cautions.extend(self.readable(scene, &plan));
        let rules = std::sync::Arc::clone(&start.manifest.rules);
        let allowed = self.probe.gate_probe_allow.as_deref();
        let mut judged = judge(scene, start, &plan, participant, allowed).await?;
        if let Some((question, difference)) = judged.question.take() {
            let answer = ask(&question.acceptance, &difference);
            judged = resolve(scene, &plan, judged, &answer).await?;
        }
        let root = scene.workspace.root();
        let subject = Subject { root, rules: &rules, origin, command };
        let mut verdict = VerdictFile::of(&plan, subject, &judged, clock::now());
        signer.sign(&mut verdict)?;
        // A command can take away the place that was there before it, and the verdict is not lost with it.
        verdict.write(&file).inspect_err(|_| note(&as_text(&verdict)))?;
        Ok((verdict, file))
    }

    /// The checks: of the work tree before a command runs, else of the revision. A file outside the work
    /// tree is no part of a revision, and is read as it is.
    fn read_plan(&self, scene: &Scene, from: &StartFrom) -> Result<VerifyPlan, Failure> {
        let root = scene.workspace.root();
        let named = self.plan.clone().unwrap_or_else(|| root.join(DEFAULT_PLAN));
        let text = match from {
            _ if named == Path::new("-") => read_text(&named)?,
            StartFrom::Now if !named.exists() => {
                let message = format!("there is no checks file {}", named.display());
                return Err(Failure::new(Code::PlanMissing, message, WRITE_ONE));
            }
            StartFrom::Now | StartFrom::Revision(_) | StartFrom::Kept(_) => text_at(&named, from)?,
        };
        let folder = folder_of(&named);
        let beside = |path: &Path| beside_at(folder, path, from);
        let files = from.files().unwrap_or(scene.workspace.root());
        let plan =
            VerifyPlan::read(&named, &text, &beside, &|path| standing_at(files, Path::new(path)))?;
        plan.warnings.iter().for_each(|warning| note(&warning_line(&warning.clone().into())));
        Ok(plan)
    }

    /// The caution about hidden checks that the participant could read: the checks file is in the work tree.
    fn readable(&self, scene: &Scene, plan: &VerifyPlan) -> Option<Caution> {
        let hides = plan.plan.verify.iter().any(AcceptCheck::is_hidden);
        // Standard input is no file.
        let is_file = plan.path != Path::new("-");
        let inside =
            is_file && real(&plan.path).is_ok_and(|path| path.starts_with(scene.workspace.root()));
        (hides && inside).then(|| Caution {
            code: OVERLAY_READABLE.to_owned(),
            check: String::new(),
            detail: format!(
                "{} is in the workspace, where a participant reads it; keep it elsewhere",
                plan.path.display()
            ),
        })
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
            from.files().is_some_and(|files| files.join(path).exists()) || root.join(path).exists()
        })
    }

    /// Runs the command with this terminal.
    async fn carry_out(&self, scene: &Scene, attached: &Attached) -> Result<Ran, Failure> {
        let began = Instant::now();
        let ran = run_attached(&attached.spec, &scene.cancel).await.map_err(|error| {
            let message =
                format!("`{}` was not started: {}", self.command.join(" "), error.message);
            let advice = match error.code == ErrorCode::ProgramNotFound {
                true => "Name a program that is installed.",
                false => "docs/sandbox.md says what the sandbox needs; --unconfined leaves it out.",
            };
            Failure::new(Code::CommandNotStarted, message, advice)
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
        let Some(named) = &self.verdict else {
            return default_verdict_file(root, &self.client.folder);
        };
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

    /// What a verdict recorded of its workspace, and who signed it.
    async fn recorded(&self, still: &str) -> Result<(Recorded, Option<Signed>), Failure> {
        let path = Path::new(still);
        if path.exists() {
            let document = Document::read(path)?;
            let signed = document.check_signature(&self.client)?;
            let recorded = match signed {
                Signed::Changed(_) => document.named_workspace(),
                Signed::By(_) | Signed::Unsigned { .. } => document.verdict()?.workspace,
            };
            return Ok((recorded, Some(signed)));
        }
        if is_path(still) {
            let message = format!("there is no verdict file {still:?}");
            let advice = "Name a file that `surety verify` wrote, or a run.";
            return Err(Failure::new(Code::FileUnusable, message, advice).at("--still"));
        }
        let connection = Connection::open(&self.client)?;
        let run_id = connection.resolve(still).await?;
        Ok((of_run(&connection, &run_id).await?, None))
    }

    async fn compare(&self, still: &str, output: Output) -> Result<Exit, Failure> {
        let (recorded, signed) = self.recorded(still).await?;
        let workspace = self.workspace.clone().unwrap_or_else(|| recorded.path.clone().into());
        if let Some(signed @ Signed::Changed(_)) = signed {
            let comparison = not_compared(&workspace, &recorded, signed);
            output.either(&comparison.to_json(), || comparison.to_text())?;
            return Ok(Exit::NotAccepted);
        }
        if workspace.as_os_str().is_empty() {
            let message = format!("run {still} worked in a folder of its own");
            let advice = "Name the folder with --workspace.";
            return Err(Failure::new(Code::ValueInvalid, message, advice).at("--workspace"));
        }
        let comparison = compare(&workspace, &recorded, signed).await?;
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
