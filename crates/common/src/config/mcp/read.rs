//! Reading the file: what is wrong is named with its line or its key, and what to do.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::{ConfigError, McpAnnotations, McpCommand, McpServer, McpTransport, McpUrl, SEPARATOR};
use crate::domain::network::{read_hosts, read_ports};
use crate::domain::run::NetworkPolicy;
use crate::domain::tool_workers::check_tool_name;

/// The most servers of an executor.
const MOST_SERVERS: usize = 64;
/// The longest name of a server, in bytes: the names of its tools have 64 with it.
const LONGEST_NAME: usize = 24;
/// Every namespace.
const EVERY: &str = "*";
/// Seconds of a call, and where none are named.
const TIMEOUT_S: RangeInclusive<u64> = 1..=3600;
const DEFAULT_TIMEOUT_S: u64 = 60;
const DEFAULT_START_TIMEOUT_S: u64 = 20;
/// KiB of a message, and where none are named.
const OUTPUT_KIB: RangeInclusive<u64> = 16..=65_536;
const DEFAULT_OUTPUT_KIB: u64 = 8192;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    mcp: BTreeMap<String, RawServer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawServer {
    command: Option<Vec<String>>,
    url: Option<String>,
    namespaces: Option<Vec<String>>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    inherit: Vec<String>,
    #[serde(default)]
    read_only: Vec<PathBuf>,
    network: Option<RawNetwork>,
    workspace: Option<String>,
    #[serde(default)]
    headers_from_files: BTreeMap<String, PathBuf>,
    allow: Option<Vec<String>>,
    #[serde(default)]
    tools: BTreeMap<String, RawTool>,
    #[serde(default)]
    resources: bool,
    timeout_s: Option<u64>,
    start_timeout_s: Option<u64>,
    max_output_kib: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RawNetwork {
    Word(String),
    Hosts(Vec<String>),
    Ports(Vec<u32>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTool {
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    open_world: Option<bool>,
}

/// A key of the file that cannot be used.
struct Wrong {
    key: String,
    why: String,
}

fn wrong(key: impl Into<String>, why: impl Into<String>) -> Wrong {
    Wrong { key: key.into(), why: why.into() }
}

/// Reads the servers in the file at `path`, by name.
///
/// # Errors
/// The file cannot be read, does not parse, or has a key with an unusable value.
pub(in crate::config) fn read_mcp_servers(path: &Path) -> Result<Vec<McpServer>, ConfigError> {
    let text = fs::read_to_string(path)
        .map_err(|source| ConfigError::McpUnreadable { path: path.to_owned(), source })?;
    read(&text).map_err(|(place, why)| ConfigError::McpInvalid {
        path: path.to_owned(),
        place,
        why,
    })
}

/// # Errors
/// Where the text does not read, and what is wrong there.
fn read(text: &str) -> Result<Vec<McpServer>, (String, String)> {
    let RawFile { mcp } = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        (format!("line {line}"), format!("does not read: {}", error.message().trim()))
    })?;
    let placed = |Wrong { key, why }: Wrong| (key, why);
    if mcp.is_empty() {
        let why = "is not there: name a server as [mcp.NAME], or do not set the file";
        return Err(placed(wrong("mcp", why)));
    }
    if mcp.len() > MOST_SERVERS {
        let why = format!("has more than {MOST_SERVERS} servers; leave some out");
        return Err(placed(wrong("mcp", why)));
    }
    let server = |(name, raw): (String, RawServer)| {
        let at = format!("mcp.{name}");
        server(name, raw).map_err(|Wrong { key, why }| match key.as_str() {
            "" => (at, why),
            key => (format!("{at}.{key}"), why),
        })
    };
    mcp.into_iter().map(server).collect()
}

fn server(name: String, mut raw: RawServer) -> Result<McpServer, Wrong> {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let is_name = (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(letter);
    if !is_name || name.contains(SEPARATOR) || name.ends_with('_') {
        let why = format!(
            "has a name that cannot begin the names of tools; use 1 to {LONGEST_NAME} letters, digits, `_` and \
             `-`, without `{SEPARATOR}` and without `_` at the end"
        );
        return Err(wrong("", why));
    }
    let Some(listed) = raw.namespaces.take().filter(|listed| !listed.is_empty()) else {
        let why = "is missing; name the namespaces whose runs may call the server, or [\"*\"] for every one";
        return Err(wrong("namespaces", why));
    };
    let every = listed.iter().any(|one| one == EVERY);
    if listed.iter().any(String::is_empty) || every && listed.len() > 1 {
        let why = "holds an empty name, or `*` beside others; name each namespace, or `*` alone";
        return Err(wrong("namespaces", why));
    }
    let tools = { std::mem::take(&mut raw.tools).into_iter() }.map(annotations);
    Ok(McpServer {
        tools: tools.collect::<Result<_, _>>()?,
        namespaces: (!every).then_some(listed),
        allow: raw.allow.take(),
        resources: raw.resources,
        timeout: seconds("timeout_s", raw.timeout_s, DEFAULT_TIMEOUT_S)?,
        start_timeout: seconds("start_timeout_s", raw.start_timeout_s, DEFAULT_START_TIMEOUT_S)?,
        max_output: output(raw.max_output_kib)?,
        transport: transport(raw)?,
        name,
    })
}

fn transport(raw: RawServer) -> Result<McpTransport, Wrong> {
    match (raw.command.is_some(), raw.url.is_some()) {
        (true, false) => command(raw).map(McpTransport::Command),
        (false, true) => url(raw).map(McpTransport::Url),
        (_, _) => Err(wrong("", "needs exactly one of command and url; set one of them")),
    }
}

fn command(raw: RawServer) -> Result<McpCommand, Wrong> {
    if !raw.headers_from_files.is_empty() {
        return Err(wrong("headers_from_files", "belongs to a url; remove it"));
    }
    let argv = raw.command.unwrap_or_default();
    if argv.first().is_none_or(String::is_empty) || argv.iter().any(|word| word.contains('\0')) {
        let why =
            "needs a program, and no word with U+0000; write it as [\"program\", \"argument\"]";
        return Err(wrong("command", why));
    }
    for name in raw.env.keys().chain(&raw.inherit) {
        if name.is_empty() || name.contains(['=', '\0']) || name.starts_with("SURETY_") {
            let why =
                format!("names the variable {name:?}, which cannot be given; use another name");
            return Err(wrong("env", why));
        }
    }
    if let Some(path) = raw.read_only.iter().find(|path| !path.is_absolute()) {
        let why = format!("names {}, which is not absolute; begin it with /", path.display());
        return Err(wrong("read_only", why));
    }
    let may_write = match raw.workspace.as_deref() {
        None | Some("write") => true,
        Some("read") => false,
        Some(other) => {
            let why = format!("is {other:?}; use \"write\" or \"read\"");
            return Err(wrong("workspace", why));
        }
    };
    Ok(McpCommand {
        argv,
        env: raw.env,
        inherit: raw.inherit,
        read_only: raw.read_only,
        network: network(raw.network)?,
        may_write,
    })
}

fn network(raw: Option<RawNetwork>) -> Result<NetworkPolicy, Wrong> {
    let unreadable = |why: String| wrong("network", why);
    match raw {
        None => Ok(NetworkPolicy::None),
        Some(RawNetwork::Word(word)) if word == "none" => Ok(NetworkPolicy::None),
        Some(RawNetwork::Word(word)) if word == "all" => Ok(NetworkPolicy::All),
        Some(RawNetwork::Word(word)) => Err(unreadable(format!(
            "is {word:?}; use \"none\", \"all\", a list of hosts, or a list of ports of the host's loopback"
        ))),
        Some(RawNetwork::Hosts(hosts)) => read_hosts("network", &hosts)
            .map(NetworkPolicy::Hosts)
            .map_err(|problem| unreadable(problem.message)),
        Some(RawNetwork::Ports(ports)) => read_ports("network", &ports)
            .map(NetworkPolicy::HostLoopback)
            .map_err(|problem| unreadable(problem.message)),
    }
}

fn url(raw: RawServer) -> Result<McpUrl, Wrong> {
    let of_command = [
        ("env", !raw.env.is_empty()),
        ("inherit", !raw.inherit.is_empty()),
        ("read_only", !raw.read_only.is_empty()),
        ("network", raw.network.is_some()),
        ("workspace", raw.workspace.is_some()),
    ];
    if let Some((key, _)) = of_command.into_iter().find(|(_, is_set)| *is_set) {
        return Err(wrong(key, "belongs to a command; remove it"));
    }
    let url = raw.url.unwrap_or_default();
    let host = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    if host.is_none_or(|host| host.is_empty() || host.starts_with('/')) {
        return Err(wrong(
            "url",
            "does not begin with https:// or http:// and a host; write the whole address",
        ));
    }
    for (name, path) in &raw.headers_from_files {
        let letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if name.is_empty() || !name.chars().all(letter) {
            let why = format!(
                "names {name:?}, which is no name of a header; use letters, digits and `-`"
            );
            return Err(wrong("headers_from_files", why));
        }
        if !path.is_absolute() {
            let why = format!("names {}, which is not absolute; begin it with /", path.display());
            return Err(wrong(format!("headers_from_files.{name}"), why));
        }
    }
    Ok(McpUrl { url, headers_from_files: raw.headers_from_files })
}

fn annotations((tool, raw): (String, RawTool)) -> Result<(String, McpAnnotations), Wrong> {
    check_tool_name(&tool)
        .map_err(|problem| wrong(format!("tools.{tool}"), problem.message.clone()))?;
    let RawTool { read_only, destructive, idempotent, open_world } = raw;
    let safe = McpAnnotations::default();
    let read_only = read_only.unwrap_or(safe.read_only);
    if read_only && destructive == Some(true) {
        let why = "is both read_only and destructive; keep one of them";
        return Err(wrong(format!("tools.{tool}"), why));
    }
    let annotations = McpAnnotations {
        read_only,
        destructive: !read_only && destructive.unwrap_or(safe.destructive),
        idempotent: read_only || idempotent.unwrap_or(safe.idempotent),
        open_world: open_world.unwrap_or(safe.open_world),
    };
    Ok((tool, annotations))
}

fn seconds(key: &str, value: Option<u64>, default: u64) -> Result<Duration, Wrong> {
    in_range(key, value, default, TIMEOUT_S).map(Duration::from_secs)
}

fn output(value: Option<u64>) -> Result<usize, Wrong> {
    let kib = in_range("max_output_kib", value, DEFAULT_OUTPUT_KIB, OUTPUT_KIB)?;
    Ok(usize::try_from(kib << 10).unwrap_or(usize::MAX))
}

fn in_range(
    key: &str,
    value: Option<u64>,
    default: u64,
    range: RangeInclusive<u64>,
) -> Result<u64, Wrong> {
    let value = value.unwrap_or(default);
    if range.contains(&value) {
        return Ok(value);
    }
    let why = format!("is {value}; use {} to {}", range.start(), range.end());
    Err(wrong(key, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        [mcp.files]
        command = ["mcp-server-filesystem", "{workspace}"]
        namespaces = ["team-a", "team-b"]
        env = { LOG_LEVEL = "debug", TOKEN = "secret:npm" }
        network = ["registry.npmjs.org"]
        resources = true
        [mcp.files.tools.read_text_file]
        read_only = true
        [mcp.remote]
        url = "https://user:c4nary@tools.example/mcp?key=c4nary"
        namespaces = ["*"]
        headers_from_files = { Authorization = "/run/secrets/remote" }
        timeout_s = 5
        max_output_kib = 64
    "#;

    #[test]
    fn servers_are_read_with_safe_values_where_nothing_is_said() {
        let servers = read(GOOD).expect("servers");
        let [files, remote] = servers.as_slice() else { panic!("{servers:?}") };
        let McpTransport::Command(command) = &files.transport else { panic!("{files:?}") };
        assert_eq!(command.argv, ["mcp-server-filesystem", "{workspace}"]);
        assert!(command.may_write && matches!(command.network, NetworkPolicy::Hosts(_)));
        assert!(files.serves("team-a") && !files.serves("team-c") && remote.serves("team-c"));
        let read_only = files.tools.get("read_text_file").copied().expect("an entry");
        assert!(read_only.read_only && read_only.idempotent && !read_only.destructive);
        assert!(read_only.open_world, "what is not said has the safe value");
        assert_eq!(remote.timeout, Duration::from_secs(5));
        assert_eq!(remote.max_output, 65_536);
        assert_eq!(remote.secret_files().count(), 1);
    }

    #[test]
    fn what_is_shown_has_no_secret() {
        let servers = read(GOOD).expect("servers");
        let shown: String = servers.iter().map(|server| format!("{server} {server:?}\n")).collect();
        assert!(shown.contains("TOKEN") && shown.contains("Authorization"), "{shown}");
        assert!(!shown.contains("c4nary"), "{shown}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_key_and_what_to_do() {
        for (text, place, said) in [
            ("", "mcp", "[mcp.NAME]"),
            ("[mcp.a]\nnamespaces=[\"*\"]", "mcp.a", "exactly one"),
            ("[mcp.a]\ncommand=[\"x\"]", "mcp.a.namespaces", "is missing"),
            ("[mcp.a]\ncommand=[]\nnamespaces=[\"*\"]", "mcp.a.command", "a program"),
            ("[mcp.a__b]\ncommand=[\"x\"]\nnamespaces=[\"*\"]", "mcp.a__b", "names of tools"),
            ("[mcp.a]\nurl=\"x\"\nnamespaces=[\"*\"]", "mcp.a.url", "https://"),
            (
                "[mcp.a]\nurl=\"http://x\"\nenv={A=\"b\"}\nnamespaces=[\"*\"]",
                "mcp.a.env",
                "belongs to a command",
            ),
            (
                "[mcp.a]\nurl=\"http://x\"\nnamespaces=[\"*\"]\nheaders_from_files={A=\"b\"}",
                "mcp.a.headers_from_files.A",
                "absolute",
            ),
            (
                "[mcp.a]\ncommand=[\"x\"]\nnamespaces=[\"*\"]\ntimeout_s=0",
                "mcp.a.timeout_s",
                "1 to 3600",
            ),
            (
                "[mcp.a]\ncommand=[\"x\"]\nnamespaces=[\"*\"]\nworkspace=\"rw\"",
                "mcp.a.workspace",
                "\"read\"",
            ),
            (
                "[mcp.a]\ncommand=[\"x\"]\nnamespaces=[\"*\"]\ntools.t={read_only=true,destructive=true}",
                "mcp.a.tools.t",
                "both",
            ),
            (
                "[mcp.a]\ncommand=[\"x\"]\nnamespaces=[\"*\"]\nenv={SURETY_X=\"1\"}",
                "mcp.a.env",
                "SURETY_X",
            ),
            ("[mcp.a]\n\ncomand=[\"x\"]", "line 3", "unknown field"),
        ] {
            let (at, why) = read(text).expect_err(text);
            assert_eq!(at, place, "{text}: {why}");
            assert!(why.contains(said), "{text}: {why}");
        }
    }
}
