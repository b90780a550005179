//! Deliveries of forges over real sockets: signed, stored once, processed once, within the bounds of the port.

mod agents;
mod bounds;
mod forges;
mod injected;
mod killed;
mod pushes;
pub(crate) mod sender;
mod signed;
mod untouched;
