//! What a driver is shown, in a dozen situations, each as one golden file.

mod attribution;

use super::*;
use chrono::DateTime;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use surety_common::domain::check::AcceptCheck;
use surety_common::domain::confirmation::{AnsweredAt, reply_receipt};
use surety_common::domain::decision::{Action, ExecuteDecision, Usage, UsageSource};
use surety_common::domain::execution::GivenAnswer;
use surety_common::domain::journal::{Actor, Answer, Entry, Event, Output, Turn};
use surety_common::domain::json::Value;
use surety_common::domain::messages::Normal;
use surety_common::domain::plan::{Evidence, Plan, PlanStep, ToolCall};
use surety_common::domain::receipt::{Command, EvidenceReceipt, EvidenceSource, Fact};
use surety_common::domain::step::StepState;
use surety_common::domain::todo::{Todo, TodoStatus};
use uuid::Uuid;

/// One situation: the events of a run, and what the row says besides.
#[derive(Default)]
struct Situation {
    entries: Vec<Entry>,
    called: BTreeMap<String, u32>,
    notice: &'static str,
    hint: &'static str,
    /// The checks of the run.
    accepted: Vec<AcceptCheck>,
    /// The todos that drivers made.
    todos: Vec<Todo>,
    /// The step's own checks.
    checks: Vec<AcceptCheck>,
    /// What people answered in the run.
    answers: Vec<GivenAnswer>,
    left: Left,
}

impl Situation {
    fn turn(mut self, decision: Option<ExecuteDecision>, correction: &str) -> Self {
        let turns = self.entries.iter().filter(|entry| matches!(entry, Entry::Turn(_))).count();
        self.entries.push(Entry::Turn(Box::new(Turn {
            step_id: "repair".to_owned(),
            attempt: 1,
            number: u32::try_from(turns + 1).unwrap(),
            decision,
            validations: Vec::new(),
            warnings: Vec::new(),
            correction: correction.to_owned(),
            usage: Usage::default(),
            usage_source: UsageSource::Free,
            reply: None,
            end: None,
        })));
        self
    }

    /// An answer of alice to the question of a step.
    fn answer(mut self, step_id: &str, text: &str) -> Self {
        let at = AnsweredAt {
            step_index: 0,
            step_id,
            plan_revision: 1,
            wait_id: Uuid::from_u128(7),
            at: DateTime::from_timestamp(1_700_000_000, 0).unwrap(),
        };
        self.entries.push(Entry::Receipt(Box::new(reply_receipt(("alice", text), "digest", at))));
        self.entries.push(said(text));
        self
    }

    /// A report of the worker `ci` about the step.
    fn report(mut self, tool: &str, summary: &str) -> Self {
        let call_id = Uuid::from_u128(1000 + self.entries.len() as u128).to_string();
        let receipt = receipt(tool, &call_id, &done(summary, "")).reported_by("ci");
        self.entries.push(Entry::Receipt(Box::new(receipt)));
        self
    }

    /// A turn with a call, what it recorded, and its output.
    fn call(self, tool: &str, done: Done<'_>) -> Self {
        let arguments = Value::Object(vec![("n".to_owned(), Value::String(done.said.to_owned()))]);
        let call = ToolCall { name: tool.to_owned(), arguments };
        let mut next = self.turn(Some(decide(Action::Continue, Some(call))), "");
        let call_id = Uuid::from_u128(next.entries.len() as u128).to_string();
        *next.called.entry(tool.to_owned()).or_default() += 1;
        next.entries.push(Entry::Receipt(Box::new(receipt(tool, &call_id, &done))));
        if let Some(text) = done.output {
            next.entries.push(Entry::Output(Output {
                call_id,
                digest: "d".repeat(64),
                bytes: text.len() as u64,
                text: Some(text),
            }));
        }
        next
    }
}

fn said(text: &str) -> Entry {
    let (by, text) = (Actor("alice".into()), text.to_owned());
    Entry::Answer(Answer { wait_id: Uuid::from_u128(7), by, text })
}

struct Done<'a> {
    success: bool,
    said: &'a str,
    facts: Vec<Fact>,
    output: Option<String>,
}

