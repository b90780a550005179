//! The certificate of a time-stamp authority, as an operator or an auditor gives it by file.

use super::der::{
    self, BIT_STRING, CONTEXT_0, CONTEXT_3, Der, INTEGER, OCTET_STRING, OID, SEQUENCE,
};
use super::error::TimestampError;
use super::oid;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    UnparsedPublicKey, VerificationAlgorithm,
};

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// A larger file holds no certificate of an authority.
const MOST_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rsa,
    P256,
    P384,
}

/// A certificate whose key signs time stamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TsaCertificate {
    der: Vec<u8>,
    kind: Kind,
    key: Vec<u8>,
    valid: (DateTime<Utc>, DateTime<Utc>),
    /// Its issuer and its number, as a token names it.
    name: Vec<u8>,
    /// The identifier of its key, as a token may name it.
    key_id: Option<Vec<u8>>,
}

impl TsaCertificate {
    /// Reads the first certificate of a PEM text.
    ///
    /// # Errors
    /// [`TimestampError::Certificate`]
    pub fn from_pem(text: &str) -> Result<Self, TimestampError> {
        let none = TimestampError::Certificate("is not in a PEM text with `BEGIN CERTIFICATE`");
        let body = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
        let (body, _) = body.filter(|(body, _)| body.len() <= MOST_BYTES).ok_or(none)?;
        let body: String = body.split_whitespace().collect();
        let der = STANDARD.decode(body);
        Self::from_der(&der.map_err(|_| TimestampError::Certificate("is no base64"))?)
    }

    /// Reads a certificate.
    ///
    /// # Errors
    /// [`TimestampError::Certificate`]
    pub fn from_der(der: &[u8]) -> Result<Self, TimestampError> {
        let wrong = TimestampError::Certificate;
        let fields = read(der).ok_or_else(|| wrong("is no X.509 certificate"))?;
        let (kind, key) = read_key(fields.key).ok_or_else(|| {
            wrong(
                "has a key of an unknown kind: RSA of 2048 bits or more, P-256 and P-384 are known",
            )
        })?;
        let extensions = fields.extensions.ok_or_else(|| wrong("has no extensions"))?;
        if stamps_times(extensions) != Some(true) {
            return Err(wrong("is not for time stamps alone: its extended key usage is another"));
        }
        let name = [fields.issuer, fields.number].concat();
        let id = extension(extensions, oid::SUBJECT_KEY_IDENTIFIER);
        let key_id = id.and_then(|id| Some(Der::only(id, OCTET_STRING)?.content.to_vec()));
        Ok(Self { der: der.to_vec(), kind, key: key.to_vec(), valid: fields.valid, name, key_id })
    }

    /// The whole certificate.
    pub(super) fn der(&self) -> &[u8] {
        &self.der
    }

    /// Its issuer and its number, one behind the other.
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// The identifier of its key, where it states one.
    pub(super) fn key_id(&self) -> Option<&[u8]> {
        self.key_id.as_deref()
    }

    pub(super) fn was_valid(&self, at: DateTime<Utc>) -> bool {
        (self.valid.0..=self.valid.1).contains(&at)
    }

    /// Whether its key signed a message. `digest` is the algorithm that the signer names beside a signature algorithm
    /// without one.
    pub(super) fn holds(
        &self,
        (algorithm, digest): (&[u8], &[u8]),
        message: &[u8],
        signature: &[u8],
    ) -> Result<bool, TimestampError> {
        let unknown = TimestampError::Token("its signature algorithm is not supported");
        let verifying: &dyn VerificationAlgorithm = match (self.kind, algorithm, digest) {
            (Kind::Rsa, oid::RSA_SHA256, _) | (Kind::Rsa, oid::RSA, oid::SHA256) => {
                &RSA_PKCS1_2048_8192_SHA256
            }
            (Kind::Rsa, oid::RSA_SHA384, _) | (Kind::Rsa, oid::RSA, oid::SHA384) => {
                &RSA_PKCS1_2048_8192_SHA384
            }
            (Kind::Rsa, oid::RSA_SHA512, _) | (Kind::Rsa, oid::RSA, oid::SHA512) => {
                &RSA_PKCS1_2048_8192_SHA512
            }
            (Kind::P256, oid::ECDSA_SHA256, _) => &ECDSA_P256_SHA256_ASN1,
            (Kind::P256, oid::ECDSA_SHA384, _) => &ECDSA_P256_SHA384_ASN1,
            (Kind::P384, oid::ECDSA_SHA256, _) => &ECDSA_P384_SHA256_ASN1,
            (Kind::P384, oid::ECDSA_SHA384, _) => &ECDSA_P384_SHA384_ASN1,
            _ => return Err(unknown),
        };
        Ok(UnparsedPublicKey::new(verifying, &self.key).verify(message, signature).is_ok())
    }
}

/// The fields of a certificate that are used.
struct Fields<'d> {
    issuer: &'d [u8],
    number: &'d [u8],
    valid: (DateTime<Utc>, DateTime<Utc>),
    key: Der<'d>,
    extensions: Option<Der<'d>>,
}

fn read(bytes: &[u8]) -> Option<Fields<'_>> {
    let mut certificate = Der::only(bytes, SEQUENCE)?.inside();
    let mut body = certificate.take(SEQUENCE)?.inside();
    let _version = body.optional(CONTEXT_0);
    let number = body.take(INTEGER)?.whole;
    body.algorithm()?;
    let issuer = body.take(SEQUENCE)?.whole;
    let mut validity = body.take(SEQUENCE)?.inside();
    let valid = (der::time(&validity.pop()?)?, der::time(&validity.pop()?)?);
    let _subject = body.take(SEQUENCE)?;
    let key = body.take(SEQUENCE)?.inside();
    let mut extensions = None;
    while let Some(element) = body.pop() {
        if element.tag == CONTEXT_3 {
            extensions = Some(Der::only(element.content, SEQUENCE)?.inside());
        }
    }
    body.end()?;
    Some(Fields { issuer, number, valid, key, extensions })
}

fn read_key(mut key: Der<'_>) -> Option<(Kind, &[u8])> {
    let (algorithm, mut parameters) = key.algorithm()?;
    let kind = match algorithm {
        oid::RSA => Kind::Rsa,
        oid::EC => match parameters.take(OID)?.content {
            oid::P256 => Kind::P256,
            oid::P384 => Kind::P384,
            _ => return None,
        },
        _ => return None,
    };
    // The bits of a key are whole bytes: none of the last one is unused.
    let bits = key.take(BIT_STRING)?.content.strip_prefix(&[0])?;
    key.end().map(|()| (kind, bits))
}

/// Whether the certificate is for time stamps and for nothing else, as RFC 3161 asks.
fn stamps_times(extensions: Der<'_>) -> Option<bool> {
    let usages = Der::only(extension(extensions, oid::EXTENDED_KEY_USAGE)?, SEQUENCE)?;
    let usage = Der::only(usages.content, OID)?;
    Some(usage.content == oid::TIME_STAMPING)
}

/// The value of the extension with this identifier.
fn extension<'d>(mut extensions: Der<'d>, identifier: &[u8]) -> Option<&'d [u8]> {
    while !extensions.is_empty() {
        let mut extension = extensions.take(SEQUENCE)?.inside();
        if extension.take(OID)?.content != identifier {
            continue;
        }
        let _critical = extension.optional(der::BOOLEAN);
        return Some(extension.take(OCTET_STRING)?.content);
    }
    None
}
