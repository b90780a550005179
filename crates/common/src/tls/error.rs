//! Why certificates cannot be used.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub(super) const CERT: &str = "--tls-cert-file (SURETY_TLS_CERT_FILE)";
pub(super) const KEY: &str = "--tls-key-file (SURETY_TLS_KEY_FILE)";
pub(super) const CA: &str = "--tls-ca-file (SURETY_TLS_CA_FILE)";
pub(super) const CLIENT_CA: &str = "--tls-client-ca-file (SURETY_TLS_CLIENT_CA_FILE)";
pub(super) const IDENTITIES: &str = "--tls-identities-file (SURETY_TLS_IDENTITIES_FILE)";
const REQUIRE_CLIENT_CERTIFICATE: &str =
    "--tls-require-client-certificate (SURETY_TLS_REQUIRE_CLIENT_CERTIFICATE)";

/// Why certificates cannot be used. Each message names the setting, the file, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error(
        "the file {path} of {setting} cannot be read: {source}. Check the path and its permissions"
    )]
    Unreadable {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file contains no PEM block of the expected kind.
    #[error(
        "the file {path} of {setting} contains no {expected} in PEM. Write one that begins with \
         -----BEGIN, or name another file"
    )]
    NoPem {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// The expected kind.
        expected: &'static str,
    },
    /// Every user of the machine can read the key.
    #[error(
        "the key file {path} of {KEY} can be read by every user of this machine (mode {mode:03o}). \
         Run: chmod 600 {path}"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A certificate without its key, or a key without its certificate.
    #[error("{CERT} and {KEY} belong together. Set both or neither")]
    Incomplete,
    /// Client certificates are configured without a server certificate.
    #[error("{CLIENT_CA} needs a port with TLS. Set {CERT} and {KEY}")]
    NoServerCertificate,
    /// Client certificates are required or mapped, and no authority verifies them.
    #[error("{setting} needs the authorities of clients. Set {CLIENT_CA}")]
    NoClientAuthorities {
        /// The setting that needs them.
        setting: &'static str,
    },
    /// A line of the file of identities is invalid.
    #[error("line {line} of {path} ({IDENTITIES}) {why}")]
    IdentityLine {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The certificate and the key do not match, or one of them is damaged.
    #[error(
        "the certificate {cert} ({CERT}) and the key {key} ({KEY}) cannot be used together: {source}. \
         Name the key that the certificate was issued for"
    )]
    Pair {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
    /// A certificate authority is damaged.
    #[error(
        "the file {path} of {setting} contains an unusable certificate authority: {reason}. Replace it"
    )]
    Authority {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The TLS library supports no protocol version with this provider: a defect of this build.
    #[error("the TLS library cannot be configured: {0}")]
    Library(#[source] rustls::Error),
}

impl TlsError {
    /// The required certificates of clients cannot be verified.
    pub(super) const fn unverified(required: bool) -> Self {
        let setting = if required { REQUIRE_CLIENT_CERTIFICATE } else { IDENTITIES };
        Self::NoClientAuthorities { setting }
    }

    pub(super) fn authority(setting: &'static str, path: &Path, reason: impl fmt::Display) -> Self {
        Self::Authority { setting, path: path.to_owned(), reason: reason.to_string() }
    }
}
