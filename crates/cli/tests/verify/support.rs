//! A home, a repository in it, and the binary.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A person's home with one repository.
pub(crate) struct Home {
    pub(crate) home: PathBuf,
    pub(crate) workspace: PathBuf,
    _folder: TempDir,
}

/// How `surety verify` ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Asserts the exit code, and that the output or the errors hold the text.
    #[track_caller]
    pub(crate) fn is(&self, code: i32, text: &str) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert!(self.stdout.contains(text) || self.stderr.contains(text), "no {text:?}: {self:#?}");
        self
    }
}

impl Home {
    /// A folder without git.
    pub(crate) fn without_git() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap().join("home");
        let workspace = home.join("project");
        fs::create_dir_all(&workspace).unwrap();
        Self { home, workspace, _folder: folder }
    }

    /// A repository with one commit of these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let home = Self::without_commit();
        files.iter().for_each(|(path, text)| home.put(path, text));
        home.commit();
        home
    }

    /// A repository without a commit.
    pub(crate) fn without_commit() -> Self {
        let home = Self::without_git();
        home.git(&["init", "-q", "-b", "main"]);
        home
    }

    pub(crate) fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.workspace.join(path).symlink_metadata().is_ok()
    }

    pub(crate) fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "work"]);
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        self.git_in(&self.workspace, arguments)
    }

    pub(crate) fn git_in(&self, folder: &Path, arguments: &[&str]) -> String {
        let identity =
            ["-c", "user.name=n", "-c", "user.email=n@x", "-c", "protocol.file.allow=always"];
        let mut git = Command::new("git");
        git.args(identity).args(arguments).current_dir(folder);
        let output = self.environment(&mut git).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Neither a person's configuration nor a service has an effect.
    pub(crate) fn environment<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SURETY_") {
                command.env_remove(name);
            }
        }
        command
            .env("HOME", &self.home)
            .env("XDG_CONFIG_HOME", self.home.join(".config"))
            .env("SURETY_DATA_DIR", self.home.join(".local/share/surety"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("DATABASE_URL", "postgres://127.0.0.1:1/nothing")
            .env("SURETY_URL", "http://127.0.0.1:1")
    }

    pub(crate) fn surety(&self, arguments: &[&str]) -> Command {
        self.command(&[&["verify"], arguments].concat())
    }

    /// Any subcommand, in the workspace.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut surety = Command::new(env!("CARGO_BIN_EXE_surety"));
        surety.args(arguments).current_dir(&self.workspace).stdin(Stdio::null());
        self.environment(&mut surety);
        surety
    }

    /// `surety verify` of an account other than root, with a copy of the program that it may start.
    pub(crate) fn surety_of_another_account(&self, arguments: &[&str]) -> Command {
        let is_root = fs::metadata(&self.workspace).unwrap().uid() == 0;
        let copy = self.home.join("surety");
        // By another process: a program that this one has open for writing, or a process that another test starts meanwhile,
        // cannot be started.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_surety")).arg(&copy).status();
        assert!(copied.unwrap().success());
        let mut surety = Command::new(copy);
        surety.arg("verify").args(arguments).current_dir(&self.workspace).stdin(Stdio::null());
        if is_root {
            give(self.home.parent().unwrap(), OTHER_ACCOUNT);
            surety.uid(OTHER_ACCOUNT).gid(OTHER_ACCOUNT);
        }
        self.environment(&mut surety);
        surety
    }

    pub(crate) fn verify(&self, arguments: &[&str]) -> Ended {
        Ended::of(&self.surety(arguments).output().unwrap())
    }

    /// Where the verdict of a repository is by default.
    pub(crate) fn verdict_file(&self) -> PathBuf {
        self.workspace.join(".git/surety/verdict.json")
    }

    pub(crate) fn verdict(&self) -> Value {
        serde_json::from_slice(&fs::read(self.verdict_file()).unwrap()).unwrap()
    }

    pub(crate) fn caution_codes(&self) -> Vec<String> {
        let verdict = self.verdict();
        let cautions = verdict["cautions"].as_array().unwrap().iter();
        cautions.map(|caution| caution["code"].as_str().unwrap().to_owned()).collect()
    }
}

/// An account without rights.
const OTHER_ACCOUNT: u32 = 65_534;

/// Gives a folder, and all in it, to an account.
fn give(path: &Path, account: u32) {
    lchown(path, Some(account), Some(account)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path(), account));
    }
}

/// Whether this machine confines commands by namespaces, as the verdict of a command says.
pub(crate) fn is_confined(home: &Home) -> bool {
    !home.caution_codes().iter().any(|code| code == "participant_unconfined")
}
