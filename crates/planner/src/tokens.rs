//! Tokens in the databases of namespaces.

use sqlx::PgPool;
use std::time::Duration;
use surety_common::store::{self, Identities};

/// How often the tokens of the primary database are copied to those of namespaces, beside the copy that
/// follows each change.
const TOKENS_COPIED_EVERY: Duration = Duration::from_secs(30);

/// The tokens of the primary database, for the databases of namespaces.
#[derive(Clone)]
pub(crate) struct Tokens {
    pub(crate) primary: PgPool,
    pub(crate) identities: Identities,
}

impl Tokens {
    /// Brings the tokens of these namespaces to their database, and answers callers from there while the
    /// primary one is away.
    pub(crate) async fn reach(&self, pool: &PgPool, namespaces: &[String]) {
        self.identities.add(pool.clone());
        self.copy(pool, namespaces).await;
    }

    /// Copies again and again, for what could not be copied at once.
    pub(crate) async fn go_on(self, pool: PgPool, namespaces: Vec<String>) {
        loop {
            tokio::time::sleep(TOKENS_COPIED_EVERY).await;
            self.copy(&pool, &namespaces).await;
        }
    }

    async fn copy(&self, pool: &PgPool, namespaces: &[String]) {
        if let Err(error) = store::copy_tokens(&self.primary, pool, namespaces).await {
            tracing::warn!(
                %error,
                namespaces = namespaces.join(", "),
                "planner: tokens were not copied to the database of these namespaces; trying again"
            );
        }
    }
}