fn done<'a>(said: &'a str, output: &str) -> Done<'a> {
    let output = (!output.is_empty()).then(|| output.to_owned());
    Done { success: true, said, facts: Vec::new(), output }
}

fn receipt(tool: &str, call_id: &str, done: &Done<'_>) -> EvidenceReceipt {
    let at = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
    EvidenceReceipt {
        step_index: 0,
        step_id: "repair".to_owned(),
        source: EvidenceSource::ToolObservation,
        name: tool.to_owned(),
        success: done.success,
        summary: done.said.to_owned(),
        facts: done.facts.clone(),
        call_id: call_id.to_owned(),
        started_at: Some(at),
        finished_at: Some(at),
        plan_revision: 1,
        seq: 0,
        probe_of: None,
        arguments_digest: String::new(),
        output_digest: String::new(),
        sandbox: String::new(),
        prev_digest: String::new(),
        digest: String::new(),
    }
}

fn decide(action: Action, tool_call: Option<ToolCall>) -> ExecuteDecision {
    ExecuteDecision {
        speak: String::new(),
        action,
        reason: "it is the next thing".to_owned(),
        goal_check: String::new(),
        tool_call,
        abort: None,
        answer_schema: None,
    }
}

fn plan() -> Plan {
    let step = |id: &str, description: &str| PlanStep {
        id: id.to_owned(),
        description: description.to_owned(),
        ..PlanStep::default()
    };
    let repair = PlanStep {
        done_when: "the tests pass".to_owned(),
        write_scope: vec!["src/**".to_owned()],
        ..step("repair", "repair the parser")
    };
    let report = PlanStep { evidence: Evidence::None, ..step("report", "say what was done") };
    let todo = todo("t1", "add a test", TodoStatus::Pending);
    let (title, goal) = ("Repair".to_owned(), String::new());
    Plan { title, goal, steps: vec![repair, report], verify: Vec::new(), todos: vec![todo] }
}

fn todo(id: &str, content: &str, status: TodoStatus) -> Todo {
    Todo {
        id: id.to_owned(),
        content: content.to_owned(),
        required: true,
        status,
        dependencies: Vec::new(),
        replaces: Vec::new(),
        created_at: None,
    }
}

/// The messages as one text.
fn shown(situation: &Situation) -> String {
    let mut plan = plan();
    plan.steps[0].verify.clone_from(&situation.checks);
    plan.verify.clone_from(&situation.accepted);
    let events: Vec<Event> = (1..)
        .zip(&situation.entries)
        .map(|(sequence, entry)| Event {
            sequence,
            at: DateTime::from_timestamp(1_700_000_000, 0).unwrap(),
            span_id: None,
            entry: entry.clone(),
        })
        .collect();
    let turns = turns(&events, "repair", 1);
    let observations: HashMap<String, String> = turns
        .iter()
        .filter_map(|turn| {
            let receipt = turn.receipt.as_ref()?;
            let text = turn.output.as_ref().and_then(|output| output.text.as_deref());
            Some((receipt.call_id.clone(), observation(receipt, turn.output.as_ref(), text).text))
        })
        .collect();
    let tools = [ToolLine {
        name: "read_file".to_owned(),
        description: "Reads a file.".to_owned(),
        schema: r#"{"type":"object"}"#.to_owned(),
        sample: "the text of the file".to_owned(),
        is_confirmed: false,
        is_from_outside: false,
    }];
    let rounds = u32::try_from(turns.len()).unwrap();
    let Normal { messages, .. } = messages(&Scene {
        rules: STEP_PROMPT.text.trim(),
        goal: "all tests pass",
        plan: &plan,
        todos: &[plan.todos.clone(), situation.todos.clone()].concat(),
        states: &[StepState::Waiting, StepState::Pending],
        step: &plan.steps[0],
        tools: &tools,
        turns: &turns,
        observations: &observations,
        called: &situation.called,
        notice: situation.notice,
        hint: situation.hint,
        answers: &situation.answers,
        left: Left {
            rounds: 60 - rounds,
            tool_calls: 24 - situation.called.values().sum::<u32>(),
            run_rounds: 500,
            corrections: 3,
            ..situation.left
        },
    });
    assert_eq!(messages[0].role, Role::System, "the system message is first");
    for (pair, turn) in messages[1..].iter().zip([Role::User, Role::Assistant].iter().cycle()) {
        assert_eq!(pair.role, *turn, "user and assistant by turns");
    }
    assert_eq!(messages.last().unwrap().role, Role::User, "the driver has the next word");
    let mut text = String::new();
    for message in &messages[1..] {
        writeln!(text, "=== {:?}\n{}", message.role, message.text).unwrap();
    }
    text
}

