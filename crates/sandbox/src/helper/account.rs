//! Which account a command runs under, and that it has no rights beyond that account's.

use crate::spec::NotStarted;
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, getegid, geteuid, setgroups, setresgid, setresuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The last capability that Linux has; a kernel that has fewer refuses the others.
const LAST_CAPABILITY: u64 = 63;

/// An account of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Account {
    /// The owner of the workspace, where this process is root and the owner is not: uid 0 without
    /// capabilities cannot read another account's folder.
    pub(super) fn to_become(workspace: &Path) -> io::Result<Option<Self>> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let found = fs::metadata(workspace)?;
        Ok((found.uid() != 0).then(|| Self { uid: found.uid(), gid: found.gid() }))
    }

    pub(super) fn own(self, path: &Path) -> io::Result<()> {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
    }

    /// Becomes this account, for good.
    pub(super) fn become_it(self) -> Result<(), NotStarted> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        setgroups(&[])
            .and_then(|()| setresgid(gid, gid, gid))
            .and_then(|()| setresuid(uid, uid, uid))
            // A process that changed its account does not own its own files in /proc.
            .and_then(|()| prctl::set_dumpable(true))
            .map_err(|error| NotStarted::setup("the workspace owner's account", &error.into()))
    }
}

/// A user namespace in which only this account exists, under its own number.
pub(super) fn user_namespace(with: CloneFlags) -> Result<(), NotStarted> {
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | with)
        .map_err(|error| NotStarted::setup("user namespace", &error.into()))?;
    let map = |file: &str, text: String| {
        fs::write(file, text).map_err(|error| NotStarted::setup(file, &error))
    };
    map("/proc/self/setgroups", "deny".to_owned())?;
    map("/proc/self/uid_map", format!("{uid} {uid} 1\n"))?;
    map("/proc/self/gid_map", format!("{gid} {gid} 1\n"))
}

/// Gives up every capability, for this process and all that it starts.
pub(super) fn drop_capabilities() -> Result<(), NotStarted> {
    let failed = |error: rustix::io::Errno| NotStarted::setup("capabilities", &error.into());
    for number in 0..=LAST_CAPABILITY {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match remove_capability_from_bounding_set(capability) {
            // A process without capabilities cannot narrow the set, and has nothing to narrow: no
            // program gives it any once new privileges are ruled out.
            Ok(()) | Err(rustix::io::Errno::PERM) => {}
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(failed(error)),
        }
    }
    clear_ambient_capability_set().map_err(failed)?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(failed)?;
    prctl::set_no_new_privs().map_err(|error| NotStarted::setup("no_new_privs", &error.into()))
}
