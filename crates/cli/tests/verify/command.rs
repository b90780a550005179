//! A command, and what it changed.

use crate::support::{Ended, Home, is_confined};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs;
use std::io::Write;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Two checks: the content of a file by a command, and that anything changed.
const CHECKS: &str = "verify:\n  - {kind: command_success, target: grep -q fixed product.txt}\n  - {id: changed, kind: workspace_change}\n";

/// Does the work, and adds a test, which a view has not.
const ADDS_A_TEST: &str = "cat > product.txt; echo > shared/test_new.py";

fn broken() -> Home {
    Home::with(&[(".surety/checks.yaml", CHECKS), ("product.txt", "broken\n")])
}

#[test]
fn a_command_that_did_the_work_is_accepted_whatever_its_exit_code() {
    let home = broken();
    home.verify(&["--", "sh", "-c", "echo fixed > product.txt; exit 7"]).is(0, "accepted");
    let verdict = home.verdict();
    assert_eq!(verdict["accepted"], true);
    assert_eq!(verdict["command"]["exit_code"], 7);
    assert_eq!(verdict["changed"]["paths"][0], "product.txt");
    assert_eq!(verdict["strength"], "independent");
    assert_eq!(verdict["start"]["kind"], "command");
}

#[test]
fn an_account_other_than_root_runs_a_command_with_its_input() {
    let home = broken();
    home.put("shared/test_old.py", "");
    home.commit();
    let mut surety = home.surety_of_another_account(&["--", "sh", "-c", ADDS_A_TEST]);
    if nix::unistd::geteuid().is_root() {
        // A folder that a team shares.
        chown(home.workspace.join("shared"), None, Some(65_533)).unwrap();
    }
    fs::write(home.home.join("input"), "fixed\n").unwrap();
    surety.stdin(fs::File::open(home.home.join("input")).unwrap());
    Ended::of(&surety.output().unwrap()).is(0, "accepted");
    assert_eq!(fs::read_to_string(home.workspace.join("product.txt")).unwrap(), "fixed\n");
}

#[test]
fn a_command_that_only_says_so_is_refused() {
    let home = broken();
    home.verify(&["--", "echo", "all tests pass"]).is(2, "no_workspace_change");
    let verdict = home.verdict();
    assert_eq!(verdict["command"]["exit_code"], 0);
    assert!(verdict["needed"].as_str().unwrap().contains("changed needs"), "{verdict:#}");
    let results = verdict["results"].as_array().unwrap();
    let first = results.iter().find(|result| result["kind"] == "command_success").unwrap();
    assert_eq!(first["probe"]["exit_code"], 1);
    assert_eq!(first["owner"], "user");
}

#[test]
fn the_checks_are_those_from_before_the_command() {
    let home = broken();
    let lie = "printf 'verify: [product.txt]' > .surety/checks.yaml";
    home.verify(&["--", "sh", "-c", lie]).is(2, "grep -q fixed product.txt");
}

#[test]
fn a_folder_without_git_needs_a_command() {
    let home = Home::without_git();
    home.put("checks.yaml", CHECKS);
    home.put("product.txt", "broken\n");
    home.verify(&["checks.yaml"]).is(1, "error[revision_unknown]");
    let fixed = home.verify(&["checks.yaml", "--", "sh", "-c", "echo fixed > product.txt"]);
    fixed.is(0, "accepted");
    let written = home.home.join(".local/share/surety/verdicts");
    assert_eq!(fs::read_dir(written).unwrap().count(), 1);
    assert!(!home.exists("surety-verdict.json"));
}

#[test]
fn the_command_has_the_input_and_the_environment_but_nothing_of_the_service() {
    let home = broken();
    let script =
        "read line; echo \"$line $OWN ${SURETY_URL:-none} ${DATABASE_URL:-none}\" > product.txt";
    let mut surety = home.surety(&["--", "sh", "-c", script]);
    let mut running = surety.env("OWN", "fixed").stdin(Stdio::piped()).spawn().unwrap();
    running.stdin.take().unwrap().write_all(b"typed\n").unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(0));
    let found = fs::read_to_string(home.workspace.join("product.txt")).unwrap();
    assert_eq!(found, "typed fixed none none\n");
}

