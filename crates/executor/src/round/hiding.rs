//! Ignore files that hide sources of the start: linters and searches pass over what `.gitignore` names, although git has it.

use super::Round;
use crate::snapshot::{named_by, texts_in};
use crate::tool::{RelPath, ToolError, if_readable};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use surety_common::domain::check_inputs::{is_hidden_where_ignored, is_ignore_file};
use surety_common::domain::manifest::{Entry, Kind, Manifest, changes};

/// The largest ignore file that is read, in bytes.
const MAX_RULES: u64 = 1 << 20;

impl Round {
    /// The changed and added ignore files that name a source which is still there and which they did not name at the
    /// start. It blocks.
    ///
    /// # Errors
    /// The workspace cannot be opened, or a file does not read for want of resources.
    pub(super) fn hiding(
        &self,
        start: &Manifest,
        now: &Manifest,
    ) -> Result<BTreeSet<Vec<u8>>, ToolError> {
        let workspace = self.setup.folder.workspace()?;
        let mut hiding = BTreeSet::new();
        for change in changes(start, now).filter(|change| change.is_of_content()) {
            let path = change.path();
            let is_file = change.after.is_some_and(|entry| entry.kind == Kind::File);
            if !is_file || !is_ignore_file(&String::from_utf8_lossy(path)) {
                continue;
            }
            let place = RelPath::root().join(OsStr::from_bytes(path));
            let Some(text) = if_readable(workspace.read(&place, MAX_RULES))? else { continue };
            let below = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
            // With the slash at its end; nothing for the workspace itself.
            let below = path.get(..below).unwrap_or_default();
            let folder = below.strip_suffix(b"/").unwrap_or(below);
            let names = named_by(&[&String::from_utf8_lossy(&text)]);
            let named_before = named_by(&texts_in(&start.rules, folder));
            let is_hidden = |entry: &Entry| {
                let inner = entry.path.strip_prefix(below).unwrap_or_default();
                let is_source = is_hidden_where_ignored(&String::from_utf8_lossy(&entry.path));
                let was_there = start.get(&entry.path).is_some_and(|entry| !entry.ignored);
                was_there && is_source && names(inner) && !named_before(inner)
            };
            let mut inside = now.beginning(below).iter().filter(|entry| entry.kind == Kind::File);
            if inside.any(is_hidden) {
                hiding.insert(path.to_vec());
            }
        }
        Ok(hiding)
    }
}
