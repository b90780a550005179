//! Reads the names of tests from what runners print.

use super::literal::{CMAKE, Literals};
use crate::domain::tests_seen::{Runner, plain};
use std::collections::{BTreeMap, BTreeSet};

/// The longest output that is read, in bytes, from its end.
const MAX_BYTES: usize = 65 << 20;
/// The most names that are kept.
const MAX_NAMES: usize = 100_000;
/// Signs in front of a test that ran, in the reports of runners of JavaScript.
const RAN: &[char] =
    &['\u{2713}', '\u{2714}', '\u{221a}', '\u{2715}', '\u{2716}', '\u{2717}', '\u{d7}'];

/// Those of them that say that it failed.
const FAILED: &[char] = &['\u{2715}', '\u{2716}', '\u{2717}', '\u{d7}'];

/// The tests that ran, skipped ones apart: how often, by the name in their file and the whole name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    ran: BTreeMap<String, BTreeMap<String, usize>>,
    /// The names of tests that were skipped, of runners that say so.
    skipped: BTreeSet<String>,
    count: usize,
}

/// A test that ran.
struct Ran<'l> {
    /// The name as a test file spells it.
    name: &'l str,
    /// The name with those of its module and class.
    whole: &'l str,
    /// Whether the runner may print the whole name more than once for one test.
    once: bool,
}

impl Names {
    /// Whether no name is known.
    pub fn is_empty(&self) -> bool {
        self.ran.is_empty()
    }

    /// The tests that were skipped, that files spell, and that an earlier run knows nothing of.
    pub fn skipped_anew<'s>(&'s self, before: &Self, literals: &Literals) -> Vec<&'s str> {
        let is_one = |name: &&String| {
            let is_known = before.ran.contains_key(*name) || before.skipped.contains(*name);
            literals.times(name) > 0 && !is_known && !self.ran.contains_key(*name)
        };
        self.skipped.iter().filter(is_one).map(String::as_str).collect()
    }

    /// Whether fewer tests ran than these files spell.
    pub fn lack(&self, literals: &Literals) -> bool {
        literals.iter().any(|(name, times)| self.times(name) < times)
    }

    /// The tests of the start that did not run later, by their whole names. Only those count that the files
    /// spell, and as often as these do.
    pub fn gone<'s>(&'s self, later: &Self, literals: &Literals) -> Vec<&'s str> {
        let of_name = |(name, wholes): (&'s String, &'s BTreeMap<String, usize>)| {
            let wanted = self.times(name).min(literals.times(name));
            let lacking = wanted.saturating_sub(later.times(name));
            let in_later =
                |whole: &str| later.ran.get(name).is_some_and(|found| found.contains_key(whole));
            let absent = wholes.keys().filter(move |whole| !in_later(whole));
            let named: Vec<&str> = absent.take(lacking).map(String::as_str).collect();
            // The same whole name may stand for tests of several files.
            if named.is_empty() && lacking > 0 { vec![name.as_str()] } else { named }
        };
        self.ran.iter().flat_map(of_name).collect()
    }

    fn times(&self, name: &str) -> usize {
        self.ran.get(name).map_or(0, |wholes| wholes.values().sum())
    }

    fn add(&mut self, ran: &Ran<'_>) {
        if self.count >= MAX_NAMES {
            return;
        }
        let wholes = self.ran.entry(ran.name.to_owned()).or_default();
        let times = wholes.entry(ran.whole.to_owned()).or_default();
        if *times == 0 || !ran.once {
            *times += 1;
            self.count += 1;
        }
    }
}

/// The language of the test files of a runner that names its tests.
pub const fn language_of_names(runner: Runner) -> Option<&'static str> {
    match runner {
        Runner::Pytest | Runner::Unittest => Some("python"),
        Runner::CargoTest | Runner::Nextest => Some("rust"),
        Runner::GoTest => Some("go"),
        Runner::Jest | Runner::Vitest | Runner::Mocha | Runner::NodeTest => Some("javascript"),
        Runner::Maven | Runner::Gradle => Some("jvm"),
        Runner::DotnetTest => Some("dotnet"),
        Runner::Rspec => Some("ruby"),
        Runner::Phpunit => Some("php"),
        Runner::Ctest => Some(CMAKE),
    }
}

