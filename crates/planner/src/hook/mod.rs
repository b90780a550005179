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

mod known;
mod process;
mod receive;
mod signature;

pub(crate) use known::Hooks;
pub(crate) use receive::router;

/// The namespace whose database has the hooks, their deliveries, and the tasks.
pub(crate) const NAMESPACE: &str = "_toolchain";
