//! What would make a failed check pass, in one sentence each, for the message of a refused run.

use crate::verdict::UNREACHED;
use surety_common::domain::caution::CAUTIONS;
use surety_common::domain::check::{
    AcceptCheck, CheckKind, FileType, Reason, changed_paths, check_key,
};
use surety_common::domain::check_inputs::{InputKind, reads_and_runs};
use surety_common::domain::receipt::{EvidenceReceipt, exit_code};
use surety_common::domain::toolchain::FORGE_TARGET;
use surety_common::domain::verdict::{CheckResult, Verdict};
use surety_common::domain::verification::{
    PREPARE_FAILED, UNNAMED_HIDDEN_CHECK, WORKSPACE_CHANGED, WORKSPACE_UNKNOWN, probed,
};

/// The most characters of a check's own text in a sentence.
const LONGEST_TEXT: usize = 120;
/// The most sentences; a reader repairs these first.
const MOST: usize = 20;

const CHECK_INPUTS_CHANGED: &str = "check_inputs_changed";
/// What helps where one part of a line reads what another part starts.
const APART: &str = "its line reads files and runs tests: give each part of it a check of its own";

/// The required results that failed, each with its check where it is one of the plan.
fn failed<'a>(
    verdict: &'a Verdict,
    checks: &'a [AcceptCheck],
) -> impl Iterator<Item = (&'a CheckResult, Option<(usize, &'a AcceptCheck)>)> {
    // Results of the system come first.
    let first = verdict.results.len().saturating_sub(checks.len());
    let own = move |place: usize| {
        place.checked_sub(first).and_then(|place| Some((place, checks.get(place)?)))
    };
    let placed = verdict.results.iter().enumerate().map(move |(at, result)| (result, own(at)));
    placed.filter(|(result, _)| !result.passed && !result.optional)
}

fn shown<'a>(result: &'a CheckResult, own: Option<(usize, &AcceptCheck)>) -> &'a str {
    match own {
        Some((_, check)) if check.is_hidden() => UNNAMED_HIDDEN_CHECK,
        Some(_) | None => &result.name,
    }
}

/// The required results that failed, each with its reason.
#[must_use]
pub fn failures(verdict: &Verdict, checks: &[AcceptCheck]) -> String {
    let named = failed(verdict, checks)
        .map(|(result, own)| format!("{} ({})", shown(result, own), result.reason));
    named.collect::<Vec<_>>().join(", ")
}

/// One sentence for each required result that failed.
#[must_use]
pub fn remedies(verdict: &Verdict, checks: &[AcceptCheck], receipts: &[EvidenceReceipt]) -> String {
    let sentence = |(result, own): (&CheckResult, Option<(usize, &AcceptCheck)>)| {
        let needed = match own {
            Some((_, check)) if check.is_hidden() => {
                "to hold; its output is for its owner".to_owned()
            }
            Some((place, check)) => {
                let probes = probed(receipts, verdict.round, Some(&check_key(checks, place)));
                of_check(check, &result.reason, &probes)
            }
            None => of_system(result),
        };
        format!("{} needs {needed}.", shown(result, own))
    };
    let mut sentences: Vec<String> = failed(verdict, checks).take(MOST).map(sentence).collect();
    let more = failed(verdict, checks).count().saturating_sub(MOST);
    if more > 0 {
        sentences.push(format!("{more} more checks failed; their reasons are in the verdict."));
    }
    sentences.join(" ")
}

