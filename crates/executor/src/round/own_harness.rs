//! A check whose line starts a test script of the project and no known runner.

use super::Round;
use super::additions::ViewOrder;
use super::canary_memory::{Harness, LONGEST};
use crate::blocking::blocking;
use crate::tool::{RelPath, ToolError, Workspace, WriteScope};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::canary::{
    candidates, ends_as_it_says, is_host, is_own_program, mentions, product_may_end,
};
use surety_common::domain::check_inputs::{
    Assumed, Role, Script, StartInputs, has_form, imported_files, imported_files_from,
    imports_package, imports_unseen, language_of, scripts_in, search_folders, unseen_in,
};
use surety_common::domain::manifest::{Entry, Kind};
use surety_common::domain::receipt::Inputs;
use surety_common::domain::shell_line::as_source;
use surety_common::domain::tests_seen::Runner;
use surety_common::domain::verification::Probe;

/// The largest script that is read, in bytes.
const MAX_SCRIPT: u64 = 512 << 10;
/// The most names of files that a script loads and that are looked for.
const MAX_LOADED: usize = 2_000;
/// The folder of a round's views with files of the start.
const START: &str = "start";

/// The most such tests that are asked about.
const MAX_TESTS: u32 = 6;

/// The name by which the sources of a package of Node may import the package itself; empty where there is none.
fn own_package(workspace: &Workspace) -> String {
    let place = RelPath::root().join(OsStr::new("package.json"));
    let manifest = workspace.read(&place, MAX_SCRIPT).ok();
    let manifest: Option<serde_json::Value> =
        manifest.and_then(|text| serde_json::from_slice(&text).ok());
    let name = manifest.as_ref().and_then(|it| it.get("name")?.as_str());
    name.unwrap_or_default().to_owned()
}

/// What a script is to a canary.
enum Reads {
    /// It is no part of the check, or does not load the product into itself.
    Nothing,
    /// It loads the product into itself, and may end elsewhere than where it says.
    Unseen,
    /// It loads the product into itself, and ends only where it says.
    Harness,
}

/// What a line starts beside known runners.
#[derive(Default)]
pub(super) struct Own {
    pub(super) harnesses: Vec<Harness>,
    /// Why there is no canary for what may load the product into a program of tests.
    pub(super) unseen: Option<String>,
}

impl Round {
    /// The tests that the line of a check starts without a known runner, and that end only where they say: scripts that
    /// load the product, and programs in C that a command names. Those that mention changed files come first. Where there
    /// are none, what has no canary is named.
    pub(super) async fn own_harnesses(
        self: &Arc<Self>,
        probe: &Probe,
        took: Duration,
        runners: &[Runner],
    ) -> Result<Own, ToolError> {
        let line = self.line_of(probe).await?;
        let order = ViewOrder::beside(probe, Inputs::Original);
        let only = self.only_command(&line, &order).await?;
        let (commands, is_hidden) = self.commands_of(&line, &order).await?;
        let (round, overlay, runners) =
            (Arc::clone(self), probe.overlay.clone(), runners.to_owned());
        let (mut found, unseen) = blocking(move || {
            let root = round.setup.folder.workspace()?.root().to_string_lossy().into_owned();
            let scripts: Vec<_> = only.iter().flat_map(|only| scripts_in(only, &root)).collect();
            let is_one = |script: &Script| script.role != Role::Configuration;
            let only = match scripts.as_slice() {
                [script] if is_one(script) => Some(script.path.clone()),
                _ => None,
            };
            let (mut found, mut unseen) = (Vec::new(), None);
            let commands_of = commands.iter();
            let candidates =
                commands_of.flat_map(|(folder, command)| candidates(folder, command, &root));
            for path in round.expanded(only.iter().cloned().chain(candidates), &overlay)? {
                match round.reads(&line, &path, &overlay, &runners)? {
                    Reads::Harness => {
                        let is_all = only.as_ref() == Some(&path);
                        found.push(Harness { path, is_all });
                    }
                    Reads::Unseen => {
                        let why = || format!("where {path} ends is not known");
                        unseen.get_or_insert_with(why);
                    }
                    Reads::Nothing => {}
                }
            }
            if found.is_empty() {
                found = round.own_programs(&commands, &overlay)?;
            }
            if found.is_empty() && unseen.is_none() && runners.is_empty() {
                unseen = round.unseen(&commands, is_hidden, &root)?;
            }
            round.sort_by_mention(&mut found, &overlay)?;
            Ok::<_, ToolError>((found, unseen.filter(|_| runners.is_empty())))
        })
        .await??;
        // Each has a run of its own.
        let most = LONGEST.as_millis() / took.as_millis().max(1);
        found.truncate(usize::try_from(most.clamp(1, MAX_TESTS.into())).unwrap_or(1));
        Ok(Own { harnesses: found, unseen })
    }

