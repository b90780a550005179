//! The servers of the configuration, ready to be started: their variables and headers are read once.

use super::http;
use crate::tool::Environment;
use crate::tool::secrets::Secrets;
use ::http::{HeaderMap, HeaderName, HeaderValue};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use surety_common::config::{McpCommand, McpServer, McpTransport, McpUrl, SEPARATOR, Secret};
use surety_common::domain::redact::SHORTEST_SECRET;
use surety_common::domain::secret::reference;
use tokio::sync::Notify;

/// Why the servers of the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("SURETY_EXECUTOR_MCP: mcp.{server}.{key} {why}")]
pub struct McpError {
    server: String,
    key: String,
    why: String,
}

/// A server of the configuration.
pub(in crate::tool) struct Server {
    pub(super) config: McpServer,
    pub(super) environment: Environment,
    pub(super) headers: HeaderMap,
    pub(super) http: reqwest::Client,
    /// Notified when a run saw another list than the executor knows.
    list_again: Notify,
}

impl Server {
    /// Asks for the list again: a run saw another one.
    pub(super) fn list_again(&self) {
        self.list_again.notify_one();
    }

    /// Resolves when a run saw another list.
    pub(super) async fn asked_again(&self) {
        self.list_again.notified().await;
    }

    /// Whether it is a process of this executor.
    pub(in crate::tool) const fn is_process(&self) -> bool {
        matches!(self.config.transport, McpTransport::Command(_))
    }
}

/// The servers of the configuration.
#[derive(Default)]
pub struct McpHost {
    servers: Vec<Arc<Server>>,
}

/// The values of headers, which stand in no output: a name for each.
type HeaderSecrets = Vec<(String, Secret)>;

impl McpHost {
    /// Reads the files with headers. It blocks.
    ///
    /// # Errors
    /// [`McpError`]
    pub(crate) fn headers(servers: &[McpServer]) -> Result<BTreeMap<String, HeaderMap>, McpError> {
        let mut all = BTreeMap::new();
        for server in servers {
            let McpTransport::Url(url) = &server.transport else { continue };
            all.insert(server.name.clone(), headers(&server.name, url)?);
        }
        Ok(all)
    }

    /// What of the headers is a secret: each value, and its last word, such as a token behind `Bearer`.
    pub(crate) fn header_secrets(headers: &BTreeMap<String, HeaderMap>) -> HeaderSecrets {
        let mut secrets = Vec::new();
        for (server, headers) in headers {
            for (name, value) in headers {
                let Ok(value) = value.to_str() else { continue };
                let named = format!("mcp.{server}.{name}");
                let last = value.rsplit(' ').next().filter(|word| word.len() >= SHORTEST_SECRET);
                secrets.extend(last.map(|word| (named.clone(), Secret::new(word))));
                secrets.push((named, Secret::new(value)));
            }
        }
        secrets
    }

    /// The servers with their variables and headers.
    ///
    /// # Errors
    /// [`McpError`] for a variable that is not there, and for a secret that is not listed for a server's namespaces.
    pub(crate) fn prepare(
        servers: Vec<McpServer>,
        mut headers: BTreeMap<String, HeaderMap>,
        secrets: &Secrets,
    ) -> Result<Self, McpError> {
        let mut prepared = Vec::new();
        for config in servers {
            let failed = |key: &str, why: String| McpError {
                server: config.name.clone(),
                key: key.to_owned(),
                why,
            };
            let environment = match &config.transport {
                McpTransport::Command(command) => environment(&config, command, secrets)
                    .map_err(|(key, why)| failed(&key, why))?,
                McpTransport::Url(_) => Environment::default(),
            };
            let http = http::client().map_err(|error| {
                failed("url", format!("cannot be called: TLS cannot be used: {error}"))
            })?;
            let headers = headers.remove(&config.name).unwrap_or_default();
            let list_again = Notify::new();
            prepared.push(Arc::new(Server { config, environment, headers, http, list_again }));
        }
        Ok(Self { servers: prepared })
    }

