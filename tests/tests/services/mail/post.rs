//! A deployment with agents that write to each other.

use anyhow::{Context, Result};
use std::time::Duration;
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::token::Token;
use surety_common::wire::v1::toolchain_service_client::ToolchainServiceClient;
use surety_common::wire::v1::{self, MailState};
use surety_e2e::agent::secret;
use surety_e2e::harness::PATIENCE;
use tokio::time::timeout;

/// The calls of one agent.
pub(super) struct Postbox {
    client: ToolchainServiceClient<ServiceChannel>,
}

impl Postbox {
    pub(super) fn of(url: &str, name: &str) -> Result<Self> {
        let token = Token::new(&secret(name))?;
        Ok(Self { client: ToolchainServiceClient::new(channel(url, Some(&token))?) })
    }

    pub(super) async fn send(&self, request: v1::SendMailRequest) -> Result<v1::Mail> {
        let answer = self.client.clone().send_mail(request).await?.into_inner();
        answer.mail.context("no message")
    }

    pub(super) async fn read(&self, mail_id: &str) -> Result<v1::ReadMailResponse> {
        let request = v1::ReadMailRequest { mail_id: mail_id.to_owned() };
        Ok(self.client.clone().read_mail(request).await?.into_inner())
    }

    pub(super) async fn reply(&self, mail_id: &str, body: &str) -> Result<v1::ReplyMailResponse> {
        let request = v1::ReplyMailRequest {
            request_id: String::new(),
            mail_id: mail_id.to_owned(),
            body: body.to_owned(),
        };
        Ok(self.client.clone().reply_mail(request).await?.into_inner())
    }

    pub(super) async fn list(&self, request: v1::ListMailRequest) -> Result<Vec<v1::Mail>> {
        Ok(self.client.clone().list_mail(request).await?.into_inner().mail)
    }

    pub(super) async fn inbox(&self) -> Result<Vec<v1::Mail>> {
        self.list(v1::ListMailRequest::default()).await
    }

    /// A message that this agent sent, once it has a state.
    pub(super) async fn sent_as(&self, mail_id: &str, state: MailState) -> Result<v1::Mail> {
        let waiting = async {
            loop {
                let request = v1::ListMailRequest { sent: true, ..Default::default() };
                let sent = self.list(request).await?;
                let found = sent.into_iter().find(|mail| mail.id == mail_id);
                let mail = found.context("the message is not listed")?;
                if mail.state() == state {
                    return Ok(mail);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, waiting).await.with_context(|| format!("not {state:?} in time"))?
    }
}

/// A message.
pub(super) fn to(receiver: &str, subject: &str) -> v1::SendMailRequest {
    v1::SendMailRequest {
        to: receiver.to_owned(),
        subject: subject.to_owned(),
        body: "Line one.\nLine two.".to_owned(),
        ..Default::default()
    }
}

/// A message that asks for an answer within so many seconds.
pub(super) fn request(receiver: &str, subject: &str, within_s: i64) -> v1::SendMailRequest {
    v1::SendMailRequest {
        kind: v1::MailKind::Request.into(),
        answer_within: Some(prost_types::Duration { seconds: within_s, nanos: 0 }),
        ..to(receiver, subject)
    }
}
