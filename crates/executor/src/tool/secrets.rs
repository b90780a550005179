//! Named secrets: the runner puts their values into calls, and takes them out of everything that calls answer.
//!
//! ```text
//!   secret:NAME in an argument --RunSecrets::resolve--> the value, for the process or the request alone
//!   outcome of any call        --redacted-------------> outcome without values, before it is stored or shown
//! ```

use crate::tool::{ErrorCode, ToolError, ToolOutcome};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use surety_common::config::{NamedSecret, Secret, SecretSource};
use surety_common::domain::receipt::{Command, Fact};
use surety_common::domain::redact::{Redactor, SHORTEST_SECRET};
use surety_common::domain::secret::reference;

/// The longest value, in bytes.
const LONGEST: usize = 65_536;

/// Why the secrets of an executor cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("SURETY_EXECUTOR_SECRETS: the secret {name:?} {why}")]
pub struct SecretsError {
    name: String,
    why: String,
}

/// The secrets that the operator of an executor lists.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    known: BTreeMap<String, Known>,
    redactor: Arc<Redactor>,
}

#[derive(Debug, Clone)]
struct Known {
    value: Secret,
    /// None for every namespace.
    namespaces: Option<Vec<String>>,
}

/// The secrets that the calls of one run may use.
#[derive(Debug, Clone, Default)]
pub struct RunSecrets {
    values: BTreeMap<String, Secret>,
    redactor: Arc<Redactor>,
}

impl Secrets {
    /// Reads the values. It blocks.
    ///
    /// # Errors
    /// A value that is not there, or that cannot be told from other texts.
    pub fn load(listed: &[NamedSecret]) -> Result<Self, SecretsError> {
        Self::load_with(listed, &[])
    }

    /// As [`Self::load`], with further texts that outputs may not have.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_with(
        listed: &[NamedSecret],
        hidden: &[(String, Secret)],
    ) -> Result<Self, SecretsError> {
        let mut known = BTreeMap::new();
        for NamedSecret { name, namespaces, source } in listed {
            let failed = |why: String| SecretsError { name: name.clone(), why };
            let value = source.read().map_err(failed)?;
            if !(SHORTEST_SECRET..=LONGEST).contains(&value.len()) || value.contains('\0') {
                let why = format!(
                    "has no usable value: give a text of {SHORTEST_SECRET} to {LONGEST} bytes without U+0000"
                );
                return Err(failed(why));
            }
            let value = Secret::new(value);
            known.insert(name.clone(), Known { value, namespaces: namespaces.clone() });
        }
        let values = known.iter().map(|(name, known)| (name.as_str(), known.value.expose()));
        let hidden = hidden.iter().map(|(name, value)| (name.as_str(), value.expose()));
        let redactor = Arc::new(Redactor::new(values.chain(hidden)));
        Ok(Self { known, redactor })
    }

    /// What takes the values out of texts.
    pub const fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    /// The first of these names that runs of a namespace cannot use.
    pub fn missing<'n>(&self, namespace: &str, names: &'n [String]) -> Option<&'n str> {
        names.iter().find(|name| self.of(namespace, name).is_none()).map(String::as_str)
    }

    /// The secrets with these names, for a run of a namespace.
    pub fn of_run(&self, namespace: &str, names: &[String]) -> RunSecrets {
        let value = |name: &String| Some((name.clone(), self.of(namespace, name)?.clone()));
        let values = names.iter().filter_map(value).collect();
        RunSecrets { values, redactor: Arc::clone(&self.redactor) }
    }

    /// The secret with this name, where all of these namespaces may use it; none asks for every namespace.
    pub(super) fn of_namespaces(
        &self,
        namespaces: Option<&[String]>,
        name: &str,
    ) -> Option<&Secret> {
        let known = self.known.get(name)?;
        let covers = match (&known.namespaces, namespaces) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(listed), Some(asked)) => asked.iter().all(|namespace| listed.contains(namespace)),
        };
        covers.then_some(&known.value)
    }

    /// The value of one secret, for a run of a namespace.
    pub(crate) fn value(&self, namespace: &str, name: &str) -> Option<&str> {
        self.of(namespace, name).map(Secret::expose)
    }

    fn of(&self, namespace: &str, name: &str) -> Option<&Secret> {
        let known = self.known.get(name)?;
        let covers = |listed: &Vec<String>| listed.iter().any(|one| one == namespace);
        known.namespaces.as_ref().is_none_or(covers).then_some(&known.value)
    }
}

impl RunSecrets {
    /// What takes values out of texts, also of secrets that the run may not use.
    pub const fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    /// A text with the value in the place of its reference; none for a text without a reference.
    ///
    /// # Errors
    /// `secret_unavailable`.
    pub fn resolve(&self, text: &str) -> Result<Option<String>, ToolError> {
        let Some((before, name)) = reference(text) else { return Ok(None) };
        let Some(value) = self.values.get(name) else {
            let message = format!(
                "the run may not use the secret {name:?}; its submitter names it in policy.secrets, and \
                 the executor's operator lists it for the namespace"
            );
            return Err(ToolError::new(ErrorCode::SecretUnavailable, message));
        };
        Ok(Some(format!("{before}{}", value.expose())))
    }
}

