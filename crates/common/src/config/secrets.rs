//! The secrets that an operator lists for tools.
//!
//! ```text
//!   npm@team-a,team-b=file:/run/secrets/npm;deploy@*=env:DEPLOY_TOKEN
//!   name namespaces   source
//! ```

use std::collections::HashSet;
use std::path::PathBuf;

use crate::domain::secret::is_secret_name;

/// Every namespace.
const EVERY: &str = "*";

/// The secrets that tools may use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedSecrets(pub Vec<NamedSecret>);

/// A secret that tools may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSecret {
    /// The name that references have.
    pub name: String,
    /// The namespaces whose runs may use it; none for every one.
    pub namespaces: Option<Vec<String>>,
    /// Where its value is.
    pub source: SecretSource,
}

/// Where the value of a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// A file; one line break at its end is no part of the value.
    File(PathBuf),
    /// A variable of the process's environment.
    Variable(String),
}

impl SecretSource {
    /// Reads the value. It blocks.
    ///
    /// # Errors
    /// What cannot be read, without the value.
    pub fn read(&self) -> Result<String, String> {
        match self {
            Self::File(path) => {
                let text = std::fs::read_to_string(path);
                let text =
                    text.map_err(|error| format!("cannot be read from {path:?}: {error}"))?;
                let value = text.strip_suffix('\n').unwrap_or(&text);
                Ok(value.strip_suffix('\r').unwrap_or(value).to_owned())
            }
            Self::Variable(name) => std::env::var(name)
                .map_err(|error| format!("cannot be read from the variable {name}: {error}")),
        }
    }
}

/// The secrets of a setting; none where it does not read.
pub(super) fn read_secrets(text: &str) -> Option<NamedSecrets> {
    let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
    let secrets: Vec<NamedSecret> = entries.map(read_secret).collect::<Option<_>>()?;
    let mut seen = HashSet::new();
    let is_once = secrets.iter().all(|secret| seen.insert(secret.name.clone()));
    is_once.then_some(NamedSecrets(secrets))
}

fn read_secret(entry: &str) -> Option<NamedSecret> {
    let (left, source) = entry.split_once('=')?;
    let (name, namespaces) = left.split_once('@')?;
    let (kind, place) = source.split_once(':')?;
    let source = match kind {
        "file" if place.starts_with('/') => SecretSource::File(PathBuf::from(place)),
        "env" if !place.is_empty() => SecretSource::Variable(place.to_owned()),
        _ => return None,
    };
    let listed: Vec<String> = namespaces.split(',').map(|it| it.trim().to_owned()).collect();
    let name = name.trim();
    let is_named = is_secret_name(name) && listed.iter().all(|namespace| !namespace.is_empty());
    is_named.then(|| NamedSecret {
        name: name.to_owned(),
        namespaces: (namespaces.trim() != EVERY).then_some(listed),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_a_name_its_namespaces_and_a_source() {
        let text = "npm@a, b=file:/run/x=y@z; deploy@*=env:DEPLOY_TOKEN;";
        let NamedSecrets(secrets) = read_secrets(text).expect("secrets");
        let [npm, deploy] = secrets.as_slice() else { panic!("{secrets:?}") };
        assert_eq!(npm.namespaces, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(npm.source, SecretSource::File(PathBuf::from("/run/x=y@z")));
        assert_eq!((deploy.name.as_str(), &deploy.namespaces), ("deploy", &None));
        assert_eq!(deploy.source, SecretSource::Variable("DEPLOY_TOKEN".to_owned()));
        for text in [
            "npm=file:/x",
            "npm@=file:/x",
            "npm@a=file:x",
            "npm@a=/x",
            "npm@a=env:",
            "n pm@a=env:X",
            "@a=env:X",
            "npm@a=env:X;npm@b=env:Y",
        ] {
            assert_eq!(read_secrets(text), None, "{text}");
        }
    }
}
