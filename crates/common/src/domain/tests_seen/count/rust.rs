//! The reports of `cargo test` and nextest.

use super::text::{pairs, sum};
use crate::domain::tests_seen::counts::Counts;

/// `test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.00s` of
/// each test program. A program that announced its tests and ended without a result ran none of them.
pub(super) fn cargo_test(lines: &[&str]) -> Option<Counts> {
    let (mut results, mut announced) = (Vec::new(), Vec::new());
    for line in lines.iter().map(|line| line.trim_start()) {
        if let Some(number) = line.strip_prefix("running ").and_then(announced_tests) {
            announced.push(number);
        } else if let Some(counts) = result(line) {
            announced.pop();
            results.push(counts);
        }
    }
    let missing = announced.into_iter().fold(0_u64, u64::saturating_add);
    match sum(results.into_iter()) {
        Some(counts) => Some(Counts { missing, ..counts }),
        None => (missing > 0).then_some(Counts { missing, ..Counts::default() }),
    }
}

fn announced_tests(rest: &str) -> Option<u64> {
    let (number, word) = rest.split_once(' ')?;
    matches!(word.trim(), "test" | "tests").then(|| number.parse().ok())?
}

fn result(line: &str) -> Option<Counts> {
    // With `--nocapture`, a test may leave text without a line end in front of it.
    let (_, result) = line.split_once("test result: ")?;
    let (_, numbers) = result.split_once(". ")?;
    let numbers: Vec<&str> =
        numbers.split("; ").take_while(|part| !part.contains("finished")).collect();
    let numbers = pairs(&numbers.join(";"), &[';'])?;
    let of = |word: &str| {
        numbers.iter().find(|(_, found)| found == word).map_or(0, |(number, _)| *number)
    };
    let failed = of("failed");
    Some(Counts {
        ran: of("passed").saturating_add(failed).saturating_add(of("measured")),
        failed,
        skipped: of("ignored"),
        missing: 0,
    })
}

/// `Summary [   0.147s] 3/5 tests run: 3 passed, 2 skipped`. The second number is there when some of
/// the tests were not started.
pub(super) fn nextest(lines: &[&str]) -> Option<Counts> {
    sum(lines.iter().filter_map(|line| {
        let (_, rest) = line.trim_start().strip_prefix("Summary [")?.split_once(']')?;
        let (run, results) = rest.split_once(" run: ")?;
        let (numbers, _) = run.trim().split_once(" test")?;
        let (ran, all) = numbers.split_once('/').unwrap_or((numbers, numbers));
        let (ran, all): (u64, u64) = (ran.parse().ok()?, all.parse().ok()?);
        let results = pairs(results, &[','])?;
        let of = |word: &str| {
            let with = results.iter().filter(|(_, found)| found.split(' ').next() == Some(word));
            with.map(|(number, _)| *number).fold(0, u64::saturating_add)
        };
        let failed = of("failed").saturating_add(of("timed")).saturating_add(of("exec"));
        Some(Counts { ran, failed, skipped: of("skipped"), missing: all.saturating_sub(ran) })
    }))
}
