//! The lease protocol as a model that is checked exhaustively, and what its writes look like from outside.
//!
//! `docs/lease-protocol.md` says what is guaranteed and what is modelled. The modules:
//!
//! - [`state`] has the state, [`protocol`] the actions, and `rules` and `work` their effects;
//! - [`laws`] has the invariants, `worlds` walks through all states, and `progress` checks that an end stays reachable;
//! - `guards` shows that each guard is needed;
//! - `waits` is a model of its own, of the leases of waits, and `outside` of changes without a lease;
//! - [`trace`] compares writes with the model. The end-to-end tests do that with those of real executors.
//!
//! A package of its own, because it is optimised: it does nothing but compute.

#[cfg(test)]
mod guards;
pub mod laws;
#[cfg(test)]
mod outside;
#[cfg(test)]
mod progress;
pub mod protocol;
mod rules;
pub mod state;
pub mod trace;
#[cfg(test)]
mod waits;
mod work;
#[cfg(test)]
mod worlds;

/// An effect that must not be made twice.
pub const EFFECT: state::Step = state::Step::Effect { repeatable: false };
