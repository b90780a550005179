//! Runs one command confined, so that it reaches its workspace and nothing else, and leaves no
//! process behind.
//!
//! ```text
//!   service -- spec --> supervisor --> init (pid 1 of its own namespaces) --> command
//!           <- report -             |    ^ sockets of its loopback
//!                                   +-> bridge (host's network), where the policy opens a part of it
//!                                   +-> confine (Landlock, seccomp) ---exec--> command
//! ```
//!
//! In place of a command, a parser of the service runs as a further stage: code that reads untrusted files and is
//! linked into the service.
//!
//! Supervisor, init, confine and bridge are stages of one small helper. All but bridge have one thread. The helper is the
//! program `surety-sandbox` beside the service's, where it was built from the same sources, and otherwise the service's own
//! executable started again: every `main` calls [`run_if_invoked`] first. So both always have one version. The spec and the
//! report travel over a socket that only the helper holds; nothing secret is in an argument or an environment variable.

mod address;
#[cfg(target_os = "linux")]
mod beside;
mod deep;
mod git;
#[cfg(target_os = "linux")]
mod helper;
#[cfg(not(target_os = "linux"))]
#[path = "helper/portable.rs"]
mod helper;
mod launch;
mod level;
mod message;
mod probe;
mod spec;
mod times;
mod tree;

pub use address::is_public;
pub use deep::remove_tree;
pub use git::folders_of_git;
pub use launch::{Launch, LaunchError, SCRATCH_LOCK, SCRATCH_PREFIX, prepare, run};
pub use level::{InForce, Level, Missing, Wanted};
pub use message::REPORT_LIMIT;
pub use probe::{Machine, Unavailable, machine};
pub use spec::{
    AllowedHost, Confinement, Exit, Left, LimitHit, Limits, Network, NotStarted, PROXY_PORT,
    Refusal, Report, Spec, Tree, View,
};
pub use times::set_modified;
pub use tree::{Folders, HostTree};

/// The main function of a parser; it answers the process's exit code.
pub type Parser = fn() -> i32;

/// Becomes the helper when this process was started as one, and otherwise returns. Call it first in
/// `main`: the helper must have one thread, and must print nothing.
pub fn run_if_invoked() {
    become_helper(None);
}

/// As [`run_if_invoked`], for a service that starts specs with [`Spec::parser_input`].
pub fn run_if_invoked_with(parser: Parser) {
    become_helper(Some(parser));
}

fn become_helper(parser: Option<Parser>) {
    launch::this_program_is_a_helper();
    let Some(stage) = launch::invoked_stage(std::env::args_os()) else { return };
    #[cfg(target_os = "linux")]
    if stage == beside::IDENTIFY {
        std::process::exit(i32::from(beside::identify().is_err()));
    }
    let code = match parser.filter(|_| stage == launch::PARSE) {
        Some(parser) => parser(),
        None => helper::run(&stage),
    };
    std::process::exit(code);
}
