//! The leases that this process works under, by run and epoch.

use super::lease::Lease;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use surety_common::store::RunLease;
use uuid::Uuid;

/// Every lease with work here.
#[derive(Default)]
pub struct RunRegistry(Mutex<HashMap<RunLease, Arc<Lease>>>);

impl RunRegistry {
    fn runs(&self) -> MutexGuard<'_, HashMap<RunLease, Arc<Lease>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the work on a run.
    pub fn enter(&self, run: &Arc<Lease>) {
        self.runs().insert(run.key(), Arc::clone(run));
    }

    /// Registers the work on a run whose lease is not written yet. False when there is work under such a lease.
    pub fn enter_ahead(&self, run: &Arc<Lease>) -> bool {
        let mut runs = self.runs();
        let is_new = !runs.contains_key(&run.key());
        if is_new {
            runs.insert(run.key(), Arc::clone(run));
        }
        is_new
    }

    /// Removes the work on a run.
    pub fn leave(&self, run: &Arc<Lease>) {
        let mut runs = self.runs();
        // A lease that was never written has the number of the one that was.
        if runs.get(&run.key()).is_some_and(|entered| Arc::ptr_eq(entered, run)) {
            runs.remove(&run.key());
        }
    }

    /// The number of runs with work here, by namespace.
    pub fn held(&self) -> HashMap<String, usize> {
        let mut held = HashMap::new();
        for run in self.runs().values() {
            *held.entry(run.namespace.clone()).or_default() += 1;
        }
        held
    }

    /// The leases of a run; at most one is current.
    pub fn of_run(&self, run_id: Uuid) -> Vec<Arc<Lease>> {
        let runs = self.runs();
        runs.iter()
            .filter(|(lease, _)| lease.run_id == run_id)
            .map(|(_, run)| run.clone())
            .collect()
    }

    /// The leases with work here, without those that are still on their way to the database.
    pub fn leases(&self) -> Vec<RunLease> {
        let runs = self.runs();
        runs.values().filter(|run| run.was_written()).map(|run| run.key()).collect()
    }

    /// Cancels the work under those leases that were `entered` before the rows were read and are
    /// not among the `leases` in them. A later one may have been taken later.
    pub fn call_off(&self, entered: &[RunLease], leases: &[RunLease]) {
        let named: HashSet<&RunLease> = leases.iter().collect();
        let runs = self.runs();
        let lost = entered.iter().filter(|lease| !named.contains(lease));
        lost.filter_map(|lease| runs.get(lease)).for_each(|run| run.lose());
    }

    /// Ends the work on runs whose call a successor would repeat without asking, and returns how
    /// many there are.
    pub fn forfeit_repeated(&self) -> usize {
        let runs = self.runs();
        let repeated = runs.values().filter(|run| run.would_be_repeated());
        repeated.inspect(|run| run.forfeit()).count()
    }

    /// Those of the leases that have no work here.
    pub fn unknown(&self, leases: &[RunLease]) -> Vec<RunLease> {
        let runs = self.runs();
        leases.iter().filter(|lease| !runs.contains_key(lease)).copied().collect()
    }
}
