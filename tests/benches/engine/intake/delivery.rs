//! One delivery of Gitea as bytes, and the answer to it.

use anyhow::{Context, Result, ensure};
use ring::hmac;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

pub(super) const SECRET: &str = "the secret of the hook";
/// The account that every issue is assigned to.
pub(super) const LOGIN: &str = "dev";

/// An issue with this number was assigned: about 5 kB, signed with the secret.
pub(super) fn request(number: usize, secret: &str) -> Vec<u8> {
    let user = json!({"id": 7, "login": LOGIN, "username": LOGIN});
    let body = json!({
        "action": "assigned", "number": number + 1,
        "issue": {
            "id": number + 100, "number": number + 1, "title": "The total is wrong", "body": "x".repeat(4000),
            "state": "open", "user": user, "labels": [], "assignee": user, "assignees": [user],
            "html_url": format!("https://forge.example/team/app/issues/{}", number + 1),
            "created_at": "2026-11-20T10:00:00Z", "updated_at": "2026-11-20T11:00:00Z"
        },
        "repository": {
            "id": 1, "name": "app", "full_name": "team/app", "owner": user,
            "html_url": "https://forge.example/team/app", "default_branch": "main"
        },
        "sender": {"id": 8, "login": "lead", "username": "lead"}
    })
    .to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, body.as_bytes());
    let signature: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let length = body.len();
    format!(
        "POST /webhooks/gitea/main HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nx-gitea-event: issues\r\nx-gitea-delivery: {number}\r\n\
         x-gitea-signature: {signature}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The status of an answer, whose body is read to its end.
pub(super) async fn status(stream: &mut TcpStream) -> Result<u16> {
    let mut bytes = Vec::new();
    loop {
        let count = stream.read_buf(&mut bytes).await?;
        ensure!(count > 0, "the connection was closed");
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() < length.context("no length")?.trim().parse()? {
            continue;
        }
        return Ok(head.split(' ').nth(1).context("no status")?.parse()?);
    }
}
