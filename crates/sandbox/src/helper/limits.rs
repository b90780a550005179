//! What one process may use up, by resource limits.

use crate::spec::{Limits, NotStarted};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Seconds between the signal that a process can take, and the one that it cannot.
const CPU_GRACE_S: u64 = 5;

/// Sets what binds each process; `processes` counts those of the account where it is given.
pub(super) fn apply(
    limits: &Limits,
    processes: Option<u64>,
    memory_of_each: bool,
) -> Result<(), NotStarted> {
    // One byte and not none: with none the kernel still hands a core to a program of the machine's.
    set(Resource::RLIMIT_CORE, 1, 1)?;
    set(Resource::RLIMIT_CPU, limits.cpu_s, limits.cpu_s.saturating_add(CPU_GRACE_S))?;
    set(Resource::RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes)?;
    let (soft, hard) = now(Resource::RLIMIT_NOFILE)?;
    set(Resource::RLIMIT_NOFILE, soft.min(limits.open_files), hard.min(limits.open_files))?;
    if memory_of_each {
        // Not the address space: runtimes reserve far more of it than they use.
        set(Resource::RLIMIT_DATA, limits.memory_bytes, limits.memory_bytes)?;
    }
    if let Some(processes) = processes {
        set(Resource::RLIMIT_NPROC, processes, processes)?;
    }
    Ok(())
}

/// Processes and threads that an account has now.
pub(super) fn processes_of(uid: u32) -> u64 {
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let owned = entries.flatten().filter(|entry| {
        entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)
            && entry.metadata().is_ok_and(|found| found.uid() == uid)
    });
    // A process that ended meanwhile has no threads.
    owned
        .filter_map(|entry| {
            let status = fs::read_to_string(entry.path().join("status")).ok()?;
            status
                .lines()
                .find_map(|line| line.strip_prefix("Threads:")?.trim().parse::<u64>().ok())
        })
        .sum()
}

fn now(resource: Resource) -> Result<(u64, u64), NotStarted> {
    getrlimit(resource).map_err(|error| NotStarted::setup(format!("{resource:?}"), &error.into()))
}

/// A limit is never raised.
fn set(resource: Resource, soft: u64, hard: u64) -> Result<(), NotStarted> {
    let (_, allowed) = now(resource)?;
    let hard = hard.min(allowed);
    setrlimit(resource, soft.min(hard), hard)
        .map_err(|error| NotStarted::setup(format!("{resource:?}"), &error.into()))
}