#[expect(clippy::too_many_lines, reason = "a table with a line for each kind of check")]
fn of_check(check: &AcceptCheck, reason: &str, probes: &[EvidenceReceipt]) -> String {
    let target = shortened(&check.target);
    if let Some(needed) = of_prepare(reason) {
        return needed;
    }
    if let Some((known, hosts)) = reason.split_once(UNREACHED) {
        let needed = of_check(check, known, probes);
        return format!(
            "{needed}; it asked for {}, which policy.network does not allow",
            shortened(hosts)
        );
    }
    if let Some(needed) = of_caution(reason) {
        return match reads_and_runs(&check.target, &changed_inputs(reason)) {
            true => format!("{needed}; {APART}"),
            false => needed,
        };
    }
    let Some(known) = Reason::ALL.iter().find(|known| known.as_str() == reason) else {
        return match (&check.kind, reason) {
            (CheckKind::CommandSuccess, reason) => {
                format!("`{target}` to run its work: {}", shortened(reason))
            }
            (CheckKind::ToolFact, reason) => {
                format!("{} to run its work: {}", verification(check), shortened(reason))
            }
            (CheckKind::ActionReport, reason) if check.target == FORGE_TARGET => {
                format!("the forge to show what the task asks for ({})", shortened(reason))
            }
            (CheckKind::ActionReport, reason) => format!(
                "an action report of the assignee that says what was done ({})",
                shortened(reason)
            ),
            (CheckKind::Expression, _) => format!("the expression `{target}` to be true"),
            (_, reason) => format!("another outcome than {}", shortened(reason)),
        };
    };
    match known {
        Reason::OutputEmpty => "an answer in words at the end".to_owned(),
        Reason::NoWorkspaceChange => match changed_paths(check).as_slice() {
            [] => "a change of a file that is not ignored".to_owned(),
            paths => format!("a change of a file under {}", shortened(&paths.join(", "))),
        },
        Reason::NoSuccessfulCommand | Reason::CommandFailedLater => match failed_with(probes) {
            Some(code) => format!("`{target}` to end with exit code 0; it ended with {code}"),
            None => format!("`{target}` to end with exit code 0 in the workspace's root"),
        },
        Reason::StaleAfterWrite => {
            format!("`{target}` again, without a write during it or after it")
        }
        Reason::NoFileEvidence | Reason::FileGone => {
            let what = match FileType::of(check).unwrap_or_default() {
                FileType::File => "a regular file",
                FileType::Folder => "a folder",
                FileType::Link => "a symbolic link",
                FileType::Any => "something",
            };
            format!("{what} at `{target}`")
        }
        Reason::PathOutsideWorkspace => format!("a path inside the workspace, not `{target}`"),
        Reason::NoContentEvidence => {
            let needle = check.params.get("contains").map(|text| shortened(text));
            format!("the text {:?} in `{target}`", needle.unwrap_or_default())
        }
        Reason::NoToolFact | Reason::FactFailedLater => match failed_with(probes) {
            Some(code) => {
                format!("{} to end with exit code 0; it ended with {code}", verification(check))
            }
            None => "a verification of its tool and scope that passed".to_owned(),
        },
        Reason::UnknownCheckKind => format!("a known kind of check, not `{}`", check.kind),
        Reason::ProjectTestsFailed | Reason::ProjectTestsNotRun => {
            "the project's own tests to pass".to_owned()
        }
    }
}

/// The exit code of the first run that failed, which is the one that is shown: later ones are with the files as they were
/// left, or those of a canary.
fn failed_with(probes: &[EvidenceReceipt]) -> Option<i32> {
    let mut codes = probes.iter().filter_map(|probe| exit_code(probe.facts.iter()));
    codes.clone().find(|code| *code != 0).or_else(|| codes.next_back())
}

/// The named command of a check.
fn verification(check: &AcceptCheck) -> String {
    let tool = check.params.get("tool").map_or("", String::as_str);
    format!("the verification command `{}`", shortened(tool))
}

/// What a check needs that did not run because the view was not prepared.
fn of_prepare(reason: &str) -> Option<String> {
    let line = reason.strip_prefix(PREPARE_FAILED)?.trim_start_matches([':', ' ']);
    Some(format!("policy.prepare to succeed: {}", shortened(line)))
}

/// The check inputs that a reason names: `check_inputs_changed: changed tests/a.py (test), ...`.
fn changed_inputs(reason: &str) -> Vec<(&str, InputKind)> {
    fn input(text: &str) -> Option<(&str, InputKind)> {
        let (path, kind) = text.split_once(' ')?.1.rsplit_once(" (")?;
        let is_test = kind == "test)";
        Some((path, if is_test { InputKind::Test } else { InputKind::Configuration }))
    }
    let named = reason.strip_prefix(CHECK_INPUTS_CHANGED).and_then(|rest| rest.strip_prefix(": "));
    named.into_iter().flat_map(|named| named.split(", ")).filter_map(input).collect()
}

