//! What a service asks the helper for, and what the helper answers.

mod bytes;

use crate::level::{InForce, Level};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;

/// One command and everything it may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The program and its arguments; the program is found by the environment's `PATH`.
    pub argv: Vec<String>,
    /// In place of a program, the parser of the service that starts the helper, with this text as its standard
    /// input. It has no environment.
    pub parser_input: Option<String>,
    /// Where it runs; absolute.
    #[serde(with = "bytes::path")]
    pub cwd: PathBuf,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Which files it sees.
    pub tree: Tree,
    /// Which network it reaches.
    pub network: Network,
    /// TCP ports that it may not connect to, at any address. A kernel without Landlock's rules for ports (Linux before 6.7)
    /// and a level without namespaces leave them open.
    pub closed_ports: Vec<u16>,
    /// What it may use up.
    pub limits: Limits,
    /// Replaces the workspace by a view of it.
    pub view: Option<View>,
    /// What it reads as its standard input, such as a named pipe. Without one it reads nothing.
    pub input: Option<PathBuf>,
    /// Whether it is a person's own command, which keeps the session, the process group and the terminal of the
    /// process that starts the helper. Any other has no terminal.
    pub attached: bool,
    /// What confines it, as [`crate::Machine`] chose.
    pub confinement: Confinement,
}

/// The files a command sees. Every path is absolute and without links.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// The workspace.
    #[serde(with = "bytes::path")]
    pub workspace: PathBuf,
    /// What may be written inside the workspace; the workspace itself opens all of it.
    #[serde(with = "bytes::paths")]
    pub writable: Vec<PathBuf>,
    /// What of it is read-only all the same, where a mount namespace can make it so.
    #[serde(with = "bytes::paths")]
    pub protected: Vec<PathBuf>,
    /// What can be read and run, where it exists.
    #[serde(with = "bytes::paths")]
    pub read_only: Vec<PathBuf>,
    /// Caches: their content is there, and what is written goes away with the command.
    #[serde(with = "bytes::paths")]
    pub caches: Vec<PathBuf>,
    /// Folders that are empty and writable, and go away with the command: the home folder.
    #[serde(with = "bytes::paths")]
    pub private: Vec<PathBuf>,
    /// Symbolic links, and what each names.
    #[serde(with = "bytes::pairs")]
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Files that only the command has, and their texts.
    pub files: Vec<(PathBuf, String)>,
    /// What stays out of sight, even inside a folder named above.
    #[serde(with = "bytes::paths")]
    pub hidden: Vec<PathBuf>,
    /// A folder on disk in which the helper keeps what goes away with the command.
    #[serde(with = "bytes::path")]
    pub scratch: PathBuf,
}

/// The port of the command's own loopback with the proxy, above those that systems give to clients.
pub const PROXY_PORT: u16 = 61_080;

/// A host that a command reaches through the proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedHost {
    /// Its name, or an address.
    pub name: String,
    /// Its port; none is 80 and 443.
    pub port: Option<u16>,
}

/// The network a command reaches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// A loopback of its own, and nothing else.
    #[default]
    None,
    /// As none, and these TCP ports of the host's loopback.
    HostLoopback(Vec<u16>),
    /// As none, and an HTTP proxy on [`PROXY_PORT`] that leads to these hosts.
    Hosts(Vec<AllowedHost>),
    /// The host's network.
    All,
}

impl Network {
    /// Whether a part of the host's network is reached over sockets of the command's own loopback.
    pub const fn is_bridged(&self) -> bool {
        matches!(self, Self::HostLoopback(_) | Self::Hosts(_))
    }
}

/// What a command may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at one time.
    pub processes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Seconds of processor time of each process.
    pub cpu_s: u64,
    /// Files each process has open.
    pub open_files: u64,
    /// Bytes of the largest file.
    pub file_bytes: u64,
    /// Bytes written to disk; checked once a second.
    pub disk_bytes: u64,
    /// Files and folders created; checked once a second.
    pub disk_files: u64,
    /// Bytes of the private temporary folder.
    pub tmp_bytes: u64,
}

/// The workspace with changes that only this command sees, at the workspace's own path. What the
/// command writes is dropped, or goes to `upper`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// A folder with a copy of the workspace, which stands in its place. All of the view is in it, and it keeps what is written.
    pub copy: Option<PathBuf>,
    /// A folder that keeps what is written, for later commands; without one it is dropped.
    pub upper: Option<PathBuf>,
    /// Folders with what earlier commands kept, over the workspace; the first is on top.
    #[serde(with = "bytes::paths")]
    pub below: Vec<PathBuf>,
    /// Paths inside the workspace, and the files whose content they get. Of a folder only the permissions count.
    #[serde(with = "bytes::pairs")]
    pub replace: Vec<(PathBuf, PathBuf)>,
    /// Paths inside the workspace that are taken out.
    #[serde(with = "bytes::paths")]
    pub remove: Vec<PathBuf>,
    /// Paths inside the workspace, and the times of their last writes that they get, nanoseconds since 1970.
    #[serde(with = "bytes::timed")]
    pub times: Vec<(PathBuf, i64)>,
}

