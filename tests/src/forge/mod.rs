//! A forge of our own: the needed part of the APIs of Gitea, Forgejo and GitHub over a real socket, with state, and
//! with branches in real bare git repositories.
//!
//! ```text
//!   request --> published? --> failure on demand --> account of the token --> state --> published? --> answer
//!                                                                               |
//!                                       signed delivery of the event <----------'
//! ```
//!
//! What is published is in `schema`. A call or an answer that is not as published fails the test.
//!
//! Both APIs show the same state: `/api/v1` speaks as Gitea and Forgejo do, `/api/v3` as GitHub does.

mod builds;
mod call;
mod failure;
mod git;
mod hooks;
mod issues;
mod pulls;
mod schema;
mod serve;
mod show;
mod state;
#[cfg(test)]
mod tests;

pub use call::Called;
pub use failure::Failure;
pub use git::{Bare, CommitFact};
pub use hooks::{Delivered, Hook};
pub use state::{
    CommentState, DeploymentState, Happened, IssueState, JobState, PullState, RepoState,
    ReviewState, State, StatusState, What,
};

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long a test waits for a call or a delivery.
const DEADLINE: Duration = Duration::from_secs(30);

/// A running forge.
pub struct ForgeDouble {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
    folder: TempDir,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    failures: Mutex<Vec<failure::Planned>>,
    hooks: Mutex<Vec<Hook>>,
    /// The calls and the answers that were not as the APIs are published.
    faults: Mutex<Vec<String>>,
    calls: watch::Sender<Vec<Called>>,
    /// Counted when a call arrives, also where its caller leaves before the answer.
    arrived: AtomicUsize,
    deliveries: watch::Sender<Vec<Delivered>>,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ForgeDouble {
    /// Starts a forge without accounts and repositories.
    ///
    /// # Errors
    /// No port or no folder can be had.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port")?;
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            failures: Mutex::default(),
            hooks: Mutex::default(),
            faults: Mutex::default(),
            calls: watch::Sender::new(Vec::new()),
            arrived: AtomicUsize::new(0),
            deliveries: watch::Sender::new(Vec::new()),
        });
        Ok(Self {
            address: listener.local_addr()?,
            serving: serve::spawn(listener, Arc::clone(&shared)),
            shared,
            folder: tempfile::tempdir().context("a folder")?,
        })
    }

    /// Its address, as people see it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds an account, and the file with its token.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn account(&self, login: &str) -> Result<PathBuf> {
        let token = format!("token-of-{login}-{:016x}", stable_number(login));
        self.change(|state| state.tokens.insert(token.clone(), login.to_owned()));
        let path = self.folder.path().join(format!("{login}.token"));
        write_private(&path, &token)?;
        Ok(path)
    }

    /// The token of an account.
    #[must_use]
    pub fn token(&self, login: &str) -> Option<String> {
        let state = locked(&self.shared.state);
        let found = state.tokens.iter().find(|(_, account)| account.as_str() == login);
        found.map(|(token, _)| token.clone())
    }

    /// Adds a repository whose branch `main` has these files.
    ///
    /// # Errors
    /// git cannot make it.
    pub fn repository(&self, name: &str, files: &[(&str, &str)]) -> Result<Bare> {
        let path = self.repositories().join(format!("{name}.git"));
        let git = Bare::create(&path)?;
        git.commit("main", files, "The start")?;
        self.change(|state| state.repos.insert(name.to_owned(), RepoState::new(git.clone())));
        Ok(git)
    }

    /// The folder of the repositories, each at `OWNER/NAME.git`.
    #[must_use]
    pub fn repositories(&self) -> PathBuf {
        self.folder.path().join("git")
    }

    /// Changes the state, and sends the deliveries of what happened.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = locked(&self.shared.state);
        let changed = change(&mut state);
        let happened = state.take_happened();
        hooks::send(&self.shared, &state, happened);
        changed
    }

    /// Fails the next calls: those of a route (`submit_review`, or `*` for any) after the first `skip`, `times` times.
    pub fn fail(&self, route: &str, failure: Failure, (skip, times): (usize, usize)) {
        let planned = failure::Planned { route: route.to_owned(), failure, skip, times };
        locked(&self.shared.failures).push(planned);
    }

    /// Forgets the failures that did not happen.
    pub fn heal(&self) {
        locked(&self.shared.failures).clear();
    }

    /// Sends the deliveries of what happens from now on to an address.
    pub fn hook(&self, hook: Hook) {
        locked(&self.shared.hooks).push(hook);
    }

    /// How many calls arrived, those that have no answer yet included.
    #[must_use]
    pub fn arrived(&self) -> usize {
        self.shared.arrived.load(Ordering::Relaxed)
    }

    /// The calls that were answered.
    #[must_use]
    pub fn calls(&self) -> Vec<Called> {
        self.shared.calls.borrow().clone()
    }

    /// Takes the calls and the answers that were not as the APIs are published. Those that are left fail the test.
    #[must_use]
    pub fn take_faults(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.shared.faults))
    }

    /// How many calls of each route were answered with a success.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for call in self.shared.calls.borrow().iter().filter(|call| call.status < 400) {
            *counts.entry(call.route.clone()).or_default() += 1;
        }
        counts
    }

    /// The deliveries that were answered, or that could not be sent.
    #[must_use]
    pub fn deliveries(&self) -> Vec<Delivered> {
        self.shared.deliveries.borrow().clone()
    }

    /// Waits until there are this many deliveries.
    ///
    /// # Errors
    /// They do not arrive in time.
    pub async fn delivered(&self, count: usize) -> Result<Vec<Delivered>> {
        let mut deliveries = self.shared.deliveries.subscribe();
        let waiting = deliveries.wait_for(|all| all.len() >= count);
        let all = tokio::time::timeout(DEADLINE, waiting).await.context("too few deliveries")??;
        Ok(all.clone())
    }
}

impl Drop for ForgeDouble {
    /// # Panics
    /// Where a call or an answer was not as published: a client may take the refusal for one that it expects.
    fn drop(&mut self) {
        self.serving.abort();
        let faults = self.take_faults();
        assert!(faults.is_empty() || std::thread::panicking(), "{}", faults.join("\n"));
    }
}

/// A number of a text: tokens differ, and are the same at each start.
fn stable_number(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Writes a file that only its owner can read.
fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}