/// What a check needs that is refused for a caution; none for another reason.
fn of_caution(reason: &str) -> Option<String> {
    let (code, detail) = reason.split_once(':').unwrap_or((reason, ""));
    let needed = match code {
        CHECK_INPUTS_CHANGED => {
            "to hold with the tests, fixtures and configuration of the start, or policy.may_change to allow the changed \
             files"
        }
        "ignored_inputs_changed" => {
            "to hold without ignored files that steps wrote: let the check or policy.prepare build or install them"
        }
        "program_from_workspace" => {
            "to start a program that the run did not write, or policy.may_change to allow it"
        }
        "flaky" => "to give the same result on the same files each time",
        "no_tests_seen" => "to run at least one test: correct its line or its selection",
        "too_few_tests" => "to run at least the tests that its params.min_tests asks for",
        "tests_missing" => {
            "to run the tests of the start: take out of the product what skips, deselects or ends them, or allow their file \
             with policy.may_change"
        }
        "runner_patched" => {
            "a product that leaves the test runner, its assertions and exit code, functions of the language, the clock and \
             randomness as they are"
        }
        "canary_not_run" => "its canary to run, because policy.refuse_on names canary_not_run",
        "hidden_check_failed" => return None,
        code if CAUTIONS.iter().any(|(known, _)| *known == code) => {
            return Some(format!(
                "the verdict to have no caution {}, which policy.refuse_on names",
                shortened(reason)
            ));
        }
        _ => return None,
    };
    let detail = detail.trim();
    let detail =
        if detail.is_empty() { String::new() } else { format!(" ({})", shortened(detail)) };
    Some(format!("{needed}{detail}"))
}

