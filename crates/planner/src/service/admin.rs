//! `AdminService`: tokens, policies of namespaces, and their audit.

use super::page::Page;
use super::request::{named, named_before};
use super::run::no_namespace;
use super::{Service, caller, status};
use crate::call::{Call, MAX_REQUEST_ID};
use chrono::{DateTime, TimeDelta, Utc};
use prost_types::Duration;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::identity::{Identity, IdentityError, Namespaces, Object, Role};
use surety_common::domain::policy::NamespacePolicy;
use surety_common::domain::problem::{Code, Problem};
use surety_common::store::{
    self, CreatedToken, NewPolicy, NewToken, Revocation, SetPolicy, StoredPolicy, StoredToken,
    TokenHash,
};
use surety_common::wire::admin::read_role;
use surety_common::wire::caller::Caller;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::admin_service_server::AdminService;
use surety_common::wire::value::{id, sha256_of, timestamp};
use tonic::{Request, Response, Status};
use uuid::Uuid;

#[tonic::async_trait]
impl AdminService for Service {
    async fn create_token(
        &self,
        request: Request<v1::CreateTokenRequest>,
    ) -> Result<Response<v1::CreateTokenResponse>, Status> {
        let caller = caller(&request)?;
        let (token, secret) = self.create(&caller, request.into_inner()).await.map_err(status)?;
        Ok(Response::new(v1::CreateTokenResponse { token: Some(token.into()), secret }))
    }

    async fn list_tokens(
        &self,
        request: Request<v1::ListTokensRequest>,
    ) -> Result<Response<v1::ListTokensResponse>, Status> {
        let caller = caller(&request)?;
        let page = Page::of(&mut request.into_inner()).map_err(status)?;
        let after = page.after().map_err(status)?;
        let planner = self.shards.primary().await.map_err(status)?;
        let mut tokens =
            store::list_tokens(&planner.pool, &caller.reached(), after, page.limit + 1)
                .await
                .map_err(status)?;
        let next_page_token = page.cut(&mut tokens, |token| token.id);
        let tokens = tokens.into_iter().map(Into::into).collect();
        Ok(Response::new(v1::ListTokensResponse { tokens, next_page_token }))
    }

    async fn revoke_token(
        &self,
        request: Request<v1::RevokeTokenRequest>,
    ) -> Result<Response<v1::RevokeTokenResponse>, Status> {
        let caller = caller(&request)?;
        let response = self.revoke(&caller, &request.into_inner()).await.map_err(status)?;
        Ok(Response::new(response))
    }

    async fn rotate_token(
        &self,
        request: Request<v1::RotateTokenRequest>,
    ) -> Result<Response<v1::RotateTokenResponse>, Status> {
        let caller = caller(&request)?;
        let (token, secret) = self.rotate(&caller, request.into_inner()).await.map_err(status)?;
        Ok(Response::new(v1::RotateTokenResponse { token: Some(token.into()), secret }))
    }

    async fn get_namespace_policy(
        &self,
        request: Request<v1::GetNamespacePolicyRequest>,
    ) -> Result<Response<v1::GetNamespacePolicyResponse>, Status> {
        let caller = caller(&request)?;
        let namespace = request.into_inner().namespace;
        let namespace = reach(&caller, named_before(namespace)).map_err(status)?;
        let planner = self.shards.of_namespace(&namespace).await.map_err(status)?;
        let found = store::find_policy(&planner.pool, &namespace).await.map_err(status)?;
        Ok(Response::new(shown(found)))
    }

    async fn set_namespace_policy(
        &self,
        request: Request<v1::SetNamespacePolicyRequest>,
    ) -> Result<Response<v1::SetNamespacePolicyResponse>, Status> {
        let caller = caller(&request)?;
        let response = self.set_policy(&caller, request.into_inner()).await.map_err(status)?;
        Ok(Response::new(response))
    }

    async fn list_audit_events(
        &self,
        request: Request<v1::ListAuditEventsRequest>,
    ) -> Result<Response<v1::ListAuditEventsResponse>, Status> {
        let caller = caller(&request)?;
        let page = Page::of(&mut request.into_inner()).map_err(status)?;
        let before = page.after().map_err(status)?;
        let listed = self.shards.list_audit(&caller.reached(), before, page.limit + 1).await;
        let mut events = listed.map_err(status)?;
        let next_page_token = page.cut(&mut events, |event| event.id);
        let events = events.into_iter().map(Into::into).collect();
        Ok(Response::new(v1::ListAuditEventsResponse { events, next_page_token }))
    }
}

