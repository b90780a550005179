//! The data folder of `surety up`, where other commands find its files.
//!
//! ```text
//!   DIR/ -+- endpoint    the planner's address, written when everything is ready
//!         +- token       the bearer token of the person, 0600
//!         +- driver-token, service-token   those of a driver and of the services themselves, 0600
//!         +- postgres/   the private database
//!         +- executor/   the workspaces of runs that name none
//!         +- keys/       the private keys of the services, 0600, and the file of trusted keys
//! ```

use data_encoding::HEXLOWER;
use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use surety_common::config::{DataDirConfig, Secret};
use surety_common::domain::signature::Service;
use surety_executor::scratch;

use crate::failure::{Code, Failure};

/// The random bytes of a generated token.
const TOKEN_BYTES: usize = 32;

/// A data folder, which may not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFolder {
    path: PathBuf,
}

impl DataFolder {
    /// The configured folder, else the user's default one.
    ///
    /// # Errors
    /// None is configured and the user has no home.
    pub fn choose(config: &DataDirConfig) -> Result<Self, Failure> {
        let path = match &config.data_dir {
            Some(path) => path.clone(),
            None => {
                default_path(geteuid().is_root(), |name| std::env::var_os(name).map(PathBuf::from))
                    .ok_or_else(|| {
                        Failure::new(
                            Code::SettingInvalid,
                            "no data folder is configured and HOME is not set",
                            "Set one with --data-dir (SURETY_DATA_DIR).",
                        )
                    })?
            }
        };
        let path = std::path::absolute(&path).map_err(Failure::file(&path))?;
        Ok(Self { path })
    }

    /// Creates the folder unless it exists.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn make(&self) -> Result<(), Failure> {
        // For root the database runs as another user, which must be able to enter the folder;
        // private data is in folders of its own.
        let made = match geteuid().is_root() {
            true => scratch::make(&self.path),
            false => DirBuilder::new().recursive(true).mode(0o700).create(&self.path),
        };
        made.map_err(Failure::file(&self.path))
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the private database.
    #[must_use]
    pub fn postgres(&self) -> PathBuf {
        self.path.join("postgres")
    }

    /// The folder of the executor.
    #[must_use]
    pub fn executor(&self) -> PathBuf {
        self.path.join("executor")
    }

    /// The file of the person's token.
    #[must_use]
    pub fn token(&self) -> PathBuf {
        self.path.join("token")
    }

    /// The file of a driver's token.
    #[must_use]
    pub fn driver_token(&self) -> PathBuf {
        self.path.join("driver-token")
    }

    /// The file of the token that the services show to each other.
    #[must_use]
    pub fn service_token(&self) -> PathBuf {
        self.path.join("service-token")
    }

    /// The file of trusted keys that is set, else the one in the folder that is chosen.
    ///
    /// # Errors
    /// Those of [`DataFolder::choose`].
    pub fn trusted_keys_of(set: Option<&Path>, config: &DataDirConfig) -> Result<PathBuf, Failure> {
        match set {
            Some(file) => Ok(file.to_owned()),
            None => Ok(Self::choose(config)?.trusted_keys()),
        }
    }

    /// The file with the private key of a service.
    #[must_use]
    pub fn key(&self, service: Service) -> PathBuf {
        self.path.join("keys").join(format!("{service}.pem"))
    }

    /// The file of trusted keys.
    #[must_use]
    pub fn trusted_keys(&self) -> PathBuf {
        self.path.join("keys").join("trusted-keys.json")
    }

    /// The file with the planner's address.
    #[must_use]
    pub fn endpoint(&self) -> PathBuf {
        self.path.join("endpoint")
    }

    /// The recorded address; none when no `surety up` ran here.
    #[must_use]
    pub fn noted_endpoint(&self) -> Option<String> {
        let text = fs::read_to_string(self.endpoint()).ok()?;
        let address = text.trim();
        (!address.is_empty()).then(|| address.to_owned())
    }

