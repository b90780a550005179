//! Runs that a model of the service plans and decides, end to end over a strict model server.

mod away;
mod budget;
mod goal;
mod golden;
mod injected;
mod keys;
mod lost;
mod metrics;
mod planning;
mod repairs;
mod scenarios;
mod settings;
pub(crate) mod stage;
mod turns;
