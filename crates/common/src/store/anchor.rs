//! Anchors of verdicts: which verdicts have none, and the storing of a new one.

use super::StoreError;
use super::pool::within;
use super::stored_time::StoredTime;
use crate::domain::signature::{AnchorTree, Digest, RangeProof, anchored_line};
use crate::domain::timestamp::Token;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// The most verdicts of one anchor.
const MOST_VERDICTS: i64 = 4096;
/// How far before the end of the last anchor verdicts are looked for: one may be stored a while after it was decided.
const LATE: TimeDelta = TimeDelta::minutes(10);
/// The advisory lock of the gate that asks for an anchor.
const ANCHORING: i64 = 0x5375_7265_7479_0003;

/// A verdict without an anchor.
#[derive(Debug, sqlx::FromRow)]
struct UnanchoredRow {
    run_id: Uuid,
    sequence: i64,
    #[sqlx(try_from = "StoredTime")]
    decided_at: DateTime<Utc>,
    signature: Vec<u8>,
}

/// Verdicts that are to be anchored together. The transaction that it holds keeps other gates from anchoring the same.
pub struct AnchorBatch {
    transaction: sqlx::Transaction<'static, sqlx::Postgres>,
    rows: Vec<UnanchoredRow>,
    tree: AnchorTree,
}

impl AnchorBatch {
    /// The verdicts since the last anchor, or, before the first one, since anchoring was configured. None without any,
    /// and while another gate anchors.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn take(pool: &PgPool) -> Result<Option<Self>, StoreError> {
        within(async {
            let mut transaction = pool.begin().await?;
            if !lock(&mut transaction).await? {
                return Ok(None);
            }
            let since: Option<DateTime<Utc>> =
                sqlx::query_scalar(include_str!("sql/anchored_through.sql"))
                    .fetch_one(&mut *transaction)
                    .await?;
            let Some(since) = since else {
                // The lock goes at once, and not when the connection is used again.
                transaction.rollback().await?;
                return Ok(None);
            };
            let rows: Vec<UnanchoredRow> =
                sqlx::query_as(include_str!("sql/verdicts_to_anchor.sql"))
                    .bind(since - LATE)
                    .bind(MOST_VERDICTS)
                    .fetch_all(&mut *transaction)
                    .await?;
            let lines =
                rows.iter().map(|row| anchored_line(&row.run_id.to_string(), &row.signature));
            match AnchorTree::over(lines.collect()) {
                Some(tree) => Ok(Some(Self { transaction, rows, tree })),
                None => {
                    transaction.rollback().await?;
                    Ok(None)
                }
            }
        })
        .await
    }

    /// What the time stamp is to be about.
    pub const fn root(&self) -> Digest {
        self.tree.root()
    }

    /// How many verdicts it has.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// Whether more verdicts may wait: it has as many as one anchor takes.
    pub fn is_full(&self) -> bool {
        i64::try_from(self.rows.len()).is_ok_and(|count| count >= MOST_VERDICTS)
    }

    /// The anchor as a file, to be kept outside the database.
    pub fn to_file(&self, token: &Token) -> String {
        self.tree.to_file(token.der())
    }

    /// Stores the anchor with its token, which the caller checked.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn store(self, anchor_id: Uuid, token: &Token) -> Result<(), StoreError> {
        let Self { mut transaction, rows, tree } = self;
        let proofs = tree.proofs();
        let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let leaf_count = proofs.first().map_or(0, |proof| proof.leaf_count);
        let through = rows.iter().map(|row| row.decided_at).max().unwrap_or_default();
        let storing = sqlx::query(include_str!("sql/store_anchor.sql"))
            .bind(anchor_id)
            .bind(token.at())
            .bind(through)
            .bind(number(leaf_count))
            .bind(token.der())
            .bind(rows.iter().map(|row| row.run_id).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.sequence).collect::<Vec<_>>())
            .bind(proofs.iter().map(|proof| number(proof.first)).collect::<Vec<_>>())
            .bind(proofs.iter().map(nodes).collect::<Vec<_>>());
        within(async {
            storing.execute(&mut *transaction).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }
}

fn nodes(proof: &RangeProof) -> Vec<u8> {
    proof.nodes.as_flattened().to_vec()
}

async fn lock(connection: &mut PgConnection) -> Result<bool, StoreError> {
    let locking = sqlx::query_scalar("select pg_try_advisory_xact_lock($1)").bind(ANCHORING);
    Ok(locking.fetch_one(connection).await?)
}

/// Notes that verdicts are to be anchored from a time on, unless that was noted before.
///
/// # Errors
/// [`StoreError`]
pub async fn begin_anchoring(pool: &PgPool, started: DateTime<Utc>) -> Result<(), StoreError> {
    let noting = sqlx::query(include_str!("sql/begin_anchoring.sql")).bind(started);
    within(async { Ok(noting.execute(pool).await?) }).await.map(drop)
}

/// Deletes anchors that are older than `before` and whose verdicts are all deleted.
///
/// # Errors
/// [`StoreError`]
pub async fn forget_anchors(pool: &PgPool, before: DateTime<Utc>) -> Result<u64, StoreError> {
    let deleting = sqlx::query(include_str!("sql/forget_anchors.sql")).bind(before);
    Ok(within(async { Ok(deleting.execute(pool).await?) }).await?.rows_affected())
}
