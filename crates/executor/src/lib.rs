//! The executor: it carries steps out, turn by turn, and records what it saw.

pub mod tool;
