//! What confining a command costs: the same program started plainly, and at each level that this machine
//! has. Run it with `cargo bench -p surety-sandbox`.

#![allow(clippy::panic, reason = "a benchmark that cannot run has no figure")]

use criterion::{Criterion, criterion_group, criterion_main};
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use surety_sandbox::{
    Confinement, Exit, Folders, HostTree, Limits, Network, Spec, Tree, Wanted, machine, run,
};

fn commands(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("a folder: {error}"));
    let root = folder.path().canonicalize().unwrap_or_else(|error| panic!("a folder: {error}"));
    for made in ["ws", "data"] {
        fs::create_dir(root.join(made)).unwrap_or_else(|error| panic!("{made}: {error}"));
    }
    let mut group = c.benchmark_group("start and end of `true`");
    group.sample_size(60);
    group.bench_function("without a helper", |b| {
        b.iter(|| {
            Command::new("true").stdin(Stdio::null()).status().is_ok_and(|ended| ended.success())
        });
    });
    for wanted in [Wanted::None, Wanted::Partial, Wanted::Auto] {
        let Ok(machine) = machine(wanted, &root.join("data")) else { continue };
        let confinement = machine.confinement(&root.join("ws"));
        let name = format!("{}: {}", wanted.as_str(), machine.in_force());
        group.bench_function(name, |b| b.iter(|| once(&root, &confinement)));
    }
    group.finish();
}

/// What a service does for each command, from looking the machine over to the report.
fn once(root: &std::path::Path, confinement: &Confinement) {
    let variables: Vec<_> = ["PATH", "HOME"]
        .into_iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)))
        .collect();
    let variables: Vec<(&OsStr, &OsStr)> =
        variables.iter().map(|(name, value)| (OsStr::new(*name), value.as_os_str())).collect();
    let folders = Folders {
        hidden: vec![root.join("data")],
        read_only: Vec::new(),
        writable: Vec::new(),
        scratch: root.join("data"),
    };
    let (host, workspace) = (HostTree::of(variables.iter().copied(), &folders), root.join("ws"));
    let spec = Spec {
        argv: vec!["true".to_owned()],
        parser_input: None,
        attached: false,
        cwd: workspace.clone(),
        environment: Tree::environment(variables),
        tree: host.tree(&workspace, &workspace, &[PathBuf::new()], &[]),
        network: Network::None,
        closed_ports: Vec::new(),
        limits: Limits::default(),
        view: None,
        input: None,
        confinement: confinement.clone(),
    };
    match run(&spec, Stdio::null(), Stdio::null()) {
        Ok(report) if report.exit == Exit::Code(0) => {}
        ended => panic!("{ended:?}"),
    }
}

criterion_group!(benches, commands);
criterion_main!(benches);
