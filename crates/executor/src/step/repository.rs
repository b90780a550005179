//! The git repository of a run: its clone is opened before the first work here, each accepted step is pushed before
//! it is done, and unfinished work is pushed before the lease is released.
//!
//! ```text
//!   ensure -------> open: fetch, the files of the row's commit, the start's snapshot
//!   accept -------> commit --saved in the row--> push to the run's ref --> the step is done, head = commit
//!   before_release> commit --> push to the work ref --saved in the row with the release
//!   record -------> commit, push, and the facts of the round
//! ```
//!
//! A commit is named in the row before the step is done. So a successor finds out whether it was pushed, and goes on
//! from it; else it begins the step anew from the head.

use super::ended::Ended;
use super::leased_run::LeasedRun;
use super::workspace_lock::{protected_is_there, refuse};
use super::{repository_git as ours, snapshots};
use crate::blocking::blocking;
use crate::round::Ended as RoundEnd;
use crate::snapshot::Reach;
use crate::tool::builtin::{run_command, verify};
use crate::tool::{Effect, ToolOutcome};
use crate::workspace_git::{CloneFolder, Git, Pushed, Target};
use ours::{Stop, patiently};
use std::time::Duration;
use surety_common::crash;
use surety_common::domain::execution::OpenCall;
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::fault::FaultCode;
use surety_common::domain::manifest::digest;
use surety_common::domain::repository::{RepositoryOutcome, RepositoryState, WORK_LOST, run_ref};
use surety_common::domain::run::{NetworkPolicy, SandboxPolicy};
use surety_common::domain::stop::StopReason;

/// How long an unreachable repository is tried, before the work on a run and at the end of it.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it is tried for the work of a step.
const PATIENCE_FOR_WORK: Duration = Duration::from_secs(600);
/// How often a reference is moved that another process moves as well.
const MOST_RACES: u32 = 3;
/// The commit with the work of a step that is accepted; none for a run on a folder.
pub(super) struct Accepted(Option<String>);

impl Accepted {
    /// Names the commit in the change that ends the step.
    pub(super) fn refer(&self, draft: &mut Draft, index: usize) {
        if let Some(commit) = &self.0 {
            draft.accept_work(commit.clone(), Some(index));
        }
    }
}

/// Opens the clone, unless this process has it. Answers whether the work may go on; else the run ended.
pub(super) async fn ensure(run: &LeasedRun) -> Result<bool, Ended> {
    let Some(clone) = run.clone_folder().filter(|clone| !clone.is_open()) else { return Ok(true) };
    let opening = async { settled(run, open(run, clone).await).await };
    Ok(Box::pin(opening).await?.is_some())
}

/// Pushes the work of a step that is about to be done. None when that ended the run.
pub(super) async fn accept(run: &LeasedRun) -> Result<Option<Accepted>, Ended> {
    let Some(clone) = run.clone_folder() else { return Ok(Some(Accepted(None))) };
    // A successor has to find what the step did.
    run.settle().await?;
    let message = ours::message(run, run.execution().await.as_ref(), "accepted");
    let pushed = push_work(run, clone, message).await;
    Ok(settled(run, pushed).await?.map(|(commit, _)| Accepted(Some(commit))))
}

/// The record of the repository at the end of a round, and its commit. None when that ended the run.
pub(super) async fn record(
    run: &LeasedRun,
    clone: &CloneFolder,
    end: Option<&RoundEnd>,
) -> Result<Option<(ToolOutcome, String)>, Ended> {
    settled(run, observe(run, clone, end).await).await
}

async fn settled<T>(run: &LeasedRun, done: Result<T, Stop>) -> Result<Option<T>, Ended> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(Stop::Ended(ended)) => Err(ended),
        Err(Stop::Refused(code, why)) => {
            let url = run.spec.repository.as_ref().map_or("", |repository| &repository.url);
            refuse(run, code, &format!("the repository {url}: {why}")).await?;
            Ok(None)
        }
    }
}

