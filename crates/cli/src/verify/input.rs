//! Programs that checks name and that are not there.

use std::path::Path;

use surety_common::domain::check::{AcceptCheck, CheckKind};
use surety_common::domain::verification::Verification;
use surety_executor::tool::{Environment, missing_program, word_of_bash};

use super::plan::VerifyPlan;
use crate::failure::{Code, Failure};

/// Refuses a check, and a line that prepares its view, whose program is nowhere. `may_be_made` says whether a
/// program inside the workspace may still come to be, because a command runs before the checks; `present`
/// asks for a path of the workspace.
///
/// # Errors
/// `program_missing`, naming the check and the program.
pub fn check_programs(
    plan: &VerifyPlan,
    environment: &Environment,
    may_be_made: bool,
    present: impl Fn(&Path) -> bool,
) -> Result<(), Failure> {
    let is_there = |path: &Path| {
        if path.is_absolute() { path.exists() } else { may_be_made || present(path) }
    };
    let prepare = plan.policy.prepare_lines().enumerate();
    for (index, (_, line)) in prepare {
        if let Some(program) = missing_program(line, environment, is_there) {
            return Err(missing(format!("policy.prepare[{index}]"), line, &program));
        }
    }
    let commands = plan.plan.verify.iter().enumerate();
    for (index, check) in commands.filter(|(_, check)| check.kind == CheckKind::CommandSuccess) {
        let is_there = |path: &Path| is_there(path) || covers(check, path);
        if let Some(program) = missing_program(&check.target, environment, is_there) {
            let place = format!("verify[{index}]");
            if check.is_hidden() {
                // The agent that the check is hidden from may read the failure.
                let message = format!("{place}, a hidden check, names a program that is not there");
                return Err(Failure::new(Code::ProgramMissing, message, MISSING).at(place));
            }
            return Err(missing(place, &check.target, &program));
        }
    }
    for (index, check) in plan.plan.verify.iter().enumerate() {
        let Some((_, named)) = Verification::of_check(check, &plan.policy)? else { continue };
        if let Some(program) = missing_program(&named.line, environment, is_there) {
            return Err(missing(format!("verify[{index}]"), &named.line, &program));
        }
    }
    Ok(())
}

/// Whether the overlay of a check has a file.
fn covers(check: &AcceptCheck, path: &Path) -> bool {
    let files = check.overlay.files();
    let path = path.strip_prefix(".").unwrap_or(path);
    files.is_some_and(|files| files.keys().any(|file| Path::new(file) == path))
}

/// What to do without a program.
const MISSING: &str = "Install it, or name another one; PATH is that of this process.";

fn missing(place: String, line: &str, program: &str) -> Failure {
    let message = format!("{place} ({line:?}) names the program {program:?}, which is not there");
    match word_of_bash(program) {
        Some(advice) => {
            Failure::new(Code::ProgramMissing, format!("{message}: {advice}"), "").at(place)
        }
        None => Failure::new(Code::ProgramMissing, message, MISSING).at(place),
    }
}
