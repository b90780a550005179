//! Errors between a service and its rows.

use crate::domain::fault::{Fault, FaultCode};
use crate::domain::problem::{Code, Problem};
use std::io::ErrorKind;

/// The pause that a caller is advised to make while the database is unavailable, in milliseconds.
const RETRY_AFTER_MS: u64 = 500;

/// A failed read or change of rows. A lost race is no error: see [`super::Outcome`].
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is unreachable. The same call may succeed later; it is unknown whether this one
    /// took effect.
    #[error("the database cannot be reached: {}", said(.client))]
    Unavailable {
        /// The error of the database client.
        client: sqlx::Error,
    },
    /// A change breaks a constraint that the database checks. This is a defect of the caller.
    #[error("the constraint {constraint} refused the change")]
    Constraint {
        /// The constraint's name in the schema.
        constraint: String,
    },
    /// A row cannot be decoded.
    #[error("{what} cannot be read: {why}")]
    Corrupt {
        /// The row and the column.
        what: String,
        /// The reason.
        why: String,
    },
    /// A row cannot be decoded, and is not what was signed.
    #[error("the evidence is not what was signed: {place}")]
    Rewritten {
        /// The first such place.
        place: String,
    },
    /// The database's schema differs from what this program expects, or it refuses the statement.
    #[error("the database refused the statement: {}", said(.client))]
    Refused {
        /// The error of the database client.
        client: sqlx::Error,
    },
    /// A text contains U+0000, which the database cannot store.
    #[error("a text holds U+0000, which cannot be stored")]
    Unstorable,
    /// A newer program migrated the database.
    #[error(
        "the database's schema has version {found}, and this program supports versions up to \
         {known}; use the program version that migrated it, or a newer one"
    )]
    NewerSchema {
        /// The schema version of the database.
        found: i64,
        /// The newest schema version that this program supports.
        known: i64,
    },
    /// The role of one service may not migrate a schema that an earlier version of this program made.
    #[error(
        "the database's schema has version {found}, this program needs {known}, and its role may not change the \
         schema; run `surety migrate --roles` as the schema's owner"
    )]
    OlderSchema {
        /// The schema version of the database.
        found: i64,
        /// The schema version that this program needs.
        known: i64,
    },
    /// The database's migrations differ from this program's.
    #[error("the schema migration failed: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// The result would take more memory than one call may use.
    #[error("{what} exceeds the limit of {limit} bytes for one call; {instead}")]
    TooLarge {
        /// What was requested.
        what: String,
        /// The limit in bytes.
        limit: usize,
        /// What to do instead.
        instead: &'static str,
    },
    /// The process is shutting down and accepts no more changes.
    #[error("the process is shutting down")]
    ShuttingDown,
}

impl StoreError {
    /// A row or column that cannot be decoded.
    pub(crate) fn corrupt(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self::Corrupt { what: what.into(), why: why.to_string() }
    }

    /// Whether the database role of this process lacks the right to the statement (SQLSTATE 42501,
    /// `insufficient_privilege`).
    pub(crate) fn is_denied(&self) -> bool {
        let Self::Refused { client: sqlx::Error::Database(error) } = self else { return false };
        error.code().is_some_and(|code| code == "42501")
    }

    /// Whether the server, its database or its role has no connection to give (SQLSTATE 53300,
    /// `too_many_connections`).
    pub(super) fn is_out_of_connections(&self) -> bool {
        let Self::Unavailable { client: sqlx::Error::Database(error) } = self else { return false };
        error.code().is_some_and(|code| code == "53300")
    }

