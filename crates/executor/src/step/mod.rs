//! The engine: takes runs up, works on their steps turn by turn, and brings them to the gate.
//!
//! ```text
//!   claim ----> work ----> step (turns) ----> verify ----> gate
//!     ^          |  ^                            |
//!     |          |  +------- recover <-----------+
//!     +-- released, drained, or dead: somebody else claims
//! ```
//!
//! An executor leases a whole run: all its running steps are worked on by one process at a time,
//! beside the workspace they share. Nothing here decides a state: every change is a
//! [`Draft`](surety_common::domain::execution::draft::Draft) that the store accepts or finds lost.

mod bounds;
mod call;
mod claim;
mod evidence;
mod failure_detector;
mod heartbeat;
mod judge;
mod lease_validity;
mod leased_run;
pub mod observations;
mod open_call;
mod pending_state;
mod repeat;
mod resource_wait;
mod run_registry;
mod slots;
mod takeover;
mod turn;
mod verify;
mod work;

pub use claim::Claimer;
pub use heartbeat::Heartbeat;
pub use lease_validity::LeaseValidity;
pub use leased_run::{Ended, LeasedRun};
pub use run_registry::{RunRegistry, follow};

use crate::gate::Gate;
use crate::tool::{Environment, Registry};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use surety_common::clock;
use surety_common::domain::journal::Actor;
use surety_common::store::{Committer, Waker, Wakeups};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What every run that this process holds shares.
pub struct Engine {
    /// This process, as the owner of leases.
    pub id: Uuid,
    /// The name this process signs its changes with.
    pub actor: Actor,
    /// The rows.
    pub pool: PgPool,
    /// The one writer.
    pub committer: Committer,
    /// Tells others what changed.
    pub waker: Waker,
    /// Hears what others changed.
    pub wakeups: Wakeups,
    /// The tools.
    pub tools: Arc<Registry>,
    /// What commands see of the environment.
    pub environment: Arc<Environment>,
    /// Where runs that name no folder get one.
    pub workspaces: PathBuf,
    /// The acceptgate.
    pub gate: Gate,
    /// Cancelled when the process drains: turns under way end, nothing new starts.
    pub drain: CancellationToken,
    /// The runs that are worked on here.
    pub registry: RunRegistry,
    /// Whether others take this process for alive.
    pub lease_validity: LeaseValidity,
    /// Cancelled when a drain has taken its time: calls under way are called off.
    pub cut: CancellationToken,
    /// How long turns under way may take to end while draining.
    pub drain_timeout: Duration,
}

impl Engine {
    /// The name this process signs its changes with.
    pub fn actor(&self) -> Actor {
        self.actor.clone()
    }

    /// The time. The one clock of the engine; everything below takes it as an argument.
    pub fn now(&self) -> DateTime<Utc> {
        clock::now()
    }

    /// Gives runs up whose call others would repeat without asking, when nobody can be sure any more
    /// that they take this process for alive: it would soon run beside its repetition. Everything else
    /// goes on, under the fence: the database may only have been away, and nobody else at work.
    pub(crate) fn check_lease_validity(&self) {
        if self.lease_validity.lose() {
            let runs = self.registry.forfeit_repeated();
            tracing::warn!(
                runs,
                "no heartbeat was answered for nearly the age limit: runs whose call would be \
                 repeated are given up, and no call begins until one is"
            );
        }
    }
}
