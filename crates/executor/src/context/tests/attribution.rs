//! Whose words a driver is shown: answers to its own questions, reports beside its calls, no hidden checks.

use super::*;
use surety_common::domain::check::{Author, read_checks};
use surety_common::domain::journal::Intent;
use surety_common::domain::json;

#[test]
fn an_answer_to_another_step_is_no_answer_to_the_question_of_this_one() {
    let asking =
        ExecuteDecision { speak: "Who are you?".to_owned(), ..decide(Action::AskUser, None) };
    let mut asked = Situation::default().turn(Some(asking), "").answer("repair", "bob");
    // Another step asks as well, and has a call approved.
    asked = asked.answer("report", "scarlet");
    let approval = EvidenceReceipt {
        source: EvidenceSource::Approval,
        ..receipt("confirm_call", "", &done("alice approved the call", ""))
    };
    let approval = EvidenceReceipt { step_id: "report".to_owned(), ..approval };
    asked.entries.push(Entry::Receipt(Box::new(approval)));
    asked.entries.push(said("approve"));
    let text = shown(&asked);
    assert!(text.contains("Answer of alice to your question:\nbob"), "{text}");
    assert!(!text.contains("scarlet") && !text.contains("approve"), "{text}");
}

#[test]
fn a_report_of_a_worker_stands_beside_the_drivers_own_observation() {
    let own = Done {
        success: false,
        facts: vec![exit(101)],
        ..done("cargo test: ended with 101", "no luck\n")
    };
    let mut situation = Situation::default().call("run_command", own);
    for number in 0..12 {
        situation = situation.report("compile", &format!("built part {number}"));
    }
    let text = shown(&situation);
    assert!(text.contains("run_command failed: cargo test: ended with 101"), "{text}");
    assert!(text.contains("no luck"), "{text}");
    let reports = "\n\nEarlier reports of workers that are not shown: 2.\n\
                   Report of ci on compile: success: built part 2\n";
    assert!(text.contains(reports), "{text}");
    assert!(text.contains("\nReport of ci on compile: success: built part 11\n\n"), "{text}");
}

#[test]
fn reports_of_workers_leave_the_window_to_the_calls() {
    let mut situation = Situation::default();
    for _ in 0..3 {
        situation = situation.call("glob", done("found", "a\n"));
    }
    for _ in 0..2 * TOOL_TURNS {
        situation = situation.report("compile", "built");
    }
    let events = latest_first(situation);
    assert!(!is_complete(&events[..events.len() - 6], "repair", 1), "the first turns are missing");
    assert!(is_complete(&events, "repair", 1));
}

#[test]
fn what_a_worker_answered_to_a_call_is_its_observation() {
    let turn = Situation::default().turn(Some(decide(Action::Continue, None)), "");
    let call_id = Uuid::from_u128(77);
    let mut entries = turn.entries;
    entries.push(Entry::Intent(Intent {
        step_id: "repair".to_owned(),
        call_id,
        tool: "deploy".to_owned(),
        arguments_json: "{}".to_owned(),
    }));
    let answer = receipt("deploy", &call_id.to_string(), &done("deployed it", ""));
    entries.push(Entry::Receipt(Box::new(answer.in_words_of("ci"))));
    let situation = Situation { entries, ..Situation::default() };
    let text = shown(&situation);
    assert!(text.contains("Observation of turn 1:\ndeploy succeeded: deployed it"), "{text}");
    let mut events = latest_first(situation);
    events.truncate(2);
    assert!(!is_complete(&events, "repair", 1), "its turn is not among them");
}

#[test]
fn a_hidden_check_of_the_step_is_shown_nowhere() {
    let checks = json::parse(
        r#"[{"id": "exam", "kind": "command_success", "target": "sh exam.sh", "overlay_digest": "d"},
            {"id": "tests", "kind": "command_success", "target": "make test"}]"#,
    );
    let (checks, _) = read_checks(&checks.unwrap().value, "verify", Author::Submitter).unwrap();
    let text = shown(&Situation { checks, ..Situation::default() });
    assert!(text.contains("It must hold at the end of the step: command_success make test"));
    assert!(!text.contains("exam"), "{text}");
}

