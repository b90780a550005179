//! The engine: claims runs, works on their steps turn by turn, and brings them to the gate.
//!
//! ```text
//!   claim ----> work ----> step (turns) ----> verify ----> gate
//!     ^          |  ^                            |
//!     |          |  +------- recover <-----------+
//!     +-- released, drained, or orphaned: another executor claims
//! ```
//!
//! An executor leases a whole run: one process works on all its running steps, beside the workspace
//! they share. Nothing here decides a state: every change is a
//! [`Draft`](surety_common::domain::execution::draft::Draft) that the store applies or answers as lost.
//!
//! The modules of one turn, each using only those below it:
//!
//! ```text
//!   work --> turn --> call, open_call --> conclude --> judge, repeat, outcome
//!            turn --> reply (how a reply is taken), replies (how a late one, or a worker's result, arrives),
//!                     at_once (how one arrives that is taken at once)
//!                              judge --> step_checks --> verify
//!                call, verify --> snapshots (what the workspace was and is)
//!                                           all --> changes --> leased_run --> lease, engine
//! ```

mod approved_call;
mod at_once;
mod bounds;
mod call;
mod call_rights;
mod call_setup;
mod changes;
mod claim;
mod conclude;
mod ended;
mod engine;
mod evidence;
mod failure_detector;
mod follow;
mod forge_of_run;
mod forge_push;
mod heartbeat;
mod history;
mod intent;
mod judge;
mod lease;
mod lease_validity;
mod leased_run;
mod open_call;
mod outcome;
mod pending_state;
mod probing;
mod programs;
mod recent_runs;
mod recorded;
mod repeat;
mod replies;
mod reply;
mod repository;
mod repository_git;
mod resource_wait;
mod run_registry;
mod run_tools;
mod secrets;
mod shown_failures;
mod slots;
mod snapshots;
mod step_checks;
mod takeover;
mod task_forges;
mod turn;
mod unrecorded_changes;
mod verify;
mod work;
mod worker_calls;
mod workspace_lock;

pub use claim::Claimer;
pub use ended::Ended;
pub use engine::Engine;
pub use follow::follow;
pub use heartbeat::Heartbeat;
pub use lease_validity::LeaseValidity;
pub use leased_run::LeasedRun;
pub use recent_runs::RecentRuns;
pub(crate) use replies::NotStored;
pub use replies::{Replies, SupplyError};
pub use run_registry::RunRegistry;
pub use task_forges::{TOOLCHAIN, TaskForges};
