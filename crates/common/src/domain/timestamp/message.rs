//! The request to a time-stamp authority, and its response.

use super::der::{Der, INTEGER, NULL, OCTET_STRING, OID, SEQUENCE, UTF8_STRING, element};
use super::error::TimestampError;
use super::oid;
use super::token::Token;

/// The bytes of the random number that binds a response to its request.
pub const NONCE_BYTES: usize = 8;
/// The statuses with a token: granted, and granted with changes.
const GRANTED: [u8; 2] = [0, 1];
/// The longest explanation of a refusal that is shown, in characters.
const LONGEST_TEXT: usize = 200;

/// The request for a time stamp over a SHA-256. The reader has the authority's certificate, so the token needs none.
pub fn request(imprint: &[u8; 32], nonce: [u8; NONCE_BYTES]) -> Vec<u8> {
    let algorithm = element(SEQUENCE, &[&element(OID, &[oid::SHA256]), &element(NULL, &[])]);
    let imprint = element(SEQUENCE, &[&algorithm, &element(OCTET_STRING, &[imprint])]);
    let version = element(INTEGER, &[&[1]]);
    let nonce = element(INTEGER, &[&positive(nonce)]);
    element(SEQUENCE, &[&version, &imprint, &nonce])
}

/// The contents of a DER integer: the shortest, and without the sign bit.
fn positive(nonce: [u8; NONCE_BYTES]) -> Vec<u8> {
    let mut digits: Vec<u8> = nonce.into_iter().skip_while(|digit| *digit == 0).collect();
    if digits.first().is_none_or(|first| first & 0x80 != 0) {
        digits.insert(0, 0);
    }
    digits
}

/// Reads the response to a request. The token's signature is not checked.
///
/// # Errors
/// [`TimestampError::Response`], [`TimestampError::Refused`], [`TimestampError::Token`]; [`TimestampError::Other`] for
/// the answer to another request.
pub fn read_response(
    bytes: &[u8],
    imprint: &[u8; 32],
    nonce: [u8; NONCE_BYTES],
) -> Result<Token, TimestampError> {
    let wrong = TimestampError::Response("it is no time-stamp response in DER");
    let (status, text, token) = read(bytes).ok_or(wrong)?;
    if !GRANTED.contains(&status) {
        return Err(TimestampError::Refused { status, text });
    }
    let token = token.ok_or(TimestampError::Response("it has no token"))?;
    let token = Token::read(token)?;
    if token.imprint() != *imprint {
        return Err(TimestampError::Other("about another digest than the request"));
    }
    if token.nonce() != Some(&positive(nonce)) {
        return Err(TimestampError::Other("the answer to another request: its nonce differs"));
    }
    Ok(token)
}

fn read(bytes: &[u8]) -> Option<(u8, String, Option<&[u8]>)> {
    let mut response = Der::only(bytes, SEQUENCE)?.inside();
    let mut info = response.take(SEQUENCE)?.inside();
    let &[status] = info.take(INTEGER)?.content else { return None };
    let mut text = String::new();
    if let Some(texts) = info.optional(SEQUENCE) {
        let mut texts = texts.inside();
        while let Some(part) = texts.optional(UTF8_STRING) {
            text.push_str(if text.is_empty() { ": " } else { ", " });
            text.push_str(&String::from_utf8_lossy(part.content));
        }
    }
    // The text is of another program, and goes to a log.
    let text = text.chars().filter(|letter| !letter.is_control()).take(LONGEST_TEXT).collect();
    let token = response.optional(SEQUENCE).map(|token| token.whole);
    response.end().map(|()| (status, text, token))
}
