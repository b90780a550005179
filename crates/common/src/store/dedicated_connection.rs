//! A connection of one worker's own, beside the pool.
//!
//! A connection that goes through the pool is asked for a sign of life each time it is given back,
//! and a worker gets another one each time, whose server process has to warm up to its statements
//! again. A loop that sends one statement after the other keeps its connection instead, and one that
//! must be heard in time does not stand in line behind the others.

use super::StoreError;
use super::pool::{ANSWER, FRESH, alive, connect_beside, within_at_most};
use sqlx::PgPool;
use sqlx::postgres::PgConnection;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// The connection that one worker keeps from statement to statement. It is made when it is first
/// needed, and made anew after any failure.
pub struct DedicatedConnection {
    pool: PgPool,
    bound: Duration,
    kept: Option<(PgConnection, Instant)>,
}

impl DedicatedConnection {
    /// None yet, to be made as the pool makes its own.
    pub fn new(pool: PgPool) -> Self {
        Self::bounded(pool, ANSWER)
    }

    /// As [`DedicatedConnection::new`], for a worker whose questions must be answered within `bound`, the making of
    /// the connection counted.
    pub fn bounded(pool: PgPool, bound: Duration) -> Self {
        Self { pool, bound, kept: None }
    }

    /// Lets the connection go: the next one brings the database's time.
    pub fn forget(&mut self) {
        self.kept = None;
    }

    /// Has `work` done over the connection, which is kept for the next one when it succeeds.
    ///
    /// # Errors
    /// What the work answers; [`StoreError::Unavailable`] when there is no connection, or no answer
    /// in time, and then it is not known whether the work took effect.
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

    /// The connection, for one piece of work. It is kept for the next one when it is given back with
    /// [`Lent::keep`], and closed when it is just dropped: after an error, or in the middle of a
    /// statement, nobody knows what it would answer next.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]
    pub(super) async fn lend(&mut self) -> Result<Lent<'_>, StoreError> {
        let connection = match self.kept.take() {
            Some((connection, used_at)) if used_at.elapsed() < FRESH => connection,
            Some((mut connection, _)) => match alive(&mut connection).await {
                Ok(()) => connection,
                Err(_) => connect_beside(&self.pool).await?,
            },
            None => connect_beside(&self.pool).await?,
        };
        Ok(Lent { dedicated: self, connection })
    }
}

/// The connection while it is at work.
pub(super) struct Lent<'a> {
    dedicated: &'a mut DedicatedConnection,
    connection: PgConnection,
}

impl Lent<'_> {
    /// Gives it back: every answer was heard to its end.
    pub(super) fn keep(self) {
        self.dedicated.kept = Some((self.connection, Instant::now()));
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
