//! Folders that no run may work in: purely, from their paths.

use std::path::{Component, Path, PathBuf};

/// Folders whose entries are home folders.
const HOMES: [&str; 2] = ["/home", "/Users"];
/// The home folder of the superuser.
const ROOT_HOME: &str = "/root";

/// Folders of this process that a workspace must keep clear of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reserved {
    /// Home folders beside the usual ones.
    pub homes: Vec<PathBuf>,
    /// Folders and files with the service's own data.
    pub data: Vec<PathBuf>,
}

/// Why a folder is no workspace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It is the root of the file system.
    #[error("{} is the root of the file system; name a project folder", .0.display())]
    Root(PathBuf),
    /// It is a home folder, or holds one.
    #[error("{} is or contains a home folder; name a project folder inside it", .0.display())]
    Home(PathBuf),
    /// It holds data of the service, or lies in it.
    #[error("{} is, contains or lies in {}, which the service keeps for itself; name a folder elsewhere", .path.display(), .data.display())]
    Data {
        /// The folder.
        path: PathBuf,
        /// The folder or the file.
        data: PathBuf,
    },
    /// It lies in no folder that the namespace allows.
    #[error("{} lies in none of the folders of the namespace's policy key workspace_roots ({roots}); name a folder inside one", .path.display())]
    Outside {
        /// The folder.
        path: PathBuf,
        /// The allowed folders.
        roots: String,
    },
}

/// Judges whether a path lies in one of the folders that the namespace allows, or is one. No folder
/// allows every path. A path with `..` lies in none: what it leads to is not known from its text.
///
/// # Errors
/// [`Unfit::Outside`]
pub fn check_within(path: &Path, roots: &[String]) -> Result<(), Unfit> {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    if roots.is_empty() || !climbs && roots.iter().any(|root| path.starts_with(root)) {
        return Ok(());
    }
    Err(Unfit::Outside { path: path.to_owned(), roots: roots.join(", ") })
}

/// Judges an absolute path.
///
/// # Errors
/// [`Unfit`]
pub fn check_workspace(path: &Path, reserved: &Reserved) -> Result<(), Unfit> {
    if path.parent().is_none() {
        return Err(Unfit::Root(path.to_owned()));
    }
    let holds = |inner: &Path| inner.starts_with(path);
    let usual = HOMES.iter().map(Path::new);
    let is_home = usual.clone().any(|homes| path.parent() == Some(homes) || holds(homes))
        || holds(Path::new(ROOT_HOME))
        || reserved.homes.iter().any(|home| holds(home));
    if is_home {
        return Err(Unfit::Home(path.to_owned()));
    }
    match reserved.data.iter().find(|data| holds(data) || path.starts_with(data)) {
        Some(data) => Err(Unfit::Data { path: path.to_owned(), data: data.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_no_root_no_home_and_clear_of_the_data() {
        let reserved = Reserved { homes: vec!["/srv/ann".into()], data: vec!["/var/data".into()] };
        for (path, fits) in [
            ("/", false),
            ("/home", false),
            ("/home/ann", false),
            ("/home/ann/project", true),
            ("/Users/ann", false),
            ("/root", false),
            ("/root/project", true),
            ("/srv", false),
            ("/srv/ann", false),
            ("/srv/ann/x", true),
            ("/srv/anna", true),
            ("/var", false),
            ("/var/data", false),
            ("/var/data/workspaces/1", false),
            ("/var/data2", true),
            ("/tmp/x", true),
        ] {
            assert_eq!(check_workspace(Path::new(path), &reserved).is_ok(), fits, "{path}");
        }
    }
    #[test]
    fn a_workspace_lies_in_a_folder_that_the_namespace_allows() {
        let roots = ["/srv/work".to_owned(), "/data".to_owned()];
        for (path, fits) in [
            ("/srv/work", true),
            ("/srv/work/a", true),
            ("/data/b", true),
            ("/srv/workshop", false),
            ("/srv", false),
            ("/srv/work/../etc", false),
        ] {
            assert_eq!(check_within(Path::new(path), &roots).is_ok(), fits, "{path}");
            assert_eq!(check_within(Path::new(path), &[]), Ok(()));
        }
    }
}
