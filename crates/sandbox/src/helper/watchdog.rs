//! Limits what a command writes to disk. It checks once a second, so a command can exceed the limit by
//! what the disk takes in a second.

use super::unnamed;
use crate::deep::{Visit, walk};
use crate::spec::{LimitHit, Limits};
use nix::dir::Type;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{SFlag, fstatat};
use nix::sys::statvfs::statvfs;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The interval of the checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// How often a folder is walked again in which others were moved meanwhile.
const ATTEMPTS: u32 = 3;

/// The unit in which systems count what a file takes.
const BLOCK: u64 = 512;

/// Bytes and files.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    bytes: u64,
    files: u64,
}

impl Use {
    fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(before.bytes),
            files: self.files.saturating_sub(before.files),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            files: self.files.saturating_add(other.files),
        }
    }

    fn hits(self, limits: &Limits) -> Option<LimitHit> {
        if self.bytes > limits.disk_bytes {
            return Some(LimitHit::Disk);
        }
        (self.files > limits.disk_files).then_some(LimitHit::DiskFiles)
    }
}

/// What a command wrote to the folders it may write to.
#[derive(Debug)]
pub(super) struct Watchdog {
    folders: Vec<PathBuf>,
    limits: Limits,
    began_at_s: i64,
    next: Instant,
    /// What the file systems held at the start.
    at_start: Use,
    /// What they held when the folders were last walked.
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
            at_start: before,
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
        if now.since(self.before).and(self.written).hits(&self.limits).is_some() {
            self.written = self.count(now);
            self.before = now;
        }
        self.next = Instant::now() + INTERVAL;
        self.written.hits(&self.limits)
    }

    /// What was changed since the command began.
    fn count(&self, now: Use) -> Use {
        let mut found = Use::default();
        let mut all_seen = true;
        for folder in &self.folders {
            let mut count = Count { began_at_s: self.began_at_s, found: Use::default(), all_seen };
            let mut ended = Err(Errno::ESTALE);
            for _ in 0..ATTEMPTS {
                count.found = Use::default();
                ended = walk(folder, &mut count);
                if ended != Err(Errno::ESTALE) {
                    break;
                }
            }
            all_seen = count.all_seen && matches!(ended, Ok(()) | Err(Errno::ENOENT));
            found = found.and(count.found);
        }
        // Files that have no name any more take their place for as long as a process has them.
        let unnamed = unnamed::of_descendants();
        found.bytes = found.bytes.saturating_add(unnamed.bytes);
        if all_seen && unnamed.all_seen {
            return found;
        }
        // The command closed a folder or a process to its supervisor: what the disk took counts as its own.
        let grown = now.since(self.at_start);
        Use { bytes: found.bytes.max(grown.bytes), files: found.files.max(grown.files) }
    }
}

/// Counts what lies in a folder.
struct Count {
    began_at_s: i64,
    found: Use,
    all_seen: bool,
}

impl Visit for Count {
    fn entry(&mut self, above: BorrowedFd<'_>, name: &OsStr, _kind: Option<Type>) -> bool {
        let found = match fstatat(above, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(error) => {
                self.failed(error);
                return false;
            }
        };
        if found.st_ctime >= self.began_at_s {
            let blocks = u64::try_from(found.st_blocks).unwrap_or_default();
            self.found.bytes = self.found.bytes.saturating_add(blocks.saturating_mul(BLOCK));
            self.found.files += 1;
        }
        SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR
    }

    fn leave(&mut self, _above: BorrowedFd<'_>, _name: &OsStr) {}

    fn failed(&mut self, error: Errno) {
        // What is gone meanwhile takes no place.
        self.all_seen &= error == Errno::ENOENT;
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
