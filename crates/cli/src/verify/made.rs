//! Makes a verdict file from what a verification found.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};
use surety_acceptgate::remedy::remedies;
use surety_common::domain::check::{AcceptCheck, check_key};
use surety_common::domain::manifest::IgnoreRules;
use surety_common::domain::receipt::Fact;
use surety_common::domain::verdict::CheckResult;
use surety_common::domain::verification::{Observation, PROJECT_TESTS_CHECK, UNNAMED_HIDDEN_CHECK};
use surety_executor::round::CarriedOut;

use super::file::{
    Approved, Caution, Changed, Checked, FORM, Origin, PlanSource, PreparedBy, Probed, Ran,
    Receipts, Recorded, Tests, VerdictFile,
};
use super::plan::VerifyPlan;
use super::round::Judged;

/// Lines of output that are kept of each check, and the longest one in characters.
const LAST_LINES: usize = 20;
const LONGEST_LINE: usize = 400;

/// What a verdict is about.
#[derive(Debug)]
pub struct Subject<'s> {
    /// The workspace.
    pub root: &'s Path,
    /// Its ignore rules.
    pub rules: &'s Arc<IgnoreRules>,
    /// What it was compared with.
    pub origin: Origin,
    /// The command that ran before.
    pub command: Option<Ran>,
}

impl VerdictFile {
    /// The file for a verdict.
    #[must_use]
    pub fn of(
        plan: &VerifyPlan,
        subject: Subject<'_>,
        judged: &Judged,
        decided_at: DateTime<Utc>,
    ) -> Self {
        let Judged { verdict, digest, carried, chain, changed, .. } = judged;
        let approvals = verdict.approvals.iter();
        let approvals = approvals
            .map(|approval| Approved { by: approval.by.clone(), digest: approval.digest.clone() });
        let own = verdict.cautions.iter().map(|caution| Caution {
            code: caution.code.clone(),
            check: caution.check.clone(),
            detail: caution.detail.clone(),
        });
        let receipts = chain.receipts();
        Self {
            form: FORM.to_owned(),
            surety: env!("CARGO_PKG_VERSION").to_owned(),
            decided_at: decided_at.to_rfc3339_opts(SecondsFormat::Millis, true),
            accepted: verdict.accepted,
            stop_reason: verdict.stop_reason.as_str().to_owned(),
            needed: remedies(verdict, &plan.plan.verify, chain.receipts()),
            strength: verdict.strength.as_str().to_owned(),
            round: verdict.round,
            title: plan.plan.title.clone(),
            plan: PlanSource {
                path: plan.path.to_string_lossy().into_owned(),
                digest: plan.digest.clone(),
            },
            workspace: Recorded::new(subject.root, digest.clone(), subject.rules),
            start: subject.origin,
            command: subject.command,
            changed: Changed {
                count: changed.count as u64,
                paths: changed.listed.iter().map(|(_, path)| path.clone()).collect(),
            },
            prepared: prepared(carried),
            results: results(&plan.plan.verify, &verdict.results, carried),
            cautions: own.collect(),
            approvals: approvals.collect(),
            signature: None,
            receipts: Receipts {
                count: receipts.len() as u64,
                chain_digest: receipts.last().map_or_else(String::new, |last| last.digest.clone()),
            },
        }
    }
}

impl VerdictFile {
    /// What the author of the work may read: no hidden check is named, because its name can say what it examines.
    #[must_use]
    pub fn for_participant(mut self) -> Self {
        let mut names = BTreeSet::new();
        for result in self.results.iter_mut().filter(|result| result.hidden) {
            names.insert(std::mem::replace(&mut result.name, UNNAMED_HIDDEN_CHECK.to_owned()));
            result.probe = None;
        }
        for caution in self.cautions.iter_mut().filter(|it| names.contains(&it.check)) {
            UNNAMED_HIDDEN_CHECK.clone_into(&mut caution.check);
        }
        self.signature = None;
        self
    }
}

