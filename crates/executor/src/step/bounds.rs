//! The write scope of each step of a plan: from its globs, and from the tools that it may call.

use crate::tool::Registry;
use surety_common::domain::execution::Graph;
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::run::DriverKind;
use surety_common::domain::scope::{Writes, scope_globs};

/// The graph of a plan, with the steps that must not run together.
pub(super) fn graph_of(plan: &Plan, driver: DriverKind, tools: &Registry) -> Graph {
    Graph::of(plan).with_writes(plan.steps.iter().map(|step| writes(step, driver, tools)).collect())
}

/// A step without a write scope may write anywhere, unless all its tools only read.
fn writes(step: &PlanStep, driver: DriverKind, tools: &Registry) -> Writes {
    let reads = |name: &str| tools.only_reads(name);
    let only_reads = match driver {
        DriverKind::Script => step.script.iter().all(|call| reads(&call.name)),
        DriverKind::Model | DriverKind::Remote => {
            !step.tools_expected.is_empty() && step.tools_expected.iter().all(|name| reads(name))
        }
    };
    match (only_reads, step.write_scope.as_slice()) {
        (true, _) => Writes::Nothing,
        (false, []) => Writes::Anywhere,
        (false, globs) => Writes::Within(scope_globs(globs)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::BuiltinSettings;
    use surety_common::domain::json::Value;
    use surety_common::domain::plan::ToolCall;

    #[test]
    fn what_a_step_may_write_follows_from_its_scope_and_its_tools() {
        let tools = Registry::with_builtin(&BuiltinSettings::default()).unwrap();
        let (script, model) = (DriverKind::Script, DriverKind::Model);
        let src = || Writes::Within(vec!["src/**".to_owned()]);
        for (driver, calls, expected, scope, writes_this) in [
            (script, &["noop", "read_file"][..], &[][..], &[][..], Writes::Nothing),
            (script, &["read_file", "write_file"], &[], &[], Writes::Anywhere),
            (script, &["write_file"], &[], &["src/**"], src()),
            (script, &["read_file"], &[], &["src/**"], Writes::Nothing),
            (script, &["run_command"], &["read_file"], &[], Writes::Anywhere),
            (script, &["unheard_of"], &[], &[], Writes::Anywhere),
            (model, &["read_file"], &[], &[], Writes::Anywhere),
            (model, &[], &["read_file", "grep"], &[], Writes::Nothing),
            (model, &[], &["view", "search"], &[], Writes::Nothing),
            (script, &["todo", "read_output"], &[], &[], Writes::Nothing),
            (model, &[], &["read_file", "edit_file"], &[], Writes::Anywhere),
            (model, &[], &["edit_file"], &["src/**"], src()),
        ] {
            let call = |name: &&str| ToolCall {
                name: (*name).to_owned(),
                arguments: Value::Object(Vec::new()),
            };
            let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
            let step = PlanStep {
                script: calls.iter().map(call).collect(),
                tools_expected: texts(expected),
                write_scope: texts(scope),
                ..PlanStep::default()
            };
            let found = writes(&step, driver, &tools);
            assert_eq!(found, writes_this, "{driver:?} {calls:?} {expected:?} {scope:?}");
        }
    }
}
