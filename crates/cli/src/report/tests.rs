use prost_types::Timestamp;
use surety_common::wire::v1::event::Kind;

use super::*;

fn refused() -> v1::Run {
    let mut run = v1::Run { id: "0190".to_owned(), goal: "Do it".to_owned(), ..v1::Run::default() };
    run.set_state(v1::RunState::Failed);
    run.created_at = Some(Timestamp { seconds: 0, nanos: 0 });
    run.updated_at = Some(Timestamp { seconds: 3, nanos: 0 });
    let result = |name: &str, passed, reason: &str| v1::CheckResult {
        name: name.to_owned(),
        passed,
        reason: reason.to_owned(),
        optional: false,
    };
    run.verdict = Some(v1::Verdict {
        plan_revision: 1,
        receipt_count: 2,
        results: vec![
            result("tests-pass", false, "no_successful_command"),
            result("changelog-is-there", true, ""),
        ],
        stop_reason: v1::StopReason::AcceptCheckFailed.into(),
        ..v1::Verdict::default()
    });
    run.terminal = Some(v1::Terminal {
        status: v1::RunState::Failed.into(),
        stop_reason: v1::StopReason::AcceptCheckFailed.into(),
        stage: v1::RunState::Verifying.into(),
        user_message: "Not proven.".to_owned(),
        internal_reason: String::new(),
        abort_code: String::new(),
    });
    run
}

#[test]
fn a_refusal_names_every_check_and_its_reason() {
    let expected = "\
refused: accept_check_failed (plan revision 1, 2 receipts read)
  FAILED  tests-pass  no_successful_command
  passed  changelog-is-there
FAILED [accept_check_failed] at verifying
  message    Not proven.
run 0190 is FAILED after 3.0 s";
    assert_eq!(ending(&refused()), expected);
}

#[test]
fn a_blocked_run_says_how_to_answer_watch_and_cancel_it() {
    let mut run = v1::Run { id: "0190".to_owned(), ..v1::Run::default() };
    run.blocked = Some(v1::Blocked {
        waiting_on: v1::WaitingOn::User.into(),
        question: "May it have happened?".to_owned(),
        wait_id: "0191".to_owned(),
        ..v1::Blocked::default()
    });
    let said = waits_for(&run);
    for part in ["May it", "surety answer 0191", "surety watch 0190", "surety cancel 0190"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn outputs_are_shortened_unless_the_full_extent_is_requested() {
    let text: Vec<_> = (1..=20).map(|line| format!("line {line}")).collect();
    let event = v1::Event {
        kind: Some(Kind::Output(v1::OutputStored {
            text: Some(text.join("\n")),
            bytes: 1,
            ..v1::OutputStored::default()
        })),
        ..v1::Event::default()
    };
    let events = [event];
    let short = whole(&refused(), &Journal(&events), Extent::Short);
    assert!(short.contains("14 more lines") && !short.contains("line 20"), "{short}");
    let full = whole(&refused(), &Journal(&events), Extent::Full);
    assert!(full.contains("line 20"), "{full}");
}

#[test]
fn the_whole_report_of_a_refused_run_has_every_section() {
    let said = whole(&refused(), &Journal(&[]), Extent::Short);
    for part in ["Run 0190  FAILED", "goal       Do it", "Verdict\n", "no_successful_command"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_paused_run_says_how_to_resume_it_and_requests_no_answer() {
    let mut run = v1::Run { id: "0190".to_owned(), ..v1::Run::default() };
    run.blocked = Some(v1::Blocked {
        waiting_on: v1::WaitingOn::Operator.into(),
        unblocks: "call ResumeRun; it was paused by caller".to_owned(),
        wait_id: "0191".to_owned(),
        ..v1::Blocked::default()
    });
    let wait = v1::Wait {
        run_id: "0190".to_owned(),
        waiting_on: v1::WaitingOn::Operator.into(),
        ..v1::Wait::default()
    };
    for said in [waits_for(&run), waits(&[wait])] {
        assert!(said.contains("surety resume 0190"), "{said}");
        assert!(!said.contains("surety answer"), "{said}");
    }
}

#[test]
fn a_verdict_of_a_round_shows_the_line_its_sandbox_its_time_and_its_last_lines() {
    let mut run = refused();
    if let Some(verdict) = &mut run.verdict {
        verdict.round = 2;
    }
    let command = v1::fact::Command {
        command: Some(v1::fact::command::Command::CommandLine("make test".to_owned())),
        exit_code: 2,
        ..Default::default()
    };
    let receipt = |round| v1::EvidenceReceipt {
        check_id: "tests-pass".to_owned(),
        round,
        call_id: "c1".to_owned(),
        sandbox: "full".to_owned(),
        started_at: Some(Timestamp { seconds: 0, nanos: 0 }),
        finished_at: Some(Timestamp { seconds: 1, nanos: 0 }),
        facts: vec![v1::Fact { fact: Some(v1::fact::Fact::Command(command.clone())) }],
        ..v1::EvidenceReceipt::default()
    };
    let text: Vec<_> = (1..=9).map(|line| format!("line {line}")).collect();
    let output = v1::OutputStored {
        call_id: "c1".to_owned(),
        text: Some(text.join("\n")),
        bytes: 1,
        ..v1::OutputStored::default()
    };
    let kinds = [Kind::Receipt(receipt(1)), Kind::Receipt(receipt(2)), Kind::Output(output)];
    let events = kinds.map(|kind| v1::Event { kind: Some(kind), ..v1::Event::default() });
    let said = whole(&run, &Journal(&events), Extent::Short);
    let expected = "Checks
  tests-pass  1.0 s, sandbox full
      command `make test` exit 2
      | line 5
      | line 6
      | line 7
      | line 8
      | line 9

Verdict";
    assert!(said.contains(expected) && said.contains("\n    round 2"), "{said}");
}

#[test]
fn what_is_to_be_accepted_is_shown_whole_with_its_digest_and_who_may_answer() {
    let caution = v1::Caution {
        code: "check_inputs_changed".to_owned(),
        check: "tests".to_owned(),
        detail: "changed t (test)".to_owned(),
    };
    let wait = v1::Wait {
        id: "0191".to_owned(),
        run_id: "0190".to_owned(),
        namespace: "default".to_owned(),
        waiting_on: v1::WaitingOn::Approver.into(),
        call_digest: "d1".to_owned(),
        acceptance: Some(v1::Acceptance {
            not_shown: "a.png is binary".to_owned(),
            cautions: vec![caution],
            ..v1::Acceptance::default()
        }),
        ..v1::Wait::default()
    };
    let said = acceptance(&wait, "--- a/t\n+++ b/t\n-x\u{1b}\n", Some(true));
    for part in [
        "+++ b/t\n-x\\u{1b}",
        "caution check_inputs_changed of tests: changed t (test)",
        "only be denied, because a.png is binary",
        "digest     d1",
        "not the run's creator",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let listed = waits(&[wait]);
    assert!(listed.contains("surety approve 0191") && listed.contains("surety deny 0191"));
}
