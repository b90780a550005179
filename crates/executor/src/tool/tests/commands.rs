//! Real processes: how they end, their environment, and what they leave behind.

use super::{ToolFixture, eventually, output, sandbox_config};
use crate::tool::builtin::run_command::STDERR_MARK;
use crate::tool::process::OUTPUT_LIMIT;
use crate::tool::{Environment, ErrorCode, Sandbox, ToolOutcome};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use surety_common::domain::receipt::{Command, Conditions, Fact};
use surety_sandbox::InForce;

fn sh(script: &str) -> serde_json::Value {
    json!({"argv": ["sh", "-c", script]})
}

/// The fact of a command in the root, without additions to its environment.
fn ran(command: Command, exit_code: i32) -> Fact {
    let conditions = Conditions { cwd: ".".to_owned(), ..Conditions::default() };
    Fact::Command { command, exit_code, conditions: Some(conditions) }
}

fn exit_code(outcome: &ToolOutcome) -> i32 {
    let is_left =
        |fact: &&Fact| matches!(fact, Fact::Output { key, .. } if key == "processes_left");
    let others: Vec<_> = outcome.facts.iter().filter(|fact| !is_left(fact)).collect();
    match others.as_slice() {
        [Fact::Command { exit_code, .. }] => *exit_code,
        other => panic!("one fact about a command, not {other:?}"),
    }
}

/// Whether the process whose id a script wrote to a file in its workspace still runs. The id may be that
/// of the command's PID namespace. A zombie does not run.
fn runs(pid_file: &Path) -> bool {
    let Ok(text) = fs::read_to_string(pid_file) else {
        return false;
    };
    let (pid, folder) = (text.trim(), pid_file.parent().unwrap());
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.map(|entry| entry.path()).any(|process| {
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        let field = |name| status.lines().find_map(|line: &str| line.strip_prefix(name));
        let is_it = field("NSpid:").is_some_and(|ids| ids.split_whitespace().last() == Some(pid));
        let ended = field("State:").is_none_or(|state| state.trim().starts_with('Z'));
        is_it && !ended && fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder)
    })
}

#[tokio::test]
async fn the_outcome_of_a_command_has_its_arguments_exit_code_and_output() {
    let fixture = ToolFixture::new();
    let script = "echo \"$1\"; echo oops >&2; exit 3";
    let argv = ["sh", "-c", script, "sh", "größe; rm -rf $HOME"];
    let outcome = fixture.call("run_command", json!({"argv": argv})).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::CommandFailed));
    assert_eq!(output(&outcome), format!("größe; rm -rf $HOME\n{STDERR_MARK}\noops\n"));
    let command = Command::Argv(argv.map(str::to_owned).to_vec());
    assert_eq!(outcome.facts, [ran(command, 3)]);
    assert!(!outcome.timed_out);
}

#[tokio::test]
async fn a_command_does_not_see_a_key_that_was_made_after_the_sandbox() {
    let mut fixture = ToolFixture::new();
    let key = fixture.outside.join("late.pem");
    let mut config = sandbox_config();
    config.sandbox_read_only = Some(fixture.outside.to_string_lossy().into_owned());
    let data = fixture.outside.with_file_name("data");
    let sandbox = Sandbox::probe(&config, &data, vec![key.clone()]).unwrap();
    let is_confined = *sandbox.machine().in_force() != InForce::None;
    fixture.ctx.sandbox = Arc::new(sandbox);
    fs::write(&key, "private").unwrap();
    let hidden = fixture.ctx.sandbox.parser_spec(&fixture.ctx, String::new()).unwrap().tree.hidden;
    assert!(hidden.contains(&key), "{hidden:?}");
    let script = format!("cat {0}/secret.txt; cat {0}/late.pem", fixture.outside.display());
    let outcome = fixture.call("run_command", sh(&script)).await;
    assert!(output(&outcome).contains("secret"), "{}", output(&outcome));
    assert!(!is_confined || !output(&outcome).contains("private"), "{}", output(&outcome));
}

