//! The store over a real Postgres: `DATABASE_URL` names one whose role may create databases.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of a test fail as the test does"
)]

mod claims;
mod committing;
mod constraints;
mod creating;
mod journal;
mod lists;
mod schema;
mod support;
mod updates;
mod wakeups;
