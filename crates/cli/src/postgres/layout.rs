//! The files in the data folder, and their permissions.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use super::account::Account;
use super::binaries::Binaries;
use super::durability::Durability;
use super::error::PostgresError;
use surety_executor::scratch;

/// The role that owns everything; the permissions of the socket's folder decide who may use it.
pub(super) const ROLE: &str = "surety";
/// Only part of the socket's file name, because the server does not listen on TCP.
pub(super) const PORT: u16 = 5432;
/// A socket's whole path has at most 103 bytes on a Mac and 107 on Linux, and Postgres appends
/// `/.s.PGSQL.5432` to the folder.
const LONGEST_SOCKET_FOLDER: usize = 103 - 14;
/// The part of the log that an error quotes, in bytes.
const LOG_TAIL_BYTES: u64 = 3000;

/// The lock of a data folder. It is given back by name: a process that is being started holds a copy of the
/// file until its program begins, and closing this one alone would leave the folder locked until then.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "postgres: the data folder's lock ends with this process");
        }
    }
}

/// A locked data folder.
#[derive(Debug)]
pub(super) struct Layout {
    data_dir: PathBuf,
    cluster: PathBuf,
    socket: PathBuf,
    _lock: Lock,
}

impl Layout {
    /// Creates the folder unless it exists, and locks it.
    pub(super) fn open(data_dir: &Path) -> Result<Self, PostgresError> {
        // Of the cluster's own folder only Postgres' account is the owner.
        scratch::make(data_dir).map_err(PostgresError::folder(data_dir))?;
        let data_dir = fs::canonicalize(data_dir).map_err(PostgresError::folder(data_dir))?;
        let lock = take_lock(&data_dir)?;
        let cluster = data_dir.join("cluster");
        let socket = socket_folder(&data_dir);
        Ok(Self { data_dir, cluster, socket, _lock: lock })
    }

    /// Creates the socket's folder, accessible to `account` alone.
    pub(super) fn with_socket(self, account: &Account) -> Result<Self, PostgresError> {
        let path = self.socket.as_path();
        match fs::DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => account.own(path)?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(PostgresError::folder(path)(error)),
        }
        // Every user that may enter this folder acts as the database's owner, and in /tmp any user
        // could have created it first.
        let found = fs::symlink_metadata(path).map_err(PostgresError::folder(path))?;
        if found.is_dir() && found.uid() == account.uid() && found.mode() & 0o077 == 0 {
            return Ok(self);
        }
        Err(PostgresError::SocketFolder { path: path.to_owned(), user: account.uid() })
    }

    pub(super) fn cluster(&self) -> &Path {
        &self.cluster
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn has_cluster(&self) -> bool {
        self.cluster.exists()
    }

    /// The version that created the cluster; no other can read it.
    pub(super) fn cluster_major(&self) -> Result<Option<u32>, PostgresError> {
        if !self.has_cluster() {
            return Ok(None);
        }
        let path = self.cluster.join("PG_VERSION");
        let text = fs::read_to_string(&path).map_err(PostgresError::folder(&path))?;
        Ok(text.trim().parse().ok())
    }

    /// Creates the cluster in a temporary folder and renames it when it is complete, so that an
    /// interrupted initdb leaves no partial cluster.
    pub(super) async fn initialise(
        &self,
        binaries: &Binaries,
        account: &Account,
        durability: Durability,
    ) -> Result<(), PostgresError> {
        let unfinished = self.data_dir.join("cluster.new");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(PostgresError::folder(&unfinished))?;
        }
        fs::create_dir(&unfinished).map_err(PostgresError::folder(&unfinished))?;
        account.own(&unfinished)?;
        let program = binaries.program("initdb");
        let mut command = account.command(&program);
        command.args(["--username", ROLE, "--encoding", "UTF8", "--locale", "C"]);
        command.args(["--auth-local", "trust", "--auth-host", "reject", "--no-instructions"]);
        if durability == Durability::Fast {
            command.arg("--no-sync");
        }
        command.arg("--pgdata").arg(&unfinished);
        let output = tokio::process::Command::from(command)
            .output()
            .await
            .map_err(|source| PostgresError::Program { program, source })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(PostgresError::Initialise { status: output.status, output: said });
        }
        fs::rename(&unfinished, &self.cluster).map_err(PostgresError::folder(&self.cluster))
    }

    /// A log for one start; the previous one is kept.
    pub(super) fn open_log(&self) -> Result<File, PostgresError> {
        let path = self.log();
        if path.exists() {
            let before = self.data_dir.join("server.log.1");
            fs::rename(&path, &before).map_err(PostgresError::folder(&before))?;
        }
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        options.open(&path).map_err(PostgresError::folder(&path))
    }

    pub(super) fn log_tail(&self) -> String {
        let read = || {
            let mut file = File::open(self.log())?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
            let mut tail = Vec::new();
            file.read_to_end(&mut tail)?;
            std::io::Result::Ok(String::from_utf8_lossy(&tail).into_owned())
        };
        read().unwrap_or_else(|error| format!("{} cannot be read: {error}", self.log().display()))
    }

    pub(super) fn url(&self, database: &str) -> String {
        // The folder name contains letters, digits, `-`, `_`, `.` and `/` only; see `is_plain`.
        let host = self.socket.to_string_lossy().replace('/', "%2F");
        format!("postgres://{ROLE}@{host}:{PORT}/{database}")
    }

    /// The options for the database that every cluster has.
    pub(super) fn connect_options(&self) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .socket(&self.socket)
            .port(PORT)
            .username(ROLE)
            .database("postgres")
            .ssl_mode(PgSslMode::Disable)
    }

    fn log(&self) -> PathBuf {
        self.data_dir.join("server.log")
    }
}

