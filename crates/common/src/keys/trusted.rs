//! The file of trusted keys: its readers, and its writers, of which one at a time changes it.

use super::file::{open_regular, read_text, target};
use super::key_file::{Held, Stamp, keep_owner, stamp, write_beside};
use crate::config::ConfigError;
use crate::domain::signature::{PublicKey, Service, TrustedKey, TrustedKeys};
use crate::store::TrustSource;
use chrono::{DateTime, TimeDelta, Utc};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A key is valid from a little before it was made or registered. What was stored before it is not signed.
const FIRST_SKEW: TimeDelta = TimeDelta::seconds(10);

/// A larger file holds no trusted keys.
const MOST_BYTES: u64 = 1 << 20;

/// The mode of a new file of trusted keys: it holds public keys, which services of several users read.
const TRUSTED_MODE: u32 = 0o644;

/// The file with the public keys that are trusted.
pub struct TrustedFile {
    path: PathBuf,
    held: Mutex<Held<Arc<TrustedKeys>>>,
}

impl TrustedFile {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, or is no file of trusted keys.
    pub fn open(path: &Path) -> Result<Self, ConfigError> {
        let (value, stamp) = read_trusted(path)?;
        let held = Held { value: Arc::new(value), stamp, looked_at: Instant::now() };
        Ok(Self { path: path.to_owned(), held: Mutex::new(held) })
    }
}

impl TrustSource for TrustedFile {
    /// The file is looked at each time: a new key is in it before anything is signed with that key.
    fn trusted(&self) -> Arc<TrustedKeys> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if fs::metadata(&self.path).is_ok_and(|found| stamp(&found) != held.stamp) {
            match read_trusted(&self.path) {
                Ok((keys, stamp)) => (held.value, held.stamp) = (Arc::new(keys), stamp),
                Err(error) => {
                    tracing::error!(%error, "keys: the changed file of trusted keys cannot be used; the keys before it stay trusted");
                }
            }
        }
        Arc::clone(&held.value)
    }
}

/// Reads a file of trusted keys.
///
/// # Errors
/// It cannot be read, or is no file of trusted keys.
pub fn read_trusted_keys(path: &Path) -> Result<TrustedKeys, ConfigError> {
    read_trusted(path).map(|(keys, _)| keys)
}

fn read_trusted(path: &Path) -> Result<(TrustedKeys, Stamp), ConfigError> {
    let unusable = |why: String| ConfigError::TrustedKeysUnusable { path: path.to_owned(), why };
    let unread = |error: std::io::Error| unusable(format!("cannot be read: {error}"));
    let (file, metadata) = open_regular(path).map_err(unread)?;
    let text = read_text(file, MOST_BYTES).map_err(unread)?;
    let keys = TrustedKeys::read(&text).map_err(|error| unusable(error.to_string()))?;
    Ok((keys, stamp(&metadata)))
}

/// Trusts a key that this machine makes or made, from now on, unless the file has it. A missing file is made. Returns when
/// the key ends, or has ended; none for one in use.
///
/// # Errors
/// The file cannot be read or written.
pub fn trust_key(
    path: &Path,
    (service, key): (Service, PublicKey),
    now: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, ConfigError> {
    let known = if path.exists() { read_trusted_keys(path)?.keys().to_vec() } else { Vec::new() };
    let mut known = known.into_iter().filter(is(service, key)).peekable();
    if known.peek().is_some() {
        let never = DateTime::<Utc>::MAX_UTC;
        let last = known.map(|known| known.valid_until.unwrap_or(never)).max();
        return Ok(last.filter(|until| *until != never));
    }
    let trusted = TrustedKey { service, key, valid_from: now - FIRST_SKEW, valid_until: None };
    trust_keys(path, &[trusted])?;
    Ok(None)
}

/// Since when a key signs that was registered at a time. A registration of the future begins now.
pub fn registered_since(registered: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
    registered.min(now) - FIRST_SKEW
}

/// Trusts keys for their times, in a file that is made where there is none. A key that is given with several times keeps
/// each of them. One that the file has gets the earlier beginning of the two, and keeps an end that is before the new
/// one. Returns the keys as the file has them now.
///
/// # Errors
/// The file cannot be read or written.
pub fn trust_keys(path: &Path, keys: &[TrustedKey]) -> Result<Vec<TrustedKey>, ConfigError> {
    let mut file = TrustedFileWriter::lock(path)?;
    keys.iter().for_each(|key| file.add(*key));
    file.store()?;
    let is_given = |one: &&TrustedKey| keys.iter().any(|key| is(key.service, key.key)(one));
    Ok(file.keys.iter().filter(is_given).copied().collect())
}

fn is(service: Service, key: PublicKey) -> impl Fn(&TrustedKey) -> bool {
    move |known| known.service == service && known.key == key
}

/// A file of trusted keys that other writers wait for, until this is dropped.
pub(super) struct TrustedFileWriter {
    path: PathBuf,
    keys: Vec<TrustedKey>,
    /// The keys as they were read.
    before: Vec<TrustedKey>,
    _lock: File,
}

impl TrustedFileWriter {
    /// Waits for other writers, and reads the file. The lock is a file beside it, because each write replaces the file.
    /// Of a link it is the file behind it, which is the one that services read.
    pub(super) fn lock(path: &Path) -> Result<Self, ConfigError> {
        let path = &target(path);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = path.with_file_name(format!(".{name}.lock"));
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(unwritable(path))?;
        }
        let lock = open_lock(&beside, path).map_err(unwritable(path))?;
        lock.lock().map_err(unwritable(path))?;
        let keys = match path.exists() {
            true => read_trusted_keys(path)?.keys().to_vec(),
            false => Vec::new(),
        };
        Ok(Self { path: path.to_owned(), before: keys.clone(), keys, _lock: lock })
    }

    /// Whether the file has a key for a service.
    pub(super) fn has(&self, service: Service, key: PublicKey) -> bool {
        self.keys.iter().any(is(service, key))
    }

    /// Adds a key, or its times to those that the file has.
    pub(super) fn add(&mut self, key: TrustedKey) {
        if self.keys.contains(&key) {
            return;
        }
        if !self.before.iter().any(is(key.service, key.key)) {
            return self.keys.push(key);
        }
        let mut known: Vec<_> =
            self.keys.iter_mut().filter(|known| is(key.service, key.key)(known)).collect();
        if let Some(first) = known.iter_mut().min_by_key(|known| known.valid_from) {
            first.valid_from = first.valid_from.min(key.valid_from);
        }
        for known in known {
            known.valid_until = known.valid_until.into_iter().chain(key.valid_until).min();
        }
    }

    /// Takes a key out.
    pub(super) fn remove(&mut self, service: Service, key: PublicKey) {
        self.keys.retain(|known| !is(service, key)(known));
    }

    /// Ends a key, unless it ends before.
    pub(super) fn end(&mut self, service: Service, key: PublicKey, at: DateTime<Utc>) {
        for known in self.keys.iter_mut().filter(|known| is(service, key)(known)) {
            known.valid_until = Some(known.valid_until.map_or(at, |until| until.min(at)));
        }
    }

    /// Replaces the file, whole or not at all.
    pub(super) fn store(&self) -> Result<(), ConfigError> {
        let text = TrustedKeys::new(self.keys.clone()).to_text();
        let beside =
            write_beside(&self.path, &text, TRUSTED_MODE).map_err(unwritable(&self.path))?;
        fs::rename(&beside, &self.path).map_err(unwritable(&self.path))
    }
}

