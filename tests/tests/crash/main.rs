//! What is done to the services and to their database, and that nothing is lost, repeated or
//! believed without proof. Each test ends with the auditor over the database.
//!
//! Here everything is small; `make chaos` runs the same at length. See docs/chaos.md.

mod audited;
mod audited_rows;
mod beating;
mod clocks;
mod contact;
mod crowd;
mod cut;
mod database;
mod disk;
mod failover;
mod forge;
mod killed_executor;
mod killed_services;
mod leases;
mod open_files;
mod panicked;
mod participants;
mod passing;
mod points;
mod points_of_answers;
mod points_of_leases;
mod points_of_moves;
mod points_of_plans;
mod points_of_sleeps;
mod points_of_upkeep;
mod points_of_waits;
mod pool;
mod rolling;
mod storm;
mod traffic;
mod traps;
mod unreadable;

use std::io::Write;

/// An executor counts as dead after two seconds of silence.
const QUICK: [(&str, &str); 2] = [
    ("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000"),
    ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "200"),
];

/// Reports why a scenario cannot run here: on standard error, and in the file that
/// `SURETY_TEST_SKIPS` names, for the caller of the tests. The output of a passing test is seldom
/// shown.
fn skip(what: &str, why: &str) {
    println!("SKIPPED {what}: {why}");
    let Some(file) = std::env::var_os("SURETY_TEST_SKIPS") else { return };
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
    let written = opened.and_then(|mut file| file.write_all(format!("{what}: {why}\n").as_bytes()));
    assert!(written.is_ok(), "what is skipped cannot be said: {written:?}");
}
