//! The user's checks, as they were when a contract was opened.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use surety_common::domain::check::Standing;
use surety_planner::plan::standing_at;

use crate::failure::{Code, Failure};
use crate::plan_file::folder_of;
use crate::verify::{DEFAULT_PLAN, StartFrom, VerifyPlan, beside_at, text_at};

/// A checks file with the files that its overlays name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checks {
    /// The file, as it was named.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// The files that it names, in hexadecimal.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The paths alone that named a program.
    #[serde(default)]
    pub programs: BTreeSet<PathBuf>,
    /// Those that named a file that is none.
    #[serde(default)]
    pub data: BTreeSet<PathBuf>,
    /// Those that named a folder.
    #[serde(default)]
    pub folders: BTreeSet<PathBuf>,
}

impl Checks {
    /// Reads the checks of a start: the named file, else the default one where the start has it. A file outside of
    /// a revision's work tree is read as it is.
    ///
    /// # Errors
    /// `plan_missing`; the errors of [`VerifyPlan::read`].
    pub fn read(
        named: Option<&Path>,
        root: &Path,
        from: &StartFrom,
    ) -> Result<Option<(Self, VerifyPlan)>, Failure> {
        let default = root.join(DEFAULT_PLAN);
        let has_default = from.files().unwrap_or(root).join(DEFAULT_PLAN).symlink_metadata();
        if named.is_none() && has_default.is_err() {
            return Ok(None);
        }
        let path = named.unwrap_or(&default);
        let text = text_at(path, from)?;
        let folder = folder_of(path);
        let files = RefCell::new(BTreeMap::new());
        let beside = |inner: &Path| {
            let bytes = beside_at(folder, inner, from)?;
            files
                .borrow_mut()
                .insert(inner.to_string_lossy().into_owned(), HEXLOWER.encode(&bytes));
            Ok(bytes)
        };
        let named = RefCell::new(BTreeMap::new());
        let look = |inner: &str| {
            let found = standing_at(from.files().unwrap_or(root), Path::new(inner))?;
            named.borrow_mut().insert(PathBuf::from(inner), found);
            Some(found)
        };
        let plan = VerifyPlan::read(path, &text, &beside, &look)?;
        let (files, named) = (files.into_inner(), named.into_inner());
        let [programs, data, folders] =
            [Standing::Program, Standing::Data, Standing::Folder].map(|wanted| {
                named.iter().filter(|(_, it)| **it == wanted).map(|(at, _)| at.clone()).collect()
            });
        Ok(Some((Self { path: path.to_owned(), text, files, programs, data, folders }, plan)))
    }

    /// The same checks again.
    ///
    /// # Errors
    /// The contract's file was changed.
    pub fn plan(&self) -> Result<VerifyPlan, Failure> {
        let stored = |inner: &Path| {
            let stored = self.files.get(inner.to_string_lossy().as_ref());
            stored.and_then(|text| HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()).ok_or_else(
                || {
                    let message = format!("the contract lacks the file {}", inner.display());
                    Failure::new(
                        Code::FileUnusable,
                        message,
                        "Open a new one with `surety contract new`.",
                    )
                },
            )
        };
        VerifyPlan::read(&self.path, &self.text, &stored, &|path| self.standing(Path::new(path)))
    }

    fn standing(&self, path: &Path) -> Option<Standing> {
        let stood = [
            (&self.programs, Standing::Program),
            (&self.data, Standing::Data),
            (&self.folders, Standing::Folder),
        ];
        stood.into_iter().find(|(paths, _)| paths.contains(path)).map(|(_, standing)| standing)
    }
}
