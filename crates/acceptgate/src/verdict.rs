//! The verdict: todos first, then every check, then one result.
//!
//! ```text
//!   required todo failed      -> required_todo_failed   \
//!   required todo still open  -> todo_not_converged      > the first that applies
//!   required check not held   -> accept_check_failed    /
//!   none of them              -> accepted
//! ```

use crate::check::expression::{self, Allowance, FactList};
use crate::check::{Answer, Shortage};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use surety_common::domain::check::{
    self, AcceptCheck, CheckKind, Evidence, Match, Owner, Reason, is_thin, strength_of,
};
use surety_common::domain::receipt::EvidenceReceipt;
use surety_common::domain::stop::StopReason;
use surety_common::domain::todo::{Todo, TodoStatus};
use surety_common::domain::verdict::{Caution, CheckResult, Strength, Verdict};
use surety_common::domain::verification::{
    PROJECT_TESTS_CHECK, ProjectTests, WORKSPACE_CHANGED, WORKSPACE_CHECK, is_probed, probed,
    probed_first,
};

mod evaluation;
mod runs;

pub use evaluation::Evaluation;

/// The param of `expression` and `tool_fact` that names whose facts count, and its only value.
const SOURCE: &str = "source";
const ANY: &str = "any";
/// The result of the rule `require_independent`.
const INDEPENDENT: &str = "system.independent";
/// The caution about a check that cannot fail.
const THIN_CHECK: &str = "thin_check";
/// The reason of a command check whose command could not be started; the cause follows it.
const NOT_STARTED: &str = "command_not_started";

/// Decides. The same input gives the same verdict, except when an `expression` uses about as much
/// processor time as its limit. Blocks the calling thread, usually for microseconds, at most for
/// the time limit of each `expression`.
///
/// # Errors
/// [`Shortage`] when the gate had no capacity for a check; then there is no verdict.
pub fn evaluate(input: &Evaluation<'_>) -> Result<Verdict, Shortage> {
    evaluate_within(input, Allowance::default())
}

/// As [`evaluate`], with other limits for each `expression`.
///
/// # Errors
/// Those of [`evaluate`].
pub fn evaluate_within(input: &Evaluation<'_>, allowance: Allowance) -> Result<Verdict, Shortage> {
    let evidence = Evidence::new(input.workspace_root, input.receipts, input.final_text);
    let failed = todo_result(input, "system.todo_failed", is_failed);
    let open = todo_result(input, "system.todo_unconverged", is_open);
    let strength = strength_of(input.checks);
    let mut cautions = cautions(input.checks);
    let mut checks: Vec<CheckResult> = project_tests(input, &mut cautions).into_iter().collect();
    if input.require_independent {
        checks.push(independent(strength));
    }
    checks.extend(workspace_changed(input));
    checks.extend(check_results(input, &evidence, allowance, &mut cautions)?);
    cautions.extend(judge_tests(input, &mut checks));
    let stop_reason = if !failed.passed {
        StopReason::RequiredTodoFailed
    } else if !open.passed {
        StopReason::TodoNotConverged
    } else if checks.iter().any(|check| !check.passed && !check.optional) {
        StopReason::AcceptCheckFailed
    } else {
        StopReason::Accepted
    };
    let mut results = vec![failed, open];
    results.extend(checks);
    Ok(Verdict {
        accepted: stop_reason == StopReason::Accepted,
        stop_reason,
        results,
        strength,
        round: input.round.unwrap_or_default(),
        cautions,
    })
}

/// Required where it is there: a driver that names no command is held to the project's own tests.
fn project_tests(input: &Evaluation<'_>, cautions: &mut Vec<Caution>) -> Option<CheckResult> {
    let result = input.project_tests?.result()?;
    let of_receipt = |own: &[EvidenceReceipt]| {
        own.last().and_then(|last| ProjectTests::of_receipt(last).result()).unwrap_or(result)
    };
    let ruled = runs::rule_over(input, PROJECT_TESTS_CHECK, of_receipt);
    let reason = match ruled {
        Some((answer, noted)) => {
            cautions.extend(runs::cautions(PROJECT_TESTS_CHECK, noted));
            answer
        }
        None => result.err().map_or(String::new(), |reason| reason.as_str().to_owned()),
    };
    Some(CheckResult {
        name: PROJECT_TESTS_CHECK.to_owned(),
        passed: reason.is_empty(),
        reason,
        optional: false,
    })
}

