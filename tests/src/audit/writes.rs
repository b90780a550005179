//! The write scopes of steps, and the files that they wrote.

use super::calls::Calls;
use anyhow::{Result, ensure};
use std::path::Path;
use std::sync::Arc;
use surety_common::domain::manifest::IgnoreRules;
use surety_common::domain::plan::PlanStep;
use surety_common::domain::receipt::{EvidenceReceipt, Fact};
use surety_common::domain::run::DriverKind;
use surety_common::domain::scope::{Writes, scope_globs};
use surety_executor::snapshot::Snapshots;
use surety_executor::tool::WriteScope;

/// The write scope of a step: empty when all its tools only read, else its globs. A script names
/// its calls; another driver may call the expected tools, or any tool when none is expected.
pub(super) fn may_write(step: &PlanStep, driver: DriverKind, tools: &Calls) -> Writes {
    let calls: Vec<&String> = match driver {
        DriverKind::Script => step.script.iter().map(|call| &call.name).collect(),
        DriverKind::Model | DriverKind::Remote => step.tools_expected.iter().collect(),
    };
    let bounded = driver == DriverKind::Script || !calls.is_empty();
    if bounded && !calls.into_iter().any(|name| tools.writes(name)) {
        return Writes::Nothing;
    }
    match step.write_scope.as_slice() {
        [] => Writes::Anywhere,
        globs => Writes::Within(scope_globs(globs)),
    }
}

/// Every file that the receipt of a success says was written lies where its step may write, or in a folder of what tools make,
/// which is ignored and always writable.
pub(super) fn stayed_inside(step: &PlanStep, receipt: &EvidenceReceipt) -> Result<()> {
    if !receipt.success {
        return Ok(());
    }
    let rules = IgnoreRules { defaults: true, ..IgnoreRules::default() };
    let made = Snapshots::resume(&Arc::new(rules))?;
    let scope = WriteScope::new(&scope_globs(&step.write_scope))?.beside(Arc::new(made));
    for fact in &receipt.facts {
        if let Fact::FileWritten { path, .. } = fact {
            ensure!(
                scope.is_writable(Path::new(path)),
                "{} wrote {path}, outside its scope",
                step.id
            );
        }
    }
    Ok(())
}