/// What a result needs that belongs to no check of the plan.
fn of_system(result: &CheckResult) -> String {
    if let Some(needed) = of_caution(&result.reason) {
        return needed;
    }
    match result.reason.as_str() {
        WORKSPACE_CHANGED => {
            "a workspace that stays as it is: stop the program that writes there during the verification".to_owned()
        }
        reason if reason.starts_with(WORKSPACE_UNKNOWN) => {
            format!("a workspace that can be read: {}", shortened(reason))
        }
        "project_tests_failed" => "the project's own tests to pass".to_owned(),
        "project_tests_not_run" => "the project's own test command to start".to_owned(),
        "self_checked" => "a check of a user or an operator that can fail".to_owned(),
        "output_empty" => "an answer in words at the end".to_owned(),
        reason if reason.starts_with(PREPARE_FAILED) => of_prepare(reason).unwrap_or_default(),
        reason => match reason.strip_prefix("todo:") {
            Some(todos) => format!("its todos to be completed: {}", shortened(todos)),
            None => format!("another outcome than {}", shortened(reason)),
        },
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= LONGEST_TEXT {
        return text.to_owned();
    }
    let kept: String = text.chars().take(LONGEST_TEXT - 1).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::domain::check::{Author, read_checks};
    use surety_common::domain::json::parse;
    use surety_common::domain::receipt::read_receipt;
    use surety_common::domain::stop::StopReason;
    use surety_common::domain::verdict::Strength;

    fn refused(names: &[(&str, &str)]) -> Verdict {
        let result = |(name, reason): &(&str, &str)| CheckResult {
            name: (*name).to_owned(),
            passed: reason.is_empty(),
            reason: (*reason).to_owned(),
            optional: false,
        };
        Verdict {
            accepted: false,
            stop_reason: StopReason::AcceptCheckFailed,
            results: names.iter().map(result).collect(),
            strength: Strength::Independent,
            round: 1,
            cautions: Vec::new(),
            approvals: Vec::new(),
            workspace_digest: String::new(),
            sandbox: String::new(),
            repository: None,
        }
    }

    #[test]
    fn each_failed_result_says_what_it_needs() {
        let value = parse(
            r#"[{"id": "tests", "kind": "command_success", "target": "make test"},
                {"id": "report", "kind": "file_exists", "target": "docs", "params": {"type": "folder"}},
                {"id": "note", "kind": "content_contains", "target": "a.md", "params": {"contains": "x"}},
                {"id": "lint", "kind": "command_success", "target": "lint"},
                {"id": "held", "kind": "workspace_change"},
                {"id": "fetch", "kind": "command_success", "target": "npm ci"},
                {"id": "format", "kind": "command_success", "target": "npm run lint"},
                {"id": "types", "kind": "tool_fact", "params": {"tool": "types"}},
                {"id": "unit", "kind": "command_success", "target": "pytest"},
                {"id": "style", "kind": "command_success", "target": "ruff check"}]"#,
        );
        let (checks, _) = read_checks(&value.unwrap().value, "verify", Author::Operator).unwrap();
        let receipt = parse(
            r#"{"step_index": 0, "source": "probe", "success": false, "check_id": "tests", "round": 1,
                "facts": [{"fact": "command", "command_line": "make test", "exit_code": 2}]}"#,
        );
        let typed = parse(
            r#"{"step_index": 0, "source": "probe", "success": false, "check_id": "types", "round": 1,
                "facts": [{"fact": "command", "command_line": "make types", "exit_code": 4},
                    {"fact": "verification", "tool": "types", "scope": "", "passed": false}]}"#,
        );
        let receipts = [receipt, typed].map(|it| read_receipt(&it.unwrap().value).unwrap());
        let verdict = refused(&[
            ("system.todo_failed", ""),
            ("system.todo_unconverged", "todo:t1"),
            ("tests", "no_successful_command"),
            ("report", "file_gone"),
            ("note", "no_content_evidence"),
            ("lint", "command_not_started: program_not_found: lint"),
            ("held", ""),
            ("fetch", "no_successful_command; policy.network refused a.org:443"),
            ("format", "prepare_failed: `npm ci` ended with 1"),
            ("types", "no_tool_fact"),
            ("unit", "check_inputs_changed: changed test_a.py (test)"),
            ("style", "thin_check: it cannot fail"),
        ]);
        assert_eq!(
            remedies(&verdict, &checks, &receipts),
            "system.todo_unconverged needs its todos to be completed: t1. \
             tests needs `make test` to end with exit code 0; it ended with 2. \
             report needs a folder at `docs`. \
             note needs the text \"x\" in `a.md`. \
             lint needs `lint` to run its work: command_not_started: program_not_found: lint. \
             fetch needs `npm ci` to end with exit code 0 in the workspace's root; it asked for a.org:443, \
             which policy.network does not allow. \
             format needs policy.prepare to succeed: `npm ci` ended with 1. \
             types needs the verification command `types` to end with exit code 0; it ended with 4. \
             unit needs to hold with the tests, fixtures and configuration of the start, or policy.may_change to allow \
             the changed files (changed test_a.py (test)). \
             style needs the verdict to have no caution thin_check: it cannot fail, which policy.refuse_on names."
        );
    }

    #[test]
    fn the_exit_code_is_that_of_the_first_run_that_failed() {
        let text = r#"[{"id": "tests", "kind": "command_success", "target": "make test"}]"#;
        let value = parse(text).unwrap().value;
        let (checks, _) = read_checks(&value, "verify", Author::Submitter).unwrap();
        let ended_with = |code: i32| {
            let receipt = parse(&format!(
                r#"{{"step_index": 0, "source": "probe", "success": {}, "check_id": "tests", "round": 1,
                    "facts": [{{"fact": "command", "command_line": "make test", "exit_code": {code}}}]}}"#,
                code == 0
            ));
            read_receipt(&receipt.unwrap().value).unwrap()
        };
        let verdict = refused(&[("tests", "no_successful_command")]);
        for (codes, said) in [([2, 5], 2), ([0, 5], 5), ([5, 0], 5), ([0, 0], 0)] {
            let needed =
                format!("tests needs `make test` to end with exit code 0; it ended with {said}.");
            assert_eq!(remedies(&verdict, &checks, &codes.map(ended_with)), needed, "{codes:?}");
        }
    }

    #[test]
    fn a_line_that_reads_a_changed_test_and_runs_tests_is_told_to_be_split() {
        for (line, is_told) in [
            ("grep -q 'def test_median' tests/a.py && python3 -m unittest", true),
            ("grep -q one CHANGELOG.md && python3 -m unittest", false),
            ("test ! -d tests && make test", true),
            ("cargo fmt --check && cargo test", true),
            ("make lint && make test", false),
            ("grep -q one tests/a.py && grep -q two tests/b.py", false),
            ("make test", false),
        ] {
            let text = format!(r#"[{{"id": "c", "kind": "command_success", "target": "{line}"}}]"#);
            let value = parse(&text).unwrap().value;
            let (checks, _) = read_checks(&value, "verify", Author::Submitter).unwrap();
            let verdict = refused(&[("c", "check_inputs_changed: changed tests/a.py (test)")]);
            let said = remedies(&verdict, &checks, &[]);
            assert_eq!(said.contains(APART), is_told, "{line}: {said}");
        }
    }

    #[test]
    fn a_run_without_checks_needs_an_answer() {
        let verdict = refused(&[("system.todo_failed", ""), ("output_only", "output_empty")]);
        assert_eq!(
            remedies(&verdict, &[], &[]),
            "output_only needs an answer in words at the end."
        );
    }
}