#[tokio::test]
async fn a_command_runs_in_the_requested_folder_of_the_workspace() {
    let fixture = ToolFixture::new();
    fixture.put("sub/tool.sh", "#!/bin/sh\npwd\n");
    let script = fixture.root.join("sub/tool.sh");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(script, mode).unwrap();
    let args = json!({"argv": ["./tool.sh"], "cwd": "sub"});
    let outcome = fixture.call("run_command", args).await;
    assert_eq!(output(&outcome).trim_end(), fixture.root.join("sub").to_str().unwrap());
}

#[tokio::test]
async fn a_program_is_the_first_that_can_run_in_the_path_the_command_sees() {
    let mut fixture = ToolFixture::new();
    fs::create_dir_all(fixture.root.join("a/tool")).unwrap();
    fixture.put("b/tool", "#!/bin/sh\necho not executable\n");
    for (folder, says) in [("c", "first"), ("d", "second")] {
        fixture.put(&format!("{folder}/tool"), format!("#!/bin/sh\necho {says}\n"));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(fixture.root.join(folder).join("tool"), mode).unwrap();
    }
    let path = std::env::join_paths(["a", "b", "c", "d"].map(|name| fixture.root.join(name)));
    let host = [("PATH".into(), path.unwrap())];
    fixture.ctx.environment = Arc::new(Environment::scrub(host));
    let outcome = fixture.call("run_command", json!({"argv": ["tool"]})).await;
    assert_eq!(output(&outcome).trim_end(), "first");
    let outcome = fixture.call("run_command", json!({"argv": ["sh"]})).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::ProgramNotFound), "only the path counts");
}

#[tokio::test]
async fn a_command_sees_a_scrubbed_environment() {
    let mut fixture = ToolFixture::new();
    let host = [
        ("PATH", "/usr/bin:/bin"),
        ("CARGO_HOME", "/cargo"),
        ("SURETY_MODEL_KEY", "secret"),
        ("GITHUB_TOKEN", "secret"),
        ("DATABASE_URL", "secret"),
        ("SSH_AUTH_SOCK", "secret"),
    ];
    let host = host.map(|(name, value)| (name.into(), value.into()));
    fixture.ctx.environment = Arc::new(Environment::scrub(host));
    let args = json!({"argv": ["env"], "env": {"RUST_BACKTRACE": "1"}});
    let outcome = fixture.call("run_command", args).await;
    let mut seen: Vec<_> = output(&outcome).lines().collect();
    seen.sort_unstable();
    let key = format!("SURETY_IDEMPOTENCY_KEY={}", fixture.ctx.call_id);
    assert_eq!(seen, ["CARGO_HOME=/cargo", "PATH=/usr/bin:/bin", "RUST_BACKTRACE=1", &key]);
    let args = json!({"argv": ["env"], "env": {"SURETY_IDEMPOTENCY_KEY": "mine"}});
    let outcome = fixture.call("run_command", args).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::EnvNotAllowed));
    let args = json!({"argv": ["env"], "env": {"PATH": "/tmp"}});
    let outcome = fixture.call("run_command", args).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::EnvNotAllowed));
}

#[tokio::test]
async fn a_line_needs_a_policy_that_allows_a_shell() {
    let mut fixture = ToolFixture::new();
    let args = json!({"command": "echo a && echo b"});
    let outcome = fixture.call("run_command", args.clone()).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::ShellNotAllowed));
    assert!(outcome.facts.is_empty());
    fixture.ctx.shell_allowed = true;
    let outcome = fixture.call("run_command", args).await;
    assert_eq!(output(&outcome), "a\nb\n");
    let command = Command::Line("echo a && echo b".to_owned());
    assert_eq!(outcome.facts, [ran(command, 0)]);
}

