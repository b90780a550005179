//! Who calls, and what that identity may do.
//!
//! ```text
//!   bearer token or client certificate --> Identity {name, roles, namespaces}
//!   Identity + Rule (one row of RULES) + Object (what the call is about) --allow--> Decision
//! ```

mod allow;
mod rules;

#[cfg(test)]
mod tests;

pub use allow::{Decision, Denial, Object, allow};
pub use rules::{Grant, Means, RULES, Rule, Scope, document, rule_of};

use crate::domain::problem::{Code, Problem};
use crate::domain::run::MAX_NAMESPACE;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The longest name of an identity, in bytes.
pub const MAX_NAME: usize = 100;
/// The most namespaces that one token may name.
pub const MAX_NAMESPACES: usize = 200;
/// What stands for every namespace in files and on the wire.
pub const EVERY_NAMESPACE: &str = "*";

/// What an identity is trusted with. The order is from the lowest to the highest: of several roles
/// of one identity the lowest that allows a call counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Leases decisions and plans.
    Driver,
    /// Connects tools and records what they did.
    Worker,
    /// Reads.
    Viewer,
    /// Creates runs; cancels and answers its own.
    Submitter,
    /// Manages all runs, checks, policies and tokens of its namespaces.
    Operator,
    /// Confirms tool calls.
    Approver,
    /// Makes the internal calls between the services.
    Service,
}

impl Role {
    /// Every role, the lowest first.
    pub const ALL: [Self; 7] = [
        Self::Driver,
        Self::Worker,
        Self::Viewer,
        Self::Submitter,
        Self::Operator,
        Self::Approver,
        Self::Service,
    ];

    /// The roles of a person.
    pub const PERSON: [Self; 4] = [Self::Viewer, Self::Submitter, Self::Operator, Self::Approver];

    /// The word for it in files, in the database and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Worker => "worker",
            Self::Viewer => "viewer",
            Self::Submitter => "submitter",
            Self::Operator => "operator",
            Self::Approver => "approver",
            Self::Service => "service",
        }
    }

    /// What the role is for, in one sentence.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Driver => "an agent that leases decisions and plans",
            Self::Worker => "a process that serves tools and records what they did",
            Self::Viewer => "reads runs, plans and verdicts",
            Self::Submitter => "creates runs; cancels, answers and replans its own",
            Self::Operator => "manages every run, check, policy and token of its namespaces",
            Self::Approver => "confirms or denies tool calls",
            Self::Service => "internal calls between Surety's own processes",
        }
    }

    /// Whether a person may not have it beside a right to approve.
    #[must_use]
    pub const fn is_machine(self) -> bool {
        matches!(self, Self::Driver | Self::Worker)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or_else(|| IdentityError::UnknownRole(text.to_owned()))
    }
}

/// The namespaces that an identity reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespaces {
    /// All of them, those to come included.
    Every,
    /// These.
    Only(BTreeSet<String>),
}

impl Namespaces {
    /// Whether this one is among them.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::Every => true,
            Self::Only(names) => names.contains(namespace),
        }
    }

    /// Whether all of the others are among them.
    #[must_use]
    pub fn covers(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::Every, _) => true,
            (Self::Only(_), Self::Every) => false,
            (Self::Only(own), Self::Only(others)) => others.is_subset(own),
        }
    }

    /// The names; `*` alone for every one.
    #[must_use]
    pub fn to_names(&self) -> Vec<String> {
        match self {
            Self::Every => vec![EVERY_NAMESPACE.to_owned()],
            Self::Only(names) => names.iter().cloned().collect(),
        }
    }

    /// The namespaces with these names.
    ///
    /// # Errors
    /// There is none, `*` stands beside others, or there are more than [`MAX_NAMESPACES`].
    pub fn from_names(names: impl IntoIterator<Item = String>) -> Result<Self, IdentityError> {
        let names: BTreeSet<String> =
            names.into_iter().map(|name| name.trim().to_owned()).collect();
        if names.contains(EVERY_NAMESPACE) {
            let alone = names.len() == 1;
            return if alone { Ok(Self::Every) } else { Err(IdentityError::EveryAndOthers) };
        }
        if names.is_empty() || names.contains("") {
            return Err(IdentityError::NoNamespace);
        }
        if names.len() > MAX_NAMESPACES {
            return Err(IdentityError::TooManyNamespaces);
        }
        match names.iter().find(|name| name.len() > MAX_NAMESPACE) {
            Some(_) => Err(IdentityError::NamespaceTooLong),
            None => Ok(Self::Only(names)),
        }
    }

    /// As [`Namespaces::from_names`], for a new token: each name is one that a new namespace may have. A stored token, and a
    /// file that is read at each start, may name one that was made before names had this rule.
    ///
    /// # Errors
    /// [`IdentityError`]
    pub fn of_new(names: impl IntoIterator<Item = String>) -> Result<Self, IdentityError> {
        let namespaces = Self::from_names(names)?;
        match &namespaces {
            Self::Only(names) => match names.iter().find(|name| !is_namespace(name)) {
                Some(name) => Err(IdentityError::Namespace(name.clone())),
                None => Ok(namespaces),
            },
            Self::Every => Ok(namespaces),
        }
    }
}

fn is_namespace(name: &str) -> bool {
    let plain =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '/' | '-');
    !name.is_empty() && name.len() <= MAX_NAMESPACE && name.chars().all(plain)
}

