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
mod error;
mod message;
mod oid;
mod token;

pub use certificate::TsaCertificate;
pub use error::TimestampError;
pub use message::{NONCE_BYTES, read_response, request};
pub use token::Token;

#[cfg(test)]
mod tests;
