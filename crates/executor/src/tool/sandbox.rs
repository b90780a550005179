//! How this executor confines the commands of a run.

use crate::scratch::{self, try_write};
use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::process::CommandRequest;
use crate::tool::{Environment, ToolContext, Workspace};
use nix::unistd::geteuid;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use surety_common::config::{ConfigError, SandboxConfig};
use surety_common::domain::receipt::Command;
use surety_common::domain::run::{NetworkPolicy, Policy, SandboxPolicy};
use surety_sandbox::{
    Confinement, Folders, HostTree, InForce, Limits, Machine, Missing, Network, Spec, Tree,
    Unavailable, Wanted, machine,
};
use tokio::time::Instant;

/// The folder below the data folder in which the helper keeps what goes away with a command.
const SCRATCH: &str = "scratch";

/// Processes and threads of a person's own command: below the ids that a machine has by default.
const PARTICIPANT_PROCESSES: u64 = 30_000;
/// Seconds of processor time of each of its processes: a year on every processor of a large machine.
const PARTICIPANT_CPU_S: u64 = 365 * 24 * 3600 * 256;

/// Processes and threads of a parser: it has one that parses and one that watches the time.
const PARSER_PROCESSES: u64 = 16;
/// Bytes of memory of a parser: a file of the largest size that is parsed needs less.
const PARSER_MEMORY: u64 = 2 << 30;

/// Bytes in a MiB.
const MIB: u64 = 1 << 20;

/// Why commands cannot be confined as the operator wants.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The level that was asked for is not there.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The scratch folder cannot be made or written.
    #[error(
        "sandbox: the folder {path} cannot be written: {source}; free space there, or set --executor-data-dir \
         (SURETY_EXECUTOR_DATA_DIR) to a folder that this account may write"
    )]
    Scratch {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A setting does not read.
    #[error(transparent)]
    Setting(#[from] ConfigError),
}

/// What confines commands, and what the run's policy asks of it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sandbox {
    machine: Arc<Machine>,
    folders: Arc<Folders>,
    limits: Limits,
    allow_none: bool,
    network: NetworkPolicy,
    policy: SandboxPolicy,
}

/// Where an MCP server works.
#[derive(Debug, Clone)]
pub(super) struct ServerPlace {
    /// The folder, without links.
    pub(super) root: PathBuf,
    /// The folder as it was given.
    pub(super) given: PathBuf,
    /// What of it the server may not write.
    pub(super) protected: Vec<PathBuf>,
    /// What git reads outside of it.
    pub(super) git: Vec<PathBuf>,
}

/// The process of an MCP server.
#[derive(Debug, Clone)]
pub(super) struct ServerCommand {
    /// The program and its arguments.
    pub(super) argv: Vec<String>,
    /// Its whole environment.
    pub(super) environment: Environment,
    /// What it may read besides what commands may.
    pub(super) read_only: Vec<PathBuf>,
    /// Which network it reaches.
    pub(super) network: NetworkPolicy,
    /// Whether it may write in its folder.
    pub(super) may_write: bool,
    /// The named pipe that it reads.
    pub(super) input: PathBuf,
}

/// A person's own command, such as an agent.
#[derive(Debug, Clone)]
pub struct Participant {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Where it runs.
    pub folder: PathBuf,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// TCP ports that it may not connect to where it is confined.
    pub closed_ports: Vec<u16>,
    /// Whether it is confined where the machine can.
    pub confine: bool,
}

/// How a person's own command is run.
#[derive(Debug, Clone)]
pub struct Attached {
    /// The helper's spec.
    pub spec: Spec,
    /// Whether the service's data and the toolchains are out of its reach.
    pub is_confined: bool,
    /// Toolchains, caches and program folders that are not there before it.
    pub absent: Vec<PathBuf>,
}

