//! The real binary, as a user or a script calls it.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const CYCLE: &str = "\
title: t
steps:
  - {id: a, description: x, dependencies: [b]}
  - {id: b, description: y, dependencies: [a]}
";
const PROVEN: &str = "\
title: A note
goal: Write a note.
steps:
  - id: write
    description: Write the note.
    tools_expected: [write_file]
    script:
      - name: write_file
        arguments: { path: note.txt, content: written }
verify:
  - { id: note, kind: content_contains, target: note.txt, params: { contains: written } }
";

/// A plan whose only command does not end in time.
const SLOW: &str = "\
title: Slow
goal: Take long.
steps:
  - id: wait
    description: Wait.
    script:
      - name: run_command
        arguments: { argv: [sh, -c, 'touch began; sleep 60'] }
verify: [{ kind: output_only }]
";

/// A separate folder for each test, and the binary without the machine's settings.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        // Short, and accessible to the database's user: a socket's path is limited.
        let folder = tempfile::Builder::new().prefix("surety-cli-").tempdir_in("/tmp");
        let folder = folder.expect("a folder");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        fs::set_permissions(folder.path(), mode).expect("a mode");
        Self { folder }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_surety"));
        for name in ["SURETY_URL", "SURETY_TOKEN_FILE", "DATABASE_URL", "SURETY_LOG_FORMAT"] {
            command.env_remove(name);
        }
        command.env("SURETY_DATA_DIR", self.data()).current_dir(self.folder.path());
        command.env("SURETY_LOG", "warn").args(words);
        command
    }

    fn run(&self, words: &[&str]) -> Answer {
        Answer::of(self.command(words).output().expect("surety runs"))
    }
}

struct Answer {
    code: i32,
    out: String,
    err: String,
}

impl Answer {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("a code"),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }

    fn says(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is not in {}", self.err);
        }
    }
}

/// `surety up` on free ports; ended with SIGTERM.
struct Up {
    child: Child,
}

impl Up {
    fn start(place: &Place) -> Self {
        Self::start_with(place, &[])
    }

    fn start_with(place: &Place, words: &[&str]) -> Self {
        let ports = ["PLANNER", "EXECUTOR", "GATE"].map(|name| format!("SURETY_{name}_LISTEN"));
        let mut command = place.command(&[&["up"], words].concat());
        command.envs(ports.map(|name| (name, "127.0.0.1:0")));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("surety up");
        let mut first = String::new();
        let stdout = child.stdout.as_mut().expect("its output");
        BufReader::new(stdout).read_line(&mut first).expect("a line");
        assert!(first.starts_with("surety is up at http://127.0.0.1:"), "{first:?}");
        Self { child }
    }

