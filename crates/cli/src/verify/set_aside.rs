//! What a command added to the toolchains, program folders and caches of a person: it is moved away, so that no later
//! verification uses it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The folder in the data folder.
const FOLDER: &str = "set-aside";

/// What became of the paths that were not there before a command.
#[derive(Debug, Default)]
pub(super) struct SetAside {
    /// Each path that was moved, and where it is now.
    pub(super) moved: Vec<(PathBuf, PathBuf)>,
    /// Each path that could not be moved, and why.
    pub(super) left: Vec<(PathBuf, io::Error)>,
}

/// Moves those of these paths that are there now below `data`, each by its name from the root, into a folder named `name`.
/// It blocks.
pub(super) fn set_aside(absent: &[PathBuf], data: &Path, name: &str) -> SetAside {
    let mut found = SetAside::default();
    let to = data.join(FOLDER).join(name);
    for path in absent {
        // One in a folder that was moved is gone.
        if fs::symlink_metadata(path).is_err() {
            continue;
        }
        let target = to.join(path.strip_prefix("/").unwrap_or(path));
        match move_to(path, &target) {
            Ok(()) => found.moved.push((path.clone(), target)),
            Err(error) => found.left.push((path.clone(), error)),
        }
    }
    found
}

fn move_to(path: &Path, target: &Path) -> io::Result<()> {
    if let Some(above) = target.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(above)?;
    }
    fs::rename(path, target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_moved_with_all_that_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap().join("home");
        fs::create_dir_all(home.join(".cargo/bin")).unwrap();
        fs::write(home.join(".cargo/bin/tool"), "x").unwrap();
        let absent = [".cargo/bin", ".cargo/bin/tool", ".npmrc"].map(|path| home.join(path));
        let data = folder.path().join("data");
        let found = set_aside(&absent, &data, "1");
        assert!(found.left.is_empty(), "{found:?}");
        let [(from, to)] = found.moved.as_slice() else { panic!("{found:?}") };
        assert_eq!(from, &home.join(".cargo/bin"));
        assert!(to.starts_with(&data) && to.join("tool").exists());
        assert!(home.join(".cargo").exists() && !home.join(".cargo/bin").exists());
        let again = set_aside(&absent, &data, "2");
        assert!(again.moved.is_empty() && again.left.is_empty(), "{again:?}");
    }
}
