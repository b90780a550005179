//! A workspace, what lies around it on the host, and commands confined to it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use surety_sandbox::{
    Confinement, Exit, Folders, HostTree, InForce, Limits, Machine, Missing, Network, Report, Spec,
    Tree, View, Wanted, folders_of_git, machine, run,
};
use tempfile::TempDir;

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) report: Report,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn succeeded(&self) -> bool {
        // What a program says of its failure stands in the message of a test that expected none.
        if !self.stderr.is_empty() {
            println!("{}", self.stderr);
        }
        self.report.exit == Exit::Code(0)
    }
}

/// A workspace, the service's own folders beside it, and what a test changes of the defaults.
pub(crate) struct Sandbox {
    pub(crate) root: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) machine: Machine,
    pub(crate) confined: bool,
    pub(crate) network: Network,
    pub(crate) limits: Limits,
    pub(crate) view: Option<View>,
    pub(crate) protected: Vec<PathBuf>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    _folder: TempDir,
}

/// The levels that this machine has, each with the word that asks for it.
pub(crate) fn levels() -> Vec<(&'static str, Machine)> {
    let scratch = std::env::temp_dir();
    let found = [Wanted::Auto, Wanted::Partial]
        .into_iter()
        .filter_map(|wanted| Some((wanted.as_str(), machine(wanted, &scratch).ok()?)));
    let mut levels: Vec<_> = found.collect();
    // Where the strongest is the weaker one, it is tested once.
    levels.dedup_by(|one, other| one.1.in_force() == other.1.in_force());
    levels.retain(|(_, machine)| *machine.in_force() != InForce::None);
    levels
}

impl Sandbox {
    pub(crate) fn new(machine: &Machine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for made in ["ws", "data/scratch", "sister", "logs"] {
            fs::create_dir_all(root.join(made)).unwrap();
        }
        fs::write(root.join("data/token"), "token-secret\n").unwrap();
        fs::write(root.join("sister/secret"), "sister-secret\n").unwrap();
        fs::write(root.join("beside"), "beside-secret\n").unwrap();
        let names = ["PATH", "HOME", "LANG", "CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME", "GOROOT"];
        let environment =
            names.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
        Self {
            workspace: root.join("ws"),
            root,
            machine: machine.clone(),
            confined: true,
            network: Network::None,
            limits: Limits::default(),
            view: None,
            protected: Vec::new(),
            environment: environment.collect(),
            _folder: folder,
        }
    }

