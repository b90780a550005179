//! Calls that a person confirms, and questions that a person answers.

use super::world::{World, actor};
use crate::domain::confirmation::{AfterDenial, AfterExpiry, CallResolution, CallToConfirm};
use crate::domain::execution::draft::Draft;
use crate::domain::execution::{Approval, Execution, Graph, OpenCall, Wait};
use crate::domain::journal::{Answer, Entry};
use crate::domain::limits::Limits;
use crate::domain::machine::Refusal;
use crate::domain::machine::run::{Phase, RunState};
use crate::domain::plan::{Plan, PlanStep};
use crate::domain::receipt::EvidenceSource;
use crate::domain::step::StepState;
use crate::domain::stop::{StopReason, WaitingOn};
use chrono::{DateTime, Utc};
use uuid::Uuid;

const WAIT: Uuid = Uuid::from_u128(7);
const TTL_S: i64 = 100;
const DIGEST: &str = "the digest of the call";

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).expect("a time")
}

fn wait(confirmation: Option<CallToConfirm>) -> Wait {
    let on = if confirmation.is_some() { WaitingOn::Approver } else { WaitingOn::User };
    Wait {
        question: "May I?".to_owned(),
        step_index: Some(0),
        confirmation: confirmation.map(Box::new),
        ..Wait::new(WAIT, on, at(10), "an answer".to_owned())
    }
}

fn call() -> CallToConfirm {
    CallToConfirm {
        digest: DIGEST.to_owned(),
        tool: "write_file".to_owned(),
        arguments_json: "{}".to_owned(),
        expires_at: at(10 + TTL_S),
        asked_by: "agent".to_owned(),
    }
}

/// A run of one step, which began at 0 and waits from 10 on.
fn waiting(confirmation: Option<CallToConfirm>) -> (Execution, Graph) {
    let step = PlanStep { id: "a".to_owned(), ..PlanStep::default() };
    let plan = Plan { steps: vec![step], ..Plan::default() };
    let World { execution, graph, .. } = World::new(&plan, Limits::default());
    let mut draft = Draft::new(execution, actor(), at(0));
    draft.lease(Uuid::from_u128(5));
    assert_eq!(draft.lease_steps(&graph, 1), Ok(vec![0]));
    let mut draft = later(draft, 10);
    draft.pause_step(&graph, 0, wait(confirmation)).expect("a wait");
    (stored(draft), graph)
}

fn stored(draft: Draft) -> Execution {
    Execution::clone(&draft.into_write().execution)
}

fn later(draft: Draft, seconds: i64) -> Draft {
    Draft::new(stored(draft), actor(), at(seconds))
}

fn said(approved: bool) -> CallResolution {
    CallResolution { by: Some("alice".to_owned()), approved, comment: String::new(), grant: None }
}

/// The run with the approved call, whose step runs again since `seconds`.
fn approved(seconds: i64) -> (Draft, Graph) {
    let (execution, graph) = waiting(Some(call()));
    let mut draft = Draft::new(execution, actor(), at(20));
    draft.resolve_call(&graph, WAIT, &said(true), AfterDenial::Continue).expect("an approval");
    let mut draft = later(draft, seconds);
    draft.lease(Uuid::from_u128(6));
    assert_eq!(draft.lease_steps(&graph, 1), Ok(vec![0]));
    (later(draft, seconds), graph)
}

#[test]
fn a_waiting_call_blocks_its_run_without_a_lease_and_its_row_expires() {
    let (execution, _) = waiting(Some(call()));
    assert_eq!(execution.state, RunState::Blocked(Phase::Executing));
    assert_eq!((execution.lease_owner, execution.ready_at), (None, None));
    assert!(execution.steps[0].is_confirming());
    let expiries: Vec<_> = execution.kept_waits().map(|wait| wait.expires_at).collect();
    assert_eq!(expiries, [Some(at(110))]);
    let (question, _) = waiting(None);
    assert_eq!(question.kept_waits().map(|wait| wait.expires_at).collect::<Vec<_>>(), [None]);
}

#[test]
fn an_approval_is_used_once_for_its_call_and_in_its_time() {
    for (seconds, digest, expected) in [
        (109, DIGEST, Approval::Used),
        (109, "another digest", Approval::Missing),
        (110, DIGEST, Approval::Expired),
    ] {
        let (mut draft, graph) = approved(seconds);
        let after = AfterExpiry::Denied(AfterDenial::Continue);
        assert_eq!(draft.use_approval(&graph, 0, digest, after), Ok(expected), "{digest}");
        let again = draft.use_approval(&graph, 0, DIGEST, after);
        assert_eq!(again, Ok(Approval::Missing), "{digest}");
        let execution = stored(draft);
        assert_eq!(execution.steps[0].state, StepState::Running, "{digest}");
        assert_eq!(execution.steps[0].notice.is_empty(), expected != Approval::Expired);
    }
    let (mut draft, graph) = approved(110);
    let expired = draft.use_approval(&graph, 0, DIGEST, AfterExpiry::Stop);
    assert_eq!(expired, Ok(Approval::Expired));
    assert_eq!(draft.execution().stop_reason(), Some(StopReason::ConfirmationExpired));
}