impl Service {
    async fn create(
        &self,
        caller: &Caller,
        request: v1::CreateTokenRequest,
    ) -> Result<(StoredToken, String), Fault> {
        let request_digest = sha256_of(&request);
        let v1::CreateTokenRequest { request_id, name, roles, namespaces, valid_for } = request;
        let roles = roles.into_iter().map(read_role).collect::<Result<Vec<Role>, _>>()?;
        let namespaces = Namespaces::of_new(namespaces).map_err(refused)?;
        let identity = Identity::of_caller(&name, roles, namespaces).map_err(refused)?;
        may_grant(caller, &identity)?;
        let now = self.shards.primary().await?.now();
        let expires_at = valid_for.map(|valid_for| after(now, "valid_for", &valid_for, 1));
        let new = Draft {
            identity,
            request_id,
            request_digest,
            expires_at: expires_at.transpose()?,
            replaces: None,
        };
        self.store(caller, new, now).await
    }

    async fn rotate(
        &self,
        caller: &Caller,
        request: v1::RotateTokenRequest,
    ) -> Result<(StoredToken, String), Fault> {
        let request_digest = sha256_of(&request);
        let v1::RotateTokenRequest { request_id, token_id, grace } = request;
        let old = self.token(caller, &token_id).await?;
        may_grant(caller, &old.identity)?;
        let now = self.shards.primary().await?.now();
        // A repeat finds the old token at its end.
        if !old.is_valid(now) && request_id.is_empty() {
            return Err(no_token(&token_id));
        }
        let ends_at = after(now, "grace", &grace.unwrap_or_default(), 0)?;
        let new = Draft {
            identity: old.identity,
            request_id,
            request_digest,
            expires_at: old.expires_at.map(|expires_at| now + (expires_at - old.created_at)),
            replaces: Some((old.id, ends_at)),
        };
        self.store(caller, new, now).await
    }

    /// Stores a token with a new secret, which is answered unless the call is a repeat.
    async fn store(
        &self,
        caller: &Caller,
        draft: Draft,
        now: DateTime<Utc>,
    ) -> Result<(StoredToken, String), Fault> {
        if draft.request_id.len() > MAX_REQUEST_ID {
            let message = format!("is longer than {MAX_REQUEST_ID} bytes; shorten it");
            return Err(Problem::at(Code::TooLarge, "request_id", message).into());
        }
        let secret = Token::generate()
            .map_err(|error| Fault::new(FaultCode::Internal, error.to_string()))?;
        let hash: TokenHash = secret.hash();
        let Draft { identity, request_id, request_digest, expires_at, replaces } = draft;
        let new = NewToken {
            id: Uuid::now_v7(),
            hash,
            identity,
            created_at: now,
            created_by: caller.name().to_owned(),
            request_id,
            request_digest,
            expires_at,
            replaces,
        };
        let planner = self.shards.primary().await?;
        match store::create_token(&planner.pool, &new).await? {
            CreatedToken::New(token) => {
                // A copy that fails is made again by the loop that copies tokens.
                if let Err(fault) = self.shards.copy_tokens().await {
                    tracing::warn!(%fault, "planner: a new token was not copied yet");
                }
                Ok((token, secret.expose().to_owned()))
            }
            CreatedToken::Before(token) => Ok((token, String::new())),
            CreatedToken::Conflict(id) => {
                let message = format!(
                    "the request_id made token {id} from other content; use a new request_id"
                );
                let fault = Fault::new(FaultCode::RequestIdConflict, message);
                Err(fault.with_field("request_id"))
            }
        }
    }

    async fn revoke(
        &self,
        caller: &Caller,
        request: &v1::RevokeTokenRequest,
    ) -> Result<v1::RevokeTokenResponse, Fault> {
        let token_id = self.token(caller, &request.token_id).await?.id;
        let call = Call::of(token_id, caller.name(), request)?;
        let planner = self.shards.primary().await?;
        let answer =
            |token: &StoredToken| v1::RevokeTokenResponse { token: Some(token.clone().into()) };
        let response = loop {
            if let Some(first) = planner.answered_before(&call).await? {
                break first;
            }
            let at = planner.now();
            let revocation = Revocation { token_id, by: caller.name(), at };
            let outcome = |token: &StoredToken| call.outcome(None, &answer(token), at);
            if let Some(token) = store::revoke_token(&planner.pool, revocation, outcome).await? {
                break answer(&token);
            }
        };
        // Also after a repeat: the first call may have failed here.
        self.shards.copy_tokens().await?;
        Ok(response)
    }

    /// A token whose namespaces the caller reaches.
    async fn token(&self, caller: &Caller, token_id: &str) -> Result<StoredToken, Fault> {
        let id: Uuid = id("token_id", token_id)?;
        let planner = self.shards.primary().await?;
        let found = store::token_by_id(&planner.pool, id).await?;
        found
            .filter(|token| caller.identity().namespaces.covers(&token.identity.namespaces))
            .ok_or_else(|| no_token(token_id))
    }

