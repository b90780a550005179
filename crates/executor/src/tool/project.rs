//! A project's own test command, inferred from the files in the workspace's root.

use crate::tool::environment::Environment;
use crate::tool::workspace::{RelPath, Workspace};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The largest package.json that is read, in bytes.
const MANIFEST_LIMIT: u64 = 4 << 20;

/// The text that `npm init` writes for a project without tests.
const NO_TESTS: &str = "no test specified";

/// A project's own test command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestCommand {
    /// `cargo test`.
    Cargo,
    /// `npm test`.
    Npm,
    /// `go test`.
    Go,
    /// `pytest`, or `python3 -m pytest`.
    Pytest,
}

impl TestCommand {
    const ALL: [Self; 4] = [Self::Cargo, Self::Npm, Self::Go, Self::Pytest];

    /// The command that runs the project's tests; none when no file in the root determines one.
    pub fn of(workspace: &Workspace) -> Option<Self> {
        let holds = |name: &str| {
            let path = RelPath::root().join(name.as_ref());
            workspace.open_file(&path).is_ok()
        };
        if holds("Cargo.toml") {
            Some(Self::Cargo)
        } else if has_npm_test(workspace) {
            Some(Self::Npm)
        } else if holds("go.mod") {
            Some(Self::Go)
        } else {
            (holds("pyproject.toml") || holds("pytest.ini")).then_some(Self::Pytest)
        }
    }

    /// The command with this line.
    pub fn of_line(line: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|command| command.line() == line)
    }

    /// Its line, the same in every environment.
    pub const fn line(self) -> &'static str {
        match self {
            Self::Cargo => "cargo test",
            Self::Npm => "npm test",
            Self::Go => "go test ./...",
            Self::Pytest => "pytest",
        }
    }

    /// The program and its arguments. `pytest` is used if the environment has it.
    pub fn argv(self, environment: &Environment) -> Vec<String> {
        let line = match self {
            Self::Pytest if !is_program("pytest", environment) => "python3 -m pytest",
            Self::Cargo | Self::Npm | Self::Go | Self::Pytest => self.line(),
        };
        line.split(' ').map(str::to_owned).collect()
    }
}

fn has_npm_test(workspace: &Workspace) -> bool {
    let path = RelPath::root().join("package.json".as_ref());
    let Ok(text) = workspace.read(&path, MANIFEST_LIMIT) else {
        return false;
    };
    let Ok(manifest) = serde_json::from_slice::<serde_json::Value>(&text) else {
        return false;
    };
    manifest
        .pointer("/scripts/test")
        .and_then(serde_json::Value::as_str)
        .is_some_and(|script| !script.trim().is_empty() && !script.contains(NO_TESTS))
}

fn is_program(name: &str, environment: &Environment) -> bool {
    let Some(path) = environment.get("PATH") else {
        return false;
    };
    std::env::split_paths(path).any(|folder| is_executable(&folder.join(name)))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_files_at_the_root_decide_the_test_command() {
        let real = r#"{"scripts":{"test":"vitest run"}}"#;
        let empty = r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#;
        for (files, expected) in [
            (&[("Cargo.toml", ""), ("package.json", real)][..], Some("cargo test")),
            (&[("package.json", real), ("go.mod", "")], Some("npm test")),
            (&[("package.json", empty), ("go.mod", "")], Some("go test ./...")),
            (&[("package.json", "{}")], None),
            (&[("package.json", "not json")], None),
            (&[("pyproject.toml", "")], Some("python3 -m pytest")),
            (&[("pytest.ini", "")], Some("python3 -m pytest")),
            (&[("README.md", "")], None),
        ] {
            let folder = tempfile::tempdir().unwrap();
            for (name, content) in files {
                fs::write(folder.path().join(name), content).unwrap();
            }
            let workspace = Workspace::open(folder.path()).unwrap();
            let found = TestCommand::of(&workspace);
            assert_eq!(found.and_then(|found| TestCommand::of_line(found.line())), found);
            let command = found.map(|found| found.argv(&Environment::default()).join(" "));
            assert_eq!(command.as_deref(), expected, "{files:?}");
        }
    }

    #[test]
    fn pytest_is_called_by_its_name_where_it_is_installed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("pytest.ini"), "").unwrap();
        let program = folder.path().join("pytest");
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().as_os_str().to_owned();
        let environment = Environment::scrub([("PATH".into(), path)]);
        let workspace = Workspace::open(folder.path()).unwrap();
        let command = TestCommand::of(&workspace).unwrap();
        assert_eq!(command.argv(&environment), ["pytest"]);
    }
}
