//! `command_success`: the command ran and succeeded, and no other call wrote afterwards.

use super::evidence::Seen;
use super::{AcceptCheck, Evidence, Reason};
use crate::domain::command::CommandLine;

pub(super) fn evaluate(check: &AcceptCheck, evidence: &Evidence<'_>) -> Result<(), Reason> {
    let target = CommandLine::parse(&check.target);
    let mut matching =
        evidence.runs().iter().rev().filter(|run| run.command.matches(&target, check.r#match));
    let last = matching.next().ok_or(Reason::NoSuccessfulCommand)?;
    if !last.succeeded {
        return Err(if matching.any(|run| run.succeeded) {
            Reason::CommandFailedLater
        } else {
            Reason::NoSuccessfulCommand
        });
    }
    // The writes of a command, such as a formatter, do not make its own result stale.
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
