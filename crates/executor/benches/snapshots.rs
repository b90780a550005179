//! Snapshots of large trees: the first one, one after a single change, and what a command changed.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up measures nothing")]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};
use surety_common::domain::check_inputs::InputRules;
use surety_common::domain::manifest::{Manifest, changes};
use surety_executor::round::{Originals, Reading, StartFacts};
use surety_executor::snapshot::{Reach, Snapshots};
use surety_executor::tool::Workspace;

/// Files of one folder.
const WIDTH: usize = 50;
/// Bytes of a file, as the median source file has.
const BYTES: usize = 3 << 10;

/// A tree of so many files in folders of folders, with ignore rules at its top.
fn tree(files: usize) -> (tempfile::TempDir, Workspace) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".gitignore"), "target/\n*.log\nnode_modules/\n.env\n").unwrap();
    let text = "fn main() { println!(\"a line\"); }\n".repeat(BYTES / 34);
    // One file in four has tests inside, as in a crate of this size.
    let tested = format!("{text}#[cfg(test)]\nmod tests {{\n    #[test]\n    fn runs() {{}}\n}}\n");
    for number in 0..files / WIDTH {
        let inner = folder.path().join(format!("crates/{}/src/{number}", number % 40));
        fs::create_dir_all(&inner).unwrap();
        for file in 0..WIDTH {
            let text = if file % 4 == 0 { &tested } else { &text };
            fs::write(inner.join(format!("file_{file}.rs")), format!("// {number} {file}\n{text}"))
                .unwrap();
        }
    }
    // Times of what was written just now are not trusted.
    let until = Instant::now() + Duration::from_millis(50);
    while Instant::now() < until {
        std::thread::yield_now();
    }
    let workspace = Workspace::open(folder.path()).unwrap();
    (folder, workspace)
}

fn begin(workspace: &Workspace) -> (Snapshots, Manifest) {
    Snapshots::begin(workspace, &[], &|| Ok(())).unwrap()
}

/// The first snapshot of a run, with the check inputs that it keeps.
fn begin_run(workspace: &Workspace) -> (Snapshots, Manifest, Originals) {
    let (snapshots, manifest) = begin(workspace);
    let rules = InputRules::default();
    let lines = ["make test"];
    let reading = Reading { rules: &rules, lines: &lines, revision_of: None };
    let read = StartFacts::read(workspace, &manifest, reading, &|| Ok(()));
    let (_, kept) = read.unwrap();
    (snapshots, manifest, kept)
}

fn take(snapshots: &Snapshots, workspace: &Workspace, previous: &Manifest) -> Manifest {
    snapshots.take(workspace, Some(previous), Reach::NotIgnored, &|| Ok(())).unwrap()
}

fn change(folder: &Path, round: &mut u64) {
    *round += 1;
    fs::write(folder.join("crates/1/src/1/file_1.rs"), round.to_string()).unwrap();
}

fn medium(c: &mut Criterion) {
    let (folder, workspace) = tree(10_000);
    let (snapshots, first) = begin(&workspace);
    let mut round = 0;
    let mut group = c.benchmark_group("snapshot of 10,000 files");
    group.sample_size(20);
    group.bench_function("the first", |b| b.iter(|| black_box(begin(&workspace))));
    group.bench_function("the first, with check inputs", |b| {
        b.iter(|| black_box(begin_run(&workspace)));
    });
    group.bench_function("again after one change", |b| {
        b.iter_batched(
            || change(folder.path(), &mut round),
            |()| black_box(take(&snapshots, &workspace, &first)),
            BatchSize::PerIteration,
        );
    });
    // What a command costs beyond itself: a snapshot before it, one after it, and their difference.
    group.bench_function("the difference of a command", |b| {
        b.iter(|| {
            let before = take(&snapshots, &workspace, &first);
            change(folder.path(), &mut round);
            let after = take(&snapshots, &workspace, &before);
            black_box(changes(&before, &after).count())
        });
    });
    group.finish();
}

fn large(c: &mut Criterion) {
    let (_folder, workspace) = tree(200_000);
    let mut group = c.benchmark_group("snapshot of 200,000 files");
    group.sample_size(10).measurement_time(Duration::from_secs(30));
    group.bench_function("the first", |b| b.iter(|| black_box(begin(&workspace))));
    group.bench_function("the first, with check inputs", |b| {
        b.iter(|| black_box(begin_run(&workspace)));
    });
    group.finish();
}

criterion_group!(benches, medium, large);
criterion_main!(benches);
