//! What a round remembers of its checks, for their canaries.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::receipt::Inputs;
use surety_common::domain::tests_seen::Runner;

/// What a round remembers of its checks for their canaries.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) runs: HashMap<(String, Inputs), Ran>,
    pub(super) canaries: HashMap<String, Arc<Canary>>,
}

/// One run of a check.
#[derive(Debug, Clone)]
pub(super) struct Ran {
    pub(super) took: Duration,
    pub(super) runners: Vec<Runner>,
}

/// The failing tests of one check.
#[derive(Debug)]
pub(super) struct Canary {
    /// The line for their files alone; none where it cannot be narrowed.
    pub(super) line: Option<String>,
    /// The files that get tests, and what is added to their text.
    pub(super) hosts: Vec<(PathBuf, String)>,
    /// The names of the tests.
    pub(super) tests: Vec<String>,
}

/// The inputs of the run by which a check holds; none where it does not.
pub(super) fn base_of(so_far: &[(Inputs, bool)]) -> Option<Inputs> {
    let held = |inputs| so_far.contains(&(inputs, true));
    if so_far.contains(&(Inputs::AsLeft, false)) {
        return None;
    }
    [Inputs::Original, Inputs::OriginalWithIgnored].into_iter().find(|inputs| held(*inputs))
}
