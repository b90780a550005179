//! The planner that takes deliveries, and what it stored of them.

use anyhow::{Context, Result};
use serde_json::json;
use std::time::Duration;
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::v1;
use surety_common::wire::v1::toolchain_service_client::ToolchainServiceClient;
use surety_e2e::harness::{Database, PATIENCE, Process, Service, token};
use surety_e2e::toolchain::delivery::{Answer, OLD, SECRETS, Sent, exchange};
use tokio::time::timeout;

/// The planner with hooks `main` (Gitea), and what a forge sends to it.
pub(crate) struct Intake {
    pub(crate) planner: Process,
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
