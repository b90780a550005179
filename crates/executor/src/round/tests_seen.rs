//! The tests that a check's command ran, as its runner reported them.

use super::Round;
use crate::blocking::blocking;
use crate::tool::scan::{Ignores, walk};
use crate::tool::{ErrorCode, RelPath, ToolError, ToolOutcome, Workspace};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use surety_common::domain::receipt::{Command, Fact};
use surety_common::domain::tests_seen::{Project, TestRun, count, test_runs};

/// The largest file that is read for its recipes, in bytes.
const FILE_LIMIT: u64 = 1 << 20;
/// The most files that are visited for one name.
const MAX_VISITED: usize = 20_000;

impl Round {
    /// The test runners that a command starts. It is read before the command runs, because what it
    /// tests may write.
    pub(super) async fn test_runs(&self, command: &Command) -> Result<Vec<TestRun>, ToolError> {
        let line = match command {
            Command::Line(line) => line.clone(),
            Command::Argv(argv) => argv.join(" "),
        };
        let folder = Arc::clone(&self.setup.folder);
        blocking(move || {
            let workspace = folder.workspace()?;
            Ok(test_runs(&line, &Files { workspace: &workspace }))
        })
        .await?
    }
}

/// Adds what the runners reported to the facts of a command that ended.
pub(super) fn add_counts(outcome: &mut ToolOutcome, runs: Vec<TestRun>) {
    for run in runs {
        let runner = run.name();
        // A command that failed may have ended before its runners.
        let run = TestRun { may_be_silent: run.may_be_silent || !outcome.success, ..run };
        if let Some(counts) = count(&run, &outcome.output) {
            outcome.facts.push(Fact::Tests { runner, counts });
        }
    }
}

/// The workspace's files, as runners read them.
struct Files<'w> {
    workspace: &'w Workspace,
}

impl Files<'_> {
    fn text(&self, path: &RelPath) -> Option<String> {
        let bytes = self.workspace.read(path, FILE_LIMIT).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Project for Files<'_> {
    fn read(&self, path: &str) -> Option<String> {
        self.text(&self.workspace.locate(path).ok()?)
    }

    fn all(&self, name: &str) -> Vec<String> {
        let (mut texts, mut visited) = (Vec::new(), 0);
        let visit = &mut |found: crate::tool::scan::Found<'_>| {
            visited += 1;
            if found.path.as_path().file_name() == Some(OsStr::new(name)) {
                texts.extend(self.text(found.path));
            }
            if visited < MAX_VISITED {
                return Ok(());
            }
            Err(ToolError::new(ErrorCode::TooLarge, "too many files to visit them all"))
        };
        if let Err(error) = walk(self.workspace, &RelPath::root(), Ignores::Gitignore, visit) {
            tracing::debug!(%error, name, root = %Path::display(self.workspace.root()), "round: files of a name were searched in a part of the workspace only");
        }
        texts
    }
}
