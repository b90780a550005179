//! The view of a check over a tree with a large build folder: a whole round with one check that does nothing,
//! beside the same command without a view. Run it with `cargo bench -p surety-executor --bench views`.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up measures nothing")]

use criterion::{Criterion, criterion_group};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use surety_common::config::SandboxConfig;
use surety_common::domain::check::Owner;
use surety_common::domain::check_inputs::InputRules;
use surety_common::domain::verification::{Observation, Probe};
use surety_executor::round::{Additions, Chain, Reading, Round, Setup, Start, StartFacts};
use surety_executor::snapshot::Snapshots;
use surety_executor::tool::{Environment, Folder, Sandbox, Workspace};
use tokio_util::sync::CancellationToken;

/// The line of the check.
const LINE: &str = "make test";
/// Source files, with 25 in a folder.
const SOURCES: usize = 2_000;
/// Files of the build folder, and the bytes of each: 1 GiB in all.
const BUILT: usize = 4_096;
const BUILT_BYTES: usize = 256 << 10;

struct Tree {
    _folder: tempfile::TempDir,
    root: PathBuf,
    sandbox: Sandbox,
    start: Start,
}

impl Tree {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let root = base.join("work");
        let write = |path: PathBuf, text: &[u8]| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(root.join(".gitignore"), b"target/\n");
        write(root.join("Makefile"), b"test:\n\t@true\n");
        for number in 0..SOURCES {
            let path = root.join(format!("src/{}/file_{number}.rs", number / 25));
            write(path, "fn main() { println!(\"a line\"); }\n".repeat(90).as_bytes());
        }
        write(root.join("tests/all.rs"), b"#[test]\nfn works() {}\n");
        let built = vec![7_u8; BUILT_BYTES];
        for number in 0..BUILT {
            write(root.join(format!("target/debug/{}/lib_{number}.rlib", number / 64)), &built);
        }
        let sandbox = Sandbox::probe(&config(), &base.join("data"), Vec::new()).unwrap();
        // Times of what was written just now are not trusted.
        std::thread::sleep(Duration::from_millis(50));
        let workspace = Workspace::open(&root).unwrap();
        let (snapshots, manifest) = Snapshots::begin(&workspace, &[], &|| Ok(())).unwrap();
        let rules = InputRules::default();
        let reading = Reading { rules: &rules, lines: &[LINE], revision_of: None };
        let read = StartFacts::read(&workspace, &manifest, reading, &|| Ok(()));
        let (facts, kept) = read.unwrap();
        let start = Start {
            snapshots: Arc::new(snapshots),
            manifest: Arc::new(manifest),
            facts: Arc::new(facts),
            originals: Arc::new(kept),
            revision: None,
        };
        write(root.join("src/1/file_30.rs"), b"fn main() { println!(\"another\"); }\n");
        write(root.join("tests/all.rs"), b"");
        write(root.join("target/debug/1/forged.rlib"), b"forged");
        Self { _folder: folder, root, sandbox, start }
    }

    fn round(&self, start: Option<Start>) -> Arc<Round> {
        Round::new(Setup {
            folder: Arc::new(Folder::given(self.root.clone())),
            environment: Arc::new(Environment::of_process()),
            sandbox: Arc::new(self.sandbox.clone()),
            secrets: Arc::default(),
            latest: start.as_ref().map(|start| Arc::clone(&start.manifest)),
            start: Ok(start),
            rules: InputRules::default(),
            additions: Additions::default(),
            time_limit: Duration::from_secs(300),
            copies: false,
            span: tracing::Span::none(),
            cancel: CancellationToken::new(),
            kill: CancellationToken::new(),
        })
    }
}

fn config() -> SandboxConfig {
    SandboxConfig {
        sandbox: "auto".to_owned(),
        sandbox_allow_none: false,
        sandbox_read_only: None,
        sandbox_writable: None,
        sandbox_processes: None,
        sandbox_memory_mib: None,
        sandbox_disk_mib: 10_240,
    }
}

fn check(owner: Owner) -> Probe {
    let observation = Observation::Command(LINE.to_owned());
    Probe {
        check_id: "tests".to_owned(),
        owner,
        observation,
        overlay: String::new(),
        unconfined: false,
    }
}

fn views(c: &mut Criterion) {
    let tree = Tree::make();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let once = |start: Option<Start>, owner: Owner| {
        let round = tree.round(start);
        let mut chain = Chain::default();
        let carried = runtime.block_on(round.carry_out(vec![check(owner)], 1, &mut chain));
        assert!(carried.unwrap().0.iter().all(|ran| ran.outcome.success));
    };
    let mut group = c.benchmark_group("a check beside a build folder of 1 GiB");
    group.sample_size(20).measurement_time(Duration::from_secs(10));
    // Nothing is known of the start: the view has no changes, and nothing is compared.
    group.bench_function("in a view without changes", |b| b.iter(|| once(None, Owner::Plan)));
    // Two snapshots, and two runs: with the original check inputs and as they were left.
    group.bench_function("with the original check inputs, and as left", |b| {
        b.iter(|| once(Some(tree.start.clone()), Owner::User));
    });
    group.finish();
    plain(c, &tree.root);
}

/// The command itself.
fn plain(c: &mut Criterion, root: &Path) {
    c.bench_function("the command alone", |b| {
        b.iter_custom(|times| {
            let began = Instant::now();
            for _ in 0..times {
                let ran = std::process::Command::new("make").arg("test").current_dir(root).status();
                assert!(ran.unwrap().success());
            }
            began.elapsed()
        });
    });
}

criterion_group!(benches, views);

fn main() {
    // Commands are started by a helper, which is this program once more.
    surety_sandbox::run_if_invoked();
    benches();
    Criterion::default().configure_from_args().final_summary();
}
