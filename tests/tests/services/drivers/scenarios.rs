//! What a driver says turn by turn, what it is told, and how the run ends.

use serde_json::{Value, json};
use surety_common::wire::v1::{Limits, StopReason, WaitingOn};
use surety_e2e::script::plan;

/// One run from its first reply to its end.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) plan: Value,
    pub(crate) limits: Limits,
    pub(crate) says: Vec<String>,
    /// What the notice of a turn (from 0) contains; no words: there is no notice.
    pub(crate) notices: &'static [(usize, &'static [&'static str])],
    /// How many turns the driver is asked for.
    pub(crate) turns: usize,
    /// How many replies became recorded turns.
    pub(crate) recorded: u64,
    pub(crate) ends: StopReason,
    /// Whether `out.txt` is in the workspace afterwards.
    pub(crate) writes: bool,
    /// What the run's question is answered with.
    pub(crate) answer: Option<&'static str>,
    /// Whom the run waits for in the end, other than a question's answer.
    pub(crate) blocks_on: Option<WaitingOn>,
    /// Of each call of `run_command`, in order: the seconds that it takes at least, and fewer than which it takes.
    pub(crate) commands: &'static [(i64, i64)],
    /// What the summaries of the first receipts of the tool `glob` contain.
    pub(crate) found: &'static [&'static str],
    /// The reply, from 0, that the driver takes two seconds for.
    pub(crate) slow_reply: Option<usize>,
}

fn one_step() -> Value {
    plan(&[json!({"id": "s", "description": "write out.txt"})])
}

fn of(name: &'static str, says: Vec<String>, ends: StopReason) -> Scenario {
    let turns = says.len();
    Scenario {
        name,
        plan: one_step(),
        limits: Limits::default(),
        recorded: u64::try_from(turns).unwrap_or_default(),
        turns,
        says,
        notices: &[],
        ends,
        writes: false,
        answer: None,
        blocks_on: None,
        commands: &[],
        found: &[],
        slow_reply: None,
    }
}

fn call(name: &str, arguments: Value) -> String {
    json!({"action": "continue", "tool_call": {"name": name, "arguments": arguments}}).to_string()
}

fn write() -> String {
    call("write_file", json!({"path": "out.txt", "content": "done\n"}))
}

fn search(pattern: &str) -> String {
    call("glob", json!({"pattern": pattern}))
}

fn next() -> String {
    json!({"action": "next_plan", "goal_check": "out.txt is written"}).to_string()
}

fn repeated(text: &str, times: usize) -> Vec<String> {
    vec![text.to_owned(); times]
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    let all =
        [decisions(), refusals(), silence(), repeats(), interrupted_repeats(), times(), waits()];
    all.into_iter().flatten().collect()
}

fn decisions() -> Vec<Scenario> {
    let fenced = format!("I will write it now.\n```json\n{}\n```\n", write());
    let signal = "All done. {\"task_completion\": {\"completed\": true}}".to_owned();
    let replan = "{\"control\": \"replan\", \"reason\": \"the folder is wrong\"}".to_owned();
    let abort = json!({"action": "abort", "abort": {"code": "no_way",
        "user_message": "This cannot be done.", "internal_reason": "tried"}});
    let failing = call("run_command", json!({"argv": ["false"]}));
    let slow = call("run_command", json!({"argv": ["sleep", "60"], "timeout_s": 1}));
    let written = |scenario: Scenario| Scenario { writes: true, ..scenario };
    let step_done = "{\"control\": \"step_done\", \"reason\": \"written\"}".to_owned();
    vec![
        written(of("a fenced decision in prose", vec![fenced, next()], StopReason::Accepted)),
        written(of("a completion signal", vec![write(), signal], StopReason::Accepted)),
        written(of("a control envelope", vec![write(), step_done], StopReason::Accepted)),
        of("a wish to replan", vec![replan], StopReason::MaxReplansReached),
        of("an abort", vec![abort.to_string()], StopReason::Aborted),
        written(of(
            "a failed call is an observation",
            vec![failing, write(), next()],
            StopReason::Accepted,
        )),
        written(of(
            "a call that ran out of time is an observation",
            vec![slow, write(), next()],
            StopReason::Accepted,
        )),
        Scenario {
            limits: Limits { max_step_tool_calls: Some(2), ..Limits::default() },
            ..of(
                "the limit of calls ends the step",
                vec![search("a"), search("b"), search("c")],
                StopReason::MaxReplansReached,
            )
        },
        Scenario {
            limits: Limits { max_run_rounds: Some(2), ..Limits::default() },
            ..of(
                "the limit of turns ends the run",
                vec![search("a"), search("b")],
                StopReason::MaxRoundsReached,
            )
        },
    ]
}

