//! What Landlock lets a command do with files where there is no private mount tree.

use super::scratch::{HOME, TMP};
use crate::spec::{NotStarted, Tree};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The newest rights that are asked for; an older kernel gives what it has.
const RIGHTS: ABI = ABI::V5;

/// What every program expects to be able to open.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/ptmx"];

/// Restricts this process, and all that it starts, to these files.
pub(super) fn restrict(tree: &Tree, scratch: Option<&Path>) -> Result<(), NotStarted> {
    let failed = |error: landlock::RulesetError| {
        NotStarted::setup("Landlock", &io::Error::other(error.to_string()))
    };
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(RIGHTS))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .map_err(failed)?;
    let mut rules = Rules { ruleset, hidden: &tree.hidden };
    let read = AccessFs::from_read(RIGHTS);
    let write = AccessFs::from_all(RIGHTS);
    for path in tree.read_only.iter().chain(&tree.caches) {
        rules.allow_but_hidden(path, read).map_err(failed)?;
    }
    rules.allow_but_hidden(&tree.workspace, read).map_err(failed)?;
    for path in &tree.writable {
        rules.allow_but_hidden(path, write).map_err(failed)?;
    }
    if let Some(scratch) = scratch {
        for name in [TMP, HOME] {
            rules.allow(&scratch.join(name), write).map_err(failed)?;
        }
    }
    for path in DEVICES {
        let rights = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
        rules.allow(Path::new(path), rights | AccessFs::Truncate).map_err(failed)?;
    }
    let terminals = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    rules.allow(Path::new("/dev/pts"), terminals | AccessFs::ReadDir).map_err(failed)?;
    rules.allow(Path::new("/proc"), AccessFs::ReadFile | AccessFs::ReadDir).map_err(failed)?;
    let status = rules.ruleset.restrict_self().map_err(failed)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        let error = io::Error::other("the kernel does not enforce it");
        return Err(NotStarted::setup("Landlock", &error));
    }
    Ok(())
}

struct Rules<'t> {
    ruleset: RulesetCreated,
    hidden: &'t [PathBuf],
}

impl Rules<'_> {
    /// Allows this below a path, but not on what is hidden there. Rights cannot be taken back below a
    /// folder, so the entries of one with something hidden in it are allowed one by one.
    fn allow_but_hidden(
        &mut self,
        path: &Path,
        rights: BitFlags<AccessFs>,
    ) -> Result<(), landlock::RulesetError> {
        if self.hidden.iter().any(|hidden| path.starts_with(hidden)) {
            // The workspace may lie below the data folder; nothing else there is named.
            return self.allow(path, rights);
        }
        if !self.hidden.iter().any(|hidden| hidden.starts_with(path)) {
            return self.allow(path, rights);
        }
        self.allow(path, rights & AccessFs::ReadDir)?;
        let Ok(entries) = fs::read_dir(path) else { return Ok(()) };
        for entry in entries.flatten() {
            let entry = entry.path();
            if !self.hidden.contains(&entry) {
                self.allow_but_hidden(&entry, rights)?;
            }
        }
        Ok(())
    }

    /// Allows this on a path and below it; a path that is not there is none to reach.
    fn allow(
        &mut self,
        path: &Path,
        rights: BitFlags<AccessFs>,
    ) -> Result<(), landlock::RulesetError> {
        let Ok(opened) = PathFd::new(path) else { return Ok(()) };
        let of_files = AccessFs::from_file(RIGHTS);
        let rights = if path.is_dir() { rights } else { rights & of_files };
        if rights.is_empty() {
            return Ok(());
        }
        (&mut self.ruleset).add_rule(PathBeneath::new(opened, rights)).map(drop)
    }
}