impl Sandbox {
    /// Finds out what the machine has; it starts processes, so it blocks. `hidden` is what no command
    /// may see.
    ///
    /// # Errors
    /// The level that the operator asks for is not available, or the data folder cannot be written.
    pub fn probe(
        config: &SandboxConfig,
        data_dir: &Path,
        hidden: Vec<PathBuf>,
    ) -> Result<Self, SandboxError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| SandboxError::Scratch { path, source }
        };
        let data_dir = std::path::absolute(data_dir).map_err(failed(data_dir))?;
        let scratch = data_dir.join(SCRATCH);
        // A command may run under another account, which has to get through.
        scratch::make(&scratch).map_err(failed(&scratch))?;
        let scratch = scratch.canonicalize().map_err(failed(&scratch))?;
        try_write(&scratch).map_err(failed(&scratch))?;
        let wanted = Wanted::from_text(&config.sandbox).unwrap_or_default();
        let machine = machine(wanted, &scratch)?;
        let mut hidden: Vec<_> = hidden.iter().map(|path| real_or_named(path)).collect();
        hidden.extend(data_dir.canonicalize());
        let folders = Folders {
            hidden,
            read_only: paths(config.sandbox_read_only.as_deref()),
            writable: paths(config.sandbox_writable.as_deref()),
            scratch,
        };
        Ok(Self {
            machine: Arc::new(machine),
            folders: Arc::new(folders),
            limits: limits(config),
            allow_none: config.sandbox_allow_none,
            network: NetworkPolicy::default(),
            policy: SandboxPolicy::default(),
        })
    }

    /// What confines commands here, and why it is no more.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether what a command writes in a view can be kept for later ones.
    pub fn keeps_views(&self) -> bool {
        self.policy != SandboxPolicy::None && self.machine.keeps_views()
    }

    /// Whether a command sees a copy of the workspace at the workspace's own path.
    pub fn mounts_copies(&self) -> bool {
        self.policy != SandboxPolicy::None && self.machine.mounts_copies()
    }

    /// Writes a file to the scratch folder and removes it. It blocks.
    ///
    /// # Errors
    /// The folder is full, read-only, or closed to this account.
    pub fn write_to_scratch(&self) -> std::io::Result<()> {
        try_write(self.scratch())
    }

    /// The folder on disk for what goes away.
    pub fn scratch(&self) -> &Path {
        &self.folders.scratch
    }

    /// With what a run's policy asks for.
    #[must_use]
    pub fn under(&self, policy: &Policy) -> Self {
        Self { network: policy.network.clone(), policy: policy.sandbox, ..self.clone() }
    }

    /// None, as a check asks for. A run that requires the level full keeps it.
    #[must_use]
    pub fn without(&self) -> Self {
        match self.policy {
            SandboxPolicy::RequireFull => self.clone(),
            // What a command reaches is up to the sandbox.
            SandboxPolicy::AllowPartial | SandboxPolicy::None => {
                Self { policy: SandboxPolicy::None, network: NetworkPolicy::All, ..self.clone() }
            }
        }
    }

    /// With more folders that commands may read.
    #[must_use]
    pub fn reading(&self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut folders = Folders::clone(&self.folders);
        folders.read_only.extend(paths);
        Self { folders: Arc::new(folders), ..self.clone() }
    }

    /// With more folders that commands may write.
    #[must_use]
    pub fn writing(&self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut folders = Folders::clone(&self.folders);
        folders.writable.extend(paths);
        Self { folders: Arc::new(folders), ..self.clone() }
    }

    /// With another bound of the bytes that a command may write to disk.
    #[must_use]
    pub fn with_disk(&self, disk_bytes: u64) -> Self {
        Self { limits: Limits { disk_bytes, ..self.limits }, ..self.clone() }
    }

    /// With another network.
    #[must_use]
    pub fn on_network(&self, network: NetworkPolicy) -> Self {
        Self { network, ..self.clone() }
    }

    /// With more that no command may see.
    #[must_use]
    pub fn hiding(&self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut folders = Folders::clone(&self.folders);
        folders.hidden.extend(paths);
        Self { folders: Arc::new(folders), ..self.clone() }
    }

    /// The helper's spec of one command. It reads folders, so it blocks.
    ///
    /// # Errors
    /// `sandbox_unavailable`, `sandbox_required` for a policy that cannot be kept here, and what the
    /// workspace says when it cannot be opened.
    pub fn spec(&self, ctx: &ToolContext, request: &CommandRequest) -> Result<Spec, ToolError> {
        self.keep_scratch()?;
        let workspace = ctx.workspace()?;
        let root = workspace.root();
        let confinement = self.confinement(root)?;
        let host = HostTree::of(request.environment.iter(), &self.folders);
        let mut tree = host.tree(root, workspace.given(), &[PathBuf::new()], ctx.folder.git()?);
        tree.protected = ctx.write_scope.protected(root);
        let argv = match &request.command {
            Command::Argv(argv) => argv.clone(),
            Command::Line(line) => ["sh", "-c", line].map(str::to_owned).to_vec(),
        };
        if argv.is_empty() {
            let message = "a command needs a program";
            return Err(ToolError::new(ErrorCode::ArgumentsInvalid, message));
        }
        if argv.iter().any(|argument| argument.contains('\0')) {
            let message = "a command contains the character U+0000, which no program can be given";
            return Err(ToolError::new(ErrorCode::ArgumentsInvalid, message));
        }
        Ok(Spec {
            argv,
            parser_input: None,
            cwd: request.folder.clone(),
            environment: environment(&request.environment),
            tree,
            network: network(&self.network),
            closed_ports: Vec::new(),
            limits: self.limits_until(ctx.deadline),
            view: ctx.view.as_deref().cloned(),
            input: None,
            attached: false,
            confinement,
        })
    }

    /// The helper's spec of a parser over the workspace. It is confined as far as the machine can, reads the
    /// workspace and system folders, and writes nothing, whatever a run's policy opens for its commands. It
    /// reads folders, so it blocks.
    ///
    /// # Errors
    /// `sandbox_unavailable` for a policy that cannot be kept here, and what the workspace says when it cannot be
    /// opened.
    pub fn parser_spec(&self, ctx: &ToolContext, input: String) -> Result<Spec, ToolError> {
        self.keep_scratch()?;
        let workspace = ctx.workspace()?;
        let root = workspace.root();
        let confinement = match self.policy {
            SandboxPolicy::RequireFull => self.confinement(root)?,
            SandboxPolicy::AllowPartial | SandboxPolicy::None => self.machine.confinement(root),
        };
        let folders = Folders {
            hidden: self.folders.hidden.clone(),
            scratch: self.folders.scratch.clone(),
            ..Folders::default()
        };
        let own = self.limits_until(ctx.deadline);
        Ok(Spec {
            argv: Vec::new(),
            parser_input: Some(input),
            cwd: root.to_owned(),
            environment: Vec::new(),
            tree: HostTree::of([], &folders).tree(root, workspace.given(), &[], &[]),
            network: Network::None,
            closed_ports: Vec::new(),
            limits: Limits {
                processes: PARSER_PROCESSES,
                memory_bytes: own.memory_bytes.min(PARSER_MEMORY),
                file_bytes: 0,
                tmp_bytes: MIB,
                ..own
            },
            view: None,
            input: None,
            attached: false,
            confinement,
        })
    }

    /// The helper's spec of an MCP server. It has the level that a run's policy asks for, and the network of its own
    /// configuration. It reads folders, so it blocks.
    ///
    /// # Errors
    /// `sandbox_unavailable`, `sandbox_required` for a policy that cannot be kept here.
    pub(super) fn server_spec(
        &self,
        place: &ServerPlace,
        server: ServerCommand,
    ) -> Result<Spec, ToolError> {
        self.keep_scratch()?;
        let confinement = self.confinement(&place.root)?;
        let mut folders = Folders::clone(&self.folders);
        folders.read_only.extend(server.read_only);
        let host = HostTree::of(server.environment.iter(), &folders);
        let whole = [PathBuf::new()];
        let writable = if server.may_write { whole.as_slice() } else { &[] };
        let mut tree = host.tree(&place.root, &place.given, writable, &place.git);
        tree.protected = place.protected.clone();
        Ok(Spec {
            argv: server.argv,
            parser_input: None,
            cwd: place.root.clone(),
            environment: environment(&server.environment),
            tree,
            network: network(&server.network),
            closed_ports: Vec::new(),
            limits: self.limits,
            view: None,
            input: Some(server.input),
            attached: false,
            confinement,
        })
    }

    /// The helper's spec of a person's own command, with its home, its network and its terminal, and what
    /// is not there now of all that later commands would see. `git` is what git reads outside of the workspace. It reads
    /// folders, so it blocks.
    pub fn participant(
        &self,
        (workspace, git): (&Workspace, &[PathBuf]),
        participant: &Participant,
    ) -> Attached {
        let variables = || {
            let all = participant.environment.iter();
            all.map(|(name, value)| (name.as_os_str(), value.as_os_str()))
        };
        let root = workspace.root();
        let host = HostTree::of(variables(), &self.folders);
        let confinement = self.machine.confinement(root);
        let lacks = |missing| confinement.in_force().missing().contains(&missing);
        // Below the strongest level a home cannot be shown with parts of it taken out. As root the sandbox
        // becomes the owner of the workspace, who has another home.
        let is_confined = participant.confine
            && *confinement.in_force() != InForce::None
            && !lacks(Missing::MountNamespace)
            && (!geteuid().is_root() || is_of_root(root));
        let spec = Spec {
            argv: participant.argv.clone(),
            parser_input: None,
            cwd: participant.folder.clone(),
            environment: if is_confined {
                Tree::environment(variables())
            } else {
                participant.environment.clone()
            },
            tree: host.participant(root, workspace.given(), git),
            network: Network::All,
            closed_ports: if is_confined { participant.closed_ports.clone() } else { Vec::new() },
            limits: unbounded(),
            view: None,
            input: Some(PathBuf::from(format!("/proc/{}/fd/0", std::process::id()))),
            attached: true,
            confinement: if is_confined { confinement } else { self.machine.unconfined() },
        };
        let absent = host.absent().iter().filter(|path| !path.starts_with(root));
        Attached { spec, is_confined, absent: absent.cloned().collect() }
    }

    /// Makes the scratch folder again where it was removed under the running executor.
    fn keep_scratch(&self) -> Result<(), ToolError> {
        let path = self.scratch();
        scratch::make(path).map_err(|error| {
            let message = format!("the executor's folder {}: {error}", path.display());
            ToolError::new(ErrorCode::IoFailed, message)
        })
    }

    fn confinement(&self, workspace: &Path) -> Result<Confinement, ToolError> {
        match self.policy {
            SandboxPolicy::AllowPartial => Ok(self.machine.confinement(workspace)),
            SandboxPolicy::RequireFull => {
                let confinement = self.machine.confinement(workspace);
                if *confinement.in_force() == InForce::Full {
                    return Ok(confinement);
                }
                let message = format!(
                    "sandbox: the run requires the level full, and this executor has {}; see \
                     `surety config check` on its machine",
                    confinement.in_force()
                );
                Err(ToolError::new(ErrorCode::SandboxUnavailable, message))
            }
            SandboxPolicy::None if self.allow_none => Ok(self.machine.unconfined()),
            SandboxPolicy::None => {
                let message = "sandbox: the run or its check asks for none, which this executor does not \
                               allow; its operator allows it with SURETY_SANDBOX_ALLOW_NONE=true";
                Err(ToolError::new(ErrorCode::SandboxRequired, message))
            }
        }
    }

    /// No process can use more processor time than there is until the deadline.
    fn limits_until(&self, deadline: Instant) -> Limits {
        let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_secs(1);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let processors = u64::try_from(processors).unwrap_or(1);
        let cpu_s = left.as_secs().saturating_add(1).saturating_mul(processors);
        Limits { cpu_s, ..self.limits }
    }
}

