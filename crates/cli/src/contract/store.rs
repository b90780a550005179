//! Where contracts are kept.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use surety_common::clock;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::manifest::{Manifest, decode, encode};
use surety_sandbox::remove_tree;
use tempfile::TempDir;

use super::file::{Contract, FORM, What};
use super::last_round::LastRound;
use super::list::Listed;
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::plan_file::read_text_within;

/// The folder below the data folder.
const KEPT: &str = "contracts";
const CONTRACT: &str = "contract.json";
const MANIFEST: &str = "start.manifest";
/// What no repository keeps of the workspace of the opening.
const COPY: &str = "start";
/// The last round.
const ROUND: &str = "round.json";
const LOCK: &str = "lock";
/// Locked by each server of the contract.
const SERVED: &str = "served";
/// A larger file is no contract.
const MOST_BYTES: u64 = 128 << 20;
/// Digits of the digest that name a workspace.
const KEY_DIGITS: usize = 32;
/// What to do with a contract that cannot be read.
const NEW: &str = "A person opens a new one with `surety contract new`.";

/// The contracts of one workspace.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The store of a workspace.
    #[must_use]
    pub fn of(data: &DataFolder, root: &Path) -> Self {
        let mut key = sha256_hex(root.as_os_str().as_bytes());
        key.truncate(KEY_DIGITS);
        Self { folder: data.path().join(KEPT).join(key) }
    }

    /// The open contracts of all workspaces, by their paths. One that does not read is left out, and named.
    ///
    /// # Errors
    /// The data folder cannot be read.
    pub fn list(data: &DataFolder) -> Result<(Vec<Listed>, Vec<Failure>), Failure> {
        let kept = data.path().join(KEPT);
        let (mut contracts, mut failures) = (Vec::new(), Vec::new());
        let folders = match fs::read_dir(&kept) {
            Ok(folders) => folders,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok((contracts, failures)),
            Err(error) => return Err(Failure::file(&kept)(error)),
        };
        for folder in folders {
            let folder = folder.map_err(Failure::file(&kept))?.path();
            let store = Self { folder };
            let listed = store.load().and_then(|contract| {
                let Some(contract) = contract else { return Ok(None) };
                Ok(Some(Listed { contract, is_served: store.is_served()? }))
            });
            match listed {
                Ok(listed) => contracts.extend(listed),
                Err(failure) => failures.push(failure),
            }
        }
        contracts.sort_by(|a, b| a.contract.workspace.cmp(&b.contract.workspace));
        Ok((contracts, failures))
    }

    /// The open contract; none where none is open.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn load(&self) -> Result<Option<Contract>, Failure> {
        let path = self.folder.join(CONTRACT);
        if let Err(error) = path.symlink_metadata()
            && error.kind() == ErrorKind::NotFound
        {
            return Ok(None);
        }
        let text = read_text_within(&path, MOST_BYTES)?;
        let invalid = |why: String| {
            let message = format!("the contract {} does not read: {why}", path.display());
            Failure::new(Code::ContractUnusable, message, NEW)
        };
        let read: Contract =
            serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        if read.form != FORM {
            return Err(invalid(format!("its form is {:?}, not {FORM:?}", read.form)));
        }
        Ok(Some(read))
    }

    /// Marks the contract as served, until the answered file is dropped or the process ends.
    ///
    /// # Errors
    /// The data folder cannot be written.
    pub fn serve(&self) -> Result<File, Failure> {
        self.make()?;
        let (path, file) = self.lock_file(SERVED)?;
        file.lock_shared().map_err(Failure::file(&path))?;
        Ok(file)
    }

    /// Whether a server of the contract lives.
    fn is_served(&self) -> Result<bool, Failure> {
        let path = self.folder.join(SERVED);
        // A file system of a network locks for writing only what is open for it.
        let file = match File::options().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(Failure::file(&path)(error)),
        };
        match file.try_lock() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(Failure::file(&path)(error)),
        }
    }

    /// The last round; none before the first one.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn last_round(&self) -> Result<Option<LastRound>, Failure> {
        let path = self.folder.join(ROUND);
        if !path.exists() {
            return Ok(None);
        }
        let text = read_text_within(&path, MOST_BYTES)?;
        let read = serde_json::from_str(&text).map_err(|error| {
            let message = format!("{} does not read: {error}", path.display());
            Failure::new(Code::ContractUnusable, message, "The next round writes it again.")
        })?;
        Ok(Some(read))
    }

    /// Keeps what a round came to, in place of the one before.
    ///
    /// # Errors
    /// The data folder cannot be written.
    pub fn keep_round(&self, round: &LastRound) -> Result<(), Failure> {
        let text = serde_json::to_vec(round)
            .map_err(|error| Failure::new(Code::Internal, error.to_string(), ""))?;
        self.write(ROUND, &text)
    }

    /// The open contract.
    ///
    /// # Errors
    /// `contract_missing`, or it cannot be read.
    pub fn open(&self) -> Result<Contract, Failure> {
        self.load()?.ok_or_else(missing)
    }

    /// The workspace when the contract was opened.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn start(&self) -> Result<Manifest, Failure> {
        let path = self.folder.join(MANIFEST);
        let bytes = fs::read(&path).map_err(Failure::file(&path))?;
        decode(&bytes).map_err(|error| {
            let message = format!("{} does not read: {error}", path.display());
            Failure::new(Code::ContractUnusable, message, NEW)
        })
    }

    /// An empty folder beside the contract, for a copy of the workspace. It goes away unless it is kept.
    ///
    /// # Errors
    /// The data folder cannot be written.
    pub fn folder_for_copy(&self) -> Result<TempDir, Failure> {
        self.make()?;
        TempDir::with_prefix_in(".start-", &self.folder).map_err(Failure::file(&self.folder))
    }

    /// Where the files of the opening are that no repository keeps.
    #[must_use]
    pub fn copy(&self) -> PathBuf {
        self.folder.join(COPY)
    }

    /// Keeps a contract that was just made, with the copy of its workspace where it has one, unless one is open by
    /// now. Answers the open one.
    ///
    /// # Errors
    /// The data folder cannot be written.
    pub fn keep(
        &self,
        contract: Contract,
        start: &Manifest,
        copy: Option<TempDir>,
    ) -> Result<Contract, Failure> {
        let _lock = self.lock()?;
        if let Some(open) = self.load()? {
            return Ok(open);
        }
        // The round and the copy of a contract that was closed.
        let round = self.folder.join(ROUND);
        if round.exists() {
            fs::remove_file(&round).map_err(Failure::file(&round))?;
        }
        let place = self.copy();
        remove_tree(&place).map_err(Failure::file(&place))?;
        if let Some(copy) = copy {
            fs::rename(copy.keep(), &place).map_err(Failure::file(&place))?;
        }
        self.write(MANIFEST, &encode(start))?;
        self.save(&contract)?;
        Ok(contract)
    }

    /// Changes the open contract. Nothing is stored when the change fails.
    ///
    /// # Errors
    /// `contract_missing`; those of the change; the data folder cannot be written.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut Contract) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let _lock = self.lock()?;
        let mut contract = self.open()?;
        let changed = change(&mut contract)?;
        self.save(&contract)?;
        Ok(changed)
    }

    /// Closes the open contract, and keeps it under its time. Answers whether there was one.
    ///
    /// # Errors
    /// The data folder cannot be written.
    pub fn close(&self, by: &str) -> Result<bool, Failure> {
        let _lock = self.lock()?;
        let path = self.folder.join(CONTRACT);
        match self.load() {
            Ok(None) => return Ok(false),
            Ok(Some(mut contract)) => {
                contract.note(What::Closed, format!("by {by}"));
                self.save(&contract)?;
            }
            // What does not read is put aside as it is.
            Err(_) => {}
        }
        let name = format!("{}.json", clock::now().format("%Y%m%dT%H%M%S%3fZ"));
        let aside = self.folder.join(name);
        fs::rename(&path, &aside).map_err(Failure::file(&aside))?;
        Ok(true)
    }

    /// Where the contract is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join(CONTRACT)
    }

    fn make(&self) -> Result<(), Failure> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(Failure::file(&self.folder))
    }

    fn lock(&self) -> Result<File, Failure> {
        self.make()?;
        let (path, file) = self.lock_file(LOCK)?;
        file.lock().map_err(Failure::file(&path))?;
        Ok(file)
    }

    fn lock_file(&self, name: &str) -> Result<(PathBuf, File), Failure> {
        let path = self.folder.join(name);
        let mut options = File::options();
        let file = options.create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(Failure::file(&path))?;
        Ok((path, file))
    }

    fn save(&self, contract: &Contract) -> Result<(), Failure> {
        let text = serde_json::to_vec_pretty(contract)
            .map_err(|error| Failure::new(Code::Internal, error.to_string(), ""))?;
        self.write(CONTRACT, &text)
    }

    /// Writes a file whole or not at all. No other user can read it.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.folder.join(name);
        let unusable = Failure::file;
        let mut file =
            tempfile::NamedTempFile::new_in(&self.folder).map_err(unusable(&self.folder))?;
        file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(unusable(&path))?;
        file.persist(&path).map(drop).map_err(|error| Failure::file(&path)(error.error))
    }
}

fn missing() -> Failure {
    let advice = "`surety mcp` or `surety contract new` opens one.";
    Failure::new(Code::ContractMissing, "no contract is open for this workspace", advice)
}
