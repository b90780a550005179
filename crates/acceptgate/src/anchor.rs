//! Anchors verdicts: a time-stamp authority signs a digest over those since the last anchor.
//!
//! ```text
//!   every interval:  verdicts without an anchor --root--> authority --token--> checked --> folder, table
//! ```
//!
//! Verdicts never wait for it. While the authority is down they stay without an anchor, and the next one has them.

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Response};
use ring::rand::{SecureRandom, SystemRandom};
use sqlx::PgPool;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use surety_common::clock;
use surety_common::config::AnchorAuthority;
use surety_common::domain::timestamp::{
    NONCE_BYTES, TimestampError, Token, read_response, request,
};
use surety_common::store::{AnchorBatch, StoreError, begin_anchoring};
use surety_common::telemetry;
use surety_common::tls::http_client;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The time limit of a request, from the connection to the last byte of the response.
const TIMEOUT: Duration = Duration::from_secs(8);
/// A longer response is none: a token with certificates has a few thousand bytes.
const MOST_BYTES: usize = 64 << 10;
/// The longest wait after failures.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// What RFC 3161 calls a request over HTTP.
const QUERY: &str = "application/timestamp-query";

/// Why verdicts were not anchored.
#[derive(Debug, thiserror::Error)]
enum AnchorError {
    #[error("{0}")]
    Http(String),
    #[error(transparent)]
    Timestamp(#[from] TimestampError),
    #[error("the anchor could not be written to {0}: {1}")]
    Folder(String, std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What asks the authority.
pub(crate) struct Anchoring {
    authority: AnchorAuthority,
    client: Client,
    pool: PgPool,
}

impl Anchoring {
    /// # Errors
    /// The TLS provider cannot be used.
    pub(crate) fn new(authority: AnchorAuthority, pool: PgPool) -> Result<Self, reqwest::Error> {
        let client = http_client().timeout(TIMEOUT).no_proxy().build()?;
        Ok(Self { authority, client, pool })
    }

    /// Anchors until `shutdown` is cancelled.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let (started, interval) = (clock::now(), self.authority.interval);
        let (mut wait, mut is_begun) = (Duration::ZERO, false);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            if !is_begun {
                // At once: a restart before the first anchor begins where this process did.
                match begin_anchoring(&self.pool, started).await {
                    Ok(()) => (is_begun, wait) = (true, interval),
                    Err(error) => {
                        tracing::warn!(%error, "anchor: the start of anchoring could not be stored; it is tried again");
                        wait = interval;
                    }
                }
                continue;
            }
            wait = match self.anchor().await {
                Ok((verdicts, is_full)) => {
                    telemetry::count_anchor("stored", verdicts);
                    if is_full { Duration::ZERO } else { interval }
                }
                Err(error) => {
                    telemetry::count_anchor("failed", 1);
                    let next = wait.saturating_mul(2).min(LONGEST_WAIT).max(interval);
                    tracing::warn!(%error, authority = %self.authority.url, wait_s = next.as_secs(),
                        "anchor: verdicts were not anchored; they stay valid, and are tried again after the wait");
                    next
                }
            };
        }
    }

    /// Anchors what has no anchor. Returns how many verdicts those were, and whether more may wait.
    async fn anchor(&self) -> Result<(usize, bool), AnchorError> {
        let Some(batch) = AnchorBatch::take(&self.pool).await? else {
            return Ok((0, false));
        };
        let token = self.ask(&batch.root()).await?;
        let (id, verdicts, is_full) = (Uuid::now_v7(), batch.count(), batch.is_full());
        if let Some(folder) = &self.authority.folder {
            let (name, text) = (format!("anchor-{id}.ndjson"), batch.to_file(&token));
            write(folder, &name, &text)
                .map_err(|error| AnchorError::Folder(folder.display().to_string(), error))?;
        }
        batch.store(id, &token).await?;
        tracing::info!(verdicts, at = %token.at(), "anchor: verdicts were anchored");
        Ok((verdicts, is_full))
    }

    /// Asks for a token, and checks it as a later reader does.
    async fn ask(&self, root: &[u8; 32]) -> Result<Token, AnchorError> {
        let mut nonce = [0; NONCE_BYTES];
        SystemRandom::new()
            .fill(&mut nonce)
            .map_err(|_| AnchorError::Http("the machine has no random numbers".to_owned()))?;
        let sending = self
            .client
            .post(&self.authority.url)
            .header(CONTENT_TYPE, QUERY)
            .body(request(root, nonce))
            .send();
        let response = sending.await.map_err(failed)?;
        if !response.status().is_success() {
            let status = response.status();
            return Err(AnchorError::Http(format!("the time-stamp authority answered {status}")));
        }
        let token = read_response(&body(response).await?, root, nonce)?;
        token.check(&self.authority.certificate)?;
        Ok(token)
    }
}

/// The body, which may not be longer than a token ever is.
async fn body(mut response: Response) -> Result<Vec<u8>, AnchorError> {
    let mut bytes = Vec::new();
    while let Some(part) = response.chunk().await.map_err(failed)? {
        if bytes.len().saturating_add(part.len()) > MOST_BYTES {
            let message =
                format!("the time-stamp authority answered with more than {MOST_BYTES} bytes");
            return Err(AnchorError::Http(message));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}

/// The innermost cause, which names what failed.
fn failed(error: reqwest::Error) -> AnchorError {
    let timed_out = error.is_timeout();
    let error = error.without_url();
    let mut cause: &dyn Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    AnchorError::Http(match timed_out {
        true => format!("the time-stamp authority did not answer within {} s", TIMEOUT.as_secs()),
        false => format!("the time-stamp authority cannot be reached: {cause}"),
    })
}

/// Writes a file whole or not at all.
fn write(folder: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let beside = folder.join(format!(".{name}"));
    let mut file = std::fs::File::create_new(&beside)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    match written {
        Ok(()) => std::fs::rename(&beside, folder.join(name)),
        Err(error) => {
            drop(std::fs::remove_file(&beside));
            Err(error)
        }
    }
}
