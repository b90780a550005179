//! The script driver: the plan carries the tool calls, and no model is needed.

use super::model::Model;
use super::remote::Remote;
use super::{Content, Driver, Drivers, Next, Reply, Situation};
use std::sync::Arc;
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::plan::PlanStep;
use surety_common::domain::run::DriverKind;

/// Makes the calls of a step's script in order and then ends the step. A script cannot react to a
/// failure, so a failed call fails its step.
#[derive(Debug, Clone, Copy, Default)]
pub struct Script;

impl Driver for Script {
    fn next(&self, situation: &Situation<'_>) -> Next {
        let Situation { step, progress, failure } = *situation;
        Next::Now(Reply::free(content(step, progress.script_position, failure)))
    }
}

/// `failure` names no argument of the call: it becomes the cause of a transition, which is logged and
/// traced.
fn content(step: &PlanStep, position: u32, failure: Option<&str>) -> Content {
    let number = position.saturating_add(1);
    let position = usize::try_from(position).unwrap_or(usize::MAX);
    if let Some(failure) = failure {
        let tool = step.script.get(position).map_or("", |call| call.name.as_str());
        return Content::Replan(format!("call {number} of the script, {tool}, failed: {failure}"));
    }
    let mut decision = ExecuteDecision {
        speak: String::new(),
        action: Action::Continue,
        reason: String::new(),
        goal_check: String::new(),
        tool_call: step.script.get(position).cloned(),
        abort: None,
        answer_schema: None,
    };
    if decision.tool_call.is_none() {
        decision.action = Action::NextPlan;
        decision.goal_check = goal_check(step);
    }
    Content::Decision(Box::new(decision))
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

impl Default for Drivers {
    /// The script, models of the service, and remote agents.
    fn default() -> Self {
        Self::of([
            (DriverKind::Script, Arc::new(Script) as Arc<dyn Driver>),
            (DriverKind::Model, Arc::new(Model)),
            (DriverKind::Remote, Arc::new(Remote)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::domain::execution::StepProgress;
    use surety_common::domain::json::Value;
    use surety_common::domain::plan::ToolCall;

    fn next(calls: usize, position: u32, failure: Option<&str>) -> Content {
        let call = ToolCall { name: "noop".into(), arguments: Value::Object(Vec::new()) };
        let step = PlanStep { id: "s".into(), script: vec![call; calls], ..PlanStep::default() };
        let progress = StepProgress { script_position: position, ..StepProgress::default() };
        match Script.next(&Situation { step: &step, progress: &progress, failure }) {
            Next::Now(reply) => reply.content,
            Next::Later(need) => panic!("a script needs nothing: {need:?}"),
        }
    }

    fn action(content: &Content) -> Option<Action> {
        match content {
            Content::Decision(decision) => Some(decision.action),
            Content::Replan(_) | Content::Text(_) | Content::Cut => None,
        }
    }

    #[test]
    fn a_script_makes_its_calls_in_order_and_then_ends_the_step() {
        let actions: Vec<_> = (0..3).map(|at| action(&next(2, at, None))).collect();
        assert_eq!(
            actions,
            [Some(Action::Continue), Some(Action::Continue), Some(Action::NextPlan)]
        );
    }

    #[test]
    fn a_failed_call_asks_for_a_replan_and_names_the_failure() {
        assert_eq!(
            next(2, 0, Some("exit code 1")),
            Content::Replan("call 1 of the script, noop, failed: exit code 1".to_owned())
        );
    }
}
