//! Limits the memory of all processes of a command together, where no control group does. It asks a few times a second,
//! so a command can exceed the limit by what it takes in that time.
//!
//! ```text
//!   what the whole machine uses                    one file; within the limit nearly always
//!     -> what the processes map at most            one file for each process
//!       -> what they use, what is shared once      page tables and open files of each process, folders in memory
//! ```
//!
//! A step is taken only when the one before it finds more than the limit.

use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The interval of the checks.
const INTERVAL: Duration = Duration::from_millis(50);
/// A check may take this part of the time.
const SHARE: u32 = 10;
/// Checks in a row that have to find too much: a process that is about to become another program counts twice.
const CHECKS: u8 = 3;
/// How the name of a file begins that is memory without a place in any folder.
const IN_MEMORY: &str = "/memfd:";
/// Bytes of one block, as `stat` counts.
const BLOCK: u64 = 512;

/// The limit, and how often in a row more was found.
#[derive(Debug)]
pub(super) struct Memory {
    limit: u64,
    /// Folders of the command's own that may be memory, and what they held when it began.
    folders: Vec<(PathBuf, u64)>,
    next: Instant,
    exceeded: u8,
}

impl Memory {
    pub(super) fn new(limit: u64, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let folders = folders.into_iter().map(|folder| (held(&folder), folder));
        let folders = folders.map(|(before, folder)| (folder, before)).collect();
        Self { limit, folders, next: Instant::now() + INTERVAL, exceeded: 0 }
    }

    /// The time until the next check.
    pub(super) fn due_in(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Checks, when it is due; answers whether the command used too much. It has to be process 1 of the command's, with
    /// their `/proc`.
    pub(super) fn is_exceeded(&mut self) -> bool {
        if self.due_in() > Duration::ZERO {
            return false;
        }
        let began = Instant::now();
        self.exceeded = if self.finds_more() { self.exceeded + 1 } else { 0 };
        let now = Instant::now();
        self.next = now + INTERVAL.max((now - began) * SHARE);
        self.exceeded >= CHECKS
    }

    fn finds_more(&self) -> bool {
        let Ok(machine) = fs::read_to_string("/proc/meminfo") else { return self.use_is_more() };
        let swapped = bytes(&machine, "SwapTotal").saturating_sub(bytes(&machine, "SwapFree"));
        let shared = bytes(&machine, "Shmem").saturating_add(swapped);
        if bytes(&machine, "AnonPages").saturating_add(shared) <= self.limit {
            return false;
        }
        let mapped = processes().iter().map(|process| bytes(&process.status, "RssAnon")).sum();
        shared.saturating_add(mapped) > self.limit && self.use_is_more()
    }

    fn use_is_more(&self) -> bool {
        let (mut alone, mut mapped, mut files) = (0_u64, 0_u64, BTreeMap::new());
        for process in processes() {
            let pages = process.pages();
            alone = alone.saturating_add(pages.alone);
            mapped = mapped.saturating_add(pages.shared);
            files.extend(process.files_in_memory());
        }
        let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        let grown =
            self.folders.iter().map(|(folder, before)| held(folder).saturating_sub(*before));
        let kept =
            grown.chain(files.into_values()).fold(of_segments(&segments), u64::saturating_add);
        // What is kept is often mapped too, and then counts once.
        alone.saturating_add(mapped.max(kept)) > self.limit
    }
}

/// Memory that a process maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pages {
    /// Its own, and its part of what it shares since it was forked.
    alone: u64,
    /// Its part of files in memory.
    shared: u64,
}

/// A process that has memory.
struct Process {
    folder: PathBuf,
    status: String,
}

impl Process {
    /// None for one that has ended.
    fn read(folder: PathBuf) -> Option<Self> {
        let read = |folder: PathBuf| {
            let status = fs::read_to_string(folder.join("status")).ok()?;
            status.contains("\nRssAnon:").then_some(Self { folder, status })
        };
        let threads = folder.join("task");
        read(folder).or_else(|| {
            // Its first thread has ended, and others may live on.
            fs::read_dir(threads).ok()?.flatten().find_map(|thread| read(thread.path()))
        })
    }

    fn pages(&self) -> Pages {
        // A process may close itself to others. What it shares then counts as its own.
        let pages = fs::read_to_string(self.folder.join("smaps_rollup")).unwrap_or_default();
        if pages.contains("\nPss_Anon:") {
            let alone = bytes(&pages, "Pss_Anon").saturating_add(bytes(&pages, "SwapPss"));
            return Pages { alone, shared: bytes(&pages, "Pss_Shmem") };
        }
        let of = |what: &str| bytes(&self.status, what);
        Pages { alone: of("RssAnon").saturating_add(of("VmSwap")), shared: of("RssShmem") }
    }

    /// The files without a name that it keeps open, each with its number and its bytes.
    fn files_in_memory(&self) -> Vec<(u64, u64)> {
        let Ok(open) = fs::read_dir(self.folder.join("fd")) else { return Vec::new() };
        let in_memory = open.flatten().map(|file| file.path()).filter(|file| is_in_memory(file));
        let found = in_memory.filter_map(|file| fs::metadata(file).ok());
        found.map(|file| (file.ino(), file.blocks().saturating_mul(BLOCK))).collect()
    }
}

/// The bytes of a folder that is a file system in memory; 0 for any other one.
fn held(folder: &Path) -> u64 {
    let Ok(system) = statfs(folder) else { return 0 };
    if system.filesystem_type() != TMPFS_MAGIC {
        return 0;
    }
    let block = u64::try_from(system.block_size()).unwrap_or_default();
    system.blocks().saturating_sub(system.blocks_free()).saturating_mul(block)
}

fn is_in_memory(file: &Path) -> bool {
    fs::read_link(file)
        .is_ok_and(|target| target.as_os_str().as_encoded_bytes().starts_with(IN_MEMORY.as_bytes()))
}

/// Every process but this one.
fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        (pid != 1).then(|| entry.path())
    });
    numbers.filter_map(Process::read).collect()
}

/// The value of a line such as `Shmem:  12 kB`; 0 where there is no such line.
fn bytes(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = value.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or_default().saturating_mul(1024)
}

/// The last two columns of `/proc/sysvipc/shm`: bytes in memory and bytes that were moved out of it.
fn of_segments(table: &str) -> u64 {
    let rows = table.lines().skip(1);
    rows.flat_map(|row| row.split_whitespace().rev().take(2))
        .filter_map(|column| column.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_numbers_are_read() {
        let text = "Shmem:             58064 kB\nShmemHugePages:        7 kB\nSwapTotal:  0 kB\n";
        assert_eq!(bytes(text, "Shmem"), 58_064 * 1024);
        assert_eq!(bytes(text, "SwapTotal"), 0);
        assert_eq!(bytes(text, "Swap"), 0);
        let table = "       key      shmid        rss       swap\n  10027697  9   4096   512\n 1 2 8192 0\n";
        assert_eq!(of_segments(table), 4096 + 512 + 8192);
        assert_eq!(of_segments(""), 0);
    }
}
