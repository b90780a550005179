//! The verdict: todos first, then every check, then one result.
//!
//! ```text
//!   required todo failed      -> required_todo_failed   \
//!   required todo still open  -> todo_not_converged      > the first that applies
//!   required check not held   -> accept_check_failed    /
//!   none of them              -> accepted
//! ```

use crate::check::expression::{self, Allowance, FactList};
use crate::check::{Answer, Shortage, http_probe};
use chrono::{DateTime, Utc};
use doubt::{Noted, Settled, Standing, settle};
use std::collections::{BTreeMap, BTreeSet};
use surety_common::domain::check::{
    self, AcceptCheck, CheckKind, Evidence, Match, Owner, Reason, is_thin, strength_of,
};
use surety_common::domain::receipt::EvidenceReceipt;
use surety_common::domain::repository::REPOSITORY_CHECK;
use surety_common::domain::stop::StopReason;
use surety_common::domain::todo::{Todo, TodoStatus};
use surety_common::domain::toolchain::ReportResult;
use surety_common::domain::verdict::{CheckResult, Strength, Verdict};
use surety_common::domain::verification::{
    PREPARE_FAILED, PROJECT_TESTS_CHECK, ProjectTests, WORKSPACE_CHANGED, WORKSPACE_CHECK,
    WORKSPACE_UNKNOWN, hosts_refused, is_commanded, is_probed, not_started, probed, probed_first,
    weakest_sandbox, workspace_digest,
};

mod canary;
mod conditions;
mod doubt;
mod evaluation;
mod hidden;
mod runs;

pub use doubt::Question;
pub use evaluation::Evaluation;

/// The param of `expression` and `tool_fact` that names whose facts count, and its only value.
/// The result of the rule `require_independent`.
const INDEPENDENT: &str = "system.independent";
/// What follows the reason of a command that was refused a host.
pub const UNREACHED: &str = "; policy.network refused ";
/// The caution about a check that cannot fail.
const THIN_CHECK: &str = "thin_check";

/// What the gate decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict. Where a person is to be asked, it is the one without an answer.
    pub verdict: Verdict,
    /// What a person is to be asked before there is a verdict; none when it stands.
    pub question: Option<Question>,
}

/// Decides where no person can be asked. The same input gives the same verdict, except when an `expression` uses about as much
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
    Ok(decide(input, allowance)?.verdict)
}

/// As [`evaluate_within`], and what a person is to be asked.
///
/// # Errors
/// Those of [`evaluate`].
pub fn decide(input: &Evaluation<'_>, allowance: Allowance) -> Result<Judgement, Shortage> {
    let evidence = Evidence::new(input.workspace_root, input.receipts, input.final_text);
    let failed = todo_result(input, "system.todo_failed", is_failed);
    let open = todo_result(input, "system.todo_unconverged", is_open);
    let strength = strength_of(input.checks);
    let mut standings: Vec<Standing> = project_tests(input, strength).into_iter().collect();
    standings.extend(conditions::of_the_whole(input));
    if input.require_independent {
        standings.push(independent(strength));
    }
    standings.extend(workspace_changed(input));
    standings.extend(repository_changed(input));
    let mut of_checks = check_results(input, &evidence, allowance)?;
    note_thin(input.checks, &mut of_checks);
    standings.extend(of_checks);
    judge_tests(input, &mut standings);
    conditions::note(input, &mut standings);
    hidden::conceal_noted(input.checks, &mut standings);
    let settled = settle(input, standings, failed.passed && open.passed);
    let Settled { results: mut checks, cautions, approvals, question } = settled;
    hidden::conceal(input.checks, &mut checks);
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
    let verdict = Verdict {
        accepted: stop_reason == StopReason::Accepted,
        stop_reason,
        results,
        strength,
        round: input.round.unwrap_or_default(),
        cautions,
        workspace_digest: input
            .round
            .map(|round| workspace_digest(input.receipts, round))
            .unwrap_or_default(),
        sandbox: input
            .round
            .map(|round| weakest_sandbox(input.receipts, round))
            .unwrap_or_default(),
        approvals,
        // Only a stored run has one: the gate adds it.
        repository: None,
    };
    Ok(Judgement { verdict, question })
}