/// A folder in `temp`, or in the usual one for temporary files, that is removed with its owner, and that the account may enter,
/// whatever the umask. Private data is in folders of its own.
pub(super) fn temporary_folder(temp: Option<&Path>) -> Result<tempfile::TempDir, PostgresError> {
    let parent = temp.map_or_else(std::env::temp_dir, Path::to_owned);
    let folder = tempfile::Builder::new()
        .prefix("surety-pg-")
        .tempdir_in(&parent)
        .map_err(PostgresError::folder(&parent))?;
    if geteuid().is_root() {
        let enterable = fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711));
        enterable.map_err(PostgresError::folder(folder.path()))?;
    }
    Ok(folder)
}

fn take_lock(data_dir: &Path) -> Result<Lock, PostgresError> {
    let path = data_dir.join("lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(&path).map_err(PostgresError::folder(&path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let known = file.read_to_string(&mut pid).is_ok() && !pid.trim().is_empty();
            let owner = if known { format!("(process {})", pid.trim()) } else { String::new() };
            return Err(PostgresError::InUse { path: data_dir.to_owned(), owner });
        }
        Err(TryLockError::Error(source)) => return Err(PostgresError::folder(&path)(source)),
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(PostgresError::folder(&path))?;
    Ok(Lock(file))
}

fn socket_folder(data_dir: &Path) -> PathBuf {
    let inside = data_dir.join("socket");
    if is_plain(&inside) {
        return inside;
    }
    let mut hasher = DefaultHasher::new();
    data_dir.hash(&mut hasher);
    PathBuf::from(format!("/tmp/surety-{}-{:016x}", geteuid(), hasher.finish()))
}

/// Whether the path is short enough for a socket and needs no quoting in the server's settings or
/// in a URL.
fn is_plain(path: &Path) -> bool {
    path.as_os_str().len() <= LONGEST_SOCKET_FOLDER
        && path.to_str().is_some_and(|text| {
            text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_no_socket_can_have_gets_a_short_folder_of_its_own() {
        let long = Path::new("/home").join("x".repeat(100));
        let cases = [
            (Path::new("/var/lib/surety"), true),
            (Path::new("/Users/me/Library/Application Support/surety"), false),
            (Path::new("/home/a,b"), false),
            (long.as_path(), false),
        ];
        for (data_dir, inside) in cases {
            let found = socket_folder(data_dir);
            assert_eq!(found.starts_with(data_dir), inside, "{}", found.display());
            assert!(is_plain(&found), "{}", found.display());
        }
        assert_ne!(socket_folder(Path::new("/a b")), socket_folder(Path::new("/a c")));
    }
}