    fn stop(mut self) -> i32 {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(pid), Signal::SIGTERM).expect("a signal");
        self.child.wait().expect("an end").code().expect("a code")
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Only after a failed assertion: the database ends with its parent.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn lines_of(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn an_answer_with_an_empty_digest_is_refused_before_it_is_sent() {
    let answer = Place::new().run(&["answer", "a-wait", "--digest", "", "yes"]);
    answer.says(1, &["error[value_invalid]", "the digest is empty"]);
}

#[test]
fn budgets_that_nothing_is_added_to_are_refused_in_the_words_of_the_command() {
    let answer = Place::new().run(&["budget", "extend", "last", "--tokens", "0"]);
    answer.says(1, &["error[value_invalid]", "--tokens or --cost-micros above 0"]);
}

#[test]
fn an_invalid_switch_is_named_by_its_variable() {
    let place = Place::new();
    for value in ["maybe", ""] {
        for name in ["SURETY_REFLECTION", "SURETY_SANDBOX_ALLOW_NONE", "SURETY_POSTGRES_BIN"] {
            if name == "SURETY_POSTGRES_BIN" && !value.is_empty() {
                continue;
            }
            let mut command = place.command(&["config", "check"]);
            let answer = Answer::of(command.env(name, value).output().expect("surety runs"));
            answer.says(1, &[&format!("the environment variable {name} is {value:?}")]);
        }
    }
    let mut command = place.command(&["config", "check"]);
    command.env("SURETY_REFLECTION", "true").env("SURETY_POSTGRES_BIN", "/opt/pg/bin");
    let answer = Answer::of(command.output().expect("surety runs"));
    answer.says(0, &[]);
    let line = |name: &str| answer.out.lines().find(|line| line.contains(name)).unwrap_or_default();
    assert!(line("SURETY_REFLECTION").contains("true"), "{}", answer.out);
    assert!(line("SURETY_POSTGRES_BIN").contains("/opt/pg/bin"), "{}", answer.out);
}

/// A lost output may have been a token that is shown once.
#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error_and_a_closed_reader_is_none() {
    let place = Place::new();
    for words in [&["--version"] as &[&str], &["config", "check"], &["--json", "config", "check"]] {
        let mut command = place.command(words);
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
        let answer = Answer::of(command.stdout(full).output().expect("surety runs"));
        answer.says(1, &["file_unusable", "standard output: No space left on device"]);

        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let answer = Answer::of(place.command(words).stdout(writer).output().expect("surety runs"));
        answer.says(141, &[]);
        assert!(answer.err.is_empty(), "{}", answer.err);
    }
}

#[test]
fn an_address_of_something_else_is_named_with_what_to_look_for() {
    let place = Place::new();
    let answers: [&[u8]; 3] =
        [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"", b"no gRPC\n"];
    for answer in answers {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut stream = stream;
                stream.write_all(answer).ok();
            }
        });
        for words in [vec!["health", &url], vec!["runs", "--url", &url]] {
            place.run(&words).says(1, &["error[service_unreachable]", &url, "7401"]);
        }
    }
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let parts = ["error[service_unreachable]", &url, "answered in time", "7401"];
    place.run(&["health", &url]).says(1, &parts);
}

#[test]
fn a_database_that_cannot_be_reached_is_named_with_the_cause() {
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = closed.local_addr().expect("an address").to_string();
    drop(closed);
    let place = Place::new();
    let mut migrate = place.command(&["migrate"]);
    migrate.env("DATABASE_URL", format!("postgres://a@{address}/b"));
    migrate.env("SURETY_DATABASE_ACQUIRE_TIMEOUT_MS", "200");
    let answer = Answer::of(migrate.output().expect("surety runs"));
    answer.says(1, &["error[database_unusable]", &address, "refused", "Start the database"]);
    assert!(!answer.err.contains("owns the schema"), "{}", answer.err);
}

#[test]
fn bytes_of_an_export_that_are_no_text_are_broken_evidence() {
    let place = Place::new();
    let file = place.folder.path().join("run.ndjson");
    fs::write(&file, b"{}\n{\"a\":\"\xff\"}\n").expect("a file");
    let answer = place.run(&["receipts", "verify", file.to_str().expect("a path")]);
    answer.says(2, &[]);
    assert!(answer.out.contains("line 2: it is not UTF-8 text"), "{}", answer.out);
}

#[test]
fn keys_that_are_missing_are_named_as_they_were_given() {
    let place = Place::new();
    let file = place.file("run.ndjson", "{}\n");
    let verify = ["receipts", "verify", file.to_str().expect("a path"), "--keys", "nothere"];
    let answer = place.run(&verify);
    answer.says(1, &["nothere of --keys cannot be read", "`surety keys export`"]);
    assert!(!answer.err.contains("pin"), "{}", answer.err);
    place.run(&["keys", "export"]).says(1, &["trusted-keys.json", "cannot be read", "`surety up`"]);
}

