//! Failures on demand.

use std::time::Duration;

/// How a call fails.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// The connection is closed without an answer, and nothing happened.
    Cut,
    /// The connection is closed without an answer, after the call did its work.
    CutAfterWrite,
    /// The answer takes this long, and nothing happened before.
    Slow(Duration),
    /// The answer has this status and a message.
    Status(u16),
    /// The primary rate limit: 403, no calls left, and when it ends, in seconds from now.
    Limited(i64),
    /// The secondary rate limit: 403 with `Retry-After` in seconds.
    Secondary(u32),
    /// The answer is a page of a proxy with the status 200.
    Page,
    /// The answer is JSON of another shape with the status 200.
    Shape,
    /// The answer has this many bytes of JSON.
    Large(usize),
}

/// A failure that did not happen yet.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) route: String,
    pub(super) failure: Failure,
    pub(super) skip: usize,
    pub(super) times: usize,
}

/// The failure of a call, where one is planned for it.
pub(super) fn take(planned: &mut Vec<Planned>, route: &str) -> Option<Failure> {
    let is_it = |it: &&mut Planned| it.route == route || it.route == "*";
    let found = planned.iter_mut().find(is_it)?;
    if found.skip > 0 {
        found.skip -= 1;
        return None;
    }
    let failure = found.failure.clone();
    found.times = found.times.saturating_sub(1);
    planned.retain(|it| it.times > 0);
    Some(failure)
}
