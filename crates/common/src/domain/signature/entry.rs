//! The entries in the history of a task. Each is signed alone when it is stored, and has the digest of the one before it.

use super::columns::digest;
use super::commit::line_leaf;
use super::envelope::{Envelope, instant, line_with, message_of, number, object};
use super::key::{KeyId, SIGNATURE_BYTES, SecretKey, write_hex_text};
use super::merkle::Digest;
use super::row::root_statement;
use super::trust::Service;
use crate::domain::json::{ObjectText, Value, sha256, write_string};
use crate::domain::toolchain::EntryKind;
use chrono::{DateTime, Utc};

/// What an entry says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryLine {
    /// From 1, without gaps.
    pub number: u32,
    /// When it was written.
    pub at: DateTime<Utc>,
    /// The name of its kind.
    pub kind: String,
    /// What wrote it.
    pub author: String,
    /// The SHA-256 of its text.
    pub body: Digest,
    /// The [`links_digest`] of its links.
    pub links: Digest,
    /// The name of the output that the text is; empty for none.
    pub attachment: String,
    /// The [`EntryLine::digest`] of the entry before it; none for the first.
    pub previous: Option<Digest>,
}

/// What signs an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntrySignature {
    /// The key.
    pub key_id: KeyId,
    /// When it signed.
    pub signed_at: DateTime<Utc>,
    /// The signature over the statement about a tree whose only leaf is the entry.
    pub signature: [u8; SIGNATURE_BYTES],
}

/// An entry with what signs it; none for an entry that was stored without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedEntry {
    /// What it says.
    pub line: EntryLine,
    /// Its signature.
    pub signature: Option<EntrySignature>,
}

/// The SHA-256 over links, each with its length before it, so that no two lists have one text.
pub fn links_digest(links: &[String]) -> Digest {
    let texts: Vec<String> = links.iter().map(|link| format!("{}:{link}", link.len())).collect();
    sha256(&[texts.concat().as_bytes()])
}

impl EntryLine {
    /// The canonical line of an export.
    pub fn to_line(&self) -> String {
        line_with("entry", |out| self.write(out))
    }

    /// In the order of the canonical form.
    fn write(&self, out: &mut String) {
        let Self { number, at, kind, author, body, links, attachment, previous } = self;
        ObjectText::begin(out)
            .text("at", &instant(*at))
            .with("attachment", |out| write_string(attachment, out))
            .with("author", |out| write_string(author, out))
            .with("body", |out| write_hex_text(out, body))
            .with("kind", |out| write_string(kind, out))
            .with("links", |out| write_hex_text(out, links))
            .number("number", number)
            .with("previous", |out| {
                write_hex_text(out, previous.as_ref().map(Digest::as_slice).unwrap_or_default());
            })
            .end();
    }

    /// Reads the value of the key `entry`.
    pub fn read(value: &Value) -> Option<Self> {
        let member = |name: &str| value.get(name)?.as_str().map(str::to_owned);
        let at = member("at")?;
        Some(Self {
            number: value.get("number")?.as_number()?.parse().ok()?,
            at: DateTime::parse_from_rfc3339(&at).ok()?.to_utc(),
            kind: member("kind")?,
            author: member("author")?,
            body: digest(value.get("body")?)?,
            links: digest(value.get("links")?)?,
            attachment: member("attachment")?,
            previous: match value.get("previous")?.as_str()? {
                "" => None,
                _ => Some(digest(value.get("previous")?)?),
            },
        })
    }

    /// The digest that the next entry and a verdict name.
    pub fn digest(&self, run_id: &str) -> Digest {
        line_leaf(run_id, &self.to_line())
    }

    /// The services that may write it: reports come from agents outside too and from the runner's tool, everything else
    /// from the planner alone.
    pub(super) fn signers(&self) -> &'static [Service] {
        match EntryKind::from_text(&self.kind) {
            Some(EntryKind::ActionReport) => &[Service::Planner, Service::Executor],
            Some(
                EntryKind::Note
                | EntryKind::Handoff
                | EntryKind::Observation
                | EntryKind::Review
                | EntryKind::Assignment
                | EntryKind::System,
            ) => &[Service::Planner],
            None => &[],
        }
    }
}

impl EntrySignature {
    /// Signs an entry of a run's task.
    pub fn sign(key: &SecretKey, run_id: &str, line: &EntryLine, signed_at: DateTime<Utc>) -> Self {
        let statement = root_statement(&line.digest(run_id), 1, signed_at);
        let signature = key.sign(&message_of(&statement));
        Self { key_id: key.id(), signed_at, signature }
    }

    /// The signed statement about an entry.
    fn envelope(&self, run_id: &str, line: &EntryLine) -> Envelope {
        let payload = root_statement(&line.digest(run_id), 1, self.signed_at);
        Envelope { payload, key_id: self.key_id, signature: self.signature }
    }
}

impl SignedEntry {
    /// The lines of an export, in their order.
    pub fn to_lines(&self, run_id: &str) -> Vec<String> {
        let Self { line, signature } = self;
        let proof = match signature {
            Some(_) => object([("first", number(0)), ("nodes", Value::Array(Vec::new()))]),
            None => Value::Null,
        };
        let envelope = signature.map(|signature| signature.envelope(run_id, line).to_line());
        let lines = [object([("proof", proof)]).to_canonical(), line.to_line()];
        envelope.into_iter().chain(lines).collect()
    }
}
