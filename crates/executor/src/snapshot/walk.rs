//! The walk over a workspace, by several threads: each takes a folder, or some names of a large one,
//! off a common pile, and puts what it finds beneath it there. The pile is taken from the top, so that
//! few folders are open at a time.

use super::git;
use super::place::Here;
use super::reach::{Check, Reach};
use super::read::{self, Reader};
use super::rules::{Chain, Judge, Standing};
use crate::tool::{ErrorCode, ToolError, Workspace};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{self, OFlag};
use nix::sys::stat::{self, FileStat, Mode, SFlag};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use surety_common::domain::check_inputs::IGNORE_FILE;
use surety_common::domain::manifest::{Content, Entry, Kind, Manifest, RuleSource};

/// Names of one folder that are looked at in one go.
const BATCH: usize = 128;
/// The largest ignore file that is read, in bytes.
const RULES_LIMIT: u64 = 1 << 20;
/// The largest ignored check input that is read, in bytes.
const KEPT_LIMIT: u64 = 8 << 20;
/// The folder that git keeps for itself, wherever it stands.
const GIT: &str = ".git";

const FOLDER: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// One walk over a workspace.
pub(super) struct Walk<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) judge: &'a Judge,
    pub(super) supply: Supply,
    /// What is known of files from before, where their times can be trusted.
    pub(super) previous: Option<&'a Manifest>,
    pub(super) reach: Reach,
    pub(super) place: &'a Here,
    pub(super) check: Check<'a>,
}

/// Where the rules of folders inside come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Supply {
    /// The ignore files that are there.
    Files,
    /// The rules that the judge knows.
    Known,
}

/// What a walk found.
#[derive(Default)]
pub(super) struct Walked {
    pub(super) entries: Vec<Entry>,
    /// The ignore files that it read.
    pub(super) sources: Vec<RuleSource>,
    /// Paths that the rules name and that git tracks.
    pub(super) exempt: Vec<Vec<u8>>,
}

/// A folder that is being looked at.
struct Opened {
    folder: OwnedFd,
    path: Vec<u8>,
    rules: Option<Arc<Chain>>,
    ruled: bool,
}

enum Job {
    Folder { above: Arc<Opened>, name: OsString, standing: Standing },
    Names { folder: Arc<Opened>, names: Vec<OsString> },
}

/// The common pile.
#[derive(Default)]
struct Pile {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: Vec<Job>,
    /// Jobs that were taken and may bring further ones.
    under_way: usize,
    failed: Option<ToolError>,
}

/// What one thread has found and has still to put on the pile.
struct Worker<'a> {
    walk: &'a Walk<'a>,
    reader: Reader<'a>,
    walked: Walked,
    jobs: Vec<Job>,
}

impl Walk<'_> {
    /// Walks with so many threads at most.
    ///
    /// # Errors
    /// The root cannot be read, the machine has no files left to open, or what the check answers.
    pub(super) fn run(&self, workers: usize) -> Result<Walked, ToolError> {
        let pile = Pile::default();
        let mut first = Worker::new(self);
        first.start()?;
        pile.lock().jobs.append(&mut first.jobs);
        let mut walked = thread::scope(|scope| {
            let begin = || {
                let thread = thread::Builder::new().name("snapshot".to_owned());
                thread.spawn_scoped(scope, || Worker::new(self).work(&pile)).ok()
            };
            // With fewer threads than wanted the walk only takes longer.
            let others: Vec<_> = (1..workers).map_while(|_| begin()).collect();
            let mut walked = vec![first.work(&pile)];
            for other in others {
                match other.join() {
                    Ok(found) => walked.push(found),
                    Err(_) => pile.fail(defect()),
                }
            }
            walked
        });
        if let Some(error) = pile.lock().failed.take() {
            return Err(error);
        }
        let mut all = walked.pop().unwrap_or_default();
        for mut found in walked {
            all.entries.append(&mut found.entries);
            all.sources.append(&mut found.sources);
            all.exempt.append(&mut found.exempt);
        }
        Ok(all)
    }
}

fn defect() -> ToolError {
    ToolError::new(ErrorCode::InternalError, "a thread of a snapshot panicked")
}

impl Pile {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; none when the walk is over.
    fn take(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.failed.is_some() {
                return None;
            }
            if let Some(job) = state.jobs.pop() {
                state.under_way += 1;
                return Some(job);
            }
            if state.under_way == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A job is over, and brought these.
    fn put(&self, jobs: &mut Vec<Job>) {
        let mut state = self.lock();
        state.under_way -= 1;
        state.jobs.append(jobs);
        drop(state);
        self.changed.notify_all();
    }

    fn fail(&self, error: ToolError) {
        let mut state = self.lock();
        state.failed.get_or_insert(error);
        drop(state);
        self.changed.notify_all();
    }
}

impl<'a> Worker<'a> {
    fn new(walk: &'a Walk<'a>) -> Self {
        Self { walk, reader: Reader::new(walk.check), walked: Walked::default(), jobs: Vec::new() }
    }

