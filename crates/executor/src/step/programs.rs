//! Programs that required checks name: they are looked for before anything of the run is started.

use super::ended::Ended;
use super::leased_run::LeasedRun;
use super::workspace_lock::refuse;
use crate::blocking::blocking;
use crate::tool::{Environment, missing_program, program_folders, word_of_bash};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surety_common::domain::check::{AcceptCheck, CheckKind, check_key};
use surety_common::domain::fault::FaultCode;
use surety_common::domain::run::VerifyCommands;
use surety_common::domain::verification::Verification;

/// What names a program.
struct Named {
    /// What a reader is told of it.
    what: String,
    line: String,
    /// Whether the program is for the owner of the check only.
    is_hidden: bool,
}

/// Whether the programs are there that no step could make: those outside of the workspace. Else the run ends.
pub(super) async fn ensure(run: &LeasedRun) -> Result<bool, Ended> {
    if run.known.programs_found.get().is_some() {
        return Ok(true);
    }
    let is_new = run.execution().await.counters.rounds == 0;
    let named = if is_new { named(run) } else { Vec::new() };
    if !named.is_empty() {
        let environment = Arc::clone(&run.engine.environment);
        let workspace = PathBuf::from(&run.spec.workspace);
        // What cannot be looked for is said by the round.
        let found = blocking(move || missing(&named, &environment, &workspace)).await;
        if let Ok(Some(why)) = found {
            Box::pin(refuse(run, FaultCode::ProgramMissing, &why)).await?;
            return Ok(false);
        }
    }
    run.known.programs_found.get_or_init(|| ());
    Ok(true)
}

/// The lines that the runner will run whatever the steps do.
fn named(run: &LeasedRun) -> Vec<Named> {
    if run.spec.policy.verify_commands != VerifyCommands::Runner {
        return Vec::new();
    }
    let checks = &run.plan.verify;
    let required = |(_, check): &(usize, &AcceptCheck)| {
        check.required && check.kind == CheckKind::CommandSuccess
    };
    let of_check = |(place, check): (usize, &AcceptCheck)| Named {
        what: format!("check {}", check_key(checks, place)),
        line: check.target.clone(),
        is_hidden: check.is_hidden(),
    };
    let verification = |(place, check): (usize, &AcceptCheck)| {
        let (_, found) = Verification::of_check(check, &run.spec.policy).ok().flatten()?;
        let what = format!("check {}", check_key(checks, place));
        Some(Named { what, line: found.line, is_hidden: false })
    };
    let named = checks.iter().enumerate().filter_map(verification);
    let commands = checks.iter().enumerate().filter(required).map(of_check);
    let commands: Vec<_> = commands.chain(named).collect();
    if commands.is_empty() {
        return commands;
    }
    let prepares = run.spec.policy.prepare_lines().enumerate();
    let prepares = prepares.map(|(place, (_, line))| Named {
        what: format!("line {place} of policy.prepare"),
        line: line.to_owned(),
        is_hidden: false,
    });
    prepares.chain(commands).collect()
}

fn missing(named: &[Named], environment: &Environment, workspace: &Path) -> Option<String> {
    // A folder of programs inside the workspace may get more of them.
    let in_workspace = |folder: &PathBuf| folder.is_relative() || folder.starts_with(workspace);
    let may_be_made =
        !workspace.as_os_str().is_empty() && program_folders(environment).iter().any(in_workspace);
    let is_there = |path: &Path| path.is_relative() || path.starts_with(workspace) || path.exists();
    named.iter().find_map(|Named { what, line, is_hidden }| {
        let program = missing_program(line, environment, is_there)?;
        if may_be_made && !program.contains('/') {
            return None;
        }
        if let Some(advice) = word_of_bash(&program).filter(|_| !is_hidden) {
            return Some(format!("{what} names no program, but {program:?}: {advice}"));
        }
        let program = if *is_hidden { "a program".to_owned() } else { format!("the program {program:?}") };
        Some(format!(
            "{what} names {program}, which is not on the executor's machine; install it there, or name another one"
        ))
    })
}
