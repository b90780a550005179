//! The canary: failing tests of random names, which a check's line must report as failed.
//!
//! ```text
//!   runner, test files --hosts--> files that get tests --plant--> their text with failing tests
//!   line --narrow--> the same line for these files alone, where the runner can be told so
//!   output --reported--> the tests that the line reports as failed
//! ```
//!
//! A runner or an assertion library that product code patched reports them as passed, or not at all. They
//! stand in files that the line selects anyway and that load the product as its tests do.

mod host;
mod narrow;
mod plant;
mod report;
mod ruling;

pub use host::{hosts, is_host};
pub use narrow::narrow;
pub use plant::{Planted, plant};
pub use report::reported;
pub use ruling::{
    CANARY_NOT_RUN, CanaryRuling, CanaryRun, RUNNER_PATCHED, facts_of, not_run, rule_canary,
};

use super::tests_seen::Runner;

/// The language that a runner's tests load.
pub const fn language_that_runs(runner: Runner) -> &'static str {
    match (language_of_runner(runner), runner) {
        (Some(language), _) => language,
        (None, Runner::Maven | Runner::Gradle) => "jvm",
        (None, Runner::DotnetTest) => "dotnet",
        (None, Runner::Rspec) => "ruby",
        (None, Runner::Phpunit) => "php",
        (None, _) => "c",
    }
}

/// The language of a runner's tests; none where no canary is known for it.
pub const fn language_of_runner(runner: Runner) -> Option<&'static str> {
    match runner {
        Runner::Pytest | Runner::Unittest => Some("python"),
        Runner::CargoTest | Runner::Nextest => Some("rust"),
        Runner::GoTest => Some("go"),
        Runner::Jest | Runner::Vitest | Runner::Mocha | Runner::NodeTest => Some("javascript"),
        Runner::Ctest
        | Runner::Maven
        | Runner::Gradle
        | Runner::DotnetTest
        | Runner::Rspec
        | Runner::Phpunit => None,
    }
}
