//! Who calls: the one place where a token or a client certificate becomes an identity.
//!
//! ```text
//!   authorization: Bearer TOKEN --SHA-256--> Authenticator --> Identity --RULES--> Caller in extensions
//!   client certificate ---------names------> identities file ----^
//!   an open stream: the same again, each second (revocable)
//! ```

use super::answer::with_status;
use super::layer::refuse;
use super::port::Peer;
use super::revocable::Revocable;
use crate::domain::fault::{Fault, FaultClass, FaultCode};
use crate::domain::identity::{Decision, Identity, Namespaces, Object, Role, allow, rule_of};
use crate::tls::{PeerNames, Tls};
use crate::wire::caller::{Caller, Credential};
use crate::wire::status::to_status;
use crate::wire::token::{TokenHash, hash_of};
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures::future::BoxFuture;
use http::{HeaderMap, header};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use tracing::Instrument;
use tracing::field::Empty;

/// Probes of a load balancer carry no token, and health tells nothing else.
const HEALTH_PATH: &str = "/grpc.health.v1.Health/";
/// Reflection is of every service, and needs any identity.
const REFLECTION_PATH: &str = "/grpc.reflection.";
/// The name of every caller where nothing is authenticated.
const ANONYMOUS: &str = "anonymous";

/// Says which identity a token stands for.
pub trait Authenticator: Send + Sync + 'static {
    /// The identity behind a token's digest; none for a token that is unknown, expired or revoked.
    ///
    /// The errors are `database_unavailable` and `shutting_down`: who calls cannot be said now.
    fn identify(&self, hash: TokenHash) -> BoxFuture<'_, Result<Option<Arc<Identity>>, Fault>>;
}

/// How callers are authenticated.
#[derive(Clone)]
pub enum Authentication {
    /// Every caller is one identity with all roles. Only for stateless mode on loopback, where no call
    /// reaches stored data.
    Anonymous,
    /// The tokens of a file, for stateless mode.
    File(Arc<HashMap<TokenHash, Arc<Identity>>>),
    /// The tokens of a store.
    Store(Arc<dyn Authenticator>),
}

impl Authentication {
    /// What stateless mode does with these tokens: none lets every caller in, which [`super::bind`]
    /// allows on loopback only.
    #[must_use]
    pub fn stateless(tokens: &[(TokenHash, Identity)]) -> Self {
        if tokens.is_empty() {
            return Self::Anonymous;
        }
        let known = tokens.iter().map(|(hash, identity)| (*hash, Arc::new(identity.clone())));
        Self::File(Arc::new(known.collect()))
    }

    async fn identify(&self, hash: TokenHash) -> Result<Arc<Identity>, Fault> {
        let found = match self {
            Self::Anonymous => Some(anonymous()),
            Self::File(known) => known.get(&hash).cloned(),
            Self::Store(store) => store.identify(hash).await?,
        };
        found.ok_or_else(|| {
            unauthenticated(
                "the token is not known here, has expired or was revoked; check which service and \
                 which token it is",
            )
        })
    }
}

/// How the callers of a port are identified.
#[derive(Clone)]
pub(super) struct Callers {
    pub(super) authentication: Authentication,
    /// Maps client certificates.
    pub(super) tls: Option<Tls>,
}

/// What a call proves its identity with; a token has precedence over a certificate.
#[derive(Clone)]
enum Proof {
    Token(TokenHash),
    Certificate(PeerNames),
    Absent,
}

impl Proof {
    fn of(request: &Request) -> Self {
        if let Some(shown) = bearer(request.headers()) {
            return Self::Token(hash_of(shown));
        }
        let peer = request.extensions().get::<ConnectInfo<Peer>>();
        let names = peer.and_then(|ConnectInfo(peer)| peer.names.clone());
        names.map_or(Self::Absent, Self::Certificate)
    }
}

