//! The reports of runners of Go, C, Java, .NET, Ruby and PHP.

use super::text::{labels, number_in, pairs, sum};
use crate::domain::tests_seen::counts::Counts;

/// `ok  <package>  0.003s`, where each package without `[no tests to run]` counts as one test, and
/// `--- PASS: TestName (0.00s)` where `-v` names them.
pub(super) fn go_test(lines: &[&str]) -> Option<Counts> {
    let named = lines.iter().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("--- ")?;
        let none = Counts::default();
        match rest.split_once(": ")?.0 {
            "PASS" => Some(Counts { ran: 1, ..none }),
            "FAIL" => Some(Counts { ran: 1, failed: 1, ..none }),
            "SKIP" => Some(Counts { skipped: 1, ..none }),
            _ => None,
        }
    });
    let packages = || lines.iter().filter_map(|line| go_package(line));
    match sum(named).filter(|counts| counts.ran > 0) {
        Some(counts) => Some(counts),
        None => sum(packages()),
    }
}

fn go_package(line: &str) -> Option<Counts> {
    let none = Counts::default();
    if line.contains("[no test files]") || line.contains("[no tests to run]") {
        return Some(none);
    }
    let mut fields = line.strip_prefix("ok")?.split_whitespace();
    line.get(2..)?.starts_with([' ', '\t']).then_some(())?;
    let time = fields.nth(1)?;
    let timed =
        time == "(cached)" || time.strip_suffix('s').is_some_and(|it| it.parse::<f64>().is_ok());
    timed.then_some(Counts { ran: 1, ..none })
}

/// `100% tests passed, 0 tests failed out of 3`, and `No tests were found!!!`.
pub(super) fn ctest(lines: &[&str]) -> Option<Counts> {
    // A disabled test is not among those that are counted.
    let is_skipped = |line: &&&str| line.trim().ends_with("(Skipped)");
    let skipped = u64::try_from(lines.iter().filter(is_skipped).count()).unwrap_or(u64::MAX);
    let all = sum(lines.iter().filter_map(|line| {
        if line.trim() == "No tests were found!!!" {
            return Some(Counts::default());
        }
        let (results, total) = line.split_once(" out of ")?;
        let (_, results) = results.split_once("tests passed")?;
        let failed = results.trim_start_matches([',', ' ']).split(' ').next();
        let failed = failed.and_then(|number| number.parse().ok()).unwrap_or_default();
        Some(Counts { ran: total.trim().parse().ok()?, failed, ..Counts::default() })
    }))?;
    Some(Counts { ran: all.ran.saturating_sub(skipped), skipped, ..all })
}

/// `Tests run: 3, Failures: 0, Errors: 0, Skipped: 1` below `Results:`; lines of one class end with a time.
pub(super) fn maven(lines: &[&str]) -> Option<Counts> {
    sum(lines.iter().filter_map(|line| {
        let line = line.split_once("] ").map_or(*line, |(_, rest)| rest).trim();
        if line == "No tests to run." {
            return Some(Counts::default());
        }
        if !line.starts_with("Tests run:") || line.contains("Time elapsed") {
            return None;
        }
        let numbers = labels(line);
        let skipped = number_in(&numbers, "Skipped");
        Some(Counts {
            ran: number_in(&numbers, "Tests run").saturating_sub(skipped),
            failed: number_in(&numbers, "Failures").saturating_add(number_in(&numbers, "Errors")),
            skipped,
            missing: 0,
        })
    }))
}

/// Gradle counts nothing; it only says of a test task that it has no source.
pub(super) fn gradle(lines: &[&str]) -> Option<Counts> {
    let tasks = lines.iter().filter_map(|line| {
        let mut words = line.trim().strip_prefix("> Task ")?.split_whitespace();
        let name = words.next()?;
        name.ends_with(":test").then(|| words.next().unwrap_or_default().to_owned())
    });
    let results: Vec<String> = tasks.collect();
    let none = !results.is_empty() && results.iter().all(|result| result == "NO-SOURCE");
    none.then(Counts::default)
}

/// `Passed!  - Failed:     0, Passed:     3, Skipped:     0, Total:     3, Duration: 5 ms - a.dll`.
pub(super) fn dotnet(lines: &[&str]) -> Option<Counts> {
    sum(lines.iter().filter_map(|line| {
        if line.contains("No test is available in") || line.contains("No test matches the given") {
            return Some(Counts::default());
        }
        let (result, numbers) = line.trim().split_once("! ")?;
        if !matches!(result, "Passed" | "Failed" | "Skipped") {
            return None;
        }
        let numbers = labels(numbers.trim_start_matches([' ', '-']));
        let failed = number_in(&numbers, "Failed");
        let ran = number_in(&numbers, "Passed").saturating_add(failed);
        Some(Counts { ran, failed, skipped: number_in(&numbers, "Skipped"), missing: 0 })
    }))
}

/// `5 examples, 1 failure, 2 pending`.
pub(super) fn rspec(lines: &[&str]) -> Option<Counts> {
    sum(lines.iter().filter_map(|line| {
        let results = pairs(line.trim(), &[','])?;
        let of = |words: &[&str]| {
            let found = results.iter().find(|(_, word)| words.contains(&word.as_str()));
            found.map(|(number, _)| *number)
        };
        let examples = of(&["example", "examples"])?;
        let failed = of(&["failure", "failures"])?;
        let skipped = of(&["pending"]).unwrap_or_default();
        Some(Counts { ran: examples.saturating_sub(skipped), failed, skipped, missing: 0 })
    }))
}

/// `OK (3 tests, 5 assertions)`, `Tests: 5, Assertions: 5, Skipped: 1.` and `No tests executed!`.
pub(super) fn phpunit(lines: &[&str]) -> Option<Counts> {
    sum(lines.iter().filter_map(|line| {
        let line = line.trim();
        if line == "No tests executed!" {
            return Some(Counts::default());
        }
        if let Some(results) = line.strip_prefix("OK (") {
            let results = pairs(results.strip_suffix(')')?, &[','])?;
            let (ran, _) = results.iter().find(|(_, word)| word.starts_with("test"))?;
            return Some(Counts { ran: *ran, ..Counts::default() });
        }
        if !(line.starts_with("Tests: ") && line.contains("Assertions: ")) {
            return None;
        }
        let numbers = labels(line);
        let skipped =
            number_in(&numbers, "Skipped").saturating_add(number_in(&numbers, "Incomplete"));
        Some(Counts {
            ran: number_in(&numbers, "Tests").saturating_sub(skipped),
            failed: number_in(&numbers, "Failures").saturating_add(number_in(&numbers, "Errors")),
            skipped,
            missing: 0,
        })
    }))
}
