//! The names in a client certificate.

use std::sync::Arc;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::prelude::FromDer;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// The names in a client certificate, each with its kind: `dns:`, `uri:` and `email:` for subject
/// alternative names, then `subject:` for the whole subject as RFC 4514 writes it, with each blank as
/// `\20`, then `cn:` for its common name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerNames(Arc<[String]>);

impl PeerNames {
    /// The names in a verified certificate; none for one that cannot be parsed.
    #[must_use]
    pub fn of(certificate: &[u8]) -> Self {
        let names = match X509Certificate::from_der(certificate) {
            Ok((_, certificate)) => names_in(&certificate),
            Err(error) => {
                tracing::warn!(%error, "tls: a client certificate cannot be parsed; it has no identity");
                Vec::new()
            }
        };
        Self(names.into())
    }

    /// Each name.
    pub fn iter(&self) -> impl Iterator<Item = &String> {
        self.0.iter()
    }
}

fn names_in(certificate: &X509Certificate<'_>) -> Vec<String> {
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let alternative = alternative.into_iter().flat_map(|names| &names.value.general_names);
    let mut names: Vec<String> = alternative.filter_map(name_of).collect();
    names.extend(distinguished_name(certificate.subject()).map(|name| format!("subject:{name}")));
    let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    names.extend(common.map(|name| format!("cn:{name}")));
    names
}

/// A name as RFC 4514 writes it, the last part first. None for an empty one, and for one with a part that
/// is no text.
fn distinguished_name(name: &X509Name<'_>) -> Option<String> {
    let mut parts = Vec::new();
    for part in name.iter_rdn() {
        let attributes: Option<Vec<String>> = part.iter().map(attribute).collect();
        parts.push(attributes?.join("+"));
    }
    parts.reverse();
    (!parts.is_empty()).then(|| parts.join(","))
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    let value = attribute.as_str().ok()?;
    let oid = attribute.attr_type();
    let name = oid2abbrev(oid, oid_registry()).map_or_else(|_| oid.to_id_string(), str::to_owned);
    Some(format!("{name}={}", escaped(value)))
}

/// The characters that RFC 4514 escapes, and blanks, which would end a column of the file.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for (index, letter) in value.chars().enumerate() {
        match letter {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => text.extend(['\\', letter]),
            '#' if index == 0 => text.push_str("\\#"),
            letter if letter.is_whitespace() || letter.is_control() => {
                let mut bytes = [0; 4];
                for byte in letter.encode_utf8(&mut bytes).bytes() {
                    text.push_str(&format!("\\{byte:02X}"));
                }
            }
            letter => text.push(letter),
        }
    }
    text
}

#[allow(clippy::wildcard_enum_match_arm, reason = "names of other kinds cannot be mapped")]
fn name_of(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(format!("dns:{name}")),
        GeneralName::URI(name) => Some(format!("uri:{name}")),
        GeneralName::RFC822Name(name) => Some(format!("email:{name}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn names(parts: &[(DnType, &str)]) -> Vec<String> {
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind.clone(), *value);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        PeerNames::of(certificate.der()).iter().cloned().collect()
    }

    #[test]
    fn a_subject_is_written_whole_and_without_blanks() {
        let parts = [
            (DnType::CountryName, "DE"),
            (DnType::OrganizationName, "Brot, Butter"),
            (DnType::OrganizationalUnitName, "#1"),
            (DnType::CommonName, "agent 7"),
        ];
        assert_eq!(
            names(&parts),
            ["dns:a.test", r"subject:CN=agent\207,OU=\#1,O=Brot\,\20Butter,C=DE", "cn:agent 7"]
        );
    }

    #[test]
    fn a_certificate_without_a_subject_has_its_other_names_only() {
        assert_eq!(names(&[]), ["dns:a.test"]);
    }
}