fn exit(code: i32) -> Fact {
    let command = Command::Argv(vec!["cargo".to_owned(), "test".to_owned()]);
    Fact::Command { command, exit_code: code, conditions: None }
}

fn long_output() -> String {
    let line = |number: usize| match number {
        500 => "error[E0308]: mismatched types\n".to_owned(),
        900 => "thread 'a' panicked at src/lib.rs:9\n".to_owned(),
        number => format!("compiling crate number {number}\n"),
    };
    (1..=1000).map(line).collect()
}

#[test]
fn the_first_turn() {
    insta::assert_snapshot!(shown(&Situation::default()));
}

#[test]
fn the_system_message_has_rules_format_and_tools() {
    let sorted = [("b", ""), ("a", "x")].map(|(name, sample)| ToolLine {
        name: name.to_owned(),
        description: format!("does {name}"),
        schema: "{}".to_owned(),
        sample: sample.to_owned(),
        is_confirmed: false,
        is_from_outside: false,
    });
    insta::assert_snapshot!(super::system::system(STEP_PROMPT.text.trim(), &sorted));
}

#[test]
fn todos_that_a_driver_made_and_finished() {
    let situation = Situation::default()
        .call(
            "todo",
            done(
                "added t2, t3; 3 open of 3 todos",
                "t1 [pending] add a test\nt2 [pending] find the fault\n",
            ),
        )
        .call(
            "todo",
            done("t2 is completed; 2 open of 3 todos", "t2 [completed] find the fault\n"),
        );
    let made = [("t2", TodoStatus::Completed), ("t3", TodoStatus::InProgress)];
    let todos = made.map(|(id, status)| todo(id, "find the fault", status)).to_vec();
    insta::assert_snapshot!(shown(&Situation { todos, ..situation }));
}

#[test]
fn a_part_of_an_output_that_was_read_by_its_handle() {
    let said = "read lines 101 to 102 of an output of 9000 bytes; go on with from_line 103";
    insta::assert_snapshot!(shown(
        &Situation::default()
            .call("run_command", Done { output: Some(long_output()), ..done("ran cargo test", "") })
            .call("read_output", done(said, "line 101\nline 102\n"))
    ));
}

#[test]
fn a_file_that_was_read() {
    insta::assert_snapshot!(shown(
        &Situation::default().call("read_file", done("read src/a.rs", "fn a() {}\n"))
    ));
}

#[test]
fn files_that_were_written() {
    let written = |path: &str, before: Option<&str>, after: Option<&str>| Fact::FileWritten {
        path: path.to_owned(),
        before_digest: before.map(str::to_owned),
        after_digest: after.map(str::to_owned),
    };
    let facts = vec![
        written("src/a.rs", Some("1"), Some("2")),
        written("src/b.rs", None, Some("3")),
        written("src/c.rs", Some("4"), None),
        written("src/d.rs", Some("5"), Some("5")),
    ];
    let done = Done { facts, ..done("changed four files", "") };
    insta::assert_snapshot!(shown(&Situation::default().call("run_command", done)));
}

#[test]
fn a_command_that_failed_with_a_long_output() {
    let done = Done {
        success: false,
        said: "cargo test: ended with 101",
        facts: vec![exit(101)],
        output: Some(long_output()),
    };
    insta::assert_snapshot!(shown(&Situation::default().call("run_command", done)));
}