/// Required where it is there: a driver that names no command is held to the project's own tests.
/// Where they fail at the start too, they decide nothing beside a check of another party.
fn project_tests(input: &Evaluation<'_>, strength: Strength) -> Option<Standing> {
    let result = input.project_tests?.result()?;
    let of_receipt = |own: &[EvidenceReceipt]| {
        own.last().and_then(|last| ProjectTests::of_receipt(last).result()).unwrap_or(result)
    };
    let (mut reason, noted) = match runs::rule_over(input, PROJECT_TESTS_CHECK, of_receipt) {
        Some(ruled) => ruled,
        None => (result.err().map_or("", Reason::as_str).to_owned(), Vec::new()),
    };
    let unprepared = |probe: &&EvidenceReceipt| probe.summary.starts_with(PREPARE_FAILED);
    let own = runs::original(input, PROJECT_TESTS_CHECK);
    if let Some(probe) = own.last().filter(unprepared) {
        reason = not_started(probe);
    }
    let mut standing = Standing { noted, ..Standing::of_rule(PROJECT_TESTS_CHECK, reason) };
    if !standing.result.passed
        && let Some(noted) = conditions::failed_before(input)
    {
        let refuses = input.cautions.refuses(noted.code, standing.owner, noted.only_shown);
        standing.result.optional = strength == Strength::Independent && !refuses;
        standing.noted.push(noted);
    }
    Some(standing)
}

/// The result of a round during which the workspace changed, or after which it could not be read: it is about no one state.
fn workspace_changed(input: &Evaluation<'_>) -> Option<Standing> {
    let own = probed(input.receipts, input.round?, Some(WORKSPACE_CHECK));
    let changed = own.last().filter(|receipt| !receipt.success);
    changed.map(|receipt| {
        let reason = match receipt.summary.as_str() {
            why if why.starts_with(WORKSPACE_UNKNOWN) => why,
            _ => WORKSPACE_CHANGED,
        };
        Standing::of_rule(WORKSPACE_CHECK, reason.to_owned())
    })
}

/// The result of a round whose commit has other files than the workspace that was judged.
fn repository_changed(input: &Evaluation<'_>) -> Option<Standing> {
    let own = probed(input.receipts, input.round?, Some(REPOSITORY_CHECK));
    let changed = own.last().filter(|receipt| !receipt.success);
    changed.map(|_| Standing::of_rule(REPOSITORY_CHECK, WORKSPACE_CHANGED.to_owned()))
}

/// The result of the rule that the author of the plan may not be the only one who sets checks.
fn independent(strength: Strength) -> Standing {
    let reason = match strength {
        Strength::Independent => "",
        Strength::SelfChecked => strength.as_str(),
    };
    Standing::of_rule(INDEPENDENT, reason.to_owned())
}

/// Notes the required checks that cannot fail.
fn note_thin(checks: &[AcceptCheck], standings: &mut [Standing]) {
    for (check, standing) in checks.iter().zip(standings) {
        if check.required && is_thin(check) {
            let detail = format!("`{}` cannot fail", check.target);
            standing.noted.insert(0, Noted::new(THIN_CHECK, detail));
        }
    }
}

