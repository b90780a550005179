//! The tests of the start that a check no longer runs.
//!
//! ```text
//!   the check holds -> do its test files spell more tests than ran?
//!     no  -> in order
//!     yes -> the same line with the workspace of the start: which tests does it name there?
//!   the line sends the output of its runners elsewhere -> they are heard by themselves, in both
//! ```

use super::Round;
use super::additions::ViewOrder;
use super::canary_memory::{Ran, base_of};
use super::listening::{HeardPrograms, Listened};
use super::opening::Put;
use super::own_harness::Own;
use super::tests_seen::add_counts;
use crate::blocking::blocking;
use crate::tool::{ErrorCode, RelPath, ToolError, ToolOutcome};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::check_inputs::{
    InputKind, convention_of, facts_of_compared, not_made, overwrites,
};
use surety_common::domain::receipt::{Fact, Inputs};
use surety_common::domain::run::CanaryPolicy;
use surety_common::domain::tests_named::{
    Literals, Names, Naming, facts_of_gone, language_of_names, literals, names, naming, selected,
};
use surety_common::domain::tests_seen::{Runner, TestRun, count};
use surety_common::domain::verification::Probe;
use uuid::Uuid;

/// The largest source that is read again, in bytes.
const MAX_SOURCE: u64 = 512 << 10;

impl Round {
    /// Adds what the runners of a command reported to its facts, and remembers it.
    pub(super) async fn note_tests(
        self: &Arc<Self>,
        probe: &Probe,
        inputs: Inputs,
        (took, runs): (Duration, Vec<TestRun>),
        outcome: &mut ToolOutcome,
    ) -> Result<(), ToolError> {
        let of = |in_scripts: &dyn Fn(bool) -> bool| -> Vec<Runner> {
            let found = runs.iter().filter(|run| in_scripts(run.in_scripts));
            let found: BTreeSet<Runner> = found.flat_map(|run| run.runners.clone()).collect();
            found.into_iter().collect()
        };
        let (all, runners) = (of(&|_| true), of(&|in_scripts| !in_scripts));
        let searching = runs.iter().flat_map(|run| run.searching.clone()).collect();
        let started = runs.iter().flat_map(|run| run.started.clone()).collect();
        let sends_elsewhere = runs.iter().any(|run| run.is_elsewhere && !run.in_scripts);
        let ran = add_counts(outcome, runs);
        let named = names(&runners, &outcome.output);
        let decides = matches!(inputs, Inputs::Original | Inputs::OriginalWithIgnored);
        let is_elsewhere = sends_elsewhere && ran.is_none() && named.is_empty();
        let mut lacks_tests = false;
        // Where none ran, that refuses already.
        let some_ran = !runners.is_empty() && ran != Some(0);
        if decides && outcome.success && some_ran && self.opening()?.touched {
            let spelled = self.spelled(probe, &runners).await?;
            lacks_tests = match is_elsewhere {
                true => !spelled.is_empty(),
                false => lacks(&spelled, &named, ran) || skipped_some(outcome, &spelled, &named),
            };
        }
        let original = (inputs == Inputs::AsLeft)
            .then(|| self.memory().ran(probe, Inputs::Original).map(|ran| ran.names))
            .flatten();
        if let Some(original) = original.filter(|_| outcome.success && !named.is_empty()) {
            let spelled = self.spelled(probe, &runners).await?;
            outcome.facts.extend(facts_of_gone(&original.gone(&named, &spelled)));
        }
        let overwrites = decides && outcome.success && overwrites(&outcome.facts);
        let asks = !matches!(self.setup.additions.canary, CanaryPolicy::Never);
        let is_own = runners.is_empty() && inputs == Inputs::Original && asks;
        let is_always = matches!(self.setup.additions.canary, CanaryPolicy::Always);
        let is_due = is_always || self.opening()?.loadable;
        let Own { harnesses, unseen } = if is_own && outcome.success && is_due {
            match not_made(&String::from_utf8_lossy(&outcome.output)) {
                Some(why) => Own { harnesses: Vec::new(), unseen: Some(why) },
                None => self.own_harnesses(probe, took, &all).await?,
            }
        } else {
            Own::default()
        };
        let ran = Ran {
            took,
            runners: all,
            counted: runners,
            searching,
            started,
            names: named,
            lacks_tests,
            is_elsewhere,
            harnesses,
            unseen,
            overwrites,
        };
        self.memory().runs.insert((probe.check_id.clone(), inputs), ran);
        Ok(())
    }