    /// The names of the servers.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.servers.iter().map(|server| server.config.name.as_str()).collect()
    }

    pub(super) fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// Whether a name belongs to the tools of a server.
    pub(in crate::tool) fn reserves(&self, name: &str) -> bool {
        let prefix = |server: &Arc<Server>| {
            let rest = name.strip_prefix(server.config.name.as_str());
            rest.is_some_and(|rest| rest.starts_with(SEPARATOR))
        };
        self.servers.iter().any(prefix)
    }
}

fn environment(
    config: &McpServer,
    command: &McpCommand,
    secrets: &Secrets,
) -> Result<Environment, (String, String)> {
    let mut added = BTreeMap::new();
    for name in &command.inherit {
        let value = std::env::var(name).map_err(|error| {
            (
                "inherit".to_owned(),
                format!("names the variable {name}, which cannot be read: {error}"),
            )
        })?;
        added.insert(name.clone(), value);
    }
    for (name, value) in &command.env {
        let value = match reference(value) {
            None => value.clone(),
            Some((before, secret)) => {
                let found = secrets.of_namespaces(config.namespaces.as_deref(), secret);
                let found = found.ok_or_else(|| {
                    let why = format!(
                        "refers to the secret {secret:?}, which SURETY_EXECUTOR_SECRETS does not list for every \
                         namespace of the server"
                    );
                    (format!("env.{name}"), why)
                })?;
                format!("{before}{}", found.expose())
            }
        };
        added.insert(name.clone(), value);
    }
    Ok(Environment::of_server(added))
}

fn headers(server: &str, url: &McpUrl) -> Result<HeaderMap, McpError> {
    let mut all = HeaderMap::new();
    for (name, path) in &url.headers_from_files {
        let failed = |why: String| McpError {
            server: server.to_owned(),
            key: format!("headers_from_files.{name}"),
            why,
        };
        let value = read(path).map_err(failed)?;
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
            failed("is no name of a header; use letters, digits and `-`".to_owned())
        })?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| {
            failed(format!("{path:?} holds no value of a header; write one line of ASCII into it"))
        })?;
        value.set_sensitive(true);
        all.insert(header, value);
    }
    Ok(all)
}

fn read(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read from {path:?}: {error}");
    if let Some(mode) = open_to_all(path).map_err(unreadable)? {
        let path = path.display();
        return Err(format!(
            "names {path}, which every user of this machine can read (mode {mode:03o}). Run: chmod 600 {path}"
        ));
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let value = text.trim_end_matches(['\n', '\r']);
    if value.len() < SHORTEST_SECRET {
        return Err(format!("names {path:?}, whose value is shorter than {SHORTEST_SECRET} bytes"));
    }
    Ok(value.to_owned())
}

fn open_to_all(path: &Path) -> std::io::Result<Option<u32>> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(path)?.permissions().mode() & 0o777;
    Ok((mode & 0o007 != 0).then_some(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "c4nary-token";

    fn url(path: &Path) -> McpUrl {
        let headers_from_files = BTreeMap::from([("Authorization".to_owned(), path.to_owned())]);
        McpUrl { url: "http://127.0.0.1:1/mcp".to_owned(), headers_from_files }
    }

    #[test]
    fn a_header_is_read_from_a_file_of_its_own_and_is_a_secret() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("header");
        let missing = headers("far", &url(&path)).unwrap_err().to_string();
        assert!(missing.contains("mcp.far.headers_from_files.Authorization"), "{missing}");
        fs::write(&path, format!("Bearer {TOKEN}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(headers("far", &url(&path)).unwrap_err().to_string().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let read = headers("far", &url(&path)).unwrap();
        assert!(!format!("{read:?}").contains(TOKEN));
        let secrets = McpHost::header_secrets(&BTreeMap::from([("far".to_owned(), read)]));
        let exposed: Vec<_> = secrets.iter().map(|(_, secret)| secret.expose()).collect();
        assert_eq!(exposed, [TOKEN, "Bearer c4nary-token"]);
    }
}
