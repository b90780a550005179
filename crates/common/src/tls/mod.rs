//! Certificates: the one source of server and client configurations for TLS.
//!
//! ```text
//!   files --Loaded::read--> ServerConfig   -> each accepted connection   (wire::server::port)
//!     ^                     ClientConfig   -> each outgoing connection   (wire::client::connector)
//!     |                     identities     -> each call with a certificate
//!     +-- watch: compared every second; a change is loaded, a failure keeps what is in force
//! ```
//!
//! A connection uses the configuration at the time of its handshake; open connections are not affected
//! by a reload. Identities are looked up for each call.

mod error;
mod files;
mod http;
mod load;
mod peer;

#[cfg(test)]
mod tests;

pub use error::TlsError;
pub use files::TlsFiles;
pub use http::http_client;
pub use peer::PeerNames;

use crate::domain::identity::Identity;
use files::Versions;
use load::Loaded;
use rustls::{ClientConfig, ServerConfig};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Counter of reloads after a change of a file, label `result` (loaded, refused).
pub const RELOADS_TOTAL: &str = "surety_tls_reloads_total";
/// Gauge of the end of the certificate's validity, in seconds since 1970.
pub const CERTIFICATE_EXPIRY: &str = "surety_tls_certificate_expiry_timestamp_seconds";
/// How often the files are compared with the loaded versions.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The certificates of a process. Cloning shares them.
#[derive(Clone)]
pub struct Tls {
    inner: Arc<Inner>,
}

struct Inner {
    files: TlsFiles,
    loaded: RwLock<Arc<Loaded>>,
}

impl Tls {
    /// Loads the files once.
    ///
    /// # Errors
    /// [`TlsError`]
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let loaded = RwLock::new(Arc::new(Loaded::read(&files)?));
        Ok(Self { inner: Arc::new(Inner { files, loaded }) })
    }

    /// Loads the files, and reloads them when one changes; none when no file is set. Needs a runtime.
    ///
    /// # Errors
    /// [`TlsError`]
    pub fn watched(files: TlsFiles) -> Result<Option<Self>, TlsError> {
        if files == TlsFiles::default() {
            return Ok(None);
        }
        let tls = Self::load(files)?;
        tls.watch();
        Ok(Some(tls))
    }

    /// Reloads the files when one changes, until the last clone is dropped. Files that cannot be used
    /// leave the loaded configuration in force.
    fn watch(&self) {
        let inner = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            let mut refused = None;
            loop {
                tokio::time::sleep(WATCH_INTERVAL).await;
                let Some(inner) = inner.upgrade() else { return };
                inner.reload_if_changed(&mut refused);
            }
        });
    }

    /// The configuration of a port; none without a certificate.
    #[must_use]
    pub fn server(&self) -> Option<Arc<ServerConfig>> {
        self.inner.loaded().server.clone()
    }

    /// The configuration of a connection to a service.
    #[must_use]
    pub fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.inner.loaded().client)
    }

    /// The identity of a client certificate: that of the first of its names with a mapping.
    #[must_use]
    pub fn identity(&self, names: &PeerNames) -> Option<Arc<Identity>> {
        let loaded = self.inner.loaded();
        names.iter().find_map(|name| loaded.identities.get(name).cloned())
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.inner.files).finish_non_exhaustive()
    }
}

impl Inner {
    fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// `refused` is the last version of the files that could not be used: each is reported once.
    fn reload_if_changed(&self, refused: &mut Option<Versions>) {
        let versions = self.files.versions();
        let loaded = self.loaded();
        if loaded.versions != versions && refused.as_ref() != Some(&versions) {
            *refused = self.reload(versions);
        }
        if let Some(expiry) = self.loaded().expiry {
            #[allow(clippy::cast_precision_loss, reason = "seconds since 1970 fit into a double")]
            metrics::gauge!(CERTIFICATE_EXPIRY).set(expiry as f64);
        }
    }

    fn reload(&self, versions: Versions) -> Option<Versions> {
        match Loaded::read(&self.files) {
            Ok(loaded) => {
                *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
                metrics::counter!(RELOADS_TOTAL, "result" => "loaded").increment(1);
                tracing::info!("tls: changed certificate files were loaded");
                None
            }
            Err(error) => {
                metrics::counter!(RELOADS_TOTAL, "result" => "refused").increment(1);
                tracing::error!(
                    %error,
                    "tls: changed certificate files cannot be used; the loaded ones stay in force"
                );
                Some(versions)
            }
        }
    }
}