    /// The run that tells which tests the line runs at the start, where it is due after these runs of a check.
    pub(super) fn next_tests(&self, probe: &Probe, so_far: &[(Inputs, bool)]) -> Option<Inputs> {
        let ran = self.memory().ran(probe, base_of(so_far)?)?;
        let is_first = so_far.iter().all(|(inputs, _)| *inputs != Inputs::TestsAtStart);
        (is_first && (ran.lacks_tests || ran.overwrites)).then_some(Inputs::TestsAtStart)
    }

    /// Runs the line of a check with the workspace of the start: for the tests that ran there alone, and for the check
    /// inputs that it wrote there too.
    pub(super) async fn run_tests_at_start(
        self: &Arc<Self>,
        probe: &Probe,
        base: Inputs,
        call_id: Uuid,
    ) -> Result<ToolOutcome, ToolError> {
        let ran = self.memory().ran(probe, base);
        let overwrites = ran.as_ref().is_some_and(|ran| ran.overwrites);
        let written =
            if overwrites { self.overwritten_at_start(probe, call_id).await? } else { Vec::new() };
        let outcome = if ran.is_none_or(|ran| ran.lacks_tests) {
            self.compare_tests(probe, base, call_id).await?
        } else {
            let summary = "compared the check inputs that the line writes with those at the start";
            ToolOutcome::done(summary, Vec::new(), Vec::new())
        };
        let facts = outcome.facts.iter().cloned().chain(written).collect();
        Ok(ToolOutcome { facts, ..outcome })
    }

