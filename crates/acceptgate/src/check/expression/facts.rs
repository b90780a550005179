//! The receipts' facts as CEL values.

use super::estimate::{NAME, Size};
use cel::Value;
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use std::collections::HashMap;
use std::sync::Arc;
use surety_common::domain::command::{Program, command_line, needs_shell, programs};
use surety_common::domain::receipt::{Command, EvidenceReceipt, Fact};
use surety_common::domain::tests_seen::Counts;

/// The facts of a run as a list of maps, built once and borrowed by all its expressions. Copying
/// 100,000 facts takes as long as reading them.
#[derive(Debug, Clone)]
pub struct FactList {
    /// None when the library could not convert the list, and then the variable is unknown.
    facts: Option<Arc<dyn Val>>,
    size: Size,
}

impl FactList {
    /// Converts the facts of these receipts, in order.
    pub fn new(receipts: &[EvidenceReceipt]) -> Self {
        let facts: Vec<Value> = receipts
            .iter()
            .flat_map(|receipt| receipt.facts.iter().map(|fact| map_of(receipt, fact)))
            .collect();
        let size = Size::of_list(&facts);
        let facts: Result<Box<dyn Val>, _> = Value::List(Arc::new(facts)).try_into();
        Self { facts: facts.ok().map(Arc::from), size }
    }

    pub(super) const fn size(&self) -> &Size {
        &self.size
    }
}

impl VariableResolver for FactList {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let facts = self.facts.as_deref().filter(|_| variable == NAME)?;
        Some(CowVal::Borrowed(facts))
    }
}

/// The arguments of a line that is one program without assignments, and that means the same to a shell.
fn plain(line: &str) -> Option<Vec<String>> {
    let programs = programs(line).filter(|_| !needs_shell(line))?;
    let [Program { environment, argv }] = <[Program; 1]>::try_from(programs).ok()?;
    environment.is_empty().then_some(argv)
}

fn map_of(receipt: &EvidenceReceipt, fact: &Fact) -> Value {
    let mut map: HashMap<&str, Value> = HashMap::with_capacity(8);
    map.insert("fact", fact.kind().into());
    map.insert("success", Value::Bool(receipt.success));
    map.insert("source", receipt.source.as_str().into());
    map.insert("step_id", receipt.step_id.as_str().into());
    map.insert("name", receipt.name.as_str().into());
    match fact {
        Fact::FileWritten { path, before_digest, after_digest } => {
            map.insert("path", path.as_str().into());
            if let Some(digest) = before_digest {
                map.insert("before_digest", digest.as_str().into());
            }
            if let Some(digest) = after_digest {
                map.insert("after_digest", digest.as_str().into());
            }
        }
        Fact::FileObserved { path, exists } => {
            map.insert("path", path.as_str().into());
            map.insert("exists", Value::Bool(*exists));
        }
        Fact::Command { command, exit_code, conditions } => {
            // A plain command has both forms, so that an expression need not know how it was started.
            match command {
                Command::Argv(argv) => {
                    map.insert("argv", argv.clone().into());
                    map.insert("command_line", command_line(argv).into());
                }
                Command::Line(line) => {
                    map.insert("command_line", line.as_str().into());
                    if let Some(argv) = plain(line) {
                        map.insert("argv", argv.into());
                    }
                }
            }
            map.insert("exit_code", Value::Int(i64::from(*exit_code)));
            if let Some(conditions) = conditions {
                map.insert("cwd", conditions.cwd.as_str().into());
                map.insert("environment", conditions.environment.clone().into());
            }
        }
        Fact::Content { path, contains, found } => {
            map.insert("path", path.as_str().into());
            map.insert("contains", contains.as_str().into());
            map.insert("found", Value::Bool(*found));
        }
        Fact::Verification { tool, scope, passed } => {
            map.insert("tool", tool.as_str().into());
            map.insert("scope", scope.as_str().into());
            map.insert("passed", Value::Bool(*passed));
        }
        Fact::Output { key, value } => {
            map.insert("key", key.as_str().into());
            map.insert("value", value.as_str().into());
        }
        Fact::Tests { runner, counts } => {
            let Counts { ran, failed, skipped, missing } = *counts;
            map.insert("runner", runner.as_str().into());
            for (key, count) in
                [("ran", ran), ("failed", failed), ("skipped", skipped), ("missing", missing)]
            {
                map.insert(key, Value::Int(i64::try_from(count).unwrap_or(i64::MAX)));
            }
        }
    }
    map.into()
}
