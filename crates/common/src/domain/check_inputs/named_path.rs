//! Paths as files of a workspace name them.

use crate::domain::path::Workspace;

/// A path that a file names, from the workspace's root; none for one that leads out of it.
pub(super) fn named_path(file: &str, named: &str) -> Option<String> {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let whole = if folder.is_empty() { named.to_owned() } else { format!("{folder}/{named}") };
    Workspace::new("").resolve(&whole).map(|found| found.into_owned())
}