/// Notes what the tests of commands that ended with 0 say, and fails the checks whose own bounds they do not
/// keep. A project without tests is not held to any.
fn judge_tests(input: &Evaluation<'_>, standings: &mut [Standing]) {
    let Some(round) = input.round else { return };
    let first = standings.len().saturating_sub(input.checks.len());
    let (system, own) = standings.split_at_mut(first);
    let is_project = |it: &&mut Standing| it.result.name == PROJECT_TESTS_CHECK && it.result.passed;
    if let Some(standing) = system.iter_mut().find(is_project)
        && let Some(probe) = runs::deciding(input, round, PROJECT_TESTS_CHECK)
    {
        standing.noted.extend(tests_seen::of_project(&probe));
        standing.noted.extend(tests_seen::gone(input, round, PROJECT_TESTS_CHECK));
        standing.noted.extend(runs::overwritten(input, round, PROJECT_TESTS_CHECK));
        standing.noted.extend(canary::noted(input, round, PROJECT_TESTS_CHECK));
    }
    for (place, (check, standing)) in input.checks.iter().zip(own).enumerate() {
        let decides = standing.result.passed && is_commanded(check);
        let key = decides.then(|| check::check_key(input.checks, place));
        let Some(key) = key else { continue };
        let Some(probe) = runs::deciding(input, round, &key) else { continue };
        standing.noted.extend(tests_seen::cautions(&probe));
        standing.noted.extend(tests_seen::gone(input, round, &key));
        standing.noted.extend(runs::overwritten(input, round, &key));
        standing.noted.extend(canary::noted(input, round, &key));
        if let Some(reason) = tests_seen::out_of_bounds(check, &probe) {
            standing.result.passed = false;
            standing.result.reason = reason;
        }
    }
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
) -> Result<Vec<Standing>, Shortage> {
    if input.checks.is_empty() {
        let answer = check::evaluate(&output_only(), evidence).map_err(Reason::as_str);
        return Ok(vec![standing_of(&output_only(), answer)]);
    }
    let of_round = input.round.map(|round| of_others(input, round));
    let (mut facts, mut own_facts, mut facts_of_round) = (None, None, None);
    let mut decide = |(place, check): (usize, &AcceptCheck)| {
        if let Some(round) = input.round
            && is_probed(check)
        {
            return Ok(decided_by_its_probe(input, place, check, round));
        }
        // A driver's calls prove nothing to a user or an operator, unless the check allows it.
        let own = of_round.as_deref().filter(|_| !check.takes_any_source());
        let answer = match check.kind {
            CheckKind::HttpProbe => {
                let without = Err(http_probe::Failure::NoAnswer.as_str());
                input.answers.get(&place).copied().unwrap_or(without)
            }
            // Only the run of a task has reports.
            CheckKind::ActionReport => {
                let without = Err(ReportResult::NoAction.as_str());
                input.answers.get(&place).copied().unwrap_or(without)
            }
            CheckKind::Expression => {
                let facts = match own {
                    Some(own) => facts_of_round.get_or_insert_with(|| FactList::new(own)),
                    None if check.takes_any_source() => {
                        facts.get_or_insert_with(|| FactList::new(input.receipts))
                    }
                    None => own_facts.get_or_insert_with(|| FactList::new(&unreported(input))),
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
        Ok(standing_of(check, answer))
    };
    input.checks.iter().enumerate().map(&mut decide).collect()
}

/// What a round observed for checks that a plan did not set: those of a plan run with what the steps left, and prove nothing
/// to a user or an operator.
fn of_others(input: &Evaluation<'_>, round: u32) -> Vec<EvidenceReceipt> {
    let of_plan: BTreeSet<String> = (0..input.checks.len())
        .filter(|place| input.checks.get(*place).is_some_and(|it| it.owner == Owner::Plan))
        .map(|place| check::check_key(input.checks, place))
        .collect();
    let mut receipts = probed_first(input.receipts, round);
    receipts.retain(|receipt| {
        receipt.probe_of.as_ref().is_none_or(|probe| !of_plan.contains(&probe.check_id))
    });
    receipts
}

/// The receipts without those that workers reported, which prove nothing to a user or an operator.
fn unreported(input: &Evaluation<'_>) -> Vec<EvidenceReceipt> {
    let own = input.receipts.iter().filter(|receipt| receipt.reporter().is_none());
    own.cloned().collect()
}

/// The result of a check that the runner probes. Facts of other probes have no effect on it.
fn decided_by_its_probe(
    input: &Evaluation<'_>,
    place: usize,
    check: &AcceptCheck,
    round: u32,
) -> Standing {
    let key = check::check_key(input.checks, place);
    let evaluated = |own: &[EvidenceReceipt]| {
        check::evaluate(check, &Evidence::new(input.workspace_root, own, ""))
    };
    let own = probed(input.receipts, round, Some(&key));
    let Some((reason, noted)) = runs::rule_over(input, &key, evaluated) else {
        let standing = standing_of(check, evaluated(&own).map_err(Reason::as_str));
        let result = with_cause(check, &own, standing.result);
        return Standing { result, ..standing };
    };
    let result = CheckResult { passed: reason.is_empty(), reason, ..result_of(check, Ok(())) };
    let result = with_cause(check, &runs::original(input, &key), result);
    Standing { result, owner: check.owner, noted }
}

/// The result with the cause, where the command of the run that decides was not started.
fn with_cause(
    check: &AcceptCheck,
    own: &[EvidenceReceipt],
    mut result: CheckResult,
) -> CheckResult {
    let without_facts = own.last().filter(|probe| !probe.success && probe.facts.is_empty());
    let is_command = is_commanded(check) && !result.passed;
    if let Some(probe) = without_facts.filter(|_| is_command) {
        result.reason = not_started(probe);
        return result;
    }
    let refused = own.last().map(hosts_refused).unwrap_or_default();
    if is_command && !refused.is_empty() {
        result.reason = format!("{}{UNREACHED}{}", result.reason, refused.join(", "));
    }
    result
}

fn standing_of(check: &AcceptCheck, answer: Answer) -> Standing {
    Standing { result: result_of(check, answer), owner: check.owner, noted: Vec::new() }
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
        overlay: surety_common::domain::check::Overlay::default(),
    }
}

mod tests_seen;

#[cfg(test)]
mod tests;