/// The result of a round during which the workspace changed: it is about no one state.
fn workspace_changed(input: &Evaluation<'_>) -> Option<CheckResult> {
    let own = probed(input.receipts, input.round?, Some(WORKSPACE_CHECK));
    own.last().filter(|receipt| !receipt.success).map(|_| CheckResult {
        name: WORKSPACE_CHECK.to_owned(),
        passed: false,
        reason: WORKSPACE_CHANGED.to_owned(),
        optional: false,
    })
}

/// The result of the rule that the author of the plan may not be the only one who sets checks.
fn independent(strength: Strength) -> CheckResult {
    let passed = strength == Strength::Independent;
    CheckResult {
        name: INDEPENDENT.to_owned(),
        passed,
        reason: if passed { String::new() } else { strength.as_str().to_owned() },
        optional: false,
    }
}

/// What the checks themselves give a reader to know.
fn cautions(checks: &[AcceptCheck]) -> Vec<Caution> {
    let thin = checks.iter().filter(|check| check.required && is_thin(check));
    let caution = |check: &AcceptCheck| Caution {
        code: THIN_CHECK.to_owned(),
        check: check.name().to_owned(),
        detail: format!("`{}` cannot fail", check.target),
    };
    thin.map(caution).collect()
}

/// Fails the checks whose commands ended with 0 and whose tests say otherwise, and answers the cautions
/// about tests. A project without tests is not held to any.
fn judge_tests(input: &Evaluation<'_>, results: &mut [CheckResult]) -> Vec<Caution> {
    let Some(round) = input.round else { return Vec::new() };
    let (mut of_project, mut of_checks) = (Vec::new(), Vec::new());
    let first = results.len().saturating_sub(input.checks.len());
    let (system, own) = results.split_at_mut(first);
    let project = system.iter_mut().find(|it| it.name == PROJECT_TESTS_CHECK && it.passed);
    if let Some(result) = project
        && let Some(probe) = runs::deciding(input, round, PROJECT_TESTS_CHECK)
    {
        of_project = tests_seen::cautions(PROJECT_TESTS_CHECK, &probe);
        if let Some(reason) = tests_seen::missing(&of_project) {
            result.passed = false;
            result.reason = reason;
        }
    }
    for (place, (check, result)) in input.checks.iter().zip(own).enumerate() {
        let decides = result.passed && is_probed(check) && check.kind == CheckKind::CommandSuccess;
        let key = decides.then(|| check::check_key(input.checks, place));
        let Some(probe) = key.and_then(|key| runs::deciding(input, round, &key)) else { continue };
        let found = tests_seen::cautions(check.name(), &probe);
        if let Some(reason) = tests_seen::refusal(check, &probe, &found) {
            result.passed = false;
            result.reason = reason;
        }
        of_checks.extend(found);
    }
    of_project.into_iter().chain(of_checks).collect()
}

/// Passes when no todo of this plan has such a status; else the reason lists them in order.
fn todo_result(
    input: &Evaluation<'_>,
    name: &str,
    is_bad: impl Fn(TodoStatus) -> bool,
) -> CheckResult {
    let bad: Vec<&str> = input
        .todos
        .iter()
        .filter(|todo| counts(todo, input.plan_made_at) && is_bad(todo.status))
        .map(|todo| todo.id.as_str())
        .collect();
    CheckResult {
        name: name.to_owned(),
        passed: bad.is_empty(),
        reason: if bad.is_empty() { String::new() } else { format!("todo:{}", bad.join(",")) },
        optional: false,
    }
}

/// A plan's own todos have no time, because they are as old as the plan.
fn counts(todo: &Todo, plan_made_at: Option<DateTime<Utc>>) -> bool {
    let before_the_plan = todo
        .created_at
        .zip(plan_made_at)
        .is_some_and(|(created_at, plan_made_at)| created_at < plan_made_at);
    todo.required && !before_the_plan
}

const fn is_failed(status: TodoStatus) -> bool {
    matches!(status, TodoStatus::Failed)
}

/// A cancelled todo is converged, because it is no longer needed. A failed one has a result of its
/// own.
const fn is_open(status: TodoStatus) -> bool {
    !status.is_terminal()
}

