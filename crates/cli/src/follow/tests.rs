//! What the live view shows, and what its keys do.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use prost_types::Timestamp;
use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;
use surety_common::wire::v1::transition::Subject;

use super::keys::{Act, Asked, Prompt};
use super::page::{Page, ended, page};
use super::view::RunView;
use crate::answering::Way;

const WIDE: (u16, u16) = (100, 24);

fn at(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds, nanos: 0 })
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(75, 0).unwrap()
}

fn event(sequence: u64, seconds: i64, kind: Kind) -> v1::Event {
    v1::Event { sequence, at: at(seconds), kind: Some(kind), ..v1::Event::default() }
}

fn moved(id: &str, to: v1::StepState) -> Kind {
    Kind::Transition(v1::Transition {
        subject: Some(Subject::StepId(id.to_owned())),
        step_to: to.into(),
        ..v1::Transition::default()
    })
}

fn run() -> v1::Run {
    let mut run = v1::Run {
        id: "01900000-0000-7000-8000-000000000001".to_owned(),
        goal: "repair the\u{1b}[31m parser".to_owned(),
        plan_revision: 1,
        created_at: at(0),
        limits: Some(v1::Limits { token_budget: Some(10_000), ..v1::Limits::default() }),
        counters: Some(v1::RunCounters {
            rounds: 7,
            tool_calls: 1,
            tokens: 1_234,
            reserved_tokens: 500,
            cost_micros: 42,
            ..v1::RunCounters::default()
        }),
        ..v1::Run::default()
    };
    run.set_state(v1::RunState::Executing);
    run
}

fn plan() -> v1::Plan {
    let step = |id: &str, description: &str, needs: &[&str]| v1::PlanStep {
        id: id.to_owned(),
        description: description.to_owned(),
        dependencies: needs.iter().map(|it| (*it).to_owned()).collect(),
        ..v1::PlanStep::default()
    };
    v1::Plan {
        title: "Repair".to_owned(),
        steps: vec![
            step("read", "read the code", &[]),
            step("edit", "change the parser", &["read"]),
            step("test", "write a test", &["read"]),
            step("check", "run all tests", &["edit", "test"]),
        ],
        ..v1::Plan::default()
    }
}

/// A run with a step that is done, one at work, and two that wait for their turn.
fn at_work(waits: Vec<v1::Wait>) -> RunView {
    let mut view = RunView::of(&run());
    view.read(run(), Some(plan()), waits);
    let receipt = |step: &str, name: &str, summary: &str| {
        Kind::Receipt(v1::EvidenceReceipt {
            step_id: step.to_owned(),
            name: name.to_owned(),
            summary: summary.to_owned(),
            success: true,
            ..v1::EvidenceReceipt::default()
        })
    };
    let said = v1::ExecuteDecision {
        speak: "I change the branch that reads a quoted name".to_owned(),
        ..v1::ExecuteDecision::default()
    };
    let turn = v1::Turn { step_id: "edit".to_owned(), decision: Some(said), ..v1::Turn::default() };
    for (sequence, (seconds, kind)) in (1..).zip([
        (1, moved("read", v1::StepState::Running)),
        (2, receipt("read", "read_file", "120 lines")),
        (4, moved("read", v1::StepState::Done)),
        (5, moved("edit", v1::StepState::Running)),
        (6, Kind::Turn(turn)),
        (7, receipt("edit", "edit_file", "1 place\u{202e}")),
    ]) {
        view.take(&event(sequence, seconds, kind));
    }
    view
}

fn confirmation(id: &str, arguments: &str) -> v1::Wait {
    let mut wait = v1::Wait {
        id: id.to_owned(),
        step_id: "edit".to_owned(),
        call_digest: "d".repeat(8),
        tool_call: Some(v1::ToolCall {
            name: "write_file".to_owned(),
            arguments_json: arguments.to_owned(),
        }),
        ..v1::Wait::default()
    };
    wait.set_kind(v1::WaitKind::Confirmation);
    wait.set_waiting_on(v1::WaitingOn::Approver);
    wait
}

fn question() -> v1::Wait {
    let mut wait = v1::Wait {
        id: "q".to_owned(),
        question: "which branch?".to_owned(),
        choices: vec!["main".to_owned(), "next".to_owned()],
        ..v1::Wait::default()
    };
    wait.set_kind(v1::WaitKind::Question);
    wait.set_waiting_on(v1::WaitingOn::User);
    wait
}

fn text(page: &Page) -> String {
    page.lines
        .iter()
        .map(|line| format!("{:<6} {}", format!("{:?}", line.style), line.text))
        .collect::<Vec<_>>()
        .join("\n")
}

/// A page whose question was on it for a second.
fn read(view: &RunView, prompt: &mut Prompt, size: (u16, u16)) -> Page {
    let began = Instant::now();
    for later in [Duration::ZERO, Duration::from_secs(1)] {
        let drawn = page(view, prompt, size, now());
        prompt.shown(drawn.shows_end, drawn.most_scroll, began + later);
    }
    page(view, prompt, size, now())
}