    fn work(mut self, pile: &Pile) -> Walked {
        while let Some(job) = pile.take() {
            let done = (self.walk.check)().and_then(|()| self.carry_out(job));
            if let Err(error) = done {
                pile.fail(error);
            }
            pile.put(&mut self.jobs);
        }
        self.walked
    }

    /// Lists the root.
    fn start(&mut self) -> Result<(), ToolError> {
        let root = self.walk.workspace.root().display();
        let failed = |error| ToolError::errno(&root, error);
        let folder = fcntl::openat(self.walk.workspace.handle(), ".", FOLDER, Mode::empty());
        let folder = folder.map_err(failed)?;
        let rules = self.walk.judge.at_root();
        let opened = Opened { folder, path: Vec::new(), rules, ruled: false };
        self.list(opened).map_err(|error| self.failed(&root, error))
    }

    /// What ended the walk there: the check's own answer where the check ended it.
    fn failed(&self, place: impl std::fmt::Display, error: Errno) -> ToolError {
        let stopped = if error == Errno::ECANCELED { (self.walk.check)().err() } else { None };
        stopped.unwrap_or_else(|| ToolError::errno(place, error))
    }

    fn carry_out(&mut self, job: Job) -> Result<(), ToolError> {
        let (path, done) = match job {
            Job::Folder { above, name, standing } => {
                let path = git::joined(&above.path, name.as_bytes());
                let done = self.enter(&above, &name, path.clone(), standing);
                (path, done)
            }
            Job::Names { folder, names } => {
                let done = names.into_iter().try_for_each(|name| self.name(&folder, &name));
                (folder.path.clone(), done)
            }
        };
        done.map_err(|error| self.failed(String::from_utf8_lossy(&path), error))
    }

