//! Time stamps of RFC 3161: the request, the response, and the check of a token against one certificate.
//!
//! ```text
//!   root of a tree --request--> time-stamp authority --response--> Token { imprint, time } signed by the authority
//!   Token::check: imprint, content type, message digest, certificate id, validity, signature
//! ```
//!
//! The certificate is given by file and trusted as it is: no chain is built, and no certificate inside a token counts.

mod certificate;
mod der;
mod message;
mod oid;
mod token;

pub use certificate::TsaCertificate;
pub use message::{NONCE_BYTES, read_response, request};
pub use token::Token;

/// Why a time stamp, a response or a certificate is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimestampError {
    /// The certificate cannot be used.
    #[error("the certificate of the time-stamp authority {0}")]
    Certificate(&'static str),
    /// The response is no DER of RFC 3161.
    #[error("the response of the time-stamp authority does not read: {0}")]
    Response(&'static str),
    /// The authority refused the request.
    #[error("the time-stamp authority refused the request with status {status}{text}")]
    Refused {
        /// The status of RFC 3161, 2 for a rejection.
        status: u8,
        /// Its explanation behind a colon; empty without one.
        text: String,
    },
    /// The token is no DER of RFC 3161, or of a form that is not supported.
    #[error("the time-stamp token does not read: {0}")]
    Token(&'static str),
    /// The token is about another digest, or answers another request.
    #[error("the time-stamp token is {0}")]
    Other(&'static str),
    /// The token is not what the authority signed.
    #[error("the time-stamp token does not hold: {0}")]
    Signature(&'static str),
}

#[cfg(test)]
mod tests;