#[test]
fn a_repair_keeps_its_hint_and_the_checks_of_the_run_behind_its_first_turn() {
    let checks = json::parse(
        r#"[{"id": "exam", "kind": "command_success", "target": "sh exam.sh", "overlay_digest": "d"},
            {"id": "tests", "kind": "command_success", "target": "make test"},
            {"kind": "content_contains", "target": "a.txt", "params": {"contains": "42"}}]"#,
    );
    let (accepted, _) = read_checks(&checks.unwrap().value, "verify", Author::Submitter).unwrap();
    let hint = "The verdict on your work was refused. Repair what failed: tests needs `make test`";
    let repaired = Situation { hint, accepted, ..Situation::default() };
    let text = shown(&repaired.call("read_file", done("read src/a.rs", "fn a() {}\n")));
    assert!(text.contains(hint), "{text}");
    assert!(text.contains("The run is accepted when: command_success make test (of the user)"));
    let contains =
        r#"The run is accepted when: content_contains a.txt contains="42" (of the user)"#;
    assert!(text.contains(contains), "{text}");
    assert!(!text.contains("exam"), "{text}");
}

#[test]
fn earlier_answers_of_the_run_are_shown_where_no_turn_shows_them() {
    let given = |wait: u128, step_id: &str, question: &str, answer: &str| GivenAnswer {
        wait_id: Uuid::from_u128(wait),
        step_id: step_id.to_owned(),
        question: question.to_owned(),
        answer: answer.to_owned(),
        by: "alice".to_owned(),
    };
    let asking =
        ExecuteDecision { speak: "Which crate?".to_owned(), ..decide(Action::AskUser, None) };
    let asked = Situation::default().turn(Some(asking), "").answer("repair", "the parser");
    let answers = vec![
        given(6, "design", "Which database?", "Postgres 17"),
        // The answer to the turn that is shown.
        given(7, "repair", "Which crate?", "the parser"),
    ];
    let text = shown(&Situation { answers, ..asked });
    let earlier =
        "\nEarlier question of step design: Which database?\nAnswer of alice: Postgres 17\n";
    assert!(text.contains(earlier), "{text}");
    assert!(!text.contains("Earlier question of step repair"), "{text}");
    assert!(text.contains("Answer of alice to your question:\nthe parser"), "{text}");
}

#[test]
fn limits_that_are_near_are_told() {
    let left =
        Left { rounds: 57, tool_calls: 20, run_rounds: 500, corrections: 3, ..Left::default() };
    assert_eq!(left.text(), "Left in this attempt: 57 turns, 20 tool calls.");
    let near = Left { run_rounds: 2, corrections: 1, tokens: Some(900), ..left };
    assert_eq!(
        near.text(),
        "Left in this attempt: 57 turns, 20 tool calls. Left in the whole run: 2 turns. One more refused decision ends \
         the run. Left of the run's token budget: 900."
    );
}

#[test]
fn long_texts_of_earlier_turns_are_cut_and_those_of_the_last_one_are_whole() {
    let saying = |text: &str| ExecuteDecision {
        speak: text.repeat(10_000),
        ..decide(Action::Continue, None)
    };
    let correction = format!("Correction. {}", "why ".repeat(5000));
    let situation = Situation::default()
        .turn(Some(saying("first ")), &correction)
        .turn(Some(saying("last ")), &correction);
    let text = shown(&situation);
    assert!(!text.contains(&"first ".repeat(1000)) && text.contains("60000 bytes in all"));
    assert!(text.contains(&"last ".repeat(10_000)));
    assert_eq!(text.matches(&correction).count(), 1, "that of the last turn is whole");
}
