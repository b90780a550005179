//! A forge that delivers events, byte by byte where a test asks for it, and the planner that takes them.

use anyhow::{Context, Result, ensure};
use ring::hmac;
use serde_json::{Value, json};
use std::time::Duration;
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::v1;
use surety_common::wire::v1::toolchain_service_client::ToolchainServiceClient;
use surety_e2e::harness::{Database, PATIENCE, Process, Service, token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use uuid::Uuid;

pub(crate) const OLD: &str = "the old secret of the hook";
pub(crate) const NEW: &str = "the new secret of the hook";
/// The secrets of every planner here.
pub(crate) const SECRETS: [(&str, &str); 3] = [
    (
        "SURETY_HOOK_SECRETS",
        "old@_toolchain=env:HOOK_OLD;new@*=env:HOOK_NEW;other@team=env:HOOK_OLD",
    ),
    ("HOOK_OLD", OLD),
    ("HOOK_NEW", NEW),
];

/// The planner with hooks `main` (Gitea), and what a forge sends to it.
pub(crate) struct Intake {
    pub(crate) planner: Process,
}

/// What the planner answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn code(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }
}

impl Intake {
    pub(crate) async fn start(database: &Database, more: &[(&str, &str)]) -> Result<Self> {
        let environment = [&SECRETS[..], more].concat();
        let planner = Process::start(Service::Planner, database, &environment).await?;
        Ok(Self { planner })
    }

    pub(crate) fn toolchain(&self) -> Result<ToolchainServiceClient<ServiceChannel>> {
        Ok(ToolchainServiceClient::new(channel(&self.planner.url(), Some(&token()?))?))
    }

    pub(crate) async fn put(&self, name: &str, forge: v1::Forge, secrets: &[&str]) -> Result<()> {
        let secrets = secrets.iter().map(|name| (*name).to_owned()).collect();
        let hook =
            v1::Hook { name: name.to_owned(), forge: forge.into(), secrets, ..Default::default() };
        self.toolchain()?.put_hook(v1::PutHookRequest { hook: Some(hook) }).await?;
        Ok(())
    }

    pub(crate) async fn send(&self, delivery: &Sent<'_>) -> Result<Answer> {
        exchange(self.planner.address(), &delivery.to_bytes()).await
    }

    /// Sends until the answer is what a planner that has read its hooks gives.
    pub(crate) async fn send_until(
        &self,
        delivery: &Sent<'_>,
        wanted: impl Fn(&Answer) -> bool,
    ) -> Result<Answer> {
        let sending = async {
            loop {
                let answer = self.send(delivery).await?;
                if wanted(&answer) {
                    return Ok(answer);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, sending).await.context("no such answer in time")?
    }

    /// Waits until the planner has read its hooks: a delivery without a signature is then refused for that.
    pub(crate) async fn knows_the_hook(&self) -> Result<()> {
        let unsigned = Sent::gitea("x", "push", b"{}", OLD).with("x-gitea-signature", "");
        self.send_until(&unsigned, |answer| answer.status == 401).await.map(drop)
    }

    pub(crate) async fn deliveries(&self) -> Result<Vec<v1::Delivery>> {
        let request = v1::ListDeliveriesRequest { page_size: 1000, ..Default::default() };
        Ok(self.toolchain()?.list_deliveries(request).await?.into_inner().deliveries)
    }

    /// The deliveries once none waits to be processed.
    pub(crate) async fn processed(&self) -> Result<Vec<v1::Delivery>> {
        let waiting = async {
            loop {
                let found = self.deliveries().await?;
                if found.iter().all(|one| one.state() != v1::DeliveryState::Stored) {
                    return Ok(found);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, waiting).await.context("deliveries still wait")?
    }
}

/// A delivery as a test composes it.
#[derive(Debug, Clone)]
pub(crate) struct Sent<'a> {
    pub(crate) path: &'a str,
    pub(crate) headers: Vec<(&'a str, String)>,
    pub(crate) body: Vec<u8>,
}

impl<'a> Sent<'a> {
    /// A delivery of Gitea, signed.
    pub(crate) fn gitea(id: &str, event: &str, body: &[u8], secret: &str) -> Self {
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

    pub(crate) fn to(self, path: &'a str) -> Self {
        Self { path, ..self }
    }

    /// With another value of a header; empty leaves it out.
    pub(crate) fn with(mut self, name: &'a str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        if !value.is_empty() {
            self.headers.push((name, value.to_owned()));
        }
        self
    }

    pub(crate) fn head(&self, length: usize) -> String {
        let headers = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let headers: String = headers.collect();
        format!(
            "POST {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n",
            self.path
        )
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        [self.head(self.body.len()).as_bytes(), &self.body].concat()
    }
}

pub(crate) fn signature(secret: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    hmac::sign(&key, body).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An issue that is assigned: it becomes a task for any account.
pub(crate) fn assigned(number: u64) -> Vec<u8> {
    let user = json!({"id": 7, "login": "dev", "username": "dev"});
    json!({
        "action": "assigned", "number": number,
        "issue": {
            "id": 100 + number, "number": number, "title": "The total is wrong", "body": "See the last line.",
            "state": "open", "user": user, "labels": [], "assignee": user, "assignees": [user],
            "html_url": format!("https://forge.example/team/app/issues/{number}"),
            "created_at": "2026-11-20T10:00:00Z", "updated_at": "2026-11-20T11:00:00Z"
        },
        "repository": {
            "id": 1, "name": "app", "full_name": "team/app", "owner": user,
            "html_url": "https://forge.example/team/app", "default_branch": "main"
        },
        "sender": {"id": 8, "login": "lead", "username": "lead"}
    })
    .to_string()
    .into_bytes()
}

/// Sends bytes on a new connection and reads the answer.
pub(crate) async fn exchange(address: &str, bytes: &[u8]) -> Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(bytes).await?;
    answer_of(&mut stream).await
}

/// The answer on a connection, up to its end.
pub(crate) async fn answer_of(stream: &mut TcpStream) -> Result<Answer> {
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
pub(crate) fn new_id() -> String {
    Uuid::now_v7().to_string()
}
