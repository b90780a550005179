//! Much of the rest once more, under an account that is not root: it has to reach the same level, and there every
//! neighbour has the account of the command, so that only the sandbox keeps them apart.

use crate::support::skip;
use nix::unistd::geteuid;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use surety_sandbox::{InForce, Wanted, machine};
use tempfile::TempDir;

/// An account that no machine gives to a person or a service.
const ACCOUNT: u32 = 64_123;

/// What cannot be tried where it may not.
const WITHOUT: &str = "the level full of an account that is not root";

/// What is played again.
const PLAYED: [&str; 20] = [
    "attempts::files::attributes_of_the_machines_devices_are_not_changed",
    "attempts::files::files_of_the_person_and_of_other_runs_are_not_reached",
    "attempts::files::the_machines_files_are_not_reached",
    "attempts::files::the_services_own_files_are_not_reached",
    "attempts::kernel::each_refused_system_call_is_refused_by_name",
    "attempts::kernel::the_kernel_is_not_asked_for_more",
    "attempts::network::sockets_of_the_host_are_not_reached",
    "attempts::processes::a_command_that_kills_what_it_can_ends_itself_alone",
    "attempts::processes::nothing_outlives_its_call",
    "behaviour::a_view_shows_changes_that_the_workspace_does_not_get",
    "behaviour::everything_ends_when_the_service_is_gone",
    "behaviour::memory_is_bounded",
    "behaviour::names_that_are_asked_for_are_known_and_answered_at_once",
    "behaviour::processes_are_bounded",
    "attempts::files::no_file_with_a_set_id_bit_is_left",
    "disk::what_is_written_out_of_sight_counts_too",
    "disk::what_a_command_leaves_behind_is_removed_however_deep_and_closed_it_is",
    "capabilities::a_command_has_no_capability_and_no_program_gives_it_any",
    "neighbours::commands_of_different_runs_do_not_look_into_each_other",
    "plain_user::an_account_that_is_not_root_has_the_level_full",
];

/// Each of their attempts has to succeed without a sandbox.
const PLAYED_WHERE_ACCOUNTS_LOOK_INTO_THEIR_PROCESSES: [&str; 2] = [
    "attempts::files::other_processes_are_not_looked_into",
    "attempts::processes::other_processes_are_not_touched",
];

/// Whether this kernel lets a process look into others of its account. Where it does not, attempts without a sandbox
/// fail too.
fn accounts_look_into_their_processes() -> bool {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    scope.map_or(true, |scope| scope.trim() == "0")
}

/// A user namespace with a `/proc` of its own, as `unshare` asks for it.
const NAMESPACES: [&str; 5] = ["-Ur", "--pid", "--fork", "--mount-proc", "true"];

/// An overlay in a user namespace.
const OVERLAY: [&str; 4] = [
    "-Urm",
    "sh",
    "-c",
    "mount -t tmpfs t /tmp && cd /tmp && mkdir l u w && \
     mount -t overlay -o userxattr,lowerdir=l,upperdir=u,workdir=w o l",
];

/// Why this machine gives an account that is not root none of this; none where it does.
fn refused(asked: &[&str]) -> Option<String> {
    let mut unshare = Command::new("unshare");
    if geteuid().is_root() {
        unshare.uid(ACCOUNT).gid(ACCOUNT);
    }
    match unshare.args(asked).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare cannot be asked: {error}")),
    }
}

/// Copies a program to a place that every account reaches. Another process copies it: a program that this one, or a process
/// that another test starts meanwhile, has open for writing cannot be started.
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").args([from, to]).status().unwrap().success());
    fs::set_permissions(to, Permissions::from_mode(0o755)).unwrap();
}

/// A home, a folder for temporary files and the programs of these tests, for the account.
fn place() -> TempDir {
    let tests = std::env::current_exe().unwrap();
    let helper = tests.ancestors().skip(1).take(2).map(|folder| folder.join("surety-sandbox"));
    let helper = { helper }.find(|path| path.is_file()).expect("the helper beside the tests");
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    for made in ["home", "tmp"].map(|name| folder.path().join(name)) {
        fs::create_dir(&made).unwrap();
        chown(made, Some(ACCOUNT), Some(ACCOUNT)).unwrap();
    }
    copy(&tests, &folder.path().join("escapes"));
    copy(&helper, &folder.path().join("surety-sandbox"));
    folder
}

#[test]
fn an_account_that_is_not_root_is_confined_as_root_is() {
    if !geteuid().is_root() {
        println!("the rows themselves run under an account that is not root");
        return;
    }
    let mut played = PLAYED.to_vec();
    if accounts_look_into_their_processes() {
        played.extend(PLAYED_WHERE_ACCOUNTS_LOOK_INTO_THEIR_PROCESSES);
    }
    if let Some(why) = refused(&NAMESPACES) {
        // The account may not write to the file that names what is skipped.
        skip(WITHOUT, &why);
    }
    let folder = place();
    let own = folder.path().join("home");
    let output = Command::new(folder.path().join("escapes"))
        .args(&played)
        .args(["--exact", "--nocapture"])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &own)
        .env("TMPDIR", folder.path().join("tmp"))
        .current_dir(&own)
        .uid(ACCOUNT)
        .gid(ACCOUNT)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{error}");
    assert!(said.contains(&format!("test result: ok. {} passed", played.len())), "{said}");
}

#[test]
fn an_account_that_is_not_root_has_the_level_full() {
    if geteuid().is_root() {
        println!("it is played under an account that is not root");
        return;
    }
    if let Some(why) = refused(&NAMESPACES) {
        if let Err(error) = machine(Wanted::Full, &std::env::temp_dir()) {
            let named = ["user namespace", "/proc"].iter().any(|name| error.reason.contains(name));
            assert!(named, "{error}");
        }
        return skip(WITHOUT, &why);
    }
    for wanted in [Wanted::Auto, Wanted::Full] {
        let machine = machine(wanted, &std::env::temp_dir()).unwrap();
        assert_eq!(machine.in_force(), &InForce::Full, "{:?}", machine.reasons());
        // Else caches are read-only and a view is a copy.
        assert!(machine.makes_views() || refused(&OVERLAY).is_some());
    }
}
