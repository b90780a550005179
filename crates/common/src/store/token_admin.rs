//! Creating, listing and ending tokens, each change with its audit row.

use super::StoreError;
use super::pool::within;
use super::request_outcome::{NewOutcome, store_outcome};
use super::token::{StoredToken, TokenHash, TokenRow};
use crate::domain::identity::Identity;
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

/// A token to be created.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Its id.
    pub id: Uuid,
    /// The digest of its secret.
    pub hash: TokenHash,
    /// What it stands for.
    pub identity: Identity,
    /// Now.
    pub created_at: DateTime<Utc>,
    /// The identity that creates it.
    pub created_by: String,
    /// The creator's own id for the call; may be empty.
    pub request_id: String,
    /// Digest of the call. It distinguishes a repeat from another call under the same id.
    pub request_digest: String,
    /// When it ends by itself.
    pub expires_at: Option<DateTime<Utc>>,
    /// The token that it replaces, and when that one ends.
    pub replaces: Option<(Uuid, DateTime<Utc>)>,
}

/// The outcome of a call that creates a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreatedToken {
    /// A new one.
    New(StoredToken),
    /// The same call came before and created this one.
    Before(StoredToken),
    /// Another call used the request id.
    Conflict(Uuid),
}

#[derive(sqlx::FromRow)]
struct RequestedRow {
    #[sqlx(flatten)]
    token: TokenRow,
    request_digest: String,
}

/// Creates a token, once for a request id of its creator.
///
/// # Errors
/// [`StoreError`]
pub async fn create_token(pool: &PgPool, new: &NewToken) -> Result<CreatedToken, StoreError> {
    if let Some(found) = requested(pool, new).await? {
        return Ok(found);
    }
    let roles: Vec<&str> = new.identity.roles.iter().map(|role| role.as_str()).collect();
    let action = if new.replaces.is_some() { "rotate_token" } else { "create_token" };
    let creating = sqlx::query_as(include_str!("sql/create_token.sql"))
        .bind(new.id)
        .bind(new.hash.as_slice())
        .bind(&new.identity.name)
        .bind(roles)
        .bind(new.identity.namespaces.to_names())
        .bind(new.created_at)
        .bind(&new.created_by)
        .bind(&new.request_id)
        .bind(&new.request_digest)
        .bind(new.expires_at)
        .bind(Uuid::now_v7())
        .bind(action)
        .bind(new.replaces.map(|(id, _)| id))
        .bind(new.replaces.map(|(_, ends_at)| ends_at));
    let row: Option<TokenRow> = within(async { Ok(creating.fetch_optional(pool).await?) }).await?;
    if let Some(row) = row {
        return Ok(CreatedToken::New(row.into_token()?));
    }
    // Another call with the request id was faster.
    let found = requested(pool, new).await?;
    found.ok_or_else(|| StoreError::corrupt("token", "it was neither created nor found"))
}

async fn requested(pool: &PgPool, new: &NewToken) -> Result<Option<CreatedToken>, StoreError> {
    if new.request_id.is_empty() {
        return Ok(None);
    }
    let finding = sqlx::query_as(include_str!("sql/find_requested_token.sql"))
        .bind(&new.created_by)
        .bind(&new.request_id);
    let row: Option<RequestedRow> =
        within(async { Ok(finding.fetch_optional(pool).await?) }).await?;
    let Some(RequestedRow { token, request_digest }) = row else { return Ok(None) };
    let token = token.into_token()?;
    Ok(Some(match request_digest == new.request_digest {
        true => CreatedToken::Before(token),
        false => CreatedToken::Conflict(token.id),
    }))
}

/// A token by its id.
///
/// # Errors
/// [`StoreError`]
pub async fn token_by_id(pool: &PgPool, id: Uuid) -> Result<Option<StoredToken>, StoreError> {
    let finding = sqlx::query_as(include_str!("sql/find_token_by_id.sql")).bind(id);
    let row: Option<TokenRow> = within(async { Ok(finding.fetch_optional(pool).await?) }).await?;
    row.map(TokenRow::into_token).transpose()
}

/// At most `limit` tokens after `after`, all of whose namespaces are among `reached`; an empty list
/// stands for every namespace.
///
/// # Errors
/// [`StoreError`]
pub async fn list_tokens(
    pool: &PgPool,
    reached: &[String],
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<StoredToken>, StoreError> {
    let listing =
        sqlx::query_as(include_str!("sql/list_tokens.sql")).bind(after).bind(reached).bind(limit);
    let rows: Vec<TokenRow> = within(async { Ok(listing.fetch_all(pool).await?) }).await?;
    rows.into_iter().map(TokenRow::into_token).collect()
}

/// The revocation of a token.
#[derive(Debug, Clone, Copy)]
pub struct Revocation<'a> {
    /// The token.
    pub token_id: Uuid,
    /// The identity that revokes it.
    pub by: &'a str,
    /// Now.
    pub at: DateTime<Utc>,
}

/// Revokes a token, with its audit row and the answer of the call. A revoked token does not change.
/// None when the same call was answered concurrently: then nothing is stored.
///
/// # Errors
/// [`StoreError`]
pub async fn revoke_token(
    pool: &PgPool,
    revocation: Revocation<'_>,
    answer: impl FnOnce(&StoredToken) -> Option<NewOutcome>,
) -> Result<Option<StoredToken>, StoreError> {
    let Revocation { token_id, by, at } = revocation;
    within(async {
        let mut transaction = pool.begin().await?;
        sqlx::query(include_str!("sql/revoke_token.sql"))
            .bind(token_id)
            .bind(at)
            .bind(Uuid::now_v7())
            .bind(by)
            .execute(&mut *transaction)
            .await?;
        let row: TokenRow = sqlx::query_as(include_str!("sql/find_token_by_id.sql"))
            .bind(token_id)
            .fetch_one(&mut *transaction)
            .await?;
        let token = row.into_token()?;
        if let Some(outcome) = answer(&token)
            && !store_outcome(&mut transaction, &outcome).await?
        {
            transaction.rollback().await?;
            return Ok(None);
        }
        transaction.commit().await?;
        Ok(Some(token))
    })
    .await
}