async fn open(run: &LeasedRun, clone: &CloneFolder) -> Result<(), Stop> {
    let git = ours::git_of(run)?;
    ours::make(&git, clone).await?;
    let state = match run.execution().await.counters.repository.clone() {
        Some(state) => *state,
        None => begin(run, &git, clone).await?,
    };
    let listing = || ours::list_refs(run, &git, clone);
    let remote = patiently(run, PATIENCE, listing).await?;
    clone.sees(remote.clone());
    let target = {
        let execution = run.execution().await;
        let saved = execution.exact_work().map(|saved| saved.commit.clone());
        saved.filter(|commit| [&remote.run, &remote.work].contains(&commit))
    };
    if target.is_none() {
        begin_lost_steps_anew(run).await?;
    }
    let target = target.unwrap_or_else(|| state.head.commit.clone());
    let (start, branch) = (state.commit.as_str(), state.branch.as_str());
    patiently(run, PATIENCE, || git.open(clone, (start, &target), branch)).await?;
    if remote.run.is_empty() {
        // A repository that takes no commits is known before the first step.
        move_run_ref(run, (&git, clone), &state.head.commit).await?;
    }
    take_start(run, &state, &target).await?;
    let manifest = snapshots::snapshot(run, Reach::NotIgnored).await?;
    clone.commits(target, manifest);
    clone.opened();
    Ok(())
}

/// Resolves the revision, once in the life of the run.
async fn begin(run: &LeasedRun, git: &Git, clone: &CloneFolder) -> Result<RepositoryState, Stop> {
    let resolved = ours::resolve_revision(run, git, clone, PATIENCE).await?;
    let state = RepositoryState::at(resolved.commit, resolved.branch);
    run.change_now(|draft| {
        draft.begin_repository(state.clone());
        Ok(())
    })
    .await?;
    crash::point("executor.after_repository_begins");
    Ok(state)
}

/// The start of the run is a snapshot of its first commit, whichever executor takes it. The row names it in the change
/// that writes down the first effect: until then, each clone is at that commit.
async fn take_start(run: &LeasedRun, state: &RepositoryState, target: &str) -> Result<(), Stop> {
    if snapshots::has_stored_base(run).await {
        snapshots::base(run).await?;
        return Ok(());
    }
    if target != state.commit {
        let why = "the row names work and no snapshot of the start; report the error".to_owned();
        return Err(Stop::Refused(FaultCode::Internal, why));
    }
    let base = snapshots::base(run).await?;
    if !protected_is_there(run, base).await? {
        return Err(Stop::Ended(Ended::Overtaken));
    }
    Ok(())
}

/// The files of the head lack what these steps did since: their attempts are forgotten. A call that may have had an
/// effect elsewhere, and whose outcome is unknown, is not made again.
async fn begin_lost_steps_anew(run: &LeasedRun) -> Result<(), Stop> {
    let execution = run.execution().await;
    let lost = execution.steps_beyond_head();
    if lost.is_empty() {
        return Ok(());
    }
    let open = |index: &usize| {
        let call = execution.step(*index)?.open_call.as_deref()?;
        (!is_contained(run, call)).then_some((*index, call))
    };
    if let Some((index, call)) = lost.iter().find_map(open) {
        let step = run.graph.id(index);
        let end = Ending {
            stop_reason: StopReason::MaxReplansReached,
            user_message: format!(
                "Step {step}: it is unknown whether its call of {} happened, and {WORK_LOST}.",
                call.tool
            ),
            internal_reason: format!(
                "call {} has no outcome and must not be repeated",
                call.call_id
            ),
        };
        run.change_now(|draft| draft.stop(&run.graph, end.clone())).await?;
        return Err(Stop::Ended(Ended::Overtaken));
    }
    tracing::warn!(run_id = %run.spec.id, steps = ?lost, "repository: steps begin anew because {WORK_LOST}");
    run.change_now(|draft| draft.restart_steps(&run.graph, &lost)).await?;
    Ok(())
}

/// Whether an interrupted call can have changed nothing but the files of the clone that is lost.
fn is_contained(run: &LeasedRun, call: &OpenCall) -> bool {
    let effect = serde_json::from_value(call.effect.clone()).unwrap_or(Effect::Unknown);
    let writes_files = match effect {
        Effect::None | Effect::Write { .. } | Effect::Writes { .. } => true,
        Effect::Unknown => false,
    };
    let policy = &run.spec.policy;
    let is_command = [run_command::NAME, verify::NAME].contains(&call.tool.as_str());
    let is_confined =
        policy.network == NetworkPolicy::None && policy.sandbox != SandboxPolicy::None;
    let tools = run.tools();
    let annotations = tools.get(&call.tool).map(|tool| tool.spec().annotations);
    let repeats = annotations.is_some_and(|it| it.read_only || it.idempotent);
    writes_files || is_command && is_confined || repeats
}

