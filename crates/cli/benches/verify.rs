//! What `surety verify` takes beside the line of its only check, in a small repository. Run it with
//! `cargo bench -p surety-cli`.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up measures nothing")]

use criterion::{Criterion, criterion_group, criterion_main};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Source files of the repository.
const FILES: usize = 50;
const PLAN: &str = "verify: [{id: test, kind: command_success, target: make test}]\n";

/// Fails where the program does, so that no failed verification is measured.
fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    let ended = command.stderr(Stdio::null()).status().unwrap();
    assert!(ended.success(), "{program} {arguments:?}: {ended}");
}

fn repository(folder: &Path) {
    fs::create_dir_all(folder.join("src")).unwrap();
    for file in 0..FILES {
        let text = format!("/* {file} */\nint value_{file}(void) {{ return {file}; }}\n");
        fs::write(folder.join(format!("src/value_{file}.c")), text).unwrap();
    }
    fs::write(folder.join("Makefile"), "test:\n\t@true\n").unwrap();
    for arguments in [
        &["init", "-q"][..],
        &["add", "."],
        &["-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-qm", "begin"],
    ] {
        run(folder, "git", arguments);
    }
}

fn verify(criterion: &mut Criterion) {
    let home = tempfile::tempdir().unwrap();
    let (folder, plan) = (home.path().join("repository"), home.path().join("plan.yaml"));
    let (data, verdict) = (home.path().join("data"), home.path().join("verdict.json"));
    repository(&folder);
    fs::write(&plan, PLAN).unwrap();
    fs::write(folder.join("src/value_0.c"), "int value_0(void) { return 1; }\n").unwrap();
    let [plan, data, verdict] = [&plan, &data, &verdict].map(|path| path.to_str().unwrap());
    let arguments = ["verify", plan, "--data-dir", data, "--verdict", verdict];
    let mut group = criterion.benchmark_group("a repository of 51 files");
    group.sample_size(20);
    group.bench_function("the line of the check alone", |bencher| {
        bencher.iter(|| run(&folder, "make", &["test"]));
    });
    for (name, command) in [("what is there, against HEAD", None), ("with a command", Some("true"))]
    {
        let all: Vec<&str> =
            arguments.into_iter().chain(command.map(|_| "--")).chain(command).collect();
        group.bench_function(format!("surety verify: {name}"), |bencher| {
            bencher.iter(|| run(&folder, env!("CARGO_BIN_EXE_surety"), &all));
        });
    }
    group.finish();
}

criterion_group!(benches, verify);
criterion_main!(benches);
