//! The file with a private key: made once, for its owner alone, and read again when it changes.

use super::file::{open_regular, read_text, target};
use crate::clock;
use crate::config::ConfigError;
use crate::domain::signature::{KEY_BYTES, PublicKey, SecretKey};
use crate::store::CurrentKey;
use chrono::{DateTime, Utc};
use nix::unistd::geteuid;
use ring::rand::{SecureRandom, SystemRandom};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a signing service looks whether its key file changed.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A larger file holds no key.
const MOST_BYTES: u64 = 64 << 10;

/// What tells one content of a file from another without reading it.
pub(super) type Stamp = (u64, i64, i64, u64);

pub(super) fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.size())
}

/// The file with a service's private key.
pub struct KeyFile {
    path: PathBuf,
    held: Mutex<Held<Keys>>,
}

/// The key that signs, and those before it, each with the time until which it signed; the oldest first.
struct Keys {
    now: Arc<SecretKey>,
    former: Vec<(DateTime<Utc>, Arc<SecretKey>)>,
}

/// What a file held when it was last read.
pub(super) struct Held<T> {
    pub(super) value: T,
    pub(super) stamp: Stamp,
    pub(super) looked_at: Instant,
}

impl KeyFile {
    /// Reads the key in a file, and makes one where there is no file.
    ///
    /// # Errors
    /// The file cannot be made or read, other users can read it, or it holds no Ed25519 key.
    pub fn open_or_make(path: &Path) -> Result<Self, ConfigError> {
        if !path.exists() {
            make_key(path)?;
        }
        let (key, stamp) = read_key(path)?;
        let keys = Keys { now: Arc::new(key), former: Vec::new() };
        let held = Held { value: keys, stamp, looked_at: Instant::now() };
        Ok(Self { path: path.to_owned(), held: Mutex::new(held) })
    }

    /// The public half of the key in the file.
    pub fn public(&self) -> PublicKey {
        self.current().public()
    }
}

impl KeyFile {
    /// Reads the file where it changed.
    fn look(&self) -> MutexGuard<'_, Held<Keys>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.looked_at.elapsed() >= LOOK_EVERY {
            held.looked_at = Instant::now();
            let changed = fs::metadata(&self.path).is_ok_and(|found| stamp(&found) != held.stamp);
            if changed {
                match read_key(&self.path) {
                    Ok((key, stamp)) => {
                        tracing::info!(key = %key.public().id(), "keys: the key file changed; this key signs from now on");
                        let before = std::mem::replace(&mut held.value.now, Arc::new(key));
                        held.value.former.push((clock::now(), before));
                        held.stamp = stamp;
                    }
                    Err(error) => {
                        tracing::error!(%error, "keys: the changed key file cannot be used; the key before it signs on");
                    }
                }
            }
        }
        held
    }
}

impl CurrentKey for KeyFile {
    fn current(&self) -> Arc<SecretKey> {
        Arc::clone(&self.look().value.now)
    }

    fn at(&self, time: DateTime<Utc>) -> Arc<SecretKey> {
        let held = self.look();
        let Keys { now, former } = &held.value;
        let then = former.iter().find(|(until, _)| time < *until).map(|(_, key)| key);
        Arc::clone(then.unwrap_or(now))
    }
}

pub(super) fn unusable(path: &Path) -> impl FnOnce(std::io::Error) -> ConfigError {
    let path = path.to_owned();
    move |source| ConfigError::KeyUnusable { path, why: source.to_string() }
}

/// Reads a private key.
///
/// # Errors
/// The file cannot be read, other users can read it, or it holds no Ed25519 key.
pub fn read_secret_key(path: &Path) -> Result<SecretKey, ConfigError> {
    read_key(path).map(|(key, _)| key)
}

fn read_key(path: &Path) -> Result<(SecretKey, Stamp), ConfigError> {
    let (file, metadata) = open_regular(path).map_err(unusable(path))?;
    if let Some(mode) = read_by_others(&metadata) {
        return Err(ConfigError::KeyExposed { path: path.to_owned(), mode });
    }
    let text = read_text(file, MOST_BYTES).map_err(unusable(path))?;
    let key = SecretKey::from_pem(&text).map_err(|error| ConfigError::KeyUnusable {
        path: path.to_owned(),
        why: error.to_string(),
    })?;
    Ok((key, stamp(&metadata)))
}

/// The permission bits of a key file that other users can read. A group may where another user owns the file: that is
/// how Kubernetes mounts a secret.
fn read_by_others(metadata: &Metadata) -> Option<u32> {
    let mode = metadata.mode() & 0o777;
    let own = metadata.uid() == geteuid().as_raw();
    let refused = if own { 0o077 } else { 0o007 };
    (mode & refused != 0).then_some(mode)
}

