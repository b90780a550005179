//! Bearer tokens, by the digest of their secret.

use super::StoreError;
use super::execution::to_text;
use super::pool::within;
use crate::domain::identity::{EVERY_NAMESPACE, Identity, Namespaces, Role};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

/// SHA-256 of a secret.
pub type TokenHash = [u8; 32];

/// Who a token that came from a file was created by.
const IMPORTER: &str = "surety/import";

/// A token as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// Its id.
    pub id: Uuid,
    /// The digest of its secret.
    pub hash: TokenHash,
    /// What it stands for.
    pub identity: Identity,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// The identity that made it.
    pub created_by: String,
    /// When it ends by itself.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was revoked.
    pub revoked_at: Option<DateTime<Utc>>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<DateTime<Utc>>,
}

impl StoredToken {
    /// Whether it stands for its identity at a time.
    #[must_use]
    pub fn is_valid(&self, now: DateTime<Utc>) -> bool {
        self.revoked_at.is_none_or(|at| now < at) && self.expires_at.is_none_or(|at| now < at)
    }
}

#[derive(sqlx::FromRow)]
pub(super) struct TokenRow {
    id: Uuid,
    hash: Vec<u8>,
    name: String,
    roles: Vec<String>,
    namespaces: Vec<String>,
    created_at: DateTime<Utc>,
    created_by: String,
    expires_at: Option<DateTime<Utc>>,
    revoked_at: Option<DateTime<Utc>>,
    last_used_at: Option<DateTime<Utc>>,
}

impl TokenRow {
    pub(super) fn into_token(self) -> Result<StoredToken, StoreError> {
        let what = || format!("token {}", self.id);
        let corrupt = |error: &dyn std::fmt::Display| StoreError::corrupt(what(), error);
        let roles = self.roles.iter().map(|role| role.parse::<Role>());
        let roles = roles.collect::<Result<Vec<_>, _>>().map_err(|error| corrupt(&error))?;
        let namespaces = Namespaces::from_names(self.namespaces.clone());
        let namespaces = namespaces.map_err(|error| corrupt(&error))?;
        let identity = Identity::new(&self.name, roles, namespaces);
        let identity = identity.map_err(|error| corrupt(&error))?;
        let hash = self.hash.as_slice().try_into().map_err(|error| corrupt(&error))?;
        Ok(StoredToken {
            id: self.id,
            hash,
            identity,
            created_at: self.created_at,
            created_by: self.created_by,
            expires_at: self.expires_at,
            revoked_at: self.revoked_at,
            last_used_at: self.last_used_at,
        })
    }
}

/// The token with this digest, whether or not it is still valid.
///
/// # Errors
/// [`StoreError`]
pub async fn find_token(
    pool: &PgPool,
    hash: &TokenHash,
) -> Result<Option<StoredToken>, StoreError> {
    let found = sqlx::query_as(include_str!("sql/find_token.sql")).bind(hash.as_slice());
    let row: Option<TokenRow> = within(async { Ok(found.fetch_optional(pool).await?) }).await?;
    row.map(TokenRow::into_token).transpose()
}

/// Records that a token was used, at most once a minute.
///
/// # Errors
/// [`StoreError`]
pub async fn use_token(
    pool: &PgPool,
    hash: &TokenHash,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let used = sqlx::query(include_str!("sql/used_token.sql")).bind(hash.as_slice()).bind(now);
    within(async { Ok(used.execute(pool).await.map(drop)?) }).await
}

/// Stores tokens that came from a file, unless they are known: a token that was revoked stays
/// revoked. Answers how many are new.
///
/// # Errors
/// [`StoreError`]
pub async fn import_tokens(
    pool: &PgPool,
    tokens: &[(TokenHash, Identity)],
    now: DateTime<Utc>,
) -> Result<usize, StoreError> {
    let mut columns = TokenColumns::default();
    for (hash, identity) in tokens {
        columns.push(imported_id(hash), hash, identity)?;
    }
    let audit_ids: Vec<Uuid> = tokens.iter().map(|_| Uuid::now_v7()).collect();
    let importing = sqlx::query_scalar(include_str!("sql/import_tokens.sql"))
        .bind(&columns.id)
        .bind(&columns.hash)
        .bind(&columns.name)
        .bind(&columns.roles)
        .bind(&columns.namespaces)
        .bind(&audit_ids)
        .bind(now)
        .bind(IMPORTER);
    let imported: Vec<Uuid> = within(async { Ok(importing.fetch_all(pool).await?) }).await?;
    Ok(imported.len())
}

/// Brings the tokens of namespaces from the primary database to the one that holds the namespaces.
///
/// # Errors
/// [`StoreError`]
pub async fn copy_tokens(
    primary: &PgPool,
    copy: &PgPool,
    namespaces: &[String],
) -> Result<(), StoreError> {
    let mut wanted = namespaces.to_vec();
    wanted.push(EVERY_NAMESPACE.to_owned());
    let reading = sqlx::query_as(include_str!("sql/tokens_to_copy.sql")).bind(&wanted);
    let rows: Vec<TokenRow> = within(async { Ok(reading.fetch_all(primary).await?) }).await?;
    let mut columns = TokenColumns::default();
    let (mut created_at, mut created_by) = (Vec::new(), Vec::new());
    let (mut expires_at, mut revoked_at) = (Vec::new(), Vec::new());
    for row in rows {
        let token = row.into_token()?;
        columns.push(token.id, &token.hash, &token.identity)?;
        created_at.push(token.created_at);
        created_by.push(token.created_by);
        expires_at.push(token.expires_at);
        revoked_at.push(token.revoked_at);
    }
    let copying = sqlx::query(include_str!("sql/copy_tokens.sql"))
        .bind(&columns.id)
        .bind(&columns.hash)
        .bind(&columns.name)
        .bind(&columns.roles)
        .bind(&columns.namespaces)
        .bind(created_at)
        .bind(created_by)
        .bind(expires_at)
        .bind(revoked_at);
    within(async { Ok(copying.execute(copy).await.map(drop)?) }).await
}

/// The same secret has the same id in every database that imports it.
fn imported_id(hash: &TokenHash) -> Uuid {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash).for_each(|(byte, digest)| *byte = *digest);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// The columns of many tokens, as arrays.
#[derive(Default)]
struct TokenColumns {
    id: Vec<Uuid>,
    hash: Vec<Vec<u8>>,
    name: Vec<String>,
    /// Divided by commas, which no role holds.
    roles: Vec<String>,
    /// JSON, because a namespace may hold any character.
    namespaces: Vec<String>,
}

impl TokenColumns {
    fn push(&mut self, id: Uuid, hash: &TokenHash, identity: &Identity) -> Result<(), StoreError> {
        let roles: Vec<&str> = identity.roles.iter().map(|role| role.as_str()).collect();
        self.id.push(id);
        self.hash.push(hash.to_vec());
        self.name.push(identity.name.clone());
        self.roles.push(roles.join(","));
        self.namespaces.push(to_text(&identity.namespaces.to_names())?);
        Ok(())
    }
}
