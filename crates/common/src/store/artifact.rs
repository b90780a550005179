//! Outputs too large for the journal, by the digest of their content.

use super::StoreError;
use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

/// A large output. The same content is stored once.
#[derive(Debug, Clone)]
pub struct Artifact {
    /// Hex SHA-256 of the body.
    pub digest: String,
    /// The whole content.
    pub body: Vec<u8>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// Stores artifacts that are not there yet, and which run may refer to each.
pub(super) async fn store(
    connection: &mut PgConnection,
    artifacts: &[(Uuid, &Artifact)],
) -> Result<(), StoreError> {
    for (run_id, artifact) in artifacts {
        let bytes = i64::try_from(artifact.body.len())
            .map_err(|error| StoreError::corrupt("an artifact's length", error))?;
        sqlx::query(include_str!("sql/store_artifact.sql"))
            .bind(&artifact.digest)
            .bind(bytes)
            .bind(&artifact.body)
            .bind(artifact.created_at)
            .bind(run_id)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
