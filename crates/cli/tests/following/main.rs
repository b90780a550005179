//! Following a run over an unreliable service: the real binary watches a real server on a real
//! port, whose journal the test writes.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[cfg(target_os = "linux")]
mod panics;
mod scripted;

use std::process::Output;
use std::time::Duration;

use prost_types::Timestamp;
use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;

use scripted::{Scripted, serve};

const RUN: &str = "01900000-0000-7000-8000-000000000001";
const PATIENCE: Duration = Duration::from_secs(60);

fn state(sequence: u64, to: v1::RunState) -> v1::Event {
    v1::Event {
        sequence,
        at: Some(Timestamp { seconds: 1, nanos: 0 }),
        kind: Some(Kind::Transition(v1::Transition {
            subject: Some(v1::transition::Subject::RunId(RUN.to_owned())),
            run_from: v1::RunState::Intake.into(),
            run_to: to.into(),
            event: "moved".to_owned(),
            ..v1::Transition::default()
        })),
        ..v1::Event::default()
    }
}

fn run_in(state: v1::RunState) -> v1::Run {
    let mut run = v1::Run { id: RUN.to_owned(), ..v1::Run::default() };
    run.set_state(state);
    run
}

fn ended(state: v1::RunState) -> v1::Run {
    let mut run = run_in(state);
    run.terminal = Some(v1::Terminal { status: state.into(), ..v1::Terminal::default() });
    run
}

/// `surety watch`, against this run.
async fn watch(scripted: Scripted, words: &[&str]) -> Output {
    let (url, serving) = serve(scripted).await;
    let nowhere = tempfile::tempdir().expect("a folder");
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_surety"))
        .args([&["watch", RUN, "--url", &url], words].concat())
        .env_remove("SURETY_TOKEN_FILE")
        .env("SURETY_DATA_DIR", nowhere.path())
        .output()
        .await
        .expect("surety watch");
    serving.abort();
    output
}

fn sequences(output: &Output) -> Vec<u64> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

#[tokio::test]
async fn a_lost_connection_is_resumed_after_the_last_event_without_a_gap_or_a_repeat() {
    let mut events: Vec<_> =
        (1..=7).map(|sequence| state(sequence, v1::RunState::Executing)).collect();
    events.push(state(8, v1::RunState::Done));
    let run = ended(v1::RunState::Done);
    let scripted = Scripted { run, events, breaks_after: 3, hold: None };
    let output = watch(scripted, &[]).await;
    assert_eq!(sequences(&output), (1..=8).collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the connection was lost"), "{said}");
}

#[tokio::test]
async fn a_run_that_waits_for_a_user_ends_the_following_without_a_terminal() {
    let cases = [(v1::WaitingOn::User, Some(4)), (v1::WaitingOn::Approver, Some(4))];
    for (waiting_on, code) in cases {
        let mut run = run_in(v1::RunState::Blocked);
        run.last_sequence = 2;
        run.blocked = Some(v1::Blocked {
            waiting_on: waiting_on.into(),
            question: "Shall I?".to_owned(),
            ..v1::Blocked::default()
        });
        let events = vec![state(1, v1::RunState::Executing), state(2, v1::RunState::Blocked)];
        let scripted = Scripted { run, events, breaks_after: 9, hold: None };
        let output = watch(scripted, &[]).await;
        assert_eq!(output.status.code(), code, "{waiting_on:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("Shall I?") && said.contains("surety cancel"), "{said}");
    }
}

/// The server ends each stream, so a client that misses the wait connects again and again.
#[tokio::test]
async fn a_run_that_waited_before_the_first_event_asked_for_ends_the_following_as_well() {
    for (from, shown) in [("2", vec![2, 3]), ("3", vec![3]), ("4", vec![]), ("99", vec![])] {
        let mut run = run_in(v1::RunState::Blocked);
        run.last_sequence = 3;
        run.blocked =
            Some(v1::Blocked { waiting_on: v1::WaitingOn::User.into(), ..v1::Blocked::default() });
        let events = vec![
            state(1, v1::RunState::Executing),
            state(2, v1::RunState::Blocked),
            v1::Event { sequence: 3, ..v1::Event::default() },
        ];
        let scripted = Scripted { run, events, breaks_after: 9, hold: None };
        let words = ["--from", from];
        let watching = watch(scripted, &words);
        let output = tokio::time::timeout(PATIENCE, watching).await.expect("an end in time");
        assert_eq!(output.status.code(), Some(4), "{from}");
        let seen = sequences(&output);
        assert!(seen.iter().all(|sequence| shown.contains(sequence)), "{from}: {seen:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("the connection was lost"), "{from}: {said}");
    }
}

#[tokio::test]
async fn a_wait_that_was_answered_long_ago_does_not_end_the_following() {
    let events = vec![
        state(1, v1::RunState::Blocked),
        state(2, v1::RunState::Executing),
        state(3, v1::RunState::Cancelled),
    ];
    let run = ended(v1::RunState::Cancelled);
    let scripted = Scripted { run, events, breaks_after: 9, hold: None };
    let output = watch(scripted, &["--from", "1"]).await;
    assert_eq!((output.status.code(), sequences(&output)), (Some(3), vec![1, 2, 3]));
}
