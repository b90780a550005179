//! The executor: steps, turns, tool calls, receipts.
//!
//! ```text
//!   text --decision::read--> decision --decision::validate--> applied, or a correction
//!                                            ^
//!                              fuse: what ends or pauses the work
//! ```

pub mod decision;
pub mod fuse;