#[test]
fn the_command_changes_no_toolchain_that_a_check_meets() {
    let checks = "verify:\n  - {kind: command_success, target: \"! forged\"}\n  \
                  - {kind: command_success, target: grep -q fixed product.txt}\n";
    let home = Home::with(&[(".surety/checks.yaml", checks), ("product.txt", "broken\n")]);
    let data = home.home.join(".local/share/surety");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("token"), "secret-token\n").unwrap();
    fs::write(home.home.join(".npmrc"), "kept\n").unwrap();
    let script = "mkdir -p ~/.local/bin; printf '#!/bin/sh\\n' > ~/.local/bin/forged; \
                  chmod +x ~/.local/bin/forged; echo fixed > product.txt; \
                  cat ~/.local/share/surety/token >> product.txt; echo evil > ~/.npmrc; echo x > ~/own";
    let path = format!("{}/.local/bin:{}", home.home.display(), std::env::var("PATH").unwrap());
    let mut surety = home.surety(&["--", "sh", "-c", script]);
    let ended = Ended::of(&surety.env("PATH", &path).output().unwrap());
    ended.is(0, "accepted");
    let confined = is_confined(&home);
    if confined {
        // A later verification meets none of it either.
        let again = home.surety(&["--", "true"]).env("PATH", &path).output().unwrap();
        Ended::of(&again).is(0, "accepted");
        assert!(!home.home.join(".local/bin").exists());
        let aside = fs::read_dir(data.join("set-aside")).unwrap().next().unwrap().unwrap().path();
        let moved = aside.join(home.home.strip_prefix("/").unwrap()).join(".local/bin/forged");
        assert!(moved.exists(), "{}", moved.display());
    }
    let read = |path: &str| fs::read_to_string(home.home.join(path)).unwrap();
    assert_eq!(read("own"), "x\n", "the home is the person's own");
    if confined {
        assert!(!read("project/product.txt").contains("secret-token"));
        assert_eq!(read(".npmrc"), "kept\n");
    }
}

#[test]
fn a_command_outside_the_sandbox_is_a_caution() {
    let home = broken();
    home.verify(&["--unconfined", "--", "sh", "-c", "echo fixed > product.txt"])
        .is(0, "participant_unconfined");
    assert_eq!(home.caution_codes(), ["participant_unconfined"]);
    assert_eq!(home.verdict()["command"]["sandbox"], "none");
}

#[test]
fn what_the_command_leaves_running_is_gone_before_the_round() {
    let home = broken();
    let script = "echo fixed > product.txt; (sleep 600; echo broken > product.txt) & exit 0";
    home.verify(&["--", "sh", "-c", script]).is(0, "accepted");
    let left = home.verdict()["command"]["left"].as_array().unwrap().len();
    assert!(left > 0, "the process that it left is named");
}

#[test]
fn a_command_that_cannot_start_is_an_error_and_no_verdict() {
    let home = broken();
    home.verify(&["--", "no-such-program-x"]).is(1, "error[command_not_started]");
    assert!(!home.verdict_file().exists());
}

#[test]
fn an_interrupt_ends_it_without_a_verdict() {
    let home = broken();
    let mut surety = home.surety(&["--", "sh", "-c", "touch begun; sleep 600"]);
    let running = surety.process_group(0).stderr(Stdio::piped()).stdout(Stdio::piped());
    let running = running.spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !home.exists("begun") {
        assert!(Instant::now() < until, "the command did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    // As a terminal does: to every process of the foreground group.
    killpg(Pid::from_raw(running.id().cast_signed()), Signal::SIGINT).unwrap();
    let ended = Ended::of(&running.wait_with_output().unwrap());
    ended.is(130, "there is no verdict");
    assert!(!home.verdict_file().exists());
}

#[test]
fn a_command_cannot_change_what_examines_it() {
    let checks = "verify: [\"sh tests/check.sh\"]\n";
    let files = [
        (".surety/checks.yaml", checks),
        ("tests/check.sh", "grep -q fixed product.txt\n"),
        ("product.txt", "broken\n"),
    ];
    let home = Home::with(&files);
    let lie = "echo 'exit 0' > tests/check.sh";
    home.verify(&["--", "sh", "-c", lie]).is(2, "check_inputs_changed");
    let verdict = home.verdict();
    let results = verdict["results"].as_array().unwrap();
    let check = results.iter().find(|result| result["kind"] == "command_success").unwrap();
    assert_eq!(check["probe"]["exit_code"], 1, "{check:#}");
    // The same lie in the work tree, against the revision.
    home.verify(&[]).is(2, "check_inputs_changed");
    home.git(&["checkout", "-q", "."]);
    home.verify(&["--", "sh", "-c", "echo fixed > product.txt"]).is(0, "accepted");
}

#[test]
fn what_a_check_writes_is_dropped() {
    let checks = "verify:\n  - {kind: command_success, target: \"sh -c 'echo x > made.txt'\"}\n";
    let home = Home::with(&[(".surety/checks.yaml", checks)]);
    home.verify(&["--", "true"]).is(0, "nothing since the command began");
    assert!(!home.exists("made.txt"));
}
