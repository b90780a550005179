//! The attempts, each a row with its own expectation.

mod files;
mod kernel;
mod network;
mod processes;

use crate::support::{Host, Sandbox, levels};
use surety_sandbox::{Machine, Missing};

/// What a row runs.
#[derive(Debug, Clone, Copy)]
enum Script {
    Shell(&'static str),
    Python(&'static str),
}

/// Whether the attempt succeeds without a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Control {
    /// For every account.
    Escapes,
    /// For root only.
    EscapesForRoot,
    /// It is not made: it would do harm, or depends on the machine.
    NotMade,
}

/// One attempt.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    name: &'static str,
    script: Script,
    control: Control,
    /// What a level says is missing that does not stop it.
    open_without: Option<Missing>,
}

const fn sh(name: &'static str, script: &'static str) -> Attempt {
    let control = Control::Escapes;
    Attempt { name, script: Script::Shell(script), control, open_without: None }
}

const fn python(name: &'static str, script: &'static str) -> Attempt {
    let control = Control::Escapes;
    Attempt { name, script: Script::Python(script), control, open_without: None }
}

impl Attempt {
    const fn for_root(self) -> Self {
        Self { control: Control::EscapesForRoot, ..self }
    }

    const fn uncontrolled(self) -> Self {
        Self { control: Control::NotMade, ..self }
    }

    const fn open_without(self, missing: Missing) -> Self {
        Self { open_without: Some(missing), ..self }
    }

    /// Makes the attempt; answers whether it escaped, and what it said.
    fn make(&self, sandbox: &Sandbox, host: &Host) -> (bool, String) {
        let fill = |script: &str| {
            script
                .replace("@ROOT@", sandbox.root.to_str().unwrap())
                .replace("@DATA@", sandbox.root.join("data").to_str().unwrap())
                .replace("@PID@", &host.pid().to_string())
                .replace("@PORT@", &host.port.to_string())
                .replace("@ABSTRACT@", &host.abstract_name)
        };
        let ran = match self.script {
            Script::Shell(script) => sandbox.sh(&fill(script)),
            Script::Python(script) => sandbox.python(&fill(script)),
        };
        let trace = sandbox.root.join("trace");
        let escaped = ran.stdout.contains("ESCAPED") || trace.exists();
        if trace.exists() {
            std::fs::remove_file(trace).unwrap();
        }
        (escaped, format!("{ran:?}"))
    }
}

/// Makes each attempt at each level, and without a sandbox, and names those with another outcome.
fn expect_refused(attempts: &[Attempt]) {
    let mut wrong = Vec::new();
    let levels = levels();
    for (level, machine) in &levels {
        at_level(attempts, level, machine, &mut wrong);
    }
    let Some((_, machine)) = levels.first() else { panic!("this machine confines nothing") };
    without_sandbox(attempts, machine, &mut wrong);
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

fn at_level(attempts: &[Attempt], level: &str, machine: &Machine, wrong: &mut Vec<String>) {
    for attempt in attempts {
        let sandbox = Sandbox::with_home(machine);
        let mut host = Host::around(&sandbox);
        let missing = machine.in_force().missing();
        if attempt.open_without.is_some_and(|open| missing.contains(&open)) {
            println!("{level}: {} is not stopped: {:?}", attempt.name, attempt.open_without);
            continue;
        }
        let (escaped, said) = attempt.make(&sandbox, &host);
        if escaped || !host.lives() {
            wrong.push(format!("{level}: {} escaped: {said}", attempt.name));
        }
    }
}

fn without_sandbox(attempts: &[Attempt], machine: &Machine, wrong: &mut Vec<String>) {
    let root = nix::unistd::geteuid().is_root();
    for attempt in attempts {
        let made = match attempt.control {
            Control::Escapes => true,
            Control::EscapesForRoot => root,
            Control::NotMade => false,
        };
        if !made {
            continue;
        }
        let mut sandbox = Sandbox::with_home(machine);
        sandbox.confined = false;
        let mut host = Host::around(&sandbox);
        let (escaped, said) = attempt.make(&sandbox, &host);
        if !escaped && host.lives() {
            wrong.push(format!("without a sandbox: {} does nothing: {said}", attempt.name));
        }
    }
}
