//! The token: CMS signed data over the time and the digest.

use super::certificate::TsaCertificate;
use super::der::{
    self, CONTEXT_0, CONTEXT_1, Der, Element, IMPLICIT_0, INTEGER, OCTET_STRING, OID, SEQUENCE,
    SET, element,
};
use super::error::TimestampError;
use super::oid;
use chrono::{DateTime, Utc};
use ring::digest::{
    self, SHA1_FOR_LEGACY_USE_ONLY as RING_SHA1, SHA256 as RING_SHA256, SHA384 as RING_SHA384,
    SHA512 as RING_SHA512,
};

/// A time stamp over a SHA-256. It proves nothing before [`Token::check`] accepted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    der: Vec<u8>,
    imprint: [u8; 32],
    at: DateTime<Utc>,
    nonce: Option<Vec<u8>>,
}

/// The parts of a token.
struct Parts<'d> {
    /// The digest algorithms, and the content with its type.
    head: [&'d [u8]; 2],
    content: &'d [u8],
    /// The signer up to its signature.
    covered: &'d [u8],
    signer: SignerName<'d>,
    digest: &'d [u8],
    attributes: Element<'d>,
    algorithm: &'d [u8],
    signature: &'d [u8],
}

/// How a token names the certificate of its signer.
#[derive(Clone, Copy)]
enum SignerName<'d> {
    /// By its issuer and its number.
    Number(&'d [u8]),
    /// By the identifier of its key.
    Key(&'d [u8]),
}

impl Parts<'_> {
    /// The token without what its signature does not cover: certificates, revocations and unsigned attributes. With
    /// them a token could be changed and still hold.
    fn written(&self) -> Vec<u8> {
        let [digests, content] = self.head;
        let signers = element(SET, &[&element(SEQUENCE, &[self.covered])]);
        let data = element(SEQUENCE, &[&element(INTEGER, &[&[3]]), digests, content, &signers]);
        element(SEQUENCE, &[&element(OID, &[oid::SIGNED_DATA]), &element(CONTEXT_0, &[&data])])
    }
}

impl Token {
    /// Reads a token, and keeps of it what its signature covers.
    ///
    /// # Errors
    /// [`TimestampError::Token`]
    pub fn read(bytes: &[u8]) -> Result<Self, TimestampError> {
        let parts = parts(bytes).ok_or(TimestampError::Token(
            "it is no signed data of one signer over a time stamp, in DER",
        ))?;
        let (imprint, at, nonce) = info(parts.content)
            .ok_or(TimestampError::Token("its content is no time stamp over a SHA-256"))?;
        Ok(Self { der: parts.written(), imprint, at, nonce: nonce.map(<[u8]>::to_vec) })
    }

    /// The bytes, as `openssl ts -verify -token_in` reads them.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The digest that it is about.
    pub const fn imprint(&self) -> [u8; 32] {
        self.imprint
    }

    /// The time that it states.
    pub const fn at(&self) -> DateTime<Utc> {
        self.at
    }

    /// The number of the request that it answers, as the contents of a DER integer.
    pub(super) fn nonce(&self) -> Option<&[u8]> {
        self.nonce.as_deref()
    }

    /// Checks that the key of this certificate signed the token while the certificate was valid.
    ///
    /// # Errors
    /// [`TimestampError::Token`], [`TimestampError::Signature`]
    pub fn check(&self, certificate: &TsaCertificate) -> Result<(), TimestampError> {
        let wrong = |why| Err(TimestampError::Signature(why));
        let parts = parts(&self.der).ok_or(TimestampError::Token("it is no signed data"))?;
        let unknown = TimestampError::Token("its digest algorithm is not supported");
        let content_digest = hash(parts.digest, parts.content).ok_or(unknown)?;
        let signed = attributes(parts.attributes)
            .ok_or(TimestampError::Token("its signed attributes do not read"))?;
        if signed.content_type != Some(oid::TST_INFO) {
            return wrong("its signature is about another type of content");
        }
        if signed.message_digest != Some(content_digest.as_slice()) {
            return wrong("its content is not what was signed");
        }
        if !signed.certificates.iter().any(|(algorithm, id)| {
            hash(algorithm, certificate.der()).is_some_and(|digest| digest == *id)
        }) {
            return wrong("another certificate signed it");
        }
        let is_named = match parts.signer {
            SignerName::Number(name) => name == certificate.name(),
            SignerName::Key(id) => certificate.key_id() == Some(id),
        };
        if !is_named {
            return wrong("its signer is named as another certificate");
        }
        if !certificate.was_valid(self.at) {
            return wrong("its time is outside the validity of the certificate");
        }
        // What is signed are the attributes as a set, not with the tag that they have inside the token.
        let mut message = parts.attributes.whole.to_vec();
        message.iter_mut().take(1).for_each(|tag| *tag = SET);
        let algorithms = (parts.algorithm, parts.digest);
        match certificate.holds(algorithms, &message, parts.signature)? {
            true => Ok(()),
            false => wrong("its signature is not of the certificate's key"),
        }
    }
}

fn hash(algorithm: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    let algorithm = match algorithm {
        oid::SHA1 => &RING_SHA1,
        oid::SHA256 => &RING_SHA256,
        oid::SHA384 => &RING_SHA384,
        oid::SHA512 => &RING_SHA512,
        _ => return None,
    };
    Some(digest::digest(algorithm, data).as_ref().to_vec())
}

