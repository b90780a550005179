//! The script driver: the plan carries the tool calls, and no model is needed.

use super::Move;
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::plan::PlanStep;

/// What the script of `step` does next when `position` of its calls are behind it.
///
/// `last_failure` is why the call before failed, in words that hold nothing of its arguments: they
/// become the cause of a transition, which is logged and traced. A script has no other way to go
/// then, so it asks for a replan.
pub fn next_move(step: &PlanStep, position: u32, last_failure: Option<&str>) -> Move {
    let number = position.saturating_add(1);
    let position = usize::try_from(position).unwrap_or(usize::MAX);
    if let Some(failure) = last_failure {
        let tool = step.script.get(position).map_or("", |call| call.name.as_str());
        return Move::Replan(format!("call {number} of the script, {tool}, failed: {failure}"));
    }
    let mut decision = ExecuteDecision {
        speak: String::new(),
        action: Action::Continue,
        reason: String::new(),
        goal_check: String::new(),
        tool_call: step.script.get(position).cloned(),
        abort: None,
    };
    if decision.tool_call.is_none() {
        decision.action = Action::NextPlan;
        decision.goal_check = goal_check(step);
    }
    Move::Decide(Box::new(decision))
}

fn goal_check(step: &PlanStep) -> String {
    let calls = match step.script.len() {
        0 => "the step has no calls".to_owned(),
        1 => "the step's one call succeeded".to_owned(),
        count => format!("all {count} calls of the step succeeded"),
    };
    match step.done_when.is_empty() {
        true => calls,
        false => format!("{calls}: {}", step.done_when),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::domain::json::Value;
    use surety_common::domain::plan::ToolCall;

    fn step(calls: usize) -> PlanStep {
        let call = ToolCall { name: "noop".into(), arguments: Value::Object(Vec::new()) };
        PlanStep { id: "s".into(), script: vec![call; calls], ..PlanStep::default() }
    }

    fn action(mv: &Move) -> Option<Action> {
        match mv {
            Move::Decide(decision) => Some(decision.action),
            Move::Replan(_) => None,
        }
    }

    #[test]
    fn a_script_makes_its_calls_in_order_and_then_ends_the_step() {
        let step = step(2);
        let actions: Vec<_> = (0..3).map(|at| action(&next_move(&step, at, None))).collect();
        assert_eq!(
            actions,
            [Some(Action::Continue), Some(Action::Continue), Some(Action::NextPlan)]
        );
    }

    #[test]
    fn a_failed_call_asks_for_a_replan_and_names_the_failure() {
        let Move::Replan(reason) = next_move(&step(2), 0, Some("exit code 1")) else {
            panic!("a script that failed must not go on");
        };
        assert_eq!(reason, "call 1 of the script, noop, failed: exit code 1");
    }
}
