//! The agents that act on tasks.

use super::forge::Forge;
use super::language::Language;
use super::role::Role;
use super::words::words;
use crate::domain::identity::{SERVICE_NAME, is_service_name};
use crate::domain::problem::{Code, Problem};
use std::fmt;

/// The longest id of an agent, and the longest name of a secret, in bytes.
const MAX_NAME: usize = 200;
/// The longest login of an account, in bytes.
const MAX_LOGIN: usize = 100;
/// The most accounts of an agent.
const MAX_ACCOUNTS: usize = 50;
/// The most open tasks of an agent before tasks of a role go to another one.
pub const MAX_CONCURRENCY: u32 = 1000;

words! {
    /// How the turns of an agent's tasks are decided.
    AgentDriver {
        /// By the agent, which leases them over the API or only reports.
        Remote = "remote",
        /// By the model of the service, with the agent's own credential of the forge.
        Model = "model",
    }
}

/// An agent that acts on tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The name of the identity under which it calls; not blank.
    pub id: String,
    /// Its accounts. An account belongs to one agent.
    pub accounts: Vec<(Forge, String)>,
    /// What it can be asked for without being named.
    pub roles: Vec<Role>,
    /// The language of its instructions.
    pub language: Language,
    /// How many open tasks it has before tasks of a role go to another agent, 1..1,000.
    pub concurrency: u32,
    /// The name of a configured secret with its own credential of the forge; empty for none. Never the credential.
    pub credential: String,
    /// How the turns of its tasks are decided.
    pub driver: AgentDriver,
}

impl Agent {
    /// Brings an agent into its one form: logins in lower case, lists sorted and without repeats.
    ///
    /// # Errors
    /// `field_missing`, `too_large`, `type_mismatch` and `limit_out_of_range`, each with the field.
    pub fn normalized(mut self) -> Result<Self, Problem> {
        self.id = name("id", &self.id)?;
        if self.id.is_empty() {
            return Err(Problem::at(Code::FieldMissing, "id", "is missing; name the agent"));
        }
        if is_service_name(&self.id) {
            let message =
                format!("is {SERVICE_NAME}, which stands for the service; use another name");
            return Err(Problem::at(Code::TypeMismatch, "id", message));
        }
        self.credential = name("credential", &self.credential)?;
        if self.accounts.len() > MAX_ACCOUNTS {
            let message = format!("has more than {MAX_ACCOUNTS} accounts; list fewer");
            return Err(Problem::at(Code::TooLarge, "accounts", message));
        }
        for (index, (_, login)) in self.accounts.iter_mut().enumerate() {
            *login = login.trim().to_lowercase();
            if login.is_empty() || login.len() > MAX_LOGIN || !login.chars().all(is_of_login) {
                let message = "is no login; use the account's name on the forge, without @";
                let field = format!("accounts[{index}].login");
                return Err(Problem::at(Code::TypeMismatch, field, message));
            }
        }
        if !(1..=MAX_CONCURRENCY).contains(&self.concurrency) {
            let message = format!(
                "{} is outside 1..{MAX_CONCURRENCY}; choose a value in this range",
                self.concurrency
            );
            return Err(Problem::at(Code::LimitOutOfRange, "concurrency", message));
        }
        self.accounts.sort();
        self.accounts.dedup();
        self.roles.sort_unstable();
        self.roles.dedup();
        Ok(self)
    }
}

/// What a login of the three forges is made of; `[bot]` is GitHub's mark of an application.
fn is_of_login(c: char) -> bool {
    c.is_alphanumeric() || "-_.[]".contains(c)
}

fn name(field: &str, text: &str) -> Result<String, Problem> {
    let name = text.trim();
    if name.len() > MAX_NAME {
        let message = format!("is longer than {MAX_NAME} bytes; shorten it");
        return Err(Problem::at(Code::TooLarge, field, message));
    }
    // The holder of a lease is written as the identity, a blank, and the participant's own name.
    if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        let message = "contains a blank or a control character; use letters and digits";
        return Err(Problem::at(Code::TypeMismatch, field, message));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent() -> Agent {
        Agent {
            id: " a ".to_owned(),
            accounts: vec![
                (Forge::Github, "Octo[bot]".to_owned()),
                (Forge::Gitea, "bob".to_owned()),
                (Forge::Gitea, "BOB".to_owned()),
            ],
            roles: vec![Role::Infra, Role::Reviewer, Role::Infra],
            language: Language::En,
            concurrency: 1,
            credential: String::new(),
            driver: AgentDriver::Remote,
        }
    }

    #[test]
    fn an_agent_has_one_form() {
        let agent = agent().normalized().unwrap();
        assert_eq!(agent.id, "a");
        let accounts = [(Forge::Gitea, "bob".to_owned()), (Forge::Github, "octo[bot]".to_owned())];
        assert_eq!(agent.accounts, accounts);
        assert_eq!(agent.roles, [Role::Reviewer, Role::Infra]);
    }

    #[test]
    fn an_agent_that_cannot_be_stored_names_its_field() {
        let mut cases: Vec<(Agent, Code, &str)> = Vec::new();
        let mut case = |change: fn(&mut Agent), code, field| {
            let mut agent = agent();
            change(&mut agent);
            cases.push((agent, code, field));
        };
        case(|agent| agent.id.clear(), Code::FieldMissing, "id");
        case(|agent| agent.id.push_str("a b"), Code::TypeMismatch, "id");
        case(|agent| agent.id = "a".repeat(201), Code::TooLarge, "id");
        case(|agent| agent.credential.push_str("a\tb"), Code::TypeMismatch, "credential");
        case(|agent| agent.concurrency = 0, Code::LimitOutOfRange, "concurrency");
        case(|agent| agent.concurrency = 1001, Code::LimitOutOfRange, "concurrency");
        case(|agent| agent.accounts[1].1.clear(), Code::TypeMismatch, "accounts[1].login");
        case(|agent| agent.accounts[0].1.push('/'), Code::TypeMismatch, "accounts[0].login");
        for (agent, code, field) in cases {
            let problem = agent.normalized().unwrap_err();
            assert_eq!((problem.code, problem.field.as_deref()), (code, Some(field)));
        }
    }
}
