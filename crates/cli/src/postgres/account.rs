//! The user that Postgres runs as: it refuses root, so root changes to another user.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::unistd::{Uid, User, geteuid};

use super::error::PostgresError;

/// The user of the server and of initdb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Account {
    uid: u32,
    /// The group to change to; none when the process already runs as the user.
    change_to_gid: Option<u32>,
}

impl Account {
    /// The owner of an existing cluster, else the current user; for root `postgres` or `nobody`.
    pub(super) fn choose(cluster: &Path) -> Result<Self, PostgresError> {
        let ours = geteuid();
        let owner = fs::metadata(cluster).ok().map(|found| (found.uid(), found.gid()));
        let account = match owner {
            Some((uid, _)) if uid == ours.as_raw() && !ours.is_root() => Self::ourselves(ours),
            Some((uid, gid)) if ours.is_root() && uid != 0 => {
                Self { uid, change_to_gid: Some(gid) }
            }
            Some((owner, _)) => {
                return Err(PostgresError::NotOurs { path: cluster.to_owned(), owner });
            }
            None if ours.is_root() => Self::instead_of_root()?,
            None => Self::ourselves(ours),
        };
        account.refuse_unreachable(cluster)?;
        Ok(account)
    }

    pub(super) const fn uid(&self) -> u32 {
        self.uid
    }

    /// A command that runs as this user, in a folder that it can enter and without the environment:
    /// a stray `PGDATA` or `PGHOST` must not redirect it.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").env_clear().env("LC_ALL", "C");
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        if let Some(gid) = self.change_to_gid {
            command.uid(self.uid).gid(gid);
        }
        command
    }

    /// Makes `path` accessible to this user alone.
    pub(super) fn own(&self, path: &Path) -> Result<(), PostgresError> {
        let made_private = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
        made_private.map_err(PostgresError::folder(path))?;
        match self.change_to_gid {
            Some(gid) => {
                chown(path, Some(self.uid), Some(gid)).map_err(PostgresError::folder(path))
            }
            None => Ok(()),
        }
    }

    fn ourselves(uid: Uid) -> Self {
        Self { uid: uid.as_raw(), change_to_gid: None }
    }

    fn instead_of_root() -> Result<Self, PostgresError> {
        let user = ["postgres", "nobody"]
            .into_iter()
            .find_map(|name| User::from_name(name).ok().flatten())
            .ok_or(PostgresError::NoAccount)?;
        Ok(Self { uid: user.uid.as_raw(), change_to_gid: Some(user.gid.as_raw()) })
    }

    /// Postgres itself would only report that it cannot find its configuration.
    fn refuse_unreachable(&self, path: &Path) -> Result<(), PostgresError> {
        let Some(gid) = self.change_to_gid else {
            return Ok(());
        };
        let closed = |folder: &&Path| {
            fs::metadata(folder).is_ok_and(|found| {
                let needed = if found.uid() == self.uid {
                    0o100
                } else if found.gid() == gid {
                    0o010
                } else {
                    0o001
                };
                found.mode() & needed == 0
            })
        };
        match path.ancestors().skip(1).find(closed) {
            None => Ok(()),
            Some(blocked) => Err(PostgresError::Unreachable {
                path: path.to_owned(),
                user: self.uid,
                blocked: blocked.to_owned(),
            }),
        }
    }
}