fn check_results(
    input: &Evaluation<'_>,
    evidence: &Evidence<'_>,
    allowance: Allowance,
    cautions: &mut Vec<Caution>,
) -> Result<Vec<CheckResult>, Shortage> {
    if input.checks.is_empty() {
        return Ok(vec![result_of(
            &output_only(),
            check::evaluate(&output_only(), evidence).map_err(Reason::as_str),
        )]);
    }
    let of_round = input.round.map(|round| probed_first(input.receipts, round));
    let (mut facts, mut facts_of_round) = (None, None);
    let mut decide = |(place, check): (usize, &AcceptCheck)| {
        if let Some(round) = input.round
            && is_probed(check)
        {
            return Ok(decided_by_its_probe(input, place, check, round, cautions));
        }
        // A driver's calls prove nothing to a user or an operator, unless the check allows it.
        let own = of_round.as_deref().filter(|_| !takes_any_source(check));
        let answer = match check.kind {
            CheckKind::HttpProbe | CheckKind::ActionReport => {
                input.answers.get(&place).copied().unwrap_or(Err(Reason::UnknownCheckKind.as_str()))
            }
            CheckKind::Expression => {
                let facts = match own {
                    Some(own) => facts_of_round.get_or_insert_with(|| FactList::new(own)),
                    None => facts.get_or_insert_with(|| FactList::new(input.receipts)),
                };
                expression::evaluate(&check.target, facts, allowance)?
                    .map_err(expression::Failure::as_str)
            }
            CheckKind::OutputOnly if check.owner != Owner::Plan => {
                let text = input.authored_text.unwrap_or(input.final_text);
                let authored = Evidence::new(input.workspace_root, &[], text);
                check::evaluate(check, &authored).map_err(Reason::as_str)
            }
            CheckKind::ToolFact if let Some(own) = own => {
                let own = Evidence::new(input.workspace_root, own, "");
                check::evaluate(check, &own).map_err(Reason::as_str)
            }
            CheckKind::OutputOnly
            | CheckKind::WorkspaceChange
            | CheckKind::CommandSuccess
            | CheckKind::FileExists
            | CheckKind::ContentContains
            | CheckKind::ToolFact
            | CheckKind::Unknown(_) => check::evaluate(check, evidence).map_err(Reason::as_str),
        };
        Ok(result_of(check, answer))
    };
    input.checks.iter().enumerate().map(&mut decide).collect()
}

/// The result of a check that the runner probes. Facts of other probes have no effect on it.
fn decided_by_its_probe(
    input: &Evaluation<'_>,
    place: usize,
    check: &AcceptCheck,
    round: u32,
    cautions: &mut Vec<Caution>,
) -> CheckResult {
    let key = check::check_key(input.checks, place);
    let evaluated = |own: &[EvidenceReceipt]| {
        check::evaluate(check, &Evidence::new(input.workspace_root, own, ""))
    };
    let own = probed(input.receipts, round, Some(&key));
    let Some((reason, noted)) = runs::rule_over(input, &key, evaluated) else {
        let result = result_of(check, evaluated(&own).map_err(Reason::as_str));
        return with_cause(check, &own, result);
    };
    cautions.extend(runs::cautions(check.name(), noted));
    let result = CheckResult { passed: reason.is_empty(), reason, ..result_of(check, Ok(())) };
    with_cause(check, &runs::original(input, &key), result)
}

/// The result with the cause, where the command of the run that decides was not started.
fn with_cause(
    check: &AcceptCheck,
    own: &[EvidenceReceipt],
    mut result: CheckResult,
) -> CheckResult {
    let not_started = own.last().filter(|probe| !probe.success && probe.facts.is_empty());
    let is_command = check.kind == CheckKind::CommandSuccess && !result.passed;
    if let Some(probe) = not_started.filter(|_| is_command) {
        result.reason = format!("{NOT_STARTED}: {}", probe.summary);
    }
    result
}

/// Whether facts of any receipt count for the check, and not only those of the runner's probes.
fn takes_any_source(check: &AcceptCheck) -> bool {
    check.owner == Owner::Plan || check.params.get(SOURCE).is_some_and(|source| source == ANY)
}

fn result_of(check: &AcceptCheck, answer: Answer) -> CheckResult {
    CheckResult {
        name: check.name().to_owned(),
        passed: answer.is_ok(),
        reason: answer.err().unwrap_or_default().to_owned(),
        optional: !check.required,
    }
}

/// The check of a plan without any check.
fn output_only() -> AcceptCheck {
    AcceptCheck {
        id: String::new(),
        kind: CheckKind::OutputOnly,
        target: String::new(),
        r#match: Match::default(),
        required: true,
        params: BTreeMap::new(),
        owner: Owner::default(),
    }
}

mod tests_seen;

#[cfg(test)]
mod tests;
