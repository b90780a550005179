//! Requests that a forge repeats.

use super::find_agent::{Origin, find_agent};
use super::render::Found;
use super::{TaskType, Toolchain};
use crate::planner::Planner;
use serde_json::Value;
use surety_common::domain::fault::Fault;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::toolchain::{
    Placed, ProbeMode, Role, ToolchainEvent, Withdrawal, asks_for_same_review, asks_the_same,
    is_superseded, supersedes,
};
use surety_common::store::{Admission, KnownBuild, KnownTask, MadeBefore};
use uuid::Uuid;

/// Digest of what makes an event this one, with the server that it happened on.
pub(super) fn event_key(event: &ToolchainEvent) -> String {
    let ToolchainEvent { key, subject, .. } = event;
    match subject.server.as_str() {
        "" => key_without_server(event),
        server => sha256_hex(format!("{key}|{server}").as_bytes()),
    }
}

/// The digest of an event whose server is not known, and that of earlier versions.
fn key_without_server(event: &ToolchainEvent) -> String {
    sha256_hex(event.key.as_bytes())
}

/// The task that an event made before, and its key: also one that names no server.
async fn made_before(
    admission: &mut Admission,
    event: &ToolchainEvent,
) -> Result<Option<(String, MadeBefore)>, Fault> {
    let (key, without) = (event_key(event), key_without_server(event));
    let namespace = Toolchain.namespace();
    if let Some(task) = admission.made_before(namespace, &key).await? {
        return Ok(Some((key, task)));
    }
    if key == without {
        return Ok(None);
    }
    let found = admission.made_before(namespace, &without).await?;
    Ok(found.filter(|task| task.server.is_empty()).map(|task| (without, task)))
}

/// Whether an event asks for a task.
pub(super) enum Asked {
    /// It does, under this key.
    Now(String),
    /// It asked for this task before, or that one is open and asks for the same: its run and its assignee.
    Before(Uuid, String),
}

/// What a failed build has to do with the task about its commit.
pub(super) enum Build {
    /// It is known by this task: its run and its assignee.
    Known(Uuid, String),
    /// It takes the place of this task, which is that of another account than the author of the pull request.
    Replaces(Uuid),
    /// It is no build, or one that asks for a task of its own.
    Other,
}

/// All that fails of a commit's build is one task: while it is open, and for what is not later than its last failure. What
/// fails for the first time after the task was accepted is of the same build, where the forge showed a newer commit.
pub(super) async fn failed_before(
    planner: &Planner,
    admission: &mut Admission,
    event: &ToolchainEvent,
) -> Result<Build, Fault> {
    let Some(commit) = event.failed_commit() else { return Ok(Build::Other) };
    let place = (event.source, &event.subject);
    let Some(build) = admission.build_of(place, commit).await? else { return Ok(Build::Other) };
    // A task about a commit alone may be that of another account than the author of the pull request.
    let is_of_another = build.addressee != event.assignee.to_string();
    if event.subject.number.is_some() && !build.has_pull && is_of_another {
        let is_replaced = build.is_open && !build.is_reported;
        return Ok(if is_replaced { Build::Replaces(build.run_id) } else { Build::Other });
    }
    if build.is_open && event.happened_at > build.asked_at {
        admission.ask_again(&[build.run_id], event.happened_at).await?;
    }
    let is_known = build.is_open
        || event.happened_at <= build.asked_at
        || is_late_job(planner, admission, (event, &build)).await?;
    Ok(if is_known { Build::Known(build.run_id, build.assignee) } else { Build::Other })
}

/// Whether a job of a build fails whose commit was replaced: an agent is quicker than a build. The gate accepts the task about
/// a pull request only after a newer commit, where it asks the forge. A job that fails again is another failure, and so is
/// one of a commit that is the newest again.
async fn is_late_job(
    planner: &Planner,
    admission: &mut Admission,
    (event, build): (&ToolchainEvent, &KnownBuild),
) -> Result<bool, Fault> {
    let (forge, repo) = (event.source.as_str(), event.subject.repo.as_str());
    let is_replaced = build.is_accepted
        && build.has_pull
        && !event.is_head
        && planner.escalations.probe_mode(forge, repo) == ProbeMode::Required;
    if !is_replaced {
        return Ok(false);
    }
    Ok(made_before(admission, event).await?.is_none())
}

