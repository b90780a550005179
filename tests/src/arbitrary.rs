//! Properties of arbitrary bytes: no reader panics, and the invariants hold for any input.

use std::path::Path;
use surety_common::domain::check::{AcceptCheck, Author, Match, Owner};
use surety_common::domain::check::{normalise_checks, read_checks};
use surety_common::domain::command::{CommandLine, programs};
use surety_common::domain::control;
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::json::{self, Value};
use surety_common::domain::path::Workspace;
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::reader::{self, DECISION_KEYS, MAX_TEXT_BYTES, PLAN_KEYS};
use surety_common::domain::receipt::{EvidenceReceipt, read_receipt, read_stored, verify_chain};
use surety_common::domain::step::StepState;
use surety_executor::decision::{Classified, classify, parse_decision, words};
use surety_executor::tool::WriteScope;
use surety_planner::plan::patch::{apply_patch, parse_patch};
use surety_planner::plan::{PlanState, normalise_plan, parse_plan, parse_plan_clipped};

/// A plan whose first step is done, for patches; a user owns its checks.
const PLAN: &str = r#"{"title":"T","verify":["报告.md"],"steps":[
    {"id":"读","description":"x","verify":["make"]},
    {"id":"改","description":"y","dependencies":["读"],"verify":["cargo test"]},
    {"id":"测","description":"z","dependencies":["改"]}]}"#;

/// Text of any bytes; invalid UTF-8 is replaced, as on a wire that accepts text only.
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

/// The tolerant reader and the readers beside it. A value that is written again is read as the same
/// value, with the same digest in every spelling.
pub fn reader(data: &[u8]) {
    let text = text(data);
    for keys in [DECISION_KEYS, PLAN_KEYS] {
        if let Ok(read) = reader::read(&text, keys, |members, _| Ok(members.to_vec())) {
            let alone = Value::Object(read.value.clone()).to_compact();
            let again = reader::read(&alone, keys, |members, _| Ok(members.to_vec()));
            assert_eq!(again.map(|again| again.value), Ok(read.value));
        }
    }
    drop(control::envelope(&text));
    drop(control::legacy_marker(&text));
    drop(control::completion(&text));
    assert!(control::visible_text(&text).len() <= text.len());
    if let Ok(parsed) = json::parse(&text) {
        let read = |text: &str| json::parse(text).map(|parsed| parsed.value);
        let canonical = parsed.value.to_canonical();
        let sorted = read(&canonical);
        assert_eq!(sorted.as_ref().map(Value::to_canonical), Ok(canonical));
        assert_eq!(sorted.as_ref().map(Value::digest), Ok(parsed.value.digest()));
        assert_eq!(read(&parsed.value.to_compact()), Ok(parsed.value));
    }
}

/// A mebibyte of repetitions of the second line after the first is read in linear time: a quadratic
/// reader exceeds libFuzzer's time limit.
pub fn length(data: &[u8]) {
    let (head, unit) = two(data);
    let room = MAX_TEXT_BYTES.saturating_sub(head.len());
    let Some(times) = room.checked_div(unit.len()) else { return };
    let text = head + &unit.repeat(times);
    drop(parse_decision(&text));
    drop(classify(&text));
    drop(parse_plan(&text, Author::Model, 12));
    drop(parse_patch(&text, Author::Model));
    drop(programs(&text));
    let line = CommandLine::parse(&text);
    assert!(line.matches(&line, Match::Contains));
    drop(Workspace::new(&text).resolve(&text));
}

