//! A forge that fails at each place where the planner asks it: the context of an event, and what is written because a
//! task failed; and forges that repeat and withdraw what they ask for. Real database, real client, real socket.

mod answers;
mod builds;
mod clock;
mod context;
mod handed;
mod late;
mod named;
mod own;
mod posting;
mod requests;
mod rounds;
mod servers;
mod third_type;
mod together;

pub(super) use third_type::Ticket;

use super::{ForgePort, TaskRules};
use crate::planner::{Keys, Planner, ShardIdentity, TaskSetup};
use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::PgPool;
use std::sync::Arc;
use std::time::Duration;
use surety_common::config::{ForgeSettings, ForgesFile, ToolchainConfig};
use surety_common::domain::toolchain::{
    Agent, AgentDriver, Delivery, Forge, Language, ProbeMode, Reading, Role, Rules, ToolchainEvent,
};
use surety_common::store;
use surety_e2e::forge::{Failure, ForgeDouble, State};
use surety_forge::{CallTelemetry, Clients, Forges, Times};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The developer's account.
const LOGIN: &str = "alice";

/// A planner with a forge for each failure, whose repositories are `team/m0`, `team/m1` and so on.
pub(crate) struct Fixture {
    pub(crate) planner: Arc<Planner>,
    pub(crate) forges: Vec<OneForge>,
    _running: DropGuard,
}

/// A forge, and how it fails.
pub(crate) struct OneForge {
    pub(crate) double: ForgeDouble,
    pub(crate) repo: String,
    failure: Failure,
}

/// Short pauses and limits.
fn quick() -> Times {
    Times {
        connect: Duration::from_secs(2),
        attempt: Duration::from_secs(2),
        attempts: 3,
        pause: Duration::from_millis(5),
        patience: Duration::from_millis(100),
    }
}

impl Fixture {
    pub(crate) async fn start(pool: &PgPool, failures: &[Failure], times: Times) -> Self {
        let mut forges = Vec::new();
        for (place, failure) in failures.iter().enumerate() {
            let double = ForgeDouble::start().await.expect("a forge");
            for login in [LOGIN, "surety"] {
                double.account(login).expect("an account");
            }
            let repo = format!("team/m{place}");
            let git = double.repository(&repo, &[("src/list.rs", "fn list() {}\n")]);
            let changed = [("src/list.rs", "fn list() { slow() }\n")];
            let commit = git.expect("a repository").commit("fix/1", &changed, "List");
            let pull = State::pull_of(LOGIN, "fix/1", &commit.expect("a commit"));
            assert_eq!(double.change(|state| state.open_pull(&repo, pull)), Some(1));
            forges.push(OneForge { double, repo, failure: failure.clone() });
        }
        let settings = forges.iter().map(|one| ForgeSettings {
            name: one.repo.replace('/', "-"),
            kind: Forge::Gitea,
            url: one.double.url(),
            account: None,
            credential_file: one.double.account("surety").expect("an account"),
            repositories: vec![one.repo.clone()],
            probe: ProbeMode::Required,
            clone_url: None,
        });
        let file = ForgesFile { forges: settings.collect(), agents: Vec::new() };
        let clients = Clients::new(Arc::new(CallTelemetry), times).expect("clients");
        let configured = Forges::open_with(&file, &clients).expect("forges");
        let rules = TaskRules::load(ToolchainConfig::default()).expect("rules");
        let escalations = Arc::new(ForgePort::new(configured, pool.clone()));
        let tasks = TaskSetup { rules: Arc::new(rules), escalations };
        let shard = ShardIdentity {
            shard_index: 0,
            whose: "a test".to_owned(),
            host_label: "here".to_owned(),
        };
        let running = CancellationToken::new();
        let (keys, pool) = (Keys::default(), pool.clone());
        let planner = Arc::new(Planner::start(pool, shard, tasks, keys, running.clone()));
        for (id, roles) in
            [("dev", vec![Role::Developer]), ("ops", vec![Role::Infra, Role::Coordinator])]
        {
            let accounts =
                if id == "dev" { vec![(Forge::Gitea, LOGIN.to_owned())] } else { vec![] };
            let (id, credential) = (id.to_owned(), String::new());
            let agent = Agent {
                id,
                accounts,
                roles,
                language: Language::En,
                concurrency: 1000,
                credential,
                driver: AgentDriver::Remote,
            };
            store::put_agent(&planner.pool, &agent, "test", planner.now()).await.expect("an agent");
        }
        Self { planner, forges, _running: running.drop_guard() }
    }
}

impl OneForge {
    /// Has a route of the forge fail from now on.
    pub(crate) fn fails(&self, route: &str, times: usize) {
        self.double.fail(route, self.failure.clone(), (0, times));
    }

    /// The texts that the service's account wrote on pull request 1.
    fn comments(&self) -> Vec<String> {
        self.double.change(|state| {
            let comments = state.repo(&self.repo).map(|repo| repo.comments.clone());
            let own = comments.unwrap_or_default().into_iter().filter(|it| it.author == "surety");
            own.map(|it| it.body).collect()
        })
    }

    /// The texts of the issues that the service's account opened.
    fn issues(&self) -> Vec<String> {
        self.double.change(|state| {
            let issues = state.repo(&self.repo).map(|repo| repo.issues.clone());
            let own = issues.unwrap_or_default().into_values().filter(|it| it.author == "surety");
            own.map(|it| it.body).collect()
        })
    }

    fn arrived(&self, route: &str) -> usize {
        self.double.calls().iter().filter(|call| call.route == route).count()
    }

    /// The events of a delivery about pull request 1 at a minute.
    fn event(&self, event: &str, action: &str, minute: u32) -> Vec<ToolchainEvent> {
        event_of(&self.repo, (event, action), minute)
    }
}

/// The events of a delivery about pull request 1 of a repository at a minute.
fn event_of(repo: &str, (event, action): (&str, &str), minute: u32) -> Vec<ToolchainEvent> {
    let at = format!("2026-11-02T03:{minute:02}:05Z");
    let body = json!({
        "action": action,
        "pull_request": {
            "number": 1, "title": "Speed the list up", "user": {"login": LOGIN},
            "head": {"ref": "fix/1", "sha": format!("{minute:040}")}, "base": {"ref": "main"},
            "updated_at": at, "merged": false, "requested_reviewers": []
        },
        "review": {"type": "pull_request_review_rejected", "content": format!("No: {minute}.")},
        "repository": {"full_name": repo},
        "sender": {"login": "lead"}
    })
    .to_string();
    let delivery = Delivery { forge: Forge::Gitea, event, body: &body };
    match delivery.read(&Rules::default()).expect("a delivery") {
        Reading::Tasks(events) => events,
        other @ (Reading::Ignored(_) | Reading::Withdrawn(_)) => panic!("no tasks: {other:?}"),
    }
}

/// How many tasks there are.
async fn count_tasks(pool: &PgPool) -> i64 {
    sqlx::query_scalar("select count(*) from task").fetch_one(pool).await.expect("a count")
}

fn seconds_from_now(planner: &Planner, at: DateTime<Utc>) -> i64 {
    (at - planner.now()).num_seconds()
}