/// The tests that these runners name in an output; empty where they print no names.
pub fn names(runners: &[Runner], output: &[u8]) -> Names {
    if runners.is_empty() {
        return Names::default();
    }
    let from = output.len().saturating_sub(MAX_BYTES);
    let text = plain(&String::from_utf8_lossy(output.get(from..).unwrap_or_default()));
    let lines: Vec<&str> = text.lines().collect();
    let mut names = Names::default();
    for runner in runners {
        for (at, line) in lines.iter().enumerate() {
            let next = lines.get(at + 1).copied().unwrap_or_default();
            if let Some(ran) = ran(*runner, line, next) {
                names.add(&ran);
            } else if *runner == Runner::Unittest
                && names.skipped.len() < MAX_NAMES
                && let Some((skipped, true)) = unittest(line, next)
            {
                names.skipped.insert(skipped.name.to_owned());
            }
        }
    }
    names
}

fn ran<'l>(runner: Runner, line: &'l str, next: &str) -> Option<Ran<'l>> {
    match runner {
        Runner::CargoTest => cargo_test(line),
        Runner::Nextest => nextest(line),
        Runner::Pytest => pytest(line),
        Runner::Unittest => {
            unittest(line, next).filter(|(_, is_skipped)| !is_skipped).map(|(ran, _)| ran)
        }
        Runner::GoTest => go_test(line),
        Runner::NodeTest | Runner::Jest | Runner::Vitest | Runner::Mocha => javascript(line),
        Runner::Maven => maven(line),
        Runner::Gradle => gradle(line),
        Runner::DotnetTest => dotnet(line),
        Runner::Rspec => rspec(line),
        Runner::Phpunit => phpunit(line, next),
        Runner::Ctest => ctest(line),
    }
}

fn last<'l>(whole: &'l str, between: &str) -> &'l str {
    whole.rsplit(between).next().unwrap_or(whole)
}

/// `test tests::adds ... ok`. Examples in documentation have a place in place of a name.
fn cargo_test(line: &str) -> Option<Ran<'_>> {
    let (whole, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let whole = whole.strip_suffix(" - should panic").unwrap_or(whole);
    let is_one = !whole.contains(' ') && !result.starts_with("ignored");
    is_one.then(|| Ran { name: last(whole, "::"), whole, once: false })
}

/// `PASS [   0.005s] (1/3) package::program tests::adds`.
fn nextest(line: &str) -> Option<Ran<'_>> {
    let (state, rest) = line.trim_start().split_once(" [")?;
    if !matches!(state, "PASS" | "FAIL" | "LEAK") {
        return None;
    }
    let (_, rest) = rest.split_once(']')?;
    let rest = rest.trim_start();
    let whole = match rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        Some((_, rest)) => rest.trim(),
        None => rest.trim(),
    };
    let (_, test) = whole.rsplit_once(' ')?;
    Some(Ran { name: last(test, "::"), whole, once: true })
}

/// `PASSED tests/test_a.py::Class::test_x[1]`, and with `-v` the result behind the name.
fn pytest(line: &str) -> Option<Ran<'_>> {
    let states = ["PASSED", "FAILED", "ERROR", "XFAIL", "XPASS"];
    let mut words = line.split_whitespace();
    let (first, second) = (words.next()?, words.next()?);
    let is_named = |word: &str| word.contains("::");
    let whole = if states.contains(&first) && is_named(second) {
        second
    } else if is_named(first) && states.contains(&second) {
        first
    } else {
        return None;
    };
    let whole = whole.split('[').next().unwrap_or(whole);
    Some(Ran { name: last(whole, "::"), whole, once: true })
}

