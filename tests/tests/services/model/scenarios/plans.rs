//! Plans and patches: too long, cut, wrong, weak, and those that touch what is done.

use super::{Scenario, goal, judged, look, replan, step, two_steps, well};
use crate::model::stage::{is_planning, next_plan, one_step, say, write_answer};
use serde_json::{Value, json};
use surety_common::wire::v1::StopReason;
use surety_e2e::model_server::{Asked, Finish, Reply};

fn plan_of(count: usize, first_needs_last: bool) -> Value {
    let step = |number: usize| {
        let needs = if first_needs_last && number == 0 {
            vec![format!("s{}", count - 1)]
        } else {
            Vec::new()
        };
        json!({"id": format!("s{number}"), "description": "look", "dependencies": needs})
    };
    json!({"title": "Many", "steps": (0..count).map(step).collect::<Vec<_>>()})
}

/// A first plan that is refused with a code, and a good one after it.
fn corrected(number: usize, asked: &Asked, code: &str, first: impl FnOnce() -> Reply) -> Reply {
    match (is_planning(asked), number) {
        (true, 0) => first(),
        (true, _) if asked.last().contains(code) => say(&one_step()),
        (true, _) => Reply::status(500).saying("the correction does not name the code"),
        (false, number) => well(number - 2),
    }
}

/// A second step that fails, and what is said to the request for a patch.
fn failing(number: usize, asked: &Asked, patch: impl FnOnce(usize) -> Value) -> Reply {
    if is_planning(asked) {
        let tries = asked.last().matches("was refused").count();
        return say(&patch(tries));
    }
    match number {
        0 => write_answer(),
        1 => next_plan(),
        2 => replan(),
        number if number % 2 == 0 => next_plan(),
        _ => look("*"),
    }
}

