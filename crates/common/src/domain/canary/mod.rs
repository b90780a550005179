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

mod as_loaded;
mod bodies;
mod candidates;
mod ends;
mod flavour;
mod host;
mod integrity;
mod javascript;
mod loaded;
mod masked;
mod matchers;
mod narrow;
mod plant;
mod replaced;
mod report;
mod ruling;
mod script;
mod shell;

pub use as_loaded::{loads_by_file, plant_as_loaded, runs_by_file};
pub use candidates::candidates;
pub use host::{MAX_HOSTS, MAX_OTHERS, hosts, hosts_started, is_host, mentions};
pub use loaded::may_be_loaded;
pub use narrow::{going_on, narrow};
pub use plant::{Planted, plant, plant_one, plant_started};
pub use report::{failed_lines, reported, reported_at_start};
pub use ruling::{
    CANARY_NOT_RUN, CanaryRuling, CanaryRun, RUNNER_PATCHED, facts_of, not_run, rule_canary,
};
pub use script::{OwnTest, ends_as_it_says, is_own_program, plant_own, product_may_end};

use super::tests_seen::Runner;

/// The language of a runner's tests, which load the product.
pub const fn language_of_runner(runner: Runner) -> &'static str {
    match runner {
        Runner::Pytest | Runner::Unittest => "python",
        Runner::CargoTest | Runner::Nextest => "rust",
        Runner::GoTest => "go",
        Runner::Jest | Runner::Vitest | Runner::Mocha | Runner::NodeTest => "javascript",
        Runner::Maven | Runner::Gradle => "jvm",
        Runner::DotnetTest => "dotnet",
        Runner::Rspec => "ruby",
        Runner::Phpunit => "php",
        Runner::Ctest => "c",
    }
}
