//! The canary of a check: failing tests in its view, which its line must report as failed.

use super::Round;
use super::additions::ViewOrder;
use super::canary_memory::{Canary, LONGEST, Memory, base_of};
use super::opening::Opening;
use crate::blocking::blocking;
use crate::tool::{ErrorCode, RelPath, ToolError, ToolOutcome, Workspace};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;
use surety_common::domain::canary::{
    OwnTest, facts_of, hosts, hosts_started, language_of_runner, narrow, not_run, plant, plant_own,
    plant_started, reported,
};
use surety_common::domain::check_inputs::{InputKind, convention_of};
use surety_common::domain::manifest::{Entry, Kind};
use surety_common::domain::receipt::Inputs;
use surety_common::domain::run::CanaryPolicy;
use surety_common::domain::source_tests::may_have_tests;
use surety_common::domain::tests_named::{language_of_tests, lists_tests};
use surety_common::domain::tests_seen::{Runner, Started};
use surety_common::domain::verification::{Observation, Probe};
use uuid::Uuid;

/// A recipe that took longer is replaced by the one command that it runs.
const LONG_RECIPE: Duration = Duration::from_secs(10);
/// The most test files that are read to choose from.
const MAX_FILES: usize = 500;
/// The largest of them, in bytes.
const MAX_BYTES: u64 = 512 << 10;

impl Round {
    /// Whether the command of a check was started with the original check inputs.
    pub(super) fn did_run(&self, probe: &Probe) -> bool {
        self.memory().ran(probe, Inputs::Original).is_some()
    }

    /// The run of a canary that is due after these runs of a check.
    pub(super) fn next_canary(&self, probe: &Probe, so_far: &[(Inputs, bool)]) -> Option<Inputs> {
        let base = base_of(so_far)?;
        let ran = |inputs| so_far.iter().find(|(ran, _)| *ran == inputs).map(|(_, held)| *held);
        match ran(Inputs::Canary) {
            None => self.is_due(probe, base).then_some(Inputs::Canary),
            Some(true) => None,
            Some(false) => {
                let is_known = self.memory().canaries.contains_key(&probe.check_id);
                let doubt = is_known && ran(Inputs::CanaryAtStart).is_none();
                doubt.then_some(Inputs::CanaryAtStart)
            }
        }
    }

    fn is_due(&self, probe: &Probe, base: Inputs) -> bool {
        let Ok(opening) = self.opening() else { return false };
        let memory = self.memory();
        let Some(ran) = memory.runs.get(&(probe.check_id.clone(), base)) else { return false };
        if ran.runners.is_empty() {
            let is_known = base == Inputs::Original && ran.harness.is_some();
            return is_known && ran.took <= LONGEST;
        }
        let languages: Vec<_> =
            ran.runners.iter().map(|runner| language_of_runner(*runner)).collect();
        let is_installed = base == Inputs::OriginalWithIgnored;
        match self.setup.additions.canary {
            CanaryPolicy::Always => !languages.is_empty(),
            // What prepares the view installs what the manifests ask for.
            CanaryPolicy::Auto | CanaryPolicy::Never
                if is_installed
                    || !opening.prepare.is_empty() && !opening.dependencies.is_empty() =>
            {
                !languages.is_empty() && !opening.dependencies.is_empty()
            }
            CanaryPolicy::Auto | CanaryPolicy::Never => {
                languages.iter().any(|language| opening.loadable.contains(language))
            }
        }
    }

    /// Runs the canary of a check, with the code of the round or with that of the start.
    pub(super) async fn run_canary(
        self: &Arc<Self>,
        probe: &Probe,
        (inputs, base): (Inputs, Inputs),
        call_id: Uuid,
    ) -> Result<ToolOutcome, ToolError> {
        // The verdict says that it was left out. Beside an added dependency no request can leave it out.
        let is_never = matches!(self.setup.additions.canary, CanaryPolicy::Never);
        if is_never && base != Inputs::OriginalWithIgnored {
            return Ok(is_not_run("policy.canary is never"));
        }
        let line = self.line_of(probe).await?;
        let canary = match inputs {
            Inputs::Canary => {
                let only = self.only_command(&line, &ViewOrder::beside(probe, base)).await?;
                let (round, probe, line) = (Arc::clone(self), probe.clone(), line.clone());
                match blocking(move || round.plan(&probe, base, &line, only.as_deref())).await?? {
                    Ok(canary) => canary,
                    Err(why) => return Ok(is_not_run(&why)),
                }
            }
            Inputs::Unstated
            | Inputs::AsLeft
            | Inputs::Original
            | Inputs::OriginalWithIgnored
            | Inputs::CanaryAtStart
            | Inputs::TestsAtStart
            | Inputs::AtStart => match self.memory().canaries.get(&probe.check_id) {
                Some(canary) => Arc::clone(canary),
                None => return Ok(is_not_run("it is not known")),
            },
        };
        if inputs == Inputs::CanaryAtStart {
            self.read_start_files().await?;
            if self.may_be_ended(probe).await? {
                return Ok(is_not_run(
                    "the product ends programs at the start, and so may end the test",
                ));
            }
        }
        let view_of = if inputs == Inputs::Canary { base } else { inputs };
        let order =
            ViewOrder { canary: Some(Arc::clone(&canary)), ..ViewOrder::beside(probe, view_of) };
        if inputs == Inputs::CanaryAtStart
            && let Err(error) = self.prepare_start(call_id).await
        {
            return Ok(is_not_run(&error.message));
        }
        let prepared = match self.enter_view(&order, call_id).await {
            Ok(prepared) => prepared,
            // The start cannot be made again.
            Err(error)
                if inputs == Inputs::CanaryAtStart && error.code == ErrorCode::OutputNotKept =>
            {
                return Ok(is_not_run(&error.message));
            }
            Err(error) => return Err(error),
        };
        let line = canary.line.as_deref().unwrap_or(&line);
        let ran = self.run_in_view(prepared, line, probe.owner).await?;
        Ok(ended(&canary, ran))
    }

