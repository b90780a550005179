//! Sends signed texts, as Standard Webhooks have it: `webhook-id`, `webhook-timestamp`, `webhook-signature`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};
use ring::hmac;
use std::error::Error;
use std::time::Duration;
use surety_common::config::{SECRET_PREFIX, Webhook};
use surety_common::tls::http_client;
use surety_common::wire::client::Transport;
use uuid::Uuid;

/// The time limit of an attempt, from the connection to the status.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Why a webhook cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// Its URL does not read or names no host.
    #[error(
        "the webhook {name:?} has an invalid URL: {why}. Correct it in --webhooks-file (SURETY_WEBHOOKS_FILE)"
    )]
    Url {
        /// The webhook.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// It would be told without TLS, on another host.
    #[error(
        "the webhook {name:?} has an http:// URL of the host {host:?}. Use https://, or name the host in \
         --plaintext-peers (SURETY_PLAINTEXT_PEERS) if another layer encrypts the connection"
    )]
    Plaintext {
        /// The webhook.
        name: String,
        /// The host.
        host: String,
    },
    /// Its secret is no base64.
    #[error("the webhook {name:?} has a secret that is not base64 behind `whsec_`")]
    Secret {
        /// The webhook.
        name: String,
    },
    /// The TLS provider cannot be used.
    #[error("the HTTP client for webhooks could not be created")]
    Client(#[from] reqwest::Error),
}

/// An address, with the key that signs what it is told.
pub(super) struct Address {
    pub(super) name: String,
    url: Url,
    key: hmac::Key,
    client: Client,
}

impl Address {
    /// # Errors
    /// [`WebhookError`]
    pub(super) fn of(webhook: &Webhook, transport: &Transport) -> Result<Self, WebhookError> {
        let name = webhook.name.clone();
        let invalid = |why: String| WebhookError::Url { name: name.clone(), why };
        let url = Url::parse(&webhook.url).map_err(|error| invalid(error.to_string()))?;
        let host = url.host_str().ok_or_else(|| invalid("it names no host".to_owned()))?;
        if url.scheme() != "https" && !transport.allows_plaintext(host) {
            return Err(WebhookError::Plaintext { name, host: host.to_owned() });
        }
        let secret = webhook.secret.expose();
        let key = STANDARD.decode(secret.strip_prefix(SECRET_PREFIX).unwrap_or(secret));
        let key = key.map_err(|_| WebhookError::Secret { name: name.clone() })?;
        let client = http_client().timeout(TIMEOUT).no_proxy().build()?;
        Ok(Self { name, url, key: hmac::Key::new(hmac::HMAC_SHA256, &key), client })
    }

    /// Sends a text under an id that stays the same when it is sent again.
    ///
    /// # Errors
    /// Why it counts as not delivered, without the URL, whose path may be secret.
    pub(super) async fn send(
        &self,
        id: Uuid,
        now: DateTime<Utc>,
        text: String,
    ) -> Result<(), String> {
        let seconds = now.timestamp();
        let signed = format!("{id}.{seconds}.{text}");
        let signature = STANDARD.encode(hmac::sign(&self.key, signed.as_bytes()));
        let sending = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", id.to_string())
            .header("webhook-timestamp", seconds.to_string())
            .header("webhook-signature", format!("v1,{signature}"))
            .body(text)
            .send();
        match sending.await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(format!("it answered {}", answer.status())),
            Err(error) => Err(reason(error.without_url())),
        }
    }
}

/// The innermost cause, which names what failed.
fn reason(error: reqwest::Error) -> String {
    let mut cause: &dyn Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::config::Secret;

    #[test]
    fn an_address_without_tls_is_refused_unless_it_is_near_or_named() {
        let of = |url: &str, secret: &str| Webhook {
            name: "bot".to_owned(),
            url: url.to_owned(),
            namespaces: Vec::new(),
            waits: true,
            runs: true,
            secret: Secret::new(secret),
        };
        let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let named = Transport { plaintext_peers: vec!["mesh".to_owned()], ..Transport::default() };
        for (url, secret, refused) in [
            ("https://bot.example/x", key, ""),
            ("http://localhost:8080/x", key, ""),
            ("http://mesh/x", key, ""),
            ("http://bot.example/x", key, "--plaintext-peers"),
            ("https://", key, "invalid URL"),
            ("https://bot.example/x", "whsec_===MfKQ9r8GKYqrTwjUPD8ILPZIo2La", "base64"),
        ] {
            let said = Address::of(&of(url, secret), &named).err().map(|error| error.to_string());
            let said = said.unwrap_or_default();
            assert_eq!(said.is_empty(), refused.is_empty(), "{url}: {said}");
            assert!(said.contains(refused) && !said.contains("whsec_MfKQ"), "{said}");
        }
    }
}