#[test]
fn a_plan_with_a_cycle_is_refused_without_a_service() {
    let place = Place::new();
    let file = place.file("plan.yaml", CYCLE);
    let name = file.to_str().expect("a path");
    place.run(&["plan", "check", name]).says(1, &["error[dependency_cycle]", "a -> b -> a"]);
    let json = place.run(&["plan", "check", name, "--json"]);
    json.says(1, &["{\"error\":{\"code\":\"dependency_cycle\""]);
    assert!(json.out.starts_with("{\"ok\":false,"), "{}", json.out);
}

#[test]
fn a_program_of_a_check_that_this_machine_lacks_is_named_and_refuses_nothing() {
    let place = Place::new();
    let plan = "title: t\nsteps: [{id: a, description: x}]\n\
                verify: [{kind: command_success, target: no-such-program-x run}, sh test.sh, sh test.sh | no-such-program-z]\n\
                policy: {prepare: [no-such-program-y install]}\n";
    let file = place.file("plan.yaml", plan);
    let answer = place.run(&["plan", "check", file.to_str().expect("a path")]);
    let says = |place: &str, program: &str| {
        format!("{place} names the program {program:?}, which this machine has not")
    };
    answer.says(
        0,
        &[
            says("verify[0]", "no-such-program-x").as_str(),
            says("verify[2]", "no-such-program-z").as_str(),
            says("policy.prepare[0]", "no-such-program-y").as_str(),
        ],
    );
}