#[test]
fn a_refused_decision_and_its_correction() {
    let correction = "Correction, no user input. Your last reply was refused: unknown_tool.";
    let call = ToolCall { name: "fly".to_owned(), arguments: Value::Object(Vec::new()) };
    let refused = Situation { notice: correction, ..Situation::default() };
    let decision = Some(decide(Action::Continue, Some(call)));
    insta::assert_snapshot!(shown(&refused.turn(decision, correction)));
}

#[test]
fn a_reply_without_a_decision_and_its_reminder() {
    let reminder = "Reminder, no user input. Reply with one decision.";
    let silent = Situation { notice: reminder, ..Situation::default() };
    insta::assert_snapshot!(shown(&silent.turn(None, reminder)));
}

#[test]
fn a_question_and_its_answer() {
    let asking =
        ExecuteDecision { speak: "Which crate?".to_owned(), ..decide(Action::AskUser, None) };
    let asked = Situation::default().turn(Some(asking), "").answer("repair", "the parser");
    insta::assert_snapshot!(shown(&asked));
}

#[test]
fn a_turn_without_a_call() {
    insta::assert_snapshot!(shown(
        &Situation::default().turn(Some(decide(Action::Continue, None)), "")
    ));
}

#[test]
fn of_each_tool_only_the_newest_observation_is_whole() {
    let situation = Situation::default()
        .call("read_file", done("read src/a.rs", "the old text of a\n"))
        .call("glob", done("found 1 file", "src/a.rs\n"))
        .call("read_file", done("read src/b.rs", "the text of b\n"));
    let text = shown(&situation);
    assert!(!text.contains("the old text of a"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn turns_before_the_last_eight_calls_are_counted_by_tool() {
    let mut situation = Situation::default();
    for number in 0..6 {
        let (a, b) = (format!("read number {number}"), format!("found number {number}"));
        situation =
            situation.call("read_file", done(&a, "text\n")).call("glob", done(&b, "src/a.rs\n"));
    }
    let text = shown(&situation);
    assert!(!text.contains("number 1\n"), "the window holds eight calls: {text}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_reminder_that_no_turn_had_is_put_before_the_next_one() {
    let repeated = Situation { notice: "The same calls again.", ..Situation::default() };
    insta::assert_snapshot!(shown(&repeated.call("glob", done("found 1 file", "src/a.rs\n"))));
}

#[test]
fn an_output_that_is_no_text_has_its_size_and_its_handle() {
    let receipt = receipt("run_command", "call-1", &done("printed an image", ""));
    let output =
        Output { call_id: "call-1".to_owned(), digest: "d".repeat(64), bytes: 70_000, text: None };
    insta::assert_snapshot!(observation(&receipt, Some(&output), None).text);
}

#[test]
fn the_journal_is_read_back_to_the_window_or_to_the_attempts_beginning() {
    let mut situation = Situation::default();
    for _ in 0..TOOL_TURNS + 2 {
        situation = situation.call("glob", done("found", "a\n"));
    }
    let events = latest_first(situation);
    let needed = (0..events.len()).find(|some| is_complete(&events[..*some], "repair", 1));
    assert_eq!(needed, Some(3 * TOOL_TURNS), "three events a turn, the window's first included");
    assert!(!is_complete(&events[..2 * TOOL_TURNS], "other", 1), "of another step");
    assert!(is_complete(&events[..3], "repair", 2), "the attempt has not begun there");
}

#[test]
fn turns_without_calls_are_not_read_back_to_the_first() {
    let mut situation = Situation::default();
    for _ in 0..500 {
        situation = situation.turn(Some(decide(Action::Continue, None)), "");
    }
    let events = latest_first(situation);
    let needed = (0..events.len()).find(|some| is_complete(&events[..*some], "repair", 1));
    assert_eq!(needed, Some(8 * TOOL_TURNS));
}

fn latest_first(situation: Situation) -> Vec<Event> {
    let at = DateTime::UNIX_EPOCH;
    let mut events: Vec<Event> = (1..)
        .zip(situation.entries)
        .map(|(sequence, entry)| Event { sequence, at, span_id: None, entry })
        .collect();
    events.reverse();
    events
}