/// A plan is read as it was written, is valid in every order of its steps, and is truncated to its
/// first steps or not at all.
pub fn plan(data: &[u8]) {
    let text = text(data);
    if let Ok((plan, _)) = parse_plan(&text, Author::Model, 12) {
        let checks = plan.steps.iter().flat_map(|step| &step.verify).chain(&plan.verify);
        assert!(checks.into_iter().all(|check| check.owner == Owner::Plan));
        let again = Plan::from_json(&plan.to_json());
        assert_eq!(again.as_ref().map(Plan::digest), Ok(plan.digest()));
        assert_eq!(again.as_ref(), Ok(&plan));
        assert_eq!(normalise_plan(&plan, Author::Service, 12), Ok((plan.clone(), vec![])));
        let mut reversed = plan;
        reversed.steps.reverse();
        let again = normalise_plan(&reversed, Author::Service, 12);
        assert_eq!(again, Ok((reversed, vec![])));
    }
    if let Ok((clipped, _)) = parse_plan_clipped(&text, Author::Model, 2) {
        assert!((1..=2).contains(&clipped.plan.steps.len()));
        let again = normalise_plan(&clipped.plan, Author::Service, 2);
        assert_eq!(again, Ok((clipped.plan, vec![])));
    }
}

/// No patch changes a done step, loses a check of a user, or makes an invalid plan.
pub fn patch(data: &[u8]) {
    let Ok((patch, _)) = parse_patch(&text(data), Author::Model) else { return };
    let (plan, _) = parse_plan(PLAN, Author::Submitter, 12).unwrap_or_default();
    let statuses = vec![StepState::Done, StepState::Failed, StepState::Pending];
    let before = PlanState { plan, statuses };
    let Ok(patched) = apply_patch(&before, patch, 5) else { return };
    let after = patched.state.plan;
    assert!(after != before.plan, "a patch that changes nothing is refused");
    assert_eq!(normalise_plan(&after, Author::Service, 5), Ok((after.clone(), vec![])));
    assert_eq!(after.verify, before.plan.verify);
    assert_eq!(patched.state.statuses.len(), after.steps.len());
    for (step, status) in before.plan.steps.iter().zip(&before.statuses) {
        let place = after.steps.iter().position(|kept| kept.id == step.id);
        let kept = place.and_then(|at| after.steps.get(at).zip(patched.state.statuses.get(at)));
        assert!(kept.is_none_or(|(_, kept)| kept == status), "a state moved");
        let kept = kept.map(|(kept, _)| kept);
        assert!(*status != StepState::Done || kept == Some(step), "a done step changed");
        assert!(step.verify.is_empty() || kept.map(asks) == Some(asks(step)), "a check is gone");
    }
}

fn asks(step: &PlanStep) -> &[AcceptCheck] {
    &step.verify
}

/// A decision has the shape of its action, and a reply is counted as it was read.
pub fn decision(data: &[u8]) {
    let text = text(data);
    let (read, heard) = (parse_decision(&text), classify(&text));
    let agree = match (&read, &heard) {
        (Ok(reading), Classified::Decided(heard)) => reading == &**heard,
        (Err(problem), Classified::Refused(heard)) => problem == heard,
        (Err(_), Classified::TextOnly | Classified::ThinkingOnly) => true,
        (_, _) => false,
    };
    assert!(agree, "read as {read:?}, counted as {heard:?}");
    if let Ok(reading) = read {
        assert!(reading.decision.is_some() || reading.control.is_some());
        reading.decision.iter().for_each(has_its_shape);
    }
}

fn has_its_shape(decision: &ExecuteDecision) {
    let (call, abort) = (decision.tool_call.as_ref(), decision.abort.as_ref());
    assert!(call.is_none_or(|call| !call.name.is_empty() && call.arguments.as_object().is_some()));
    assert_eq!(abort.is_some(), decision.action == Action::Abort);
    assert!(abort.is_none_or(|abort| !abort.user_message.is_empty()));
    match decision.action {
        Action::Continue => assert!(!words(decision).is_empty()),
        Action::Confirm => assert!(call.is_some() && !words(decision).is_empty()),
        Action::AskUser => assert!(call.is_none() && !words(decision).is_empty()),
        Action::NextPlan | Action::Done | Action::Abort => assert!(call.is_none()),
    }
}

