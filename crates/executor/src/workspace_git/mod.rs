//! A run's own clone of a git repository: fetched, committed and pushed by git in the sandbox.
//!
//! ```text
//!   open --------> git/   the runner's repository: objects, index     (commands of the run see none of it)
//!                  tree/  the workspace, with a repository of its own  (commands of the run see this alone)
//!   commit ------> a commit of tree/, by the runner's manifest
//!   push --------> refs/surety/runs/RUN, refs/surety/work/RUN
//! ```
//!
//! git reads no configuration but the one written here, runs no hook of the workspace, and reaches the host of
//! the repository alone. A credential stands in the environment of git alone.

mod clone;
mod entries;
mod failure;
mod git;
mod push;

pub(crate) use clone::{CloneFolder, Remote, sweep_clones};
pub(crate) use entries::Changed;
pub(crate) use failure::GitFailure;
pub use git::GitHost;
pub(crate) use git::{Credential, Git};
pub(crate) use push::{Pushed, Target};