    async fn set_policy(
        &self,
        caller: &Caller,
        request: v1::SetNamespacePolicyRequest,
    ) -> Result<v1::SetNamespacePolicyResponse, Fault> {
        let namespace = reach(caller, named(request.namespace.clone()))?;
        let call = Call::of(format!("namespace_policy/{namespace}"), caller.name(), &request)?;
        let v1::SetNamespacePolicyRequest { policy, expected_version, .. } = request;
        let planner = self.shards.of_namespace(&namespace).await?;
        let policy = NamespacePolicy::try_from(policy.unwrap_or_default())?;
        // Files of overlays that are named by their digests alone are those of the stored policy.
        let stored = store::find_policy(&planner.pool, &namespace).await?;
        let stored = stored.map(|stored| stored.policy).unwrap_or_default();
        let policy = policy.with_known_overlays(&stored).validated()?;
        let answer = |stored: &StoredPolicy| v1::SetNamespacePolicyResponse {
            policy: Some(stored.policy.clone().into()),
            version: u64::try_from(stored.version).unwrap_or_default(),
        };
        loop {
            if let Some(first) = planner.answered_before(&call).await? {
                return Ok(first);
            }
            let updated_at = planner.now();
            let new = NewPolicy {
                namespace: &namespace,
                policy: &policy,
                expected_version: expected_version
                    .map(|version| i64::try_from(version).unwrap_or(i64::MAX)),
                updated_by: caller.name(),
                updated_at,
            };
            let outcome = |stored: &StoredPolicy| call.outcome(None, &answer(stored), updated_at);
            let set = store::set_policy(&planner.pool, new, outcome).await?;
            planner.policies.forget(&namespace);
            match set {
                SetPolicy::Stored(stored) => return Ok(answer(&stored)),
                SetPolicy::OtherVersion => {
                    let message = "the policy has another version now; read it again and retry";
                    let fault = Fault::new(FaultCode::VersionConflict, message);
                    return Err(fault.with_field("expected_version"));
                }
                SetPolicy::Repeated => {}
            }
        }
    }
}

/// What a new token will be.
struct Draft {
    identity: Identity,
    request_id: String,
    request_digest: String,
    expires_at: Option<DateTime<Utc>>,
    replaces: Option<(Uuid, DateTime<Utc>)>,
}

fn refused(error: IdentityError) -> Problem {
    error.into()
}

/// A token grants at most what its creator has.
fn may_grant(caller: &Caller, identity: &Identity) -> Result<(), Fault> {
    let own = caller.identity();
    let name = caller.name();
    let denied = |message| Err(Fault::new(FaultCode::PermissionDenied, message));
    if let Some(role) = own.cannot_grant(&identity.roles) {
        return denied(format!("{name:?} does not have the role {role} and cannot grant it"));
    }
    if !own.namespaces.covers(&identity.namespaces) {
        return denied(format!("{name:?} does not reach all of these namespaces"));
    }
    Ok(())
}

/// The namespace, when the caller reaches it.
fn reach(caller: &Caller, namespace: Result<String, Problem>) -> Result<String, Fault> {
    let namespace = namespace?;
    caller.may(&Object::namespace(&namespace), || no_namespace(&namespace))?;
    Ok(namespace)
}

fn no_token(token_id: &str) -> Fault {
    let message = format!("no token has the id {token_id}, or it has ended");
    Fault::new(FaultCode::TokenNotFound, message).with_field("token_id")
}

/// The moment a duration after now.
fn after(
    now: DateTime<Utc>,
    field: &str,
    duration: &Duration,
    least_seconds: i64,
) -> Result<DateTime<Utc>, Problem> {
    let refused = || {
        let message = format!("is no duration of at least {least_seconds} seconds");
        Problem::at(Code::TypeMismatch, field, message)
    };
    if duration.seconds < least_seconds || duration.nanos < 0 {
        return Err(refused());
    }
    let delta = TimeDelta::try_seconds(duration.seconds).ok_or_else(refused)?;
    now.checked_add_signed(delta).ok_or_else(refused)
}

fn shown(found: Option<StoredPolicy>) -> v1::GetNamespacePolicyResponse {
    match found {
        None => v1::GetNamespacePolicyResponse {
            policy: Some(v1::NamespacePolicy::default()),
            ..v1::GetNamespacePolicyResponse::default()
        },
        Some(StoredPolicy { policy, version, updated_at, updated_by }) => {
            v1::GetNamespacePolicyResponse {
                policy: Some(policy.into()),
                version: u64::try_from(version).unwrap_or_default(),
                updated_at: Some(timestamp(updated_at)),
                updated_by,
            }
        }
    }
}
