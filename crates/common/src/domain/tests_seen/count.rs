//! Reads the summaries that runners print.

mod javascript;
mod other;
mod python;
mod rust;
mod text;

use super::counts::Counts;
use super::runner::Runner;
use super::test_run::TestRun;
pub use text::plain;

/// The longest output that is read, in bytes, from its end: summaries stand there.
const MAX_BYTES: usize = 65 << 20;

/// The tests that these runners report in the output of a command that ended with success. None where
/// the output does not say. Without any summary of a runner that always prints one, no test ran.
pub fn count(run: &TestRun, output: &[u8]) -> Option<Counts> {
    let from = output.len().saturating_sub(MAX_BYTES);
    let text = plain(&String::from_utf8_lossy(output.get(from..).unwrap_or_default()));
    let lines: Vec<&str> = text.lines().collect();
    let found: Vec<_> = run.runners.iter().map(|runner| counts_of(*runner, &lines)).collect();
    let total = found.iter().flatten().fold(Counts::default(), |sum, counts| sum.plus(*counts));
    let unknown = found.iter().any(Option::is_none) && run.may_be_silent;
    // Of cargo's summaries the last is that of the examples in documents, and a line may show no other one.
    let shows_last = run.is_elsewhere && run.runners.contains(&Runner::CargoTest);
    // A crate has a summary of its library also where all its tests are programs with a `main` of their own.
    let is_unsure = unknown || shows_last || run.may_be_uncounted;
    (!is_unsure || total.ran > 0).then_some(total)
}

/// The counts of one runner; none when it printed no summary.
fn counts_of(runner: Runner, lines: &[&str]) -> Option<Counts> {
    match runner {
        Runner::CargoTest => rust::cargo_test(lines),
        Runner::Nextest => rust::nextest(lines),
        Runner::Pytest => python::pytest(lines),
        Runner::Unittest => python::unittest(lines),
        Runner::Jest => javascript::jest(lines),
        Runner::Vitest => javascript::vitest(lines),
        Runner::Mocha => javascript::mocha(lines),
        Runner::NodeTest => javascript::node(lines),
        Runner::GoTest => other::go_test(lines),
        Runner::Ctest => other::ctest(lines),
        Runner::Maven => other::maven(lines),
        Runner::Gradle => other::gradle(lines),
        Runner::DotnetTest => other::dotnet(lines),
        Runner::Rspec => other::rspec(lines),
        Runner::Phpunit => other::phpunit(lines),
    }
}
