//! A Postgres that a test can stop, crash and replace.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use surety_cli::postgres::{Binaries, EmbeddedPostgres};
use tempfile::TempDir;

/// The process of the server of this folder.
///
/// # Errors
/// The file that names it cannot be read.
pub fn server_of(cluster: &Path) -> Result<Pid> {
    let text = std::fs::read_to_string(cluster.join("postmaster.pid"))?;
    let pid = text.lines().next().context("the file of the server's process is empty")?;
    Ok(Pid::from_raw(pid.parse()?))
}

/// A server on a data folder that outlives its stops.
pub struct Cluster {
    folder: TempDir,
    server: Option<EmbeddedPostgres>,
}

impl Cluster {
    /// Makes a fresh one and starts it.
    ///
    /// # Errors
    /// No Postgres is installed, or it does not start.
    pub async fn start() -> Result<Self> {
        let mut cluster = Self { folder: open_folder()?, server: None };
        cluster.again().await?;
        Ok(cluster)
    }

    /// Makes a streaming replica of this one and starts it; from now on every commit waits until
    /// the replica has it on its disk. None where `pg_basebackup` is not installed.
    ///
    /// # Errors
    /// The copy failed, or the replica does not start.
    pub async fn replica(&self) -> Result<Option<Self>> {
        let program = Binaries::find(None, None)?.program("pg_basebackup");
        if !program.exists() {
            return Ok(None);
        }
        let folder = open_folder()?;
        let copy = folder.path().join("cluster");
        std::fs::create_dir(&copy)?;
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o700))?;
        let (user, group) = self.account()?;
        chown(&copy, Some(user), Some(group))?;
        let mut command = Command::new(program);
        command.args(["-R", "-X", "stream", "-c", "fast", "-U", "surety", "-h"]);
        command.arg(self.socket_folder()).arg("-D").arg(&copy).current_dir("/");
        if nix::unistd::geteuid().is_root() {
            command.uid(user).gid(group);
        }
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut replica = Self { folder, server: None };
        replica.again().await?;
        let pool = sqlx::PgPool::connect(&self.url()?).await?;
        sqlx::query("alter system set synchronous_standby_names = '*'").execute(&pool).await?;
        sqlx::query("select pg_reload_conf()").execute(&pool).await?;
        pool.close().await;
        Ok(Some(replica))
    }

    /// Makes this replica a primary, and waits until it is one.
    ///
    /// # Errors
    /// It is none, or cannot be.
    pub async fn promote(&self) -> Result<()> {
        let pool = sqlx::PgPool::connect(&self.url()?).await?;
        let promoted: bool =
            sqlx::query_scalar("select pg_promote(true, 60)").fetch_one(&pool).await?;
        pool.close().await;
        ensure!(promoted, "the replica was not promoted");
        Ok(())
    }

    /// Starts it again.
    ///
    /// # Errors
    /// It does not start.
    pub async fn again(&mut self) -> Result<()> {
        self.server = Some(EmbeddedPostgres::start(self.folder.path()).await?);
        Ok(())
    }

    /// Its database, also while it is stopped.
    ///
    /// # Errors
    /// The folder's path is none that an address can hold.
    pub fn url(&self) -> Result<String> {
        let socket = self.socket_folder();
        let socket = socket.to_str().context("a path of plain letters")?.replace('/', "%2F");
        Ok(format!("postgres://surety@{socket}:5432/surety"))
    }

    /// Where its socket is.
    pub fn socket_folder(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap_or_default().join("socket")
    }

    /// The user and the group that the server runs under.
    ///
    /// # Errors
    /// It was never started.
    pub fn account(&self) -> Result<(u32, u32)> {
        let found = std::fs::metadata(self.folder.path().join("cluster"))?;
        Ok((found.uid(), found.gid()))
    }

    /// Kills it, as a crash would.
    ///
    /// # Errors
    /// It does not run.
    pub async fn crash(&mut self) -> Result<()> {
        let server = self.server.take().context("the server runs")?;
        kill(server_of(&self.folder.path().join("cluster"))?, Signal::SIGQUIT)?;
        Ok(server.stop().await?)
    }

    /// Stops it, if it runs.
    ///
    /// # Errors
    /// It did not end.
    pub async fn stop(&mut self) -> Result<()> {
        match self.server.take() {
            Some(server) => Ok(server.stop().await?),
            None => Ok(()),
        }
    }
}

/// A folder that the account may enter which Postgres runs under.
///
/// # Errors
/// No folder can be made.
fn open_folder() -> Result<TempDir> {
    Ok(tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o755)).tempdir()?)
}
