//! The times of files that a view replaces.

use super::Round;
use super::view_changes::Changes;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

impl Round {
    /// Python's byte code knows the times of sources in whole seconds: a source that a view replaces gets
    /// another second than it had at the start.
    pub(super) fn let_second_pass(&self, changes: &Changes) {
        let Ok(Some(start)) = self.start() else { return };
        let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) else { return };
        let python = |path: &&PathBuf| path.extension().is_some_and(|end| end == "py");
        let is_now = |path: &PathBuf| {
            let entry = start.manifest.get(path.as_os_str().as_bytes());
            let second = entry.map(|entry| entry.stamp.modified_ns.div_euclid(1_000_000_000));
            second.is_some_and(|second| u64::try_from(second) == Ok(now.as_secs()))
        };
        if changes.replace.keys().filter(python).any(is_now) {
            let passed = Duration::from_nanos(now.subsec_nanos().into());
            std::thread::sleep(Duration::from_secs(1).saturating_sub(passed));
        }
    }
}
