//! Clients for Gitea, Forgejo and GitHub.
//!
//! ```text
//!   Forges (forges file) --account of a repository--> Clients::open --> dyn Forge: Gitea | GitHub
//!                                                        |                |-- once:  writes that happen once
//!                                                        |                `-- probe: what the forge shows of a task
//!                                                        `-- one HTTP client, cache of ETags, rate limits, observer
//! ```
//!
//! A credential is read from its file at each call and stands in no error, no log and no `Debug` form. Reads are
//! repeated after failures of the forge; a write is not: [`once`] looks for its mark first.

mod account;
mod answer;
mod api;
mod ask;
mod cache;
mod clients;
mod error;
mod forge;
mod forges;
mod gitea;
mod github;
mod observer;
pub mod once;
mod paging;
mod probe;
mod process;
mod rate;
mod repo;
mod shared;
mod types;
mod wire;

pub use account::ForgeAccount;
pub use clients::Clients;
pub use error::{ForgeError, ForgeErrorCode};
pub use forge::{Asking, Forge};
pub use forges::{CloneSource, Forges, Probed, ServiceAccount};
pub use observer::{CallObserver, CallReport, CallTelemetry};
pub use probe::{ProbeAnswer, ask, gather, own_part};
pub use process::Times;
pub use repo::RepoName;
pub use types::{
    ChangedFile, CheckRun, Checks, Comment, Commit, Deployment, Excerpt, Issue, MergeMethod,
    NewIssue, NewPull, NewReview, PullRequest, PullState, Review, ReviewComment, ReviewEvent,
    ReviewState,
};
