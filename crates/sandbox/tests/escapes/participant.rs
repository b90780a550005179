//! A person's own command: its home and its standard input, and nothing of the service's.

use crate::support::{Ran, Sandbox, levels};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use surety_sandbox::{
    Exit, Folders, HostTree, Machine, Missing, Network, Spec, folders_of_git, run,
};

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
    carry_out_with(sandbox, script, |_| {})
}

fn carry_out_with(sandbox: &Sandbox, script: &str, change: impl FnOnce(&mut Spec)) -> Ran {
    let variables: Vec<(&OsStr, &OsStr)> =
        sandbox.environment.iter().map(|(name, value)| (&**name, &**value)).collect();
    let folders = Folders {
        hidden: vec![sandbox.root.join("data"), sandbox.root.join("home/.local/share/surety")],
        scratch: sandbox.root.join("data/scratch"),
        ..Folders::default()
    };
    let host = HostTree::of(variables, &folders);
    let mut spec = Spec {
        tree: host.participant(
            &sandbox.workspace,
            &sandbox.workspace,
            &folders_of_git(&sandbox.workspace),
        ),
        input: Some(sandbox.root.join("input")),
        attached: true,
        ..sandbox.spec(&["sh", "-c", script])
    };
    change(&mut spec);
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

#[test]
fn a_persons_own_command_reaches_the_network_but_not_the_ports_of_the_services() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("python3") || !kernel_has_port_rules() {
        eprintln!("skipped: it needs python3 and Linux 6.7");
        return;
    }
    let [service, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [closed, open] = [&service, &other].map(|listener| listener.local_addr().unwrap().port());
    let connect = |port: u16, protocol: u16| {
        format!(
            "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, {protocol}); \
             s.settimeout(10); s.connect(('127.0.0.1', {port}))"
        )
    };
    for (level, machine) in levels() {
        if machine.in_force().missing().contains(&Missing::MountNamespace) {
            continue;
        }
        let sandbox = home(&machine);
        // The second protocol is Multipath TCP, which Landlock has no rules for.
        for (port, protocol, reached) in [(open, 0, true), (closed, 0, false), (closed, 262, false)]
        {
            let script = format!("python3 -c \"{}\"", connect(port, protocol));
            let ran = carry_out_with(&sandbox, &script, |spec| {
                spec.network = Network::All;
                spec.closed_ports = vec![closed];
            });
            assert_eq!(ran.report.exit == Exit::Code(0), reached, "{level}: {ran:?}");
            assert!(reached || ran.stderr.contains("PermissionError"), "{level}: {ran:?}");
        }
    }
}

/// Linux 6.7 brought Landlock's rules for ports.
fn kernel_has_port_rules() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = release.split('.').map_while(|part| part.parse::<u32>().ok());
    (parts.next(), parts.next()) >= (Some(6), Some(7))
}