    /// With a home folder that holds secrets.
    pub(crate) fn with_home(machine: &Machine) -> Self {
        let mut sandbox = Self::new(machine);
        let home = sandbox.root.join("home");
        for (path, text) in [
            (".ssh/id_ed25519", "key-secret\n"),
            (".npmrc", "//registry/:_authToken=npm-secret\n"),
            (".cargo/credentials.toml", "token = \"cargo-secret\"\n"),
            (".cargo/registry/index", "index\n"),
            (".gem/credentials", ":rubygems_api_key: gem-secret\n"),
            (".gem/specs/x", "specs\n"),
            (".cache/huggingface/token", "hub-secret\n"),
            (".cargo/bin/tool", "#!/bin/sh\necho tool\n"),
            (".gitconfig", "[user]\n\tname = N\n[http]\n\textraheader = git-secret\n"),
            (".bashrc", "# mine\n"),
        ] {
            let path = home.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        sandbox.set("HOME", home.to_str().unwrap());
        sandbox
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.environment.retain(|(key, _)| key != name);
        self.environment.push((name.into(), value.into()));
    }

    pub(crate) fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.workspace.join(path)).unwrap_or_default()
    }

    /// Gives the workspace and what lies in it to an account; only root can.
    pub(crate) fn give_to(&self, account: u32) {
        let inside = fs::read_dir(&self.workspace).unwrap().map(|entry| entry.unwrap().path());
        for path in inside.chain([self.workspace.clone()]) {
            chown(path, Some(account), Some(account)).unwrap();
        }
        if self.machine.in_force().missing().contains(&Missing::MountNamespace) {
            // Without a mount tree of its own the account has to get through the folders above.
            for path in ["", "data", "data/scratch"] {
                fs::set_permissions(self.root.join(path), Permissions::from_mode(0o711)).unwrap();
            }
        }
    }

    fn confinement(&self) -> Confinement {
        if self.confined {
            self.machine.confinement(&self.workspace)
        } else {
            self.machine.unconfined()
        }
    }

    pub(crate) fn spec(&self, argv: &[&str]) -> Spec {
        let folders = Folders {
            hidden: vec![self.root.join("data")],
            read_only: Vec::new(),
            writable: Vec::new(),
            scratch: self.root.join("data/scratch"),
        };
        let variables: Vec<(&OsStr, &OsStr)> =
            self.environment.iter().map(|(name, value)| (&**name, &**value)).collect();
        let host = HostTree::of(variables.iter().copied(), &folders);
        let mut tree = host.tree(
            &self.workspace,
            &self.workspace,
            &[PathBuf::new()],
            &folders_of_git(&self.workspace),
        );
        tree.protected = self.protected.iter().map(|path| self.workspace.join(path)).collect();
        Spec {
            argv: argv.iter().map(ToString::to_string).collect(),
            parser_input: None,
            attached: false,
            cwd: self.workspace.clone(),
            environment: Tree::environment(variables),
            tree,
            network: self.network.clone(),
            closed_ports: Vec::new(),
            limits: self.limits,
            view: self.view.clone(),
            input: None,
            confinement: self.confinement(),
        }
    }

    pub(crate) fn run(&self, argv: &[&str]) -> Ran {
        self.run_spec(&self.spec(argv))
    }

    pub(crate) fn run_spec(&self, spec: &Spec) -> Ran {
        let (out, err) = (self.root.join("logs/out"), self.root.join("logs/err"));
        let file = |path: &Path| Stdio::from(File::create(path).unwrap());
        let report = run(spec, file(&out), file(&err)).unwrap();
        let text = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        Ran { report, stdout: text(&out), stderr: text(&err) }
    }

    pub(crate) fn sh(&self, script: &str) -> Ran {
        self.run(&["sh", "-c", script])
    }

    pub(crate) fn python(&self, script: &str) -> Ran {
        self.run(&["python3", "-c", script])
    }
}

/// What runs on the host beside the sandbox, and must not be reached.
pub(crate) struct Host {
    victim: Child,
    pub(crate) port: u16,
    _tcp: TcpListener,
    _socket: UnixListener,
    pub(crate) abstract_name: String,
    _abstract: UnixListener,
}

impl Host {
    pub(crate) fn around(sandbox: &Sandbox) -> Self {
        let data = sandbox.root.join("data");
        let victim = Command::new("sleep")
            .arg("1000")
            .env("VICTIM_SECRET", "victim-secret")
            .current_dir(&data)
            .stdin(File::open(data.join("token")).unwrap())
            .spawn()
            .unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let abstract_name = format!("surety-{}", sandbox.root.display());
        let address = SocketAddr::from_abstract_name(abstract_name.as_bytes()).unwrap();
        Self {
            victim,
            port: tcp.local_addr().unwrap().port(),
            _tcp: tcp,
            _socket: UnixListener::bind(data.join("socket")).unwrap(),
            abstract_name,
            _abstract: UnixListener::bind_addr(&address).unwrap(),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.victim.id()
    }

    pub(crate) fn lives(&mut self) -> bool {
        self.victim.try_wait().unwrap().is_none()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.victim.kill().unwrap();
        self.victim.wait().unwrap();
    }
}

/// Says what cannot be tried here: on standard output, and in the file that `SURETY_TEST_SKIPS` names, for the caller of
/// the tests. The output of a passing test is seldom shown.
pub(crate) fn skip(what: &str, why: &str) {
    println!("skipped: {what}: {why}");
    let Some(file) = std::env::var_os("SURETY_TEST_SKIPS") else { return };
    let mut file = File::options().create(true).append(true).open(file).unwrap();
    writeln!(file, "{what}: {why}").unwrap();
}

/// Whether a process with this among its arguments runs anywhere on the host.
pub(crate) fn runs_with(marker: &str) -> bool {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.map(|entry| entry.path()).any(|process| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        let found = String::from_utf8_lossy(&line).contains(marker);
        found && process.file_name().unwrap() != OsStr::new(&std::process::id().to_string())
    })
}
