//! Runs that a model of the service plans and decides, end to end over a strict model server.

mod away;
mod goal;
mod keys;
mod lost;
mod planning;
mod scenarios;
mod stage;
mod turns;