    /// Records the address atomically.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn note_endpoint(&self, address: &str) -> Result<(), Failure> {
        let path = self.endpoint();
        let file = self.beside(&format!("{address}\n"))?;
        file.persist(&path).map(drop).map_err(|error| Failure::file(&path)(error.error))
    }

    /// The file with the ports of the services, a line each.
    fn ports(&self) -> PathBuf {
        self.path.join("ports")
    }

    /// Records the ports of the services atomically. They stay recorded when the services end: a service that starts while
    /// a command runs is out of its reach, too.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn note_ports(&self, ports: &[u16]) -> Result<(), Failure> {
        let path = self.ports();
        let text: String = ports.iter().map(|port| format!("{port}\n")).collect();
        let file = self.beside(&text)?;
        file.persist(&path).map(drop).map_err(|error| Failure::file(&path)(error.error))
    }

    /// The ports that services had at their last start here; none when no `surety up` ran.
    #[must_use]
    pub fn noted_ports(&self) -> Vec<u16> {
        let text = fs::read_to_string(self.ports()).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    }

    /// Removes the address, unless another process recorded its own in the meantime.
    pub fn forget_endpoint(&self, address: &str) {
        if self.noted_endpoint().as_deref() == Some(address)
            && let Err(error) = fs::remove_file(self.endpoint())
        {
            tracing::warn!(%error, "up: the file endpoint could not be removed; it names an address that is no longer served");
        }
    }

    /// The token in one of the folder's files, made at the first start.
    ///
    /// # Errors
    /// It cannot be created, or the existing one cannot be used.
    pub fn token_made_if_missing(&self, path: &Path) -> Result<Secret, Failure> {
        if !path.exists() {
            // No other user can read a file that is created this way.
            let made = self.beside(&format!("{}\n", random_token()?))?;
            match made.persist_noclobber(path) {
                Ok(_) => {}
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::file(path)(error.error)),
            }
        }
        Ok(surety_common::config::read_client_token(path)?)
    }

    fn beside(&self, text: &str) -> Result<tempfile::NamedTempFile, Failure> {
        let unusable = Failure::file;
        let mut file = tempfile::NamedTempFile::new_in(&self.path).map_err(unusable(&self.path))?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.as_file().sync_all())
            .map_err(unusable(&self.path))?;
        Ok(file)
    }
}

fn random_token() -> Result<String, Failure> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0; TOKEN_BYTES];
    File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(Failure::file(source))?;
    Ok(HEXLOWER.encode(&bytes))
}

/// For root the database runs as another user, which cannot enter root's home.
fn default_path(root: bool, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if root {
        return Some(PathBuf::from("/var/lib/surety"));
    }
    let absolute = |path: &PathBuf| path.is_absolute();
    let data = variable("XDG_DATA_HOME").filter(absolute).or_else(|| {
        let home = variable("HOME").filter(absolute)?;
        Some(home.join(".local/share"))
    })?;
    Some(data.join("surety"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder() -> (tempfile::TempDir, DataFolder) {
        let kept = tempfile::tempdir().unwrap();
        let data_dir = Some(kept.path().join("data"));
        let folder = DataFolder::choose(&DataDirConfig { data_dir }).unwrap();
        folder.make().unwrap();
        (kept, folder)
    }

    #[test]
    fn the_token_is_made_once_and_for_its_owner_alone() {
        let (_kept, folder) = folder();
        let first = folder.token_made_if_missing(&folder.token()).unwrap();
        let again = folder.token_made_if_missing(&folder.token()).unwrap();
        assert!(first == again && first.expose().len() == 64);
        let mode = fs::metadata(folder.token()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn an_address_is_removed_only_by_the_process_that_recorded_it() {
        let (_kept, folder) = folder();
        assert_eq!(folder.noted_endpoint(), None);
        folder.note_endpoint("http://127.0.0.1:1").unwrap();
        folder.note_endpoint("http://127.0.0.1:2").unwrap();
        folder.forget_endpoint("http://127.0.0.1:1");
        assert_eq!(folder.noted_endpoint().as_deref(), Some("http://127.0.0.1:2"));
        folder.forget_endpoint("http://127.0.0.1:2");
        assert_eq!(folder.noted_endpoint(), None);
    }

    #[test]
    fn the_ports_of_the_last_services_are_known() {
        let (_kept, folder) = folder();
        assert!(folder.noted_ports().is_empty());
        folder.note_ports(&[9001, 9002, 9003]).unwrap();
        folder.note_ports(&[9101, 9102]).unwrap();
        assert_eq!(folder.noted_ports(), [9101, 9102]);
    }

    #[test]
    fn the_default_folder_is_one_that_the_database_can_enter() {
        let home = |name: &str| (name == "HOME").then(|| PathBuf::from("/home/me"));
        let xdg = |name: &str| (name == "XDG_DATA_HOME").then(|| PathBuf::from("/data"));
        let cases = [
            (default_path(true, home), Some("/var/lib/surety")),
            (default_path(false, home), Some("/home/me/.local/share/surety")),
            (default_path(false, xdg), Some("/data/surety")),
            (default_path(false, |_| None), None),
        ];
        for (found, expected) in cases {
            assert_eq!(found.as_deref(), expected.map(Path::new));
        }
    }
}
