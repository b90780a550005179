//! Connections that one worker keeps, outside the pool.
//!
//! The pool pings a connection each time it is returned, and hands out another one whose server
//! process has to prepare the statements again. A worker that sends many statements keeps one
//! connection instead. A worker with a deadline does not queue behind the pool's other users.

use super::StoreError;
use super::pool::{ANSWER, Connected, FRESH, alive, connect_beside, within_at_most};
use sqlx::PgPool;
use sqlx::postgres::PgConnection;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// The connection that one worker keeps between statements. It is opened on first use, and reopened
/// after any failure.
pub struct DedicatedConnection {
    pool: PgPool,
    bound: Duration,
    kept: Option<(PgConnection, Instant)>,
}

impl DedicatedConnection {
    /// Creates an unopened connection; it is opened as the pool opens its own.
    pub fn new(pool: PgPool) -> Self {
        Self::bounded(pool, ANSWER)
    }

    /// As [`DedicatedConnection::new`], with a time limit of `bound` for each use, including the
    /// time to connect.
    pub fn bounded(pool: PgPool, bound: Duration) -> Self {
        Self { pool, bound, kept: None }
    }

    /// Closes the connection; the next one reads the database's time again.
    pub fn forget(&mut self) {
        self.kept = None;
    }

    /// Runs `work` on the connection, which is kept if `work` succeeds.
    ///
    /// # Errors
    /// The error of `work`; [`StoreError::Unavailable`] when there is no connection or no answer in
    /// time, and then it is unknown whether the work took effect.
    pub(super) async fn ask<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        within_at_most(self.bound, async {
            let mut connection = self.lend().await?;
            let answer = work(&mut connection).await?;
            connection.keep();
            Ok(answer)
        })
        .await
    }

    /// Borrows the connection for one piece of work. [`Lent::keep`] keeps it. A dropped one is
    /// closed, because after an error or in mid-statement its protocol state is unknown; one of the
    /// pool's goes back to the pool, which tests it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]
    pub(super) async fn lend(&mut self) -> Result<Lent<'_>, StoreError> {
        let connection = match self.kept.take() {
            Some((connection, used_at)) if used_at.elapsed() < FRESH => Connected::New(connection),
            Some((mut connection, _)) => match alive(&mut connection).await {
                Ok(()) => Connected::New(connection),
                Err(_) => connect_beside(&self.pool).await?,
            },
            None => connect_beside(&self.pool).await?,
        };
        Ok(Lent { dedicated: self, connection })
    }
}

/// The connection while it is borrowed.
pub(super) struct Lent<'a> {
    dedicated: &'a mut DedicatedConnection,
    connection: Connected,
}

impl Lent<'_> {
    /// Keeps the connection: every answer was read to its end. One of the pool's goes back to it.
    pub(super) fn keep(self) {
        if let Connected::New(connection) = self.connection {
            self.dedicated.kept = Some((connection, Instant::now()));
        }
    }
}

impl Deref for Lent<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}
