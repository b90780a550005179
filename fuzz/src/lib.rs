//! What is asked of arbitrary bytes: that nothing panics, and what must hold for any input.

use std::path::Path;
use std::sync::LazyLock;
use surety_common::domain::check::{Author, Match, normalise_checks, read_checks};
use surety_common::domain::command::{CommandLine, programs};
use surety_common::domain::control;
use surety_common::domain::json;
use surety_common::domain::path::Workspace;
use surety_common::domain::plan::Plan;
use surety_common::domain::reader::{self, DECISION_KEYS, PLAN_KEYS};
use surety_common::domain::receipt::read_receipt;
use surety_common::domain::step::StepState;
use surety_executor::decision::{hear, parse_decision};
use surety_executor::tool::WriteScope;
use surety_planner::plan::patch::{apply_patch, parse_patch};
use surety_planner::plan::{PlanState, parse_plan};

/// A plan of which the first step is done, for patches.
static STATE: LazyLock<PlanState> = LazyLock::new(|| {
    let text = r#"{"title":"T","steps":[{"id":"a","description":"x","verify":["make"]},
        {"id":"b","description":"y","dependencies":["a"]},{"id":"c","description":"z"}]}"#;
    let (plan, _) = parse_plan(text, Author::Submitter, 12).expect("the plan is good");
    PlanState { plan, statuses: vec![StepState::Done, StepState::Failed, StepState::Pending] }
});

/// Text of any bytes; what is no UTF-8 is replaced, as on a wire that takes text only.
fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

/// The text before and after the first line feed.
fn two(data: &[u8]) -> (String, String) {
    let text = text(data);
    match text.split_once('\n') {
        Some((first, second)) => (first.to_owned(), second.to_owned()),
        None => (text, String::new()),
    }
}

/// The tolerant reader and what reads beside it. What is written again reads as the same.
pub fn reader(data: &[u8]) {
    let text = text(data);
    for keys in [DECISION_KEYS, PLAN_KEYS] {
        let _ = reader::read(&text, keys, |members, _| Ok(members.to_vec()));
    }
    let _ = control::envelope(&text);
    let _ = control::legacy_marker(&text);
    let _ = control::completion(&text);
    let _ = control::visible_text(&text);
    if let Ok(parsed) = json::parse(&text) {
        let again = json::parse(&parsed.value.to_compact()).expect("what was written reads");
        assert_eq!(again.value, parsed.value);
        assert_eq!(again.value.digest(), parsed.value.digest());
    }
}

/// A plan that was read is read the same from what it is written as.
pub fn plan(data: &[u8]) {
    if let Ok((plan, _)) = parse_plan(&text(data), Author::Model, 12) {
        let again = Plan::from_json(&plan.to_json()).expect("a written plan reads");
        assert_eq!(again, plan);
        assert_eq!(again.digest(), plan.digest());
    }
}

/// No patch changes a done step.
pub fn patch(data: &[u8]) {
    let Ok((patch, _)) = parse_patch(&text(data), Author::Model) else { return };
    if let Ok(patched) = apply_patch(&STATE, patch, 5) {
        assert!(patched.state.plan.steps.len() <= 5);
        assert_eq!(patched.state.plan.steps.first(), STATE.plan.steps.first());
        assert_eq!(patched.state.status(0), StepState::Done);
    }
}

/// A decision, and what a reply counts as.
pub fn decision(data: &[u8]) {
    let text = text(data);
    let _ = parse_decision(&text);
    let _ = hear(&text);
}

/// A receipt that was read is read the same from what it is written as.
pub fn receipts(data: &[u8]) {
    let Ok(parsed) = json::parse(&text(data)) else { return };
    if let Ok(receipt) = read_receipt(&parsed.value) {
        assert_eq!(read_receipt(&receipt.to_json()).as_ref(), Ok(&receipt));
    }
    if let Ok((checks, _)) = read_checks(&parsed.value, "checks", Author::Service) {
        assert_eq!(normalise_checks(checks.clone(), "checks").0, checks);
    }
}

/// A command line matches itself, and whatever matches to the letter matches in every mode.
pub fn commands(data: &[u8]) {
    let (ran, target) = two(data);
    let _ = programs(&ran);
    let (ran_line, target_line) = (CommandLine::parse(&ran), CommandLine::parse(&target));
    for by in [Match::Prefix, Match::Exact, Match::Contains] {
        assert!(ran_line.matches(&ran_line, by));
        let matches = ran_line.matches(&target_line, by);
        assert!(by != Match::Exact || !matches || ran_line.matches(&target_line, Match::Prefix));
    }
}

/// Globs of a write scope. None lets a path out of the workspace's reach be written by panicking.
pub fn globs(data: &[u8]) {
    let (glob, path) = two(data);
    if let Ok(scope) = WriteScope::new(&[glob]) {
        let _ = scope.allows(Path::new(&path));
    }
}

/// A path that is inside stays the same when it is resolved again.
pub fn paths(data: &[u8]) {
    let (root, path) = two(data);
    let workspace = Workspace::new(&root);
    if let Some(inside) = workspace.resolve(&path) {
        assert!(!inside.split('/').any(|part| part == ".."));
        assert_eq!(workspace.resolve(&inside).as_deref(), Some(&*inside));
    }
}
