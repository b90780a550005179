//! A time-stamp authority (RFC 3161) on a real socket. It reads requests strictly and signs with a key of its own.

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use chrono::Utc;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;

const ALGORITHM_SHA256: &[u8] = &[0x30, 0x0b, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1];
const ALGORITHM_ECDSA: &[u8] = &[0x30, 0x0a, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const OID_SIGNED_DATA: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 2];
const OID_TST_INFO: &[u8] = &[6, 11, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 0x10, 1, 4];
const OID_CONTENT_TYPE: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 3];
const OID_MESSAGE_DIGEST: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 4];
const OID_CERTIFICATE: &[u8] = &[6, 11, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 0x10, 2, 0x2f];
const POLICY: &[u8] = &[6, 4, 0x2a, 3, 4, 1];

/// What the authority answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A token.
    Token,
    /// A token over another digest.
    OtherDigest,
    /// More bytes than any token has.
    Flood,
}

/// The authority.
pub struct TimestampAuthority {
    url: String,
    certificate: String,
    signer: Arc<Signer>,
}

struct Signer {
    key: EcdsaKeyPair,
    certificate: Vec<u8>,
    first: Mutex<VecDeque<Answer>>,
    requests: AtomicU64,
}

impl TimestampAuthority {
    /// Starts one on a free port. Its first answers are these, and each later one is a token.
    ///
    /// # Errors
    /// No certificate could be made, or no port opened.
    pub async fn start(first: &[Answer]) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "time stamps of a test");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::TimeStamping];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let pair = KeyPair::generate()?;
        let certificate = params.self_signed(&pair)?;
        let key = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_ASN1_SIGNING,
            &pair.serialize_der(),
            &SystemRandom::new(),
        );
        let signer = Arc::new(Signer {
            key: key.map_err(|error| anyhow::anyhow!("the key of the authority: {error}"))?,
            certificate: certificate.der().to_vec(),
            first: Mutex::new(first.iter().copied().collect()),
            requests: AtomicU64::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/tsa", listener.local_addr()?);
        let router = Router::new().route("/tsa", post(stamp)).with_state(Arc::clone(&signer));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { url, certificate: certificate.pem(), signer })
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// How many requests came.
    pub fn requests(&self) -> u64 {
        self.signer.requests.load(Ordering::SeqCst)
    }
}

async fn stamp(State(signer): State<Arc<Signer>>, headers: HeaderMap, body: Bytes) -> Response {
    let serial = signer.requests.fetch_add(1, Ordering::SeqCst) + 1;
    let answer = signer.first.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let answer = answer.unwrap_or(Answer::Token);
    if headers.get(CONTENT_TYPE).is_none_or(|kind| kind != "application/timestamp-query") {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    }
    let bytes = match answer {
        Answer::Flood => vec![0x30; 1 << 20],
        Answer::Token | Answer::OtherDigest => {
            match read(&body).and_then(|request| signer.response(request, answer, serial)) {
                Ok(bytes) => bytes,
                Err(error) => {
                    return (StatusCode::BAD_REQUEST, error.to_string()).into_response();
                }
            }
        }
    };
    ([(CONTENT_TYPE, "application/timestamp-reply")], bytes).into_response()
}

/// What a request asks.
struct Request {
    digest: Vec<u8>,
    nonce: Vec<u8>,
    wants_certificate: bool,
}

/// Reads a request: version 1, a SHA-256, a nonce, and nothing that is not of RFC 3161.
fn read(bytes: &[u8]) -> Result<Request> {
    let (request, rest) = take(bytes, 0x30)?;
    ensure!(rest.is_empty(), "bytes follow the request");
    let (version, rest) = take(request, 2)?;
    ensure!(version == [1], "the version is not 1");
    let (imprint, rest) = take(rest, 0x30)?;
    let (algorithm, hashed) = take(imprint, 0x30)?;
    let (oid, parameters) = take(algorithm, 6)?;
    ensure!(
        ALGORITHM_SHA256.ends_with(oid) && [&[5_u8, 0][..], &[]].contains(&parameters),
        "no SHA-256"
    );
    let (digest, end) = take(hashed, 4)?;
    ensure!(digest.len() == 32 && end.is_empty(), "the digest has not 32 bytes");
    let (nonce, rest) = take(rest, 2)?;
    let minimal = nonce.len() < 2 || nonce[0] != 0 || nonce[1] & 0x80 != 0;
    ensure!(
        !nonce.is_empty() && nonce[0] & 0x80 == 0 && minimal,
        "the nonce is no positive DER integer"
    );
    let wants_certificate = match rest {
        [] => false,
        rest => take(rest, 1)? == (&[0xff][..], &[][..]),
    };
    Ok(Request { digest: digest.to_vec(), nonce: nonce.to_vec(), wants_certificate })
}

