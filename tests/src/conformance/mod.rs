//! Inputs with their exact outcomes, one JSON object a line, run in process.

pub mod gate;
pub mod rows;
