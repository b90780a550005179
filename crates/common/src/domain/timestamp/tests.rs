//! The samples are of OpenSSL 3.0: `openssl ts -reply` over the request that `request` makes.

use super::*;

const IMPRINT: [u8; 32] = [7; 32];
const NONCE: [u8; NONCE_BYTES] = [1, 2, 3, 4, 5, 6, 7, 8];
const RSA: &[u8] = include_bytes!("samples/rsa.tsr");
const RSA_SHA1_ID: &[u8] = include_bytes!("samples/rsa-sha1-id.tsr");
const P256: &[u8] = include_bytes!("samples/p256.tsr");
const REFUSED: &[u8] = include_bytes!("samples/refused.tsr");

fn rsa() -> TsaCertificate {
    TsaCertificate::from_pem(include_str!("samples/rsa.pem")).unwrap()
}

fn p256() -> TsaCertificate {
    TsaCertificate::from_pem(include_str!("samples/p256.pem")).unwrap()
}

#[test]
fn a_response_of_another_implementation_is_read_and_holds() {
    for (response, certificate) in [(RSA, rsa()), (RSA_SHA1_ID, rsa()), (P256, p256())] {
        let token = read_response(response, &IMPRINT, NONCE).unwrap();
        token.check(&certificate).unwrap();
        assert_eq!(token.imprint(), IMPRINT);
        assert_eq!(Token::read(token.der()).unwrap(), token);
        assert!(certificate.was_valid(token.at()));
    }
}

#[test]
fn a_request_asks_for_one_digest_and_carries_its_number() {
    let bytes = request(&IMPRINT, NONCE);
    assert_eq!(bytes[..5], [0x30, 64, 2, 1, 1], "{bytes:x?}");
    assert!(bytes.windows(32).any(|part| part == IMPRINT));
    // A number whose first bit is set is written behind a zero, and leading zeros are dropped.
    let high = request(&IMPRINT, [0x80, 0, 0, 0, 0, 0, 0, 1]);
    assert!(high.windows(11).any(|part| part == [2, 9, 0, 0x80, 0, 0, 0, 0, 0, 0, 1]));
    let low = request(&IMPRINT, [0, 0, 0, 0, 0, 0, 0, 0]);
    assert!(low.windows(3).any(|part| part == [2, 1, 0]));
}

#[test]
fn a_refusal_and_the_answer_to_another_request_are_named() {
    let read = |response, imprint: &[u8; 32], nonce| {
        read_response(response, imprint, nonce).unwrap_err().to_string()
    };
    let refused = read(REFUSED, &IMPRINT, NONCE);
    assert!(refused.contains("status 2: Message digest algorithm"), "{refused}");
    assert!(read(RSA, &[8; 32], NONCE).contains("about another digest"));
    assert!(read(RSA, &IMPRINT, [9; NONCE_BYTES]).contains("its nonce differs"));
    assert!(read(b"<html>", &IMPRINT, NONCE).contains("no time-stamp response"));
}

#[test]
fn a_token_of_another_certificate_does_not_hold() {
    let token = read_response(RSA, &IMPRINT, NONCE).unwrap();
    let said = token.check(&p256()).unwrap_err().to_string();
    assert!(said.contains("another certificate signed it"), "{said}");
}

/// The samples carry certificates, which the signature does not cover: they are not kept.
#[test]
fn each_changed_byte_of_what_is_kept_is_refused() {
    for (response, certificate) in [(RSA, rsa()), (P256, p256())] {
        let token = read_response(response, &IMPRINT, NONCE).unwrap();
        assert!(token.der().len() < response.len() - 400, "{}", token.der().len());
        for place in 0..token.der().len() {
            for bit in [1, 0x80] {
                let mut changed = token.der().to_vec();
                changed[place] ^= bit;
                let Ok(read) = Token::read(&changed) else { continue };
                let holds = read.check(&certificate).is_ok() && read.der() == changed;
                assert!(!holds, "{place}");
            }
        }
    }
}

#[test]
fn cut_bytes_are_refused_without_a_panic() {
    for length in 0..RSA.len() {
        assert!(read_response(&RSA[..length], &IMPRINT, NONCE).is_err(), "{length}");
    }
    let token = read_response(RSA, &IMPRINT, NONCE).unwrap();
    for length in 0..token.der().len() {
        assert!(Token::read(&token.der()[..length]).is_err(), "{length}");
    }
}

#[test]
fn a_certificate_that_cannot_sign_time_stamps_is_named() {
    let pem = include_str!("samples/rsa.pem");
    for (text, words) in [
        ("", "BEGIN CERTIFICATE"),
        (&pem.replace("MII", "!!!"), "no base64"),
        ("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n", "no X.509"),
        (include_str!("samples/tls.pem"), "not for time stamps alone"),
    ] {
        let said = TsaCertificate::from_pem(text).unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
    }
}