/// The file of a secret, which no command may read.
pub(crate) fn secret_file(secret: &NamedSecret) -> Option<PathBuf> {
    match &secret.source {
        SecretSource::File(path) => Some(path.clone()),
        SecretSource::Variable(_) => None,
    }
}

/// An outcome without the values of secrets.
#[must_use]
pub(crate) fn redacted(redactor: &Redactor, mut outcome: ToolOutcome) -> ToolOutcome {
    if redactor.is_empty() {
        return outcome;
    }
    redactor.redact(&mut outcome.summary);
    redactor.redact(&mut outcome.sandbox);
    for attachment in &mut outcome.attachments {
        if let Some(body) = redactor.redacted(&attachment.body) {
            attachment.body = body;
        }
    }
    if let Some(output) = redactor.redacted(&outcome.output) {
        outcome.output = output;
    }
    outcome.facts.iter_mut().for_each(|fact| redact_fact(redactor, fact));
    outcome
}

fn redact_fact(redactor: &Redactor, fact: &mut Fact) {
    match fact {
        Fact::FileWritten { path, before_digest: _, after_digest: _ }
        | Fact::FileObserved { path, exists: _ } => redactor.redact(path),
        Fact::Command { command, exit_code: _, conditions } => {
            match command {
                Command::Line(line) => redactor.redact(line),
                Command::Argv(argv) => argv.iter_mut().for_each(|word| redactor.redact(word)),
            }
            if let Some(conditions) = conditions {
                redactor.redact(&mut conditions.cwd);
                conditions.environment.iter_mut().for_each(|entry| redactor.redact(entry));
            }
        }
        Fact::Content { path, contains, found: _ } => {
            redactor.redact(path);
            redactor.redact(contains);
        }
        Fact::Verification { tool, scope, passed: _ } => {
            redactor.redact(tool);
            redactor.redact(scope);
        }
        Fact::Output { key, value } => {
            redactor.redact(key);
            redactor.redact(value);
        }
        Fact::Tests { runner, counts: _ } => redactor.redact(runner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "c4nary-of-a-token";

    fn secrets() -> Secrets {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, format!("{VALUE}\n")).unwrap();
        let listed = |name: &str, namespaces: Option<&[&str]>| NamedSecret {
            name: name.to_owned(),
            namespaces: namespaces.map(|all| all.iter().map(|it| (*it).to_owned()).collect()),
            source: SecretSource::File(path.clone()),
        };
        Secrets::load(&[listed("npm", Some(&["team-a"])), listed("all", None)]).unwrap()
    }

    #[test]
    fn a_run_uses_what_it_names_and_its_namespace_may_use() {
        let secrets = secrets();
        let named = ["npm".to_owned(), "all".to_owned()];
        assert_eq!(secrets.missing("team-a", &named), None);
        assert_eq!(secrets.missing("team-b", &named), Some("npm"));
        let run = secrets.of_run("team-a", &named[..1]);
        assert_eq!(run.resolve("secret:npm").unwrap().as_deref(), Some(VALUE));
        let bearer = run.resolve("Bearer secret:npm").unwrap();
        assert_eq!(bearer, Some(format!("Bearer {VALUE}")));
        assert_eq!(run.resolve("plain").unwrap(), None);
        for run in [run, secrets.of_run("team-b", &named)] {
            let name = if run.values.contains_key("npm") { "all" } else { "npm" };
            let refused = run.resolve(&format!("secret:{name}")).unwrap_err();
            assert_eq!(refused.code, ErrorCode::SecretUnavailable);
        }
        assert!(!format!("{secrets:?}").contains(VALUE));
    }

    #[test]
    fn a_value_that_is_missing_or_too_short_is_named_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let load = || {
            let source = SecretSource::File(path.clone());
            let name = "npm".to_owned();
            Secrets::load(&[NamedSecret { name, namespaces: None, source }])
        };
        assert!(load().unwrap_err().to_string().contains("cannot be read"));
        std::fs::write(&path, "hunter2\n").unwrap();
        let refused = load().unwrap_err().to_string();
        assert!(refused.contains("\"npm\"") && !refused.contains("hunter2"), "{refused}");
    }

    #[test]
    fn every_part_of_an_outcome_is_redacted() {
        let secrets = secrets();
        let text = || VALUE.to_owned();
        let conditions = surety_common::domain::receipt::Conditions {
            cwd: text(),
            environment: vec![format!("A={VALUE}")],
            ..Default::default()
        };
        let (command, conditions) = (Command::Argv(vec![text()]), Some(conditions));
        let facts = vec![
            Fact::FileWritten { path: text(), before_digest: None, after_digest: None },
            Fact::FileObserved { path: text(), exists: true },
            Fact::Command { command, exit_code: 1, conditions },
            Fact::Command { command: Command::Line(text()), exit_code: 1, conditions: None },
            Fact::Content { path: text(), contains: text(), found: true },
            Fact::Verification { tool: text(), scope: text(), passed: true },
            Fact::Output { key: text(), value: text() },
        ];
        let outcome = ToolOutcome {
            sandbox: text(),
            ..ToolOutcome::done(text(), format!("<{VALUE}>").into_bytes(), facts)
        };
        let outcome = redacted(secrets.redactor(), outcome);
        assert!(!format!("{outcome:?}").contains(VALUE));
        assert!(!String::from_utf8_lossy(&outcome.output).contains(VALUE));
        assert!(outcome.summary.starts_with("[secret:"));
    }
}
