//! The forges that Surety knows.

use super::words::words;
use std::fmt;

words! {
    /// A kind of forge.
    Forge {
        /// Gitea.
        Gitea = "gitea",
        /// Forgejo.
        Forgejo = "forgejo",
        /// GitHub.
        Github = "github",
    }
}

impl Forge {
    /// The headers that name the event, the most exact first.
    pub const fn event_headers(self) -> &'static [&'static str] {
        match self {
            Self::Gitea => &["x-gitea-event"],
            Self::Forgejo => &["x-forgejo-event", "x-gitea-event"],
            Self::Github => &["x-github-event"],
        }
    }

    /// The headers that name the delivery.
    pub const fn delivery_headers(self) -> &'static [&'static str] {
        match self {
            Self::Gitea => &["x-gitea-delivery"],
            Self::Forgejo => &["x-forgejo-delivery", "x-gitea-delivery"],
            Self::Github => &["x-github-delivery"],
        }
    }

    /// The headers with the HMAC-SHA256 of the body in hexadecimal; GitHub's has the prefix `sha256=`.
    pub const fn signature_headers(self) -> &'static [&'static str] {
        match self {
            Self::Gitea => &["x-gitea-signature"],
            Self::Forgejo => &["x-forgejo-signature", "x-gitea-signature"],
            Self::Github => &["x-hub-signature-256"],
        }
    }
}
