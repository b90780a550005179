//! The services as a user runs them: processes, sockets and a database, from the first call to the verdict.
//!
//! One binary holds all of these tests, because each further binary links the whole of Surety once more.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod acceptance;
mod access;
mod agent_tools;
mod api;
mod arbitrary;
mod authorization;
mod bench_loop;
mod budgets;
mod checks;
mod claiming;
mod client_example;
mod client_workers;
mod clients;
mod demo;
mod driver_contexts;
mod driver_words;
mod drivers;
mod engine;
mod figures;
mod first_light;
mod fork;
mod git_workspace;
mod golden;
mod hidden_checks;
mod hostile;
mod hosts;
mod mail;
mod mcp_driver;
mod mcp_tools;
mod model;
mod pausing;
mod pending_turns;
mod people;
mod planning;
mod readme;
mod receipts;
mod refusals;
mod remote_drivers;
mod replans;
mod reports;
mod rewritten_evidence;
mod rewritten_task;
mod secrets;
mod selection;
mod shards;
mod signed_evidence;
mod snapshots;
mod stateless;
mod step_checks;
mod stop_reasons;
mod task_commands;
mod tls;
mod tool_workers;
mod toolchain;
mod toolchain_intake;
mod traced_over_services;
mod unreadable_evidence;
mod verify_tools;
mod verifying;
mod watching;
mod webhooks;
mod workspace_locks;
