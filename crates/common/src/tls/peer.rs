//! The names in a client certificate.

use std::sync::Arc;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// The names in a client certificate, each with its kind: `dns:`, `uri:` and `email:` for subject
/// alternative names, then `cn:` for the common name of the subject.
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
    let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    names.extend(common.map(|name| format!("cn:{name}")));
    names
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