#[tokio::test]
async fn an_argument_with_a_nul_is_refused_before_the_start() {
    let fixture = ToolFixture::new();
    for argv in [["a\0b", "c"], ["echo", "a\0b"]] {
        let outcome = fixture.call("run_command", json!({"argv": argv})).await;
        assert_eq!(outcome.error_code, Some(ErrorCode::ArgumentsInvalid), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let fixture = ToolFixture::new();
    for program in ["no-such-program-anywhere", "./none"] {
        let outcome = fixture.call("run_command", json!({"argv": [program]})).await;
        assert_eq!(outcome.error_code, Some(ErrorCode::ProgramNotFound));
        assert!(outcome.facts.is_empty());
    }
}

/// Runs a script that prints `begun` when it has reached the tested point, with a deadline that is
/// doubled until it is late enough.
async fn run_past_deadline(fixture: &ToolFixture, script: &str) -> ToolOutcome {
    let mut args = sh(script);
    for seconds in [1, 2, 4, 8, 16, 32] {
        args["timeout_s"] = json!(seconds);
        let outcome = fixture.call("run_command", args.clone()).await;
        // Some shells report on the standard error that a signal ended their child.
        if output(&outcome).starts_with("begun\n") {
            assert_eq!(outcome.error_code, Some(ErrorCode::Timeout));
            assert!(outcome.timed_out);
            return outcome;
        }
    }
    panic!("it never began");
}

#[tokio::test]
async fn a_deadline_ends_a_command_and_the_grandchild_that_holds_its_output() {
    let fixture = ToolFixture::new();
    let script = "(trap '' TERM; exec sh -c 'echo $$ > pid; while :; do sleep 1; done') & \
                  while [ ! -s pid ]; do sleep 0.01; done; echo begun; wait";
    let outcome = run_past_deadline(&fixture, script).await;
    assert_eq!(exit_code(&outcome), 128 + 15);
    let pid_file = fixture.root.join("pid");
    eventually("the grandchild has ended", || !runs(&pid_file)).await;
}

#[tokio::test]
async fn a_command_that_exits_with_0_on_a_signal_has_failed() {
    let fixture = ToolFixture::new();
    let script = "trap 'exit 0' TERM; echo begun; while :; do sleep 0.05; done";
    let outcome = run_past_deadline(&fixture, script).await;
    assert_eq!(exit_code(&outcome), 128 + 15);
}

#[tokio::test]
async fn a_command_that_ignores_sigterm_is_killed() {
    let fixture = ToolFixture::new();
    let script = "trap '' TERM; echo begun; while :; do sleep 0.05; done";
    let outcome = run_past_deadline(&fixture, script).await;
    assert_eq!(exit_code(&outcome), 128 + 9);
}

#[tokio::test]
async fn cancelling_a_call_ends_its_command() {
    let fixture = ToolFixture::new();
    let pid_file = fixture.root.join("pid");
    let args = sh("echo $$ > pid; while :; do sleep 1; done");
    let cancel = async {
        eventually("the command runs", || runs(&pid_file)).await;
        fixture.ctx.cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(fixture.call("run_command", args), cancel);
    assert_eq!(outcome.error_code, Some(ErrorCode::Cancelled));
    assert!(!outcome.timed_out);
    assert_eq!(exit_code(&outcome), 128 + 15);
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_no_process_behind() {
    let fixture = ToolFixture::new();
    let pid_file = fixture.root.join("pid");
    let script = "sh -c 'echo $$ > pid; while :; do sleep 1; done' & wait";
    tokio::select! {
        outcome = fixture.call("run_command", sh(script)) => panic!("it ended: {outcome:?}"),
        () = eventually("the command runs", || runs(&pid_file)) => {}
    }
    eventually("the grandchild has ended", || !runs(&pid_file)).await;
}

#[tokio::test]
async fn background_processes_of_a_command_are_killed_and_do_not_delay_the_call() {
    let fixture = ToolFixture::new();
    let pid_file = fixture.root.join("pid");
    let script = "sh -c 'echo $$ > pid; while :; do sleep 1; done' & \
                  while [ ! -s pid ]; do sleep 0.01; done; echo done";
    let outcome = fixture.call("run_command", sh(script)).await;
    assert!(outcome.success, "{}", outcome.summary);
    assert_eq!(output(&outcome), "done\n");
    eventually("the background process has ended", || !runs(&pid_file)).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_left_the_group_does_not_delay_the_call() {
    let fixture = ToolFixture::new();
    let script = "setsid sh -c 'echo $$ > pid; while [ -e pid ]; do sleep 0.05; done' & \
                  while [ ! -s pid ]; do sleep 0.01; done; echo done";
    let outcome = fixture.call("run_command", sh(script)).await;
    fs::remove_file(fixture.root.join("pid")).unwrap();
    assert!(outcome.success);
    assert_eq!(output(&outcome), "done\n");
    assert!(
        outcome.summary.contains("background processes were killed: sh"),
        "{}",
        outcome.summary
    );
    let left = Fact::of_output("processes_left", "sh");
    assert!(outcome.facts.contains(&left), "{:?}", outcome.facts);
}

#[tokio::test]
async fn a_large_output_is_whole() {
    let fixture = ToolFixture::new();
    let outcome = fixture.call("run_command", json!({"argv": ["seq", "1", "1000000"]})).await;
    let expected: String = (1..=1_000_000).map(|number| format!("{number}\n")).collect();
    assert!(output(&outcome) == expected);
}

#[tokio::test]
async fn output_beyond_the_limit_is_counted_and_the_exit_code_decides() {
    let fixture = ToolFixture::new();
    for (exit, code) in [("exit 0", 0), ("exit 3", 3)] {
        let script = format!("head -c 80000000 /dev/zero; echo last words; {exit}");
        let outcome = fixture.call("run_command", sh(&script)).await;
        assert_eq!((outcome.success, exit_code(&outcome)), (code == 0, code));
        assert!(outcome.output.len() <= OUTPUT_LIMIT);
        assert!(outcome.output.ends_with(b"last words\n"));
        assert!(outcome.summary.contains("bytes of its output are not stored"));
    }
}

#[tokio::test]
async fn endless_output_lasts_until_the_deadline() {
    let fixture = ToolFixture::new();
    let outcome = fixture.call("run_command", json!({"argv": ["yes"], "timeout_s": 1})).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::Timeout));
    assert!(exit_code(&outcome) > 128);
    assert!(outcome.output.len() <= OUTPUT_LIMIT);
}

/// Modes do not bind root, so root gets a full disk. Other accounts get a folder that is closed to them.
#[test]
fn a_data_folder_that_cannot_be_written_is_refused_with_its_setting() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let scratch = data.join("scratch");
    fs::create_dir_all(&scratch).unwrap();
    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        let words = ["-t", "tmpfs", "-o", "size=16k", "tmpfs"];
        let mounted = std::process::Command::new("mount").args(words).arg(&scratch).status();
        if !mounted.is_ok_and(|status| status.success()) {
            println!("skipped: this machine lets nothing be mounted");
            return;
        }
    } else {
        fs::set_permissions(&scratch, fs::Permissions::from_mode(0o555)).unwrap();
    }
    let refused = Sandbox::probe(&sandbox_config(), &data, Vec::new());
    let left = fs::read_dir(&scratch).unwrap().count();
    if is_root {
        let unmounted = std::process::Command::new("umount").arg("-l").arg(&scratch).status();
        assert!(unmounted.unwrap().success());
    }
    let message = refused.map(drop).unwrap_err().to_string();
    assert!(message.contains("cannot be written"), "{message}");
    assert!(message.contains("--executor-data-dir (SURETY_EXECUTOR_DATA_DIR)"), "{message}");
    assert_eq!(left, 0, "the file of the test write was left");
}
