//! The command line `surety` as a library, so that tests and other tools can use its parts.
//!
//! ```text
//!   commands         one module for each subcommand
//!     plan_file      a plan file            -> a request for a run
//!     evidence_file  an evidence file       -> a request to the gate
//!     connection                            -> the service
//!     follow         a run's journal        -> lines, a live view, or JSON
//!     answering      the calls with which a person acts on a run
//!     report         a run's current state  -> text
//!     verify         a workspace and checks -> a verdict file, without a service
//!     contract       what an agent is held to, kept by workspace
//!     mcp            tools of that contract for an agent that speaks MCP
//!   postgres         the private database of `surety up`
//! ```

pub mod answering;
pub mod commands;
pub mod connection;
pub mod contract;
pub mod evidence_file;
pub mod exit;
pub mod failure;
pub mod folder;
pub mod follow;
pub mod health;
pub mod lines;
pub mod mcp;
pub mod output;
pub mod plan_file;
pub mod postgres;
pub mod report;
pub mod text;
pub mod verify;
pub mod wire_json;
