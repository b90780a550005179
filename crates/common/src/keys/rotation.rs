//! A new key in the place of another one, without a gap.
//!
//! ```text
//!   new key written beside -> new key trusted -> key file replaced -> old key ends after GRACE
//! ```
//!
//! Where it stops, everything that is signed stays trusted: the old key ends only once the new one signs.

use super::file::target;
use super::key_file::{KEY_MODE, random_key, read_secret_key, unusable, write_beside};
use super::trusted::TrustedFileWriter;
use crate::config::ConfigError;
use crate::domain::signature::{PublicKey, Service, TrustedKey};
use chrono::{DateTime, TimeDelta, Utc};
use std::path::Path;
use std::{fs, io};

/// A new key is valid from a little before it is made: the clocks of two machines differ.
const SKEW: TimeDelta = TimeDelta::minutes(5);
/// How long a key stays valid after another one took its place: everything that it signed is stored by then.
pub(super) const GRACE: TimeDelta = TimeDelta::minutes(10);

/// The public keys of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotated {
    /// The key that was replaced, and ends.
    pub old: PublicKey,
    /// The key that signs now.
    pub new: PublicKey,
}

/// Replaces the key of a file. The new key is trusted before it signs, and of the keys of the service only the replaced
/// one ends: another host may have a key of its own. Other writers of the file of trusted keys wait.
///
/// # Errors
/// The file of trusted keys lacks the key that is to be replaced: it is not the one that the services read. One of the
/// files cannot be read or written. As long as the key file has the old key, the old key does not end.
pub fn rotate_key(
    trusted: &Path,
    (service, key_file): (Service, &Path),
    now: DateTime<Utc>,
) -> Result<Rotated, ConfigError> {
    rotate_by(|from, to| fs::rename(from, to), trusted, (service, key_file), now)
}

fn rotate_by(
    replace: impl FnOnce(&Path, &Path) -> io::Result<()>,
    trusted: &Path,
    (service, key_file): (Service, &Path),
    now: DateTime<Utc>,
) -> Result<Rotated, ConfigError> {
    let mut file = TrustedFileWriter::lock(trusted)?;
    let key_file = &target(key_file);
    let old = read_secret_key(key_file)?.public();
    if !file.has(service, old) {
        return Err(ConfigError::KeyNotTrusted {
            key: old.id().to_string(),
            service: service.as_str(),
            key_file: key_file.to_owned(),
            trusted: trusted.to_owned(),
        });
    }
    let key = random_key(key_file)?;
    let new = key.public();
    let beside = write_beside(key_file, &key.to_pem(), KEY_MODE).map_err(unusable(key_file))?;
    file.add(TrustedKey { service, key: new, valid_from: now - SKEW, valid_until: None });
    let stored = file.store();
    let is_trusted = stored.is_ok();
    let replaced = stored.and_then(|()| replace(&beside, key_file).map_err(unusable(key_file)));
    if let Err(error) = replaced {
        fs::remove_file(&beside).map_err(unusable(&beside))?;
        if is_trusted {
            file.remove(service, new);
            file.store()?;
        }
        return Err(error);
    }
    file.end(service, old, now + GRACE);
    file.store()?;
    Ok(Rotated { old, new })
}