fn parts(bytes: &[u8]) -> Option<Parts<'_>> {
    let mut outer = Der::only(bytes, SEQUENCE)?.inside();
    is(outer.take(OID)?, oid::SIGNED_DATA)?;
    let explicit = outer.take(CONTEXT_0)?;
    outer.end()?;
    let mut data = Der::only(explicit.content, SEQUENCE)?.inside();
    is(data.take(INTEGER)?, &[3])?;
    let digests = data.take(SET)?;
    let typed = data.take(SEQUENCE)?;
    let mut encapsulated = typed.inside();
    is(encapsulated.take(OID)?, oid::TST_INFO)?;
    let content = Der::only(encapsulated.take(CONTEXT_0)?.content, OCTET_STRING)?.content;
    encapsulated.end()?;
    let _certificates = data.optional(CONTEXT_0);
    let _revocations = data.optional(CONTEXT_1);
    let mut signers = data.take(SET)?.inside();
    data.end()?;
    // RFC 3161: a token has exactly one signature.
    let whole = signers.take(SEQUENCE)?;
    signers.end()?;
    let mut signer = whole.inside();
    let version = signer.take(INTEGER)?.content;
    let named = signer.pop()?;
    let name = match (version, named.tag) {
        ([1], SEQUENCE) => SignerName::Number(named.content),
        ([3], IMPLICIT_0) => SignerName::Key(named.content),
        _ => return None,
    };
    let digest = signer.plain_algorithm()?;
    // The digests that are announced are that of the one signer.
    let mut announced = digests.inside();
    (announced.plain_algorithm()? == digest).then_some(())?;
    announced.end()?;
    let attributes = signer.take(CONTEXT_0)?;
    let algorithm = signer.plain_algorithm()?;
    let signature = signer.take(OCTET_STRING)?.content;
    let unsigned = signer.optional(CONTEXT_1).map_or(0, |unsigned| unsigned.whole.len());
    signer.end()?;
    let covered = whole.content.get(..whole.content.len() - unsigned)?;
    let head = [digests.whole, typed.whole];
    Some(Parts { head, content, covered, signer: name, digest, attributes, algorithm, signature })
}

fn is(element: Element<'_>, expected: &[u8]) -> Option<()> {
    (element.content == expected).then_some(())
}

type Info<'d> = ([u8; 32], DateTime<Utc>, Option<&'d [u8]>);

fn info(content: &[u8]) -> Option<Info<'_>> {
    let mut info = Der::only(content, SEQUENCE)?.inside();
    is(info.take(INTEGER)?, &[1])?;
    info.take(OID)?;
    let mut imprint = info.take(SEQUENCE)?.inside();
    let (algorithm, _) = imprint.algorithm()?;
    let digest = imprint.take(OCTET_STRING)?.content;
    imprint.end()?;
    info.take(INTEGER)?;
    let at = der::time(&info.take(der::GENERALIZED_TIME)?)?;
    let _accuracy = info.optional(SEQUENCE);
    let _ordering = info.optional(der::BOOLEAN);
    let nonce = info.optional(INTEGER).map(|nonce| nonce.content);
    let _authority = info.optional(CONTEXT_0);
    let _extensions = info.optional(CONTEXT_1);
    info.end()?;
    let digest = (algorithm == oid::SHA256).then_some(digest)?.try_into().ok()?;
    Some((digest, at, nonce))
}

/// The signed attributes that RFC 3161 and RFC 5035 ask for.
#[derive(Default)]
struct Signed<'d> {
    content_type: Option<&'d [u8]>,
    message_digest: Option<&'d [u8]>,
    /// The algorithm and the digest of the signer's certificate.
    certificates: Vec<(&'d [u8], &'d [u8])>,
}

fn attributes(element: Element<'_>) -> Option<Signed<'_>> {
    let mut signed = Signed::default();
    let mut all = element.inside();
    while !all.is_empty() {
        let mut attribute = all.take(SEQUENCE)?.inside();
        let kind = attribute.take(OID)?.content;
        let mut values = attribute.take(SET)?.inside();
        attribute.end()?;
        match kind {
            oid::CONTENT_TYPE => {
                let value = values.take(OID)?.content;
                signed.content_type.replace(value).is_none().then_some(())?;
            }
            oid::MESSAGE_DIGEST => {
                let value = values.take(OCTET_STRING)?.content;
                signed.message_digest.replace(value).is_none().then_some(())?;
            }
            oid::SIGNING_CERTIFICATE => {
                let mut id = certificate_id(&mut values)?;
                signed.certificates.push((oid::SHA1, id.take(OCTET_STRING)?.content));
            }
            oid::SIGNING_CERTIFICATE_V2 => {
                let mut id = certificate_id(&mut values)?;
                let named = id.optional(SEQUENCE).map(|algorithm| algorithm.inside().take(OID));
                // SHA-256 where none is named.
                let algorithm = named.map_or(Some(oid::SHA256), |it| it.map(|it| it.content))?;
                signed.certificates.push((algorithm, id.take(OCTET_STRING)?.content));
            }
            _ => continue,
        }
        values.end()?;
    }
    Some(signed)
}

/// The first of the certificates, which is the signer's.
fn certificate_id<'d>(values: &mut Der<'d>) -> Option<Der<'d>> {
    let mut ids = values.take(SEQUENCE)?.inside().take(SEQUENCE)?.inside();
    Some(ids.take(SEQUENCE)?.inside())
}
