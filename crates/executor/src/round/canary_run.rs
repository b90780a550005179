//! The runs of a canary: with the code of the round, and in doubt with that of the start.
//!
//! ```text
//!   V0 reports all                     -> the start is not asked
//!   V0 reports none of a file          -> its programs are heard, first without failing tests; so are those of the start
//!   the line holds at S0 all the same  -> what its programs report there counts
//!   a file without a report at S0      -> once more with as much of its text as loads there
//!   a narrowed line reports less at V0 -> the line itself decides whether it runs these files
//! ```

use super::Round;
use super::additions::ViewOrder;
use super::canary_memory::{Canary, Hearing, Hosts, Part, Ran, Reported};
use super::listening::{HeardPrograms, Listened};
use crate::tool::{ErrorCode, ToolError, ToolOutcome};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::canary::{
    MAX_HOSTS, Planted, facts_of, failed_lines, not_run, reported, reported_at_start,
};
use surety_common::domain::receipt::Inputs;
use surety_common::domain::tests_seen::{Runner, TestRun, count};
use surety_common::domain::verification::Probe;
use uuid::Uuid;

/// Options with which a line ends at the first failure, so that it says nothing of the tests behind it.
const AT_FIRST_FAILURE: &[&str] =
    &["--bail", "--exitfirst", "--fail-fast", "--failfast", "--maxfail", "-b", "-f", "-x"];

/// What runners say where they ended at a failure.
const AT_END: &[&str] = &["stopping after", "Bailed out"];

/// How much slower a line may be while its programs are heard, and the least time that it has.
const SLOWER: u32 = 4;
const AT_LEAST: Duration = Duration::from_secs(20);

/// What the runs of a canary reported so far.
struct Heard {
    reported: Reported,
    /// The last run.
    outcome: Option<ToolOutcome>,
    /// Why nothing can be said, where that is so.
    unknown: Option<String>,
}

/// A run of a canary.
struct Run<'r> {
    probe: &'r Probe,
    canary: &'r Canary,
    /// The line of the check.
    line: &'r str,
    /// The inputs of the run by which the check holds.
    base: Inputs,
    call_id: Uuid,
    /// Whether the programs of the line are heard by themselves.
    listens: bool,
    /// Whether only what the line itself prints counts as its report.
    passes_over: bool,
    heard: Heard,
}

impl Run<'_> {
    fn ended(self) -> ToolOutcome {
        let Heard { reported, outcome, unknown } = self.heard;
        let output = outcome.as_ref().map(|ran| ran.output.clone()).unwrap_or_default();
        if let Some(why) = unknown {
            return ToolOutcome { output, ..is_not_run(&why) };
        }
        let Some(ran) = outcome else { return is_not_run("nothing ran") };
        let (some, all) = (reported.by_line.len(), self.canary.tests.len());
        let summary =
            format!("{some} of {all} failing tests that were added were reported; {}", ran.summary);
        let facts = facts_of(&self.canary.tests, &reported.by_line, &reported.within);
        ToolOutcome { success: some == all, error_code: None, summary, facts, ..ran }
    }

    fn narrowed(&self) -> &str {
        self.canary.line.as_deref().unwrap_or(self.line)
    }
}

impl Round {
    /// Runs the canary with the code of the round.
    pub(super) async fn canary_now(
        self: &Arc<Self>,
        probe: &Probe,
        canary: &Canary,
        (line, base): (&str, Inputs),
        call_id: Uuid,
    ) -> Result<ToolOutcome, ToolError> {
        let mut run = run_of(probe, canary, (line, base), call_id);
        for part in &canary.parts {
            self.part_now(&mut run, part).await?;
        }
        let mut memory = self.memory();
        // What is not known of the code of the round is not asked of the start.
        if run.heard.unknown.is_some() {
            memory.canaries.remove(&probe.check_id);
        }
        memory.reported.insert(probe.check_id.clone(), run.heard.reported.clone());
        drop(memory);
        Ok(run.ended())
    }

