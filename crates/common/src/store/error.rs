//! What can go wrong between a service and its rows.

use crate::domain::fault::{Fault, FaultCode};
use crate::domain::problem::{Code, Problem};

/// After how long a call that met a database that is away is worth another try.
const RETRY_AFTER_MS: u64 = 500;

/// A failed look at, or change of, the rows. A lost race is no error: see [`super::Outcome`].
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached now. The same call may succeed later, and whether this one
    /// took effect is not known.
    #[error("the database cannot be reached: {source}")]
    Unavailable {
        /// What the driver said.
        source: sqlx::Error,
    },
    /// A row breaks a rule that the database itself repeats. It names a defect of the caller.
    #[error("the constraint {constraint} refused the change")]
    Constraint {
        /// The constraint's name in the schema.
        constraint: String,
    },
    /// A row does not read as what it should be.
    #[error("{what} does not read: {why}")]
    Corrupt {
        /// The row and the column.
        what: String,
        /// Why not.
        why: String,
    },
    /// The database is of another version than this program, or refuses the statement.
    #[error("the database refused the statement: {source}")]
    Refused {
        /// What the database said.
        source: sqlx::Error,
    },
    /// A text holds a character that the database cannot keep: U+0000.
    #[error("a text holds U+0000, which cannot be stored")]
    Unstorable,
    /// The database was brought up to date by a newer program than this one.
    #[error(
        "the database's schema is of version {found} and this program knows versions up to \
         {known}: use a program as new as the one that made it"
    )]
    NewerSchema {
        /// The version of the database.
        found: i64,
        /// The newest version this program knows.
        known: i64,
    },
    /// The migrations do not fit this program.
    #[error("the schema could not be brought up to date: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// What is asked for would take more memory than one call may.
    #[error("{what} is more than the {limit} bytes that are held at once; {instead}")]
    TooLarge {
        /// What it is.
        what: String,
        /// How many bytes may be held at once.
        limit: usize,
        /// What can be done instead.
        instead: &'static str,
    },
    /// The process is shutting down and takes no more changes.
    #[error("the process is shutting down")]
    ShuttingDown,
}

impl StoreError {
    /// A row or column that does not read.
    pub(crate) fn corrupt(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self::Corrupt { what: what.into(), why: why.to_string() }
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. } => true,
            Self::Constraint { .. }
            | Self::Corrupt { .. }
            | Self::Refused { .. }
            | Self::Unstorable
            | Self::NewerSchema { .. }
            | Self::Migration(_)
            | Self::TooLarge { .. }
            | Self::ShuttingDown => false,
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(source: sqlx::Error) -> Self {
        if let sqlx::Error::Database(error) = &source {
            if let Some(constraint) = error.constraint() {
                return Self::Constraint { constraint: constraint.to_owned() };
            }
            let code = error.code().unwrap_or_default();
            return match (&*code, code.get(..2)) {
                ("22021" | "22P05", _) => Self::Unstorable,
                // Read only: this one is, or was until a failover, a standby.
                ("25006", _)
                // Classes: connection, rollback, resources, operator, system.
                | (_, Some("08" | "40" | "53" | "57" | "58")) => Self::Unavailable { source },
                (_, _) => Self::Refused { source },
            };
        }
        if let sqlx::Error::ColumnDecode { index, source } = &source {
            return Self::corrupt(format!("column {}", index.trim_matches('"')), source);
        }
        // The driver's own kinds of a connection that cannot be had or was lost.
        let away = matches!(
            source,
            sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed
        );
        if away { Self::Unavailable { source } } else { Self::Refused { source } }
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
            StoreError::TooLarge { .. } => Self::new(FaultCode::RunTooLarge, error.to_string()),
            StoreError::Constraint { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Refused { .. }
            | StoreError::NewerSchema { .. }
            | StoreError::Migration(_) => {
                // What a defect says of our insides is for the log, not for the caller.
                tracing::error!(%error, "a defect in the rows");
                Self::new(FaultCode::Internal, "The service met a defect of its dedicated.")
            }
        }
    }
}
