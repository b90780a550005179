//! Keys in files: the private key that a service signs with, made at its first start, and the public keys that are
//! trusted. Both files are read again when they change, so that a key is rotated without a restart.

mod file;
mod key_file;
mod rotation;
mod trusted;

pub use key_file::{KeyFile, read_secret_key};
pub use rotation::{Rotated, rotate_key};
pub use trusted::{TrustedFile, read_trusted_keys, registered_since, trust_key, trust_keys};

use self::key_file::LOOK_EVERY;
use self::rotation::GRACE;
use crate::clock;
use crate::config::ConfigError;
use crate::domain::signature::{PublicKey, Service};
use crate::store::{Signing, StoreError, TrustSource};
use sqlx::PgPool;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a service signs with; nothing where no key file is set.
///
/// # Errors
/// Those of [`KeyFile::open_or_make`].
pub fn signing(service: Service, file: Option<&Path>) -> Result<Signing, ConfigError> {
    let Some(path) = file else {
        tracing::warn!("keys: no key file of the {service} is set; what it stores is not signed");
        return Ok(Signing::default());
    };
    let key = KeyFile::open_or_make(path)?;
    tracing::info!(key = %key.public().id(), "keys: the {service} signs with this key");
    Ok(Signing::of(service, Arc::new(key)))
}

/// Checks the key file of a service, which its first start makes.
///
/// # Errors
/// Those of [`KeyFile::open_or_make`] for a file that is there.
pub fn check(file: Option<&Path>) -> Result<(), ConfigError> {
    file.filter(|path| path.exists()).map_or(Ok(()), |path| KeyFile::open_or_make(path).map(drop))
}

/// The keys that a service trusts; none where no file is set.
///
/// # Errors
/// Those of [`TrustedFile::open`].
pub fn trust(file: Option<&Path>) -> Result<Option<Arc<dyn TrustSource>>, ConfigError> {
    let opened = file.map(TrustedFile::open).transpose()?;
    Ok(opened.map(|file| Arc::new(file) as Arc<dyn TrustSource>))
}

/// Keeps the present key of a service in the table of keys, until `shutdown` is cancelled. A key that it no longer signs
/// with gets an end there.
pub async fn keep_registered(signing: Signing, pool: PgPool, shutdown: CancellationToken) {
    let mut registered = None;
    loop {
        let key = signing.public();
        if key != registered {
            match register(&signing, &pool, registered).await {
                Ok(()) => registered = key,
                Err(error) => {
                    tracing::warn!(%error, "keys: the key could not be registered; it is tried again");
                }
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

async fn register(
    signing: &Signing,
    pool: &PgPool,
    replaced: Option<PublicKey>,
) -> Result<(), StoreError> {
    signing.register(pool).await?;
    match replaced {
        Some(key) => signing.end_registration(pool, key, clock::now() + GRACE).await,
        None => Ok(()),
    }
}
