//! Background work in each database.

use crate::depths::Depths;
use crate::planner::{Keys, Planner, ShardIdentity, TaskSetup};
use crate::task;
use crate::webhook::Webhooks;
use crate::{mail, retention, scan};
use sqlx::PgPool;
use std::sync::{Arc, Mutex};
use surety_common::clock;
use surety_common::keys::keep_registered;
use surety_common::store::Retention;
use tokio_util::sync::CancellationToken;

/// The background tasks of each database.
#[derive(Clone)]
pub(crate) struct Upkeep {
    pub(crate) retention: Retention,
    /// The name of the machine on which workspace paths hold.
    pub(crate) host_label: String,
    /// The queue metrics of all databases.
    pub(crate) depths: Arc<Mutex<Depths>>,
    /// Who is told of events.
    pub(crate) webhooks: Webhooks,
    /// What is configured about tasks.
    pub(crate) tasks: TaskSetup,
    /// What signs, and what is trusted.
    pub(crate) keys: Keys,
}

impl Upkeep {
    /// Starts the planner of a database that is connected.
    pub(crate) async fn start(
        &self,
        pool: PgPool,
        shard_index: usize,
        whose: String,
        shutdown: CancellationToken,
    ) -> Arc<Planner> {
        // Before the first run is created, so that its partition exists.
        retention::prepare(&pool, clock::now_at(shard_index), self.retention).await;
        tokio::spawn(keep_registered(self.keys.signing.clone(), pool.clone(), shutdown.clone()));
        let shard = ShardIdentity { shard_index, whose, host_label: self.host_label.clone() };
        let (tasks, keys) = (self.tasks.clone(), self.keys.clone());
        Arc::new(Planner::start(pool, shard, tasks, keys, shutdown))
    }

    /// Runs until the process shuts down.
    pub(crate) async fn go_on(self, planner: Arc<Planner>) {
        let forgetting = retention::run(Arc::clone(&planner), self.retention);
        let webhooks = self.webhooks.run(Arc::clone(&planner));
        let tasks = task::upkeep::run(Arc::clone(&planner));
        let mail = mail::run(Arc::clone(&planner));
        tokio::join!(forgetting, webhooks, tasks, mail, scan::run(planner, self.depths));
    }
}
