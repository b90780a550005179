//! The bearer token of a caller.

use sha2::{Digest, Sha256};
use std::fmt;

/// A bearer token. It is never printed, and compared in constant time.
#[derive(Clone)]
pub struct Token(String);

/// Why a text is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text is empty.
    #[error("the token is empty")]
    Empty,
    /// It is not valid in a header.
    #[error(
        "the token contains a blank or a character outside visible ASCII; use visible ASCII only"
    )]
    NotVisibleAscii,
}

impl Token {
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

    /// Whether the caller sent this token. Whole digests are compared, so that the duration reveals
    /// nothing about the token.
    pub fn is(&self, shown: &str) -> bool {
        let ours = Sha256::digest(self.0.as_bytes());
        let theirs = Sha256::digest(shown.as_bytes());
        ours.iter().zip(theirs.iter()).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
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
        assert!(token.is("s3cret"));
        for other in ["", "s3cre", "s3cret ", "S3cret", "s3crets"] {
            assert!(!token.is(other), "{other:?}");
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