/// The content of the first element, which has this tag, and what follows.
fn take(bytes: &[u8], tag: u8) -> Result<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first().context("the bytes end")?;
    ensure!(found == tag, "the tag is {found:x}, not {tag:x}");
    let (&first, rest) = rest.split_first().context("the bytes end")?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 | 0x82 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f)).context("cut")?;
            (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
        }
        _ => anyhow::bail!("the length {first:x} is not supported"),
    };
    rest.split_at_checked(length).context("the bytes end inside an element")
}

fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len();
    let mut bytes = vec![tag];
    let [.., high, low] = length.to_be_bytes();
    match length {
        0..=0x7f => bytes.push(low),
        0x80..=0xff => bytes.extend([0x81, low]),
        _ => bytes.extend([0x82, high, low]),
    }
    bytes.extend(content);
    bytes
}

impl Signer {
    fn response(&self, request: Request, answer: Answer, serial: u64) -> Result<Vec<u8>> {
        let Request { mut digest, nonce, wants_certificate } = request;
        if answer == Answer::OtherDigest {
            digest.reverse();
        }
        let token = self.token(&digest, &nonce, wants_certificate, serial)?;
        Ok(element(0x30, &[&element(0x30, &[&element(2, &[&[0]])]), &token]))
    }

    fn token(
        &self,
        hashed: &[u8],
        nonce: &[u8],
        wants_certificate: bool,
        serial: u64,
    ) -> Result<Vec<u8>> {
        let serial = element(2, &[&[0x40], &serial.to_be_bytes()[6..]]);
        let imprint = element(0x30, &[ALGORITHM_SHA256, &element(4, &[hashed])]);
        let now = Utc::now().format("%Y%m%d%H%M%SZ").to_string();
        let info = element(
            0x30,
            &[
                &element(2, &[&[1]]),
                POLICY,
                &imprint,
                &serial,
                &element(0x18, &[now.as_bytes()]),
                &element(2, &[nonce]),
            ],
        );
        let attribute = |oid: &[u8], value: &[u8]| element(0x30, &[oid, &element(0x31, &[value])]);
        let certificate_id = element(4, &[digest(&SHA256, &self.certificate).as_ref()]);
        let ids = element(0x30, &[&element(0x30, &[&element(0x30, &[&certificate_id])])]);
        let mut attributes = [
            attribute(OID_CONTENT_TYPE, OID_TST_INFO),
            attribute(OID_MESSAGE_DIGEST, &element(4, &[digest(&SHA256, &info).as_ref()])),
            attribute(OID_CERTIFICATE, &ids),
        ];
        // DER orders the members of a set by their bytes.
        attributes.sort();
        let attributes: Vec<&[u8]> = attributes.iter().map(Vec::as_slice).collect();
        let signature = self
            .key
            .sign(&SystemRandom::new(), &element(0x31, &attributes))
            .map_err(|_| anyhow::anyhow!("the authority could not sign"))?;
        let signer = element(
            0x30,
            &[
                &element(2, &[&[1]]),
                &self.issuer_and_serial()?,
                ALGORITHM_SHA256,
                &element(0xa0, &attributes),
                ALGORITHM_ECDSA,
                &element(4, &[signature.as_ref()]),
            ],
        );
        let content = element(0xa0, &[&element(4, &[&info])]);
        let certificates = match wants_certificate {
            true => element(0xa0, &[&self.certificate]),
            false => Vec::new(),
        };
        let data = element(
            0x30,
            &[
                &element(2, &[&[3]]),
                &element(0x31, &[ALGORITHM_SHA256]),
                &element(0x30, &[OID_TST_INFO, &content]),
                &certificates,
                &element(0x31, &[&signer]),
            ],
        );
        Ok(element(0x30, &[OID_SIGNED_DATA, &element(0xa0, &[&data])]))
    }

    fn issuer_and_serial(&self) -> Result<Vec<u8>> {
        let (certificate, _) = take(&self.certificate, 0x30)?;
        let (body, _) = take(certificate, 0x30)?;
        let (_, rest) = take(body, 0xa0)?;
        let (serial, rest) = take(rest, 2)?;
        let (_, rest) = take(rest, 0x30)?;
        let (issuer, _) = take(rest, 0x30)?;
        Ok(element(0x30, &[&element(0x30, &[issuer]), &element(2, &[serial])]))
    }
}