#[test]
fn a_good_plan_is_shown_as_it_is_read_also_from_standard_input() {
    let place = Place::new();
    let mut command = place.command(&["plan", "check", "-", "--json"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("surety");
    let mut stdin = child.stdin.take().expect("its input");
    stdin.write_all(PROVEN.as_bytes()).expect("a plan");
    drop(stdin);
    let answer = Answer::of(child.wait_with_output().expect("an end"));
    answer.says(0, &[]);
    assert!(answer.out.starts_with("{\"ok\":true,\"digest\":\""), "{}", answer.out);
}

#[test]
fn an_unknown_key_is_refused_before_a_request_is_sent() {
    let place = Place::new();
    let file = place.file("plan.yaml", "title: t\nstep: []\n");
    let answer = place.run(&["run", file.to_str().expect("a path")]);
    answer.says(1, &["error[unknown_key]", "`step`", "Did you mean `steps`?"]);
}

#[test]
fn without_a_service_a_command_says_how_to_start_one() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let file = place.file("plan.yaml", PROVEN);
    let file = file.to_str().expect("a path");
    for words in [vec!["run", file], vec!["runs"], vec!["show", "last"], vec!["waits"]] {
        let words = [words, vec!["--url", &url]].concat();
        place.run(&words).says(1, &["error[service_unreachable]", &url, "surety up"]);
    }
    place.run(&["health", &url]).says(1, &["error[service_unreachable]"]);
}

#[test]
fn an_invalid_command_line_is_an_error_and_not_a_refused_run() {
    let place = Place::new();
    place.run(&["bogus"]).says(1, &["error[usage]"]);
    place.run(&["runs", "--state", "SLEEPING"]).says(1, &["error[usage]", "EXECUTING"]);
    place.run(&["--json", "bogus"]).says(1, &["{\"error\":{\"code\":\"usage\""]);
    assert!(place.run(&["--help"]).out.contains("Exit codes:"));
}

#[test]
fn the_settings_are_shown_with_their_origin_and_without_secrets() {
    let place = Place::new();
    let mut command = place.command(&["config", "check", "--executor-slots", "7"]);
    command.env("DATABASE_URL", "postgres://u:hunter2@h/d");
    let answer = Answer::of(command.output().expect("surety"));
    answer.says(0, &[]);
    let row = |flag: &str| {
        let line = answer.out.lines().find(|line| line.contains(flag)).expect("a row");
        line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("--executor-slots"), "7 flag");
    assert_eq!(row("--database-url"), "postgres://u:***@h/d environment");
    assert_eq!(row("--gate-listen"), "127.0.0.1:7403 default");
    assert!(!answer.out.contains("hunter2"));
}

#[test]
fn config_check_says_which_rights_the_services_have_in_the_database() {
    let place = Place::new();
    for (url, rights) in [
        ("", "one role for all services, in the private Postgres of `surety up`"),
        (
            "postgres://u:hunter2@h/d",
            "one role for all services, unless the login is a member of a service's role; `surety migrate --roles` makes one for each",
        ),
        ("postgres://surety_gate:hunter2@h/d", "the role surety_gate of one service"),
        ("postgres://surety_planner@h:5432/d", "the role surety_planner of one service"),
        ("postgresql:///d?user=surety_gate", "the role surety_gate of one service"),
        ("postgres://surety%5Fexecutor@h,i/d", "the role surety_executor of one service"),
        (
            "postgres://h/surety_gate?user=x",
            "one role for all services, unless the login is a member of a service's role; `surety migrate --roles` makes one for each",
        ),
    ] {
        for format in [&[][..], &["--json"]] {
            let mut command = place.command(&[&["config", "check"], format].concat());
            if !url.is_empty() {
                command.env("DATABASE_URL", url);
            }
            let answer = Answer::of(command.output().expect("surety"));
            answer.says(0, &[]);
            let line = match format {
                [] => format!("database rights: {rights}\n"),
                _ => format!("\"database_rights\":\"{rights}\""),
            };
            assert!(answer.out.contains(&line), "{url}: {}", answer.out);
            assert!(!answer.out.contains("hunter2"), "{}", answer.out);
        }
    }
}

#[test]
fn config_check_refuses_what_a_service_refuses_at_its_start() {
    let place = Place::new();
    let key = place.file("key.pem", "no key");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&key, mode).expect("a mode");
    let key = &*key.to_string_lossy();
    for (name, value, said) in [
        ("SURETY_TRUSTED_KEYS_FILE", "/nonexistent", "/nonexistent"),
        ("SURETY_PLANNER_KEY_FILE", key, key),
        ("SURETY_EXECUTOR_KEY_FILE", key, key),
        ("SURETY_GATE_KEY_FILE", key, key),
        ("SURETY_EXECUTOR_SECRETS", "npm@*=file:/nonexistent", "/nonexistent"),
        ("SURETY_EXECUTOR_TOOL_ALIASES", "run=no_such_tool", "no_such_tool"),
        ("SURETY_WEBHOOKS_FILE", "/nonexistent", "/nonexistent"),
        ("SURETY_FORGES_FILE", "/nonexistent", "/nonexistent"),
        ("DATABASE_URL", "postgres://h:99999/d", "port"),
    ] {
        let mut command = place.command(&["config", "check"]);
        let answer = Answer::of(command.env(name, value).output().expect("surety"));
        answer.says(1, &["error[setting_invalid]", said]);
    }
    let unmade = place.folder.path().join("new.pem");
    let mut command = place.command(&["config", "check"]);
    command.env("SURETY_GATE_KEY_FILE", &unmade);
    Answer::of(command.output().expect("surety")).says(0, &[]);
    assert!(!unmade.exists(), "the first start of the service makes it");
}

#[test]
fn the_namespaces_with_a_database_of_their_own_are_shown_without_its_address() {
    let place = Place::new();
    let mail = "postgres://u:hunter2@h/d";
    let file =
        place.file("databases", &format!("_mail {mail}\nteam postgres://h/t\n_tools {mail}"));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&file, mode).expect("a mode");
    let path = file.to_string_lossy();
    let words = ["config", "check", "--namespace-databases-file", &path];
    let shown = place.run(&words);
    shown.says(0, &[]);
    for part in [&*path, "namespaces: _mail, _tools\n", "namespaces: team"] {
        assert!(shown.out.contains(part), "{part:?} is not in {}", shown.out);
    }
    let json = place.run(&[&words[..], &["--json"]].concat());
    assert!(
        json.out.contains("\"namespaces\":[[\"_mail\",\"_tools\"],[\"team\"]]"),
        "{}",
        json.out
    );
    assert!(!format!("{}{}", shown.out, json.out).contains("hunter2"));
    fs::write(&file, "_mail mysql://u:hunter2@h/d").expect("a file");
    place.run(&words).says(1, &["error[setting_invalid]", "line 1 of", "postgres://"]);
}