    /// Runs a part with the code of the round, and once more with its programs heard where the line reports nothing of a file.
    async fn part_now(self: &Arc<Self>, run: &mut Run<'_>, part: &Part) -> Result<(), ToolError> {
        let (line, base) = (run.narrowed().to_owned(), run.base);
        let mut found = self.hear(run, base, (part.hosts(), &line)).await?;
        let holds = run.heard.outcome.as_ref().is_some_and(|ran| ran.success);
        // What a file reports in the line's own output is known: its other tests are silent.
        let is_silent = |(_, planted): &(PathBuf, Planted)| {
            !planted.tests.iter().any(|test| found.by_line.contains(test))
        };
        if part.hosts().iter().any(is_silent) && run.heard.unknown.is_none() {
            let hearing = self.hearing(run, &line).await?;
            if hearing != Hearing::Disturbs {
                run.listens = true;
                run.passes_over = hearing == Hearing::HoldsOverFailedTests;
                let heard = self.hear(run, base, (part.hosts(), &line)).await?;
                run.listens = false;
                // What did not end in time says nothing, and the run before says what it said.
                let is_known = run.heard.unknown.take().is_none();
                let ran = run.heard.outcome.as_ref();
                // A product may behave otherwise where nothing reads what it writes.
                if is_known && ran.is_some_and(|ran| ran.success == holds) {
                    // Without failing tests none of its programs fails, and with them these do: the line need not.
                    if hearing == Hearing::Undisturbed {
                        found.by_line.extend(heard.within.iter().cloned());
                    }
                    found.extend(heard);
                }
            }
        }
        // A part that is not asked further is known within as well.
        found.within.extend(found.by_line.iter().cloned());
        run.heard.reported.extend(found);
        Ok(())
    }

    /// How the line runs while its programs are heard, without failing tests; asked once for each check.
    async fn hearing(
        self: &Arc<Self>,
        run: &mut Run<'_>,
        line: &str,
    ) -> Result<Hearing, ToolError> {
        let key = &run.probe.check_id;
        let known = self.memory().hearing.get(key).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let (Listened { ran, said }, own) = self.without_failing(run, run.base, line).await?;
        let hearing = match (ran.success, said.trim_ascii().is_empty()) {
            (false, _) => Hearing::Disturbs,
            (true, false) if failed_tests(&own.runners, &said) > 0 => Hearing::HoldsOverFailedTests,
            (true, false) => Hearing::HoldsOverFailure,
            (true, true) => Hearing::Undisturbed,
        };
        let mut memory = self.memory();
        if hearing == Hearing::HoldsOverFailedTests {
            memory.passed_over.insert(key.clone(), failed_lines(&said));
        }
        memory.hearing.insert(key.clone(), hearing);
        drop(memory);
        Ok(hearing)
    }

    /// Whether the line passes over failed tests by what the product does: with the code of the start, where no other tests
    /// fail, it fails. A script that starts runners may want some to fail, and fail at the start by something else.
    async fn passes_over_by_product(self: &Arc<Self>, run: &Run<'_>) -> Result<bool, ToolError> {
        let line = run.narrowed();
        let (Listened { ran, said }, own) =
            match self.without_failing(run, Inputs::TestsAtStart, line).await {
                Ok(listened) => listened,
                // The start cannot be made again.
                Err(error) if error.code == ErrorCode::OutputNotKept => return Ok(false),
                Err(error) => return Err(error),
            };
        let now = self.memory().passed_over.get(&run.probe.check_id).cloned().unwrap_or_default();
        let is_by_tests = !ran.success && !ran.timed_out && failed_tests(&own.counted, &said) > 0;
        Ok(is_by_tests && failed_lines(&said).is_subset(&now))
    }

    /// Runs the line with these inputs and without failing tests, its programs heard. Answers how the check itself ran, too.
    async fn without_failing(
        self: &Arc<Self>,
        run: &Run<'_>,
        inputs: Inputs,
        line: &str,
    ) -> Result<(Listened, Ran), ToolError> {
        let own = self.memory().ran(run.probe, run.base);
        let own =
            own.ok_or_else(|| ToolError::new(ErrorCode::InternalError, "the check did not run"))?;
        let order = ViewOrder {
            time_limit: Some(own.took * SLOWER + AT_LEAST),
            ..ViewOrder::beside(run.probe, inputs)
        };
        let prepared = self.enter_view(&order, run.call_id).await?;
        let heard = (line, HeardPrograms::Failed);
        Ok((self.listen_in_view(prepared, heard, run.probe.owner).await?, own))
    }

    /// Runs it with the code of the start, for the tests that were not reported.
    pub(super) async fn canary_at_start(
        self: &Arc<Self>,
        probe: &Probe,
        canary: &Canary,
        (line, base): (&str, Inputs),
        call_id: Uuid,
    ) -> Result<ToolOutcome, ToolError> {
        let now = self.memory().reported.get(&probe.check_id).cloned().unwrap_or_default();
        let mut run = run_of(probe, canary, (line, base), call_id);
        let hearing = self.memory().hearing.get(&probe.check_id).copied();
        run.listens = hearing.is_some_and(|hearing| hearing != Hearing::Disturbs);
        run.passes_over = hearing == Some(Hearing::HoldsOverFailedTests)
            && !self.passes_over_by_product(&run).await?;
        for part in &canary.parts {
            match part {
                Part::OfRunners { .. } => self.runners_at_start(&mut run, part, &now).await?,
                Part::Own { .. } => self.own_at_start(&mut run, part, &now).await?,
            }
        }
        let Reported { by_line, within } = &run.heard.reported;
        if !by_line.is_empty() || !within.is_empty() {
            run.heard.unknown = None;
        }
        Ok(run.ended())
    }