/// The real path. What does not exist, such as a key that its service makes later, has its name below the real path of the
/// folder that does.
fn real_or_named(path: &Path) -> PathBuf {
    let named = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = named.ancestors().find_map(|folder| {
        let below = named.strip_prefix(folder).ok()?;
        // Joined with nothing, a path gets a slash at its end.
        let real = folder.canonicalize().ok()?;
        Some(if below.as_os_str().is_empty() { real } else { real.join(below) })
    });
    real.unwrap_or(named)
}

fn network(policy: &NetworkPolicy) -> Network {
    match policy {
        NetworkPolicy::None => Network::None,
        NetworkPolicy::HostLoopback(ports) => Network::HostLoopback(ports.clone()),
        NetworkPolicy::Hosts(hosts) => {
            let allowed = hosts.iter();
            let allowed = allowed.map(|host| surety_sandbox::AllowedHost {
                name: host.name.clone(),
                port: host.port,
            });
            Network::Hosts(allowed.collect())
        }
        NetworkPolicy::All => Network::All,
    }
}

fn is_of_root(folder: &Path) -> bool {
    folder.metadata().is_ok_and(|found| found.uid() == 0)
}

/// No limits but those that keep the machine usable: the command is the person's own.
fn unbounded() -> Limits {
    let defaults = Limits::default();
    Limits {
        processes: PARTICIPANT_PROCESSES,
        memory_bytes: defaults.memory_bytes.saturating_mul(2),
        cpu_s: PARTICIPANT_CPU_S,
        open_files: u64::MAX,
        file_bytes: u64::MAX >> 1,
        disk_bytes: u64::MAX,
        disk_files: u64::MAX,
        tmp_bytes: defaults.memory_bytes / 2,
    }
}

fn environment(variables: &Environment) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    Tree::environment(variables.iter())
}

fn paths(setting: Option<&str>) -> Vec<PathBuf> {
    setting.iter().flat_map(|paths| paths.split(':')).map(PathBuf::from).collect()
}

fn limits(config: &SandboxConfig) -> Limits {
    let defaults = Limits::default();
    Limits {
        processes: config.sandbox_processes.unwrap_or(defaults.processes),
        memory_bytes: config
            .sandbox_memory_mib
            .map_or(defaults.memory_bytes, |mib| mib.saturating_mul(MIB)),
        disk_bytes: config.sandbox_disk_mib.saturating_mul(MIB),
        ..defaults
    }
}
