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
//! Supervisor, init, confine and bridge are stages of one small helper. All but bridge have one thread. The helper is the
//! service's own executable started again, so both always have one version: every `main` calls
//! [`run_if_invoked`] first. The spec and the report travel over a socket that only the helper
//! holds; nothing secret is in an argument or an environment variable.

mod address;
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
mod tree;

pub use address::is_public;
pub use launch::{Launch, LaunchError, prepare, run};
pub use level::{InForce, Level, Missing, Wanted};
pub use message::REPORT_LIMIT;
pub use probe::{Machine, Unavailable, machine};
pub use spec::{
    AllowedHost, Confinement, Exit, Left, LimitHit, Limits, Network, NotStarted, PROXY_PORT,
    Refusal, Report, Spec, Tree, View,
};
pub use tree::{Folders, HostTree};

/// Becomes the helper when this process was started as one, and otherwise returns. Call it first in
/// `main`: the helper must have one thread, and must print nothing.
pub fn run_if_invoked() {
    launch::this_program_is_a_helper();
    let mut arguments = std::env::args_os();
    if arguments.next().is_some_and(|name| name == launch::HELPER_NAME)
        && let Some(stage) = arguments.next()
    {
        std::process::exit(helper::run(&stage));
    }
}