/// A receipt is read as it was written, and a change of it in a chain is detected; checks that were
/// read are normalized.
pub fn receipts(data: &[u8]) {
    let Ok(parsed) = json::parse(&text(data)) else { return };
    if let Ok(receipt) = read_receipt(&parsed.value) {
        let written = value_of(&receipt);
        assert_eq!(written.to_canonical(), receipt.to_text(), "its digest is over canonical text");
        assert_eq!(read_receipt(&written).as_ref(), Ok(&receipt));
        stands_in_a_chain(receipt);
    }
    if let Ok((checks, _)) = read_checks(&parsed.value, "checks", Author::Service) {
        assert_eq!(normalise_checks(checks.clone(), "checks"), (checks.clone(), vec![]));
        let written = Value::Array(checks.iter().map(AcceptCheck::to_json).collect());
        assert_eq!(read_checks(&written, "checks", Author::Service), Ok((checks, vec![])));
    }
}

fn value_of(receipt: &EvidenceReceipt) -> Value {
    let parsed = json::parse_stored(&receipt.to_text());
    assert!(parsed.is_ok(), "what is written reads");
    parsed.map_or(Value::Null, |parsed| parsed.value)
}

fn stands_in_a_chain(mut first: EvidenceReceipt) {
    first.seq = 1;
    first.seal("");
    let mut second = EvidenceReceipt { seq: 2, ..first.clone() };
    second.seal(&*first.digest);
    let stored: Result<Vec<_>, _> =
        [&first, &second].into_iter().map(|receipt| read_stored(&value_of(receipt))).collect();
    assert_eq!(stored.as_deref().map(verify_chain), Ok(Ok(())));
    second.success = !second.success;
    assert!(verify_chain(&[first, second]).is_err());
}

/// A command line matches itself, and each way of matching accepts all that a stricter one accepts.
/// A line without need of a shell is compared by its programs.
pub fn commands(data: &[u8]) {
    let (ran, target) = two(data);
    let (ran_line, target_line) = (CommandLine::parse(&ran), CommandLine::parse(&target));
    let matches = |by| ran_line.matches(&target_line, by);
    assert!(!matches(Match::Exact) || matches(Match::Prefix));
    assert!(!matches(Match::Prefix) || matches(Match::Contains));
    for by in [Match::Prefix, Match::Exact, Match::Contains] {
        assert!(ran_line.matches(&ran_line, by));
    }
    for program in programs(&ran).into_iter().flatten() {
        assert!(!program.argv.is_empty());
        assert!(program.environment.iter().all(|(name, _)| !name.is_empty()));
    }
}

/// A glob without marks allows the one path it names, one more glob takes nothing away, and a star
/// does not cross into another folder.
pub fn globs(data: &[u8]) {
    let (glob, path) = two(data);
    let path = Path::new(&path);
    let Ok(scope) = WriteScope::new(std::slice::from_ref(&glob)) else { return };
    assert!(WriteScope::whole().allows(path));
    if let Ok(wider) = WriteScope::new(&[glob.clone(), "src/**".to_owned()]) {
        assert!(wider.allows(path) || !scope.allows(path));
        assert!(wider.allows(Path::new("src/lib.rs")));
    }
    let named = glob.strip_prefix("./").unwrap_or(&glob);
    if !named.contains(['*', '?', '[', ']', '{', '}', '\\']) && !named.ends_with('/') {
        assert!(scope.allows(Path::new(named)));
        assert!(!scope.allows(&Path::new(named).join("below")));
    }
    if !glob.contains(['/', '[', '{', '\\']) && !glob.contains("**") {
        assert!(!scope.allows(&Path::new("folder").join(glob.replace(['*', '?'], "x"))));
    }
}

/// A path that is inside stays the same when it is resolved again, from the root too.
pub fn paths(data: &[u8]) {
    let (root, path) = two(data);
    let workspace = Workspace::new(&root);
    let Some(inside) = workspace.resolve(&path) else { return };
    assert!(!inside.split('/').any(|part| matches!(part, "." | "..")));
    assert!(inside.is_empty() || !inside.split('/').any(str::is_empty));
    assert_eq!(workspace.resolve(&inside).as_deref(), Some(&*inside));
    if root.starts_with('/') {
        assert_eq!(workspace.resolve(&format!("{root}/{inside}")).as_deref(), Some(&*inside));
    }
}
