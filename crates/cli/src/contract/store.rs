//! Where contracts are kept.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use surety_common::clock;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::manifest::{Manifest, decode, encode};
use tempfile::TempDir;

use super::file::{Contract, FORM, What};
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::plan_file::read_text_within;

/// The folder below the data folder.
const KEPT: &str = "contracts";
const CONTRACT: &str = "contract.json";
const MANIFEST: &str = "start.manifest";
/// The workspace of the opening, where no repository keeps it.
const COPY: &str = "start";
const LOCK: &str = "lock";
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
    pub fn list(data: &DataFolder) -> Result<(Vec<Contract>, Vec<Failure>), Failure> {
        let kept = data.path().join(KEPT);
        let (mut contracts, mut failures) = (Vec::new(), Vec::new());
        let folders = match fs::read_dir(&kept) {
            Ok(folders) => folders,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok((contracts, failures)),
            Err(error) => return Err(Failure::file(&kept)(error)),
        };
        for folder in folders {
            let folder = folder.map_err(Failure::file(&kept))?.path();
            match (Self { folder }).load() {
                Ok(contract) => contracts.extend(contract),
                Err(failure) => failures.push(failure),
            }
        }
        contracts.sort_by(|a, b| a.workspace.cmp(&b.workspace));
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

    /// Where the workspace of the opening is, for a contract without a repository.
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
        // The copy of a contract that was closed.
        let place = self.copy();
        if place.exists() {
            fs::remove_dir_all(&place).map_err(Failure::file(&place))?;
        }
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
        let path = self.folder.join(LOCK);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(Failure::file(&path))?;
        file.lock().map_err(Failure::file(&path))?;
        Ok(file)
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
