//! Fuses: what ends or pauses work. Each is a small state that is stored with its step and a
//! pure function that counts one turn.

pub mod completion;
pub mod correction;
pub mod repeat;
pub mod timeout;