/// `test_x (tests.test_a.Class.test_x) ... ok`; the result follows the first line of a docstring. Answers also whether it
/// was skipped.
fn unittest<'l>(line: &'l str, next: &str) -> Option<(Ran<'l>, bool)> {
    let (name, rest) = line.split_once(" (")?;
    let (whole, rest) = rest.split_once(')')?;
    let is_name = |text: &str| {
        !text.is_empty()
            && text.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '.'))
    };
    if !is_name(name) || !is_name(whole) || name.contains('.') || line.starts_with(' ') {
        return None;
    }
    // Before Python 3.11 the parentheses hold the class alone.
    let result = if rest.contains(" ... ") { rest } else { next };
    let is_run = rest.is_empty() || rest.starts_with(" ... ");
    let is_skipped = result.split_once(" ... ").is_some_and(|(_, it)| it.starts_with("skipped"));
    is_run.then_some((Ran { name, whole, once: true }, is_skipped))
}

/// `1/2 Test #1: adds ......   Passed    0.01 sec`, and `***Failed` in place of `Passed`.
fn ctest(line: &str) -> Option<Ran<'_>> {
    let (count, rest) = line.trim_start().split_once(" Test")?;
    let (at, of) = count.split_once('/')?;
    let is_count = at.parse::<u32>().is_ok() && of.parse::<u32>().is_ok();
    let (number, rest) = rest.trim_start().strip_prefix('#')?.split_once(": ")?;
    let (name, state) = rest.rsplit_once("...")?;
    let (name, state) = (name.trim_end_matches('.').trim_end(), state.trim_start());
    let is_run = state.starts_with("Passed") || state.starts_with("***");
    let is_skipped = ["***Skipped", "***Not Run"].iter().any(|word| state.starts_with(word));
    let is_one = is_count && number.parse::<u32>().is_ok() && is_run && !is_skipped;
    (is_one && !name.is_empty()).then_some(Ran { name, whole: name, once: true })
}

/// `--- PASS: TestA (0.00s)`, as `-v` prints it. Subtests are indented.
fn go_test(line: &str) -> Option<Ran<'_>> {
    let rest = line.strip_prefix("--- ")?;
    let (state, rest) = rest.split_once(": ")?;
    let name = rest.split(' ').next()?;
    let is_one = matches!(state, "PASS" | "FAIL") && !name.contains('/');
    is_one.then_some(Ran { name, whole: name, once: false })
}

/// `ok 1 - adds`, `✔ adds (0.5ms)`, ` ✓ test/a.test.js > adds 5ms`, `  1) adds`.
fn javascript(line: &str) -> Option<Ran<'_>> {
    let line = line.trim_start();
    let rest = if let Some(rest) = line.strip_prefix("not ok ").or_else(|| line.strip_prefix("ok "))
    {
        let (number, rest) = rest.split_once(" - ")?;
        number.parse::<u64>().ok()?;
        rest
    } else if let Some(rest) = line.strip_prefix(RAN) {
        rest.strip_prefix(' ')?
    } else {
        let (number, rest) = line.split_once(") ")?;
        number.parse::<u64>().ok()?;
        rest
    };
    let rest = rest.trim();
    // A product can mark a test while it runs, and its failure then counts for nothing.
    let fails = line.starts_with("not ok ") || line.starts_with(FAILED);
    if rest.contains(" # SKIP") || fails && rest.contains(" # TODO") {
        return None;
    }
    let rest = rest.strip_suffix(" # TODO").unwrap_or(rest);
    let whole = without_time(rest);
    if is_file_with_count(whole) {
        return None;
    }
    Some(Ran { name: last(whole, " > "), whole, once: false })
}

