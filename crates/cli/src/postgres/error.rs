//! Why a private Postgres could not be had.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use thiserror::Error;

/// Why a private Postgres could not be had; each text says what to do.
#[derive(Debug, Error)]
pub enum PostgresError {
    /// No Postgres of version 15 or later is installed.
    #[error(
        "no Postgres {wanted} is installed (found: {found}). Install one, on Debian or Ubuntu \
         with `sudo apt-get install {debian}`, on a Mac with `brew install {mac}`; or set \
         SURETY_POSTGRES_BIN to the folder of one that lies elsewhere, or DATABASE_URL to one that \
         runs already"
    )]
    NotInstalled {
        /// Which versions would do.
        wanted: String,
        /// Which versions are there.
        found: String,
        /// The package of Debian and Ubuntu.
        debian: String,
        /// The package of Homebrew.
        mac: String,
    },
    /// Another process owns the data folder.
    #[error(
        "another `surety up` {owner} already runs on {path}. Stop it, or choose another data \
         folder"
    )]
    InUse {
        /// The data folder.
        path: PathBuf,
        /// The owner's process, as far as it is known.
        owner: String,
    },
    /// A server of an earlier owner does not end.
    #[error("the Postgres of an earlier run (process {pid}) does not stop. Run: kill -9 {pid}")]
    OrphanStays {
        /// The server's process.
        pid: i32,
    },
    /// The cluster belongs to somebody else.
    #[error("{path} belongs to user {owner}. Run as that user, or choose another data folder")]
    NotOurs {
        /// The cluster's folder.
        path: PathBuf,
        /// The owner's user id.
        owner: u32,
    },
    /// We are root, which Postgres refuses, and there is no user to change to.
    #[error(
        "Postgres refuses to run as root, and this machine has neither a user `postgres` nor \
         `nobody` to run it as. Run as an ordinary user, or set DATABASE_URL"
    )]
    NoAccount,
    /// The user that Postgres runs as cannot enter a folder above its data.
    #[error(
        "Postgres refuses to run as root and runs as user {user}, who cannot enter {blocked} on \
         the way to {path}. Choose a data folder outside of it, such as /var/lib/surety"
    )]
    Unreachable {
        /// Where the data would be.
        path: PathBuf,
        /// The user's id.
        user: u32,
        /// The first folder that cannot be entered.
        blocked: PathBuf,
    },
    /// Somebody else made the socket's folder.
    #[error("{path} is not a folder that only user {user} can enter. Remove it")]
    SocketFolder {
        /// The folder.
        path: PathBuf,
        /// Whose it has to be.
        user: u32,
    },
    /// A file or folder could not be used.
    #[error("{path} cannot be used: {source}")]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A program of Postgres could not be started.
    #[error("{program} cannot be started: {source}")]
    Program {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A new cluster could not be made.
    #[error("initdb failed ({status}):\n{output}")]
    Initialise {
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        output: String,
    },
    /// The server ended while it started.
    #[error("Postgres ended at its start ({status}). The end of its log:\n{log}")]
    Ended {
        /// How it ended.
        status: String,
        /// The last lines of its log.
        log: String,
    },
    /// The server runs and takes no connection.
    #[error("Postgres takes no connection after {waited:?}. The end of its log:\n{log}")]
    NotReady {
        /// How long it was given.
        waited: Duration,
        /// The last lines of its log.
        log: String,
    },
    /// Our socket leads to a server with other data.
    #[error("the server at our socket keeps its data in {found}, not in {wanted}: not touched")]
    Stranger {
        /// Our data.
        wanted: PathBuf,
        /// Its data.
        found: PathBuf,
    },
    /// The server did not stop.
    #[error("Postgres (process {pid}) did not stop. Run: kill -9 {pid}")]
    NotStopped {
        /// The server's process.
        pid: u32,
    },
    /// A database's name that would have to be quoted.
    #[error("{name:?} is no database name of lower-case letters, digits and underscores")]
    DatabaseName {
        /// The name.
        name: String,
    },
    /// Postgres refused a statement or a connection.
    #[error("Postgres refused: {0}")]
    Sql(#[from] sqlx::Error),
    /// The command to run beside the database could not be started.
    #[error("{command:?} cannot be run: {source}")]
    Command {
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },
}

impl PostgresError {
    pub(super) fn folder(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Folder { path: path.to_owned(), source }
    }
}
