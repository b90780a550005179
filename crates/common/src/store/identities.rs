//! Which identity a token stands for, remembered for a moment.
//!
//! ```text
//!   digest --> read less than FRESH ago      --> the answer
//!          --> less than STALE ago           --> the answer, and it is read again meanwhile
//!          --> otherwise                     --> it is read first
//! ```
//!
//! So a busy token costs one query each half second and process, and a token that was revoked, or
//! made, anywhere counts as such within a second.

use super::token::{StoredToken, TokenHash, find_token, use_token};
use super::{StoreError, pool};
use crate::clock;
use crate::domain::identity::Identity;
use chrono::TimeDelta;
use hashlink::LruCache;
use sqlx::PgPool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// An answer so young is not asked for again.
const FRESH: Duration = Duration::from_millis(500);
/// An answer so old does not count any more. This is how long a revocation may take to be seen.
const STALE: Duration = Duration::from_secs(1);
/// Tokens that are remembered, known and unknown ones.
const REMEMBERED: usize = 10_000;
/// Reads at the same time: a flood of unknown tokens leaves connections for those who are known.
const READS: usize = 4;
/// A use is recorded when the last recorded one is so old.
const USE_RECORDED_EVERY: TimeDelta = TimeDelta::minutes(1);

/// The tokens of a process. Cloning shares them.
#[derive(Clone)]
pub struct Identities {
    inner: Arc<Inner>,
}

struct Inner {
    /// The primary one first.
    pools: RwLock<Vec<PgPool>>,
    remembered: Mutex<LruCache<TokenHash, Remembered>>,
    reads: Semaphore,
}

struct Remembered {
    token: Option<Arc<ValidToken>>,
    read_at: Instant,
    /// Whether it is being read again.
    refreshing: bool,
}

struct ValidToken {
    stored: StoredToken,
    identity: Arc<Identity>,
}

impl Identities {
    /// Those of one database.
    #[must_use]
    pub fn of(pool: PgPool) -> Self {
        Self {
            inner: Arc::new(Inner {
                pools: RwLock::new(vec![pool]),
                remembered: Mutex::new(LruCache::new(REMEMBERED)),
                reads: Semaphore::new(READS),
            }),
        }
    }

    /// Asks this database too while the ones before it are away; it has copies of the tokens that
    /// reach its namespaces.
    pub fn add(&self, pool: PgPool) {
        self.inner.pools.write().unwrap_or_else(PoisonError::into_inner).push(pool);
    }

    /// Forgets what is remembered, after a change by this process.
    pub fn forget(&self) {
        self.inner.lock().clear();
    }

    /// The identity that a token stands for now; none when it is unknown, expired or revoked.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when no database can say.
    pub async fn find(&self, hash: &TokenHash) -> Result<Option<Arc<Identity>>, StoreError> {
        match self.inner.recall(hash) {
            Recalled::Answer(token) => return Ok(identity_now(token)),
            Recalled::Ageing(token) => {
                let (inner, hash) = (Arc::clone(&self.inner), *hash);
                tokio::spawn(async move {
                    if let Err(error) = inner.read(&hash).await {
                        tracing::debug!(%error, "a token was not read again");
                        inner.refreshed_in_vain(&hash);
                    }
                });
                return Ok(identity_now(token));
            }
            Recalled::Unknown => {}
        }
        let _place = self.inner.reads.acquire().await.map_err(|_| StoreError::ShuttingDown)?;
        // Another call may have read it while this one waited for its place.
        match self.inner.recall(hash) {
            Recalled::Answer(token) | Recalled::Ageing(token) => Ok(identity_now(token)),
            Recalled::Unknown => Ok(identity_now(self.inner.read(hash).await?)),
        }
    }
}

enum Recalled {
    Answer(Option<Arc<ValidToken>>),
    Ageing(Option<Arc<ValidToken>>),
    Unknown,
}

