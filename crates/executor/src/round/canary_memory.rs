//! What a round remembers of its checks, for their canaries.

use std::collections::{BTreeSet, HashMap};
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
    /// The failing tests that a check reported with the code of the round.
    pub(super) reported: HashMap<String, Reported>,
    /// How the lines of checks run while their programs are heard, without failing tests.
    pub(super) hearing: HashMap<String, Hearing>,
    /// What the runners of checks said of tests that failed while the line held.
    pub(super) passed_over: HashMap<String, BTreeSet<String>>,
}

/// How a line that holds runs while its programs are heard, without failing tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hearing {
    /// It does not hold, or not in time: what is heard says nothing.
    Disturbs,
    /// It holds although a program of it fails.
    HoldsOverFailure,
    /// It holds although a runner of tests reports tests that failed: that it fails beside failing tests may be for another
    /// reason.
    HoldsOverFailedTests,
    /// None of its programs fails.
    Undisturbed,
}

/// The failing tests that a line reported.
#[derive(Debug, Clone, Default)]
pub(super) struct Reported {
    /// Those that the line reported, and failed.
    pub(super) by_line: BTreeSet<String>,
    /// Those that a program of the line reported, and failed, whatever the line made of it.
    pub(super) within: BTreeSet<String>,
}

impl Reported {
    /// Whether a test was reported at all.
    pub(super) fn has(&self, test: &str) -> bool {
        self.by_line.contains(test) || self.within.contains(test)
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.by_line.extend(other.by_line);
        self.within.extend(other.within);
    }
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
    /// Of these, the ones whose tests are counted.
    pub(super) counted: Vec<Runner>,
    /// Of these, the ones that look for test files.
    pub(super) searching: Vec<Runner>,
    /// The test files that start a runner over their own tests.
    pub(super) started: Vec<Started>,
    /// The tests that it named.
    pub(super) names: Names,
    /// Whether its test files spell more tests than ran.
    pub(super) lacks_tests: bool,
    /// Whether it said nothing of its tests, because the line sends the output of its runners elsewhere.
    pub(super) is_elsewhere: bool,
    /// The tests that it starts without a known runner and that end only where they say.
    pub(super) harnesses: Vec<Harness>,
    /// Why there is no canary for what it starts instead, where that may load the product into a program of tests.
    pub(super) unseen: Option<String>,
    /// Whether it wrote check inputs of the start.
    pub(super) overwrites: bool,
}

/// A test that a line starts without a known runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Harness {
    pub(super) path: String,
    /// Whether the line starts nothing else.
    pub(super) is_all: bool,
}

/// Files that get failing tests, and what becomes of their text.
pub(super) type Hosts = Vec<(PathBuf, Planted)>;

/// The failing tests of one check.
#[derive(Debug)]
pub(super) struct Canary {
    /// The line for their files alone; none where it cannot be narrowed.
    pub(super) line: Option<String>,
    /// Of these each has a run of its own.
    pub(super) parts: Vec<Part>,
    /// The names of the tests.
    pub(super) tests: Vec<String>,
}

/// Failing tests that one run has together.
#[derive(Debug)]
pub(super) enum Part {
    /// Of known runners.
    OfRunners {
        /// The test files.
        hosts: Arc<Hosts>,
        /// The same with as much of each text as loads, for those of which that can be told.
        as_loaded: Hosts,
        /// Whether each file is loaded by itself, so that one that does not load leaves the others as they are.
        is_by_file: bool,
    },
    /// A test that no known runner starts.
    Own {
        /// Its path.
        path: String,
        /// It fails where it ends.
        at_ends: Arc<Hosts>,
        /// It fails in front of all.
        in_front: Arc<Hosts>,
        /// It fails whatever it does, and reports as late as it can what was replaced.
        late: Option<Arc<Hosts>>,
        /// Whether the line starts nothing else, so that the line fails only by it.
        is_all: bool,
    },
}

impl Part {
    /// The files as the run with the code of the round has them.
    pub(super) const fn hosts(&self) -> &Arc<Hosts> {
        match self {
            Self::OfRunners { hosts, .. } | Self::Own { at_ends: hosts, .. } => hosts,
        }
    }

    /// The tests of a file.
    pub(super) fn tests_of(hosts: &Hosts) -> impl Iterator<Item = &String> {
        hosts.iter().flat_map(|(_, planted)| &planted.tests)
    }
}

/// The inputs of the run by which a check holds; none where it does not.
pub(super) fn base_of(so_far: &[(Inputs, bool)]) -> Option<Inputs> {
    let held = |inputs| so_far.contains(&(inputs, true));
    let last_as_left = so_far.iter().rev().find(|(inputs, _)| *inputs == Inputs::AsLeft);
    if last_as_left.is_some_and(|(_, held)| !held) {
        return None;
    }
    [Inputs::Original, Inputs::OriginalWithIgnored].into_iter().find(|inputs| held(*inputs))
}
