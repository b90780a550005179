//! Hooks: deliveries of forges arrive, are stored, and become tasks.
//!
//! ```text
//!   POST /webhooks/FORGE/HOOK --receive--> signature of a known hook --DeliveryLog--> stored, answered 202
//!                                  |  (from memory: a wrong one costs no statement)       |
//!                                  +--> 401, 404, 413, ...                                v
//!                                      processed | ignored | refused | repeated <--process-- taken
//! ```
//!
//! All of it is in the database of the namespace `_toolchain`. Every planner receives, and every planner processes: a
//! delivery that one takes is left alone by the others for a while.

mod in_flight;
mod known;
mod process;
#[cfg(test)]
mod process_tests;
mod receive;
mod signature;

pub(crate) use known::{Hooks, NAMESPACE};
pub(crate) use receive::router;

use process::Processing;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Starts the loops that keep the hooks known and process deliveries, until the process shuts down.
pub(crate) fn start(hooks: &Arc<Hooks>, loops: &mut JoinSet<()>, shutdown: &CancellationToken) {
    loops.spawn(Arc::clone(hooks).keep_known(shutdown.clone()));
    loops.spawn(Processing { hooks: Arc::clone(hooks) }.run(shutdown.clone()));
}
