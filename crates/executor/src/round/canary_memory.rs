//! What a round remembers of its checks, for their canaries.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::canary::Planted;
use surety_common::domain::receipt::Inputs;
use surety_common::domain::tests_named::Names;
use surety_common::domain::tests_seen::{Runner, Started};
use surety_common::domain::verification::Probe;

/// A run about the runner of a check that took longer is made only where its line can be narrowed.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// What a round remembers of its checks for their canaries.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) runs: HashMap<(String, Inputs), Ran>,
    pub(super) canaries: HashMap<String, Arc<Canary>>,
    /// Whether the program of the project's own tests is not there.
    pub(super) lacks_program: bool,
}

impl Memory {
    /// The run of a check with these inputs.
    pub(super) fn ran(&self, probe: &Probe, inputs: Inputs) -> Option<Ran> {
        self.runs.get(&(probe.check_id.clone(), inputs)).cloned()
    }
}

/// One run of a check.
#[derive(Debug, Clone)]
pub(super) struct Ran {
    pub(super) took: Duration,
    pub(super) runners: Vec<Runner>,
    /// Of these, the ones that look for test files.
    pub(super) searching: Vec<Runner>,
    /// The test files that start a runner over their own tests.
    pub(super) started: Vec<Started>,
    /// The tests that it named.
    pub(super) names: Names,
    /// Whether its test files spell more tests than ran.
    pub(super) lacks_tests: bool,
    /// The test that it starts without a known runner, where that ends only where it says.
    pub(super) harness: Option<String>,
    /// Whether it wrote check inputs of the start.
    pub(super) overwrites: bool,
}

/// The failing tests of one check.
#[derive(Debug)]
pub(super) struct Canary {
    /// The line for their files alone; none where it cannot be narrowed.
    pub(super) line: Option<String>,
    /// The files that get tests, and what is added to their text.
    pub(super) hosts: Vec<(PathBuf, Planted)>,
    /// The names of the tests.
    pub(super) tests: Vec<String>,
    /// The same with the workspace of the start, where they stand elsewhere.
    pub(super) hosts_at_start: Vec<(PathBuf, Planted)>,
}

/// The inputs of the run by which a check holds; none where it does not.
pub(super) fn base_of(so_far: &[(Inputs, bool)]) -> Option<Inputs> {
    let held = |inputs| so_far.contains(&(inputs, true));
    if so_far.contains(&(Inputs::AsLeft, false)) {
        return None;
    }
    [Inputs::Original, Inputs::OriginalWithIgnored].into_iter().find(|inputs| held(*inputs))
}