    /// Why there is no canary for what the commands of a line start. It blocks.
    fn unseen(
        &self,
        commands: &[(String, String)],
        is_hidden: bool,
        root: &str,
    ) -> Result<Option<String>, ToolError> {
        if is_hidden {
            return Ok(Some("the recipe that the line asks for is not seen".to_owned()));
        }
        let Some(start) = self.start()? else { return Ok(None) };
        let is_file = |entry: &Entry| entry.kind == Kind::File && !entry.ignored;
        let is_there = |path: &str| start.manifest.get(path.as_bytes()).is_some_and(is_file);
        let of = |(folder, command): &(String, String)| unseen_in(folder, command, root, &is_there);
        Ok(commands.iter().find_map(of))
    }

    /// The files of the start behind these paths and patterns, each once.
    fn expanded(
        &self,
        paths: impl Iterator<Item = String>,
        overlay: &str,
    ) -> Result<Vec<String>, ToolError> {
        let Some(start) = self.start()? else { return Ok(Vec::new()) };
        let hidden = self.setup.additions.overlays.get(overlay);
        let mut found: Vec<String> = Vec::new();
        let mut add = |path: &str| {
            if !found.iter().any(|known| known == path) && found.len() < MAX_LOADED {
                found.push(path.to_owned());
            }
        };
        let is_file = |entry: &&Entry| entry.kind == Kind::File && !entry.ignored;
        for path in paths {
            if !path.contains('*') {
                let is_hidden = hidden.is_some_and(|files| files.contains_key(&path));
                if is_hidden || start.manifest.get(path.as_bytes()).as_ref().is_some_and(is_file) {
                    add(&path);
                }
                continue;
            }
            let Ok(pattern) = WriteScope::new(std::slice::from_ref(&path)) else { continue };
            let files = start.manifest.entries().iter().filter(is_file);
            let files = files.filter_map(|entry| std::str::from_utf8(&entry.path).ok());
            files.filter(|path| pattern.allows(Path::new(path))).for_each(&mut add);
        }
        Ok(found)
    }

    /// The tests in C that the commands of a line name. The code of the start tells whether the line runs the first one.
    fn own_programs(
        &self,
        commands: &[(String, String)],
        overlay: &str,
    ) -> Result<Vec<Harness>, ToolError> {
        let workspace = self.setup.folder.workspace()?;
        let files = self.test_files(&workspace, overlay, &BTreeSet::from(["c"]))?;
        let is_one = |(path, text): &&(String, String)| {
            commands.iter().any(|(_, command)| names(command, path)) && is_own_program(path, text)
        };
        let found = files.iter().filter(is_one).enumerate();
        Ok(found.map(|(at, (path, _))| Harness { path: path.clone(), is_all: at == 0 }).collect())
    }

    /// Puts tests that mention changed files in front of the others.
    fn sort_by_mention(&self, found: &mut [Harness], overlay: &str) -> Result<(), ToolError> {
        let (workspace, opening) = (self.setup.folder.workspace()?, self.opening()?);
        let changed: Vec<&str> =
            opening.changed.iter().filter_map(|path| std::str::from_utf8(path).ok()).collect();
        let text = |path: &str| self.test_text(&workspace, overlay, path).unwrap_or_default();
        found.sort_by_cached_key(|it| {
            let none = mentions(&text(&it.path), &changed) == 0;
            (!it.is_all, none)
        });
        Ok(())
    }

    /// Whether a script is a part of the check, ends only where it says, and loads the product into itself, maybe by
    /// helpers that end nothing.
    fn reads(
        &self,
        line: &str,
        path: &str,
        overlay: &str,
        runners: &[Runner],
    ) -> Result<Reads, ToolError> {
        let (Some(start), opening) = (self.start()?, self.opening()?) else {
            return Ok(Reads::Nothing);
        };
        let workspace = self.setup.folder.workspace()?;
        let (rules, root) = (&self.setup.rules, workspace.root().as_os_str().as_bytes());
        let inputs = StartInputs::new(rules, &start.facts.imports, &start.manifest, root);
        let is_protected = |path: &str| {
            let scripts = inputs.scripts(line);
            scripts.get(path.as_bytes()).is_some_and(|(_, it)| *it == Assumed::Protected)
        };
        let hidden = self.setup.additions.overlays.get(overlay);
        let is_hidden = |path: &str| hidden.is_some_and(|files| files.contains_key(path));
        let is_part = |path: &str| is_hidden(path) || inputs.kind_of(path.as_bytes()).is_some();
        if !is_part(path) && !is_protected(path) {
            return Ok(Reads::Nothing);
        }
        let Some(text) = self.test_text(&workspace, overlay, path) else {
            return Ok(Reads::Unseen);
        };
        if runners.iter().any(|runner| is_host(*runner, path, &text)) || text.contains('\0') {
            return Ok(Reads::Nothing);
        }
        if language_of(&as_source(path, &text)).is_none() {
            return Ok(Reads::Unseen);
        }
        let is_there = |file: &str| {
            let entry = opening.now.as_ref().and_then(|now| now.get(file.as_bytes()));
            is_hidden(file) || entry.is_some_and(|entry| entry.kind == Kind::File)
        };
        let (roots, package) = (search_folders(line), own_package(&workspace));
        let (mut open, mut seen) =
            (imported_files_from(path, &text, &roots), BTreeSet::from([path.to_owned()]));
        let (mut loads, mut ends_as_it_says) = (false, ends_as_it_says(path, &text));
        let mut unseen = imports_unseen(path, &text);
        loads |= imports_package(&text, &package);
        while let Some(file) = open.pop() {
            if seen.len() > MAX_LOADED || !is_there(&file) || !seen.insert(file.clone()) {
                continue;
            }
            if !is_part(&file) {
                loads = true;
                continue;
            }
            let Some(text) = self.test_text(&workspace, overlay, &file) else {
                return Ok(Reads::Unseen);
            };
            ends_as_it_says &= !product_may_end(&file, &text);
            unseen |= imports_unseen(&file, &text);
            loads |= imports_package(&text, &package);
            open.extend(imported_files_from(&file, &text, &roots));
        }
        Ok(match (loads, ends_as_it_says) {
            (true, true) => Reads::Harness,
            (true, false) => Reads::Unseen,
            (false, _) if unseen => Reads::Unseen,
            (false, _) => Reads::Nothing,
        })
    }

