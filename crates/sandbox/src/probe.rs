//! What the machine can confine, found by really trying each mechanism once.

use crate::launch;
use crate::level::{InForce, Level, Missing, Wanted};
use crate::spec::{Confinement, Exit, Limits, Network, Overlay, Spec, Tree};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

#[cfg(target_os = "linux")]
use crate::helper::machine as facts;

/// A level that was asked for and is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "sandbox: the level `{wanted}` (SURETY_SANDBOX) is not available on this machine: {reason}; set \
     SURETY_SANDBOX=auto to use the strongest one that is"
)]
pub struct Unavailable {
    /// What was asked for.
    pub wanted: &'static str,
    /// What is missing.
    pub reason: String,
}

/// What confines commands on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    confinement: Confinement,
    /// Whether processes of root are bounded too.
    bounds_root: bool,
    /// Why a stronger level was not taken; empty when the strongest was, or was not asked for.
    reasons: Vec<String>,
}

impl Machine {
    /// What is in force for a command whose workspace belongs to the account that runs this process.
    pub const fn in_force(&self) -> &InForce {
        &self.confinement.in_force
    }

    /// Why a stronger level was not taken, one sentence each.
    pub fn reasons(&self) -> &[String] {
        &self.reasons
    }

    /// Whether views can be overlays at the workspace's own path.
    pub fn makes_views(&self) -> bool {
        self.confinement.level == Level::Namespaces
            && self.confinement.overlay != Overlay::Unavailable
    }

    /// Whether a copy can stand at the workspace's own path.
    pub fn mounts_copies(&self) -> bool {
        self.confinement.level == Level::Namespaces
    }

    /// Whether what is written in a view can be kept for later commands.
    pub fn keeps_views(&self) -> bool {
        self.makes_views() && self.confinement.overlay == Overlay::Disk
    }

    /// What confines a command on this workspace: of root's own processes fewer can be bounded than
    /// of those of another account.
    pub fn confinement(&self, workspace: &Path) -> Confinement {
        let mut confinement = self.confinement.clone();
        if let InForce::Partial(missing) = &confinement.in_force
            && !self.bounds_root
            && !is_of_root(workspace)
        {
            let kept = missing.iter().copied().filter(|one| *one != Missing::ProcessLimit);
            confinement.in_force = InForce::without(kept.collect());
        }
        confinement
    }

    /// For a command that is not to be confined.
    pub fn unconfined(&self) -> Confinement {
        Confinement { level: Level::None, in_force: InForce::None, ..self.confinement.clone() }
    }
}

/// What confines commands here at the level that is wanted. Each level is tried once in a process, with
/// `scratch` as the folder on disk that the helper may use.
///
/// # Errors
/// A level that was asked for by name is not available; the error says what is missing.
pub fn machine(wanted: Wanted, scratch: &Path) -> Result<Machine, Unavailable> {
    static PROBED: Mutex<Vec<(Wanted, Result<Machine, Unavailable>)>> = Mutex::new(Vec::new());
    let mut probed = PROBED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = probed.iter().find(|(level, _)| *level == wanted) {
        return found.clone();
    }
    let found = probe(wanted, scratch);
    probed.push((wanted, found.clone()));
    found
}

fn probe(wanted: Wanted, scratch: &Path) -> Result<Machine, Unavailable> {
    let unavailable = |reason: String| Unavailable { wanted: wanted.as_str(), reason };
    match wanted {
        Wanted::None => Ok(none(Vec::new())),
        Wanted::Partial => weaker(scratch).map_err(unavailable),
        Wanted::Full => {
            let machine = strongest(scratch).map_err(unavailable)?;
            match machine.in_force().missing() {
                [] => Ok(machine),
                missing => Err(unavailable(described(missing))),
            }
        }
        Wanted::Auto => Ok(strongest(scratch).unwrap_or_else(|first| {
            weaker(scratch)
                .map(|machine| Machine { reasons: vec![first.clone()], ..machine })
                .unwrap_or_else(|second| none(vec![first, second]))
        })),
    }
}

fn described(missing: &[Missing]) -> String {
    let each = missing.iter().map(|one| format!("{one}: {}", one.meaning()));
    each.collect::<Vec<_>>().join(" ")
}

fn none(reasons: Vec<String>) -> Machine {
    let confinement = Confinement {
        level: Level::None,
        overlay: Overlay::Unavailable,
        pid_max: false,
        cgroups: Vec::new(),
        in_force: InForce::None,
    };
    Machine { confinement, bounds_root: false, reasons }
}

#[cfg(target_os = "linux")]
fn strongest(scratch: &Path) -> Result<Machine, String> {
    let all = Confinement {
        level: Level::Namespaces,
        overlay: Overlay::Disk,
        pid_max: true,
        cgroups: facts::cgroups(),
        in_force: InForce::Full,
    };
    let confinement = match attempt(&all, scratch) {
        Ok(()) => all,
        Err(_) => each_by_itself(all, scratch)?,
    };
    // Memory is bounded for the whole command with a control group or without one.
    Ok(bounded(confinement, Vec::new()))
}