impl Callers {
    async fn identify(&self, proof: &Proof) -> Result<Arc<Identity>, Fault> {
        match (proof, &self.authentication) {
            (Proof::Token(hash), authentication) => authentication.identify(*hash).await,
            (Proof::Certificate(names), _) => {
                let identity = self.tls.as_ref().and_then(|tls| tls.identity(names));
                identity.ok_or_else(|| {
                    unauthenticated(
                        "the client certificate has no identity here; map one of its names with \
                         --tls-identities-file (SURETY_TLS_IDENTITIES_FILE), or send a token",
                    )
                })
            }
            (Proof::Absent, Authentication::Anonymous) => Ok(anonymous()),
            (Proof::Absent, Authentication::File(_) | Authentication::Store(_)) => {
                Err(unauthenticated("no token; send one as `authorization: Bearer <token>`"))
            }
        }
    }
}

/// How the caller of a stream was identified, and as whom.
struct Opened {
    callers: Callers,
    proof: Proof,
    identity: Arc<Identity>,
}

impl Credential for Opened {
    fn revoked(&self) -> BoxFuture<'_, Option<Fault>> {
        Box::pin(async {
            let now = match self.callers.identify(&self.proof).await {
                Ok(now) => now,
                Err(fault) => {
                    return Some(fault).filter(|fault| fault.class == FaultClass::Unauthenticated);
                }
            };
            let then = &self.identity;
            let is_as_before = now.name == then.name
                && now.roles.is_superset(&then.roles)
                && now.namespaces.covers(&then.namespaces);
            (!is_as_before).then(|| {
                let message = format!(
                    "{:?} has lost a role or a namespace since the stream was opened; open another one",
                    then.name
                );
                Fault::new(FaultCode::PermissionDenied, message)
            })
        })
    }
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::File(_) => "File",
            Self::Store(_) => "Store",
        })
    }
}

fn unauthenticated(message: &str) -> Fault {
    Fault::new(FaultCode::Unauthenticated, message)
}

fn anonymous() -> Arc<Identity> {
    Arc::new(Identity {
        name: ANONYMOUS.to_owned(),
        roles: BTreeSet::from(Role::ALL),
        namespaces: Namespaces::Every,
    })
}

/// Lets a call through when its identity is known and one of its roles allows the call at all. What
/// the call may touch is decided by its handler, once the object is loaded.
pub(super) async fn authenticate(
    State(callers): State<Callers>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    if path.starts_with(HEALTH_PATH) {
        return next.run(request).await;
    }
    let proof = Proof::of(&request);
    let identity = match callers.identify(&proof).await {
        Ok(identity) => identity,
        Err(fault) => return to_status(&fault).into_http(),
    };
    let path = request.uri().path();
    let Some(rule) = rule_of(path) else {
        if path.starts_with(REFLECTION_PATH) {
            return next.run(request).await;
        }
        return refuse(FaultCode::Unimplemented, "no such method is served here");
    };
    let mut caller = Caller::new(Arc::clone(&identity), rule);
    if let Decision::Denied(denial) = allow(caller.identity(), rule, &Object::NONE) {
        return to_status(&caller.denied(denial)).into_http();
    }
    let span = tracing::info_span!(
        "rpc",
        otel.kind = "server",
        rpc.system = "grpc",
        rpc.service = rule.service,
        rpc.method = rule.method,
        rpc.grpc.status_code = Empty,
        error.type = Empty,
        otel.status_code = Empty,
        surety.identity = caller.name(),
    );
    if !rule.is_stream {
        request.extensions_mut().insert(caller);
        let response = next.run(request).instrument(span.clone()).await;
        return with_status(span, response);
    }
    caller = caller.with_credential(Arc::new(Opened { callers, proof, identity }));
    request.extensions_mut().insert(caller.clone());
    let (parts, body) = next.run(request).instrument(span.clone()).await.into_parts();
    with_status(span, Response::from_parts(parts, Body::new(Revocable::new(body, caller))))
}

/// The token in an `authorization` header; the scheme's case does not matter.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