#[test]
fn a_port_in_use_is_named_with_its_flag_before_anything_is_started() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let free = ["--planner-listen", "127.0.0.1:0", "--executor-listen", "127.0.0.1:0"];
    let words = [&["up"], &free[..], &["--gate-listen", &address]].concat();
    let port = address.rsplit(':').next().expect("a port");
    place.run(&words).says(1, &["error[port_unusable]", port, "--gate-listen"]);
    assert!(!place.data().join("postgres").exists() && !place.data().join("endpoint").exists());
}

/// Pauses, resumes and cancels a run while its only command runs.
fn run_control(place: &Place, workspace: &Path) {
    let slow = place.file("slow.yaml", SLOW);
    let slow = slow.to_str().expect("a path");
    let begun = place.run(&["run", slow, "--workspace", "work", "--no-follow"]);
    let id = begun.out.trim();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !workspace.join("began").exists() {
        assert!(Instant::now() < deadline, "the command does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    for (way, said) in [
        ("pause", "pauses once its running turns have ended"),
        ("resume", "is EXECUTING"),
        ("cancel", "is CANCELLED"),
    ] {
        let answer = place.run(&[way, id, "--reason", "a test"]);
        answer.says(0, &[]);
        assert!(answer.out.contains(said), "{way}: {}", answer.out);
    }
}

/// Compares the workspace with the verdict of a run, before and after a change.
fn compare_with_the_run(place: &Place, workspace: &Path, run: &str) {
    let still = || place.run(&["verify", "--still", run]);
    let same = still();
    same.says(0, &[]);
    assert!(same.out.contains("is still what the verdict is about"), "{}", same.out);
    fs::write(workspace.join("later.txt"), "x").expect("a file");
    let changed = still();
    changed.says(2, &[]);
    assert!(changed.out.contains("changed since the verdict"), "{}", changed.out);
    fs::remove_file(workspace.join("later.txt")).expect("the file");
}

/// The evidence of the last run is signed, also after the executor's key was replaced while it ran.
fn signed_evidence(place: &Place, plan: &str) {
    let shown = place.run(&["show", "last"]);
    assert!(shown.out.contains("Signatures\n  signed"), "{}", shown.out);
    let keys = place.file("keys.json", &place.run(&["keys", "export"]).out);
    let keys = keys.to_str().expect("a path").to_owned();
    let exported = place.run(&["receipts", "export", "last"]).out;
    let verify = ["receipts", "verify", "--keys", &keys];
    let whole = check(place, &verify, "run.ndjson", &exported);
    whole.says(0, &[]);
    assert!(whole.out.contains("signed by trusted keys"), "{}", whole.out);
    let changed = exported.replacen("\"success\":true", "\"success\":false", 1);
    let changed = check(place, &verify, "changed.ndjson", &changed);
    changed.says(2, &[]);
    assert!(changed.out.contains("receipt 1"), "{}", changed.out);

    place.run(&["keys", "rotate", "executor"]).says(0, &[]);
    let listed = place.run(&["keys", "list"]).out;
    assert_eq!(listed.lines().filter(|line| line.contains("executor")).count(), 2, "{listed}");
    let listed = place.run(&["--json", "keys", "list"]).out;
    assert!(listed.contains("\"valid_until\":null"), "{listed}");
    assert!(!listed.contains("\"-\""), "{listed}");
    place.run(&["run", plan, "--workspace", "work"]).says(0, &[]);
    let shown = place.run(&["show", "last"]);
    assert!(shown.out.contains("Signatures\n  signed"), "{}", shown.out);
}

#[test]
fn keys_are_rotated_in_the_file_that_the_service_uses_and_where_its_readers_trust_them() {
    let place = Place::new();
    let of_gate = |words: &[&str]| {
        let mut command = place.command(words);
        Answer::of(command.env("SURETY_GATE_KEY_FILE", "gate.pem").output().expect("surety runs"))
    };
    let trusted = ["--trusted-keys-file", "trusted.json"];
    let with = |words: &[&str]| of_gate(&[&["keys"], words, &trusted].concat());
    let gate = place.folder.path().join("gate.pem");
    with(&["make", "gate"]).says(0, &[]);
    let made = lines_of(&gate);
    with(&["make", "gate"]).says(0, &[]);
    assert_eq!(lines_of(&gate), made, "a key that is there stays");
    place.run(&["keys", "make", "gate"]).says(0, &[]);
    let other = place.data().join("keys/gate.pem");
    let of_folder = lines_of(&other);

    with(&["rotate", "gate"]).says(0, &[]);
    assert_ne!(lines_of(&gate), made);
    assert_eq!(lines_of(&other), of_folder, "the key of the data folder is not in use");
    let listed = with(&["list"]).out;
    assert_eq!(listed.lines().filter(|line| line.contains("gate")).count(), 2, "{listed}");

    // An old key that is put back is made no new one, and is not trusted any more.
    let rotated = lines_of(&gate);
    fs::write(&gate, &made).expect("the old key");
    assert!(with(&["make", "gate"]).out.contains("  until "), "it ends in ten minutes");
    let trusted_file = place.folder.path().join("trusted.json");
    let keys = lines_of(&trusted_file);
    let until = keys.split("\"valid_until\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let ended = keys.replace(until.expect("an end"), "2026-01-01T00:00:00.000000Z");
    fs::write(&trusted_file, ended).expect("an end in the past");
    let refused = with(&["make", "gate"]);
    assert_ne!(refused.code, 0);
    assert!(refused.err.contains("has ended for the gate"), "{}", refused.err);
    fs::write(&gate, &rotated).expect("the new key");

    let refused = of_gate(&["keys", "rotate", "gate"]);
    assert_ne!(refused.code, 0);
    assert!(refused.err.contains("is not trusted in"), "{}", refused.err);
    assert_eq!(lines_of(&gate), rotated);
}

#[test]
fn a_run_goes_from_its_file_to_its_verdict_and_up_leaves_nothing_behind() {
    let place = Place::new();
    let up = Up::start(&place);
    let endpoint = lines_of(&place.data().join("endpoint"));
    place.run(&["health", endpoint.trim()]).says(0, &[]);
    let workspace = place.folder.path().join("work");
    fs::create_dir(&workspace).expect("a folder");
    let file = place.file("plan.yaml", PROVEN);
    let file = file.to_str().expect("a path");
    let submit = ["run", file, "--workspace", "work", "--request-id", "once"];

    let proven = place.run(&submit);
    proven.says(0, &[]);
    let id = proven.out.lines().next().expect("an id").to_owned();
    assert!(proven.out.contains("passed  note"), "{}", proven.out);
    assert_eq!(lines_of(&workspace.join("note.txt")), "written");

    let again = place.run(&[&submit[..], &["--no-follow"]].concat());
    assert_eq!((again.code, again.out.trim()), (0, id.as_str()));
    let shown = place.run(&["show", "last"]);
    for part in [&id, "Receipts", "file_written note.txt", "accepted"] {
        assert!(shown.out.contains(part), "{part} is not in {}", shown.out);
    }
    let digest = shown.out.lines().any(|line| line.trim_start().starts_with("digest "));
    assert!(digest, "{}", shown.out);
    compare_with_the_run(&place, &workspace, "last");
    signed_evidence(&place, file);
    let prefix = id.get(..13).expect("a prefix");
    place.run(&["watch", prefix, "--json"]).says(0, &[]);
    assert!(place.run(&["runs", "--state", "done"]).out.contains(&id));
    place.run(&["cancel", &id]).says(1, &["error[run_terminal]"]);
    place.run(&["show", "ffff"]).says(1, &["error[run_unclear]"]);

    let lie = place.file("lie.yaml", &PROVEN.replace("contains: written", "contains: other"));
    let lie = lie.to_str().expect("a path");
    let refused = place.run(&["run", lie, "--workspace", "work"]);
    refused.says(2, &[]);
    assert!(refused.out.contains("no_content_evidence"), "{}", refused.out);

    run_control(&place, &workspace);

    assert_eq!(up.stop(), 0);
    assert!(!place.data().join("endpoint").exists());
    assert!(!place.data().join("postgres/cluster/postmaster.pid").exists());
}

fn check(place: &Place, words: &[&str], file: &str, text: &str) -> Answer {
    let file = place.file(file, text);
    place.run(&[words, &[file.to_str().expect("a path")]].concat())
}

#[test]
fn a_decision_is_checked_without_a_service() {
    let place = Place::new();
    let text = "好的。\n```json\n{\"Action\": \"CONTINUE\", \"tool_call\": {\"name\": \"read_file\", \
                \"arguments\": {\"path\": \"说明.md\"}}, \"speak\": \"看一看\"}\n```\n";
    let answer = check(&place, &["decision", "check"], "said.txt", text);
    answer.says(0, &[]);
    for part in ["warning[key_case_folded]", "warning[action_case_folded]", "read_file", "说明.md"]
    {
        assert!(answer.out.contains(part), "{part:?} is not in {}", answer.out);
    }
    let answer = check(&place, &["--json", "decision", "check"], "said.txt", text);
    assert!(answer.out.contains("\"action\":\"continue\""), "{}", answer.out);
    let answer = check(&place, &["decision", "check"], "said.txt", "I am done.");
    answer.says(1, &["error[no_json_object]"]);
    let answer = check(&place, &["decision", "check"], "said.txt", "{\"control\": \"replan\"}");
    assert!(answer.code == 0 && answer.out.starts_with("replan"), "{}", answer.out);
    let answer = check(&place, &["--json", "decision", "check"], "said.txt", "{\"action\": \"x\"}");
    answer.says(1, &["\"code\":\"action_unknown\""]);
    assert!(answer.out.contains("\"problem\":{"), "{}", answer.out);
}

#[test]
fn a_delivery_of_a_forge_is_checked_without_a_service() {
    let place = Place::new();
    let delivery = |state: &str, login: &str| {
        format!(
            "{{\"action\": \"reviewed\", \"review\": {{\"type\": \"{state}\", \"content\": \"第 3 行\\n1. Merge\"}}, \
             \"pull_request\": {{\"number\": 7, \"title\": \"Fix\", \"user\": {{\"login\": \"{login}\"}}, \
             \"updated_at\": \"2026-11-01T10:00:00Z\"}}, \"repository\": {{\"full_name\": \"o/r\"}}, \
             \"sender\": {{\"login\": \"bob\"}}}}"
        )
    };
    let asked = |more: &[&'static str], state: &str, login: &str| {
        let mut words =
            vec!["task", "check", "--forge", "gitea", "--event", "pull_request_rejected"];
        words.extend_from_slice(more);
        check(&place, &words, "delivery.json", &delivery(state, login))
    };
    let answer = asked(&[], "pull_request_review_rejected", "alice");
    answer.says(0, &[]);
    for part in [
        "changes_requested (review_result) for account alice",
        "needs action",
        "\n> 1. Merge\n",
        "4. Submit",
    ] {
        assert!(answer.out.contains(part), "{part:?} is not in {}", answer.out);
    }
    let answer = asked(&["--language", "zh", "--json"], "pull_request_review_rejected", "alice");
    answer.says(0, &[]);
    assert!(answer.out.contains("\"instructions\":\"你收到了"), "{}", answer.out);
    let answer = asked(&[], "pull_request_review_comment", "bob");
    assert_eq!((answer.code, answer.out.as_str()), (0, "ignored: own_pull_request\n"));
    let answer = asked(&[], "pull_request_review_rejected", "a b");
    answer.says(1, &["error[type_mismatch]", "the name of an account"]);
    let answer = asked(&["--templates", "missing"], "pull_request_review_rejected", "alice");
    answer.says(1, &["error[file_unusable]", "missing"]);
}

#[test]
fn a_case_for_the_gate_is_judged_without_a_service() {
    let place = Place::new();
    let case = |exit_code: i32| {
        format!(
            "workspace_root: /srv/项目\nfinal_text: done\nchecks: [cargo test]\nreceipts:\n  - step_index: 0\n    \
             source: tool_observation\n    success: true\n    facts:\n      - {{fact: command, argv: [cargo, test], \
             exit_code: {exit_code}}}\n"
        )
    };
    let accepted = check(&place, &["gate", "check"], "case.yaml", &case(0));
    accepted.says(0, &[]);
    assert!(accepted.out.contains("accepted") && accepted.out.contains("command_success"));
    let refused = check(&place, &["gate", "check"], "case.yaml", &case(1));
    refused.says(2, &[]);
    assert!(refused.out.contains("no_successful_command"), "{}", refused.out);
    let refused = check(&place, &["--json", "gate", "check"], "case.yaml", &case(1));
    refused.says(2, &[]);
    assert!(refused.out.contains("\"accepted\":false"), "{}", refused.out);

    let open =
        r#"{"final_text": "x", "todos": [{"id": "t1", "content": "c", "status": "pending"}]}"#;
    let open = check(&place, &["gate", "check"], "case.json", open);
    open.says(2, &[]);
    assert!(open.out.contains("todo:t1"), "{}", open.out);
    let cases = [
        (r#"{"checks": [{"kind": "file_exists"}]}"#, "error[check_target_empty]"),
        (r#"{"receipts": [{"source": "probe"}]}"#, "error[step_index_missing]"),
        (r#"{"receipt": []}"#, "error[unknown_key]"),
        (r#"{"receipts": {}}"#, "error[value_invalid]"),
        ("[]", "error[value_invalid]"),
        ("{", "error[order_unreadable]"),
    ];
    for (text, said) in cases {
        check(&place, &["gate", "check"], "case.json", text).says(1, &[said]);
    }
}

#[test]
fn an_export_that_is_cut_or_changed_is_refused_without_a_service() {
    let place = Place::new();
    let end = r#"{"chain_end":{"chain_digest":"","receipt_count":0,"run_id":"r"}}"#;
    let whole = check(&place, &["receipts", "verify"], "e.ndjson", end);
    whole.says(0, &[]);
    assert!(whole.out.contains("is valid"), "{}", whole.out);
    let cut = check(&place, &["receipts", "verify"], "e.ndjson", "");
    cut.says(2, &[]);
    assert!(cut.out.contains("chain's end, is missing"), "{}", cut.out);
    let odd = format!("{{\"step_index\":0,\"source\":\"probe\",\"seq\":1}}\n{end}");
    let odd = check(&place, &["--json", "receipts", "verify"], "e.ndjson", &odd);
    odd.says(2, &[]);
    assert!(odd.out.contains("\"valid\":false") && odd.out.contains("\"seq\":1"), "{}", odd.out);
}

/// The tokio threads of a process.
fn threads_of(process: u32) -> usize {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("its threads");
    let names = threads.flatten().map(|thread| lines_of(&thread.path().join("comm")));
    names.filter(|name| name.starts_with("tokio")).count()
}

#[test]
fn up_uses_the_configured_number_of_threads() {
    let place = Place::new();
    for wanted in [40, 90] {
        let up = Up::start_with(&place, &["--worker-threads", &wanted.to_string()]);
        let threads = threads_of(up.child.id());
        // Threads for file access come and go in addition.
        assert!((wanted..wanted + 40).contains(&threads), "{threads} threads, told {wanted}");
        assert_eq!(up.stop(), 0);
    }
}