pub(super) fn random_key(path: &Path) -> Result<SecretKey, ConfigError> {
    let why = |why: &str| ConfigError::KeyUnusable { path: path.to_owned(), why: why.to_owned() };
    let mut seed = [0; KEY_BYTES];
    SystemRandom::new().fill(&mut seed).map_err(|_| why("the machine has no random numbers"))?;
    SecretKey::from_seed(seed).map_err(|error| why(&error.to_string()))
}

/// Makes a key file that only its owner reads, unless another process made it meanwhile.
fn make_key(path: &Path) -> Result<(), ConfigError> {
    let path = &target(path);
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(unusable(folder))?;
    }
    let key = random_key(path)?;
    let beside = write_beside(path, &key.to_pem(), KEY_MODE).map_err(unusable(path))?;
    let linked = fs::hard_link(&beside, path);
    fs::remove_file(&beside).map_err(unusable(&beside))?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(unusable(path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The mode of a new key file.
pub(super) const KEY_MODE: u32 = 0o600;

/// Writes a file to take the place of another one, whose owner and mode it has: the service that reads it is another user
/// than root. Where there is none, it has this mode.
pub(super) fn write_beside(path: &Path, text: &str, mode: u32) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", uuid::Uuid::now_v7().simple()));
    let mut file: File =
        OpenOptions::new().write(true).create_new(true).mode(KEY_MODE).open(&beside)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| keep_owner(&file, path))
        .and_then(|replaced| file.set_permissions(Permissions::from_mode(replaced.unwrap_or(mode))))
        .and_then(|()| file.sync_all());
    match written {
        Ok(()) => Ok(beside),
        Err(error) => fs::remove_file(&beside).and(Err(error)),
    }
}

/// Gives a new file the owner of the one at a path, and returns the mode of that one. Where there is none, what root
/// makes belongs to the owner of the folder.
pub(super) fn keep_owner(file: &File, path: &Path) -> io::Result<Option<u32>> {
    let (like, mode) = match fs::metadata(path) {
        Ok(replaced) => {
            let mode = replaced.mode() & 0o777;
            (replaced, Some(mode))
        }
        Err(error) if error.kind() == ErrorKind::NotFound && !geteuid().is_root() => {
            return Ok(None);
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            (fs::metadata(folder.unwrap_or_else(|| Path::new(".")))?, None)
        }
        Err(error) => return Err(error),
    };
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
        let (uid, gid) = (like.uid(), like.gid());
        match fchown(file, Some(uid), Some(gid)) {
            Err(error) if mode.is_some() => {
                let why = format!(
                    "its owner, the user {uid} with the group {gid}, cannot be kept: {error}; run the command as that user"
                );
                return Err(io::Error::new(error.kind(), why));
            }
            // A new file is the caller's where the caller may not give it away.
            Ok(()) | Err(_) => {}
        }
    }
    Ok(mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_file_is_made_once_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys/executor.pem");
        let made = KeyFile::open_or_make(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(KeyFile::open_or_make(&path).unwrap().public(), made.public());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn what_states_its_time_is_signed_with_the_key_of_that_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        let file = KeyFile::open_or_make(&path).unwrap();
        let (old, before) = (file.public(), clock::now());
        let new = random_key(&path).unwrap();
        fs::rename(write_beside(&path, &new.to_pem(), KEY_MODE).unwrap(), &path).unwrap();
        let deadline = Instant::now() + 20 * LOOK_EVERY;
        while file.public() == old {
            assert!(Instant::now() < deadline, "the new key is not seen");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(file.at(before).public(), old);
        assert_eq!(file.at(clock::now()).public(), new.public());
    }

    #[test]
    fn a_key_file_that_others_read_or_that_holds_no_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        KeyFile::open_or_make(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let said = read_secret_key(&path).unwrap_err().to_string();
        assert!(said.contains("chmod 600") && said.contains("640"), "{said}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "s3cret").unwrap();
        let said = read_secret_key(&path).unwrap_err().to_string();
        assert!(said.contains("BEGIN PRIVATE KEY") && !said.contains("s3cret"), "{said}");
    }

    #[test]
    fn a_folder_as_key_file_is_no_matter_of_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let refused = KeyFile::open_or_make(folder.path()).map(drop).unwrap_err().to_string();
        assert!(refused.contains("is a directory"), "{refused}");
        assert!(!refused.contains("chmod"), "{refused}");
        for setting in ["--planner-key-file", "--executor-key-file", "--gate-key-file"] {
            assert!(refused.contains(setting), "{refused}");
        }
    }
}
