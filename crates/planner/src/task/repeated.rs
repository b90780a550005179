//! Requests that a forge repeats.

use super::{TaskType, Toolchain};
use serde_json::Value;
use surety_common::domain::fault::Fault;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::toolchain::{Placed, ToolchainEvent, Withdrawal, asks_the_same};
use surety_common::store::{Admission, KnownTask};
use uuid::Uuid;

/// Digest of what makes an event this one.
pub(super) fn event_key(event: &ToolchainEvent) -> String {
    sha256_hex(event.key.as_bytes())
}

/// Whether an event asks for a task.
pub(super) enum Asked {
    /// It does, under this key.
    Now(String),
    /// It asked for this task before, or that one is open and asks for the same.
    Before(Uuid),
}

/// All that fails of a commit's build is one task: while it is open, and for what is not later than its last failure.
pub(super) async fn failed_before(
    admission: &mut Admission,
    event: &ToolchainEvent,
) -> Result<Option<Uuid>, Fault> {
    let Some(commit) = event.failed_commit() else { return Ok(None) };
    let place = (event.source, event.subject.repo.as_str());
    let Some(build) = admission.build_of(place, commit).await? else { return Ok(None) };
    // A task about a commit alone may be that of another account than the author of the pull request.
    let is_of_another = build.addressee != event.assignee.to_string();
    if event.subject.number.is_some() && !build.has_pull && is_of_another {
        return Ok(None);
    }
    if build.is_open && event.happened_at > build.asked_at {
        admission.ask_again(&[build.run_id], event.happened_at).await?;
    }
    let is_known = build.is_open || event.happened_at <= build.asked_at;
    Ok(is_known.then_some(build.run_id))
}

/// A forge asks again for what it asked for before: a review, or work on an issue. Once that task has ended, a later event
/// by the forge's own time makes another one. A repeated delivery has the time of the first, and makes none.
pub(super) async fn asked_before(
    admission: &mut Admission,
    (event, placed): (&ToolchainEvent, &Placed),
    (known, withdrawals): (&[KnownTask], &[Withdrawal]),
) -> Result<Asked, Fault> {
    let key = event_key(event);
    let Some(first) = admission.made_before(Toolchain.namespace(), &key).await? else {
        return Ok(Asked::Now(key));
    };
    let asked_at = event.happened_at;
    let again = sha256_hex(format!("{key}|{}", asked_at.timestamp_micros()).as_bytes());
    if let Some(task) = admission.made_before(Toolchain.namespace(), &again).await? {
        return Ok(Asked::Before(task.run_id));
    }
    // A delivery that names several accounts asks those again whose request was withdrawn.
    let before = Placed { happened_at: first.asked_at, ..placed.clone() };
    let is_named = !event.is_among_others || withdrawals.iter().any(|it| it.covers(&before));
    if !event.can_repeat() || asked_at <= first.asked_at || !is_named {
        return Ok(Asked::Before(first.run_id));
    }
    // Commits that were pushed again, and their builds, are asked for by no task about those that took their place
    // meanwhile.
    let pushed = event.context.get("new_sha").and_then(Value::as_str);
    let commit = pushed.or_else(|| event.failed_commit()).unwrap_or_default();
    let open = known.iter().find(|task| {
        let is_of_another = !commit.is_empty() && task.commit != commit;
        task.is_open && asks_the_same(&task.placed, placed) && !is_of_another
    });
    let open = open.map(|task| task.run_id);
    let noted: Vec<Uuid> = open.into_iter().chain([first.run_id]).collect();
    admission.ask_again(&noted, asked_at).await?;
    Ok(open.map_or(Asked::Now(again), Asked::Before))
}