fn refusals() -> Vec<Scenario> {
    let broken = "{\"action\": \"continue\", ";
    let unknown = call("fly", json!({}));
    let wrong = call("write_file", json!({"path": 7}));
    let early = json!({"action": "done", "goal_check": "all of it"}).to_string();
    let two = plan(&[
        json!({"id": "s", "description": "first"}),
        json!({"id": "t", "description": "second", "dependencies": ["s"], "evidence": "none"}),
    ]);
    vec![
        Scenario {
            notices: &[
                (0, &[]),
                (1, &["unknown_tool", "write_file", "Legal now"]),
                (2, &["arguments_invalid"]),
            ],
            ..of(
                "three refusals in a row",
                vec![unknown.clone(), wrong.clone(), unknown.clone()],
                StopReason::MaxConsecutiveCorrections,
            )
        },
        Scenario {
            notices: &[(1, &["Correction"]), (2, &["Correction"]), (3, &[]), (5, &["Correction"])],
            writes: true,
            ..of(
                "an accepted action starts the count again",
                vec![
                    broken.to_owned() + "\"speak\": 3}",
                    wrong.clone(),
                    write(),
                    unknown,
                    wrong,
                    next(),
                ],
                StopReason::Accepted,
            )
        },
        Scenario {
            notices: &[(1, &["evidence_missing"])],
            writes: true,
            ..of("a claim without evidence", vec![next(), write(), next()], StopReason::Accepted)
        },
        Scenario {
            plan: two,
            notices: &[(2, &["steps_remaining"])],
            writes: true,
            ..of(
                "done too early",
                vec![write(), early.clone(), next(), early],
                StopReason::Accepted,
            )
        },
    ]
}

fn silence() -> Vec<Scenario> {
    let prose = "I am thinking about the best way to write this file.";
    let thought = "<think>hm</think>";
    let mut recovers = repeated(prose, 5);
    recovers.push(write());
    recovers.extend(repeated(prose, 5));
    recovers.push(next());
    vec![
        Scenario {
            notices: &[(1, &["Reminder", "no user input"]), (5, &["Final warning"])],
            ..of(
                "prose without a decision",
                repeated(prose, 6),
                StopReason::MissingCompletionSignal,
            )
        },
        Scenario {
            limits: Limits { max_thinking_only: Some(2), ..Limits::default() },
            notices: &[(1, &["Final warning"])],
            ..of("nothing but thinking", repeated(thought, 2), StopReason::MissingCompletionSignal)
        },
        Scenario {
            writes: true,
            ..of("a tool call starts the count of prose again", recovers, StopReason::Accepted)
        },
    ]
}

fn repeats() -> Vec<Scenario> {
    let cycle = |patterns: &[&str], turns: usize| -> Vec<String> {
        patterns.iter().cycle().take(turns).map(|pattern| search(pattern)).collect()
    };
    let limits = || Limits { max_repeat_cycle: Some(3), ..Limits::default() };
    vec![
        Scenario {
            limits: limits(),
            notices: &[(3, &[]), (4, &["same calls"])],
            ..of("the same call again and again", cycle(&["a"], 5), StopReason::RepeatCycle)
        },
        Scenario {
            limits: limits(),
            notices: &[(6, &["same calls"])],
            ..of("two calls by turns", cycle(&["a", "b"], 8), StopReason::RepeatCycle)
        },
        Scenario {
            limits: limits(),
            notices: &[(9, &["same calls"])],
            ..of("three calls by turns", cycle(&["a", "b", "c"], 12), StopReason::RepeatCycle)
        },
    ]
}

