//! The files that contain certificates and the identities of clients.

use super::error::{CERT, IDENTITIES, KEY, TlsError};
use crate::domain::identity::Identity;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kinds of names in a certificate, each with its colon.
const KINDS: [&str; 5] = ["dns:", "uri:", "email:", "subject:", "cn:"];

/// The files of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain of the process, which it shows as a server and as a client.
    pub cert: Option<PathBuf>,
    /// The private key of the certificate.
    pub key: Option<PathBuf>,
    /// The authorities of services; none uses the authorities of the system.
    pub ca: Option<PathBuf>,
    /// The authorities of clients; none requests no certificate from clients.
    pub client_ca: Option<PathBuf>,
    /// Whether a client without a certificate is refused.
    pub require_client_certificate: bool,
    /// The identities of client certificates.
    pub identities: Option<PathBuf>,
}

#[cfg(feature = "config")]
impl From<&crate::config::ClientTlsConfig> for TlsFiles {
    fn from(config: &crate::config::ClientTlsConfig) -> Self {
        Self {
            cert: config.tls_cert_file.clone(),
            key: config.tls_key_file.clone(),
            ca: config.tls_ca_file.clone(),
            ..Self::default()
        }
    }
}

#[cfg(feature = "config")]
impl From<&crate::config::TlsConfig> for TlsFiles {
    fn from(config: &crate::config::TlsConfig) -> Self {
        Self {
            client_ca: config.tls_client_ca_file.clone(),
            require_client_certificate: config.tls_require_client_certificate,
            identities: config.tls_identities_file.clone(),
            ..Self::from(&config.client)
        }
    }
}

/// Inode, size and change time of each file. Every write, rename and change of permissions changes
/// one of them.
pub(super) type Versions = Vec<Option<(u64, u64, i64, i64)>>;

/// A certificate chain and its key.
pub(super) struct Pair {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    paths: (PathBuf, PathBuf),
}

impl Pair {
    /// The error when the library refuses the pair.
    pub(super) fn refused(paths: (PathBuf, PathBuf)) -> impl FnOnce(rustls::Error) -> TlsError {
        let (cert, key) = paths;
        move |source| TlsError::Pair { cert, key, source }
    }

    pub(super) fn paths(&self) -> (PathBuf, PathBuf) {
        self.paths.clone()
    }
}

impl TlsFiles {
    pub(super) fn versions(&self) -> Versions {
        let paths = [&self.cert, &self.key, &self.ca, &self.client_ca, &self.identities];
        let version = |path: &Option<PathBuf>| {
            let found = fs::metadata(path.as_ref()?).ok()?;
            Some((found.ino(), found.len(), found.ctime(), found.ctime_nsec()))
        };
        paths.into_iter().map(version).collect()
    }

    /// # Errors
    /// Settings that have an effect only together are set alone.
    pub(super) fn check(&self) -> Result<(), TlsError> {
        if self.cert.is_some() != self.key.is_some() {
            return Err(TlsError::Incomplete);
        }
        if self.client_ca.is_none()
            && (self.require_client_certificate || self.identities.is_some())
        {
            return Err(TlsError::unverified(self.require_client_certificate));
        }
        if self.client_ca.is_some() && self.cert.is_none() {
            return Err(TlsError::NoServerCertificate);
        }
        Ok(())
    }

    /// The certificate chain and its key.
    pub(super) fn pair(&self) -> Result<Option<Pair>, TlsError> {
        let Some((cert, key)) = self.cert.as_ref().zip(self.key.as_ref()) else { return Ok(None) };
        let paths = (cert.clone(), key.clone());
        Ok(Some(Pair { chain: certificates(cert, CERT)?, key: private_key(key)?, paths }))
    }

    /// The identities by the names of certificates.
    pub(super) fn identities(&self) -> Result<HashMap<String, Arc<Identity>>, TlsError> {
        let Some(path) = &self.identities else { return Ok(HashMap::new()) };
        let bytes = read(path, IDENTITIES)?;
        let text = String::from_utf8_lossy(&bytes);
        let lines = (1..).zip(text.lines().map(str::trim));
        let mut identities = HashMap::new();
        for (line, columns) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        {
            let invalid = |why: String| TlsError::IdentityLine { path: path.clone(), line, why };
            let (name, identity) = read_line(columns).map_err(invalid)?;
            if identities.insert(name, Arc::new(identity)).is_some() {
                return Err(invalid("maps a certificate of a line above. Keep one".to_owned()));
            }
        }
        Ok(identities)
    }
}

fn read_line(line: &str) -> Result<(String, Identity), String> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let [certificate, name, roles, namespaces] = columns.as_slice() else {
        let why = "does not have four columns. Write it as `dns:host <name> <roles> <namespaces>`, \
                   with commas inside a column";
        return Err(why.to_owned());
    };
    if !KINDS.iter().any(|kind| certificate.strip_prefix(kind).is_some_and(|name| !name.is_empty()))
    {
        return Err(format!(
            "names {certificate:?}; begin it with dns:, uri:, email:, subject: or cn:"
        ));
    }
    let identity = Identity::from_columns(name, roles, namespaces);
    let identity = identity.map_err(|error| format!("is invalid: {error}"))?;
    Ok(((*certificate).to_owned(), identity))
}

/// The authorities in a file.
pub(super) fn roots(path: &Path, setting: &'static str) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, setting)? {
        let added = roots.add(certificate);
        added.map_err(|error| TlsError::authority(setting, path, error))?;
    }
    Ok(roots)
}

fn certificates(
    path: &Path,
    setting: &'static str,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(path, setting)?;
    let found = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>().ok();
    let found = found.filter(|found| !found.is_empty());
    found.ok_or_else(|| no_pem(path, setting, "certificate"))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let metadata = fs::metadata(path).map_err(unreadable(path, KEY))?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o007 != 0 {
        return Err(TlsError::Exposed { path: path.to_owned(), mode });
    }
    let bytes = read(path, KEY)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| no_pem(path, KEY, "private key"))
}

fn no_pem(path: &Path, setting: &'static str, expected: &'static str) -> TlsError {
    TlsError::NoPem { setting, path: path.to_owned(), expected }
}

fn read(path: &Path, setting: &'static str) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(unreadable(path, setting))
}

fn unreadable(path: &Path, setting: &'static str) -> impl FnOnce(std::io::Error) -> TlsError {
    move |source| TlsError::Unreadable { setting, path: path.to_owned(), source }
}
