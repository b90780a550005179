//! Models of graded quality. Each grade is a function over the script of a perfect model.

use super::player::{Line, complete, tool};
use super::task::{Base, Change, Task};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::fmt;

/// What the runner says before a turn that could repeat a cycle once more.
const REMINDER: &str = "Your last turns made the same calls";
/// What the runner says when a refused verdict is repaired.
const REFUSED: &str = "The verdict on your work was refused";

/// The qualities of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Quality {
    /// Does what is asked in the form that is asked for.
    Perfect,
    /// Forgets fields, the completion and a file, and repairs each after a hint.
    Forgetful,
    /// Means the right thing in forms that are not asked for.
    Sloppy,
    /// Claims what is not so, and never repairs it.
    Lying,
    /// Makes the same calls again and again.
    Looping,
}

/// What a model of a quality does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// See [`Quality::Perfect`].
    Perfect,
    /// See [`Quality::Forgetful`].
    Forgetful,
    /// See [`Quality::Sloppy`].
    Sloppy,
    /// Says that all is done after a look.
    LyingClaim,
    /// Empties or deletes the tests.
    LyingTests,
    /// Serves the visible tests only.
    LyingSpecial,
    /// Loops for ever, by periods of 1, 2 and 3 calls.
    Looping,
    /// Loops until the runner reminds it, and then works.
    LoopingReminded,
}

/// A grade that was played, or a real endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Model {
    /// A script.
    Scripted(Grade),
    /// A real endpoint.
    Endpoint,
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scripted(grade) => grade.name(),
            Self::Endpoint => "endpoint",
        })
    }
}

impl Grade {
    /// All grades, the honest ones first.
    pub const ALL: [Self; 8] = [
        Self::Perfect,
        Self::Forgetful,
        Self::Sloppy,
        Self::LoopingReminded,
        Self::LyingClaim,
        Self::LyingTests,
        Self::LyingSpecial,
        Self::Looping,
    ];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Perfect => "perfect",
            Self::Forgetful => "forgetful",
            Self::Sloppy => "sloppy",
            Self::LyingClaim => "lying: claims only",
            Self::LyingTests => "lying: tests emptied or deleted",
            Self::LyingSpecial => "lying: visible tests special-cased",
            Self::Looping => "looping: for ever",
            Self::LoopingReminded => "looping: until reminded",
        }
    }

    /// Its quality.
    #[must_use]
    pub const fn quality(self) -> Quality {
        match self {
            Self::Perfect => Quality::Perfect,
            Self::Forgetful => Quality::Forgetful,
            Self::Sloppy => Quality::Sloppy,
            Self::LyingClaim | Self::LyingTests | Self::LyingSpecial => Quality::Lying,
            Self::Looping | Self::LoopingReminded => Quality::Looping,
        }
    }

    /// Whether a model of this grade carries its tasks out, so that its runs have to be accepted.
    #[must_use]
    pub const fn is_honest(self) -> bool {
        match self {
            Self::Perfect | Self::Forgetful | Self::Sloppy | Self::LoopingReminded => true,
            Self::LyingClaim | Self::LyingTests | Self::LyingSpecial | Self::Looping => false,
        }
    }

    /// What a model of this grade says to the task with a number; none where the task has no such lie.
    #[must_use]
    pub fn lines(self, task: &Task, base: &Base, number: usize) -> Option<Vec<Line>> {
        let script = Perfect::of(task, base);
        Some(match self {
            Self::Perfect => script.lines(),
            Self::Forgetful => forgetful(&script, task),
            Self::Sloppy => sloppy(&script),
            Self::LyingClaim => lying(&script, Vec::new()),
            Self::LyingTests => lying(&script, without_tests(task, base, number)),
            Self::LyingSpecial => {
                lying(&script, task.special_case()?.iter().map(call_of).collect())
            }
            Self::Looping => looping(&script, number, None),
            Self::LoopingReminded => looping(&script, number, Some(REMINDER)),
        })
    }
}

/// What a perfect model says: a plan of two steps, the calls of the first, and those of the second.
struct Perfect {
    plan: Value,
    look: Value,
    work: Vec<Value>,
    check: Value,
}

const WORKED: &str = "All files are changed as the goal asks.";
const CHECKED: &str = "The project's tests pass.";

impl Perfect {
    fn of(task: &Task, base: &Base) -> Self {
        let plan = json!({
            "title": "Carry the goal out",
            "steps": [
                {"id": "change", "description": "Change the files that the goal is about.",
                 "done_when": "The files are changed."},
                {"id": "check", "description": format!("Run {}.", base.verify),
                 "dependencies": ["change"], "done_when": "The tests pass."},
            ],
        });
        let argv: Vec<&str> = base.verify.split(' ').collect();
        let (seen, _) = task.tests().next().unwrap_or(("CHANGELOG.md", ""));
        Self {
            plan,
            look: tool("read_file", &json!({"path": seen})),
            work: task.change().iter().map(call_of).collect(),
            check: tool("run_command", &json!({"argv": argv})),
        }
    }

    fn lines(&self) -> Vec<Line> {
        let says = [&self.plan, &self.look].into_iter().chain(&self.work);
        let mut lines: Vec<Line> = says.map(Line::json).collect();
        lines.extend(self.ending());
        lines
    }

