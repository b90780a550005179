//! Which program confines a command: the smaller helper beside `surety`, or `surety` itself.

#![cfg(target_os = "linux")]

use crate::support::{Ended, Home};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A folder with `surety`, on the file system of the programs, so that links need no copies.
fn installed() -> TempDir {
    let built = Path::new(env!("CARGO_BIN_EXE_surety"));
    let folder = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
    fs::hard_link(built, folder.path().join("surety")).unwrap();
    folder
}

fn built_helper() -> PathBuf {
    let helper = Path::new(env!("CARGO_BIN_EXE_surety")).with_file_name("surety-sandbox");
    assert!(helper.is_file(), "build it with `cargo build --workspace --bins`");
    helper
}

/// The program that confines a command of `surety verify`, asked for while the command waits.
fn helper_of(folder: &Path) -> PathBuf {
    let home = Home::with(&[("product.txt", "broken\n")]);
    home.put(
        ".surety/checks.yaml",
        "verify:\n  - {kind: command_success, target: grep -q fixed product.txt}\n",
    );
    home.commit();
    let wait = "touch began; until test -e go; do sleep 0.02; done; echo fixed > product.txt";
    let mut surety = Command::new(folder.join("surety"));
    surety.args(["verify", "--", "sh", "-c", wait]).current_dir(&home.workspace);
    home.environment(&mut surety).stdin(Stdio::null()).stdout(Stdio::piped());
    let child = surety.stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !home.exists("began") {
        assert!(Instant::now() < until, "the command did not begin");
        std::thread::yield_now();
    }
    let helper = child_program(child.id());
    home.put("go", "");
    Ended::of(&child.wait_with_output().unwrap()).is(0, "accepted");
    helper.expect("a helper")
}

fn child_program(parent: u32) -> Option<PathBuf> {
    fs::read_dir("/proc").unwrap().find_map(|entry| {
        let process = entry.unwrap().path();
        let status = fs::read_to_string(process.join("status")).ok()?;
        let is_child = status
            .lines()
            .any(|line| line.strip_prefix("PPid:").map(str::trim) == Some(&parent.to_string()));
        is_child.then(|| fs::read_link(process.join("exe")).ok()).flatten()
    })
}

#[test]
fn the_helper_beside_the_program_confines_a_command() {
    let folder = installed();
    let beside = folder.path().join("surety-sandbox");
    fs::hard_link(built_helper(), &beside).unwrap();
    assert_eq!(helper_of(folder.path()), beside.canonicalize().unwrap());
}

#[test]
fn the_program_itself_is_the_helper_where_there_is_none() {
    let folder = installed();
    let own = folder.path().join("surety").canonicalize().unwrap();
    assert_eq!(helper_of(folder.path()), own);
}

#[test]
fn a_helper_of_another_build_is_left_alone() {
    let folder = installed();
    let own = folder.path().join("surety").canonicalize().unwrap();
    fs::copy("/bin/echo", folder.path().join("surety-sandbox")).unwrap();
    assert_eq!(helper_of(folder.path()), own);
}

#[test]
fn a_helper_that_other_accounts_can_write_is_left_alone() {
    let folder = installed();
    let own = folder.path().join("surety").canonicalize().unwrap();
    let beside = folder.path().join("surety-sandbox");
    // A copy by another process: the permissions of the built one stay as they are.
    assert!(Command::new("cp").arg(built_helper()).arg(&beside).status().unwrap().success());
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(helper_of(folder.path()), own);
}
