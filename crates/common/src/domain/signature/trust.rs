//! The keys that a reader trusts, from a file of the reader.
//!
//! ```text
//!   {"form":"surety trusted keys 1","keys":[
//!     {"key_id":"...","public_key":"...","service":"executor","valid_from":"...","valid_until":"..."}]}
//! ```

use super::envelope::{instant, message_of, object, text};
use super::key::{KeyId, PublicKey, SIGNATURE_BYTES};
use super::merkle::Digest;
use super::row::root_statement;
use crate::domain::json::{Value, parse, sha256};
use crate::domain::timestamp::TsaCertificate;
use chrono::{DateTime, Utc};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Names the form of the file; another form has another name.
const FORM: &str = "surety trusted keys 1";
/// The most signatures that are remembered as checked: one signature covers the rows of many runs.
const REMEMBERED: usize = 8192;

/// What a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Service {
    /// Runs, plans, and what persons said.
    Planner,
    /// What the runner recorded.
    Executor,
    /// Verdicts.
    Gate,
    /// Verdict files of `surety verify`.
    User,
}

impl Service {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Planner, Self::Executor, Self::Gate, Self::User];

    /// The name in files, rows and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planner => "planner",
            Self::Executor => "executor",
            Self::Gate => "gate",
            Self::User => "user",
        }
    }

    /// The service with this name.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|service| service.as_str() == text)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A trusted key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustedKey {
    /// What it signs.
    pub service: Service,
    /// The public key.
    pub key: PublicKey,
    /// What was signed before is refused.
    pub valid_from: DateTime<Utc>,
    /// What was signed then or later is refused; none while the key is in use.
    pub valid_until: Option<DateTime<Utc>>,
}

/// Why a text names no trusted keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// It is not JSON of the form.
    #[error("is no file of trusted keys: {0}")]
    Unreadable(String),
    /// One key does not read.
    #[error("has an unusable key at position {position}: {why}")]
    Key {
        /// The position of the key, from 1.
        position: usize,
        /// What is wrong.
        why: String,
    },
}

/// The keys that a reader trusts, and which signatures were found to hold.
#[derive(Debug, Default)]
pub struct TrustedKeys {
    keys: Vec<TrustedKey>,
    /// The id of each.
    ids: Vec<KeyId>,
    held: Mutex<Remembered>,
    time_authority: Option<TsaCertificate>,
}

/// The digests of what was found to hold: the newest, and those before them.
#[derive(Debug, Default)]
struct Remembered {
    newest: HashSet<Digest>,
    before: HashSet<Digest>,
}

impl Remembered {
    fn has(&self, digest: &Digest) -> bool {
        self.newest.contains(digest) || self.before.contains(digest)
    }

    fn add(&mut self, digest: Digest) {
        if self.newest.len() >= REMEMBERED / 2 {
            self.before = std::mem::take(&mut self.newest);
        }
        self.newest.insert(digest);
    }
}

impl TrustedKeys {
    /// These keys.
    pub fn new(keys: Vec<TrustedKey>) -> Self {
        let ids = keys.iter().map(|key| key.key.id()).collect();
        Self { keys, ids, held: Mutex::default(), time_authority: None }
    }

    /// The same keys, and the authority whose time stamps count.
    #[must_use]
    pub fn with_time_authority(self, certificate: TsaCertificate) -> Self {
        Self { time_authority: Some(certificate), ..self }
    }

    /// The authority whose time stamps count; none where no certificate was given.
    pub const fn time_authority(&self) -> Option<&TsaCertificate> {
        self.time_authority.as_ref()
    }

    /// The keys, in the order of the file.
    pub fn keys(&self) -> &[TrustedKey] {
        &self.keys
    }

    /// When the first key of a service became valid; none without one.
    pub fn since(&self, service: Service) -> Option<DateTime<Utc>> {
        let of_service = self.keys.iter().filter(|key| key.service == service);
        of_service.map(|key| key.valid_from).min()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`TrustError`]
    pub fn read(file: &str) -> Result<Self, TrustError> {
        let unreadable = |why: String| TrustError::Unreadable(why);
        let value = parse(file).map_err(|error| unreadable(error.to_string()))?.value;
        let form = value.get("form").and_then(Value::as_str).unwrap_or_default();
        if form != FORM {
            return Err(unreadable(format!("its form is {form:?}, not {FORM:?}")));
        }
        let listed = value.get("keys").and_then(Value::as_array);
        let listed = listed.ok_or_else(|| unreadable("it has no list `keys`".to_owned()))?;
        let read = (1..)
            .zip(listed)
            .map(|(position, key)| read_key(key).map_err(|why| TrustError::Key { position, why }));
        Ok(Self::new(read.collect::<Result<_, _>>()?))
    }

