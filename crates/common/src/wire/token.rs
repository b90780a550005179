//! The bearer token of a caller.

use crate::domain::identity::Identity;
use sha2::{Digest, Sha256};
use std::fmt;

/// A bearer token. It is never printed.
#[derive(Clone)]
pub struct Token(String);

/// SHA-256 of a token.
pub type TokenHash = [u8; 32];

/// The digest of a token that was shown. Tokens are random and long, so that a plain digest cannot be
/// guessed, and a lookup by digest says nothing about a token by its time.
pub(super) fn hash_of(shown: &str) -> TokenHash {
    Sha256::digest(shown.as_bytes()).into()
}

/// The tokens that a process is given by its token file.
#[derive(Debug, Clone, Default)]
pub struct FileTokens {
    /// The tokens to be known, by their digests.
    pub known: Vec<(TokenHash, Identity)>,
    /// The one that the process itself shows to other services: the first with the role service.
    pub own: Option<Token>,
}

#[cfg(feature = "config")]
impl FileTokens {
    /// What a token file says.
    ///
    /// # Errors
    /// [`TokenError`] for a text that cannot be a token.
    pub fn of(entries: &[crate::config::FileToken]) -> Result<Self, TokenError> {
        let mut tokens = Self::default();
        for entry in entries {
            let token = Token::new(entry.secret.expose())?;
            tokens.known.push((token.hash(), entry.identity.clone()));
            if tokens.own.is_none() && entry.identity.has(crate::domain::identity::Role::Service) {
                tokens.own = Some(token);
            }
        }
        Ok(tokens)
    }
}

/// Why a text is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text is empty.
    #[error("the token is empty")]
    Empty,
    /// The system gives no random bytes.
    #[error("the system gives no random bytes for a token")]
    NoRandomness,
    /// It is not valid in a header.
    #[error(
        "the token contains a blank or a character outside visible ASCII; use visible ASCII only"
    )]
    NotVisibleAscii,
}

impl Token {
    /// A new random token of 256 bits.
    ///
    /// # Errors
    /// [`TokenError::NoRandomness`]
    pub fn generate() -> Result<Self, TokenError> {
        let mut bytes = [0; 32];
        let random = rustls::crypto::ring::default_provider().secure_random;
        random.fill(&mut bytes).map_err(|_| TokenError::NoRandomness)?;
        let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
        Ok(Self(digits.collect()))
    }

    /// The token itself, for the one answer that hands it out.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The token with this text, trimmed, as of a file's last line end.
    ///
    /// # Errors
    /// [`TokenError`] when the text is not valid.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(TokenError::Empty);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::NotVisibleAscii);
        }
        Ok(Self(text.to_owned()))
    }

    /// Its digest, by which the services know it: nothing that they store or compare is the secret.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        hash_of(&self.0)
    }

    /// The value of the `authorization` header with the token.
    pub(super) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_the_token() {
        let token = Token::new("s3cret\n").unwrap();
        assert_eq!(token.hash(), hash_of("s3cret"));
        for other in ["", "s3cre", "s3cret ", "S3cret", "s3crets"] {
            assert_ne!(token.hash(), hash_of(other), "{other:?}");
        }
    }

    #[test]
    fn a_token_is_never_printed() {
        assert!(!format!("{:?}", Token::new("s3cret").unwrap()).contains("s3cret"));
    }

    #[test]
    fn what_cannot_travel_in_a_header_is_no_token() {
        assert_eq!(Token::new(" \n").unwrap_err(), TokenError::Empty);
        assert_eq!(Token::new("a b").unwrap_err(), TokenError::NotVisibleAscii);
        assert_eq!(Token::new("ä").unwrap_err(), TokenError::NotVisibleAscii);
    }
}
