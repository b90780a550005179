//! Errors of a private Postgres.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use thiserror::Error;

/// Why a private Postgres could not be used; each message says what to do.
#[derive(Debug, Error)]
pub enum PostgresError {
    /// No Postgres of version 15 or later is installed.
    #[error(
        "no Postgres {wanted} is installed (found: {found}). Install one, on Debian or Ubuntu \
         with `sudo apt-get install {debian}`, on a Mac with `brew install {mac}`; or set \
         SURETY_POSTGRES_BIN to the folder of an installed one, or DATABASE_URL to one that \
         is running"
    )]
    NotInstalled {
        /// The required versions.
        wanted: String,
        /// The installed versions.
        found: String,
        /// The package of Debian and Ubuntu.
        debian: String,
        /// The package of Homebrew.
        mac: String,
    },
    /// Another process uses the data folder.
    #[error(
        "another `surety up` {owner} already uses {path}. Stop it, or choose another data \
         folder"
    )]
    InUse {
        /// The data folder.
        path: PathBuf,
        /// The owner's process, if known.
        owner: String,
    },
    /// A server of an earlier owner does not stop.
    #[error("the Postgres of an earlier run (process {pid}) does not stop. Run: kill -9 {pid}")]
    OrphanStays {
        /// The server's process.
        pid: i32,
    },
    /// The cluster belongs to another user.
    #[error("{path} belongs to user {owner}. Run as that user, or choose another data folder")]
    NotOurs {
        /// The cluster's folder.
        path: PathBuf,
        /// The owner's user id.
        owner: u32,
    },
    /// The process runs as root, which Postgres refuses, and there is no user to change to.
    #[error(
        "Postgres refuses to run as root, and this machine has neither a user `postgres` nor \
         `nobody` to run it as. Run as an ordinary user, or set DATABASE_URL"
    )]
    NoAccount,
    /// The user that Postgres runs as cannot enter a parent folder of its data.
    #[error(
        "Postgres refuses to run as root and runs as user {user}, which cannot enter {blocked} on \
         the way to {path}. Choose a data folder outside of it, such as /var/lib/surety"
    )]
    Unreachable {
        /// The data folder.
        path: PathBuf,
        /// The user's id.
        user: u32,
        /// The first folder that cannot be entered.
        blocked: PathBuf,
    },
    /// Another user created the socket's folder.
    #[error("{path} is not a folder that only user {user} can enter. Remove it")]
    SocketFolder {
        /// The folder.
        path: PathBuf,
        /// The required owner.
        user: u32,
    },
    /// A file or folder could not be used.
    #[error("{path} cannot be used: {source}")]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A program of Postgres could not be started.
    #[error("{program} cannot be started: {source}")]
    Program {
        /// The program.
        program: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A new cluster could not be created.
    #[error("initdb failed ({status}):\n{output}")]
    Initialise {
        /// The exit status.
        status: ExitStatus,
        /// The output.
        output: String,
    },
    /// The server ended, and was not asked to.
    #[error("Postgres ended by itself ({status}). The end of its log:\n{log}")]
    Ended {
        /// The exit status.
        status: String,
        /// The last lines of its log.
        log: String,
    },
    /// The server runs and accepts no connection.
    #[error("Postgres accepts no connection after {waited:?}. The end of its log:\n{log}")]
    NotReady {
        /// The time limit.
        waited: Duration,
        /// The last lines of its log.
        log: String,
    },
    /// The socket belongs to a server with other data.
    #[error(
        "the server at this socket uses the data in {found}, not in {wanted}; it is left running"
    )]
    Stranger {
        /// The expected data folder.
        wanted: PathBuf,
        /// The server's data folder.
        found: PathBuf,
    },
    /// The server did not stop.
    #[error("Postgres (process {pid}) did not stop. Run: kill -9 {pid}")]
    NotStopped {
        /// The server's process.
        pid: u32,
    },
    /// Postgres refused a statement or a connection.
    #[error("Postgres refused: {0}")]
    Sql(#[from] sqlx::Error),
    /// The command to run with the database could not be started.
    #[error("{command:?} cannot be run: {source}")]
    Command {
        /// The command.
        command: String,
        /// The reason.
        source: io::Error,
    },
}

impl PostgresError {
    pub(super) fn folder(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Folder { path: path.to_owned(), source }
    }
}
