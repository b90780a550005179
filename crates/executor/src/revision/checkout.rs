//! Runs git in the sandbox, so that it writes a revision's files into a folder.

use super::list::Listed;
use crate::blocking::blocking;
use crate::git_reader::{Reader, text};
use crate::snapshot::WorkTree;
use crate::tool::ToolError;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the sandbox runs.
const SCRIPT: &str = include_str!("checkout.sh");
/// The exit code of the script when no commit has the name.
const UNKNOWN: i32 = 3;
/// The exit code of the script when `HEAD` is a branch without a commit.
const UNBORN: i32 = 5;
/// The exit code of the script when an object has another content than its name says.
const FORGED: i32 = 4;
/// The most objects that an error names.
const MOST_NAMED: usize = 5;
/// Submodules inside submodules that are read.
const MAX_DEPTH: u32 = 8;

/// Why a revision is not read.
#[derive(Debug, thiserror::Error)]
pub enum RevisionError {
    /// The workspace lies in no work tree of git.
    #[error("{} is in no git work tree, so it has no revision to compare with", .0.display())]
    NoRepository(PathBuf),
    /// No commit has that name.
    #[error("{revision:?} names no commit of the repository at {}", .top.display())]
    Unknown {
        /// The name that was asked for.
        revision: String,
        /// The top of the work tree.
        top: PathBuf,
    },
    /// `HEAD` is a branch without a commit.
    #[error("the repository at {} has no commit yet", .top.display())]
    Unborn {
        /// The top of the work tree.
        top: PathBuf,
    },
    /// git failed.
    #[error("git could not read {revision:?} of the repository at {}: {message}", .top.display())]
    Git {
        /// The name that was asked for.
        revision: String,
        /// The top of the work tree.
        top: PathBuf,
        /// What git said.
        message: String,
    },
    /// An object of the commit is not what its name is the digest of.
    #[error("the repository at {} has objects of {revision:?} whose content is not what their names are digests of: {objects}", .top.display())]
    Forged {
        /// The name that was asked for.
        revision: String,
        /// The top of the work tree.
        top: PathBuf,
        /// The objects, as git lists them.
        objects: String,
    },
    /// Files or the sandbox could not be used.
    #[error(transparent)]
    Tool(#[from] ToolError),
}

/// A revision's files.
#[derive(Debug)]
pub(super) struct Checkout {
    pub(super) commit: String,
    pub(super) tree: WorkTree,
    /// The files, as below the top of the work tree.
    pub(super) folder: PathBuf,
    pub(super) listed: Listed,
}

/// One repository that has to be read: the work tree itself, or a submodule.
struct Wanted {
    tree: WorkTree,
    revision: String,
    /// Its path from the top of the first.
    path: Vec<u8>,
    depth: u32,
}

impl Reader {
    /// Writes the files of a revision, with those of its submodules, into the folder of this reader.
    pub(super) async fn check_out(
        &self,
        tree: WorkTree,
        revision: &str,
    ) -> Result<Checkout, RevisionError> {
        self.give_folder_to_owner_of(&tree.top)?;
        let folder = self.folder.join("tree");
        let first = Wanted { tree, revision: revision.to_owned(), path: Vec::new(), depth: 0 };
        let (commit, mut listed) = self.one(&first, &folder, 0).await?;
        let mut left = inside(&first, &listed);
        let mut number = 0;
        while let Some(wanted) = left.pop() {
            number += 1;
            let place = folder.join(OsStr::from_bytes(&wanted.path));
            let (_, inner) = self.one(&wanted, &place, number).await?;
            left.extend(inside(&wanted, &inner));
            listed.extend(&wanted.path, inner);
        }
        Ok(Checkout { commit, tree: first.tree, folder, listed })
    }

    async fn one(
        &self,
        wanted: &Wanted,
        place: &Path,
        number: u32,
    ) -> Result<(String, Listed), RevisionError> {
        let Wanted { tree, revision, .. } = wanted;
        let private = self.folder.join(format!("git-{number}"));
        let real = |path: &Path| {
            path.canonicalize().map_err(|error| ToolError::io(path.display(), &error))
        };
        let (git, common) = (real(&tree.git)?, real(&tree.common)?);
        let mut argv =
            vec!["sh".to_owned(), "-c".to_owned(), SCRIPT.to_owned(), "checkout".to_owned()];
        for path in [&git, &common] {
            argv.push(text(path)?);
        }
        argv.push(revision.clone());
        for path in [&private, &place.to_owned()] {
            argv.push(text(path)?);
        }
        let readable = [git, common].into_iter().chain(tree.borrowed());
        let finished = self.run(argv, [Vec::new(), readable.collect()]).await?;
        let failed = |message: String| RevisionError::Git {
            revision: revision.clone(),
            top: tree.top.clone(),
            message,
        };
        match finished.exit_code {
            0 => {}
            UNKNOWN => {
                let (revision, top) = (revision.clone(), tree.top.clone());
                return Err(RevisionError::Unknown { revision, top });
            }
            UNBORN => return Err(RevisionError::Unborn { top: tree.top.clone() }),
            FORGED => {
                let said = String::from_utf8_lossy(&finished.stderr);
                let names = said.lines().filter_map(|line| line.strip_suffix(" missing"));
                let objects = names.take(MOST_NAMED).collect::<Vec<_>>().join(", ");
                let (revision, top) = (revision.clone(), tree.top.clone());
                return Err(RevisionError::Forged { revision, top, objects });
            }
            code => {
                let said = String::from_utf8_lossy(&finished.stderr).trim().to_owned();
                return Err(failed(format!("{said} (exit code {code})")));
            }
        }
        let commit = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
        let listed = blocking(move || read_list(&private)).await??;
        let listed = listed.ok_or_else(|| failed("its list of files does not read".to_owned()))?;
        Ok((commit, listed))
    }
}

/// The submodules of a repository that are checked out. Of another one there is nothing to compare.
fn inside(wanted: &Wanted, listed: &Listed) -> Vec<Wanted> {
    if wanted.depth == MAX_DEPTH {
        return Vec::new();
    }
    let submodule = |(path, commit): &(Vec<u8>, String)| {
        let tree = WorkTree::at(&wanted.tree.top.join(OsStr::from_bytes(path)))?;
        let path = match wanted.path.as_slice() {
            [] => path.clone(),
            outer => [outer, b"/", path].concat(),
        };
        Some(Wanted { tree, revision: commit.clone(), path, depth: wanted.depth + 1 })
    };
    listed.submodules.iter().filter_map(submodule).collect()
}

fn read_list(private: &Path) -> Result<Option<Listed>, ToolError> {
    let read = |name: &str| {
        let path = private.join(name);
        fs::read(&path).map_err(|error| ToolError::io(path.display(), &error))
    };
    let configuration = String::from_utf8_lossy(&read("config")?).into_owned();
    let automatic = configuration
        .lines()
        .filter_map(|line| line.trim().strip_prefix("autocrlf = "))
        .any(|value| value != "false");
    Ok(Listed::read(&read("list")?, automatic))
}