    fn enter(
        &mut self,
        above: &Opened,
        name: &OsStr,
        path: Vec<u8>,
        standing: Standing,
    ) -> Result<(), Errno> {
        let folder = match fcntl::openat(&above.folder, name, FOLDER, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(()),
            Err(Errno::EACCES | Errno::EPERM | Errno::EIO) => {
                let stat = match read::look(above.folder.as_fd(), name) {
                    Ok(stat) => stat,
                    Err(Errno::ENOENT) => return Ok(()),
                    Err(error) => return Err(error),
                };
                self.push(path, &stat, standing.ignored, (Content::Unreadable, false));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let stat = stat::fstat(&folder)?;
        self.push(path.clone(), &stat, standing.ignored, (Content::None, false));
        let rules = above.rules.clone();
        let rules = match self.walk.supply {
            Supply::Known => self.walk.judge.within(rules, &path),
            Supply::Files if standing.ruled => rules,
            Supply::Files => self.read_rules(&folder, &path, rules)?,
        };
        self.list(Opened { folder, path, rules, ruled: standing.ruled })
    }

    /// The rules in a folder of the first snapshot.
    fn read_rules(
        &mut self,
        folder: &OwnedFd,
        path: &[u8],
        above: Option<Arc<Chain>>,
    ) -> Result<Option<Arc<Chain>>, Errno> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let opened = match fcntl::openat(folder, IGNORE_FILE, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(error @ (Errno::EMFILE | Errno::ENFILE)) => return Err(error),
            Err(_) => return Ok(above),
        };
        if !read::is_file(&stat::fstat(&opened)?) {
            return Ok(above);
        }
        let mut text = Vec::new();
        if let Err(error) = File::from(opened).take(RULES_LIMIT).read_to_end(&mut text) {
            tracing::debug!(%error, "snapshot: an ignore file could not be read");
            return Ok(above);
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        let (rules, source) = self.walk.judge.found(above, path, text);
        self.walked.sources.push(source);
        Ok(rules)
    }

    /// Looks at the names in a folder, the last of them at once.
    fn list(&mut self, opened: Opened) -> Result<(), Errno> {
        let mut listing = Dir::from_fd(opened.folder.try_clone().map_err(|_| Errno::EMFILE)?)?;
        let folder = Arc::new(opened);
        let mut names = Vec::new();
        for found in listing.iter() {
            let found = match found {
                Ok(found) => found,
                // The folder was removed, or its disk is at fault.
                Err(Errno::ENOENT | Errno::EIO) => break,
                Err(error) => return Err(error),
            };
            let name = OsStr::from_bytes(found.file_name().to_bytes());
            if name == "." || name == ".." || name == GIT {
                continue;
            }
            match found.file_type() {
                Some(Type::Directory) => self.descend(&folder, name),
                Some(
                    Type::File
                    | Type::Symlink
                    | Type::Fifo
                    | Type::Socket
                    | Type::CharacterDevice
                    | Type::BlockDevice,
                )
                | None => names.push(name.to_owned()),
            }
        }
        while names.len() > BATCH {
            let names = names.split_off(names.len() - BATCH);
            self.jobs.push(Job::Names { folder: Arc::clone(&folder), names });
        }
        names.into_iter().try_for_each(|name| self.name(&folder, &name))
    }

    fn descend(&mut self, above: &Arc<Opened>, name: &OsStr) {
        let path = git::joined(&above.path, name.as_bytes());
        let standing = self.walk.judge.standing(above.rules.as_ref(), above.ruled, &path, true);
        if standing.ignored && self.walk.reach == Reach::NotIgnored {
            return;
        }
        let (above, name) = (Arc::clone(above), name.to_owned());
        self.jobs.push(Job::Folder { above, name, standing });
    }

    /// Looks at one name that is no folder.
    fn name(&mut self, folder: &Arc<Opened>, name: &OsStr) -> Result<(), Errno> {
        let mut stat = match read::look(folder.folder.as_fd(), name) {
            Ok(stat) => stat,
            Err(Errno::ENOENT) => return Ok(()),
            Err(error) => return Err(error),
        };
        if read::format_of(&stat) == SFlag::S_IFDIR {
            self.descend(folder, name);
            return Ok(());
        }
        let path = git::joined(&folder.path, name.as_bytes());
        let standing = self.walk.judge.standing(folder.rules.as_ref(), folder.ruled, &path, false);
        if standing.ignored && self.walk.reach == Reach::NotIgnored {
            return Ok(());
        }
        if standing.ruled && !standing.ignored {
            self.walked.exempt.push(path.clone());
        }
        let began = read::now_ns();
        let counts = standing.counted || standing.kept && read::size_of(&stat) <= KEPT_LIMIT;
        if standing.ignored && !counts {
            let steady = self.is_trusted(&stat) && read::is_past(&stat, began);
            self.push(path, &stat, true, (Content::None, steady));
            return Ok(());
        }
        if let Some(known) = self.known(&path, &stat) {
            self.push(path, &stat, standing.ignored, (known, true));
            return Ok(());
        }
        let (content, steady) = match read::format_of(&stat) {
            SFlag::S_IFREG => match self.reader.read(folder.folder.as_fd(), name, stat)? {
                Some(seen) => {
                    stat = seen.stat;
                    (seen.content, seen.steady && self.is_trusted(&stat))
                }
                // Something else took its place meanwhile.
                None => return self.name(folder, name),
            },
            SFlag::S_IFLNK => match fcntl::readlinkat(&folder.folder, name) {
                Ok(target) => (Content::Target(target.as_bytes().into()), false),
                Err(Errno::ENOENT | Errno::EINVAL) => return self.name(folder, name),
                Err(error) => return Err(error),
            },
            _ => (Content::None, false),
        };
        self.push(path, &stat, standing.ignored, (content, steady));
        Ok(())
    }

    /// The content of a file that did not change since the previous snapshot.
    fn known(&self, path: &[u8], stat: &FileStat) -> Option<Content> {
        let known = self.walk.previous?.get(path)?;
        let same = known.kind == Kind::File
            && known.stamp.steady
            && read::is_file(stat)
            && self.is_trusted(stat)
            && known.size == read::size_of(stat)
            && known.stamp == read::stamp(stat, true);
        match &known.content {
            Content::File(digest) if same && digest.sha256.is_some() => {
                Some(Content::File(*digest))
            }
            Content::File(_) | Content::Target(_) | Content::None | Content::Unreadable => None,
        }
    }

    /// What is mounted inside the workspace may be of another kind.
    fn is_trusted(&self, stat: &FileStat) -> bool {
        self.walk.place.trusted && stat.st_dev == self.walk.place.place.device
    }

    fn push(
        &mut self,
        path: Vec<u8>,
        stat: &FileStat,
        ignored: bool,
        (content, steady): (Content, bool),
    ) {
        let kind = kind_of(stat);
        self.walked.entries.push(Entry {
            path: path.into(),
            kind,
            mode: stat.st_mode & 0o7777,
            size: if kind == Kind::File { read::size_of(stat) } else { 0 },
            ignored,
            stamp: read::stamp(stat, steady),
            content,
        });
    }
}

fn kind_of(stat: &FileStat) -> Kind {
    match read::format_of(stat) {
        SFlag::S_IFDIR => Kind::Folder,
        SFlag::S_IFLNK => Kind::Link,
        SFlag::S_IFIFO => Kind::Pipe,
        SFlag::S_IFSOCK => Kind::Socket,
        SFlag::S_IFCHR => Kind::CharacterDevice,
        SFlag::S_IFBLK => Kind::BlockDevice,
        _ => Kind::File,
    }
}
