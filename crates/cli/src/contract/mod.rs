//! The open contract of a workspace: what an agent is held to, between the connections of `surety mcp`.
//!
//! ```text
//!   DATA/contracts/KEY/ -+- contract.json    the base commit, the checks, the plan, what happened
//!      KEY: SHA-256 of   +- start.manifest   the workspace at the opening: its ignored paths
//!                        +- start/           its files that no repository has: all, or the protected ignored ones
//!      the workspace     +- round.json       the last round, as the agent may read it
//!                        +- lock             held while the contract is read and written again
//!                        +- served           locked by each `surety mcp` that serves the contract
//!                        +- TIME.json        contracts that a person closed
//! ```
//!
//! `surety mcp` opens a contract where none is open, and continues the open one otherwise. Only commands of a
//! person close one. A round reads the base commit again, or the copy of the opening, so nothing in the workspace
//! changes the start.

mod checks;
mod file;
#[cfg(test)]
mod fixture;
mod last_round;
mod list;
mod opening;
mod proposal;
mod rounds;
mod show;
mod store;
mod unused;

pub use checks::Checks;
pub use file::{Contract, Decided, Event, Outcome, Proposal, Question, Report, What, now};
pub use last_round::LastRound;
pub use list::{Listed, table};
pub use opening::{Opening, Wanted};
pub use proposal::{Next, next_step};
pub use rounds::{Judgement, Judging, judge_contract};
pub use show::{Reader, as_json, as_text};
pub use store::Store;
