//! The reports of Node's own runner, Jest, Vitest and Mocha.

use super::text::{number_in, pairs, sum};
use crate::domain::tests_seen::counts::Counts;

/// `# tests 4` and the lines below it; another reporter begins them with a sign.
pub(super) fn node(lines: &[&str]) -> Option<Counts> {
    let mut found = Vec::new();
    let mut block: Vec<(String, u64)> = Vec::new();
    for line in lines {
        let pair = line.strip_prefix("# ").or_else(|| line.strip_prefix("\u{2139} "));
        let pair = pair.and_then(|rest| rest.trim().split_once(' '));
        match pair.map(|(word, number)| (word, number.parse::<u64>().ok())) {
            Some(("tests", Some(number))) => block = vec![("tests".to_owned(), number)],
            Some(("duration_ms", _)) if !block.is_empty() => found.push(std::mem::take(&mut block)),
            Some((word, Some(number))) if !block.is_empty() => {
                block.push((word.to_owned(), number))
            }
            Some(_) | None => block.clear(),
        }
    }
    sum(found.into_iter().map(|block| {
        let failed = number_in(&block, "fail").saturating_add(number_in(&block, "cancelled"));
        let passed = number_in(&block, "pass").saturating_add(number_in(&block, "todo"));
        let skipped = number_in(&block, "skipped");
        Counts { ran: passed.saturating_add(failed), failed, skipped, missing: 0 }
    }))
}

/// `Tests:       1 failed, 1 skipped, 3 passed, 5 total`.
pub(super) fn jest(lines: &[&str]) -> Option<Counts> {
    sum(lines.iter().filter_map(|line| {
        let line = line.trim();
        if line.starts_with("No tests found, exiting with code 0") {
            return Some(Counts::default());
        }
        counted(&pairs(line.strip_prefix("Tests:")?, &[','])?)
    }))
}

/// `      Tests  1 failed | 3 passed | 1 skipped (5)`.
pub(super) fn vitest(lines: &[&str]) -> Option<Counts> {
    sum(lines.iter().filter_map(|line| {
        let line = line.trim();
        if line.starts_with("No test files found, exiting with code 0") {
            return Some(Counts::default());
        }
        let (results, total) = line.strip_prefix("Tests ")?.trim().rsplit_once('(')?;
        total.strip_suffix(')')?.parse::<u64>().ok()?;
        if results.trim() == "no tests" {
            return Some(Counts::default());
        }
        counted(&pairs(results, &['|'])?)
    }))
}

fn counted(results: &[(u64, String)]) -> Option<Counts> {
    let of = |word: &str| {
        results.iter().find(|(_, found)| found == word).map_or(0, |(number, _)| *number)
    };
    let failed = of("failed");
    let ran = of("passed").saturating_add(failed);
    Some(Counts { ran, failed, skipped: of("skipped"), missing: 0 })
}

/// `  3 passing (5ms)`, `  1 pending` and `  1 failing`.
pub(super) fn mocha(lines: &[&str]) -> Option<Counts> {
    sum(lines.iter().filter_map(|line| {
        let (number, rest) = line.strip_prefix("  ")?.split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        let none = Counts::default();
        if rest.starts_with("passing (") {
            return Some(Counts { ran: number, ..none });
        }
        match rest.trim() {
            "failing" => Some(Counts { ran: number, failed: number, ..none }),
            "pending" => Some(Counts { skipped: number, ..none }),
            _ => None,
        }
    }))
}
