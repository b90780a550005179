//! Scans a workspace: it skips common folders, does not follow links, and has the same order
//! everywhere.

use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::workspace::{Kind, RelPath, Workspace};
use crate::tool::write::TEMPORARY;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use surety_common::domain::check_inputs::IGNORE_FILE;

/// Folders that no scan enters unless it starts there.
pub const SKIPPED_FOLDERS: [&str; 20] = [
    ".git",
    ".idea",
    ".vscode",
    "node_modules",
    ".cache",
    ".tmp",
    "tmp",
    "build",
    "dist",
    "out",
    "target",
    "coverage",
    ".next",
    ".nuxt",
    ".turbo",
    ".parcel-cache",
    ".vite",
    "vendor",
    "bin",
    "obj",
];

/// The largest .gitignore that is read, in bytes.
const GITIGNORE_LIMIT: u64 = 1 << 20;

/// The names that a scan skips, in addition to the skipped folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignores {
    /// Those in .gitignore files.
    Gitignore,
    /// None.
    Nothing,
}

/// One file or folder of a scan.
#[derive(Debug)]
pub struct Found<'a> {
    /// Its path.
    pub path: &'a RelPath,
    /// Its kind.
    pub kind: Kind,
}

/// Visits all files below `start`, except skipped ones, sorted by path. Returns how many folders
/// could not be read. `start` itself is always entered.
///
/// # Errors
/// The error of `visit`, and the operating system's error about `start`.
pub fn walk(
    workspace: &Workspace,
    start: &RelPath,
    ignores: Ignores,
    visit: &mut dyn FnMut(Found<'_>) -> Result<(), ToolError>,
) -> Result<u64, ToolError> {
    let mut unread = 0;
    let above = match ignores {
        Ignores::Gitignore => rules_above(workspace, start),
        Ignores::Nothing => Vec::new(),
    };
    let mut open = vec![(start.clone(), Kind::Folder, above)];
    while let Some((path, kind, mut rules)) = open.pop() {
        if kind != Kind::Folder {
            visit(Found { path: &path, kind })?;
            continue;
        }
        let entries = match workspace.entries(&path) {
            Ok(entries) => entries,
            Err(error) if path == *start => return Err(error),
            // The folder was not read, so its files must not be reported as missing.
            Err(error) if error.code == ErrorCode::MachineExhausted => return Err(error),
            Err(error) if error.code == ErrorCode::FileNotFound => continue,
            Err(error) => {
                tracing::debug!(path = path.text(), %error, "scan: a folder could not be read");
                unread += 1;
                continue;
            }
        };
        if ignores == Ignores::Gitignore && entries.iter().any(|entry| entry.name == IGNORE_FILE) {
            rules.extend(rules_in(workspace, &path));
        }
        for entry in entries.into_iter().rev() {
            let inner = path.join(&entry.name);
            if !is_passed_over(&inner, entry.kind, &rules) {
                open.push((inner, entry.kind, rules.clone()));
            }
        }
    }
    Ok(unread)
}

fn is_passed_over(path: &RelPath, kind: Kind, rules: &[Rc<Gitignore>]) -> bool {
    let name = path.as_path().file_name().unwrap_or_default();
    if kind == Kind::Folder && SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped) {
        return true;
    }
    if name.as_bytes().starts_with(TEMPORARY.as_bytes()) {
        return true;
    }
    // The deepest file with a rule about a path decides.
    for rule in rules.iter().rev() {
        match rule.matched(path.as_path(), kind == Kind::Folder) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => {}
        }
    }
    false
}

fn rules_above(workspace: &Workspace, start: &RelPath) -> Vec<Rc<Gitignore>> {
    let mut above: Vec<_> = start.as_path().ancestors().skip(1).collect();
    above.reverse();
    above
        .into_iter()
        .filter_map(|folder| rules_in(workspace, &RelPath::real(folder.to_owned())))
        .collect()
}

fn rules_in(workspace: &Workspace, folder: &RelPath) -> Option<Rc<Gitignore>> {
    let path = folder.join(IGNORE_FILE.as_ref());
    let text = match workspace.read(&path, GITIGNORE_LIMIT) {
        Ok(text) => text,
        Err(error) => {
            tracing::debug!(path = path.text(), %error, "scan: a .gitignore file could not be read");
            return None;
        }
    };
    let mut builder = GitignoreBuilder::new(Path::new("").join(folder.as_path()));
    for line in String::from_utf8_lossy(&text).lines() {
        if let Err(error) = builder.add_line(None, line) {
            tracing::debug!(path = path.text(), line, %error, "scan: a rule in a .gitignore file is not valid");
        }
    }
    builder.build().ok().map(Rc::new)
}