    /// The line of a check; the words of their command for the project's own tests.
    pub(super) async fn line_of(&self, probe: &Probe) -> Result<String, ToolError> {
        match &probe.observation {
            Observation::Command(line) => return Ok(line.clone()),
            Observation::Verification(verification) => return Ok(verification.line.clone()),
            Observation::Prepare(_)
            | Observation::ProjectTests
            | Observation::Change(_)
            | Observation::File { .. }
            | Observation::Content { .. } => {}
        }
        Ok(self.project_tests(Inputs::Original).await?.unwrap_or_default().join(" "))
    }

    /// Chooses the files that get failing tests, or says why there is no canary. It blocks.
    fn plan(
        &self,
        probe: &Probe,
        base: Inputs,
        line: &str,
        only: Option<&str>,
    ) -> Result<Result<Arc<Canary>, String>, ToolError> {
        let opening = self.opening()?;
        let key = (probe.check_id.clone(), base);
        let Some(ran) = self.memory().runs.get(&key).cloned() else {
            return Ok(Err("the check did not run".to_owned()));
        };
        let workspace = self.setup.folder.workspace()?;
        if let Some(path) = &ran.harness {
            let planted = self.planted_own(probe, &workspace, path);
            return Ok(planted.ok_or_else(|| "the test could not be read".to_owned()));
        }
        let runners: BTreeSet<Runner> = ran.runners.iter().copied().collect();
        let languages: BTreeSet<_> =
            runners.iter().map(|runner| language_of_runner(*runner)).collect();
        let mut files = self.test_files(&workspace, &probe.overlay, &languages)?;
        // The view has no source that is gone, so its tests would be missing without any patch.
        let stands = |path: &str| {
            let entry = opening.now.as_ref().and_then(|now| now.get(path.as_bytes()));
            convention_of(path) == Some(InputKind::Test)
                || opening.now.is_none()
                || entry.is_some_and(|entry| entry.kind == Kind::File)
        };
        let overlay = self.setup.additions.overlays.get(&probe.overlay);
        let is_covered = |path: &str| overlay.is_some_and(|it| it.iter().any(|(it, _)| it == path));
        files.retain(|(path, _)| stands(path) || is_covered(path));
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let changed: Vec<&str> = changed_paths(opening);
        // What a recipe runs may depend on it, so it is left out only where that saves much.
        let of_recipe = only.filter(|_| ran.took > LONG_RECIPE);
        let (mut chosen, mut tests) = (Vec::new(), Vec::new());
        let (mut narrowed, is_alone) = (None, runners.len() == 1 && ran.started.is_empty());
        let started = ran.started.into_iter().filter_map(|it| {
            let text = self.test_text(&workspace, &probe.overlay, &it.path)?;
            Some((it, text))
        });
        for (Started { runner, path }, text) in hosts_started(started.collect(), &changed) {
            let planted = plant_started(runner, &path, &text, &token());
            let Some(planted) = planted else { continue };
            tests.extend(planted.tests.iter().cloned());
            chosen.push((PathBuf::from(path), planted));
        }
        for runner in runners.iter().filter(|runner| ran.searching.contains(runner)) {
            let hosts = hosts(*runner, line, &files, &changed);
            let shorter = || {
                let direct = narrow(line, *runner, &hosts);
                direct.or_else(|| narrow(of_recipe?, *runner, &hosts))
            };
            narrowed = is_alone.then(shorter).flatten();
            for host in hosts {
                let text = files.iter().find(|(path, _)| *path == host).map(|(_, text)| *text);
                let planted = plant(*runner, host, text.unwrap_or_default(), &token());
                let Some(planted) = planted else { continue };
                tests.extend(planted.tests.iter().cloned());
                chosen.push((PathBuf::from(host), planted));
            }
        }
        if chosen.is_empty() {
            return Ok(Err("no test file of the start can take a failing test".to_owned()));
        }
        if narrowed.is_none() && ran.took > LONGEST {
            let seconds = ran.took.as_secs();
            return Ok(Err(format!(
                "the line took {seconds} s and cannot be narrowed to one file"
            )));
        }
        let canary =
            Arc::new(Canary { line: narrowed, hosts: chosen, hosts_at_start: Vec::new(), tests });
        self.memory().canaries.insert(probe.check_id.clone(), Arc::clone(&canary));
        Ok(Ok(canary))
    }