/// What confines one command, chosen from what the machine has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The mechanisms.
    pub(crate) level: Level,
    /// Where overlays keep what is written.
    pub(crate) overlay: Overlay,
    /// Whether the kernel counts processes by the PID namespace.
    pub(crate) pid_max: bool,
    /// Control groups below which one for the command can be made.
    pub(crate) cgroups: Vec<Cgroup>,
    /// What a report says of it when nothing went wrong.
    pub(crate) in_force: InForce,
}

impl Confinement {
    /// What a report says of it when nothing went wrong.
    pub const fn in_force(&self) -> &InForce {
        &self.in_force
    }
}

/// Where overlays keep what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Overlay {
    /// On disk, in the scratch folder.
    Disk,
    /// In memory, because the scratch folder's file system refuses it.
    Memory,
    /// The kernel has no overlay for us.
    Unavailable,
}

/// A control group's folder, and which of its limits can be set below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cgroup {
    /// The parent's folder.
    pub(crate) parent: PathBuf,
    /// Whether it belongs to the one hierarchy of cgroup v2.
    pub(crate) unified: bool,
    /// Bounds memory.
    pub(crate) memory: bool,
    /// Bounds processes.
    pub(crate) pids: bool,
}

/// How a command ended and what was in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// What confined it.
    pub in_force: InForce,
    /// How its main process ended.
    pub exit: Exit,
    /// Processes that outlived the main one and were killed.
    pub left: Vec<Left>,
    /// The limit that ended it.
    pub limit: Option<LimitHit>,
    /// Whether it tried to reach an address that it has no route to; absent where that cannot be
    /// known.
    pub network_refused: Option<bool>,
    /// The hosts that it asked for and was refused, as `host:port` or as a name alone.
    pub hosts_refused: Vec<String>,
}

/// How a command's main process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It was not started.
    NotStarted(NotStarted),
}

/// Why a command was not started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct NotStarted {
    /// What kind of reason.
    pub refusal: Refusal,
    /// What was tried, and what the operating system said.
    pub message: String,
    /// The operating system's number of the error; 0 when there is none.
    pub errno: i32,
}

/// What kind of reason kept a command from being started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// There is no such program in what the command sees.
    ProgramNotFound,
    /// The program or its folder is there and could not be used.
    ProgramUnusable,
    /// The view cannot be made here; make a copy instead.
    ViewUnsupported,
    /// This network cannot be given at this level.
    NetworkUnsupported,
    /// The confinement could not be set up.
    Setup,
}

/// A process that outlived its command's main one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Its id, in the command's own count of processes.
    pub pid: i32,
    /// Its name.
    pub name: String,
}

/// The limit that ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitHit {
    /// Memory of the whole command.
    Memory,
    /// Processor time.
    Cpu,
    /// The size of one file.
    FileSize,
    /// Bytes written to disk.
    Disk,
    /// Files and folders made.
    DiskFiles,
}

impl LimitHit {
    /// The word in summaries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "processor time",
            Self::FileSize => "size of one file",
            Self::Disk => "bytes on disk",
            Self::DiskFiles => "files on disk",
        }
    }
}

impl NotStarted {
    #[cfg(target_os = "linux")]
    pub(crate) fn setup(what: impl std::fmt::Display, error: &std::io::Error) -> Self {
        Self {
            refusal: Refusal::Setup,
            message: format!("sandbox: {what}: {error}"),
            errno: error.raw_os_error().unwrap_or(0),
        }
    }

    pub(crate) fn new(refusal: Refusal, message: impl Into<String>) -> Self {
        Self { refusal, message: message.into(), errno: 0 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let processors = u64::try_from(processors).unwrap_or(1);
        Self {
            // A build takes some 20 threads for each processor; small machines get a floor.
            processes: (processors * 24).max(192),
            memory_bytes: memory_of_machine() / 4 * 3,
            cpu_s: 3600 * processors,
            open_files: 65_536,
            file_bytes: 8 << 30,
            disk_bytes: 16 << 30,
            disk_files: 1_000_000,
            tmp_bytes: 2 << 30,
        }
    }
}

/// The machine's memory in bytes; 4 GiB where it is unknown.
fn memory_of_machine() -> u64 {
    const KIB: u64 = 1 << 10;
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let total = total.and_then(|text| text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    total.map_or(4 << 30, |kib| kib.saturating_mul(KIB))
}