/// Opens the lock file of a file of trusted keys. A new one belongs to the user of that file, who takes the lock later.
fn open_lock(lock: &Path, path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.create_new(true).open(lock) {
        // The file of trusted keys has its user in any case.
        Ok(made) => match keep_owner(&made, path) {
            Ok(_) => Ok(made),
            Err(error) => std::fs::remove_file(lock).and(Err(error)),
        },
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            options.create_new(false).open(lock)
        }
        Err(error) => Err(error),
    }
}

fn unwritable(path: &Path) -> impl FnOnce(std::io::Error) -> ConfigError {
    let path = path.to_owned();
    move |error| ConfigError::TrustedKeysUnusable {
        path,
        why: format!("cannot be written: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::key_file::random_key;
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
    }

    fn new_key() -> PublicKey {
        random_key(Path::new("key.pem")).unwrap().public()
    }

    #[test]
    fn a_pinned_key_keeps_its_times_and_an_end_is_never_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys/trusted.json");
        let key = new_key();
        let pin = |from, until: Option<i64>| {
            let (valid_from, valid_until) = (at(from), until.map(at));
            let trusted = TrustedKey { service: Service::Gate, key, valid_from, valid_until };
            let [pinned] = trust_keys(&path, &[trusted]).unwrap()[..] else { panic!("one key") };
            assert_eq!(read_trusted_keys(&path).unwrap().keys(), [pinned]);
            (pinned.valid_from, pinned.valid_until)
        };
        assert_eq!(pin(100, None), (at(100), None));
        assert_eq!(pin(200, Some(900)), (at(100), Some(at(900))), "it was ended since");
        assert_eq!(pin(50, None), (at(50), Some(at(900))), "an end stays");
        assert_eq!(pin(60, Some(700)), (at(50), Some(at(700))), "the earlier end counts");
        trust_key(&path, (Service::Gate, key), at(1000)).unwrap();
        assert_eq!(pin(60, Some(800)), (at(50), Some(at(700))));
    }

    #[test]
    fn a_key_that_is_pinned_with_several_times_keeps_each_and_an_earlier_end_ends_them_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trusted.json");
        let key = new_key();
        let window = |from, until: Option<i64>| TrustedKey {
            service: Service::Gate,
            key,
            valid_from: at(from),
            valid_until: until.map(at),
        };
        let both = [window(100, Some(200)), window(300, None)];
        for _ in 0..2 {
            assert_eq!(trust_keys(&path, &both).unwrap(), both);
            assert_eq!(read_trusted_keys(&path).unwrap().keys(), both);
        }
        let ended = [window(50, Some(150)), window(300, Some(150))];
        assert_eq!(trust_keys(&path, &[window(50, Some(150))]).unwrap(), ended);
        assert_eq!(trust_keys(&path, &both).unwrap(), ended, "an end is not taken back");
    }

    #[test]
    fn writers_at_the_same_time_keep_the_keys_of_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trusted.json");
        let keys: Vec<_> = (0..16).map(|_| new_key()).collect();
        std::thread::scope(|scope| {
            for key in &keys {
                scope.spawn(|| trust_key(&path, (Service::User, *key), at(0)).unwrap());
            }
        });
        assert_eq!(read_trusted_keys(&path).unwrap().keys().len(), keys.len());
    }

    #[test]
    fn a_registered_key_signs_since_its_registration() {
        assert_eq!(registered_since(at(0), at(3600)), at(0) - FIRST_SKEW);
        assert_eq!(registered_since(at(7200), at(3600)), at(3600) - FIRST_SKEW);
    }
}
