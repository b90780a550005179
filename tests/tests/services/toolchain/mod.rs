//! Events of forges become tasks, and tasks end by reports, failures, later events or the clock.

mod accounts;
mod blocked;
mod canary;
mod clock;
mod deaths;
mod ends;
mod failures;
mod forge;
mod github;
mod issues;
mod lines;
mod lost;
mod rules;

/// How long a lease is waited for that must not come.
const NONE_IN_S: i64 = 1;
