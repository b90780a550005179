//! Limits what a command writes to disk. It checks once a second, so a command can exceed the limit by
//! what the disk takes in a second.

use crate::spec::{LimitHit, Limits};
use nix::sys::statvfs::statvfs;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The interval of the checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Bytes and files.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    bytes: u64,
    files: u64,
}

/// What a command wrote to the folders it may write to.
#[derive(Debug)]
pub(super) struct Watchdog {
    folders: Vec<PathBuf>,
    limits: Limits,
    began_at_s: i64,
    next: Instant,
    /// What the file systems held when the folders were last walked.
    before: Use,
    /// What a walk found the command itself to have written.
    written: Use,
}

impl Watchdog {
    pub(super) fn new(folders: Vec<PathBuf>, limits: Limits) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let before = held(&folders);
        Self {
            folders,
            limits,
            began_at_s: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            next: Instant::now() + INTERVAL,
            before,
            written: Use::default(),
        }
    }

    /// The time until the next check.
    pub(super) fn due_in(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Checks, when it is due. The folders are walked only when the counters of their file systems grew by
    /// what the command may still write.
    pub(super) fn check(&mut self) -> Option<LimitHit> {
        if self.due_in() > Duration::ZERO {
            return None;
        }
        let now = held(&self.folders);
        let grown = |now: u64, before: u64, written: u64| {
            now.saturating_sub(before).saturating_add(written)
        };
        let (disk_bytes, disk_files) = (self.limits.disk_bytes, self.limits.disk_files);
        if grown(now.bytes, self.before.bytes, self.written.bytes) > disk_bytes
            || grown(now.files, self.before.files, self.written.files) > disk_files
        {
            self.written = Use::default();
            for folder in self.folders.clone() {
                self.walk(&folder);
            }
            self.before = now;
        }
        self.next = Instant::now() + INTERVAL;
        if self.written.bytes > disk_bytes {
            return Some(LimitHit::Disk);
        }
        (self.written.files > disk_files).then_some(LimitHit::DiskFiles)
    }

    /// Counts what was changed since the command began.
    fn walk(&mut self, folder: &Path) {
        // Unreadable and deleted entries are not counted.
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let Ok(found) = entry.metadata() else { continue };
            if found.ctime() >= self.began_at_s {
                self.written.bytes = self.written.bytes.saturating_add(found.blocks() * 512);
                self.written.files += 1;
            }
            if found.is_dir() {
                self.walk(&entry.path());
            }
        }
    }
}

/// What the file systems of these folders hold; each once.
fn held(folders: &[PathBuf]) -> Use {
    let mut seen = Vec::new();
    let mut held = Use::default();
    for folder in folders {
        let (Ok(found), Ok(system)) = (fs::metadata(folder), statvfs(folder)) else { continue };
        if seen.contains(&found.dev()) {
            continue;
        }
        seen.push(found.dev());
        let blocks = system.blocks().saturating_sub(system.blocks_free());
        held.bytes = held.bytes.saturating_add(blocks.saturating_mul(system.fragment_size()));
        held.files += system.files().saturating_sub(system.files_free());
    }
    held
}
