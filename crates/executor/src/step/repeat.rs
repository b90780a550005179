//! What the repeat limit of a step compares: a call, its result, and the open todos.

use super::call_setup::Done;
use super::leased_run::LeasedRun;
use crate::fuse::repeat::{Turn, call_signature, result_fingerprint, subgoal_fingerprint};
use surety_common::domain::execution::Execution;

/// A finished call as the repeat limit compares it.
pub(super) fn turn_of(execution: &Execution, run: &LeasedRun, index: usize, done: &Done) -> Turn {
    let result = String::from_utf8_lossy(&done.outcome.output);
    let todos = execution.todos.current(&run.plan.todos);
    let open = todos.iter().filter(|todo| !todo.status.is_terminal());
    let open: Vec<&str> = open.map(|todo| todo.id.as_str()).collect();
    Turn {
        call: call_signature([&done.call.tool_call]),
        result: result_fingerprint(&format!("{}\n{result}", done.outcome.summary)),
        subgoal: subgoal_fingerprint(run.graph.id(index), &open),
    }
}
