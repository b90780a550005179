//! The tests that a check's command ran, as the test runner itself reports them.
//!
//! ```text
//!   line --test_runs--> runners that it starts --count(output)--> ran, failed, skipped, missing
//! ```
//!
//! An exit code of 0 says nothing about a runner that ran no test. Counts are what the runner printed:
//! they show that nothing ran, and they never prove that something did.

mod count;
mod counts;
mod make_text;
mod program;
mod quiet;
mod recipe;
mod runner;
mod script_functions;
mod script_text;
mod single;
mod started;
mod starts;
mod test_run;

pub use count::{count, plain};
pub use counts::Counts;
pub use program::asks_for_no_test;
pub use recipe::has_search_path;
pub use runner::Runner;
pub use single::{is_single, only_command};
pub use started::Started;
pub use starts::{Project, Recipes, recipes_of, script_starts, test_runs};
pub use test_run::TestRun;

#[cfg(test)]
mod tests;
