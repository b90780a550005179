//! The executor: steps, turns, tool calls, receipts.
//!
//! ```text
//!   claim --> step: driver --> decision --> three validations --> tool --> receipt
//!               |                                ^
//!               |                         fuse: what ends or pauses the work
//!               +--> verify --> acceptgate
//! ```

pub mod decision;
pub mod driver;
pub mod fuse;
pub mod gate;
pub mod step;
pub mod tool;
