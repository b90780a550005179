//! The runners of tests that a check's line starts, as they are counted.

use super::runner::Runner;
use super::started::Started;

/// The runners that count together: all of one kind in the line itself, or all that its recipes start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TestRun {
    /// The runners, each once.
    pub runners: Vec<Runner>,
    /// Of these, the ones that look for test files.
    pub searching: Vec<Runner>,
    /// The test files that start a runner over their own tests.
    pub started: Vec<Started>,
    /// Whether they may run no test, or print no summary, while everything is well: the line starts them
    /// under a condition, redirects their output or asks for another report.
    pub may_be_silent: bool,
    /// Whether programs of tests with a `main` of their own may be among them, which the runner does not count.
    pub may_be_uncounted: bool,
    /// Whether the line sends the output of any of them to a file, to another program, or nowhere.
    pub is_elsewhere: bool,
    /// Whether scripts start them, under conditions that are not followed: their reports are not counted.
    pub in_scripts: bool,
}

impl TestRun {
    /// The runners' names, for people.
    pub fn name(&self) -> String {
        let names: Vec<_> = self.runners.iter().map(|runner| runner.as_str()).collect();
        names.join(", ")
    }
}
