//! Why a call of a forge failed.

use chrono::{DateTime, Utc};
use std::fmt;

/// The kind of failure, as a stable name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ForgeErrorCode {
    /// No connection, no answer in time, or the forge failed with a status of 500 and above.
    Unreachable,
    /// The forge refuses the credential.
    Unauthorized,
    /// The account may not do this.
    Forbidden,
    /// The repository, the number or the address does not exist, or the account does not see it.
    NotFound,
    /// The state of the forge does not allow it, such as a merge with conflicts.
    Conflict,
    /// The forge refuses a value of the request.
    Unprocessable,
    /// The account has made too many calls.
    RateLimited,
    /// The answer is not what the API describes.
    BadAnswer,
    /// The answer has too many bytes.
    TooLarge,
    /// This forge has no such call.
    NotServed,
    /// The file with the credential cannot be used.
    CredentialUnreadable,
    /// The address of the forge, or a name, cannot be used.
    ConfigInvalid,
}

impl ForgeErrorCode {
    /// The stable name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Unprocessable => "unprocessable",
            Self::RateLimited => "rate_limited",
            Self::BadAnswer => "bad_answer",
            Self::TooLarge => "too_large",
            Self::NotServed => "not_served",
            Self::CredentialUnreadable => "credential_unreadable",
            Self::ConfigInvalid => "config_invalid",
        }
    }

    /// Whether the forge, and not the request, is at fault: the same call may succeed later.
    #[must_use]
    pub const fn is_outage(self) -> bool {
        match self {
            Self::Unreachable | Self::RateLimited | Self::BadAnswer => true,
            Self::Unauthorized
            | Self::Forbidden
            | Self::NotFound
            | Self::Conflict
            | Self::Unprocessable
            | Self::TooLarge
            | Self::NotServed
            | Self::CredentialUnreadable
            | Self::ConfigInvalid => false,
        }
    }
}

impl fmt::Display for ForgeErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A call that failed. No field holds a credential; what the forge said is bounded and redacted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("forge {forge}: {operation}: {code}: {message}")]
pub struct ForgeError {
    /// The kind of failure.
    pub code: ForgeErrorCode,
    /// The forge, by its name in the configuration.
    pub forge: String,
    /// The call.
    pub operation: &'static str,
    /// What happened, and what to do.
    pub message: String,
    /// When the forge may be asked again, for `rate_limited`.
    pub until: Option<DateTime<Utc>>,
    /// Whether a write may have happened all the same.
    pub is_unsure: bool,
}

impl ForgeError {
    pub(crate) fn new(
        code: ForgeErrorCode,
        forge: &str,
        operation: &'static str,
        message: impl Into<String>,
    ) -> Self {
        let message = message.into();
        Self { code, forge: forge.to_owned(), operation, message, until: None, is_unsure: false }
    }

    pub(crate) const fn unsure(mut self, is_unsure: bool) -> Self {
        self.is_unsure = is_unsure;
        self
    }
}