    /// The text of a file, a line for each key.
    pub fn to_text(&self) -> String {
        let keys: Vec<String> = self.keys.iter().map(|key| write_key(key).to_compact()).collect();
        format!("{{\"form\":\"{FORM}\",\"keys\":[\n{}\n]}}\n", keys.join(",\n"))
    }

    /// Whether the key of a service was trusted at a time.
    pub(super) fn trusts(&self, (key_id, service): (KeyId, Service), at: DateTime<Utc>) -> bool {
        let mut with_id = self.ids.iter().zip(&self.keys).filter(|(id, _)| **id == key_id);
        with_id.any(|(_, key)| key.service == service && key.is_valid(at))
    }

    /// Checks a signature of a key that may sign for one of these services.
    ///
    /// # Errors
    /// Why it does not hold, in words.
    pub fn check(
        &self,
        (key_id, signature): (KeyId, &[u8; SIGNATURE_BYTES]),
        services: &[Service],
        at: DateTime<Utc>,
        message: &[u8],
    ) -> Result<(), String> {
        let known = sha256(&[&[0], &key_id.0, signature, message]);
        self.check_by((key_id, signature), services, at, (known, || message))
    }

    /// Checks the signature over the statement about a root, with so many leaves and of this time. One that is known to
    /// hold needs no statement.
    ///
    /// # Errors
    /// Why it does not hold, in words.
    pub(super) fn check_root(
        &self,
        (key_id, signature): (KeyId, &[u8; SIGNATURE_BYTES]),
        services: &[Service],
        (root, leaf_count, signed_at): (&Digest, u32, DateTime<Utc>),
    ) -> Result<(), String> {
        let (leaves, micros) =
            (leaf_count.to_be_bytes(), signed_at.timestamp_micros().to_be_bytes());
        let known = sha256(&[&[1], &key_id.0, signature, root, &leaves, &micros]);
        let message = || message_of(&root_statement(root, leaf_count, signed_at));
        self.check_by((key_id, signature), services, signed_at, (known, message))
    }

    /// Services and times are compared each time; only whether the signature holds is remembered, by a digest.
    fn check_by<M: AsRef<[u8]>>(
        &self,
        (key_id, signature): (KeyId, &[u8; SIGNATURE_BYTES]),
        services: &[Service],
        at: DateTime<Utc>,
        (known, message): (Digest, impl FnOnce() -> M),
    ) -> Result<(), String> {
        let with_id = || self.ids.iter().zip(&self.keys).filter(|(id, _)| **id == key_id);
        let Some((_, first)) = with_id().next() else {
            return Err(format!("it is signed by the key {key_id}, which is not trusted"));
        };
        // A key may be named for several services, and with several times for one.
        let mut may_sign =
            with_id().map(|(_, key)| key).filter(|key| services.contains(&key.service)).peekable();
        if may_sign.peek().is_none() {
            let service = first.service;
            return Err(format!(
                "it is signed by the key {key_id} of the {service}, which may not sign it"
            ));
        }
        let Some(key) = may_sign.find(|key| key.is_valid(at)) else {
            let at = instant(at);
            return Err(format!("it is signed at {at}, when the key {key_id} was not valid"));
        };
        let held = || self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held().has(&known) {
            return Ok(());
        }
        if !key.key.holds(message().as_ref(), signature) {
            return Err("it is not what was signed".to_owned());
        }
        held().add(known);
        Ok(())
    }
}

impl TrustedKey {
    fn is_valid(&self, at: DateTime<Utc>) -> bool {
        self.valid_from <= at && self.valid_until.is_none_or(|until| at < until)
    }
}

fn read_key(value: &Value) -> Result<TrustedKey, String> {
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let time = |name: &str| {
        let read = DateTime::parse_from_rfc3339(field(name)).map(|at| at.to_utc());
        read.map_err(|_| format!("`{name}` is no RFC 3339 time"))
    };
    let key =
        PublicKey::from_text(field("public_key")).ok_or("`public_key` is no 32 bytes in base64")?;
    if field("key_id") != key.id().to_string() {
        return Err(format!("`key_id` is not {}, the id of its public key", key.id()));
    }
    let service = Service::from_text(field("service"))
        .ok_or("`service` is none of planner, executor, gate and user")?;
    let valid_until = match value.get("valid_until") {
        None | Some(Value::Null) => None,
        Some(_) => Some(time("valid_until")?),
    };
    Ok(TrustedKey { service, key, valid_from: time("valid_from")?, valid_until })
}

