//! A command of one run beside a command of another one, and beside the service: both have the same account.

use crate::support::{Sandbox, levels, runs_with};
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};
use surety_sandbox::{Launch, prepare};

/// What a command tries of every process that it can name. Each finds a secret or prints nothing.
const ATTEMPTS: [(&str, &str); 5] = [
    (
        "environments",
        "for e in /proc/[0-9]*/environ; do grep -qa neighbour-secret $e && echo ESCAPED; done",
    ),
    (
        "open files",
        "for f in /proc/[0-9]*/fd/*; do case $(readlink $f) in */kept) grep -q neighbour-secret $f && echo ESCAPED;; esac; done",
    ),
    (
        "inputs",
        "for f in /proc/[0-9]*/fd/0; do case $(readlink $f) in *kept*) cat $f && echo ESCAPED;; esac; done",
    ),
    (
        "folders",
        "for r in /proc/[0-9]*/cwd; do grep -q neighbour-secret $r/kept && echo ESCAPED; done",
    ),
    (
        "memory",
        "for p in /proc/[0-9]*; do [ $p = /proc/$$ ] || case $(tr '\\0' ' ' <$p/cmdline) in *neighbou[r].sleeps*) head -c 1 $p/maps >/dev/null && echo ESCAPED;; esac; done",
    ),
];

#[test]
fn commands_of_different_runs_do_not_look_into_each_other() {
    let mut wrong = Vec::new();
    for (level, machine) in levels() {
        let mut neighbour = Sandbox::new(&machine);
        neighbour.set("SECRET", "neighbour-secret");
        neighbour.put("kept", "neighbour-secret\n");
        let marker = format!("neighbour.sleeps.{}.{level}", std::process::id());
        let script = format!("exec 3<kept <kept; echo up >up; : {marker}; sleep 1000; :");
        let spec = neighbour.spec(&["sh", "-c", &script]);
        let Launch { mut command, mut control, spec } = prepare(&spec).unwrap();
        let mut helper = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        drop(command);
        control.write_all(&spec).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while neighbour.read("up") != "up\n" || !runs_with(&marker) {
            assert!(Instant::now() < deadline, "{level}: the neighbour does not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
        let sandbox = Sandbox::new(&machine);
        for (name, attempt) in ATTEMPTS {
            let ran = sandbox.sh(attempt);
            if ran.stdout.contains("ESCAPED") || ran.stdout.contains("secret") {
                wrong.push(format!("{level}: {name}: {ran:?}"));
            }
        }
        drop(control);
        helper.wait().unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