    async fn runners_at_start(
        self: &Arc<Self>,
        run: &mut Run<'_>,
        part: &Part,
        now: &Reported,
    ) -> Result<(), ToolError> {
        let Part::OfRunners { hosts, as_loaded, is_by_file } = part else { return Ok(()) };
        let narrowed = run.narrowed().to_owned();
        let found = self.hear(run, Inputs::CanaryAtStart, (hosts, &narrowed)).await?;
        // Where the line holds all the same, it never says what its programs say.
        let is_line = !found.by_line.is_empty() || found.within.is_empty();
        let heard = |found: Reported| if is_line { found.by_line } else { found.within };
        let (mut failed, now) = (heard(found), if is_line { &now.by_line } else { &now.within });
        let is_in_doubt = |failed: &BTreeSet<String>| failed.iter().any(|test| !now.contains(test));
        let is_shorter = run.canary.line.as_ref().is_some_and(|line| line != run.line);
        let may_leave_out = is_shorter && *is_by_file && !ends_early(run.line);
        let mut mixed = Arc::clone(hosts);
        // Where nothing is left out later, one test in doubt is enough.
        let silent = match is_in_doubt(&failed) && !may_leave_out {
            true => Hosts::new(),
            false => silent_of((hosts, as_loaded), &failed, now),
        };
        if !silent.is_empty() {
            let of = |host| silent_host(&silent, host);
            mixed = Arc::new(hosts.iter().map(of).collect());
            let found = self.hear(run, Inputs::CanaryAtStart, (&mixed, &narrowed)).await?;
            let own: BTreeSet<&String> = Part::tests_of(&silent).collect();
            failed.extend(heard(found).into_iter().filter(|test| own.contains(test)));
        }
        if is_in_doubt(&failed) && may_leave_out {
            // The shorter line names files which the line itself may not look at.
            let line = run.line.to_owned();
            let found = self.hear(run, Inputs::CanaryAtStart, (&mixed, &line)).await?;
            let ended = run.heard.outcome.as_ref().is_some_and(|ran| is_ended(&ran.output));
            let is_heard =
                |test: &String| found.by_line.contains(test) || found.within.contains(test);
            let runs = |tests: &[String]| ended || tests.iter().any(is_heard);
            let left_out = hosts.iter().filter(|(_, planted)| !runs(&planted.tests));
            for test in left_out.flat_map(|(_, planted)| &planted.tests) {
                failed.remove(test);
            }
        }
        // Settings are those of the start in both, so one that ends at a failure there ended in the round as well. The line
        // alone does not say so: `-x` and `-f` mean something else to a shell and to make.
        let ended = run.heard.outcome.as_ref().is_some_and(|ran| is_ended(&ran.output));
        if ended && !now.is_empty() {
            // With the code of the round it ended at these, and what is behind them was not asked.
            failed.retain(|test| now.contains(test));
        }
        let reported = match is_line {
            true => Reported { by_line: failed, ..Reported::default() },
            false => Reported { within: failed, ..Reported::default() },
        };
        run.heard.reported.extend(reported);
        Ok(())
    }

    async fn own_at_start(
        self: &Arc<Self>,
        run: &mut Run<'_>,
        part: &Part,
        reported: &Reported,
    ) -> Result<(), ToolError> {
        let Part::Own { path, at_ends, in_front, late, is_all } = part else { return Ok(()) };
        let own: Vec<&String> = Part::tests_of(at_ends).collect();
        // What it reports and the line passes over is no doubt about the program.
        if own.iter().all(|test| reported.has(test)) {
            return Ok(());
        }
        let now = &reported.by_line;
        if self.may_be_ended(run.probe, path).await? {
            let why = "the product ends programs at the start, and so may end the test";
            run.heard.unknown.get_or_insert(why.to_owned());
            return Ok(());
        }
        let is_ended = own.first().is_some_and(|test| !now.contains(*test));
        let hosts = match late {
            Some(late) if !is_ended => late,
            Some(_) | None => in_front,
        };
        // Beside other commands the line may fail at the start by these. With the code of the round it holds.
        let inputs = if *is_all || !is_ended { Inputs::CanaryAtStart } else { run.base };
        let line = run.line.to_owned();
        let Reported { mut by_line, within } = self.hear(run, inputs, (hosts, &line)).await?;
        // The program says it itself, whatever the line makes of it.
        by_line.extend(within);
        run.heard.reported.by_line.extend(by_line);
        Ok(())
    }

