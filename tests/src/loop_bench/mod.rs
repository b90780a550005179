//! The quality of the loop: small repository tasks, carried out by models of known quality over the real services.
//!
//! ```text
//!   task (YAML) --> project --> run with a goal and the user's checks --> accepted or refused
//!       |                         ^                                            |
//!       +--> perfect script --grade--> model server, or a real endpoint        |
//!       +--> truth: a test that no service and no model sees, in a clean copy --+--> right or wrong
//! ```
//!
//! Tasks lie in `tests/benches/loop/tasks/LANGUAGE/`; `bases.yaml` beside it holds what a language's projects share.

pub mod grade;
pub mod play;
pub mod player;
pub mod project;
pub mod report;
pub mod task;