#[test]
fn an_answer_is_one_receipt_and_one_event_and_there_is_no_second() {
    let (execution, graph) = waiting(Some(call()));
    let mut draft = Draft::new(execution, actor(), at(20));
    let other = draft.resolve_call(&graph, Uuid::nil(), &said(true), AfterDenial::Continue);
    assert_eq!(other, Err(Refusal::Meaningless));
    assert!(draft.is_empty(), "a refused answer changes nothing");
    draft.resolve_call(&graph, WAIT, &said(true), AfterDenial::Continue).expect("an answer");
    let again = draft.resolve_call(&graph, WAIT, &said(true), AfterDenial::Continue);
    assert_eq!(again, Err(Refusal::Meaningless));
    let entries = draft.into_write().entries;
    let [
        Entry::Receipt(receipt),
        Entry::Answer(answer),
        Entry::Transition(_),
        Entry::Transition(_),
    ] = &entries[..]
    else {
        panic!("{entries:#?}");
    };
    assert_eq!((receipt.source, receipt.success), (EvidenceSource::Approval, true));
    assert_eq!((receipt.step_id.as_str(), receipt.call_id.as_str()), ("a", &*WAIT.to_string()));
    assert_eq!((&*answer.by.0, answer.text.as_str()), ("alice", "approve"));
}

#[test]
fn what_follows_from_a_denial_and_from_expiry_is_what_the_policy_says() {
    let ended = |reason| (StepState::Cancelled, RunState::Failed, Some(reason));
    for (after, (step, run, reason)) in [
        (AfterDenial::Continue, (StepState::Ready, RunState::Executing, None)),
        (AfterDenial::FailStep, (StepState::Failed, RunState::Recovering, None)),
        (AfterDenial::Stop, ended(StopReason::ConfirmationDenied)),
    ] {
        for expires in [false, true] {
            let (execution, graph) = waiting(Some(call()));
            let mut draft = Draft::new(execution, actor(), at(if expires { 110 } else { 109 }));
            draft.expire_calls(&graph, AfterExpiry::Denied(after)).expect("a scan");
            assert_eq!(draft.is_empty(), !expires);
            if !expires {
                draft.resolve_call(&graph, WAIT, &said(false), after).expect("a denial");
            }
            let execution = stored(draft);
            assert_eq!(execution.steps[0].state, step, "{after:?}");
            assert_eq!((execution.state, execution.stop_reason()), (run, reason), "{after:?}");
            assert_eq!(execution.waits().count(), 0);
            assert!(!execution.steps[0].is_confirming());
        }
    }
    let (execution, graph) = waiting(Some(call()));
    let mut draft = Draft::new(execution, actor(), at(110));
    draft.expire_calls(&graph, AfterExpiry::Stop).expect("a scan");
    assert_eq!(draft.execution().stop_reason(), Some(StopReason::ConfirmationExpired));
}

#[test]
fn the_time_of_a_person_does_not_count_for_the_step_and_a_pause_is_counted_once() {
    let answer = Answer {
        wait_id: WAIT,
        by: crate::domain::journal::Actor("alice".into()),
        text: "yes".into(),
    };
    let began = |execution: &Execution| execution.steps[0].started_at;
    let (execution, graph) = waiting(None);
    let mut draft = Draft::new(execution.clone(), actor(), at(60));
    draft.answer_step(&graph, 0, &answer).expect("an answer");
    assert_eq!(began(&stored(draft)), Some(at(50)));

    let pause = Wait { waiting_on: WaitingOn::Operator, step_index: None, ..wait(None) };
    let pause = Wait { id: Uuid::from_u128(8), ..pause };
    // Answered in the pause, and after it: waited from 10 to 60, and paused from 30 to 50 or to 70.
    let mut draft = Draft::new(execution.clone(), actor(), at(30));
    draft.pause(&graph, pause.clone(), "").expect("a pause");
    let mut during = later(draft.clone(), 60);
    during.answer_step(&graph, 0, &answer).expect("an answer");
    let mut during = later(during, 70);
    during.resume(&graph, "").expect("an end of the pause");
    assert_eq!(began(&stored(during)), Some(at(60)));
    let mut after = later(draft, 50);
    after.resume(&graph, "").expect("an end of the pause");
    let mut after = later(after, 60);
    after.answer_step(&graph, 0, &answer).expect("an answer");
    assert_eq!(began(&stored(after)), Some(at(50)));
}

#[test]
fn what_a_person_was_asked_ends_without_an_answer_and_an_open_call_with_its_attempt() {
    let open = OpenCall {
        call_id: Uuid::from_u128(9),
        tool: "run_command".to_owned(),
        arguments_json: "{}".to_owned(),
        effect: serde_json::Value::Null,
        intended_at: at(5),
    };
    for (confirmation, has_open_call) in [(None, false), (None, true), (Some(call()), false)] {
        let (mut execution, graph) = waiting(confirmation);
        let step = execution.step_mut(0).expect("a step");
        step.open_call = has_open_call.then(|| Box::new(open.clone()));
        step.tool_calls = 3;
        let mut draft = Draft::new(execution, actor(), at(20));
        draft.withdraw_question(&graph, 0, "reported").expect("a question");
        let refused = draft.withdraw_question(&graph, 0, "reported");
        assert_eq!(refused, Err(Refusal::Meaningless), "nothing is asked any more");
        let late = draft.resolve_call(&graph, WAIT, &said(true), AfterDenial::Continue);
        assert_eq!(late, Err(Refusal::Meaningless));
        let execution = stored(draft);
        assert_eq!(execution.state, RunState::Executing);
        let step = &execution.steps[0];
        assert_eq!((step.state, step.wait.is_none()), (StepState::Ready, true));
        assert!(step.open_call.is_none() && step.proofs == 0);
        assert_eq!(step.tool_calls == 0, has_open_call, "its attempt is over");
    }
}
