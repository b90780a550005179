//! A document that a user signs: the verdict file of `surety verify`.

use super::envelope::{
    Envelope, STATEMENT_TYPE, instant, message_of, statement_text, write_subject,
};
use super::key::SecretKey;
use super::trust::{Service, TrustedKeys};
use crate::domain::json::{ObjectText, Value, parse_stored, sha256_hex, write_list};
use chrono::{DateTime, Utc};

/// The predicate of a signed verdict file.
const FILE: &str = "urn:surety:predicate:verdict-file:v1";

/// A signed statement that a document has this canonical text, as a line.
pub fn sign_document(key: &SecretKey, at: DateTime<Utc>, document: &Value) -> String {
    let predicate = |out: &mut String| ObjectText::begin(out).text("signed_at", &instant(at)).end();
    let payload = statement_text(FILE, predicate, |out| out.push_str(&subject_of(document)));
    let signature = key.sign(&message_of(&payload));
    Envelope { payload, key_id: key.id(), signature }.to_line()
}

/// The canonical text of the statement's subject.
fn subject_of(document: &Value) -> String {
    let mut list = String::new();
    let digest = sha256_hex(document.to_canonical().as_bytes());
    write_list(&mut list, [digest], |out, digest| write_subject(out, "verdict", "sha256", &digest));
    list
}

/// Why the signature of a document does not hold, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentFault {
    /// The document or its signature is not what was signed.
    #[error("{0}")]
    Changed(String),
    /// No key that the reader trusted then signed it.
    #[error("{0}")]
    Untrusted(String),
}

/// Checks the signature of a document.
///
/// # Errors
/// Why it does not hold.
pub fn verify_document(
    keys: &TrustedKeys,
    line: &str,
    document: &Value,
) -> Result<(), DocumentFault> {
    let (envelope, at) = read_envelope(line, document).map_err(DocumentFault::Changed)?;
    let signature = (envelope.key_id, &envelope.signature);
    let checked = keys.check(signature, &[Service::User], at, &message_of(&envelope.payload));
    checked.map_err(|why| match keys.trusts((envelope.key_id, Service::User), at) {
        true => DocumentFault::Changed(why),
        false => DocumentFault::Untrusted(why),
    })
}

/// The envelope of a statement about the document, and its time.
fn read_envelope(line: &str, document: &Value) -> Result<(Envelope, DateTime<Utc>), String> {
    let value = parse_stored(line).map_err(|error| format!("it is not JSON: {error}"))?.value;
    let envelope = Envelope::read(&value)?;
    if envelope.to_line() != line {
        return Err("the envelope is not in its canonical form".to_owned());
    }
    let statement = envelope.statement()?;
    if statement.predicate_type != FILE {
        return Err(format!("the statement's predicate is not {FILE} of {STATEMENT_TYPE}"));
    }
    let at = statement.predicate.get("signed_at").and_then(Value::as_str).unwrap_or_default();
    let at = DateTime::parse_from_rfc3339(at).map_err(|_| "the statement has no time")?.to_utc();
    if statement.subject.to_canonical() != subject_of(document) {
        return Err("it is not what was signed".to_owned());
    }
    Ok((envelope, at))
}
