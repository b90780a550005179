//! The effects of an answer.

use super::*;
use chrono::{DateTime, Utc};
use std::sync::Arc;
use surety_common::domain::acceptance::{Acceptance, Difference};
use surety_common::domain::execution::{CallAnswer, Execution, OpenCall, question_digest};
use surety_common::domain::journal::Entry;
use surety_common::domain::limits::Limits;
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::run::{DriverKind, Policy, RunSpec};
use surety_common::domain::step::StepState;

const QUESTION: Uuid = Uuid::from_u128(2);
const PAUSE: Uuid = Uuid::from_u128(3);

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000, 0).unwrap()
}

fn plan() -> Plan {
    let step = PlanStep { id: "only".to_owned(), ..PlanStep::default() };
    Plan { title: "a plan".to_owned(), steps: vec![step], ..Plan::default() }
}

fn spec() -> RunSpec {
    RunSpec {
        id: Uuid::from_u128(1),
        namespace: "test".to_owned(),
        request_id: String::new(),
        goal: "a goal".to_owned(),
        driver: DriverKind::Script,
        workspace: String::new(),
        repository: None,
        limits: Limits::default(),
        policy: Policy::default(),
        labels: std::collections::BTreeMap::new(),
        forked_from: None,
        trace_parent: String::new(),
        created_at: now(),
    }
}

fn open_call() -> OpenCall {
    OpenCall {
        call_id: Uuid::from_u128(4),
        tool: "run_command".to_owned(),
        arguments_json: "{}".to_owned(),
        effect: Default::default(),
        intended_at: now(),
    }
}

fn wait(id: Uuid, choices: &[&str], step_index: Option<usize>) -> Wait {
    Wait {
        question: "What now?".to_owned(),
        choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
        step_index,
        ..Wait::new(id, WaitingOn::User, now(), "an answer".to_owned())
    }
}

/// A run whose only step asks with these choices, with or without a running call.
fn asking(choices: &[&str], open: bool) -> RunRecord {
    let (spec, plan) = (spec(), plan());
    let graph = Graph::of(&plan);
    let execution = Execution::new(spec.id, spec.namespace.clone(), now(), now());
    let mut draft = Draft::new(execution, Actor("executor".into()), now());
    draft.start_plan(&graph, 1).unwrap();
    draft.lease(Uuid::from_u128(5));
    assert_eq!(draft.lease_steps(&graph, 1).unwrap(), [0]);
    if open {
        draft.open_call(&graph, 0, open_call()).unwrap();
    }
    draft.pause_step(&graph, 0, wait(QUESTION, choices, Some(0))).unwrap();
    let execution = draft.execution().clone();
    RunRecord { spec, execution, plan: Some(plan.into()), plan_digest: String::new() }
}

/// The run after this answer.
fn answered(record: &RunRecord, wait_id: Uuid, word: &str) -> (Draft, Result<(), Fault>) {
    let mut draft = Draft::new(record.execution.clone(), Actor("planner".into()), now());
    let answer = Answer { wait_id, by: Actor("a person".into()), text: word.to_owned() };
    let given = give_answer(record, &mut draft, (&answer, ""));
    (draft, given)
}

#[test]
fn repeat_happened_and_fail_decide_about_the_running_call_and_no_later_one() {
    let about_a_call = &["repeat", "happened", "fail"][..];
    for (choices, open, word, expected) in [
        (about_a_call, true, "repeat", Some(CallAnswer::Repeat)),
        (about_a_call, true, "happened", Some(CallAnswer::Happened)),
        (about_a_call, true, "fail", Some(CallAnswer::Fail)),
        (&["skip"], true, "skip", None),
        (&[], false, "repeat", None),
        (&[], false, "fail", None),
        (about_a_call, false, "repeat", None),
        (&["fail", "go on"], false, "fail", None),
    ] {
        let (draft, given) = answered(&asking(choices, open), QUESTION, word);
        let what = format!("{word} of {choices:?}, a call under way: {open}");
        given.expect(&what);
        let step = &draft.execution().steps[0];
        assert_eq!((step.answer, step.state), (expected, StepState::Ready), "{what}");
        assert_eq!(step.wait, None, "{what}");
    }
}

#[test]
fn a_pause_accepts_no_answer_and_keeps_the_question_open() {
    let mut record = asking(&["repeat", "fail"], true);
    let mut draft = Draft::new(record.execution, Actor("planner".into()), now());
    let pause = wait(PAUSE, &[], None);
    draft.pause(&Graph::of(&plan()), pause, "paused by a person").unwrap();
    record.execution = draft.execution().clone();
    for word in ["repeat", "fail", "go on"] {
        let (draft, given) = answered(&record, PAUSE, word);
        let fault = given.expect_err(word);
        assert_eq!(fault.reason.to_string(), "wait_closed", "{word}");
        assert!(draft.is_empty(), "{word} changed something");
        assert_eq!(draft.execution().steps[0].answer, None, "{word}");
    }
    let (draft, given) = answered(&record, QUESTION, "repeat");
    given.expect("the question can be answered meanwhile");
    assert_eq!(draft.execution().steps[0].answer, Some(CallAnswer::Repeat));
}

