//! The store over a real Postgres: `DATABASE_URL` names one whose role may create databases.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test may fail")]

mod cases;
mod claims;
mod committing;
mod constraints;
mod creating;
mod journal;
mod lists;
mod retention;
mod schema;
mod silence;
mod support;
mod updates;
mod wakeups;
