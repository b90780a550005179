//! What is done to the services and to their database, and that nothing is lost, repeated or
//! believed without proof. Each test ends with the auditor over the database.
//!
//! Here everything is small; `make chaos` runs the same at length. See docs/chaos.md.

mod audited;
mod audited_rows;
mod beating;
mod clocks;
mod contact;
mod cut;
mod database;
mod disk;
mod failover;
mod forge;
mod killed_executor;
mod killed_services;
mod leases;
mod points;
mod pool;
mod rolling;
mod spoilt;
mod storm;
mod traffic;
mod traps;

/// An executor counts as dead after two seconds of silence.
const QUICK: [(&str, &str); 2] = [
    ("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000"),
    ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "200"),
];

/// Says why a scenario cannot run here, for a person to read.
fn skip(what: &str, why: &str) {
    println!("SKIPPED {what}: {why}");
}