    /// Whether the test that a check starts without a known runner loads a product that ends programs already at the
    /// start: such a test may end there where all is well.
    pub(super) async fn may_be_ended(
        self: &Arc<Self>,
        probe: &Probe,
        path: &str,
    ) -> Result<bool, ToolError> {
        let (round, overlay, path) = (Arc::clone(self), probe.overlay.clone(), path.to_owned());
        blocking(move || {
            let workspace = round.setup.folder.workspace()?;
            let text = round.test_text(&workspace, &overlay, &path).unwrap_or_default();
            let mut open = imported_files(&path, &text);
            let mut seen = BTreeSet::from([path]);
            while let Some(file) = open.pop() {
                if seen.len() > MAX_LOADED || !seen.insert(file.clone()) {
                    continue;
                }
                let Some(text) = round.start_text(&workspace, &file)? else { continue };
                if product_may_end(&file, &text) {
                    return Ok(true);
                }
                open.extend(imported_files(&file, &text));
            }
            Ok(false)
        })
        .await?
    }

    /// The text of a file at the start; none where that is not known. It blocks.
    fn start_text(&self, workspace: &Workspace, path: &str) -> Result<Option<String>, ToolError> {
        let entry = self.start()?.and_then(|start| start.manifest.get(path.as_bytes()));
        if entry.is_none_or(|entry| entry.kind != Kind::File) {
            return Ok(None);
        }
        let is_changed = self.opening()?.changed.iter().any(|it| it.as_slice() == path.as_bytes());
        let text = if is_changed {
            let folder = self.views()?.join(START);
            let given = self.originals.get().map(|given| &given.originals);
            let written = given.map_or(Ok(None), |it| it.write_any(path.as_bytes(), &folder));
            let written = written.map_err(|error| ToolError::io(folder.display(), &error))?;
            let written =
                written.map_or_else(|| self.start_file(path.as_bytes()), |it| Ok(Some(it)))?;
            written.and_then(|written| fs::read(written).ok())
        } else {
            let place = RelPath::root().join(OsStr::from_bytes(path.as_bytes()));
            workspace.read(&place, MAX_SCRIPT).ok()
        };
        Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
    }

    /// The text of a test, as the view of its check has it; none where it cannot be read. It blocks.
    pub(super) fn test_text(
        &self,
        workspace: &Workspace,
        overlay: &str,
        path: &str,
    ) -> Option<String> {
        let hidden = self.setup.additions.overlays.get(overlay);
        if let Some(content) = hidden.and_then(|files| files.get(path)) {
            return Some(String::from_utf8_lossy(content).into_owned());
        }
        let given = self.originals.get();
        if let Some(text) = given.and_then(|given| given.originals.text(path.as_bytes())) {
            return Some(text.to_owned());
        }
        let place = RelPath::root().join(OsStr::from_bytes(path.as_bytes()));
        let text = workspace.read(&place, MAX_SCRIPT).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Whether a command names a file, or a program or an object that is made from it.
fn names(command: &str, path: &str) -> bool {
    fn stem_of(path: &str) -> &str {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.split_once('.').map_or(name, |(stem, _)| stem)
    }
    let mut words =
        command.split(|letter: char| letter.is_whitespace() || "'\";&|()=".contains(letter));
    let is_pattern = |word: &str| word.contains('*') && word.len() > 1;
    words.any(|word| {
        let (stem, of_word) = (stem_of(path), stem_of(word));
        !word.is_empty() && (of_word == stem || is_pattern(of_word) && has_form(stem, of_word))
    })
}