/// An expiry counts at once, however young the answer is.
fn identity_now(token: Option<Arc<ValidToken>>) -> Option<Arc<Identity>> {
    token
        .filter(|token| token.stored.is_valid(clock::now()))
        .map(|token| Arc::clone(&token.identity))
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, LruCache<TokenHash, Remembered>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recall(&self, hash: &TokenHash) -> Recalled {
        let mut remembered = self.lock();
        let Some(found) = remembered.get_mut(hash) else { return Recalled::Unknown };
        let age = found.read_at.elapsed();
        if age < FRESH || age < STALE && found.refreshing {
            return Recalled::Answer(found.token.clone());
        }
        if age < STALE {
            found.refreshing = true;
            return Recalled::Ageing(found.token.clone());
        }
        Recalled::Unknown
    }

    fn refreshed_in_vain(&self, hash: &TokenHash) {
        if let Some(found) = self.lock().get_mut(hash) {
            found.refreshing = false;
        }
    }

    /// Asks the databases one after the other until one answers. Only the primary one knows that
    /// there is no such token.
    async fn read(&self, hash: &TokenHash) -> Result<Option<Arc<ValidToken>>, StoreError> {
        let pools = self.pools.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut primary_error = None;
        for (place, pool) in pools.iter().enumerate() {
            // What was read is as old as the question.
            let read_at = Instant::now();
            match find_token(pool, hash).await {
                Ok(None) if place > 0 => {}
                Ok(found) => return Ok(self.remember(pool, hash, found, read_at)),
                Err(error) => {
                    primary_error.get_or_insert(error);
                }
            }
        }
        Err(primary_error.unwrap_or_else(|| sqlx::Error::PoolTimedOut.into()))
    }

    fn remember(
        &self,
        pool: &PgPool,
        hash: &TokenHash,
        found: Option<StoredToken>,
        read_at: Instant,
    ) -> Option<Arc<ValidToken>> {
        if let Some(token) = &found {
            record_use(pool, token);
        }
        let token = found.map(|stored| {
            let identity = Arc::new(stored.identity.clone());
            Arc::new(ValidToken { stored, identity })
        });
        let remembered = Remembered { token: token.clone(), read_at, refreshing: false };
        self.lock().insert(*hash, remembered);
        token
    }
}

/// Nothing waits for it: the moment of a use is for people.
fn record_use(pool: &PgPool, token: &StoredToken) {
    let now = clock::now();
    let recent = |at| now - at < USE_RECORDED_EVERY;
    if !token.is_valid(now) || token.last_used_at.is_some_and(recent) {
        return;
    }
    let (pool, hash) = (pool.clone(), token.hash);
    tokio::spawn(async move {
        if let Err(error) = use_token(&pool, &hash, now).await {
            tracing::debug!(%error, "the use of a token was not recorded");
        }
    });
}

#[cfg(feature = "wire")]
impl crate::wire::server::Authenticator for Identities {
    fn identify(
        &self,
        hash: TokenHash,
    ) -> futures::future::BoxFuture<'_, Result<Option<Arc<Identity>>, crate::domain::fault::Fault>>
    {
        Box::pin(async move { Ok(self.find(&hash).await?) })
    }
}

/// Stores the tokens of a file, again and again while the database is away. With a database role for each service, the
/// planner's may store tokens: the other services use those that it stored.
///
/// # Errors
/// Whatever waiting cannot mend.
pub(super) async fn import_patiently(
    pool: &PgPool,
    tokens: &[(TokenHash, Identity)],
) -> Result<(), StoreError> {
    if tokens.is_empty() {
        return Ok(());
    }
    let import = || super::token::import_tokens(pool, tokens, clock::now());
    match pool::patiently(import).await {
        Ok(0) => Ok(()),
        Ok(imported) => {
            tracing::info!(imported, "store: tokens of the token file were stored");
            Ok(())
        }
        Err(error) if error.is_denied() => {
            tracing::info!(
                "store: the database role of this service stores no tokens; the planner stores those of its file"
            );
            Ok(())
        }
        Err(error) => Err(error),
    }
}
