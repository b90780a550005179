//! The names of the tests that a check's line runs, as the runner prints them, and the tests of the start that
//! a run no longer has.
//!
//! ```text
//!   output --names--> tests that ran          texts of test files --literal--> tests that they must hold
//!   start's names, later names, literal --gone--> tests that are missing
//! ```
//!
//! Names that a program makes at run time, such as those of parametrised tests, differ for good reasons. So a
//! test counts as missing only where a test file of the start, which the view has, spells its name.

mod literal;
mod names;
mod parameters;
mod ruling;
mod selected;
mod verbose;

pub use literal::{Literals, language_of_tests, lists_tests, literals};
pub use names::{Names, language_of_names, names};
pub use ruling::{TESTS_MISSING, TestsGone, facts_of_gone, gone_in};
pub use selected::selected;
pub use verbose::{Naming, naming};

#[cfg(test)]
mod tests;
