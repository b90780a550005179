//! The runs that this process works on, and hearing that one of them is no longer its own.

use super::Engine;
use super::leased_run::LeasedRun;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use surety_common::store::{RunLease, Topic};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Every lease that is worked on here.
#[derive(Default)]
pub struct RunRegistry(Mutex<HashMap<RunLease, Arc<LeasedRun>>>);

impl RunRegistry {
    fn runs(&self) -> MutexGuard<'_, HashMap<RunLease, Arc<LeasedRun>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Work on a run begins.
    pub fn enter(&self, run: &Arc<LeasedRun>) {
        self.runs().insert(run.lease(), Arc::clone(run));
    }

    /// Work on a run is over.
    pub fn leave(&self, run: &LeasedRun) {
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

    fn of_run(&self, run_id: Uuid) -> Vec<Arc<LeasedRun>> {
        let runs = self.runs();
        runs.iter()
            .filter(|(lease, _)| lease.run_id == run_id)
            .map(|(_, run)| run.clone())
            .collect()
    }

    /// The leases that are worked on now.
    pub fn leases(&self) -> Vec<RunLease> {
        self.runs().keys().copied().collect()
    }

    /// Calls work off under those of the leases that were `entered` before the rows were read and
    /// are not among the `leases` they name. One that was entered later may have been taken later.
    pub fn call_off(&self, entered: &[RunLease], leases: &[RunLease]) {
        let named: HashSet<&RunLease> = leases.iter().collect();
        let runs = self.runs();
        let gone = entered.iter().filter(|lease| !named.contains(lease));
        gone.filter_map(|lease| runs.get(lease)).for_each(|run| run.lose());
    }

    /// Ends the work at once on runs whose call would be repeated unasked, and answers how many they are.
    pub fn forfeit_repeated(&self) -> usize {
        let runs = self.runs();
        let repeated = runs.values().filter(|run| run.would_be_repeated());
        repeated.inspect(|run| run.forfeit()).count()
    }

    /// Those of the leases that nobody works on here.
    pub fn unknown(&self, leases: &[RunLease]) -> Vec<RunLease> {
        let runs = self.runs();
        leases.iter().filter(|lease| !runs.contains_key(lease)).copied().collect()
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
        for run in engine.registry.of_run(moved) {
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