/// Whether a line is that of a file and the number of its tests, as Vitest prints it where it names none:
/// `test/a.test.js (2 tests)`, `test/a.test.js (2 tests | 1 skipped)`.
fn is_file_with_count(line: &str) -> bool {
    let in_brackets = line.strip_suffix(')').and_then(|line| line.rsplit_once(" ("));
    in_brackets.is_some_and(|(file, counts)| {
        let first = counts.split(" | ").next().unwrap_or(counts);
        let number = first.strip_suffix(" tests").or_else(|| first.strip_suffix(" test"));
        number.is_some_and(|number| number.parse::<u64>().is_ok()) && file.contains('.')
    })
}

/// A line without the duration at its end: `adds (0.5ms)`, `adds (2 ms)`, `adds 5ms`.
fn without_time(line: &str) -> &str {
    let is_time = |text: &str| {
        let number = text.strip_suffix("ms").or_else(|| text.strip_suffix('s'));
        number.is_some_and(|number| number.trim().parse::<f64>().is_ok())
    };
    let in_brackets = line.strip_suffix(')').and_then(|line| line.rsplit_once(" ("));
    match in_brackets {
        Some((name, time)) if is_time(time) => return name,
        Some(_) | None => {}
    }
    match line.rsplit_once(' ') {
        Some((name, time)) if is_time(time) => name.trim_end(),
        Some(_) | None => line,
    }
}

/// `Tests run: 3, ..., Time elapsed: 0.05 s -- in com.example.ATest`: Maven names classes alone.
fn maven(line: &str) -> Option<Ran<'_>> {
    let (numbers, whole) = line.split_once("Time elapsed: ")?;
    let (_, whole) = whole.split_once(" in ")?;
    let (_, numbers) = numbers.split_once("Tests run: ")?;
    let number = |name: &str| {
        let (_, rest) = numbers.split_once(name)?;
        rest.split(',').next()?.trim().parse::<u64>().ok()
    };
    let all: u64 = numbers.split(',').next()?.trim().parse().ok()?;
    let ran = all > number("Skipped: ").unwrap_or_default();
    let whole = whole.trim();
    ran.then(|| Ran { name: last(last(whole, "."), "$"), whole, once: true })
}

/// `com.example.ATest > adds() PASSED`, as `--info` prints it: the class, as Maven names it.
fn gradle(line: &str) -> Option<Ran<'_>> {
    let (whole, rest) = line.trim().split_once(" > ")?;
    let state = rest.rsplit(' ').next()?;
    let is_class = !whole.contains(' ') && matches!(state, "PASSED" | "FAILED");
    is_class.then(|| Ran { name: last(last(whole, "."), "$"), whole, once: true })
}

/// `  Passed Example.ATests.Adds(a: 1) [5 ms]`.
fn dotnet(line: &str) -> Option<Ran<'_>> {
    let (state, rest) = line.trim_start().split_once(' ')?;
    let (test, time) = rest.rsplit_once(" [")?;
    let is_one = matches!(state, "Passed" | "Failed") && time.ends_with(']');
    let whole = test.split('(').next()?.trim();
    is_one.then(|| Ran { name: last(whole, "."), whole, once: true })
}

/// `  adds (FAILED - 1)`, below the lines of its groups.
fn rspec(line: &str) -> Option<Ran<'_>> {
    let rest = line.strip_prefix("  ")?.trim();
    if rest.is_empty() || rest.contains("(PENDING: ") {
        return None;
    }
    let name = rest.split(" (FAILED - ").next()?;
    Some(Ran { name, whole: name, once: false })
}

/// `##teamcity[testStarted name='testAdds with data set #0' ...]`. A skipped test is ignored in the next line.
fn phpunit<'l>(line: &'l str, next: &str) -> Option<Ran<'l>> {
    let (_, rest) = line.split_once("##teamcity[testStarted name='")?;
    let (test, rest) = rest.split_once('\'')?;
    let name = test.split(" with data set").next()?;
    let class = rest.split_once("locationHint='").and_then(|(_, hint)| hint.split('\'').next());
    let whole = class.map_or(name, |hint| hint.split(" with data set").next().unwrap_or(hint));
    (!next.contains("##teamcity[testIgnored ")).then_some(Ran { name, whole, once: true })
}