    /// The facts about check inputs that the line writes with the workspace of the start; none where that cannot be
    /// made again.
    async fn overwritten_at_start(
        self: &Arc<Self>,
        probe: &Probe,
        call_id: Uuid,
    ) -> Result<Vec<Fact>, ToolError> {
        let line = self.line_of(probe).await?;
        self.read_start_files().await?;
        if self.prepare_start(call_id).await.is_err() {
            return Ok(Vec::new());
        }
        let order = ViewOrder::beside(probe, Inputs::TestsAtStart);
        match self.enter_view(&order, call_id).await {
            Ok(prepared) => {
                let ran = self.run_in_view(prepared, &line, probe.owner).await?;
                Ok(facts_of_compared(ran.facts))
            }
            Err(error) if error.code == ErrorCode::OutputNotKept => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Runs the line of a check with the workspace of the start, and names the tests that ran there alone.
    async fn compare_tests(
        self: &Arc<Self>,
        probe: &Probe,
        base: Inputs,
        call_id: Uuid,
    ) -> Result<ToolOutcome, ToolError> {
        let Some(ran) = self.memory().ran(probe, base) else {
            return Ok(not_compared("the check did not run"));
        };
        let line = self.line_of(probe).await?;
        let order = ViewOrder::beside(probe, base);
        let only = self.only_command(&line, &order).await?;
        // Of several commands the runner cannot be asked by the line, so its programs are heard by themselves.
        let named = naming_of(&line, only.as_deref(), &ran.counted).filter(|_| !ran.is_elsewhere);
        let hears = named.is_none();
        // Another line may name them in another way, so only its own output is compared with it.
        let is_other_line = named.as_ref().is_some_and(|naming| naming.line != line);
        let naming = named.unwrap_or_else(|| Naming::heard(line));
        self.read_start_files().await?;
        if let Err(error) = self.prepare_start(call_id).await {
            return Ok(not_compared(&error.message));
        }
        let start = ViewOrder::beside(probe, Inputs::TestsAtStart);
        let outcome = match self.run_naming(start, (&naming, hears), call_id).await {
            Ok(outcome) => outcome,
            // The start cannot be made again.
            Err(error) if error.code == ErrorCode::OutputNotKept => {
                return Ok(not_compared(&error.message));
            }
            Err(error) => return Err(error),
        };
        let before = names(&ran.counted, &outcome.output);
        let (mut later, mut ran_now) = (ran.names.clone(), None);
        if is_other_line || later.is_empty() && (!before.is_empty() || hears) {
            let now = self.run_naming(order, (&naming, hears), call_id).await?;
            later = names(&ran.counted, &now.output);
            ran_now = Some(counted(&ran.counted, &now.output));
        }
        if hears && ran_now == Some(0) && counted(&ran.counted, &outcome.output) > 0 {
            let spelled = self.spelled(probe, &ran.counted).await?;
            return Ok(with_gone(outcome, &spelled.names()));
        }
        if before.is_empty() || later.is_empty() {
            let why = not_compared("its runner names no tests");
            return Ok(ToolOutcome { output: outcome.output, sandbox: outcome.sandbox, ..why });
        }
        let spelled = self.spelled(probe, &ran.counted).await?;
        let mut gone = before.gone(&later, &spelled);
        // One that did not load at the start is skipped by its file or its helpers, or by the product.
        let anew = later.skipped_anew(&before, &spelled);
        gone.extend(self.skipped_elsewhere(probe, &ran.counted, anew).await?);
        Ok(with_gone(outcome, &gone))
    }

    /// Of these tests those whose files, and whose helpers, say nothing of skipping.
    async fn skipped_elsewhere<'t>(
        self: &Arc<Self>,
        probe: &Probe,
        runners: &[Runner],
        mut tests: Vec<&'t str>,
    ) -> Result<Vec<&'t str>, ToolError> {
        if tests.is_empty() {
            return Ok(tests);
        }
        let languages: BTreeSet<_> =
            runners.iter().filter_map(|runner| language_of_names(*runner)).collect();
        let (round, overlay) = (Arc::clone(self), probe.overlay.clone());
        let skipping = blocking(move || {
            let workspace = round.setup.folder.workspace()?;
            let mut files = round.test_files(&workspace, &overlay, &languages)?;
            files.retain(|(path, text)| {
                convention_of(path) == Some(InputKind::Test)
                    && text.to_ascii_lowercase().contains("skip")
            });
            let found = files.iter().map(|(path, text)| literals(path, text));
            Ok::<Vec<Literals>, ToolError>(found.collect())
        })
        .await??;
        let is_helper = skipping.iter().any(Literals::is_empty);
        tests.retain(|test| !is_helper && !skipping.iter().any(|spelled| spelled.has(test)));
        Ok(tests)
    }

    async fn run_naming(
        self: &Arc<Self>,
        order: ViewOrder,
        (naming, hears): (&Naming, bool),
        call_id: Uuid,
    ) -> Result<ToolOutcome, ToolError> {
        let mut prepared = self.enter_view(&order, call_id).await?;
        let added = naming.environment.iter();
        let added: BTreeMap<String, String> =
            added.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let environment = prepared.context.environment.with(&added)?;
        prepared.context.environment = Arc::new(environment);
        if !hears {
            return self.run_in_view(prepared, &naming.line, order.owner).await;
        }
        let line = (naming.line.as_str(), HeardPrograms::All);
        let Listened { ran, said } = self.listen_in_view(prepared, line, order.owner).await?;
        Ok(ToolOutcome { output: said, ..ran })
    }

