//! Finds the machine's own Postgres.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::PostgresError;

/// The oldest version that supports Surety's statements.
const OLDEST_MAJOR: u32 = 15;
/// The version that an error on a Mac suggests when none is required.
const MAC_MAJOR: u32 = 17;
/// The variable with the folder of a Postgres in an unusual location. It is tried before any other.
const FOLDER_VARIABLE: &str = "SURETY_POSTGRES_BIN";
/// Where the Mac's Postgres.app has the programs of its newest version.
const POSTGRES_APP: &str = "/Applications/Postgres.app/Contents/Versions/latest/bin";
/// Folders that contain one folder per installed version: the parent, the prefix of a child's name,
/// and the folder of its programs.
const VERSIONED: [(&str, &str, &str); 4] = [
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr", "pgsql-", "bin"),
    ("/opt/homebrew/opt", "postgresql@", "bin"),
    ("/usr/local/opt", "postgresql@", "bin"),
];

/// The programs of one installed Postgres.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    folder: PathBuf,
    major: u32,
}

impl Binaries {
    /// Finds the newest Postgres from version 15 on, or exactly `major` for an existing cluster. It
    /// searches the folder `named`, or `SURETY_POSTGRES_BIN` where none is; else the search path, the folder of
    /// `pg_config`, and the folders of packages.
    ///
    /// # Errors
    /// None is installed; the error names the package to install.
    pub fn find(named: Option<&Path>, major: Option<u32>) -> Result<Self, PostgresError> {
        let by_variable = || env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
        let named = named.map(Path::to_owned).or_else(|| by_variable().map(PathBuf::from));
        Self::find_first(&[named.into_iter().collect(), usual_folders()], major)
    }

    /// The newest matching one in the first of these lists that has any.
    fn find_first(lists: &[Vec<PathBuf>], major: Option<u32>) -> Result<Self, PostgresError> {
        let first = lists.iter().find_map(|folders| Self::find_in(folders, major).ok());
        first.map_or_else(|| Self::find_in(&lists.concat(), major), Ok)
    }

    /// As [`Binaries::find`], in these folders only.
    ///
    /// # Errors
    /// None is installed; the error names the package to install.
    pub fn find_in(folders: &[PathBuf], major: Option<u32>) -> Result<Self, PostgresError> {
        let mut found: Vec<_> = folders.iter().filter_map(|folder| Self::inspect(folder)).collect();
        found.sort_by_key(|binaries| binaries.major);
        let fits = |one: &&Self| major.map_or(one.major >= OLDEST_MAJOR, |m| m == one.major);
        match found.iter().rev().find(fits) {
            Some(binaries) => Ok(binaries.clone()),
            None => Err(not_installed(&found, major)),
        }
    }

    /// A program of the server, by name; it may not be installed.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn inspect(folder: &Path) -> Option<Self> {
        // A link in the search path leads to the folder where initdb finds the other programs.
        let postgres = fs::canonicalize(folder.join("postgres")).ok()?;
        let folder = postgres.parent()?.to_owned();
        if !folder.join("initdb").exists() {
            return None;
        }
        let output = Command::new(&postgres).arg("--version").output().ok()?;
        let major = major_of(&String::from_utf8_lossy(&output.stdout))?;
        Some(Self { folder, major })
    }
}

/// The version in `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)` or `... 18beta1`.
fn major_of(version: &str) -> Option<u32> {
    let number = version.split("(PostgreSQL)").nth(1)?.trim_start();
    let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    number.get(..digits)?.parse().ok()
}

fn usual_folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = env::split_paths(&path).collect();
    for (parent, begin, programs) in VERSIONED {
        let children = fs::read_dir(parent).into_iter().flatten().flatten();
        folders.extend(
            children
                .filter(|child| child.file_name().to_string_lossy().starts_with(begin))
                .map(|child| child.path().join(programs)),
        );
    }
    folders.push(POSTGRES_APP.into());
    folders.extend(folder_of_pg_config());
    folders.sort();
    folders.dedup();
    folders.retain(|folder| folder.join("postgres").exists());
    folders
}

/// The folder that `pg_config` reports, if it is installed.
fn folder_of_pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    Some(folder.trim()).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

fn not_installed(found: &[Binaries], major: Option<u32>) -> PostgresError {
    let mut versions: Vec<_> = found.iter().map(|one| one.major.to_string()).collect();
    versions.dedup();
    PostgresError::NotInstalled {
        wanted: major.map_or_else(
            || format!("{OLDEST_MAJOR} or later"),
            |major| format!("{major}, which made this data folder,"),
        ),
        found: if versions.is_empty() { "none".to_owned() } else { versions.join(", ") },
        debian: major.map_or_else(|| "postgresql".to_owned(), |m| format!("postgresql-{m}")),
        mac: format!("postgresql@{}", major.unwrap_or(MAC_MAJOR)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder with programs that report `version`.
    fn installed(root: &Path, version: &str) -> PathBuf {
        let folder = root.join(version);
        fs::create_dir(&folder).expect("a folder");
        for program in ["postgres", "initdb"] {
            let path = folder.join(program);
            let text = format!("#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n");
            fs::write(&path, text).expect("a program");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        folder
    }

    #[test]
    fn the_newest_version_is_taken_unless_a_cluster_wants_its_own() {
        let root = tempfile::tempdir().expect("a folder");
        let folders = ["14.1", "16.2", "9.6.1", "18beta1"].map(|v| installed(root.path(), v));
        let major = |wanted| Binaries::find_in(&folders, wanted).map(|found| found.major).ok();
        assert_eq!(major(None), Some(18));
        assert_eq!(major(Some(16)), Some(16));
        assert_eq!(major(Some(17)), None);
    }

    #[test]
    fn a_folder_that_is_named_goes_before_newer_ones_elsewhere_unless_it_does_not_fit() {
        let root = tempfile::tempdir().expect("a folder");
        let [old, named, usual] = ["14.1", "16.2", "18.0"].map(|v| installed(root.path(), v));
        let major = |named: Vec<PathBuf>, wanted| {
            let lists = [named, vec![usual.clone()]];
            Binaries::find_first(&lists, wanted).map(|found| found.major).ok()
        };
        assert_eq!(major(vec![named.clone()], None), Some(16));
        assert_eq!(major(vec![named], Some(18)), Some(18));
        assert_eq!(major(vec![old], None), Some(18));
        assert_eq!(major(vec![], Some(17)), None);
    }

    #[test]
    fn a_machine_without_postgres_is_told_which_package_to_install() {
        let root = tempfile::tempdir().expect("a folder");
        let old = [installed(root.path(), "13.4")];
        let said = |folders: &[PathBuf], major| {
            Binaries::find_in(folders, major).expect_err("none fits").to_string()
        };
        let none = said(&[], None);
        assert!(none.contains("sudo apt-get install postgresql`"), "{none}");
        assert!(none.contains("brew install postgresql@17"), "{none}");
        assert!(said(&old, None).contains("found: 13"));
        assert!(said(&old, Some(16)).contains("sudo apt-get install postgresql-16`"));
    }
}
