//! Signatures of deliveries: HMAC-SHA256 over the body as it was sent, in hexadecimal.

use axum::http::HeaderMap;
use data_encoding::HEXLOWER_PERMISSIVE;
use ring::hmac;
use surety_common::domain::toolchain::Forge;

/// What GitHub's signatures begin with.
const PREFIX: &str = "sha256=";
/// The bytes of a signature.
const BYTES: usize = 32;

/// A key of a secret.
pub(super) fn key(secret: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())
}

/// The signature in the forge's own header; none where there is none that reads.
pub(super) fn read(forge: Forge, headers: &HeaderMap) -> Option<Vec<u8>> {
    let text = forge.signature_headers().iter().find_map(|name| headers.get(*name))?;
    let text = text.to_str().ok()?.trim();
    let digits = text.strip_prefix(PREFIX).unwrap_or(text);
    let signature = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()?;
    (signature.len() == BYTES).then_some(signature)
}

/// Whether one of the keys made the signature. The comparison takes the same time wherever they differ.
pub(super) fn is_made_by(keys: &[hmac::Key], body: &[u8], signature: &[u8]) -> bool {
    // All keys are tried, so that the time does not tell which one it was.
    let matches = keys.iter().filter(|key| hmac::verify(key, body, signature).is_ok());
    matches.count() > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn signed(secret: &str, body: &[u8]) -> String {
        let tag = hmac::sign(&key(secret), body);
        tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_forge_decides_the_header_and_either_of_two_secrets_signs() {
        let keys = [key("old secret"), key("new secret")];
        let body = br#"{"action":"opened"}"#;
        for (forge, header, prefix) in [
            (Forge::Gitea, "x-gitea-signature", ""),
            (Forge::Forgejo, "x-forgejo-signature", ""),
            (Forge::Forgejo, "x-gitea-signature", ""),
            (Forge::Github, "x-hub-signature-256", "sha256="),
        ] {
            for (secret, good) in [("old secret", true), ("new secret", true), ("other", false)] {
                let mut headers = HeaderMap::new();
                let value = format!("{prefix}{}", signed(secret, body));
                headers.insert(header, HeaderValue::from_str(&value).expect("a header"));
                let signature = read(forge, &headers).expect("a signature");
                assert_eq!(is_made_by(&keys, body, &signature), good, "{header} {secret}");
                assert!(!is_made_by(&keys, b"{}", &signature));
            }
        }
    }

    #[test]
    fn what_is_no_signature_of_the_forge_is_none() {
        let of = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_str(value).expect("a header"));
            read(Forge::Gitea, &headers)
        };
        let digits = "0a".repeat(32);
        assert!(of("x-gitea-signature", &digits).is_some());
        // GitHub's header of a Gitea delivery does not count.
        for (name, value) in [
            ("x-hub-signature-256", digits.as_str()),
            ("x-gitea-signature", ""),
            ("x-gitea-signature", "0a0a"),
            ("x-gitea-signature", &"zz".repeat(32)),
        ] {
            assert_eq!(of(name, value), None, "{name}: {value}");
        }
    }
}