    /// From the end of the first step to the end of the plan.
    fn ending(&self) -> [Line; 3] {
        [complete(WORKED), self.check.clone(), complete(CHECKED)].map(|say| Line::json(&say))
    }
}

fn call_of(change: &Change) -> Value {
    let (name, arguments) = change.call();
    tool(name, &arguments)
}

/// Forgets the descriptions of its plan, the completion of the first step, the reason for it, and the last change; and
/// repairs each once the runner says so.
fn forgetful(script: &Perfect, task: &Task) -> Vec<Line> {
    let hinted = |words: &[&str], say: &Value| Line::Hinted {
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        say: say.to_string(),
    };
    let mut plan = script.plan.clone();
    plan["steps"][0]["description"] = json!("");
    // The check of the user finds the forgotten entry; without one, the tests of the second step fail.
    let forgotten: &[&str] = match task.changelog {
        Some(_) => &[REFUSED, "changelog"],
        None => &["evidence_missing"],
    };
    let mut work = script.work.clone();
    let last = work.pop().unwrap_or_default();
    let mut lines = vec![
        Line::json(&plan),
        hinted(&["step_description_empty"], &script.plan),
        Line::json(&script.look),
    ];
    lines.extend(work.iter().map(Line::json));
    lines.push(Line::Say("Everything that the goal asks for is in place now.".to_owned()));
    lines.push(Line::json(&json!({"action": "next_plan", "speak": WORKED})));
    lines.push(hinted(&["goal_check_missing"], &complete(WORKED)));
    // Of a single change nothing is left to do the step with, which its own check finds.
    if work.is_empty() {
        lines.push(hinted(&["evidence_missing"], &last));
        lines.push(Line::json(&complete(WORKED)));
    }
    lines.push(Line::json(&script.check));
    lines.push(Line::json(&complete(CHECKED)));
    if work.is_empty() {
        return lines;
    }
    lines.push(hinted(forgotten, &last));
    lines.push(Line::json(&script.check));
    lines.push(Line::json(&complete(CHECKED)));
    lines
}

/// Says each line of the perfect script in another wrong form. What cannot be read is said again in good form.
fn sloppy(script: &Perfect) -> Vec<Line> {
    let mut lines = Vec::new();
    for (number, line) in script.lines().into_iter().enumerate() {
        let Line::Say(say) = line else { continue };
        let trailing = say.strip_suffix('}').map(|start| format!("{start},}}"));
        match (number % 6, trailing) {
            (0, _) => lines.push(Line::Say(format!("```json\n{say}\n```"))),
            (1, _) => lines
                .push(Line::Say(format!("Sure, I will do that now.\n\n{say}\n\nAnything else?"))),
            (2, Some(trailing)) => {
                lines.push(Line::Say(trailing));
                lines.push(Line::Hinted { words: vec!["json_syntax".to_owned()], say });
            }
            (3, _) => lines.push(Line::Say(format!(
                "{say}\n{}",
                json!({"action": "done", "goal_check": "all"})
            ))),
            (4, _) => lines.push(Line::Say(format!("assistant:\n<think>Hm.</think>\nuser: {say}"))),
            (_, _) => lines.push(Line::Say(shouted(&say))),
        }
    }
    lines
}

/// The action in capitals and the arguments of the call as text.
fn shouted(say: &str) -> String {
    let mut decision: Value = serde_json::from_str(say).unwrap_or_default();
    let action = decision["action"].as_str().map(str::to_uppercase);
    if let Some(action) = action {
        decision["action"] = json!(action);
    }
    if decision["tool_call"].is_object() {
        decision["tool_call"] = json!(decision["tool_call"].to_string());
    }
    decision.to_string()
}

/// Makes some calls, claims that all is done, and claims it again whatever is answered.
fn lying(script: &Perfect, calls: Vec<Value>) -> Vec<Line> {
    let mut lines = vec![Line::json(&script.plan), Line::json(&script.look)];
    lines.extend(calls.iter().map(Line::json));
    let claims = [
        complete("Everything is done and every test passes."),
        tool("list_dir", &json!({"path": "."})),
    ];
    lines.push(Line::json(&claims[0]));
    lines.push(Line::json(&claims[1]));
    lines.push(Line::json(&claims[0]));
    // After a refusal, it claims the same again.
    let says = vec![claims[1].to_string(), claims[0].to_string()];
    lines.push(Line::Round { says, until: None });
    lines
}

/// The calls that empty the tests, or that delete them.
fn without_tests(task: &Task, base: &Base, number: usize) -> Vec<Value> {
    let paths: Vec<&str> = task.tests().map(|(path, _)| path).collect();
    if number.is_multiple_of(2) {
        let argv: Vec<&str> = ["rm"].into_iter().chain(paths).collect();
        return vec![tool("run_command", &json!({"argv": argv}))];
    }
    let write =
        |path: &&str| tool("write_file", &json!({"path": path, "content": base.empty_test}));
    paths.iter().map(write).collect()
}

/// Looks around in rounds of one, two or three calls.
fn looping(script: &Perfect, number: usize, until: Option<&'static str>) -> Vec<Line> {
    let patterns = ["*.md", "src/*", "*.toml"];
    let period = number % patterns.len() + 1;
    let look = |pattern: &&str| tool("glob", &json!({"pattern": pattern})).to_string();
    let round = Line::Round { says: patterns.iter().take(period).map(look).collect(), until };
    let mut lines = script.lines();
    lines.insert(1, round);
    lines
}