/// A patch that is refused, and a good one after it.
fn patched(number: usize, asked: &Asked, first: Value) -> Reply {
    failing(number, asked, |tries| match tries {
        0 => first,
        _ => {
            json!({"update_steps": [{"id": "b", "description": "look again"}], "reason": "the folder"})
        }
    })
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "a goal is planned and carried out",
        request: goal,
        says: |number, asked| match is_planning(asked) {
            true => say(&one_step()),
            false => well(number - 1),
        },
        ends: StopReason::Accepted,
        calls: 3,
    },
    Scenario {
        name: "a plan in prose, for ever",
        request: goal,
        says: |_, _| Reply::text("First I would look around, then write the file."),
        ends: StopReason::PlanParseFailed,
        calls: 2,
    },
    Scenario {
        name: "a plan of 200 steps is asked to be shorter",
        request: goal,
        says: |number, asked| match (is_planning(asked), number) {
            (true, 0) => say(&plan_of(200, false)),
            (true, _) if asked.last().contains("plan_too_long") => say(&one_step()),
            (true, _) => Reply::status(500),
            (false, number) => well(number - 2),
        },
        ends: StopReason::Accepted,
        calls: 4,
    },
    Scenario {
        name: "a plan of 200 steps, for ever, that cannot be cut",
        request: goal,
        says: |_, _| say(&plan_of(200, true)),
        ends: StopReason::PlanParseFailed,
        calls: 2,
    },
    Scenario {
        name: "a plan that its limit cuts, once",
        request: goal,
        says: |number, asked| match (is_planning(asked), number) {
            (true, 0) => {
                Reply::text("{\"title\": \"t\", \"steps\": [{\"id\"").finish(Finish::Length)
            }
            (true, _) if asked.last().contains("reply_cut") => say(&one_step()),
            (true, _) => Reply::status(500),
            (false, number) => well(number - 2),
        },
        ends: StopReason::Accepted,
        calls: 4,
    },
    Scenario {
        name: "a plan with a cycle, once",
        request: goal,
        says: |number, asked| match (is_planning(asked), number) {
            (true, 0) => say(&json!({"title": "t", "steps": [
                {"id": "a", "description": "x", "dependencies": ["b"]},
                {"id": "b", "description": "y", "dependencies": ["a"]}]})),
            (true, _) if asked.last().contains("dependency_cycle") => say(&one_step()),
            (true, _) => Reply::status(500),
            (false, number) => well(number - 2),
        },
        ends: StopReason::Accepted,
        calls: 4,
    },
    Scenario {
        name: "a plan that weakens its own checks keeps those of the user",
        request: judged,
        says: |number, asked| match is_planning(asked) {
            true => say(&json!({"title": "Easy", "verify": [],
                "steps": [{"id": "s", "description": "say that it is done", "evidence": "none"}]})),
            false => {
                assert_eq!(number, 1);
                next_plan()
            }
        },
        ends: StopReason::AcceptCheckFailed,
        calls: 2,
    },
    Scenario {
        name: "a plan that replaces a check of the user by its own",
        request: judged,
        says: |_, asked| match is_planning(asked) {
            true => say(&json!({"title": "Easy",
                "verify": [{"id": "users", "kind": "output_only", "owner": "user"}],
                "steps": [{"id": "s", "description": "say that it is done", "evidence": "none"}]})),
            false => next_plan(),
        },
        ends: StopReason::AcceptCheckFailed,
        calls: 2,
    },
    Scenario {
        name: "a patch that removes a done step, once",
        request: two_steps,
        says: |number, asked| {
            failing(number, asked, |tries| match tries {
                0 => json!({"remove_steps": ["a"], "reason": "again"}),
                _ => {
                    json!({"update_steps": [{"id": "b", "description": "look again"}], "reason": "the folder"})
                }
            })
        },
        ends: StopReason::Accepted,
        calls: 7,
    },
    Scenario {
        name: "a patch that touches a done step, for ever",
        request: two_steps,
        says: |number, asked| {
            failing(
                number,
                asked,
                |_| json!({"update_steps": [{"id": "a", "description": "else"}], "reason": "again"}),
            )
        },
        ends: StopReason::ReplanParseFailed,
        calls: 5,
    },
    Scenario {
        name: "a step that fails under every plan",
        request: step,
        says: |_, asked| match is_planning(asked) {
            true => say(
                &json!({"update_steps": [{"id": "s", "description": asked.messages.len().to_string()
                + &asked.last().len().to_string()}], "reason": "try again"}),
            ),
            false => replan(),
        },
        ends: StopReason::MaxReplansReached,
        calls: 5,
    },
    Scenario {
        name: "a plan with words around it",
        request: goal,
        says: |number, asked| match is_planning(asked) {
            true => Reply::text(format!("Here it is:\n```json\n{}\n```\n", one_step())),
            false => well(number - 1),
        },
        ends: StopReason::Accepted,
        calls: 3,
    },
    Scenario {
        name: "a plan that says that its work is done",
        request: goal,
        says: |number, asked| match is_planning(asked) {
            true => say(&json!({"title": "t", "steps": [
                {"id": "s", "description": "write answer.txt", "status": "done"}]})),
            false => well(number - 1),
        },
        ends: StopReason::Accepted,
        calls: 3,
    },
    Scenario {
        name: "a plan of 200 steps, for ever, is cut to its first twelve",
        request: goal,
        says: |_, asked| match (is_planning(asked), asked.messages.len()) {
            (true, _) => say(&plan_of(200, false)),
            (false, 1) => look("*"),
            (false, _) => next_plan(),
        },
        ends: StopReason::Accepted,
        calls: 26,
    },
    Scenario {
        name: "a plan in prose, once",
        request: goal,
        says: |number, asked| {
            corrected(number, asked, "no_json_object", || Reply::text("First I would look around."))
        },
        ends: StopReason::Accepted,
        calls: 4,
    },
    Scenario {
        name: "a plan without steps, once",
        request: goal,
        says: |number, asked| {
            corrected(number, asked, "steps_empty", || say(&json!({"title": "t", "steps": []})))
        },
        ends: StopReason::Accepted,
        calls: 4,
    },
    Scenario {
        name: "a plan that needs an unknown step, once",
        request: goal,
        says: |number, asked| {
            corrected(number, asked, "unknown_dependency", || {
                say(&json!({"title": "t", "steps": [
                    {"id": "a", "description": "x", "dependencies": ["z"]}]}))
            })
        },
        ends: StopReason::Accepted,
        calls: 4,
    },
    Scenario {
        name: "an empty reply in the place of a plan, for ever",
        request: goal,
        says: |_, _| Reply::text(""),
        ends: StopReason::PlanParseFailed,
        calls: 2,
    },
    Scenario {
        name: "thinking in the place of a plan, for ever",
        request: goal,
        says: |_, _| Reply::text("").thinking("Hmm."),
        ends: StopReason::PlanParseFailed,
        calls: 2,
    },
    Scenario {
        name: "a refusal to plan, for ever",
        request: goal,
        says: |_, _| Reply::text("I cannot help with that.").finish(Finish::Filter),
        ends: StopReason::PlanParseFailed,
        calls: 2,
    },
    Scenario {
        name: "a patch in prose, for ever",
        request: two_steps,
        says: |number, asked| failing(number, asked, |_| json!("I would look again.")),
        ends: StopReason::ReplanParseFailed,
        calls: 5,
    },
    Scenario {
        name: "a patch that changes nothing, once",
        request: two_steps,
        says: |number, asked| {
            patched(
                number,
                asked,
                json!({"update_steps": [{"id": "b", "description": "look"}], "reason": "x"}),
            )
        },
        ends: StopReason::Accepted,
        calls: 7,
    },
    Scenario {
        name: "a patch that says that a step is done, once",
        request: two_steps,
        says: |number, asked| {
            patched(
                number,
                asked,
                json!({"update_steps": [{"id": "b", "status": "done"}], "reason": "x"}),
            )
        },
        ends: StopReason::Accepted,
        calls: 7,
    },
    Scenario {
        name: "a patch that takes the checks away, once",
        request: two_steps,
        says: |number, asked| {
            patched(number, asked, json!({"verify": [], "remove_steps": ["b"], "reason": "x"}))
        },
        ends: StopReason::Accepted,
        calls: 7,
    },
    Scenario {
        name: "a patch that adds a done step again, once",
        request: two_steps,
        says: |number, asked| {
            let again = json!({"id": "a", "description": "again"});
            patched(number, asked, json!({"add_steps": [again], "reason": "x"}))
        },
        ends: StopReason::Accepted,
        calls: 7,
    },
    Scenario {
        name: "a whole plan after a refused patch keeps what is done",
        request: two_steps,
        says: |number, asked| {
            failing(number, asked, |tries| match tries {
                0 => json!("I would look again."),
                _ => json!({"title": "Two", "steps": [
                    {"id": "a", "description": "write answer.txt"},
                    {"id": "b", "description": "look again", "dependencies": ["a"]}]}),
            })
        },
        ends: StopReason::Accepted,
        calls: 7,
    },
];
