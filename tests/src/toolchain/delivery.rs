//! Deliveries as a forge sends them: signed, over a real socket.

use crate::harness::PATIENCE;
use anyhow::{Context, Result, ensure};
use ring::hmac;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use uuid::Uuid;

/// The first secret of the hooks.
pub const OLD: &str = "the old secret of the hook";
/// The secret that takes its place.
pub const NEW: &str = "the new secret of the hook";
/// The variables by which a planner knows the secrets of its hooks: `old` for the toolchain, `new` for any namespace.
pub const SECRETS: [(&str, &str); 3] = [
    (
        "SURETY_HOOK_SECRETS",
        "old@_toolchain=env:HOOK_OLD;new@*=env:HOOK_NEW;other@team=env:HOOK_OLD",
    ),
    ("HOOK_OLD", OLD),
    ("HOOK_NEW", NEW),
];

/// What the planner answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body; null where it is no JSON object.
    pub body: Value,
}

impl Answer {
    /// The status, and the code of a refusal.
    #[must_use]
    pub fn code(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }
}

/// A delivery as its sender composes it.
#[derive(Debug, Clone)]
pub struct Sent<'a> {
    /// The path of the hook.
    pub path: &'a str,
    /// The headers besides those of the connection.
    pub headers: Vec<(&'a str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl<'a> Sent<'a> {
    /// A delivery of Gitea, signed with a secret.
    #[must_use]
    pub fn gitea(id: &str, event: &str, body: &[u8], secret: &str) -> Self {
        let headers = vec![
            ("content-type", "application/json".to_owned()),
            ("x-gitea-event", event.to_owned()),
            // Gitea sends GitHub's header too; it decides nothing.
            ("x-github-event", "push".to_owned()),
            ("x-gitea-delivery", id.to_owned()),
            ("x-gitea-signature", signature(secret, body)),
            ("authorization", "Bearer of-the-forge".to_owned()),
        ];
        Self { path: "/webhooks/gitea/main", headers, body: body.to_vec() }
    }

    /// The same to another path.
    #[must_use]
    pub fn to(self, path: &'a str) -> Self {
        Self { path, ..self }
    }

    /// With another value of a header; empty leaves it out.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        if !value.is_empty() {
            self.headers.push((name, value.to_owned()));
        }
        self
    }

    /// The request up to its body, which has this length.
    #[must_use]
    pub fn head(&self, length: usize) -> String {
        let headers = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let headers: String = headers.collect();
        format!(
            "POST {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n",
            self.path
        )
    }

    /// The whole request.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.head(self.body.len()).as_bytes(), &self.body].concat()
    }
}

/// The signature of a body with a secret, as hexadecimal.
#[must_use]
pub fn signature(secret: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    hmac::sign(&key, body).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends bytes on a new connection and reads the answer.
///
/// # Errors
/// No connection, or no answer in time.
pub async fn exchange(address: &str, bytes: &[u8]) -> Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(bytes).await?;
    answer_of(&mut stream).await
}

/// The answer on a connection, up to its end.
///
/// # Errors
/// It does not come in time, or is none of HTTP.
pub async fn answer_of(stream: &mut TcpStream) -> Result<Answer> {
    let mut bytes = Vec::new();
    let reading = async {
        // A server that answers before it has read everything may reset the connection after its answer.
        while stream.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {}
    };
    timeout(PATIENCE, reading).await.context("no answer in time")?;
    let text = String::from_utf8_lossy(&bytes);
    ensure!(!text.is_empty(), "the connection was closed without an answer");
    let (head, body) = text.split_once("\r\n\r\n").context("no header")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    let body = body.lines().find(|line| line.starts_with('{')).unwrap_or("null");
    Ok(Answer { status, body: serde_json::from_str(body)? })
}

/// An id as forges make them.
#[must_use]
pub fn new_id() -> String {
    Uuid::now_v7().to_string()
}