#[test]
fn an_answer_to_another_question_than_was_asked_is_refused_and_its_receipt_names_the_question() {
    let record = asking(&["yes", "no"], false);
    let digest = question_digest("What now?", &["yes".to_owned(), "no".to_owned()], "");
    let give = |record: &RunRecord, shown: &str| {
        let mut draft = Draft::new(record.execution.clone(), Actor("planner".into()), now());
        let by = Actor("alice".into());
        let answer = Answer { wait_id: QUESTION, by, text: "yes".to_owned() };
        let given = give_answer(record, &mut draft, (&answer, shown));
        given.map(|()| draft).map_err(|fault| fault.reason.to_string())
    };
    for shown in ["", &digest] {
        let draft = give(&record, shown).expect("an answer");
        let entries = draft.into_write().entries;
        let receipts = entries.iter().filter_map(|entry| {
            let Entry::Receipt(receipt) = entry else { return None };
            Some(receipt.outputs("digest").collect::<Vec<_>>())
        });
        assert_eq!(receipts.collect::<Vec<_>>(), [vec![digest.as_str()]]);
    }
    let refused = Err("confirmation_mismatch".to_owned());
    assert_eq!(give(&record, "another").map(drop), refused);

    let rewritten: [fn(&mut Wait); 3] = [
        |wait| wait.question = "May I?".to_owned(),
        |wait| wait.choices.push("perhaps".to_owned()),
        |wait| wait.question_digest = "0".repeat(64),
    ];
    for rewrite in rewritten {
        let mut other = record.clone();
        let step = Arc::make_mut(&mut other.execution.steps[0]);
        rewrite(step.wait.as_deref_mut().expect("a wait"));
        assert_eq!(give(&other, "").map(drop), refused);
    }
    let mut copy = record.clone();
    copy.execution.wait.as_mut().expect("a blocked run").question = "May I?".to_owned();
    assert_eq!(give(&copy, &digest).map(drop), refused);
}

/// A run that waits for a person to accept what its verdict is in doubt about.
fn in_doubt(not_shown: &str) -> RunRecord {
    let (spec, plan) = (spec(), plan());
    let graph = Graph::of(&plan);
    let execution = Execution::new(spec.id, spec.namespace.clone(), now(), now());
    let mut draft = Draft::new(execution, Actor("executor".into()), now());
    draft.start_plan(&graph, 1).unwrap();
    draft.lease(Uuid::from_u128(5));
    assert_eq!(draft.lease_steps(&graph, 1).unwrap(), [0]);
    draft.finish_step(&graph, 0, "").unwrap();
    let difference = Difference { not_shown: not_shown.to_owned(), ..Difference::default() };
    let acceptance = Some(Box::new(Acceptance::new(difference, Vec::new())));
    let asked = Wait { waiting_on: WaitingOn::Approver, acceptance, ..wait(QUESTION, &[], None) };
    draft.block(&graph, asked).unwrap();
    let execution = draft.execution().clone();
    RunRecord { spec, execution, plan: Some(plan.into()), plan_digest: String::new() }
}

#[test]
fn a_doubt_is_answered_once_by_its_digest_and_approved_only_where_it_is_shown_whole() {
    let digest = Acceptance::new(Difference::default(), Vec::new()).digest;
    for (not_shown, wait_id, digest, approved, expected) in [
        ("", QUESTION, digest.as_str(), true, ""),
        ("", QUESTION, digest.as_str(), false, ""),
        ("", QUESTION, "other", true, "confirmation_mismatch"),
        ("", QUESTION, "", false, "confirmation_mismatch"),
        ("", PAUSE, digest.as_str(), true, "wait_closed"),
        ("a.png is binary", QUESTION, digest.as_str(), true, "difference_not_shown"),
        ("a.png is binary", QUESTION, digest.as_str(), false, ""),
    ] {
        let record = in_doubt(not_shown);
        let mut draft = Draft::new(record.execution.clone(), Actor("planner".into()), now());
        let comment = String::new();
        let answer =
            Confirmation { approved, stop: false, digest: digest.to_owned(), comment, grant: None };
        let given = confirmation::give_resolution(&record, &mut draft, (wait_id, "alice"), &answer);
        let code = given.err().map(|fault| fault.reason.to_string()).unwrap_or_default();
        assert_eq!(code, expected, "{not_shown} {digest} {approved}");
        assert_eq!(draft.is_empty(), !expected.is_empty());
    }
    let record = asking(&["repeat"], true);
    let mut draft = Draft::new(record.execution.clone(), Actor("planner".into()), now());
    let answer =
        Confirmation { approved: true, stop: false, digest, comment: String::new(), grant: None };
    let given = confirmation::give_resolution(&record, &mut draft, (QUESTION, "alice"), &answer);
    assert_eq!(given.err().map(|fault| fault.reason.to_string()).as_deref(), Some("wait_closed"));
}
