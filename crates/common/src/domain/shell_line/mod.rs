//! Lines for a shell: the commands that they may start, as text. Nothing is expanded or run.
//!
//! ```text
//!   line --segments--> commands --unwrapped--> programs --given_to_shell, texts--> lines inside them
//! ```
//!
//! The runners that a line starts and the scripts that it starts are both found with these rules.

mod first_line;
mod folder;
mod listed;
mod nested;
mod node;
mod python;
mod segment;
mod wrappers;

pub use first_line::{as_source, interpreter_of};
pub use folder::Folders;
pub use listed::listed;
pub use nested::{Given, given_to_shell, is_shell, substitutions, texts};
pub use node::names_of_node;
pub use python::{OfPython, given_to_python, module_of_python};
pub use segment::{Segment, is_assignment, segments};
pub use wrappers::{base_name, folder_of_wrapper, is_python, options, started_by, unwrapped};
