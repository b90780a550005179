//! The bounds that a check sets for the tests of its command.

use super::{AcceptCheck, CheckKind};

/// The param with the smallest number of tests that must run.
pub const MIN_TESTS: &str = "min_tests";
/// The param with the largest number of tests that may be skipped.
pub const MAX_SKIPPED: &str = "max_skipped";

/// The first bound that is no whole number, or that stands at a check without a command.
pub(super) fn unreadable(check: &AcceptCheck) -> Option<(&'static str, &'static str)> {
    let bounds = [MIN_TESTS, MAX_SKIPPED];
    let mut set = bounds.into_iter().filter_map(|key| Some((key, check.params.get(key)?)));
    set.find_map(|(key, value)| match value.parse::<u64>() {
        Err(_) => Some((key, "a whole number from 0")),
        Ok(_) if check.kind != CheckKind::CommandSuccess => Some((key, "a command_success check")),
        Ok(_) => None,
    })
}
