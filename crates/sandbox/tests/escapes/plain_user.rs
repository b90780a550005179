//! The rows about processes once more, under an account that is not root: there every neighbour has the account of the
//! command, so that only the sandbox keeps them apart.

use nix::unistd::geteuid;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// An account that no machine gives to a person or a service.
const ACCOUNT: u32 = 64_123;

/// What is played again.
const PLAYED: [&str; 3] = [
    "neighbours::commands_of_different_runs_do_not_look_into_each_other",
    // Each of their attempts has to succeed without a sandbox.
    "attempts::files::other_processes_are_not_looked_into",
    "attempts::processes::other_processes_are_not_touched",
];

/// Whether this kernel lets a process look into others of its account. Where it does not, attempts without a sandbox
/// fail too.
fn accounts_look_into_their_processes() -> bool {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    scope.map_or(true, |scope| scope.trim() == "0")
}

/// Copies a program to a place that every account reaches.
fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap();
    fs::set_permissions(to, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_account_that_is_not_root_looks_into_no_process_of_its_own_account() {
    if !geteuid().is_root() {
        println!("the rows themselves run under an account that is not root");
        return;
    }
    let tests = std::env::current_exe().unwrap();
    let helper = tests.ancestors().skip(1).take(2).map(|folder| folder.join("surety-sandbox"));
    let helper = { helper }.find(|path| path.is_file()).expect("the helper beside the tests");
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let [own, temporary] = ["home", "tmp"].map(|name| folder.path().join(name));
    for made in [&own, &temporary] {
        fs::create_dir(made).unwrap();
        chown(made, Some(ACCOUNT), Some(ACCOUNT)).unwrap();
    }
    let copied = folder.path().join("escapes");
    copy(&tests, &copied);
    copy(&helper, &folder.path().join("surety-sandbox"));
    let count = if accounts_look_into_their_processes() { PLAYED.len() } else { 1 };
    let output = Command::new(&copied)
        .args(&PLAYED[..count])
        .args(["--exact", "--nocapture"])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &own)
        .env("TMPDIR", &temporary)
        .current_dir(&own)
        .uid(ACCOUNT)
        .gid(ACCOUNT)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{error}");
    assert!(said.contains(&format!("test result: ok. {count} passed")), "{said}");
}
