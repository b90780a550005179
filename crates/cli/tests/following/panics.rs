//! A panic while a run is shown at a terminal. The terminal is a pseudo-terminal, the program the real one.

use std::fs::{self, File};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Arc;

use nix::pty::{OpenptyResult, openpty};
use nix::sys::termios::tcgetattr;
use surety_common::wire::v1;

use crate::scripted::{Hold, Scripted, serve};
use crate::{PATIENCE, RUN, run_in};

/// Bytes of the stack of each thread, far above what the program uses.
const STACK: u64 = 1 << 30;
/// Bytes of memory that the program may still ask for: enough for everything but a stack, also for what its libraries
/// reserve and do not use.
const ROOM: u64 = 512 << 20;
/// The sequences that take the alternate screen, leave it, and show the cursor.
const TAKEN: &str = "\u{1b}[?1049h";
const LEFT: &str = "\u{1b}[?1049l";
const CURSOR: &str = "\u{1b}[?25h";

/// Lets a process ask for no more memory than it has, and a little room.
fn bound_memory(pid: u32) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("its size");
    let kib: u64 = size.trim().trim_end_matches(" kB").parse().expect("a number");
    let bound = kib * 1024 + ROOM;
    let set = Command::new("prlimit")
        .args([format!("--pid={pid}"), format!("--as={bound}")])
        .status()
        .expect("prlimit");
    assert!(set.success());
}

/// The view takes the terminal and then starts the thread that reads keys. Without memory for its stack that start
/// panics.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_gives_the_terminal_back_and_is_shown() {
    let hold = Arc::new(Hold::default());
    let (run, events) = (run_in(v1::RunState::Executing), Vec::new());
    let scripted = Scripted { run, events, breaks_after: 9, hold: Some(Arc::clone(&hold)) };
    let (url, serving) = serve(scripted).await;
    let OpenptyResult { master, slave } = openpty(None, None).expect("a terminal");
    let before = tcgetattr(&slave).expect("its settings");
    let terminal = || Stdio::from(slave.try_clone().expect("a terminal"));
    let nowhere = tempfile::tempdir().expect("a folder");
    let mut watching = tokio::process::Command::new(env!("CARGO_BIN_EXE_surety"))
        .args(["watch", RUN, "--url", &url])
        .env_remove("SURETY_TOKEN_FILE")
        .env("SURETY_DATA_DIR", nowhere.path())
        .env("RUST_MIN_STACK", STACK.to_string())
        // To name the functions maps the whole program again.
        .env("RUST_BACKTRACE", "0")
        .stdin(terminal())
        .stdout(terminal())
        .stderr(terminal())
        .kill_on_drop(true)
        .spawn()
        .expect("surety watch");
    let reading = tokio::task::spawn_blocking(move || {
        let mut written = Vec::new();
        // It ends with an error, once no process has the terminal.
        drop(File::from(master).read_to_end(&mut written));
        String::from_utf8_lossy(&written).into_owned()
    });
    tokio::time::timeout(PATIENCE, hold.asked.notified()).await.expect("a call of GetRun");
    bound_memory(watching.id().expect("a process id"));
    hold.answer.notify_one();
    let ended = tokio::time::timeout(PATIENCE, watching.wait()).await.expect("an end in time");
    let after = tcgetattr(&slave).expect("its settings");
    drop(slave);
    let written = reading.await.expect("what was written");
    serving.abort();
    let ended = ended.expect("an end");
    assert_eq!(ended.code(), Some(101), "{ended}: {written}");
    assert_eq!(after, before, "the terminal echoes and reads lines again");
    let place =
        |text: &str| written.find(text).unwrap_or_else(|| panic!("{text:?} in {written:?}"));
    let (taken, left, shown) = (place(TAKEN), place(LEFT), place("failed to spawn thread"));
    assert!(taken < left && left < shown, "{written:?}");
    assert!(place(CURSOR) < shown, "{written:?}");
}