    /// This error of the first connection to an address. A role or database that is refused there is a wrong address; later
    /// it is one that an operator changed.
    pub(super) fn at_start(self) -> Self {
        if let Self::Unavailable { client } = self {
            let code = client.as_database_error().and_then(sqlx::error::DatabaseError::code);
            return match code.is_some_and(|code| is_of_address(&code)) {
                true => Self::Refused { client },
                false => Self::Unavailable { client },
            };
        }
        self
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. } => true,
            Self::Constraint { .. }
            | Self::Corrupt { .. }
            | Self::Rewritten { .. }
            | Self::Refused { .. }
            | Self::Unstorable
            | Self::NewerSchema { .. }
            | Self::OlderSchema { .. }
            | Self::Migration(_)
            | Self::TooLarge { .. }
            | Self::ShuttingDown => false,
        }
    }
}

/// Whether a SQLSTATE refuses the role or the database of an address: `invalid_authorization_specification`,
/// `invalid_password`, `invalid_catalog_name`.
fn is_of_address(code: &str) -> bool {
    matches!(code, "28000" | "28P01" | "3D000")
}

/// What the database or its client says, without the client's own words around it.
fn said(client: &sqlx::Error) -> String {
    if let Some(error) = client.as_database_error() {
        let code = error.code().map(|code| format!(" (SQLSTATE {code})"));
        return format!("{}{}", error.message(), code.unwrap_or_default());
    }
    if let sqlx::Error::Io(error) = client {
        return match error.kind() == ErrorKind::UnexpectedEof {
            true => "the connection was closed".to_owned(),
            false => error.to_string(),
        };
    }
    if matches!(client, sqlx::Error::PoolTimedOut) {
        return "no connection was free, or none could be opened or answered, in time".to_owned();
    }
    client.to_string()
}

impl From<sqlx::Error> for StoreError {
    fn from(client: sqlx::Error) -> Self {
        if let sqlx::Error::Database(error) = &client {
            if let Some(constraint) = error.constraint() {
                return Self::Constraint { constraint: constraint.to_owned() };
            }
            let code = error.code().unwrap_or_default();
            return match (&*code, code.get(..2)) {
                ("22021" | "22P05", _) => Self::Unstorable,
                // Read only: the server is a standby, or was one until a failover. A transaction that was idle or took
                // too long, a lock that was not free in time, an object in use, a database that takes no connections.
                ("25006" | "25P03" | "25P04" | "55P03" | "55006" | "55000", _)
                // Classes: connection, rollback, resources, operator, system.
                | (_, Some("08" | "40" | "53" | "57" | "58")) => Self::Unavailable { client },
                // A role or database that is refused while a connection is opened: no statement was judged.
                (code, _) if is_of_address(code) => Self::Unavailable { client },
                (_, _) => Self::Refused { client },
            };
        }
        if let sqlx::Error::ColumnDecode { index, source } = &client {
            return Self::corrupt(format!("column {}", index.trim_matches('"')), source);
        }
        // The client's errors for a connection that cannot be opened or was lost.
        let away = matches!(
            client,
            sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed
        );
        if away { Self::Unavailable { client } } else { Self::Refused { client } }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Unavailable { .. } => {
                Self::new(FaultCode::DatabaseUnavailable, error.to_string())
                    .with_retry_after_ms(RETRY_AFTER_MS)
            }
            StoreError::ShuttingDown => Self::new(FaultCode::ShuttingDown, error.to_string())
                .with_retry_after_ms(RETRY_AFTER_MS),
            StoreError::Unstorable => {
                Problem::new(Code::TypeMismatch, format!("{error}; take it out")).into()
            }
            StoreError::Rewritten { .. } => {
                Self::new(FaultCode::ReceiptsInvalid, error.to_string())
            }
            StoreError::TooLarge { .. } => Self::new(FaultCode::RunTooLarge, error.to_string()),
            StoreError::Constraint { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Refused { .. }
            | StoreError::NewerSchema { .. }
            | StoreError::OlderSchema { .. }
            | StoreError::Migration(_) => {
                // The details describe internals: they go to the log, not to the caller.
                tracing::error!(%error, "store: a request failed because of a defect; report the error");
                Self::new(
                    FaultCode::Internal,
                    "The service failed because of an internal defect; its log has the details.",
                )
            }
        }
    }
}
