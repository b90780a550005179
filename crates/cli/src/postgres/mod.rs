//! A private Postgres from the machine's own binaries.
//!
//! ```text
//!   data_dir/ -+- lock         held while this process lives: one owner for each data folder
//!              +- cluster/     the database itself, 0700
//!              +- socket/     the only way to connect, 0700 (in /tmp if this path is too long)
//!              +- server.log   of this start; server.log.1 of the previous one
//! ```
//!
//! It listens on no TCP port, so no other user can connect, and it cannot conflict with another
//! Postgres. The server is a child process that ends with its parent. One that survived a killed
//! parent is stopped before the next start.

mod account;
mod binaries;
mod dev;
mod durability;
mod error;
mod layout;
mod orphan;
mod process;
mod server;

use std::path::Path;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};

pub use binaries::Binaries;
pub use dev::run_with_database;
pub use durability::Durability;
pub use error::PostgresError;

use account::Account;
use layout::Layout;
use server::Server;

/// The database that [`EmbeddedPostgres::url`] names.
pub const DATABASE: &str = "surety";
/// Crash recovery replays the log first, which may take minutes on a slow disk.
const READY_DEADLINE: Duration = Duration::from_secs(180);
/// A fast shutdown writes one checkpoint.
const STOP_DEADLINE: Duration = Duration::from_secs(60);

/// A running private Postgres. Dropping it stops the server and blocks during a fast shutdown;
/// prefer [`EmbeddedPostgres::stop`].
#[derive(Debug)]
pub struct EmbeddedPostgres {
    // Fields are dropped in this order, so the lock and the files outlive the server.
    server: Server,
    layout: Layout,
    _temporary: Option<tempfile::TempDir>,
}

/// Where a temporary server has what it needs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Folders<'a> {
    /// The folder with the programs of Postgres; without it the search path and the folders of packages.
    pub bin: Option<&'a Path>,
    /// The folder for temporary files in which its own is made; without it that of `TMPDIR`, or /tmp.
    pub temp: Option<&'a Path>,
}

impl EmbeddedPostgres {
    /// Starts the server on `data_dir`, which is created unless it exists, with the database
    /// `surety`.
    ///
    /// # Errors
    /// No Postgres is installed, the folder is in use or cannot be used, or the server does not
    /// start; each error says what to do.
    pub async fn start(data_dir: &Path) -> Result<Self, PostgresError> {
        Self::launch(data_dir, Durability::Full, &[], (None, None)).await
    }

    /// As [`EmbeddedPostgres::start`], with the programs in this folder where one is named.
    ///
    /// # Errors
    /// As [`EmbeddedPostgres::start`].
    pub async fn start_from(bin: Option<&Path>, data_dir: &Path) -> Result<Self, PostgresError> {
        Self::launch(data_dir, Durability::Full, &[], (bin, None)).await
    }

    /// Starts a server whose data is removed with it, with additional settings, each `name=value`.
    /// They override the defaults, except those that keep the server private.
    ///
    /// # Errors
    /// As [`EmbeddedPostgres::start`]; a setting that Postgres refuses prevents its start.
    pub async fn start_temporary(
        durability: Durability,
        settings: &[&str],
    ) -> Result<Self, PostgresError> {
        Self::start_temporary_in(Folders::default(), durability, settings).await
    }

    /// As [`EmbeddedPostgres::start_temporary`], with the folders that are named.
    ///
    /// # Errors
    /// As [`EmbeddedPostgres::start_temporary`].
    pub async fn start_temporary_in(
        folders: Folders<'_>,
        durability: Durability,
        settings: &[&str],
    ) -> Result<Self, PostgresError> {
        let folder = layout::temporary_folder(folders.temp)?;
        let data_dir = folder.path().to_owned();
        Self::launch(&data_dir, durability, settings, (folders.bin, Some(folder))).await
    }

    /// The URL of the database `surety`, for `DATABASE_URL`.
    #[must_use]
    pub fn url(&self) -> String {
        self.layout.url(DATABASE)
    }

    /// Stops the server, which closes its connections, and waits until it has ended.
    ///
    /// # Errors
    /// It did not end, even after an immediate shutdown.
    pub async fn stop(self) -> Result<(), PostgresError> {
        self.server.stop(STOP_DEADLINE).await
    }

    /// Completes when the server has ended, and says how.
    pub async fn ended(&self) -> PostgresError {
        let status = self.server.end().await;
        PostgresError::Ended { status, log: self.layout.log_tail() }
    }

    async fn launch(
        data_dir: &Path,
        durability: Durability,
        settings: &[&str],
        (bin, temporary): (Option<&Path>, Option<tempfile::TempDir>),
    ) -> Result<Self, PostgresError> {
        let layout = Layout::open(data_dir)?;
        let account = Account::choose(layout.cluster())?;
        let layout = layout.with_socket(&account)?;
        let binaries = Binaries::find(bin, layout.cluster_major()?)?;
        orphan::stop(&layout).await?;
        if !layout.has_cluster() {
            layout.initialise(&binaries, &account, durability).await?;
        }
        let settings = server::settings(&layout, durability, settings);
        let server = Server::start(&binaries, &layout, &account, &settings)?;
        let this = Self { server, layout, _temporary: temporary };
        this.make_ready().await?;
        Ok(this)
    }

    async fn make_ready(&self) -> Result<(), PostgresError> {
        let mut connection = self.connect().await?;
        self.refuse_a_stranger(&mut connection).await?;
        create_database(&mut connection).await?;
        connection.close().await?;
        Ok(())
    }

    async fn connect(&self) -> Result<PgConnection, PostgresError> {
        let options = self.layout.connect_options();
        let attempts = async {
            loop {
                if let Some(status) = self.server.ended() {
                    let log = self.layout.log_tail();
                    return Err(PostgresError::Ended { status, log });
                }
                if let Ok(connection) = PgConnection::connect_with(&options).await {
                    return Ok(connection);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(READY_DEADLINE, attempts).await.unwrap_or_else(|_| {
            let log = self.layout.log_tail();
            Err(PostgresError::NotReady { waited: READY_DEADLINE, log })
        })
    }

    /// No database is created before the server is known to be the right one.
    async fn refuse_a_stranger(&self, connection: &mut PgConnection) -> Result<(), PostgresError> {
        let found: String = sqlx::query_scalar("show data_directory").fetch_one(connection).await?;
        let wanted = self.layout.cluster();
        if Path::new(&found) == wanted {
            return Ok(());
        }
        Err(PostgresError::Stranger { wanted: wanted.to_owned(), found: found.into() })
    }
}

async fn create_database(connection: &mut PgConnection) -> Result<(), PostgresError> {
    let known: bool =
        sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
            .bind(DATABASE)
            .fetch_one(&mut *connection)
            .await?;
    if !known {
        let statement = AssertSqlSafe(format!("create database {DATABASE}"));
        sqlx::query(statement).execute(connection).await?;
    }
    Ok(())
}
