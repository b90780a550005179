//! The store over a real Postgres: `DATABASE_URL` names one whose role may create databases.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test may fail")]

mod absent_hosts;
mod batches;
mod claims;
mod committing;
mod constraints;
mod creating;
mod deliveries;
mod evidence_bundles;
mod foreign_rows;
mod grants;
mod journal;
mod lists;
mod mail_deadlines;
mod offers;
mod plan_tools;
mod plans;
mod retention;
mod roles;
mod roles_of_agents;
mod rotations;
mod schema;
mod signatures;
mod support;
mod tampering;
mod task_signatures;
mod tasks;
mod tokens;
mod unreadable;
mod unresponsive;
mod updates;
mod waits;
mod wakeups;
mod withdrawals;
mod workspace_locks;
