//! The name of a repository.

use crate::error::{ForgeError, ForgeErrorCode};
use std::fmt;
use surety_common::domain::toolchain::is_repository;

/// The name of a repository as `owner/name`, of letters, digits, `-`, `_` and `.`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepoName(String);

impl RepoName {
    /// Reads a name.
    ///
    /// # Errors
    /// `config_invalid` for a text that is no such name.
    pub fn new(text: &str) -> Result<Self, ForgeError> {
        if is_repository(text) {
            return Ok(Self(text.to_owned()));
        }
        let message = format!("{text:?} is no repository; name it as owner/name");
        Err(ForgeError::new(ForgeErrorCode::ConfigInvalid, "", "name a repository", message))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The owner.
    #[must_use]
    pub fn owner(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }
}

impl fmt::Display for RepoName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