/// The lines that prepared the views.
fn prepared(carried: &[CarriedOut]) -> Vec<PreparedBy> {
    let of = |run: &CarriedOut| match &run.probe.observation {
        Observation::Prepare(line) => {
            let (line, passed) = (line.clone(), run.outcome.success);
            Some(PreparedBy { line, passed, probe: probed(run) })
        }
        Observation::Command(_)
        | Observation::Verification(_)
        | Observation::ProjectTests
        | Observation::Change(_)
        | Observation::File { .. }
        | Observation::Content { .. } => None,
    };
    carried.iter().filter_map(of).collect()
}

/// The results with what they are about: those of the checks are the last ones, in the order of the plan.
fn results(
    checks: &[AcceptCheck],
    results: &[CheckResult],
    carried: &[CarriedOut],
) -> Vec<Checked> {
    let rules = results.len().saturating_sub(checks.len());
    let about = |(place, result): (usize, &CheckResult)| {
        let index = place.checked_sub(rules);
        let check = index.and_then(|index| checks.get(index));
        let key = match index {
            Some(index) => check_key(checks, index),
            None => result.name.clone(),
        };
        let is_probed = check.is_some() || result.name == PROJECT_TESTS_CHECK;
        // Of several runs with other check inputs, one that agrees with the result says why.
        let of_check = |run: &&CarriedOut| {
            is_probed && run.probe.check_id == key && !run.inputs.is_about_runner()
        };
        let mut runs = carried.iter().filter(of_check);
        let agrees = |run: &&CarriedOut| run.outcome.success == result.passed;
        let probe = runs.clone().find(agrees).or_else(|| runs.next_back());
        let is_hidden = check.is_some_and(AcceptCheck::is_hidden);
        Checked {
            name: result.name.clone(),
            passed: result.passed,
            optional: result.optional,
            reason: result.reason.clone(),
            kind: check.map(|check| check.kind.as_str().to_owned()),
            owner: check.map(|check| check.owner.as_str().to_owned()),
            target: check.filter(|_| !is_hidden).map(|check| check.target.clone()),
            hidden: is_hidden,
            probe: probe.map(|run| if is_hidden { concealed(probed(run)) } else { probed(run) }),
        }
    };
    results.iter().enumerate().map(about).collect()
}

/// What the file says of a hidden check: a participant may read it.
fn concealed(probed: Probed) -> Probed {
    let summary = "hidden check".to_owned();
    Probed { summary, exit_code: None, last_lines: Vec::new(), tests: Vec::new(), ..probed }
}

fn probed(carried: &CarriedOut) -> Probed {
    let outcome = &carried.outcome;
    let exit_code = outcome.facts.iter().rev().find_map(|fact| match fact {
        Fact::Command { exit_code, .. } => Some(*exit_code),
        Fact::FileWritten { .. }
        | Fact::FileObserved { .. }
        | Fact::Content { .. }
        | Fact::Verification { .. }
        | Fact::Tests { .. }
        | Fact::Output { .. } => None,
    });
    let tests = outcome.facts.iter().filter_map(|fact| match fact {
        Fact::Tests { runner, counts } => Some(Tests {
            runner: runner.clone(),
            ran: counts.ran,
            failed: counts.failed,
            skipped: counts.skipped,
            missing: counts.missing,
        }),
        Fact::FileWritten { .. }
        | Fact::FileObserved { .. }
        | Fact::Command { .. }
        | Fact::Content { .. }
        | Fact::Verification { .. }
        | Fact::Output { .. } => None,
    });
    let took = carried.finished_at - carried.started_at;
    Probed {
        summary: outcome.summary.clone(),
        exit_code,
        duration_ms: u64::try_from(took.num_milliseconds()).unwrap_or_default(),
        sandbox: outcome.sandbox.clone(),
        last_lines: last_lines(&outcome.output),
        tests: tests.collect(),
    }
}

fn last_lines(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(LAST_LINES);
    let kept = lines.into_iter().skip(skipped);
    kept.map(|line| line.chars().take(LONGEST_LINE).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_output_is_kept() {
        let output: String = (0..30).map(|number| format!("{number}\n")).collect();
        let kept = last_lines(output.as_bytes());
        assert_eq!((kept.len(), kept.last().map(String::as_str)), (LAST_LINES, Some("29")));
        assert_eq!(last_lines("é".repeat(500).as_bytes())[0].chars().count(), LONGEST_LINE);
    }
}