/// Namespaces with only those of the other mechanisms that work here.
#[cfg(target_os = "linux")]
fn each_by_itself(all: Confinement, scratch: &Path) -> Result<Confinement, String> {
    let bare = Confinement {
        overlay: Overlay::Unavailable,
        pid_max: false,
        cgroups: Vec::new(),
        ..all.clone()
    };
    attempt(&bare, scratch)?;
    let works = |confinement: &Confinement| attempt(confinement, scratch).is_ok();
    let overlay = [Overlay::Disk, Overlay::Memory]
        .into_iter()
        .find(|overlay| works(&Confinement { overlay: *overlay, ..bare.clone() }))
        .unwrap_or(Overlay::Unavailable);
    let pid_max = works(&Confinement { pid_max: true, ..bare.clone() });
    let cgroups = all.cgroups.into_iter();
    let cgroups = cgroups
        .filter(|group| works(&Confinement { cgroups: vec![group.clone()], ..bare.clone() }));
    Ok(Confinement { overlay, pid_max, cgroups: cgroups.collect(), ..bare })
}

#[cfg(target_os = "linux")]
fn weaker(scratch: &Path) -> Result<Machine, String> {
    let mut missing = facts::landlock_lacks().map_err(|error| error.to_string())?;
    let bare = Confinement {
        level: Level::Landlock,
        overlay: Overlay::Unavailable,
        pid_max: false,
        cgroups: Vec::new(),
        in_force: InForce::None,
    };
    attempt(&bare, scratch)?;
    let cgroups = facts::cgroups().into_iter();
    let cgroups = cgroups.filter(|group| {
        attempt(&Confinement { cgroups: vec![group.clone()], ..bare.clone() }, scratch).is_ok()
    });
    let confinement = Confinement { cgroups: cgroups.collect(), ..bare };
    missing.extend([
        Missing::UserNamespace,
        Missing::MountNamespace,
        Missing::PidNamespace,
        Missing::IpcNamespace,
        Missing::NetworkNamespace,
        Missing::FileAttributes,
    ]);
    if !confinement.cgroups.iter().any(|group| group.memory) {
        missing.push(Missing::MemoryLimit);
    }
    Ok(bounded(confinement, missing))
}

/// With what is known about the number of processes: a limit of the account does not bind root.
#[cfg(target_os = "linux")]
fn bounded(confinement: Confinement, mut missing: Vec<Missing>) -> Machine {
    let bounds_root = confinement.pid_max || confinement.cgroups.iter().any(|group| group.pids);
    if !bounds_root && nix::unistd::geteuid().is_root() {
        missing.push(Missing::ProcessLimit);
    }
    let in_force = InForce::without(missing);
    let reasons = in_force.missing().iter().map(|one| format!("{one}: {}", one.meaning()));
    Machine {
        reasons: reasons.collect(),
        confinement: Confinement { in_force, ..confinement },
        bounds_root,
    }
}

#[cfg(not(target_os = "linux"))]
fn strongest(_scratch: &Path) -> Result<Machine, String> {
    Err("namespaces: this system has none".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn weaker(scratch: &Path) -> Result<Machine, String> {
    let missing = vec![
        Missing::UserNamespace,
        Missing::MountNamespace,
        Missing::PidNamespace,
        Missing::IpcNamespace,
        Missing::NetworkNamespace,
        Missing::Landlock,
        Missing::Seccomp,
        Missing::MemoryLimit,
    ];
    let confinement = Confinement {
        level: Level::SandboxExec,
        overlay: Overlay::Unavailable,
        pid_max: false,
        cgroups: Vec::new(),
        in_force: InForce::without(missing),
    };
    attempt(&confinement, scratch)?;
    Ok(Machine { confinement, bounds_root: false, reasons: Vec::new() })
}

/// Sets everything up for no command at all.
fn attempt(confinement: &Confinement, scratch: &Path) -> Result<(), String> {
    let spec = Spec {
        argv: Vec::new(),
        parser_input: None,
        attached: false,
        cwd: "/".into(),
        environment: Vec::new(),
        tree: Tree {
            workspace: scratch.to_owned(),
            writable: vec![scratch.to_owned()],
            caches: match confinement.overlay {
                Overlay::Unavailable => Vec::new(),
                Overlay::Disk | Overlay::Memory => vec!["/etc".into()],
            },
            scratch: scratch.to_owned(),
            ..Tree::default()
        },
        network: Network::None,
        closed_ports: Vec::new(),
        limits: Limits::default(),
        view: None,
        input: None,
        confinement: confinement.clone(),
    };
    let report = launch::run(&spec, Stdio::null(), Stdio::null());
    match report.map_err(|error| error.to_string())?.exit {
        Exit::Code(0) => Ok(()),
        Exit::NotStarted(why) => Err(why.message),
        Exit::Code(code) | Exit::Signal(code) => {
            Err(format!("sandbox: the trial ended with {code}"))
        }
    }
}

fn is_of_root(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    // A folder whose owner is unknown counts as root's, which is the weaker promise.
    folder.metadata().map_or(true, |found| found.uid() == 0)
}
