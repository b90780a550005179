//! Ed25519 keys: their ids, their text forms, signing and checking.

use crate::domain::json::sha256;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use std::fmt;

/// The bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;
/// The bytes of a seed and of a public key.
pub const KEY_BYTES: usize = 32;

/// What stands before the seed in the PKCS #8 form of an Ed25519 key (RFC 8410, version 1).
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";

/// Names a key: the first 16 bytes of the SHA-256 of its public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 16]);

impl KeyId {
    /// The id with this text.
    pub fn from_text(text: &str) -> Option<Self> {
        Some(Self(HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()?))
    }
}

impl fmt::Display for KeyId {
    /// 32 hex digits in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

/// A public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; KEY_BYTES]);

impl PublicKey {
    /// The key with this text, base64 with padding.
    pub fn from_text(text: &str) -> Option<Self> {
        Some(Self(from_base64(text)?.try_into().ok()?))
    }

    /// The key with these bytes; none unless there are 32.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.try_into().ok()?))
    }

    /// Its 32 bytes.
    pub const fn to_bytes(&self) -> [u8; KEY_BYTES] {
        self.0
    }

    /// The key in base64 with padding.
    pub fn to_text(&self) -> String {
        to_base64(&self.0)
    }

    /// Its id.
    pub fn id(&self) -> KeyId {
        let mut id = [0; 16];
        id.iter_mut().zip(sha256(&[&self.0])).for_each(|(place, byte)| *place = byte);
        KeyId(id)
    }

    /// Whether this key signed this message.
    pub fn holds(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(message, signature).is_ok()
    }
}

/// A private key. Its text never appears in a message.
pub struct SecretKey {
    seed: [u8; KEY_BYTES],
    pair: Ed25519KeyPair,
    public: PublicKey,
    id: KeyId,
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.id)
    }
}

/// Why a text is no private key. The text is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It has not the two lines around a private key.
    #[error("has no lines `{PEM_BEGIN}` and `{PEM_END}`")]
    NotPem,
    /// The text between them is another kind of key.
    #[error("is no Ed25519 key in PKCS #8; `openssl genpkey -algorithm ed25519` makes one")]
    NotEd25519,
}

impl SecretKey {
    /// The key of a seed.
    ///
    /// # Errors
    /// [`KeyError::NotEd25519`] for a seed that the implementation refuses; none is known.
    pub fn from_seed(seed: [u8; KEY_BYTES]) -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| KeyError::NotEd25519)?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| KeyError::NotEd25519)?;
        let public = PublicKey(public);
        Ok(Self { seed, pair, public, id: public.id() })
    }

    /// The key in a PEM text, PKCS #8 version 1, as OpenSSL writes it.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let (_, rest) = text.split_once(PEM_BEGIN).ok_or(KeyError::NotPem)?;
        let (body, _) = rest.split_once(PEM_END).ok_or(KeyError::NotPem)?;
        let body: String = body.split_whitespace().collect();
        let der = from_base64(&body).ok_or(KeyError::NotEd25519)?;
        let seed = der.strip_prefix(&PKCS8_PREFIX).ok_or(KeyError::NotEd25519)?;
        Self::from_seed(seed.try_into().map_err(|_| KeyError::NotEd25519)?)
    }

    /// The key as PEM.
    pub fn to_pem(&self) -> String {
        let der = [&PKCS8_PREFIX[..], &self.seed].concat();
        format!("{PEM_BEGIN}\n{}\n{PEM_END}\n", to_base64(&der))
    }

    /// The public half.
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    /// The id of the public half.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let mut signature = [0; SIGNATURE_BYTES];
        let made = self.pair.sign(message);
        signature.iter_mut().zip(made.as_ref()).for_each(|(place, byte)| *place = *byte);
        signature
    }
}

/// Bytes as base64 with padding.
pub(super) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of a base64 text in its one canonical form; none for any other text.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Appends bytes as a text of hex digits, in quotes.
pub(super) fn write_hex_text(out: &mut String, bytes: &[u8]) {
    out.push('"');
    HEXLOWER.encode_append(bytes, out);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> SecretKey {
        SecretKey::from_seed([7; KEY_BYTES]).unwrap()
    }

    #[test]
    fn a_key_survives_its_text_and_signs_alike() {
        let read = SecretKey::from_pem(&key().to_pem()).unwrap();
        assert_eq!(read.public(), key().public());
        let signature = read.sign(b"message");
        assert!(key().public().holds(b"message", &signature));
        assert!(!key().public().holds(b"another", &signature));
        let public = PublicKey::from_text(&key().public().to_text()).unwrap();
        assert_eq!(KeyId::from_text(&public.id().to_string()), Some(key().public().id()));
    }

    #[test]
    fn a_text_that_is_no_key_is_refused_without_being_repeated() {
        let other = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\n-----END PRIVATE KEY-----";
        for (text, expected) in [
            ("secret", KeyError::NotPem),
            (PEM_BEGIN, KeyError::NotPem),
            (other, KeyError::NotEd25519),
        ] {
            assert_eq!(SecretKey::from_pem(text).unwrap_err(), expected);
        }
        assert!(!format!("{:?}", key()).contains("0707"));
    }

    #[test]
    fn the_key_of_rfc_8032_signs_as_the_standard_says() {
        let seed =
            HEXLOWER.decode(b"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        let key = SecretKey::from_seed(seed.unwrap().try_into().unwrap()).unwrap();
        let signature = HEXLOWER.encode(&key.sign(b""));
        assert!(signature.starts_with("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065"));
    }
}
