//! Reading a file that others may write meanwhile.

use super::reach::Check;
use nix::errno::Errno;
use nix::fcntl::{self, AtFlags, OFlag};
use nix::sys::stat::{self, FileStat, Mode, SFlag};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use surety_common::domain::manifest::{Content, FileDigest, Stamp};

/// How often a file that changes is read again before it is taken as it was read last.
const ATTEMPTS: u32 = 5;
/// Bytes that are read at once.
const BUFFER: usize = 128 << 10;
/// Bytes after which the reading asks whether it may go on.
const CHECKED_EVERY: u64 = 4 << 20;
/// Two ticks of the slowest kernel clock: a write this long after another one has another time.
const TICK: Duration = Duration::from_millis(20);
/// The same where a file system keeps whole seconds.
const COARSE_TICK: Duration = Duration::from_secs(2);

/// `O_NONBLOCK`: a pipe that took a file's place must not be waited for.
const FLAGS: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_NOFOLLOW).union(OFlag::O_NONBLOCK).union(OFlag::O_CLOEXEC);

/// What was read of a file.
pub(super) struct Seen {
    /// What the operating system said about it when it had been read.
    pub(super) stat: FileStat,
    pub(super) content: Content,
    /// Whether a later write would show in its times.
    pub(super) steady: bool,
}

/// Reads files one after another.
pub(super) struct Reader<'a> {
    buffer: Vec<u8>,
    check: Check<'a>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(check: Check<'a>) -> Self {
        Self { buffer: vec![0; BUFFER], check }
    }

    /// Reads a file until it did not change meanwhile. None when it is no regular file any more.
    ///
    /// # Errors
    /// What the operating system says, but that the file may not be read; `ECANCELED` where the check says no.
    pub(super) fn read(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &OsStr,
        mut stat: FileStat,
    ) -> Result<Option<Seen>, Errno> {
        let mut attempt = 1;
        loop {
            let began = now_ns();
            let opened = match fcntl::openat(folder, name, FLAGS, Mode::empty()) {
                Ok(opened) => opened,
                Err(Errno::ENOENT | Errno::ELOOP | Errno::ENXIO) => return Ok(None),
                Err(Errno::EACCES | Errno::EPERM | Errno::EIO) => {
                    return Ok(Some(Seen { stat, content: Content::Unreadable, steady: false }));
                }
                Err(error) => return Err(error),
            };
            let mut file = File::from(opened);
            let read = self.digest(&mut file, size_of(&stat));
            let after = stat::fstat(&file)?;
            if !is_file(&after) {
                return Ok(None);
            }
            let (digest, bytes) = match read {
                Ok(read) => read,
                Err(error) if is_unreadable(&error) => {
                    let content = Content::Unreadable;
                    return Ok(Some(Seen { stat: after, content, steady: false }));
                }
                Err(error) => return Err(Errno::try_from(error).unwrap_or(Errno::EIO)),
            };
            let unchanged = known(&stat) == known(&after) && bytes == size_of(&after);
            if unchanged || attempt == ATTEMPTS {
                let steady = unchanged && is_past(&after, began);
                return Ok(Some(Seen { stat: after, content: Content::File(digest), steady }));
            }
            attempt += 1;
            stat = after;
        }
    }

    /// The digests of a file of so many bytes, and how many there were.
    fn digest(&mut self, file: &mut File, size: u64) -> io::Result<(FileDigest, u64)> {
        let mut blake3 = blake3::Hasher::new();
        let mut sha256 = Sha256::new();
        let mut bytes = 0;
        let mut next_check = 0;
        while bytes < size {
            if bytes >= next_check {
                // A file without content on disk has any size, and takes the processor's time to read.
                (self.check)().map_err(|_| Errno::ECANCELED)?;
                next_check = bytes + CHECKED_EVERY;
            }
            let count = match file.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let read = self.buffer.get(..count).unwrap_or_default();
            blake3.update(read);
            sha256.update(read);
            bytes += count as u64;
        }
        let sha256 = Some(sha256.finalize().into());
        Ok((FileDigest { blake3: *blake3.finalize().as_bytes(), sha256 }, bytes))
    }
}

fn is_unreadable(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EIO | Errno::EACCES | Errno::EPERM | Errno::EISDIR))
}

/// What is under a name, itself and not what a link leads to.
pub(super) fn look(folder: BorrowedFd<'_>, name: &OsStr) -> Result<FileStat, Errno> {
    stat::fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW)
}

pub(super) fn format_of(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

pub(super) fn is_file(stat: &FileStat) -> bool {
    format_of(stat) == SFlag::S_IFREG
}

pub(super) fn size_of(stat: &FileStat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or_default()
}

fn known(stat: &FileStat) -> (u64, u64, u64, i64, i64) {
    let Stamp { modified_ns, changed_ns, .. } = stamp(stat, false);
    (stat.st_dev, stat.st_ino, size_of(stat), modified_ns, changed_ns)
}

pub(super) fn stamp(stat: &FileStat, steady: bool) -> Stamp {
    Stamp {
        modified_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
        changed_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        inode: stat.st_ino,
        steady,
    }
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// Whether all of its times lie so far before the reading that any later write has another time: what
/// git's index calls racy is read again at the next snapshot.
pub(super) fn is_past(stat: &FileStat, began_ns: i64) -> bool {
    let coarse = stat.st_mtime_nsec == 0 && stat.st_ctime_nsec == 0;
    let tick = if coarse { COARSE_TICK } else { TICK };
    let Stamp { modified_ns, changed_ns, .. } = stamp(stat, false);
    let tick = i64::try_from(tick.as_nanos()).unwrap_or(i64::MAX);
    modified_ns.max(changed_ns).saturating_add(tick) < began_ns
}

pub(super) fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}
