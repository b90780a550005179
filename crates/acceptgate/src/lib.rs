//! The acceptgate: decides, from recorded evidence alone, whether a plan's goal is reached.

pub mod check;
pub mod verdict;