    /// The canary of a test that no known runner starts. It blocks.
    fn planted_own(&self, probe: &Probe, workspace: &Workspace, path: &str) -> Option<Arc<Canary>> {
        let text = self.test_text(workspace, &probe.overlay, path)?;
        let OwnTest { at_ends, in_front } = plant_own(path, &text, &token())?;
        let tests = at_ends.tests.clone();
        let [hosts, hosts_at_start] =
            [at_ends, in_front].map(|planted| vec![(PathBuf::from(path), planted)]);
        let canary = Arc::new(Canary { line: None, hosts, hosts_at_start, tests });
        self.memory().canaries.insert(probe.check_id.clone(), Arc::clone(&canary));
        Some(canary)
    }

    /// The test files of the start and of a hidden check, with their texts. It blocks.
    pub(super) fn test_files(
        &self,
        workspace: &Workspace,
        overlay: &str,
        languages: &BTreeSet<&'static str>,
    ) -> Result<Vec<(String, String)>, ToolError> {
        let of_language = |path: &str| {
            language_of_tests(path).is_some_and(|language| languages.contains(language))
        };
        let overlay = self.setup.additions.overlays.get(overlay);
        let mut files: Vec<(String, String)> = overlay
            .into_iter()
            .flat_map(|files| files.iter())
            .filter(|(path, _)| of_language(path))
            .map(|(path, content)| (path.clone(), String::from_utf8_lossy(content).into_owned()))
            .collect();
        let Some(start) = self.start()? else { return Ok(files) };
        let given = self.originals.get();
        let is_one = |entry: &&Entry| {
            let path = String::from_utf8_lossy(&entry.path);
            entry.kind == Kind::File
                && !entry.ignored
                && entry.size <= MAX_BYTES
                && of_language(&path)
                && (convention_of(&path) == Some(InputKind::Test)
                    || may_have_tests(&entry.path)
                    || lists_tests(&path))
        };
        for entry in start.manifest.entries().iter().filter(is_one).take(MAX_FILES) {
            let Ok(path) = String::from_utf8(entry.path.to_vec()) else { continue };
            if files.iter().any(|(known, _)| *known == path) {
                continue;
            }
            let kept = given.and_then(|given| given.originals.text(&entry.path));
            let text = kept.map(str::to_owned).or_else(|| {
                let place = RelPath::root().join(OsStr::from_bytes(&entry.path));
                String::from_utf8(workspace.read(&place, MAX_BYTES).ok()?).ok()
            });
            files.extend(text.map(|text| (path, text)));
        }
        Ok(files)
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn changed_paths(opening: &Opening) -> Vec<&str> {
    opening.changed.iter().filter_map(|path| std::str::from_utf8(path).ok()).collect()
}

/// A word that no file has.
fn token() -> String {
    let random = Uuid::now_v7().simple().to_string();
    let (_, end) = random.split_at_checked(20).unwrap_or(("", &random));
    format!("z{end}")
}

fn is_not_run(why: &str) -> ToolOutcome {
    let summary = format!("the canary is not run: {why}");
    ToolOutcome { success: false, ..ToolOutcome::done(summary, Vec::new(), vec![not_run(why)]) }
}

/// What the line reported of the failing tests.
fn ended(canary: &Canary, ran: ToolOutcome) -> ToolOutcome {
    if ran.timed_out {
        return ToolOutcome { output: ran.output, ..is_not_run("the line did not end in time") };
    }
    let failed = if ran.success {
        BTreeSet::new()
    } else {
        reported(&ran.output, canary.tests.iter().map(String::as_str))
    };
    let (some, all) = (failed.len(), canary.tests.len());
    let summary =
        format!("{some} of {all} failing tests that were added were reported; {}", ran.summary);
    let facts = facts_of(&canary.tests, &failed);
    ToolOutcome { success: some == all, error_code: None, summary, facts, ..ran }
}
