//! DSSE envelopes with in-toto statements.

use super::key::{KeyId, SIGNATURE_BYTES, from_base64, to_base64};
use crate::domain::json::{ObjectText, Value, parse_stored, write_string};
use chrono::{DateTime, SecondsFormat, Utc};

/// The type of every payload: an in-toto statement.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// The type of every statement.
pub(super) const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// The bytes that are signed for a payload: DSSE's pre-authentication encoding.
pub fn message_of(payload: &str) -> Vec<u8> {
    let (kind, length) = (PAYLOAD_TYPE.len(), payload.len());
    format!("DSSEv1 {kind} {PAYLOAD_TYPE} {length} {payload}").into_bytes()
}

/// A signed statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The canonical text of the statement.
    pub payload: String,
    /// The key that signed it.
    pub key_id: KeyId,
    /// The signature over [`message_of`] the payload.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl Envelope {
    /// The envelope as one canonical line, without a line end.
    pub fn to_line(&self) -> String {
        let Self { payload, key_id, signature } = self;
        let signature =
            object([("keyid", text(key_id.to_string())), ("sig", text(to_base64(signature)))]);
        object([
            ("payload", text(to_base64(payload.as_bytes()))),
            ("payloadType", text(PAYLOAD_TYPE)),
            ("signatures", Value::Array(vec![signature])),
        ])
        .to_canonical()
    }

    /// Reads an envelope.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn read(value: &Value) -> Result<Self, String> {
        let kind = value.get("payloadType").and_then(Value::as_str);
        if kind != Some(PAYLOAD_TYPE) {
            return Err(format!("the envelope's payloadType is not {PAYLOAD_TYPE}"));
        }
        let payload = value.get("payload").and_then(Value::as_str).unwrap_or_default();
        if payload.is_empty() {
            return Err("the envelope has no payload".to_owned());
        }
        let payload = from_base64(payload).and_then(|bytes| String::from_utf8(bytes).ok());
        let payload = payload.ok_or("the envelope's payload is no text in base64")?;
        let Some([one]) = value.get("signatures").and_then(Value::as_array) else {
            return Err("the envelope has not exactly one signature".to_owned());
        };
        let key_id = one.get("keyid").and_then(Value::as_str).and_then(KeyId::from_text);
        let key_id = key_id.ok_or("the envelope's signature names no key")?;
        let signature = one.get("sig").and_then(Value::as_str).and_then(from_base64);
        let signature = signature.and_then(|bytes| bytes.try_into().ok());
        let signature = signature.ok_or("the envelope's signature is no 64 bytes in base64")?;
        Ok(Self { payload, key_id, signature })
    }

    /// Its statement.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn statement(&self) -> Result<Statement, String> {
        let parsed = parse_stored(&self.payload)
            .map_err(|error| format!("the envelope's payload is not JSON: {error}"))?;
        let value = parsed.value;
        if value.to_canonical() != self.payload {
            return Err("the envelope's payload is not in its canonical form".to_owned());
        }
        let member = |name: &str| value.get(name).cloned();
        let kind = member("predicateType").as_ref().and_then(Value::as_str).map(str::to_owned);
        let statement = member("_type");
        match (statement.as_ref().and_then(Value::as_str), kind, member("predicate")) {
            (Some(STATEMENT_TYPE), Some(predicate_type), Some(predicate)) => {
                let subject = member("subject").unwrap_or(Value::Null);
                Ok(Statement { predicate_type, predicate, subject })
            }
            _ => Err(format!("the envelope's payload is no statement of {STATEMENT_TYPE}")),
        }
    }
}

/// An in-toto statement, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// What the predicate says, as a URI.
    pub predicate_type: String,
    /// What is said.
    pub predicate: Value,
    /// What it is said about.
    pub subject: Value,
}

/// The canonical text of a statement, whose predicate and subject are written in theirs.
pub(super) fn statement_text(
    predicate_type: &str,
    predicate: impl FnOnce(&mut String),
    subject: impl FnOnce(&mut String),
) -> String {
    let mut text = String::with_capacity(512);
    ObjectText::begin(&mut text)
        .text("_type", STATEMENT_TYPE)
        .with("predicate", predicate)
        .text("predicateType", predicate_type)
        .with("subject", subject)
        .end();
    text
}

/// A canonical line with one member, such as an export has.
pub(super) fn line_with(key: &str, write: impl FnOnce(&mut String)) -> String {
    let mut line = String::with_capacity(512);
    ObjectText::begin(&mut line).with(key, write).end();
    line
}

/// Writes a subject with one digest.
pub(super) fn write_subject(out: &mut String, name: &str, algorithm: &str, digest: &str) {
    ObjectText::begin(out)
        .with("digest", |out| {
            ObjectText::begin(out).with(algorithm, |out| write_string(digest, out)).end();
        })
        .with("name", |out| write_string(name, out))
        .end();
}

/// An instant as every signed text has it: RFC 3339 in UTC with microseconds.
pub fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

pub(super) fn text(text: impl Into<String>) -> Value {
    Value::String(text.into())
}

pub(super) fn number(number: impl ToString) -> Value {
    Value::Number(number.to_string())
}

pub(super) fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