fn write_key(key: &TrustedKey) -> Value {
    let TrustedKey { service, key, valid_from, valid_until } = key;
    let until = valid_until.map_or(Value::Null, |until| text(instant(until)));
    object([
        ("key_id", text(key.id().to_string())),
        ("public_key", text(key.to_text())),
        ("service", text(service.as_str())),
        ("valid_from", text(instant(*valid_from))),
        ("valid_until", until),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::SecretKey;
    use super::*;

    fn trusted(service: Service, until: Option<i64>) -> (SecretKey, TrustedKeys) {
        let key = SecretKey::from_seed([3; 32]).unwrap();
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        let valid_until = until.map(at);
        let trusted = TrustedKey { service, key: key.public(), valid_from: at(100), valid_until };
        (key, TrustedKeys::new(vec![trusted]))
    }

    #[test]
    fn a_file_of_keys_reads_as_it_was_written() {
        let (_, keys) = trusted(Service::Gate, Some(200));
        assert_eq!(TrustedKeys::read(&keys.to_text()).unwrap().keys(), keys.keys());
    }

    #[test]
    fn a_signature_counts_for_its_service_and_its_time_only() {
        let (key, keys) = trusted(Service::Gate, Some(200));
        let signature = key.sign(b"m");
        let check = |service, seconds, message: &[u8]| {
            let at = DateTime::from_timestamp(seconds, 0).unwrap();
            keys.check((key.id(), &signature), &[service], at, message)
        };
        assert_eq!(check(Service::Gate, 150, b"m"), Ok(()));
        for (service, seconds, message, expected) in [
            (Service::Executor, 150, &b"m"[..], "may not sign"),
            (Service::Gate, 99, b"m", "not valid"),
            (Service::Gate, 200, b"m", "not valid"),
            (Service::Gate, 150, b"n", "not what was signed"),
        ] {
            let found = check(service, seconds, message).unwrap_err();
            assert!(found.contains(expected), "{found}");
        }
        let foreign = TrustedKeys::default();
        let found = foreign.check((key.id(), &signature), &[Service::Gate], Utc::now(), b"m");
        assert!(found.unwrap_err().contains("not trusted"));
    }

    #[test]
    fn a_root_that_is_known_to_hold_counts_for_its_service_its_time_and_its_leaves_only() {
        let (key, keys) = trusted(Service::Gate, Some(200));
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        let signature = key.sign(&message_of(&root_statement(&[7; 32], 3, at(150))));
        let other = key.sign(b"m");
        let check = |service, signature, root: [u8; 32], leaves, seconds| {
            keys.check_root((key.id(), signature), &[service], (&root, leaves, at(seconds)))
        };
        for _ in 0..2 {
            assert_eq!(check(Service::Gate, &signature, [7; 32], 3, 150), Ok(()));
        }
        for (service, signature, root, leaves, seconds, expected) in [
            (Service::Executor, &signature, [7; 32], 3, 150, "may not sign"),
            (Service::Gate, &other, [7; 32], 3, 150, "not what was signed"),
            (Service::Gate, &signature, [8; 32], 3, 150, "not what was signed"),
            (Service::Gate, &signature, [7; 32], 4, 150, "not what was signed"),
            (Service::Gate, &signature, [7; 32], 3, 151, "not what was signed"),
            (Service::Gate, &signature, [7; 32], 3, 200, "not valid"),
        ] {
            let found = check(service, signature, root, leaves, seconds).unwrap_err();
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn the_newest_signatures_that_hold_stay_known_when_the_memory_is_full() {
        let digest = |number: usize| sha256(&[&number.to_be_bytes()]);
        let mut known = Remembered::default();
        for number in 0..3 * REMEMBERED {
            known.add(digest(number));
            let first = (number + 1).saturating_sub(REMEMBERED / 2);
            assert!(known.has(&digest(first)) && known.has(&digest(number)), "{number}");
        }
        assert!(known.newest.len() + known.before.len() <= REMEMBERED);
        assert!(!known.has(&digest(0)));
    }

    #[test]
    fn a_key_that_is_named_with_several_times_counts_in_each_of_them() {
        let (key, keys) = trusted(Service::Gate, Some(200));
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        let first = keys.keys()[0];
        let again = TrustedKey { valid_from: at(300), valid_until: None, ..first };
        let signature = key.sign(b"m");
        for keys in [vec![first, again], vec![again, first]] {
            let keys = TrustedKeys::new(keys);
            let check =
                |seconds| keys.check((key.id(), &signature), &[Service::Gate], at(seconds), b"m");
            assert_eq!((check(150), check(300)), (Ok(()), Ok(())));
            assert!(check(250).unwrap_err().contains("not valid"));
        }
    }

    #[test]
    fn a_file_that_does_not_read_is_named() {
        let (_, keys) = trusted(Service::User, None);
        let good = keys.to_text();
        for (bad, expected) in [
            (String::new(), "no file of trusted keys"),
            (good.replace("keys 1", "keys 2"), "its form is"),
            (good.replace("\"user\"", "\"root\""), "position 1: `service`"),
            (good.replace("\"key_id\":\"", "\"key_id\":\"0"), "`key_id` is not"),
            (good.replace("\"valid_from\":\"1", "\"valid_from\":\"x"), "`valid_from` is no"),
        ] {
            let found = TrustedKeys::read(&bad).unwrap_err().to_string();
            assert!(found.contains(expected), "{found}");
        }
    }
}
