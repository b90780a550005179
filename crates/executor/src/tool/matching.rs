//! The paths of a workspace that match a glob: only folders that can contain a match are read.

use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::workspace::{Kind, RelPath, Workspace};
use globset::{GlobBuilder, GlobMatcher};
use std::ffi::{OsStr, OsString};

/// The repository's own folder, which no `**` enters.
const GIT: &str = ".git";

/// One component of a glob.
enum Part {
    Name(OsString),
    Glob(GlobMatcher),
    /// `**`: any number of folders.
    Deep,
}

type Condition<'c> = dyn Fn(&RelPath) -> Result<bool, ToolError> + 'c;

/// Whether a path that matches the glob fulfils the condition. `*` stays inside one folder, `**` does
/// not. A folder that cannot be read contains no match.
///
/// # Errors
/// `machine_exhausted`, and what the condition answers.
pub(super) fn any_match(
    workspace: &Workspace,
    glob: &RelPath,
    condition: &Condition<'_>,
) -> Result<bool, ToolError> {
    let parts: Vec<Part> = glob.as_path().iter().map(part).collect();
    walk(workspace, &RelPath::root(), &parts, condition)
}

/// A component that is no valid glob is a name.
fn part(component: &OsStr) -> Part {
    let glob = match component.to_str() {
        Some("**") => return Part::Deep,
        Some(text) if text.contains(['*', '?', '[']) => {
            GlobBuilder::new(text).literal_separator(true).build().ok()
        }
        Some(_) | None => None,
    };
    glob.map_or_else(|| Part::Name(component.to_owned()), |glob| Part::Glob(glob.compile_matcher()))
}

fn walk(
    workspace: &Workspace,
    folder: &RelPath,
    parts: &[Part],
    condition: &Condition<'_>,
) -> Result<bool, ToolError> {
    let Some((part, rest)) = parts.split_first() else {
        return condition(folder);
    };
    match part {
        Part::Name(name) => return walk(workspace, &folder.join(name), rest, condition),
        Part::Deep if walk(workspace, folder, rest, condition)? => return Ok(true),
        Part::Deep | Part::Glob(_) => {}
    }
    let entries = match workspace.entries(folder) {
        Ok(entries) => entries,
        Err(error) if error.code == ErrorCode::MachineExhausted => return Err(error),
        Err(_) => return Ok(false),
    };
    for entry in entries {
        let path = folder.join(&entry.name);
        let next = match part {
            Part::Deep if entry.kind != Kind::Folder => rest.is_empty().then_some(rest),
            Part::Deep => (entry.name != GIT).then_some(parts),
            Part::Glob(glob) => glob.is_match(&entry.name).then_some(rest),
            Part::Name(_) => None,
        };
        if let Some(next) = next
            && walk(workspace, &path, next, condition)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}
