//! Hooks: the addresses at which forges deliver events, and what a delivery's body holds.

use super::forge::Forge;
use super::words::words;
use crate::domain::problem::{Code, Problem};
use crate::domain::secret::{is_secret_name, read_secret_names};
use std::borrow::Cow;
use std::fmt;

/// The most secrets of a hook: one, and the one that replaces it.
pub const MAX_HOOK_SECRETS: usize = 2;
/// The field of a form that holds the payload.
const FIELD: &str = "payload";

/// An address at which a forge delivers events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The last part of the address.
    pub name: String,
    /// Decides how deliveries are read.
    pub forge: Forge,
    /// The names of the secrets that sign deliveries, at most [`MAX_HOOK_SECRETS`]; none for an unsigned hook.
    pub secrets: Vec<String>,
}

impl Hook {
    /// A hook.
    ///
    /// # Errors
    /// `type_mismatch` for a name or a secret that is none; `too_large` for more than two secrets.
    pub fn new(name: &str, forge: Forge, secrets: Vec<String>) -> Result<Self, Problem> {
        if !is_secret_name(name) {
            let message = "is no name of a hook; use 1 to 64 letters, digits, `_` and `-`";
            return Err(Problem::at(Code::TypeMismatch, "name", message));
        }
        let secrets = read_secret_names("secrets", secrets)?;
        if secrets.len() > MAX_HOOK_SECRETS {
            let message =
                "has more than two secrets; keep the one in use and the one that replaces it";
            return Err(Problem::at(Code::TooLarge, "secrets", message));
        }
        Ok(Self { name: name.to_owned(), forge, secrets })
    }

    /// Whether deliveries have no signature.
    pub const fn is_unsigned(&self) -> bool {
        self.secrets.is_empty()
    }
}

words! {
    /// What became of a stored delivery.
    DeliveryState {
        /// It waits to be processed.
        Stored = "stored",
        /// It became tasks.
        Processed = "processed",
        /// It asks for nothing.
        Ignored = "ignored",
        /// It has no usable payload.
        Refused = "refused",
        /// It has the content of an earlier delivery.
        Repeated = "repeated",
        /// No attempt to make its tasks succeeded.
        Failed = "failed",
    }
}

/// How a delivery's body holds its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// The body is the payload.
    Json,
    /// The payload is a field of a form.
    Form,
}

impl BodyKind {
    /// The kind by the header `content-type`; none for another one.
    pub fn of(content_type: &str) -> Option<Self> {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("application/json") {
            Some(Self::Json)
        } else if kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            Some(Self::Form)
        } else {
            None
        }
    }

    /// The payload in a body.
    ///
    /// # Errors
    /// `field_missing` for a form without the field, `json_syntax` for what is no UTF-8.
    pub fn payload(self, body: &[u8]) -> Result<Cow<'_, str>, Problem> {
        let bytes = match self {
            Self::Json => Cow::Borrowed(body),
            Self::Form => Cow::Owned(form_field(body).ok_or_else(|| {
                let message = "the form has no field of this name; send it from the forge";
                Problem::at(Code::FieldMissing, FIELD, message)
            })?),
        };
        let no_text = || Problem::new(Code::JsonSyntax, "the delivery is no UTF-8");
        match bytes {
            Cow::Borrowed(bytes) => {
                std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| no_text())
            }
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| no_text()),
        }
    }
}

fn form_field(body: &[u8]) -> Option<Vec<u8>> {
    let fields = body.split(|byte| *byte == b'&');
    let mut values = fields.filter_map(|field| {
        let at = field.iter().position(|byte| *byte == b'=')?;
        let (name, value) = field.split_at_checked(at)?;
        (name == FIELD.as_bytes()).then(|| value.get(1..).unwrap_or_default())
    });
    values.next().map(unescaped)
}

/// The bytes of a form's value. A `%` without two digits stands for itself.
fn unescaped(value: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| (digit(after.first()), digit(after.get(1))));
        if let Some((Some(high), Some(low))) = escaped {
            bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
            rest = after.get(2..).unwrap_or_default();
        } else {
            bytes.push(if *first == b'+' { b' ' } else { *first });
            rest = after;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_the_body_or_a_field_of_a_form() {
        for (kind, body, payload) in [
            ("application/json", "{}", Ok("{}")),
            ("application/json; charset=utf-8", "", Ok("")),
            (
                "application/x-www-form-urlencoded",
                "a=b&payload=%7B%22a+b%22%3A1%7d",
                Ok("{\"a b\":1}"),
            ),
            ("application/x-www-form-urlencoded", "payload=100%&payload=x", Ok("100%")),
            ("application/x-www-form-urlencoded", "payloads=x", Err(Code::FieldMissing)),
            ("application/x-www-form-urlencoded", "payload=%ff", Err(Code::JsonSyntax)),
        ] {
            let kind = BodyKind::of(kind).expect("a kind");
            let read = kind.payload(body.as_bytes());
            assert_eq!(read.as_deref().map_err(|problem| problem.code), payload, "{body}");
        }
        assert_eq!(BodyKind::of("text/plain"), None);
        assert!(BodyKind::Json.payload(&[0xff]).is_err());
    }

    #[test]
    fn a_hook_has_at_most_two_secrets_and_a_name_for_an_address() {
        let secrets = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let of = |name, names: &[&str]| Hook::new(name, Forge::Gitea, secrets(names));
        assert!(of("main", &["a", "b", "a"]).is_ok_and(|hook| !hook.is_unsigned()));
        assert!(of("main", &[]).is_ok_and(|hook| hook.is_unsigned()));
        for (name, names) in [("", &["a"][..]), ("a/b", &["a"]), ("main", &["a", "b", "c"])] {
            assert!(of(name, names).is_err(), "{name}");
        }
    }
}
