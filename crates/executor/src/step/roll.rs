//! The runs that this process works on, and hearing that one of them is no longer its own.

use super::Engine;
use super::held::HeldRun;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use surety_common::store::{HeldLease, Topic};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Every lease that is worked on here.
#[derive(Default)]
pub struct Roll(Mutex<HashMap<HeldLease, Arc<HeldRun>>>);

impl Roll {
    fn runs(&self) -> MutexGuard<'_, HashMap<HeldLease, Arc<HeldRun>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Work on a run begins.
    pub fn enter(&self, run: &Arc<HeldRun>) {
        self.runs().insert(run.lease(), Arc::clone(run));
    }

    /// Work on a run is over.
    pub fn leave(&self, run: &HeldRun) {
        self.runs().remove(&run.lease());
    }

    /// How many runs of each namespace are worked on.
    pub fn held(&self) -> HashMap<String, usize> {
        let mut held = HashMap::new();
        for run in self.runs().values() {
            *held.entry(run.spec.namespace.clone()).or_default() += 1;
        }
        held
    }

    fn of_run(&self, run_id: Uuid) -> Vec<Arc<HeldRun>> {
        let runs = self.runs();
        runs.iter()
            .filter(|(lease, _)| lease.run_id == run_id)
            .map(|(_, run)| run.clone())
            .collect()
    }

    /// Lays the leases that the rows name beside the ones worked on: work under a lease that is gone
    /// is called off. Answers the runs that the rows give this process and nobody works on.
    pub fn compare(&self, leases: &[HeldLease]) -> Vec<Uuid> {
        let runs = self.runs();
        for (lease, run) in runs.iter() {
            if !leases.contains(lease) {
                run.lose();
            }
        }
        let unknown = leases.iter().filter(|lease| !runs.contains_key(lease));
        unknown.map(|lease| lease.run_id).collect()
    }
}

/// Looks at a held run as soon as somebody else moved it, until `ended`. What it misses comes to
/// light with the next heartbeat.
pub async fn follow(engine: Arc<Engine>, ended: CancellationToken) {
    let mut wakeups = engine.wakeups.subscribe();
    loop {
        let moved = tokio::select! {
            () = ended.cancelled() => return,
            moved = moved(&mut wakeups) => moved,
        };
        for run in engine.roll.of_run(moved) {
            tokio::spawn(async move { run.look_whether_held().await });
        }
    }
}

async fn moved(wakeups: &mut broadcast::Receiver<Topic>) -> Uuid {
    loop {
        match wakeups.recv().await {
            Ok(Topic::Moved(run_id)) => return run_id,
            Ok(Topic::Run(_) | Topic::Ready | Topic::Everything)
            | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
