//! The canary of a check: failing tests in its view, which its line must report as failed.

use super::Round;
use super::additions::ViewOrder;
use super::canary_memory::{Canary, Harness, Hosts, LONGEST, Memory, Part, Ran, base_of};
use super::canary_run::is_not_run;
use super::opening::Opening;
use crate::blocking::blocking;
use crate::tool::{RelPath, ToolError, ToolOutcome, Workspace};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;
use surety_common::domain::canary::{
    MAX_HOSTS, MAX_OTHERS, OwnTest, Planted, going_on, hosts, hosts_started, language_of_runner,
    loads_by_file, narrow, plant, plant_as_loaded, plant_one, plant_own, plant_started,
    runs_by_file,
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
        if !ran.harnesses.is_empty() || ran.unseen.is_some() {
            return true;
        }
        !ran.runners.is_empty()
            && match self.setup.additions.canary {
                CanaryPolicy::Always => true,
                // Without it the verdict says so, where the run changed anything that tests may load.
                CanaryPolicy::Auto | CanaryPolicy::Never => opening.loadable,
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
        if inputs == Inputs::Canary {
            let only = self.only_command(&line, &ViewOrder::beside(probe, base)).await?;
            let (round, of, given) = (Arc::clone(self), probe.clone(), line.clone());
            let planned =
                blocking(move || round.plan(&of, base, &given, only.as_deref())).await??;
            return match planned {
                Ok(canary) => self.canary_now(probe, &canary, (&line, base), call_id).await,
                Err(why) => Ok(is_not_run(&why)),
            };
        }
        let canary = self.memory().canaries.get(&probe.check_id).cloned();
        let Some(canary) = canary else { return Ok(is_not_run("it is not known")) };
        self.read_start_files().await?;
        if let Err(error) = self.prepare_start(call_id).await {
            return Ok(is_not_run(&error.message));
        }
        self.canary_at_start(probe, &canary, (&line, base), call_id).await
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
        let key = (probe.check_id.clone(), base);
        let Some(ran) = self.memory().runs.get(&key).cloned() else {
            return Ok(Err("the check did not run".to_owned()));
        };
        let workspace = self.setup.folder.workspace()?;
        let mut parts = self.planted_own(probe, &workspace, &ran.harnesses);
        let is_alone = parts.is_empty();
        let (chosen, narrowed) =
            self.hosts_of_runners(probe, &workspace, &ran, (line, only, is_alone))?;
        if !chosen.hosts.is_empty() {
            let Chosen { hosts, as_loaded } = chosen;
            let is_by_file = ran.runners.iter().all(|runner| loads_by_file(*runner));
            parts.push(Part::OfRunners { hosts: Arc::new(hosts), as_loaded, is_by_file });
        }
        if let Some(why) = ran.unseen.filter(|_| parts.is_empty()) {
            return Ok(Err(why));
        }
        if parts.is_empty() {
            return Ok(Err("no test file of the start can take a failing test".to_owned()));
        }
        if narrowed.is_none() && ran.took > LONGEST {
            let seconds = ran.took.as_secs();
            return Ok(Err(format!(
                "the line took {seconds} s and cannot be narrowed to one file"
            )));
        }
        let goes_on = |line: &str| match ran.runners.as_slice() {
            [runner] if is_alone => going_on(line, *runner),
            _ => None,
        };
        let narrowed = match narrowed {
            Some(line) => Some(goes_on(&line).unwrap_or(line)),
            None => goes_on(line),
        };
        let tests = parts.iter().flat_map(|part| Part::tests_of(part.hosts()).cloned()).collect();
        let canary = Arc::new(Canary { line: narrowed, parts, tests });
        self.memory().canaries.insert(probe.check_id.clone(), Arc::clone(&canary));
        Ok(Ok(canary))
    }

    /// The test files of known runners that get failing tests, and the line for these files alone. It blocks.
    fn hosts_of_runners(
        &self,
        probe: &Probe,
        workspace: &Workspace,
        ran: &Ran,
        (line, only, is_alone): (&str, Option<&str>, bool),
    ) -> Result<(Chosen, Option<String>), ToolError> {
        let opening = self.opening()?;
        let runners: BTreeSet<Runner> = ran.runners.iter().copied().collect();
        let languages: BTreeSet<_> =
            runners.iter().map(|runner| language_of_runner(*runner)).collect();
        let mut files = self.test_files(workspace, &probe.overlay, &languages)?;
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
        let mut chosen = Chosen::default();
        let is_alone = is_alone && runners.len() == 1 && ran.started.is_empty();
        let started = ran.started.iter().filter_map(|it| {
            let text = self.test_text(workspace, &probe.overlay, &it.path)?;
            Some((it, text))
        });
        for (Started { runner, path }, text) in hosts_started(started.collect(), &changed) {
            chosen.add(*runner, path, &text, plant_started);
        }
        let mut narrowed = None;
        for runner in runners.iter().filter(|runner| ran.searching.contains(runner)) {
            let all = hosts(*runner, line, &files, &changed);
            let (first, others) = all.split_at(all.len().min(MAX_HOSTS));
            // Where each file has a program of its own, each may be another one that is ended.
            // Cargo goes on behind a program that fails where the line is another one, for one package.
            let is_cargo = matches!(runner, Runner::CargoTest | Runner::Nextest);
            let fits = || is_alone && narrow(line, *runner, &all).is_some();
            let has_others =
                runs_by_file(*runner) && ran.took <= LONG_RECIPE && (!is_cargo || fits());
            let others = if has_others { others } else { &[] };
            let named = if is_cargo && has_others { &all } else { first };
            let shorter = || {
                let direct = narrow(line, *runner, named);
                direct.or_else(|| narrow(of_recipe?, *runner, named))
            };
            narrowed = (is_alone && (others.is_empty() || is_cargo)).then(shorter).flatten();
            let text = |host: &str| {
                let found = files.iter().find(|(path, _)| *path == host);
                found.map_or("", |(_, text)| *text)
            };
            first.iter().for_each(|host| chosen.add(*runner, host, text(host), plant));
            let others = others.iter().take(MAX_OTHERS);
            others.for_each(|host| chosen.add(*runner, host, text(host), plant_one));
        }
        Ok((chosen, narrowed))
    }

    /// The failing tests of those that no known runner starts. It blocks.
    fn planted_own(
        &self,
        probe: &Probe,
        workspace: &Workspace,
        harnesses: &[Harness],
    ) -> Vec<Part> {
        let one = |Harness { path, is_all }: &Harness| {
            let text = self.test_text(workspace, &probe.overlay, path)?;
            let OwnTest { at_ends, in_front, late } = plant_own(path, &text, &token())?;
            let hosts = |planted| Arc::new(vec![(PathBuf::from(path), planted)]);
            Some(Part::Own {
                path: path.clone(),
                at_ends: hosts(at_ends),
                in_front: hosts(in_front),
                late: late.map(hosts),
                is_all: *is_all,
            })
        };
        harnesses.iter().filter_map(one).collect()
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
        let mut entries: Vec<&Entry> = start.manifest.entries().iter().filter(is_one).collect();
        entries.sort_by_key(|entry| {
            convention_of(&String::from_utf8_lossy(&entry.path)) != Some(InputKind::Test)
        });
        for entry in entries.into_iter().take(MAX_FILES) {
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

/// The test files that get failing tests.
#[derive(Default)]
struct Chosen {
    hosts: Hosts,
    /// The same with as much of each text as loads.
    as_loaded: Hosts,
}

impl Chosen {
    /// Adds a file, where it can take failing tests.
    fn add(
        &mut self,
        runner: Runner,
        path: &str,
        text: &str,
        plant: impl FnOnce(Runner, &str, &str, &str) -> Option<Planted>,
    ) {
        let Some(planted) = plant(runner, path, text, &token()) else { return };
        let loaded = plant_as_loaded(runner, path, text, &planted);
        self.as_loaded.extend(loaded.map(|loaded| (PathBuf::from(path), loaded)));
        self.hosts.push((PathBuf::from(path), planted));
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