/// Repetitions that are no cycle: after the reminder comes something else, the result is another one, or the todos are.
fn interrupted_repeats() -> Vec<Scenario> {
    let limits = || Limits { max_repeat_cycle: Some(3), ..Limits::default() };
    let ended = |mut says: Vec<String>| {
        says.extend([write(), next()]);
        says
    };
    let count = "echo x >> count; wc -l < count";
    let counting = call("run_command", json!({"argv": ["sh", "-c", count]}));
    let todo =
        |id: &str| call("todo", json!({"add": [{"id": id, "content": id, "required": false}]}));
    let with_todos: Vec<String> =
        ["a", "b", "c", "d", "e", "f"].iter().flat_map(|id| [search("a"), todo(id)]).collect();
    vec![
        Scenario {
            limits: limits(),
            notices: &[(4, &["same calls"]), (5, &[])],
            writes: true,
            ..of(
                "another call after the reminder",
                ended([repeated(&search("a"), 4), vec![search("b")]].concat()),
                StopReason::Accepted,
            )
        },
        Scenario {
            limits: limits(),
            notices: &[(4, &[]), (5, &[])],
            writes: true,
            ..of(
                "the same call with another result",
                ended(repeated(&counting, 6)),
                StopReason::Accepted,
            )
        },
        Scenario {
            limits: limits(),
            notices: &[(8, &[]), (11, &[])],
            writes: true,
            ..of("the same call for another todo", ended(with_todos), StopReason::Accepted)
        },
    ]
}

/// How long a call may take, which folders a scan skips, and a driver that takes its time.
fn times() -> Vec<Scenario> {
    // It runs out of time until the file is there.
    let until = "test -e out.txt || sleep 60";
    let command = || call("run_command", json!({"argv": ["sh", "-c", until], "timeout_s": 1}));
    let remove = call("run_command", json!({"argv": ["rm", "out.txt"]}));
    let make =
        "mkdir -p src node_modules/p .git/x && touch src/a.txt node_modules/p/a.txt .git/x/a.txt";
    let make = call("run_command", json!({"argv": ["sh", "-c", make]}));
    vec![
        Scenario {
            // One second, doubled twice; a success; one second again.
            commands: &[(1, 60), (2, 60), (4, 60), (0, 60), (0, 60), (1, 8)],
            writes: true,
            ..of(
                "the time of a call doubles after a timeout and a success resets it",
                vec![
                    command(),
                    command(),
                    command(),
                    write(),
                    command(),
                    remove,
                    command(),
                    write(),
                    next(),
                ],
                StopReason::Accepted,
            )
        },
        Scenario {
            found: &["1 file"],
            writes: true,
            ..of(
                "a scan skips what others put there",
                vec![make, search("**/a.txt"), write(), next()],
                StopReason::Accepted,
            )
        },
        Scenario {
            slow_reply: Some(1),
            writes: true,
            ..of("a reply that takes seconds", vec![write(), next()], StopReason::Accepted)
        },
        Scenario {
            slow_reply: Some(0),
            notices: &[(1, &["Reminder"])],
            writes: true,
            ..of(
                "a reply that takes seconds and decides nothing",
                vec!["Let me see.".to_owned(), write(), next()],
                StopReason::Accepted,
            )
        },
    ]
}

fn waits() -> Vec<Scenario> {
    let ask = json!({"action": "ask_user", "speak": "Which name?"}).to_string();
    let confirm = json!({"action": "confirm", "speak": "May I?", "tool_call":
        {"name": "write_file", "arguments": {"path": "out.txt", "content": "x"}}});
    let read = json!({"action": "confirm", "tool_call":
        {"name": "glob", "arguments": {"pattern": "*"}}});
    vec![
        Scenario {
            answer: Some("out.txt"),
            writes: true,
            ..of("a question to the user", vec![ask, write(), next()], StopReason::Accepted)
        },
        Scenario {
            blocks_on: Some(WaitingOn::Approver),
            ..of("a confirm is not carried out", vec![confirm.to_string()], StopReason::Cancelled)
        },
        of(
            "a confirm of a tool that only reads is a continue",
            vec![read.to_string(), next()],
            StopReason::Accepted,
        ),
    ]
}