/// Checks the name of a namespace that a caller makes: 1 to [`MAX_NAMESPACE`] letters, digits and `. _ / -`. Another one
/// could be taken for `*`, for several names, or for one that looks the same.
///
/// # Errors
/// `too_large`, `type_mismatch`
pub fn check_namespace(field: &str, name: &str) -> Result<(), Problem> {
    if is_namespace(name) {
        return Ok(());
    }
    if name.len() > MAX_NAMESPACE {
        let message = format!("is longer than {MAX_NAMESPACE} bytes; shorten it");
        return Err(Problem::at(Code::TooLarge, field, message));
    }
    let message = format!(
        "{name:?} is not usable as the name of a namespace; use letters, digits and the characters . _ / -"
    );
    Err(Problem::at(Code::TypeMismatch, field, message))
}

/// The name under which the service itself writes entries and messages. No caller has it.
pub const SERVICE_NAME: &str = "system";

/// Whether a name is that of the service, in any case.
pub fn is_service_name(name: &str) -> bool {
    name.trim().eq_ignore_ascii_case(SERVICE_NAME)
}

/// Who makes a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name under which calls are recorded; several tokens may carry the same.
    pub name: String,
    /// What it is trusted with; never empty.
    pub roles: BTreeSet<Role>,
    /// Where.
    pub namespaces: Namespaces,
}

/// Why an identity cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The name is empty, too long, or holds a character that could be misread.
    #[error(
        "the name {0:?} is not usable; use 1 to 100 letters, digits and the characters . _ @ : / -"
    )]
    Name(String),
    /// The name of the service itself.
    #[error("the name system stands for the service; use another one")]
    Reserved,
    /// A word that is no role.
    #[error(
        "{0:?} is no role; use viewer, submitter, operator, approver, driver, worker or service"
    )]
    UnknownRole(String),
    /// No role at all.
    #[error("an identity needs at least one role")]
    NoRole,
    /// A driver or a worker that approves.
    #[error("the roles driver and worker never approve; leave out approver, or make two tokens")]
    MachineApproves,
    /// No namespace at all.
    #[error("an identity needs at least one namespace; `*` is every one")]
    NoNamespace,
    /// `*` beside names.
    #[error("`*` is every namespace; leave the others out")]
    EveryAndOthers,
    /// More than one token may name.
    #[error("names more than 200 namespaces; use `*` or several tokens")]
    TooManyNamespaces,
    /// A namespace with a character that could be misread.
    #[error(
        "the namespace {0:?} is not usable; use 1 to 200 letters, digits and the characters . _ / -"
    )]
    Namespace(String),
    /// A namespace that no run can have.
    #[error("names a namespace of more than 200 bytes, which no run can have")]
    NamespaceTooLong,
}

impl From<IdentityError> for Problem {
    fn from(error: IdentityError) -> Self {
        let field = match error {
            IdentityError::Name(_) | IdentityError::Reserved => "name",
            IdentityError::UnknownRole(_)
            | IdentityError::NoRole
            | IdentityError::MachineApproves => "roles",
            IdentityError::NoNamespace
            | IdentityError::EveryAndOthers
            | IdentityError::TooManyNamespaces
            | IdentityError::Namespace(_)
            | IdentityError::NamespaceTooLong => "namespaces",
        };
        Self::at(Code::TypeMismatch, field, error.to_string())
    }
}

impl Identity {
    /// As [`Identity::new`], for a new token: the name of the service is refused, because what it writes has that name.
    ///
    /// # Errors
    /// [`IdentityError`]
    pub fn of_caller(
        name: &str,
        roles: impl IntoIterator<Item = Role>,
        namespaces: Namespaces,
    ) -> Result<Self, IdentityError> {
        if is_service_name(name) {
            return Err(IdentityError::Reserved);
        }
        Self::new(name, roles, namespaces)
    }

    /// An identity, when its parts can be one.
    ///
    /// # Errors
    /// [`IdentityError`]
    pub fn new(
        name: &str,
        roles: impl IntoIterator<Item = Role>,
        namespaces: Namespaces,
    ) -> Result<Self, IdentityError> {
        let roles: BTreeSet<Role> = roles.into_iter().collect();
        if !is_name(name) {
            return Err(IdentityError::Name(name.to_owned()));
        }
        if roles.is_empty() {
            return Err(IdentityError::NoRole);
        }
        let machine = roles.iter().any(|role| role.is_machine());
        if machine && roles.contains(&Role::Approver) {
            return Err(IdentityError::MachineApproves);
        }
        Ok(Self { name: name.to_owned(), roles, namespaces })
    }

    /// An identity from the columns of a file, with commas inside a column.
    ///
    /// # Errors
    /// [`IdentityError`]
    pub fn from_columns(name: &str, roles: &str, namespaces: &str) -> Result<Self, IdentityError> {
        let roles = roles.split(',').map(str::parse).collect::<Result<Vec<Role>, _>>()?;
        let namespaces = Namespaces::from_names(namespaces.split(',').map(str::to_owned))?;
        Self::of_caller(name, roles, namespaces)
    }

    /// Whether it has a role.
    #[must_use]
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// The first of these roles that it may not give to a token. An identity gives the roles that it
    /// has; an operator also those that act under an operator's control only.
    #[must_use]
    pub fn cannot_grant(&self, roles: &BTreeSet<Role>) -> Option<Role> {
        let operator = self.has(Role::Operator);
        roles.iter().copied().find(|role| !(self.has(*role) || operator && role.is_machine()))
    }
}

fn is_name(name: &str) -> bool {
    let plain = |letter: char| {
        letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '@' | ':' | '/' | '-')
    };
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(plain)
}
