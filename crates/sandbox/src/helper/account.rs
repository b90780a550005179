//! Which account a command runs under, and that it has no rights beyond that account's.

use crate::spec::NotStarted;
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, getegid, geteuid, setgroups, setresgid, setresuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The last capability that Linux has; a kernel that has fewer refuses the others.
const LAST_CAPABILITY: u64 = 63;

/// What is refused, and what refuses it on machines that have it.
const USER_NAMESPACE: &str = "user namespace (refused by user.max_user_namespaces, kernel.unprivileged_userns_clone, \
                              AppArmor or seccomp)";

/// What the stage that makes the namespaces and the mount tree does as an account that is not root. Nothing of it
/// reaches beyond the user namespace of one command.
const OF_INIT: CapabilitySet = CapabilitySet::SYS_ADMIN
    // It switches the loopback on, and listens there for names and for ports below 1024.
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_BIND_SERVICE)
    // The kernel closes an overlay's work folder even to its owner, and works there with what mounted it.
    .union(CapabilitySet::DAC_OVERRIDE)
    // It empties the set of what any later program could be given.
    .union(CapabilitySet::SETPCAP);

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
        .map_err(|error| NotStarted::setup(USER_NAMESPACE, &error.into()))?;
    let map = |file: &str, text: String| {
        fs::write(file, text).map_err(|error| {
            // AppArmor gives the namespace and takes every right in it.
            NotStarted::setup(format!("{USER_NAMESPACE}: {file}"), &error)
        })
    };
    map("/proc/self/setgroups", "deny".to_owned())?;
    map("/proc/self/uid_map", format!("{uid} {uid} 1\n"))?;
    map("/proc/self/gid_map", format!("{gid} {gid} 1\n"))
}

/// Lets the stage that this process starts next have the capabilities that it needs. Root has them after `exec`; any
/// other account loses those that are not ambient.
pub(super) fn keep_capabilities() -> Result<(), NotStarted> {
    let failed = |error: rustix::io::Errno| NotStarted::setup("capabilities", &error.into());
    let now = capabilities(None).map_err(failed)?;
    set_capabilities(None, CapabilitySets { inheritable: OF_INIT, ..now }).map_err(failed)?;
    OF_INIT
        .iter()
        .try_for_each(|capability| configure_capability_in_ambient_set(capability, true))
        .map_err(failed)
}

/// Empties the set of the capabilities that a program could give to this process or to one that it starts.
pub(super) fn bound_capabilities() -> Result<(), NotStarted> {
    for number in 0..=LAST_CAPABILITY {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match remove_capability_from_bounding_set(capability) {
            // A process without capabilities cannot narrow the set, and has nothing to narrow: no
            // program gives it any once new privileges are ruled out.
            Ok(()) | Err(rustix::io::Errno::PERM) => {}
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(NotStarted::setup("capabilities", &error.into())),
        }
    }
    Ok(())
}

/// Gives up every capability, for this process and all that it starts.
pub(super) fn drop_capabilities() -> Result<(), NotStarted> {
    let failed = |error: rustix::io::Errno| NotStarted::setup("capabilities", &error.into());
    bound_capabilities()?;
    clear_ambient_capability_set().map_err(failed)?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(failed)?;
    prctl::set_no_new_privs().map_err(|error| NotStarted::setup("no_new_privs", &error.into()))
}
