//! The form of replies: drift, prose, fences, cuts, refusals, thinking.

use super::{Scenario, after, decision, look, step, well};
use crate::model::stage::{next_plan, say, write_answer};
use serde_json::json;
use surety_common::wire::v1::StopReason;
use surety_e2e::model_server::{Finish, Reply};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "prose instead of a decision, once",
        request: step,
        says: |number, _| after(number, || Reply::text("I will now write the file.")),
        ends: StopReason::Accepted,
        calls: 3,
    },
    Scenario {
        name: "prose instead of decisions, for ever",
        request: step,
        says: |_, _| Reply::text("I am thinking about the file."),
        ends: StopReason::MissingCompletionSignal,
        calls: 6,
    },
    Scenario {
        name: "drift: the format is kept for a while and lost",
        request: step,
        says: |number, _| match number {
            0 => look("*"),
            _ => Reply::text("The file is written, as you can see."),
        },
        ends: StopReason::MissingCompletionSignal,
        calls: 7,
    },
    Scenario {
        name: "decisions in fences with words around them",
        request: step,
        says: |number, _| {
            let decision = decision(number);
            Reply::text(format!("Sure! Here it is:\n```json\n{decision}\n```\nAnything else?"))
        },
        ends: StopReason::Accepted,
        calls: 2,
    },
    Scenario {
        name: "several objects in one reply: the first counts",
        request: step,
        says: |number, _| match number {
            0 => Reply::text(
                "{\"action\": \"continue\", \"tool_call\": {\"name\": \"write_file\", \"arguments\": \
                 {\"path\": \"answer.txt\", \"content\": \"42\"}}}\n\
                 {\"action\": \"done\", \"goal_check\": \"all of it\"}",
            ),
            _ => next_plan(),
        },
        ends: StopReason::Accepted,
        calls: 2,
    },
    Scenario {
        name: "stutter: the same object twice in each reply",
        request: step,
        says: |number, _| {
            let decision = decision(number);
            Reply::text(format!("{decision}{decision}"))
        },
        ends: StopReason::Accepted,
        calls: 2,
    },
    Scenario {
        name: "a refusal, for ever",
        request: step,
        says: |_, _| Reply::text("I cannot help with that.").finish(Finish::Filter),
        ends: StopReason::MissingCompletionSignal,
        calls: 6,
    },
    Scenario {
        name: "a giant output, once",
        request: step,
        says: |number, _| after(number, || Reply::text("x".repeat(1_200_000))),
        ends: StopReason::Accepted,
        calls: 3,
    },
    Scenario {
        name: "thinking alone, for ever",
        request: step,
        says: |_, _| Reply::text("").thinking("Hmm. What could I do?"),
        ends: StopReason::MissingCompletionSignal,
        calls: 6,
    },
    Scenario {
        name: "thinking in the text, once",
        request: step,
        says: |number, _| after(number, || Reply::text("<think>What could I do?</think>")),
        ends: StopReason::Accepted,
        calls: 3,
    },
    Scenario {
        name: "a reply that its limit cuts, once",
        request: step,
        says: |number, asked| match number {
            0 => Reply::text("{\"action\": \"continue\", \"tool_call\": {\"name\": \"wr")
                .finish(Finish::Length),
            // The demand for a shorter one is what makes it shorter.
            1 if !asked.last().contains("reply_cut") => Reply::status(500),
            number => well(number - 1),
        },
        ends: StopReason::Accepted,
        calls: 3,
    },
    Scenario {
        name: "a whole decision that its limit cuts is not read",
        request: step,
        says: |_, _| {
            Reply::text("{\"action\": \"abort\", \"abort\": {\"user_message\": \"no\"}} and so")
                .finish(Finish::Length)
        },
        ends: StopReason::MaxConsecutiveCorrections,
        calls: 3,
    },
    Scenario {
        name: "the format is lost for a turn and found again",
        request: step,
        says: |number, _| match number {
            0 => look("*"),
            1 => Reply::text("I have looked around."),
            number => well(number - 2),
        },
        ends: StopReason::Accepted,
        calls: 4,
    },
    Scenario {
        name: "an empty reply, once",
        request: step,
        says: |number, _| after(number, || Reply::text("")),
        ends: StopReason::Accepted,
        calls: 3,
    },
    Scenario {
        name: "empty replies, for ever",
        request: step,
        says: |_, _| Reply::text(""),
        ends: StopReason::MaxConsecutiveCorrections,
        calls: 3,
    },
    Scenario {
        name: "a refusal, once",
        request: step,
        says: |number, _| {
            after(number, || Reply::text("I cannot help with that.").finish(Finish::Filter))
        },
        ends: StopReason::Accepted,
        calls: 3,
    },
    Scenario {
        name: "thinking that never ends, for ever",
        request: step,
        says: |_, _| Reply::text("<think>What could I do"),
        ends: StopReason::MissingCompletionSignal,
        calls: 6,
    },
    Scenario {
        name: "one decision in an array",
        request: step,
        says: |number, _| Reply::text(format!("[{}]", decision(number))),
        ends: StopReason::Accepted,
        calls: 2,
    },
    Scenario {
        name: "a comma too many, once",
        request: step,
        says: |number, _| {
            after(number, || Reply::text("{\"action\": \"continue\", \"tool_call\": null,}"))
        },
        ends: StopReason::Accepted,
        calls: 3,
    },
    Scenario {
        name: "comments in JSON, for ever",
        request: step,
        says: |_, _| Reply::text("{\"action\": \"continue\" /* for now */}"),
        ends: StopReason::MaxConsecutiveCorrections,
        calls: 3,
    },
    Scenario {
        name: "a decision that never closes, once",
        request: step,
        says: |number, _| {
            after(number, || {
                Reply::text("{\"action\": \"continue\", \"tool_call\": {\"name\": \"glo")
            })
        },
        ends: StopReason::Accepted,
        calls: 3,
    },
    Scenario {
        name: "two calls in one turn, once",
        request: step,
        says: |number, _| {
            let call = json!({"name": "glob", "arguments": {"pattern": "*"}});
            after(number, || say(&json!({"action": "continue", "tool_call": [call, call]})))
        },
        ends: StopReason::Accepted,
        calls: 3,
    },
    Scenario {
        name: "the call as text",
        request: step,
        says: |number, _| match number {
            0 => say(&json!({"action": "continue", "tool_call": json!({"name": "write_file",
                "arguments": {"path": "answer.txt", "content": "42"}}).to_string()})),
            _ => next_plan(),
        },
        ends: StopReason::Accepted,
        calls: 2,
    },
    Scenario {
        name: "parameters in the place of arguments",
        request: step,
        says: |number, _| match number {
            0 => say(&json!({"action": "continue", "tool_call": {"name": "write_file",
                "parameters": {"path": "answer.txt", "content": "42"}}})),
            _ => next_plan(),
        },
        ends: StopReason::Accepted,
        calls: 2,
    },
    Scenario {
        name: "an action in capitals",
        request: step,
        says: |number, _| match number {
            0 => write_answer(),
            _ => say(&json!({"action": "NEXT_PLAN", "goal_check": "answer.txt is there"})),
        },
        ends: StopReason::Accepted,
        calls: 2,
    },
    Scenario {
        name: "the control envelope of older prompts",
        request: step,
        says: |number, _| match number {
            0 => write_answer(),
            _ => say(&json!({"control": "step_done", "reason": "answer.txt is there"})),
        },
        ends: StopReason::Accepted,
        calls: 2,
    },
    Scenario {
        name: "the bare marker of older prompts states no goal check, for ever",
        request: step,
        says: |number, _| match number {
            0 => write_answer(),
            _ => Reply::text("STEP_DONE"),
        },
        ends: StopReason::MaxConsecutiveCorrections,
        calls: 4,
    },
];