/// Commits the work so far and pushes it to the run's ref. Answers the commit, and the digest of the workspace that
/// it has.
async fn push_work(
    run: &LeasedRun,
    clone: &CloneFolder,
    message: String,
) -> Result<(String, String), Stop> {
    let git = ours::git_of(run)?;
    let state = ours::state_of(run.execution().await.as_ref())?;
    let committing = || {
        let message = (message.clone(), ours::Reuse::Accepted);
        ours::commit(run, (&git, clone), &state.head.commit, message)
    };
    let (commit, manifest) = patiently(run, PATIENCE_FOR_WORK, committing).await?;
    if commit != state.head.commit {
        run.change_now(|draft| {
            draft.save_work(commit.clone());
            Ok(())
        })
        .await?;
        crash::point("executor.before_git_push");
        move_run_ref(run, (&git, clone), &commit).await?;
        crash::point("executor.after_git_push");
    }
    let digest = blocking(move || digest(&manifest)).await?;
    Ok((commit, digest))
}

/// Moves the run's ref. A process that lost the lease may move it as well: the holder of the lease decides.
async fn move_run_ref(
    run: &LeasedRun,
    (git, clone): (&Git, &CloneFolder),
    commit: &str,
) -> Result<(), Stop> {
    for _ in 0..MOST_RACES {
        let remote = clone.remote();
        if remote.run == commit {
            return Ok(());
        }
        let target = Target {
            reference: run_ref(run.spec.id),
            old: remote.run,
            new: commit.to_owned(),
            gone: ours::gone(&remote.work, run),
        };
        match patiently(run, PATIENCE_FOR_WORK, || git.push(clone, &target)).await? {
            Pushed::Done => {
                clone.sees(ours::remote_after(commit));
                return Ok(());
            }
            Pushed::Moved => {
                // A write under the lease: without it this process has no say.
                run.insist(|_| Ok(())).await?;
                let listing = || ours::list_refs(run, git, clone);
                clone.sees(patiently(run, PATIENCE_FOR_WORK, listing).await?);
            }
        }
    }
    let why =
        "another process moves the run's ref again and again; take its right to write there away";
    Err(Stop::Refused(FaultCode::RepositoryPushRefused, why.to_owned()))
}

async fn observe(
    run: &LeasedRun,
    clone: &CloneFolder,
    end: Option<&RoundEnd>,
) -> Result<(ToolOutcome, String), Stop> {
    let message = ours::message(run, run.execution().await.as_ref(), "verified");
    let (commit, digest) = push_work(run, clone, message).await?;
    let (git, state) = (ours::git_of(run)?, ours::state_of(run.execution().await.as_ref())?);
    let counting = || git.difference(clone, &state.commit, &commit);
    let listed = patiently(run, PATIENCE, counting).await?;
    let outcome = RepositoryOutcome {
        reference: run_ref(run.spec.id),
        commit: commit.clone(),
        base: state.commit.clone(),
        ..RepositoryOutcome::default()
    };
    let outcome = outcome.with_difference(&listed);
    let summary = format!(
        "{} is {commit}: {} files differ from the start {}",
        outcome.reference, outcome.files, outcome.base
    );
    let is_judged = end.is_none_or(|end| end.digest == digest);
    let made = ToolOutcome::done(summary, Vec::new(), outcome.facts());
    Ok((ToolOutcome { success: is_judged, ..made }, commit))
}

/// The commit with the work so far, pushed to the work ref before a change that releases the lease. None where there
/// is nothing to save, and where it could not be saved: then a successor begins the step anew.
pub(super) async fn before_release(run: &LeasedRun, draft: &Draft) -> Option<String> {
    let clone = run.clone_folder().filter(|clone| clone.is_open())?;
    let execution = draft.execution();
    if execution.lease_owner.is_some() || execution.state.is_terminal() {
        return None;
    }
    // A future of its own: every change of every run would have its size.
    match Box::pin(ours::save(run, clone, execution)).await {
        Ok(saved) => saved,
        Err(error) => {
            tracing::warn!(run_id = %run.spec.id, ?error, "repository: the work of an unfinished step could not be pushed; an executor that goes on elsewhere begins the step anew");
            None
        }
    }
}
