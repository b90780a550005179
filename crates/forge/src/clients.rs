//! Opens clients.

use crate::account::ForgeAccount;
use crate::api::Api;
use crate::error::{ForgeError, ForgeErrorCode};
use crate::forge::Forge;
use crate::gitea::Gitea;
use crate::github::Github;
use crate::observer::CallObserver;
use crate::process::{Shared, Times};
use std::fmt;
use std::sync::Arc;
use surety_common::domain::toolchain::Forge as ForgeKind;

/// Makes clients. They share connections, kept answers and known rate limits. Cheap to clone.
#[derive(Clone)]
pub struct Clients {
    shared: Arc<Shared>,
}

impl Clients {
    /// Clients whose calls are told to an observer.
    ///
    /// # Errors
    /// `config_invalid` where the TLS provider cannot be used.
    pub fn new(observer: Arc<dyn CallObserver>, times: Times) -> Result<Self, ForgeError> {
        let shared = Shared::new(observer, times).map_err(|error| {
            let message = format!("TLS cannot be used: {error}");
            ForgeError::new(ForgeErrorCode::ConfigInvalid, "", "make an HTTP client", message)
        })?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The client of an account.
    ///
    /// # Errors
    /// `config_invalid` for an address that cannot be used.
    pub fn open(&self, account: ForgeAccount) -> Result<Arc<dyn Forge>, ForgeError> {
        let kind = account.kind;
        let api = Api::new(Arc::clone(&self.shared), account)?;
        Ok(match kind {
            ForgeKind::Gitea | ForgeKind::Forgejo => Arc::new(Gitea::new(api)),
            ForgeKind::Github => Arc::new(Github::new(api)),
        })
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").field("times", &self.shared.times).finish_non_exhaustive()
    }
}