    /// The tests that the test files of a check's view spell.
    async fn spelled(
        self: &Arc<Self>,
        probe: &Probe,
        runners: &[Runner],
    ) -> Result<Literals, ToolError> {
        let languages: BTreeSet<_> =
            runners.iter().filter_map(|runner| language_of_names(*runner)).collect();
        let (round, overlay) = (Arc::clone(self), probe.overlay.clone());
        let line = self.line_of(probe).await?;
        blocking(move || {
            let workspace = round.setup.folder.workspace()?;
            let files = round.test_files(&workspace, &overlay, &languages)?;
            let mut spelled = Literals::default();
            for (path, text) in selected(&line, &files) {
                let mut own = literals(path, text);
                // Tests inside a source go with it.
                if convention_of(path) != Some(InputKind::Test) && !own.is_empty() {
                    let merged = round.merged().find(|(merged, _)| *merged == Path::new(path));
                    let merged = merged.and_then(|(path, merged)| match &merged.put {
                        Put::Text(text) => Some(text.clone()),
                        Put::Original => {
                            let given = round.originals.get()?;
                            given.originals.text(path.as_os_str().as_bytes()).map(str::to_owned)
                        }
                        Put::Nothing | Put::Unknown => None,
                    });
                    let now = merged.or_else(|| {
                        let place = RelPath::root().join(OsStr::from_bytes(path.as_bytes()));
                        String::from_utf8(workspace.read(&place, MAX_SOURCE).ok()?).ok()
                    });
                    own = own.within(&literals(path, &now.unwrap_or_default()));
                }
                spelled.extend(own);
            }
            Ok(spelled)
        })
        .await?
    }
}

/// Whether a runner that names no tests skipped some: more may have run beside these than files spell.
fn skipped_some(outcome: &ToolOutcome, spelled: &Literals, named: &Names) -> bool {
    let skips = |fact: &Fact| matches!(fact, Fact::Tests { counts, .. } if counts.skipped > 0);
    !spelled.is_empty() && named.is_empty() && outcome.facts.iter().any(skips)
}

/// Whether fewer tests ran than files spell. What a runner does not say is no doubt.
fn lacks(spelled: &Literals, named: &Names, ran: Option<u64>) -> bool {
    if spelled.is_empty() {
        return false;
    }
    if !named.is_empty() {
        return named.lack(spelled);
    }
    let count = u64::try_from(spelled.count()).unwrap_or(u64::MAX);
    ran.is_some_and(|ran| ran < count || spelled.is_made())
}

/// The line with which these runners name their tests; of several runners only where they do so by themselves.
fn naming_of(line: &str, only: Option<&str>, runners: &[Runner]) -> Option<Naming> {
    if let [runner] = runners {
        return naming(line, *runner).or_else(|| naming(only?, *runner));
    }
    let all: Option<Vec<Naming>> =
        runners.iter().map(|runner| naming(line, *runner).filter(|it| it.line == line)).collect();
    let environment = all?.into_iter().flat_map(|naming| naming.environment).collect();
    Some(Naming { line: line.to_owned(), environment })
}

/// How many tests these runners say that they ran.
fn counted(runners: &[Runner], output: &[u8]) -> u64 {
    let run = TestRun { runners: runners.to_vec(), may_be_silent: true, ..TestRun::default() };
    count(&run, output).map_or(0, |counts| counts.ran)
}

fn with_gone(outcome: ToolOutcome, gone: &[&str]) -> ToolOutcome {
    let summary = format!("{} tests that ran at the start did not run", gone.len());
    let (success, facts) = (gone.is_empty(), facts_of_gone(gone));
    ToolOutcome { success, error_code: None, summary, facts, ..outcome }
}

fn not_compared(why: &str) -> ToolOutcome {
    let summary = format!("the tests are not compared with those of the start: {why}");
    ToolOutcome::done(summary, Vec::new(), Vec::new())
}