/// A forge asks again for what it asked for before: a review, or work on an issue. Once that task has ended, a later event
/// by the forge's own time makes another one. A repeated delivery has the time of the first, and makes none.
pub(super) async fn asked_before(
    admission: &mut Admission,
    (event, placed): (&ToolchainEvent, &Placed),
    (known, withdrawals): (&[KnownTask], &[Withdrawal]),
) -> Result<Asked, Fault> {
    let Some((key, first)) = made_before(admission, event).await? else {
        return Ok(Asked::Now(event_key(event)));
    };
    let asked_at = event.happened_at;
    let again = sha256_hex(format!("{key}|{}", asked_at.timestamp_micros()).as_bytes());
    if let Some(task) = admission.made_before(Toolchain.namespace(), &again).await? {
        return Ok(Asked::Before(task.run_id, task.assignee));
    }
    // A delivery that names several accounts asks those again whose request was withdrawn.
    let before = Placed { happened_at: first.asked_at, ..placed.clone() };
    let is_named = !event.is_among_others || withdrawals.iter().any(|it| it.covers(&before));
    if !event.can_repeat() || asked_at <= first.asked_at || !is_named {
        return Ok(Asked::Before(first.run_id, first.assignee));
    }
    // Commits that were pushed again, and their builds, are asked for by no task about those that took their place
    // meanwhile.
    let pushed = event.context.get("new_sha").and_then(Value::as_str);
    let commit = pushed.or_else(|| event.failed_commit()).unwrap_or_default();
    let open = known.iter().find(|task| {
        let is_of_another = !commit.is_empty() && task.placed.commit != commit;
        task.is_open && asks_the_same(&task.placed, placed) && !is_of_another
    });
    let noted: Vec<Uuid> = open.iter().map(|task| task.run_id).chain([first.run_id]).collect();
    admission.ask_again(&noted, asked_at).await?;
    Ok(match open {
        Some(task) => Asked::Before(task.run_id, task.assignee.clone()),
        None => Asked::Now(again),
    })
}

/// The open task that asks for the same review, where the event asks the role of reviewers and the task a named account, or the
/// other way round: that of the agent that was found for the event, and for the role that of any reviewer.
pub(super) async fn same_review<'k>(
    admission: &mut Admission,
    known: &'k [KnownTask],
    (placed, found): (&Placed, &Found),
) -> Result<Option<&'k KnownTask>, Fault> {
    let Found::Asked(agent) = found else { return Ok(None) };
    let is_role = placed.assignee.account().is_none();
    let same = |task: &&KnownTask| task.is_open && asks_for_same_review(&task.placed, placed);
    for task in known.iter().filter(same) {
        let is_asked = task.assignee == agent.agent_id
            || is_role && admission.has_role(&task.assignee, Role::Reviewer).await?;
        if is_asked {
            return Ok(Some(task));
        }
    }
    Ok(None)
}

/// Whether an event is out of date when it arrives. A named account takes the review from the role only where it has an agent.
pub(super) async fn is_late(
    planner: &Planner,
    admission: &mut Admission,
    (event, placed): (&ToolchainEvent, &Placed),
    known: &[KnownTask],
) -> Result<bool, Fault> {
    let (named, other): (Vec<_>, Vec<_>) =
        known.iter().map(|it| &it.placed).partition(|it| asks_for_same_review(it, placed));
    if is_superseded(placed, other) {
        return Ok(true);
    }
    for task in named.into_iter().filter(|it| supersedes(it, placed)) {
        let agent = find_agent(planner, admission, Origin::of(event), &task.assignee).await?;
        if agent.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
