//! Who makes a call, as its handler sees it.

use crate::domain::fault::{Fault, FaultCode};
use crate::domain::identity::{
    Decision, Denial, Identity, Means, Namespaces, Object, Role, Rule, Scope, allow, rule_of,
};
use futures::future::BoxFuture;
use std::fmt;
use std::sync::Arc;

/// What the caller of a stream proved its identity with, to be looked at again while the stream is open.
pub(super) trait Credential: Send + Sync {
    /// Why the stream has to end; none while the identity has what it had when the stream began, and while that cannot
    /// be said because no database answers.
    fn revoked(&self) -> BoxFuture<'_, Option<Fault>>;
}

/// The identity behind a call and the rule of the call. Every handler finds it in the request's
/// extensions.
#[derive(Clone)]
pub struct Caller {
    identity: Arc<Identity>,
    rule: &'static Rule,
    /// None for a call that is no stream.
    credential: Option<Arc<dyn Credential>>,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, rule, credential: _ } = self;
        f.debug_struct("Caller").field("identity", identity).field("rule", rule).finish()
    }
}

impl Caller {
    pub(super) const fn new(identity: Arc<Identity>, rule: &'static Rule) -> Self {
        Self { identity, rule, credential: None }
    }

    /// The same caller, of a stream that was opened with this credential.
    pub(super) fn with_credential(self, credential: Arc<dyn Credential>) -> Self {
        Self { credential: Some(credential), ..self }
    }

    /// Why a stream of this caller has to end: its token was revoked or has expired, or its identity lost a role or a
    /// namespace. None while it goes on, and for a call that is no stream. A service answers from what it remembers for
    /// a second.
    pub async fn revoked(&self) -> Option<Fault> {
        self.credential.as_ref()?.revoked().await
    }

    /// A part of this process that takes a participant's place, under a name that no token and no certificate can
    /// have; none for an unknown RPC.
    #[must_use]
    pub fn internal(name: &str, role: Role, path: &str) -> Option<Self> {
        let identity =
            Identity { name: name.to_owned(), roles: [role].into(), namespaces: Namespaces::Every };
        rule_of(path).map(|rule| Self::new(Arc::new(identity), rule))
    }

    /// Who makes this call.
    ///
    /// # Errors
    /// `internal` when no layer authenticated the call, which is a defect of the service.
    pub fn of<T>(request: &tonic::Request<T>) -> Result<Self, Fault> {
        request.extensions().get::<Self>().cloned().ok_or_else(|| {
            Fault::new(FaultCode::Internal, "the call reached its handler without an identity")
        })
    }

    /// The identity.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The name under which the call is recorded.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.identity.name
    }

    /// The namespaces that lists are limited to; empty for all.
    #[must_use]
    pub fn reached(&self) -> Vec<String> {
        match &self.identity.namespaces {
            Namespaces::Every => Vec::new(),
            Namespaces::Only(names) => names.iter().cloned().collect(),
        }
    }

    /// Whether the call approves something.
    #[must_use]
    pub fn approves(&self) -> bool {
        self.rule.means == Means::Approval
    }

    /// Decides whether the call may be made on an object that was loaded, and answers the role that
    /// allows it.
    ///
    /// # Errors
    /// `permission_denied`; `not_found` where the object is of a namespace that the identity does not
    /// reach, so that the answer is that of an object that does not exist.
    pub fn may(
        &self,
        object: &Object<'_>,
        not_found: impl FnOnce() -> Fault,
    ) -> Result<Role, Fault> {
        match allow(&self.identity, self.rule, object) {
            Decision::Allowed(role) => Ok(role),
            Decision::NotFound => Err(not_found()),
            Decision::Denied(denial) => Err(self.denied(denial)),
        }
    }

    pub(super) fn denied(&self, denial: Denial) -> Fault {
        let Rule { service, method, grants, .. } = self.rule;
        let name = self.name();
        let message = match denial {
            Denial::Role => {
                let roles: Vec<_> = grants.iter().map(|grant| grant.role.as_str()).collect();
                let roles = roles.join(", ");
                format!(
                    "{name:?} has no role that allows {service}.{method}; it needs one of: {roles}"
                )
            }
            Denial::NotOwn => {
                let any = grants.iter().filter(|grant| grant.scope == Scope::Any);
                let any: Vec<_> = any.map(|grant| grant.role.as_str()).collect();
                format!(
                    "{name:?} may call {service}.{method} only for runs that it created; the role {} \
                     covers the others",
                    any.join(" or ")
                )
            }
            Denial::Machine => format!(
                "{name:?} has the role driver or worker, which never approves and never answers for a person; use a \
                 token of the person"
            ),
            Denial::FourEyes => format!(
                "{name:?} created the run, and the policy key four_eyes asks for another approver"
            ),
        };
        Fault::new(FaultCode::PermissionDenied, message)
    }
}
