//! Runs that a model of the service plans and decides, end to end over a strict model server.

mod away;
mod budget;
mod goal;
mod golden;
mod injected;
mod keys;
mod lost;
mod metrics;
mod operators;
mod patches;
mod planning;
mod profiles;
mod prompts;
mod repairs;
mod room;
mod scenarios;
mod search;
mod settings;
pub(crate) mod stage;
mod streamed;
mod turns;
