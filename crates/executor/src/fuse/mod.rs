//! Fuses: limits that end or pause work when reached, each a small state and a pure function that
//! counts. The counts are stored with their step; timeouts are counted in the process.

pub mod completion;
pub mod correction;
pub mod limits;
pub mod repeat;
pub mod replies;
pub mod timeout;
pub mod turn;
#[cfg(test)]
mod turn_tests;
