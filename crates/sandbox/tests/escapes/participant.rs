//! A person's own command: its home and its standard input, and nothing of the service's.

use crate::support::{Ran, Sandbox, levels};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use surety_sandbox::{Exit, Folders, HostTree, Machine, Missing, Spec, run};

/// A home with toolchains and their configuration, and the data folder of the service inside it.
fn home(machine: &Machine) -> Sandbox {
    let sandbox = Sandbox::with_home(machine);
    fs::create_dir_all(sandbox.root.join("home/.local/share/surety")).unwrap();
    fs::write(sandbox.root.join("home/.local/share/surety/token"), "token-secret\n").unwrap();
    sandbox.put("file", "");
    fs::write(sandbox.root.join("input"), "typed\n").unwrap();
    sandbox
}

fn carry_out(sandbox: &Sandbox, script: &str) -> Ran {
    let variables: Vec<(&OsStr, &OsStr)> =
        sandbox.environment.iter().map(|(name, value)| (&**name, &**value)).collect();
    let folders = Folders {
        hidden: vec![sandbox.root.join("data"), sandbox.root.join("home/.local/share/surety")],
        scratch: sandbox.root.join("data/scratch"),
        ..Folders::default()
    };
    let host = HostTree::of(variables, &folders);
    let spec = Spec {
        tree: host.participant(&sandbox.workspace, &sandbox.workspace),
        input: Some(sandbox.root.join("input")),
        attached: true,
        ..sandbox.spec(&["sh", "-c", script])
    };
    let (out, err) = (sandbox.root.join("logs/out"), sandbox.root.join("logs/err"));
    let file = |path: &Path| Stdio::from(File::create(path).unwrap());
    let report = run(&spec, file(&out), file(&err)).unwrap();
    let text = |path: &Path| fs::read_to_string(path).unwrap();
    Ran { report, stdout: text(&out), stderr: text(&err) }
}

#[test]
fn a_persons_own_command_has_its_home_and_reaches_nothing_of_the_service() {
    for (level, machine) in levels() {
        if machine.in_force().missing().contains(&Missing::MountNamespace) {
            continue;
        }
        let sandbox = home(&machine);
        for (script, code, shown) in [
            ("cat", 0, "typed\n"),
            ("cat ~/.ssh/id_ed25519 ~/.npmrc && echo x > made && echo y > ~/kept", 0, "key-secret"),
            ("echo evil > ~/.npmrc", 2, ""),
            ("echo evil > ~/.cargo/bin/tool", 2, ""),
            ("echo more > ~/.cargo/registry/index && cat ~/.cargo/registry/index", 0, "more\n"),
            ("cat ~/.local/share/surety/token", 1, ""),
            ("cat ../data/token", 1, ""),
            ("cat ../sister/secret", 1, ""),
        ] {
            let ran = carry_out(&sandbox, script);
            assert_eq!(ran.report.exit, Exit::Code(code), "{level}: {script}: {ran:?}");
            assert!(ran.stdout.starts_with(shown), "{level}: {script}: {ran:?}");
        }
        assert_eq!(sandbox.read("made"), "x\n", "{level}");
        let of_home =
            |path: &str| fs::read_to_string(sandbox.root.join("home").join(path)).unwrap();
        assert_eq!(of_home("kept"), "y\n", "{level}");
        assert_eq!(
            of_home(".cargo/registry/index"),
            "index\n",
            "{level}: it went to a private layer"
        );
        assert!(of_home(".cargo/bin/tool").contains("echo tool"), "{level}");
    }
}