    /// The failing tests that a line reports, and its programs.
    async fn hear(
        self: &Arc<Self>,
        run: &mut Run<'_>,
        inputs: Inputs,
        (hosts, line): (&Arc<Hosts>, &str),
    ) -> Result<Reported, ToolError> {
        let order =
            ViewOrder { canary: Some(Arc::clone(hosts)), ..ViewOrder::beside(run.probe, inputs) };
        let prepared = match self.enter_view(&order, run.call_id).await {
            Ok(prepared) => prepared,
            // The start cannot be made again.
            Err(error) if inputs.is_at_start() && error.code == ErrorCode::OutputNotKept => {
                run.heard.unknown = Some(error.message);
                return Ok(Reported::default());
            }
            Err(error) => return Err(error),
        };
        let owner = run.probe.owner;
        let (mut ran, said) = if run.listens {
            let heard = (line, HeardPrograms::Failed);
            let Listened { ran, said } = self.listen_in_view(prepared, heard, owner).await?;
            (ran, said)
        } else {
            (self.run_in_view(prepared, line, owner).await?, Vec::new())
        };
        let named = |output: &[u8]| {
            let tests = Part::tests_of(hosts).map(String::as_str);
            let found = match inputs.is_at_start() {
                true => reported_at_start(output, tests),
                false => reported(output, tests),
            };
            found.into_iter().map(str::to_owned).collect()
        };
        let mut found = Reported { within: named(&said), ..Reported::default() };
        if run.passes_over && !ran.success {
            found.by_line = named(&ran.output);
        }
        ran.output.extend_from_slice(&said);
        if ran.timed_out {
            run.heard.unknown = Some("the line did not end in time".to_owned());
            found = Reported::default();
        } else if !ran.success && !run.passes_over {
            found.by_line = named(&ran.output);
        }
        run.heard.outcome = Some(ran);
        Ok(found)
    }
}

/// Whether a line says that it ends at the first failure.
fn ends_early(line: &str) -> bool {
    line.split_whitespace().any(|word| {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        // Options of one letter may stand in one word.
        let is_cluster = word.strip_prefix('-').is_some_and(|letters| {
            letters.chars().all(|letter| "bcflqsvx".contains(letter))
                && letters.contains(['f', 'x'])
        });
        is_cluster || AT_FIRST_FAILURE.contains(&name)
    })
}

/// Whether a runner says that it left tests out behind a failure.
fn is_ended(output: &[u8]) -> bool {
    let text = String::from_utf8_lossy(output);
    AT_END.iter().any(|mark| text.contains(mark))
}

/// The files with as much of their text as loads, of those that reported nothing at the start.
fn silent_of(
    (hosts, as_loaded): (&Hosts, &Hosts),
    failed: &BTreeSet<String>,
    now: &BTreeSet<String>,
) -> Hosts {
    let any =
        |tests: &[String], known: &BTreeSet<String>| tests.iter().any(|it| known.contains(it));
    let (first, _) = hosts.split_at(hosts.len().min(MAX_HOSTS));
    // A line that reports nothing of a folder may not look at it.
    let is_asked = |path: &Path| {
        let is_near = |(other, planted): &(PathBuf, Planted)| {
            other.parent() == path.parent() && any(&planted.tests, now)
        };
        first.iter().any(|(it, _)| it == path) || hosts.iter().any(is_near)
    };
    // What does not load at the start says nothing there of its runner.
    let is_silent = |(path, planted): &&(PathBuf, Planted)| {
        let all = planted.tests.iter().all(|test| now.contains(test));
        !any(&planted.tests, failed) && !all && is_asked(path)
    };
    as_loaded.iter().filter(is_silent).cloned().collect()
}

/// A file as it is asked again.
fn silent_host(silent: &Hosts, host: &(PathBuf, Planted)) -> (PathBuf, Planted) {
    silent.iter().find(|it| it.0 == host.0).unwrap_or(host).clone()
}

fn run_of<'r>(
    probe: &'r Probe,
    canary: &'r Canary,
    (line, base): (&'r str, Inputs),
    call_id: Uuid,
) -> Run<'r> {
    let heard = Heard { reported: Reported::default(), outcome: None, unknown: None };
    Run { probe, canary, line, base, call_id, listens: false, passes_over: false, heard }
}

/// How many tests these runners say that failed.
fn failed_tests(runners: &[Runner], said: &[u8]) -> u64 {
    let run = TestRun { runners: runners.to_vec(), may_be_silent: true, ..TestRun::default() };
    count(&run, said).map_or(0, |counts| counts.failed)
}

pub(super) fn is_not_run(why: &str) -> ToolOutcome {
    let summary = format!("the canary is not run: {why}");
    ToolOutcome { success: false, ..ToolOutcome::done(summary, Vec::new(), vec![not_run(why)]) }
}
