//! The file with the MCP servers whose tools an executor offers.
//!
//! ```text
//!   [mcp.files]
//!   command = ["mcp-server-filesystem", "{workspace}"]
//!   namespaces = ["team-a"]
//!   [mcp.files.tools.read_text_file]
//!   read_only = true
//! ```

mod read;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::domain::run::NetworkPolicy;

use super::error::ConfigError;

pub(super) use read::read_mcp_servers;

/// What stands for the run's workspace in the arguments of a command.
pub const WORKSPACE: &str = "{workspace}";
/// What stands between the name of a server and that of its tool.
pub const SEPARATOR: &str = "__";

/// An MCP server as its operator describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name, with which the names of its tools begin.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
    /// The namespaces whose runs may call it; none for every one.
    pub namespaces: Option<Vec<String>>,
    /// The names of the tools that are offered; none for all that it lists.
    pub allow: Option<Vec<String>>,
    /// The annotations that count, by the server's own names of its tools.
    pub tools: BTreeMap<String, McpAnnotations>,
    /// Whether its resources are offered as tools that read.
    pub resources: bool,
    /// The time limit of a call.
    pub timeout: Duration,
    /// The time limit from the start to its first list of tools.
    pub start_timeout: Duration,
    /// The most bytes of one message of the server.
    pub max_output: usize,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A process in the sandbox, over its standard input and output.
    Command(McpCommand),
    /// A server that runs elsewhere, over streamable HTTP.
    Url(McpUrl),
}

/// A server that the executor starts for each run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpCommand {
    /// The program and its arguments; [`WORKSPACE`] in one stands for the run's workspace.
    pub argv: Vec<String>,
    /// Its variables; a value `secret:NAME` stands for a secret of the executor.
    pub env: BTreeMap<String, String>,
    /// The variables of the executor that it inherits.
    pub inherit: Vec<String>,
    /// What it may read besides what commands of runs may, such as the folder of its package.
    pub read_only: Vec<PathBuf>,
    /// Which network it reaches.
    pub network: NetworkPolicy,
    /// Whether it may write in the workspace, within the write scope of the step.
    pub may_write: bool,
}

/// A server that runs elsewhere.
#[derive(Clone, PartialEq, Eq)]
pub struct McpUrl {
    /// Its address.
    pub url: String,
    /// Headers of each request, and the files with their values.
    pub headers_from_files: BTreeMap<String, PathBuf>,
}

/// The possible effects of a tool, as its operator states them. The default has the safe values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McpAnnotations {
    /// It changes nothing.
    pub read_only: bool,
    /// It may overwrite or remove existing data.
    pub destructive: bool,
    /// A repeated call with the same arguments has no further effect.
    pub idempotent: bool,
    /// It may have effects outside the workspace.
    pub open_world: bool,
}

impl Default for McpAnnotations {
    fn default() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

impl McpServer {
    /// Whether runs of a namespace may call it.
    #[must_use]
    pub fn serves(&self, namespace: &str) -> bool {
        let covers = |listed: &Vec<String>| listed.iter().any(|one| one == namespace);
        self.namespaces.as_ref().is_none_or(covers)
    }

    /// Whether one of its tools is offered.
    #[must_use]
    pub fn allows(&self, tool: &str) -> bool {
        self.allow.as_ref().is_none_or(|allowed| allowed.iter().any(|one| one == tool))
    }

    /// The files that no command of a run may read.
    pub fn secret_files(&self) -> impl Iterator<Item = &Path> {
        let headers = match &self.transport {
            McpTransport::Url(url) => Some(url.headers_from_files.values()),
            McpTransport::Command(_) => None,
        };
        headers.into_iter().flatten().map(PathBuf::as_path)
    }
}

/// The server without anything that may be secret: the names of variables and headers, and of an address what stands
/// before its query.
impl fmt::Display for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        match &self.transport {
            McpTransport::Command(command) => {
                let program = command.argv.first().map_or("", String::as_str);
                let arguments = match command.argv.len().saturating_sub(1) {
                    1 => "1 argument".to_owned(),
                    count => format!("{count} arguments"),
                };
                write!(f, "command {program} ({arguments})")?;
                listed(f, "variables", command.env.keys().chain(&command.inherit))?;
            }
            McpTransport::Url(url) => {
                write!(f, "url {}", shown(&url.url))?;
                listed(f, "headers", url.headers_from_files.keys())?;
            }
        }
        match &self.namespaces {
            None => f.write_str("; every namespace")?,
            Some(namespaces) => listed(f, "namespaces", namespaces.iter())?,
        }
        listed(f, "tools with annotations", self.tools.keys())?;
        let resources = if self.resources { "; resources" } else { "" };
        write!(
            f,
            "{resources}; timeout {} s; at most {} KiB a message",
            self.timeout.as_secs(),
            self.max_output >> 10
        )
    }
}

impl fmt::Debug for McpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpUrl")
            .field("url", &shown(&self.url))
            .field("headers_from_files", &self.headers_from_files)
            .finish()
    }
}

fn listed<'a>(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    names: impl Iterator<Item = &'a String>,
) -> fmt::Result {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() { Ok(()) } else { write!(f, "; {what}: {}", names.join(", ")) }
}

/// An address without its user part and its query.
fn shown(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    match plain.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_once('/').map_or((rest, ""), |parts| parts);
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}/{path}")
        }
        None => String::new(),
    }
}
