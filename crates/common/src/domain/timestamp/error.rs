//! Why a time stamp is refused.

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
