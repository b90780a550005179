//! The reports of pytest and `unittest`.

use super::text::{pairs, sum};
use crate::domain::tests_seen::counts::Counts;

/// `==== 1 failed, 2 passed, 1 skipped in 0.01s ====`, and `collected 5 items / 2 deselected / 3 selected`
/// before it.
pub(super) fn pytest(lines: &[&str]) -> Option<Counts> {
    let collected = lines.iter().filter_map(|line| pytest_collected(line));
    let collected = collected.fold(0, u64::saturating_add);
    let counts = sum(lines.iter().filter_map(|line| pytest_summary(line)));
    match counts {
        Some(counts) => {
            let seen = counts.ran.saturating_add(counts.skipped);
            Some(Counts { missing: collected.saturating_sub(seen), ..counts })
        }
        None if collected > 0 => Some(Counts { missing: collected, ..Counts::default() }),
        None => pytest_progress(lines),
    }
}

/// `.s.x   [100%]`, which is all that stays of a report where quietness is asked for twice: `-q` on the line and in a
/// configuration. A run that ended early has no last line of them, and one with a failure has more to say: where it has not,
/// its end was cut off.
fn pytest_progress(lines: &[&str]) -> Option<Counts> {
    let progress = |line: &&str| {
        let (marks, percent) = line.trim_end().strip_suffix("%]")?.rsplit_once('[')?;
        let (marks, percent) = (marks.trim_end(), percent.trim_start().parse::<u8>().ok()?);
        let is_progress = !marks.is_empty() && marks.chars().all(|mark| ".FEsxX".contains(mark));
        is_progress.then(|| (marks.to_owned(), percent))
    };
    let found: Vec<(String, u8)> = lines.iter().filter_map(progress).collect();
    let (_, last) = found.last()?;
    if *last != 100 {
        return None;
    }
    let of = |wanted: &str| {
        let marks = found.iter().flat_map(|(marks, _)| marks.chars());
        marks
            .filter(|mark| wanted.contains(*mark))
            .fold(0_u64, |number, _| number.saturating_add(1))
    };
    let counts = Counts { ran: of(".xX"), failed: 0, skipped: of("s"), missing: 0 };
    (of("FE") == 0).then_some(counts)
}

fn pytest_collected(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("collected ")?;
    let first = rest.split(" item").next()?.trim().parse().ok()?;
    let selected = rest.split('/').find_map(|part| part.trim().strip_suffix(" selected"));
    selected.map_or(Some(first), |number| number.trim().parse().ok())
}

fn pytest_summary(line: &str) -> Option<Counts> {
    let line = line.trim_matches(['=', ' ']);
    let (results, time) = line.rsplit_once(" in ")?;
    let seconds = time.split_whitespace().next()?.strip_suffix('s')?;
    seconds.parse::<f64>().ok()?;
    if results == "no tests ran" {
        return Some(Counts::default());
    }
    let results = pairs(results, &[','])?;
    let of = |words: &[&str]| {
        let with = results.iter().filter(|(_, word)| words.contains(&word.as_str()));
        with.map(|(number, _)| *number).fold(0, u64::saturating_add)
    };
    let failed = of(&["failed", "error", "errors"]);
    Some(Counts {
        ran: of(&["passed", "xfailed", "xpassed"]).saturating_add(failed),
        failed,
        skipped: of(&["skipped"]),
        missing: 0,
    })
}

/// `Ran 3 tests in 0.000s`, and `OK (skipped=1)` or `FAILED (failures=1, errors=1)` below it.
pub(super) fn unittest(lines: &[&str]) -> Option<Counts> {
    sum(lines.iter().enumerate().filter_map(|(at, line)| {
        let (number, rest) = line.trim().strip_prefix("Ran ")?.split_once(" test")?;
        let number: u64 = number.parse().ok()?;
        rest.contains(" in ").then_some(())?;
        let result =
            lines.iter().skip(at + 1).map(|line| line.trim()).find(|line| !line.is_empty());
        let details =
            result.and_then(|line| line.split_once('(')).map_or("", |(_, details)| details);
        let of = |name: &str| {
            let parts = details.trim_end_matches(')').split(',');
            let mut pairs = parts.filter_map(|part| part.trim().split_once('='));
            let found = pairs.find(|(key, _)| *key == name);
            found.and_then(|(_, number)| number.parse().ok()).unwrap_or(0_u64)
        };
        let (skipped, failed) = (of("skipped"), of("failures").saturating_add(of("errors")));
        Some(Counts { ran: number.saturating_sub(skipped), failed, skipped, missing: 0 })
    }))
}
