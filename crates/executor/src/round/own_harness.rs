//! A check whose line starts a test script of the project and no known runner.

use super::Round;
use super::additions::ViewOrder;
use crate::blocking::blocking;
use crate::tool::{RelPath, ToolError};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use surety_common::domain::canary::{own_program, reaches_its_end};
use surety_common::domain::check_inputs::{Assumed, Role, StartInputs, scripts};
use surety_common::domain::manifest::Kind;
use surety_common::domain::receipt::Inputs;
use surety_common::domain::verification::Probe;
use uuid::Uuid;

/// The largest script that is read, in bytes.
const MAX_SCRIPT: u64 = 512 << 10;

impl Round {
    /// The one test script that the line of a check runs, where it loads the product and reaches its end wherever it
    /// succeeds; else such a test in C that a command of the line names.
    pub(super) async fn own_harness(
        self: &Arc<Self>,
        probe: &Probe,
    ) -> Result<Option<String>, ToolError> {
        let line = self.line_of(probe, Uuid::nil()).await?;
        let order = ViewOrder::beside(probe, Inputs::Original);
        let only = self.only_command(&line, &order).await?;
        let found: Vec<_> = only.iter().flat_map(|only| scripts(only)).collect();
        let script = match found.as_slice() {
            [script] if script.role == Role::Script => script.path.clone(),
            [_, ..] => return Ok(None),
            [] => return self.own_program(probe, &line, &order).await,
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
            let is_named = |path: &str| {
                let name = path.rsplit('/').next().unwrap_or(path);
                commands.iter().any(|command| command.contains(name))
            };
            let is_one =
                |(path, text): &&(String, String)| is_named(path) && own_program(path, text);
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
        let given = self.originals.get();
        let kept = given.and_then(|given| given.originals.text(path.as_bytes()));
        let text = match (covered, kept) {
            (Some(content), _) => String::from_utf8_lossy(content).into_owned(),
            (None, Some(text)) => text.to_owned(),
            (None, None) => {
                let place = RelPath::root().join(OsStr::from_bytes(path.as_bytes()));
                // What cannot be read has no canary.
                let Ok(text) = workspace.read(&place, MAX_SCRIPT) else { return Ok(false) };
                String::from_utf8_lossy(&text).into_owned()
            }
        };
        let is_check_input = |file: &str| {
            let is_hidden = hidden.is_some_and(|files| files.contains_key(file));
            let entry = opening.now.as_ref().and_then(|now| now.get(file.as_bytes()));
            let is_there = is_hidden || entry.is_some_and(|entry| entry.kind == Kind::File);
            is_there.then(|| is_hidden || inputs.kind_of(file.as_bytes()).is_some())
        };
        Ok(reaches_its_end(path, &text, is_check_input))
    }
}
