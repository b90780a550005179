//! What every leased run of this process shares.

use super::lease_validity::LeaseValidity;
use super::recent_runs::RecentRuns;
use super::run_registry::RunRegistry;
use super::task_forges::TaskForges;
use crate::driver::Drivers;
use crate::gate::Gate;
use crate::tool::{Environment, Sandbox, Secrets, Toolbox};
use crate::workspace_git::GitHost;
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use surety_common::clock;
use surety_common::domain::journal::Actor;
use surety_common::domain::workspace::Reserved;
use surety_common::store::{Committer, TrustSource, Waker, Wakeups};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What every leased run of this process shares.
pub struct Engine {
    /// This process, as the owner of leases.
    pub id: Uuid,
    /// The actor of the changes that this process makes.
    pub actor: Actor,
    /// The connection pool.
    pub pool: PgPool,
    /// The group committer of this process.
    pub committer: Committer,
    /// The keys that are trusted; none where no file of them is set.
    pub trust: Option<Arc<dyn TrustSource>>,
    /// Sends notifications.
    pub waker: Waker,
    /// Receives notifications.
    pub wakeups: Wakeups,
    /// The drivers that decide, by kind.
    pub drivers: Drivers,
    /// The tools by namespace.
    pub tools: Arc<Toolbox>,
    /// The environment that commands get.
    pub environment: Arc<Environment>,
    /// What confines commands.
    pub sandbox: Sandbox,
    /// The secrets that tools may use.
    pub secrets: Secrets,
    /// The forges whose tasks are worked on.
    pub forges: TaskForges,
    /// The folder of the workspaces of runs that name none.
    pub workspaces: PathBuf,
    /// What runs on git repositories are allowed.
    pub git: GitHost,
    /// The folders that no run may work in.
    pub reserved: Reserved,
    /// Names the machine on which workspace paths hold.
    pub host_label: String,
    /// The acceptgate.
    pub gate: Gate,
    /// Cancelled when the process drains: turns under way end, nothing new starts.
    pub drain: CancellationToken,
    /// The leases that are worked on here.
    pub registry: RunRegistry,
    /// What is known of runs that were worked on here lately.
    pub recent_runs: RecentRuns,
    /// Whether this process may act under its leases.
    pub lease_validity: LeaseValidity,
    /// Cancelled when a drain has taken its time: calls under way end.
    pub cut: CancellationToken,
    /// How long turns under way may take to end while draining.
    pub drain_timeout: Duration,
    /// How many executors may die in the middle of the same turn or verification before its run waits for an
    /// operator.
    pub max_deaths: u32,
}

impl Engine {
    /// The actor of the changes that this process makes.
    pub fn actor(&self) -> Actor {
        self.actor.clone()
    }

    /// The time. The one clock of the engine; everything below takes it as an argument.
    pub fn now(&self) -> DateTime<Utc> {
        clock::now()
    }

    /// Kills the calls that a successor repeats without asking, once no heartbeat was answered for
    /// nearly the age limit. Other work continues: the fence decides whether its writes count.
    pub(crate) fn check_lease_validity(&self) {
        if self.lease_validity.lose() {
            let runs = self.registry.forfeit_repeated();
            tracing::warn!(
                runs,
                "executor: no heartbeat was answered for nearly the age limit; auto-retryable calls \
                 were killed and no call begins until a heartbeat is answered"
            );
        }
    }
}