#[cfg(test)]
mod tests {
    use super::super::key_file::KeyFile;
    use super::super::trusted::{TrustedFile, read_trusted_keys, trust_key};
    use super::*;
    use crate::store::TrustSource;
    use nix::unistd::{getegid, geteuid};
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
    use std::path::PathBuf;
    use tempfile::TempDir;

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000, 0).unwrap()
    }

    /// A trusted key in a file of its own.
    fn made(folder: &TempDir, name: &str, service: Service) -> (PathBuf, PublicKey) {
        let path = folder.path().join(name);
        let key = KeyFile::open_or_make(&path).unwrap().public();
        trust_key(&folder.path().join("trusted.json"), (service, key), now()).unwrap();
        (path, key)
    }

    #[test]
    fn a_rotated_key_is_trusted_before_it_signs_and_only_the_replaced_one_ends() {
        let folder = tempfile::tempdir().unwrap();
        let trusted = folder.path().join("trusted.json");
        let (path, old) = made(&folder, "a.pem", Service::Executor);
        let (_, other_host) = made(&folder, "b.pem", Service::Executor);
        let seen = TrustedFile::open(&trusted).unwrap();
        let replace = |from: &Path, to: &Path| {
            let keys = read_trusted_keys(&trusted).unwrap();
            assert!(keys.keys().iter().all(|key| key.valid_until.is_none()), "{keys:?}");
            assert_eq!(keys.keys().len(), 3, "the new key is trusted before it signs");
            fs::rename(from, to)
        };
        let rotated = rotate_by(replace, &trusted, (Service::Executor, &path), now()).unwrap();
        assert_eq!(rotated.old, old);
        assert_eq!(read_secret_key(&path).unwrap().public(), rotated.new);
        let keys = seen.trusted();
        let found: Vec<_> = keys.keys().iter().map(|key| (key.key, key.valid_until)).collect();
        let expected = [(old, Some(now() + GRACE)), (other_host, None), (rotated.new, None)];
        assert_eq!(found, expected);
        assert!(keys.keys().iter().all(|key| key.valid_from < now()));
    }

    #[test]
    fn files_keep_their_owner_and_their_mode_so_that_the_service_reads_them_after_a_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let trusted = folder.path().join("trusted.json");
        let (path, _) = made(&folder, "a.pem", Service::Gate);
        let found = |path: &Path| {
            let found = fs::metadata(path).unwrap();
            (found.uid(), found.gid(), found.mode() & 0o777)
        };
        let own = (geteuid().as_raw(), getegid().as_raw());
        assert_eq!(found(&path), (own.0, own.1, 0o600));
        assert_eq!(found(&trusted), (own.0, own.1, 0o644), "other users read public keys");
        // Only root can give files away.
        let (uid, gid) = if geteuid().is_root() { (4321, 4322) } else { own };
        chown(&path, Some(uid), Some(gid)).unwrap();
        chown(&trusted, Some(uid), Some(gid)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        fs::set_permissions(&trusted, Permissions::from_mode(0o640)).unwrap();
        rotate_key(&trusted, (Service::Gate, &path), now()).unwrap();
        assert_eq!(found(&path), (uid, gid, 0o400));
        assert_eq!(found(&trusted), (uid, gid, 0o640));
    }

    /// The services read the files, and not the links.
    #[test]
    fn a_rotation_through_links_replaces_the_files_behind_them() {
        let (folder, links) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let trusted = folder.path().join("trusted.json");
        let (path, old) = made(&folder, "a.pem", Service::Gate);
        let linked = [("keys.json", &trusted), ("key.pem", &path)].map(|(name, file)| {
            let link = links.path().join(name);
            symlink(file, &link).unwrap();
            link
        });
        let rotated = rotate_key(&linked[0], (Service::Gate, &linked[1]), now()).unwrap();
        assert_eq!(rotated.old, old);
        assert_eq!(read_secret_key(&path).unwrap().public(), rotated.new);
        let keys: Vec<_> =
            read_trusted_keys(&trusted).unwrap().keys().iter().map(|key| key.key).collect();
        assert_eq!(keys, [old, rotated.new]);
        assert!(linked.iter().all(|link| link.is_symlink()));
        assert_eq!(fs::read_dir(links.path()).unwrap().count(), 2, "the lock is beside the file");
    }

    #[test]
    fn files_are_made_where_a_link_leads() {
        let (folder, links) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["key.pem", "trusted.json"] {
            symlink(folder.path().join(name), links.path().join(name)).unwrap();
        }
        let (path, key) = made(&links, "key.pem", Service::Gate);
        assert!(path.is_symlink());
        assert_eq!(read_secret_key(&folder.path().join("key.pem")).unwrap().public(), key);
        let keys = read_trusted_keys(&folder.path().join("trusted.json")).unwrap();
        assert_eq!(keys.keys()[0].key, key);
    }

    #[test]
    fn a_new_file_of_root_belongs_to_the_owner_of_its_folder() {
        if !geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        chown(folder.path(), Some(4321), Some(4322)).unwrap();
        let (path, _) = made(&folder, "a.pem", Service::Gate);
        let lock = folder.path().join(".trusted.json.lock");
        for made in [path, folder.path().join("trusted.json"), lock] {
            assert_eq!(fs::metadata(&made).unwrap().uid(), 4321, "{made:?}");
        }
    }

    #[test]
    fn a_key_that_the_file_of_trusted_keys_lacks_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pem");
        let old = KeyFile::open_or_make(&path).unwrap().public();
        for trusted in ["none.json", "other.json"].map(|name| folder.path().join(name)) {
            if trusted.ends_with("other.json") {
                // For another service.
                trust_key(&trusted, (Service::Planner, old), now()).unwrap();
            }
            let refused = rotate_key(&trusted, (Service::Gate, &path), now()).unwrap_err();
            let said = refused.to_string();
            assert!(
                said.contains(&old.id().to_string()) && said.contains("surety keys make gate"),
                "{said}"
            );
            assert_eq!(read_secret_key(&path).unwrap().public(), old);
        }
        assert!(!folder.path().join("none.json").exists());
    }

    #[test]
    fn a_rotation_that_fails_or_is_killed_ends_no_key() {
        let folder = tempfile::tempdir().unwrap();
        let trusted = folder.path().join("trusted.json");
        let (path, old) = made(&folder, "a.pem", Service::Gate);
        let before = fs::read_to_string(&trusted).unwrap();
        let refuse = |_: &Path, _: &Path| Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem));
        let failed = rotate_by(refuse, &trusted, (Service::Gate, &path), now()).unwrap_err();
        assert!(failed.to_string().contains("a.pem cannot be used"), "{failed}");
        assert_eq!(fs::read_to_string(&trusted).unwrap(), before);
        assert_eq!(read_secret_key(&path).unwrap().public(), old);
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, [".trusted.json.lock", "a.pem", "trusted.json"]);

        let killed = |_: &Path, _: &Path| panic!("killed");
        let rotation = || rotate_by(killed, &trusted, (Service::Gate, &path), now());
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(rotation)).unwrap_err();
        let keys = read_trusted_keys(&trusted).unwrap();
        assert_eq!(keys.keys().len(), 2);
        assert!(keys.keys().iter().all(|key| key.valid_until.is_none()), "{keys:?}");
    }

    #[test]
    fn rotations_at_the_same_time_lose_no_key() {
        let folder = tempfile::tempdir().unwrap();
        let trusted = folder.path().join("trusted.json");
        let services = [Service::Planner, Service::Executor, Service::Gate];
        let files = services.map(|service| (service, made(&folder, service.as_str(), service).0));
        std::thread::scope(|scope| {
            for (service, path) in &files {
                scope.spawn(|| rotate_key(&trusted, (*service, path), now()).unwrap());
            }
        });
        let keys = read_trusted_keys(&trusted).unwrap();
        for (service, path) in &files {
            let key = read_secret_key(path).unwrap().public();
            let known = keys.keys().iter().find(|known| known.key == key);
            assert_eq!(
                known.map(|known| (known.service, known.valid_until)),
                Some((*service, None))
            );
        }
        assert_eq!(keys.keys().len(), 6);
    }
}
