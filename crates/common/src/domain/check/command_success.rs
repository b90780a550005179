//! `command_success`: the command ran and succeeded, and no other call wrote afterwards.
//!
//! A command that the runner ran for a step states its conditions. It proves the check only in the
//! workspace's root, under the environment of the target, and when the workspace did not change from
//! its start until the runner read it last, before the gate decides. A reported command states none.

use super::evidence::{Run, Seen};
use super::{AcceptCheck, Evidence, Reason};
use crate::domain::command::CommandLine;
use crate::domain::receipt::Conditions;

pub(super) fn evaluate(check: &AcceptCheck, evidence: &Evidence<'_>) -> Result<(), Reason> {
    let target = CommandLine::parse(&check.target);
    let matches =
        |run: &&Run<'_>| run.command.matches(&target, check.r#match) && is_same_work(run, &target);
    let mut matching = evidence.runs().iter().rev().filter(matches);
    let last = matching.next().ok_or(Reason::NoSuccessfulCommand)?;
    if !last.succeeded {
        return Err(if matching.any(|run| run.succeeded) {
            Reason::CommandFailedLater
        } else {
            Reason::NoSuccessfulCommand
        });
    }
    let is_another = |ran: &Conditions| {
        ran.workspace_before != ran.workspace_after
            || evidence.workspace_after(last.origin).is_some_and(|end| end != ran.workspace_after)
    };
    if last.conditions.is_some_and(is_another) {
        return Err(Reason::StaleAfterWrite);
    }
    // The writes of a reported command, such as a formatter, do not make its own result stale.
    let stale =
        evidence.files().iter().rev().take_while(|file| file.origin.at > last.origin.at).any(
            |file| {
                matches!(file.seen, Seen::Written { changed: true, .. })
                    && file.origin.call != last.origin.call
            },
        );
    if stale {
        return Err(Reason::StaleAfterWrite);
    }
    Ok(())
}

/// Whether the command ran where and how the target would run.
fn is_same_work(run: &Run<'_>, target: &CommandLine<'_>) -> bool {
    let Some(conditions) = run.conditions else { return true };
    conditions.cwd == "." && run.command.is_run_as(target, &conditions.environment)
}
