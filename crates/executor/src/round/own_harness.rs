//! A check whose line starts a test script of the project and no known runner.

use super::Round;
use super::additions::ViewOrder;
use crate::blocking::blocking;
use crate::tool::{RelPath, ToolError, Workspace};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use surety_common::domain::canary::{is_own_program, is_own_script, product_may_end};
use surety_common::domain::check_inputs::{
    Assumed, Role, Script, StartInputs, imported_files, language_of, scripts_in,
};
use surety_common::domain::manifest::Kind;
use surety_common::domain::receipt::Inputs;
use surety_common::domain::verification::Probe;

/// The largest script that is read, in bytes.
const MAX_SCRIPT: u64 = 512 << 10;
/// The most names of files that a script loads and that are looked for.
const MAX_LOADED: usize = 2_000;
/// The folder of a round's views with files of the start.
const START: &str = "start";

impl Round {
    /// The one test script that the line of a check runs, where it loads the product and ends only where it says; else
    /// such a test in C that a command of the line names.
    pub(super) async fn own_harness(
        self: &Arc<Self>,
        probe: &Probe,
    ) -> Result<Option<String>, ToolError> {
        let line = self.line_of(probe).await?;
        let order = ViewOrder::beside(probe, Inputs::Original);
        let only = self.only_command(&line, &order).await?;
        let root = self.setup.folder.workspace()?.root().to_string_lossy().into_owned();
        let found: Vec<_> = only.iter().flat_map(|only| scripts_in(only, &root)).collect();
        let script = match found.as_slice() {
            [script] if script.role == Role::Script || is_script(script) => script.path.clone(),
            [_, _, ..] => return Ok(None),
            [script] if script.role == Role::Configuration => return Ok(None),
            [] | [_] => return self.own_program(probe, &line, &order).await,
        };
        let (round, overlay) = (Arc::clone(self), probe.overlay.clone());
        blocking(move || {
            round.reads_harness(&line, &script, &overlay).map(|is| is.then_some(script))
        })
        .await?
    }

    /// The first test in C that the commands of a line name. The code of the start tells whether the line runs it.
    async fn own_program(
        self: &Arc<Self>,
        probe: &Probe,
        line: &str,
        order: &ViewOrder,
    ) -> Result<Option<String>, ToolError> {
        if !self.opening()?.loadable.contains("c") {
            return Ok(None);
        }
        let commands = self.commands_of(line, order).await?;
        let (round, overlay) = (Arc::clone(self), probe.overlay.clone());
        blocking(move || {
            let workspace = round.setup.folder.workspace()?;
            let files = round.test_files(&workspace, &overlay, &BTreeSet::from(["c"]))?;
            let is_one = |(path, text): &&(String, String)| {
                commands.iter().any(|command| names(command, path)) && is_own_program(path, text)
            };
            Ok(files.iter().find(is_one).map(|(path, _)| path.clone()))
        })
        .await?
    }

    fn reads_harness(&self, line: &str, path: &str, overlay: &str) -> Result<bool, ToolError> {
        let (Some(start), opening) = (self.start()?, self.opening()?) else { return Ok(false) };
        let workspace = self.setup.folder.workspace()?;
        let (rules, root) = (&self.setup.rules, workspace.root().as_os_str().as_bytes());
        let inputs = StartInputs::new(rules, &start.facts.imports, &start.manifest, root);
        let is_protected = |path: &str| {
            let scripts = inputs.scripts(line);
            scripts.get(path.as_bytes()).is_some_and(|(_, it)| *it == Assumed::Protected)
        };
        let hidden = self.setup.additions.overlays.get(overlay);
        let covered = hidden.and_then(|files| files.get(path));
        if covered.is_none() && inputs.kind_of(path.as_bytes()).is_none() && !is_protected(path) {
            return Ok(false);
        }
        // What cannot be read has no canary.
        let Some(text) = self.test_text(&workspace, overlay, path) else { return Ok(false) };
        let is_check_input = |file: &str| {
            let is_hidden = hidden.is_some_and(|files| files.contains_key(file));
            let entry = opening.now.as_ref().and_then(|now| now.get(file.as_bytes()));
            let is_there = is_hidden || entry.is_some_and(|entry| entry.kind == Kind::File);
            is_there.then(|| is_hidden || inputs.kind_of(file.as_bytes()).is_some())
        };
        Ok(is_own_script(path, &text, is_check_input))
    }

    /// Whether the test that a check starts without a known runner loads a product that ends programs already at the
    /// start: such a test may end there where all is well.
    pub(super) async fn may_be_ended(self: &Arc<Self>, probe: &Probe) -> Result<bool, ToolError> {
        let ran = self.memory().ran(probe, Inputs::Original);
        let Some(path) = ran.and_then(|ran| ran.harness) else { return Ok(false) };
        let (round, overlay) = (Arc::clone(self), probe.overlay.clone());
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

/// Whether a line starts a script by its path.
fn is_script(script: &Script) -> bool {
    script.role == Role::Program && language_of(&script.path).is_some()
}

/// Whether a command names a file, or a program or an object that is made from it.
fn names(command: &str, path: &str) -> bool {
    fn stem_of(path: &str) -> &str {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.split_once('.').map_or(name, |(stem, _)| stem)
    }
    let mut words =
        command.split(|letter: char| letter.is_whitespace() || "'\";&|()=".contains(letter));
    words.any(|word| !word.is_empty() && stem_of(word) == stem_of(path))
}
