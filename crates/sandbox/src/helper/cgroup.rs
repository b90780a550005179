//! A control group for one command: memory of all its processes together, and their number.

use crate::spec::{Cgroup, Limits, NotStarted};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long an ended command's group may stay busy.
const BUSY: Duration = Duration::from_millis(500);

/// Control groups that go away with the command.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<Group>);

#[derive(Debug)]
struct Group {
    folder: PathBuf,
    unified: bool,
    memory: bool,
}

impl Groups {
    /// Makes the groups; those that only count processes where that is `needed`.
    pub(super) fn make(
        parents: &[Cgroup],
        limits: &Limits,
        count_processes: bool,
    ) -> Result<Self, NotStarted> {
        let mut groups = Self::default();
        for parent in parents.iter().filter(|parent| parent.memory || count_processes) {
            let folder = parent.parent.join(format!("surety-{}", std::process::id()));
            let made = Group::make(&folder, parent, limits);
            // It is removed even when only a part of it could be made.
            groups.0.push(Group { folder, unified: parent.unified, memory: parent.memory });
            if let Err(error) = made {
                groups.remove();
                let what = format!("control group below {}", parent.parent.display());
                return Err(NotStarted::setup(what, &error));
            }
        }
        Ok(groups)
    }

    /// Puts a process, and all that it starts from now on, into the groups.
    pub(super) fn take(&self, pid: u32) -> Result<(), NotStarted> {
        for group in &self.0 {
            let file = group.folder.join("cgroup.procs");
            fs::write(&file, pid.to_string())
                .map_err(|error| NotStarted::setup(file.display(), &error))?;
        }
        Ok(())
    }

    /// Whether a process was killed because the command used too much memory.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        self.0.iter().filter(|group| group.memory).any(|group| {
            let file = if group.unified { "memory.events" } else { "memory.oom_control" };
            let text = fs::read_to_string(group.folder.join(file)).unwrap_or_default();
            let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
            count.is_some_and(|count| count.trim() != "0")
        })
    }

    /// Removes the groups, whose processes have ended.
    pub(super) fn remove(&self) {
        let until = Instant::now() + BUSY;
        for group in &self.0 {
            // The kernel takes an ended process out of its group a moment after its parent knows.
            while fs::remove_dir(&group.folder)
                .is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
                && Instant::now() < until
            {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Group {
    fn make(folder: &Path, parent: &Cgroup, limits: &Limits) -> io::Result<()> {
        match fs::create_dir(folder) {
            // Left by a helper of the same number that was killed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        if parent.memory {
            let file = if parent.unified { "memory.max" } else { "memory.limit_in_bytes" };
            fs::write(folder.join(file), limits.memory_bytes.to_string())?;
        }
        if parent.pids {
            fs::write(folder.join("pids.max"), limits.processes.to_string())?;
        }
        Ok(())
    }
}