fn press(prompt: &mut Prompt, view: &RunView, code: KeyCode) -> Option<Act> {
    prompt.press(view, KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn a_run_at_work_shows_its_plan_the_words_of_its_driver_and_its_budgets() {
    insta::assert_snapshot!(text(&page(&at_work(Vec::new()), &Prompt::default(), WIDE, now())));
}

#[test]
fn words_that_arrive_and_reports_of_workers_stand_at_their_step() {
    let mut words = v1::Wait {
        id: "w".to_owned(),
        step_id: "edit".to_owned(),
        progress: "I look at the next\u{7} branch".to_owned(),
        ..v1::Wait::default()
    };
    words.set_kind(v1::WaitKind::Decision);
    words.set_waiting_on(v1::WaitingOn::Driver);
    insta::assert_snapshot!(text(&page(&at_work(vec![words]), &Prompt::default(), WIDE, now())));
}

#[test]
fn a_confirmation_is_shown_whole_with_its_keys() {
    let wait = confirmation("c", r#"{"path": "a.txt"}"#);
    let view = at_work(vec![wait.clone()]);
    let mut prompt = Prompt::default();
    assert_eq!(prompt.turn_to(&view), Some(wait));
    let asked = "write_file {\"path\": \"a.txt\"}\n  digest     dddddddd".to_owned();
    prompt.asked = Some(Asked { wait_id: "c".to_owned(), text: asked, is_whole: true });
    insta::assert_snapshot!(text(&read(&view, &mut prompt, WIDE)));
}

#[test]
fn a_call_is_approved_only_after_its_end_was_on_the_page() {
    let view = at_work(vec![confirmation("c", "{}")]);
    let mut prompt = Prompt::default();
    prompt.turn_to(&view);
    assert_eq!(press(&mut prompt, &view, KeyCode::Char('a')), None, "nothing was read");
    let lines: Vec<_> = (1..=40).map(|n| format!("line {n}")).collect();
    let text = lines.join("\n");
    prompt.asked = Some(Asked { wait_id: "c".to_owned(), text, is_whole: true });
    let drawn = read(&view, &mut prompt, WIDE);
    assert!(!drawn.shows_end && drawn.most_scroll > 0);
    assert_eq!(press(&mut prompt, &view, KeyCode::Char('a')), None, "its end was not shown");
    for _ in 0..10 {
        press(&mut prompt, &view, KeyCode::PageDown);
    }
    assert!(read(&view, &mut prompt, WIDE).shows_end);
    let act = press(&mut prompt, &view, KeyCode::Char('a'));
    let Some(Act::Resolve(wait, v1::ConfirmationAnswer::Approve)) = act else { panic!("{act:?}") };
    assert_eq!((wait.id.as_str(), wait.call_digest.as_str()), ("c", "dddddddd"));
}

#[test]
fn a_key_for_one_question_never_answers_another() {
    let first = at_work(vec![confirmation("c", "{}")]);
    let mut prompt = Prompt::default();
    prompt.turn_to(&first);
    let asked =
        |id: &str| Some(Asked { wait_id: id.to_owned(), text: "x".to_owned(), is_whole: true });
    prompt.asked = asked("c");
    read(&first, &mut prompt, WIDE);
    let second = at_work(vec![confirmation("d", "{}")]);
    assert_eq!(press(&mut prompt, &second, KeyCode::Char('a')), None, "it was not shown at all");
    prompt.turn_to(&second);
    prompt.asked = asked("d");
    let drawn = page(&second, &prompt, WIDE, now());
    prompt.shown(drawn.shows_end, drawn.most_scroll, Instant::now());
    assert_eq!(press(&mut prompt, &second, KeyCode::Char('a')), None, "it was shown a moment ago");
    read(&second, &mut prompt, WIDE);
    assert!(press(&mut prompt, &second, KeyCode::Char('d')).is_some());
}

#[test]
fn what_could_not_be_read_cannot_be_approved() {
    let view = at_work(vec![confirmation("c", "{}")]);
    let mut prompt = Prompt::default();
    prompt.turn_to(&view);
    let text = "error[internal]: the call is not the one".to_owned();
    prompt.asked = Some(Asked { wait_id: "c".to_owned(), text, is_whole: false });
    read(&view, &mut prompt, WIDE);
    assert_eq!(press(&mut prompt, &view, KeyCode::Char('a')), None);
}

#[test]
fn an_answer_is_typed_and_sent_to_the_question_that_was_shown() {
    let view = at_work(vec![question()]);
    let mut prompt = Prompt::default();
    assert_eq!(prompt.turn_to(&view), None, "a question needs no further reading");
    for key in ['t', 'm', 'a', 'x'] {
        assert_eq!(press(&mut prompt, &view, KeyCode::Char(key)), None);
    }
    press(&mut prompt, &view, KeyCode::Backspace);
    insta::assert_snapshot!(text(&page(&view, &prompt, WIDE, now())));
    let sent = press(&mut prompt, &view, KeyCode::Enter);
    assert_eq!(sent, Some(Act::Answer(Box::new(question()), "ma".to_owned())));
    press(&mut prompt, &view, KeyCode::Char('t'));
    prompt.turn_to(&at_work(Vec::new()));
    assert_eq!(prompt.typed, None, "what was typed for a question is not kept for another");
}

#[test]
fn a_wait_for_a_budget_says_which_one_and_what_the_next_reply_needs() {
    let mut wait = v1::Wait {
        id: "b".to_owned(),
        step_id: "edit".to_owned(),
        unblocks: "call ExtendBudget with more, or with stop".to_owned(),
        question: "token_budget (5000) has too little left for the next reply of the model, which needs 12192: 900 are \
                   used"
            .to_owned(),
        ..v1::Wait::default()
    };
    wait.set_kind(v1::WaitKind::Budget);
    wait.set_waiting_on(v1::WaitingOn::User);
    let view = at_work(vec![wait]);
    let mut prompt = Prompt::default();
    prompt.turn_to(&view);
    assert_eq!(press(&mut prompt, &view, KeyCode::Char('s')), None, "it was not shown yet");
    let shown = text(&read(&view, &mut prompt, WIDE));
    for said in ["token_budget (5000)", "needs 12192", "[e] double the budgets", "[s] stop the run"]
    {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    assert_eq!(press(&mut prompt, &view, KeyCode::Char('s')), Some(Act::End));
    assert_eq!(press(&mut prompt, &view, KeyCode::Char('e')), Some(Act::Extend));
}

#[test]
fn a_run_is_paused_resumed_and_left() {
    let mut paused = v1::Wait { id: "p".to_owned(), ..v1::Wait::default() };
    paused.set_kind(v1::WaitKind::Resume);
    paused.set_waiting_on(v1::WaitingOn::Operator);
    let mut prompt = Prompt::default();
    let (working, paused) = (at_work(Vec::new()), at_work(vec![paused]));
    assert_eq!(press(&mut prompt, &working, KeyCode::Char('p')), Some(Act::Control(Way::Pause)));
    assert_eq!(press(&mut prompt, &working, KeyCode::Char('r')), None);
    assert_eq!(press(&mut prompt, &paused, KeyCode::Char('r')), Some(Act::Control(Way::Resume)));
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(prompt.press(&working, interrupt), Some(Act::Leave));
    assert_eq!(press(&mut prompt, &working, KeyCode::Char('q')), Some(Act::Leave));
}

#[test]
fn every_page_fits_its_terminal_and_ends_with_the_keys() {
    let view = at_work(vec![question()]);
    for (width, height) in [(1, 1), (7, 3), (20, 5), (40, 9), (80, 24), (300, 100)] {
        let drawn = page(&view, &Prompt::default(), (width, height), now());
        assert!(drawn.lines.len() <= usize::from(height), "{width} x {height}: {drawn:?}");
        let last = drawn.lines.last().map(|line| line.text.chars().next());
        assert_eq!(last, Some(Some(if width == 1 { '…' } else { '[' })), "{width} x {height}");
        let control = |line: &super::page::Line| line.text.chars().any(char::is_control);
        assert!(!drawn.lines.iter().any(control));
    }
}

#[test]
fn a_long_plan_is_cut_around_the_step_at_work() {
    let steps = (0..60).map(|n| v1::PlanStep { id: format!("s{n}"), ..v1::PlanStep::default() });
    let plan = v1::Plan { title: "Long".to_owned(), steps: steps.collect(), ..v1::Plan::default() };
    let mut view = RunView::of(&run());
    view.read(run(), Some(plan), Vec::new());
    view.take(&event(1, 1, moved("s30", v1::StepState::Running)));
    let drawn = text(&page(&view, &Prompt::default(), WIDE, now()));
    assert!(drawn.contains("s30") && drawn.contains("s31") && !drawn.contains("s40 "), "{drawn}");
}

#[test]
fn a_read_that_is_older_than_the_last_event_says_nothing_of_states() {
    let mut view = at_work(Vec::new());
    let mut old = run();
    old.last_sequence = 2;
    old.steps = vec![v1::StepProgress { id: "read".to_owned(), ..v1::StepProgress::default() }];
    view.take(&event(7, 8, moved("edit", v1::StepState::Done)));
    view.read(old, None, Vec::new());
    let states: Vec<_> = view.steps.iter().map(|step| step.state).take(2).collect();
    assert_eq!(states, [v1::StepState::Done, v1::StepState::Done]);
}

#[test]
fn the_plan_stays_on_the_terminal_at_the_end() {
    let mut view = at_work(Vec::new());
    let mut done = run();
    done.set_state(v1::RunState::Done);
    done.updated_at = at(65);
    let mut terminal = v1::Terminal::default();
    terminal.set_stop_reason(v1::StopReason::Accepted);
    (done.terminal, done.last_sequence) = (Some(terminal), 9);
    view.read(done, None, Vec::new());
    let lines = ended(&view, 100, now());
    insta::assert_snapshot!(text(&Page { lines, shows_end: false, most_scroll: 0 }));
}
