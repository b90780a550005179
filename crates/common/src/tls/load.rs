//! Builds the TLS library's configurations from the files.

use super::error::{CA, CLIENT_CA, TlsError};
use super::files::{self, Pair, TlsFiles, Versions};
use crate::domain::identity::Identity;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::collections::HashMap;
use std::sync::Arc;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// The protocols that a port offers: gRPC, and HTTP/1.1 for probes and scrapes.
const SERVER_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
const CLIENT_PROTOCOLS: [&[u8]; 1] = [b"h2"];

/// The configuration that is in force.
pub(super) struct Loaded {
    /// The versions of the files, taken before they were read.
    pub(super) versions: Versions,
    pub(super) server: Option<Arc<ServerConfig>>,
    pub(super) client: Arc<ClientConfig>,
    pub(super) identities: HashMap<String, Arc<Identity>>,
    /// The end of the certificate's validity, in seconds since 1970.
    pub(super) expiry: Option<i64>,
}

impl Loaded {
    pub(super) fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        files.check()?;
        let versions = files.versions();
        let pair = files.pair()?;
        Ok(Self {
            versions,
            expiry: pair.as_ref().and_then(|pair| expiry(pair.chain.first()?)),
            server: pair.as_ref().map(|pair| server(files, pair)).transpose()?.map(Arc::new),
            client: Arc::new(client(files, pair)?),
            identities: files.identities()?,
        })
    }
}

/// Named, so that no provider has to be installed for the process.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn server(files: &TlsFiles, pair: &Pair) -> Result<ServerConfig, TlsError> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Library)?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(files::roots(path, CLIENT_CA)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
            let verifier = if files.require_client_certificate {
                verifier
            } else {
                verifier.allow_unauthenticated()
            };
            let verifier = verifier.build();
            let unusable = |error| TlsError::authority(CLIENT_CA, path, error);
            builder.with_client_cert_verifier(verifier.map_err(unusable)?)
        }
    };
    let config = builder.with_single_cert(pair.chain.clone(), pair.key.clone_key());
    let mut config = config.map_err(Pair::refused(pair.paths()))?;
    config.alpn_protocols = SERVER_PROTOCOLS.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

fn client(files: &TlsFiles, pair: Option<Pair>) -> Result<ClientConfig, TlsError> {
    let roots = match &files.ca {
        Some(path) => files::roots(path, CA)?,
        None => system_roots(),
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Library)?
        .with_root_certificates(roots);
    let mut config = match pair {
        Some(pair) => {
            let refused = Pair::refused(pair.paths());
            builder.with_client_auth_cert(pair.chain, pair.key).map_err(refused)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = CLIENT_PROTOCOLS.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// The authorities of the system. On a machine without any, every connection is refused with an
/// unknown issuer; a process that only serves still starts.
fn system_roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "tls: an authority of the system was skipped");
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    roots
}

fn expiry(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}
