//! The clients against a forge of our own, over real sockets, with real git repositories.

#![allow(clippy::expect_used, reason = "helpers of tests")]

mod failures;
mod hooks;
mod once;
mod outages;
mod probes;
mod reads;
mod tools;
mod writes;

use anyhow::{Context, Result};
use chrono::{DateTime, TimeDelta, Utc};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use surety_common::domain::toolchain::Forge as ForgeKind;
use surety_e2e::forge::{Bare, ForgeDouble, State};
use surety_forge::{
    CallObserver, CallReport, Clients, Forge, ForgeAccount, ForgeError, ForgeErrorCode, RepoName,
    Times,
};

const REPO: &str = "team/totals";

/// A call as the observer was told of it: operation, result, calls left.
type Reported = (&'static str, &'static str, Option<u64>);

#[derive(Default)]
struct Observed(Mutex<Vec<Reported>>);

impl CallObserver for Observed {
    fn called(&self, report: &CallReport<'_>) {
        let reported = (report.operation, report.result, report.rate_limit_left);
        self.0.lock().expect("no panic").push(reported);
    }
}

/// A forge with a repository, an open pull request of alice, and clients of three accounts.
struct Fixture {
    double: ForgeDouble,
    git: Bare,
    repo: RepoName,
    observed: Arc<Observed>,
    clients: Clients,
    kind: ForgeKind,
    pull: u64,
    commit: String,
}

impl Fixture {
    async fn start(kind: ForgeKind) -> Result<Self> {
        let double = ForgeDouble::start().await?;
        for login in ["alice", "robin", "surety"] {
            double.account(login)?;
        }
        let git = double.repository(REPO, &[("src/total.py", "def total(): return 1\n")])?;
        let commit =
            git.commit("fix/7-totals", &[("src/total.py", "def total(): return 2\n")], "Count")?;
        let opened = double.change(|state| {
            let pull = State::pull_of("alice", "fix/7-totals", &commit);
            state.open_pull(REPO, pull)
        });
        let observed = Arc::new(Observed::default());
        let observer: Arc<dyn CallObserver> = observed.clone();
        Ok(Self {
            clients: Clients::new(observer, quick())?,
            repo: RepoName::new(REPO)?,
            pull: opened.context("a pull request")?,
            observed,
            double,
            git,
            kind,
            commit,
        })
    }

    fn account(&self, login: &str, account: Option<&str>) -> Result<ForgeAccount> {
        Ok(ForgeAccount {
            forge: "main".to_owned(),
            kind: self.kind,
            url: self.double.url(),
            credential_file: self.double.account(login)?,
            account: account.map(str::to_owned),
        })
    }

    fn client(&self, login: &str) -> Result<Arc<dyn Forge>> {
        Ok(self.clients.open(self.account(login, None)?)?)
    }

    /// A client that shares nothing with others, such as a rate limit.
    fn fresh(&self, login: &str) -> Result<Arc<dyn Forge>> {
        let observer: Arc<dyn CallObserver> = self.observed.clone();
        Ok(Clients::new(observer, quick())?.open(self.account(login, None)?)?)
    }

    /// A client that waits for megabytes on a machine that has more to do.
    fn patient(&self, login: &str) -> Result<Arc<dyn Forge>> {
        let observer: Arc<dyn CallObserver> = self.observed.clone();
        let times = Times { attempt: Duration::from_secs(30), ..quick() };
        Ok(Clients::new(observer, times)?.open(self.account(login, None)?)?)
    }

    fn reported(&self) -> Vec<Reported> {
        self.observed.0.lock().expect("no panic").clone()
    }

    /// How many calls of a route arrived, answered or not.
    fn arrived(&self, route: &str) -> usize {
        self.double.calls().iter().filter(|call| call.route == route).count()
    }
}

/// Short pauses and limits.
fn quick() -> Times {
    Times {
        connect: Duration::from_secs(2),
        attempt: Duration::from_millis(1_500),
        attempts: 3,
        pause: Duration::from_millis(5),
        patience: Duration::from_millis(1_200),
    }
}

/// Both APIs, and Forgejo as the second name of one of them.
const KINDS: [ForgeKind; 3] = [ForgeKind::Gitea, ForgeKind::Forgejo, ForgeKind::Github];

fn an_hour_ago() -> DateTime<Utc> {
    Utc::now() - TimeDelta::hours(1)
}

fn code<T: std::fmt::Debug>(result: Result<T, ForgeError>) -> ForgeErrorCode {
    result.expect_err("a failure").code
}

/// A credential file that holds this text, for its owner only.
fn credential(folder: &std::path::Path, text: &str) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("credential");
    std::fs::write(&path, text)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(path)
}
