//! The one decision over every call.

use super::{Identity, Means, Role, Rule, Scope};

/// What a call is about. A field that is not known yet, or does not apply, is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Object<'a> {
    /// The namespace of the object.
    pub namespace: Option<&'a str>,
    /// The identity that the object belongs to: who created the run.
    pub owner: Option<&'a str>,
    /// Whether the namespace asks for a second person to approve.
    pub four_eyes: bool,
}

impl<'a> Object<'a> {
    /// Nothing is loaded yet: only the roles are compared.
    pub const NONE: Self = Self { namespace: None, owner: None, four_eyes: false };

    /// A namespace.
    #[must_use]
    pub const fn namespace(namespace: &'a str) -> Self {
        Self { namespace: Some(namespace), ..Self::NONE }
    }

    /// A run.
    #[must_use]
    pub const fn run(namespace: &'a str, owner: &'a str) -> Self {
        Self { namespace: Some(namespace), owner: Some(owner), four_eyes: false }
    }
}

/// Whether a call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may, by the lowest role that allows it.
    Allowed(Role),
    /// The object is of a namespace that the identity does not reach: for it the object is not there.
    NotFound,
    /// It may not.
    Denied(Denial),
}

/// Why a call may not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// No role of the identity allows the call.
    Role,
    /// Its roles allow the call for what it created itself only.
    NotOwn,
    /// A driver or a worker never approves, and never answers for a person.
    Machine,
    /// Who requested does not approve.
    FourEyes,
}

/// Decides whether an identity may make the call of `rule` on `object`. The roles come first, so that
/// a refusal says nothing about the object.
#[must_use]
pub fn allow(identity: &Identity, rule: &Rule, object: &Object<'_>) -> Decision {
    let held = || rule.grants.iter().filter(|grant| identity.has(grant.role));
    if held().next().is_none() {
        return Decision::Denied(Denial::Role);
    }
    if object.namespace.is_some_and(|namespace| !identity.namespaces.contains(namespace)) {
        return Decision::NotFound;
    }
    let own = object.owner.is_none_or(|owner| owner == identity.name);
    let granted = held().filter(|grant| own || grant.scope == Scope::Any);
    let Some(role) = granted.map(|grant| grant.role).min() else {
        return Decision::Denied(Denial::NotOwn);
    };
    let is_of_people = matches!(rule.means, Means::Approval | Means::Answer);
    if is_of_people && identity.roles.iter().any(|role| role.is_machine()) {
        return Decision::Denied(Denial::Machine);
    }
    if rule.means == Means::Approval && object.four_eyes && object.owner.is_some() && own {
        return Decision::Denied(Denial::FourEyes);
    }
    Decision::Allowed(role)
}
