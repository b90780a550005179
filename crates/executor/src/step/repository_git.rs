//! What the steps of a run's life ask of git, each in one call.

use super::ended::Ended;
use super::leased_run::LeasedRun;
use super::snapshots;
use super::task_forges::TOOLCHAIN;
use crate::blocking::blocking;
use crate::pauses::Pauses;
use crate::snapshot::Reach;
use crate::tool::{ErrorCode, ToolError};
use crate::workspace_git::{
    Changed, CloneFolder, Credential, Git, GitFailure, Pushed, Remote, Target,
};
use std::sync::Arc;
use std::time::Duration;
use surety_common::config::Secret;
use surety_common::domain::execution::Execution;
use surety_common::domain::fault::FaultCode;
use surety_common::domain::manifest::Manifest;
use surety_common::domain::repository::{
    RepositoryState, Resolved, ref_patterns, resolve, run_ref, work_ref,
};
use tokio::time::{Instant, sleep_until};

/// How often the work ref is moved that another process moves as well.
const MOST_RACES: u32 = 2;

/// Why the work on a repository stops.
pub(super) enum Stop {
    /// The work on the run ends here.
    Ended(Ended),
    /// The run ends with this code.
    Refused(FaultCode, String),
}

impl From<Ended> for Stop {
    fn from(ended: Ended) -> Self {
        Self::Ended(ended)
    }
}

impl From<ToolError> for Stop {
    fn from(error: ToolError) -> Self {
        if error.code == ErrorCode::Cancelled {
            // What cancelled it ends the work on the run.
            return Self::Ended(Ended::NotHeld);
        }
        Self::Refused(FaultCode::RepositoryUnreachable, error.to_string())
    }
}

/// git for a run, if its executor's operator allows it the repository and the credential.
pub(super) fn git_of(run: &LeasedRun) -> Result<Git, Stop> {
    let Some(repository) = run.spec.repository.clone() else {
        let why = "the run names no repository; report the error".to_owned();
        return Err(Stop::Refused(FaultCode::Internal, why));
    };
    let host = &run.engine.git;
    if !repository.is_allowed(&host.allowed) {
        let why = "the executor's operator does not allow it; add the beginning of its address to \
                   SURETY_EXECUTOR_REPOSITORIES";
        return Err(Stop::Refused(FaultCode::RepositoryRefused, why.to_owned()));
    }
    let (namespace, name) = (&run.spec.namespace, &repository.secret);
    let credential = match name.as_str() {
        "" => None,
        name => Some(credential(run, (namespace, name))?),
    };
    Ok(Git {
        sandbox: run.engine.sandbox.clone(),
        environment: Arc::clone(&run.engine.environment),
        secrets: Arc::new(run.engine.secrets.of_run(namespace, &[])),
        repository,
        credential,
        disk_mib: host.disk_mib,
        cancel: run.lease.calls.clone(),
        kill: run.lease.kill.clone(),
    })
}

/// The credential with a name: an agent's of the forges file for a task, else one of the executor's secrets.
fn credential(run: &LeasedRun, (namespace, name): (&str, &str)) -> Result<Credential, Stop> {
    let of_file = (namespace == TOOLCHAIN).then(|| run.engine.forges.clone_credential(name));
    let value = match of_file.flatten() {
        Some(Ok(secret)) => secret,
        Some(Err(error)) => {
            return Err(Stop::Refused(FaultCode::SecretUnavailable, error.to_string()));
        }
        None => {
            let value = run.engine.secrets.value(namespace, name).ok_or_else(|| {
                let why = format!(
                    "the executor's operator lists no secret {name:?} for the namespace {namespace:?}; add it to \
                     SURETY_EXECUTOR_SECRETS, or name another one"
                );
                Stop::Refused(FaultCode::SecretUnavailable, why)
            })?;
            Secret::new(value)
        }
    };
    Credential::read(value.expose()).ok_or_else(|| {
        let why = format!("the secret {name:?} has a line break, so it is no credential");
        Stop::Refused(FaultCode::RepositoryDenied, why)
    })
}

/// Tries again what may succeed at another time, for as long as `patience`.
pub(super) async fn patiently<T, F: Future<Output = Result<T, GitFailure>>>(
    run: &LeasedRun,
    patience: Duration,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Stop> {
    let until = Instant::now() + patience;
    let mut pauses = Pauses::new();
    loop {
        let why = match attempt().await {
            Ok(done) => return Ok(done),
            Err(GitFailure::Final(code, why)) => return Err(Stop::Refused(code, why)),
            Err(GitFailure::Tool(error)) if error.code == ErrorCode::Cancelled => {
                return Err(Stop::Ended(run.called_off()));
            }
            Err(GitFailure::Tool(error)) if !is_of_machine(error.code) => {
                return Err(error.into());
            }
            Err(GitFailure::Tool(error)) => error.to_string(),
            Err(GitFailure::Passing(why)) => why,
        };
        let again = Instant::now() + pauses.next();
        if again >= until {
            return Err(Stop::Refused(FaultCode::RepositoryUnreachable, why));
        }
        tracing::warn!(run_id = %run.spec.id, why, "repository: git failed; retrying");
        tokio::select! {
            () = sleep_until(again) => {}
            () = run.lease.calls.cancelled() => return Err(Stop::Ended(run.called_off())),
        }
    }
}

/// Whether git was not started because of the executor's machine: that says nothing about the repository.
fn is_of_machine(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::MachineExhausted | ErrorCode::SandboxFailed) || code.is_of_file()
}

/// Makes the folder of a clone, with what git is told.
pub(super) async fn make(git: &Git, clone: &CloneFolder) -> Result<(), Stop> {
    let configuration = git.configuration();
    let maker = clone.maker();
    blocking(move || maker.make(&configuration)).await??;
    Ok(())
}

/// The commit that the run's revision names.
pub(super) async fn resolve_revision(
    run: &LeasedRun,
    git: &Git,
    clone: &CloneFolder,
    patience: Duration,
) -> Result<Resolved, Stop> {
    let revision = git.repository.revision.as_str();
    if git.repository.names_commit() {
        return Ok(Resolved { commit: revision.to_owned(), branch: String::new() });
    }
    let patterns = ref_patterns(revision);
    let listed = patiently(run, patience, || git.list(clone, &patterns)).await?;
    resolve(revision, &listed).ok_or_else(|| {
        let why = format!(
            "has no branch and no tag {revision:?}; name one that is there, or a commit with all its digits"
        );
        Stop::Refused(FaultCode::RepositoryRevisionUnknown, why)
    })
}

/// What the run's refs name in the repository.
pub(super) async fn list_refs(
    run: &LeasedRun,
    git: &Git,
    clone: &CloneFolder,
) -> Result<Remote, GitFailure> {
    let [own, work] = [run_ref(run.spec.id), work_ref(run.spec.id)];
    let listed = git.list(clone, &[own.clone(), work.clone()]).await?;
    let find =
        |name: &str| resolve(name, &listed).map(|resolved| resolved.commit).unwrap_or_default();
    Ok(Remote { run: find(&own), work: find(&work) })
}

/// What is known of the refs after the run's own was moved and the work ref deleted.
pub(super) fn remote_after(commit: &str) -> Remote {
    Remote { run: commit.to_owned(), work: String::new() }
}

/// The work ref, where it is there to be deleted.
pub(super) fn gone(work: &str, run: &LeasedRun) -> String {
    if work.is_empty() { String::new() } else { work_ref(run.spec.id) }
}

/// The commits of the run's row.
pub(super) fn state_of(execution: &Execution) -> Result<RepositoryState, Stop> {
    execution.counters.repository.as_deref().cloned().ok_or_else(|| {
        let why = "the row names no commit; report the error".to_owned();
        Stop::Refused(FaultCode::Internal, why)
    })
}

/// Which earlier commit with the same files is named again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reuse<'a> {
    /// The last one that was made here.
    Last,
    /// The head, and what was pushed to the run's ref: unfinished work gets a commit of its own once it is accepted.
    Accepted,
    /// The head, and this start of the run: what goes to a branch of the forge is on top of that branch.
    Branch(&'a str),
}

/// A commit of the workspace on top of the head, and the workspace that it has.
pub(super) async fn commit(
    run: &LeasedRun,
    (git, clone): (&Git, &CloneFolder),
    head: &str,
    (message, reuse): (String, Reuse<'_>),
) -> Result<(String, Arc<Manifest>), GitFailure> {
    let now = snapshots::snapshot(run, Reach::NotIgnored).await?;
    let Some(last) = clone.committed() else {
        let error = ToolError::new(ErrorCode::InternalError, "the clone is not open");
        return Err(error.into());
    };
    let (before, after) = (Arc::clone(&last.manifest), Arc::clone(&now));
    let changed = blocking(move || Changed::between(&before, &after)).await?;
    let is_named_again = match reuse {
        Reuse::Last => true,
        Reuse::Accepted => last.commit == head || last.commit == clone.remote().run,
        Reuse::Branch(start) => last.commit == head || last.commit == start,
    };
    let commit = if changed.is_empty() && is_named_again {
        last.commit
    } else {
        git.commit(clone, (&last.commit, head), (changed, message)).await?
    };
    clone.commits(commit.clone(), Arc::clone(&now));
    Ok((commit, now))
}

/// Pushes unfinished work to the work ref. None where there is none.
pub(super) async fn save(
    run: &LeasedRun,
    clone: &CloneFolder,
    execution: &Execution,
) -> Result<Option<String>, GitFailure> {
    let (Ok(git), Some(state)) = (git_of(run), execution.counters.repository.as_deref()) else {
        return Ok(None);
    };
    let message = message(run, execution, "work in progress");
    let (commit, _) =
        self::commit(run, (&git, clone), &state.head.commit, (message, Reuse::Last)).await?;
    let remote = clone.remote();
    if commit == state.head.commit {
        return Ok(None);
    }
    if [&remote.run, &remote.work].contains(&&commit) {
        return Ok(Some(commit));
    }
    for _ in 0..MOST_RACES {
        let Remote { run: own, work } = clone.remote();
        let (reference, gone) = (work_ref(run.spec.id), String::new());
        let target = Target { reference, old: work, new: commit.clone(), gone };
        match git.push(clone, &target).await? {
            Pushed::Done => {
                clone.sees(Remote { run: own, work: commit.clone() });
                return Ok(Some(commit));
            }
            Pushed::Moved => clone.sees(list_refs(run, &git, clone).await?),
        }
    }
    Err(GitFailure::Passing("another process moves the work ref".to_owned()))
}

/// The message of a commit: what it is of, and a trailer for each part that a program may look for.
pub(super) fn message(run: &LeasedRun, execution: &Execution, what: &str) -> String {
    let steps = execution.marks();
    let named: Vec<&str> = steps.iter().map(|mark| run.graph.id(mark.step)).collect();
    let of = if named.is_empty() { "no step".to_owned() } else { named.join(", ") };
    let mut text = format!("surety: {of}: {what}\n\nSurety-Run: {}\n", run.spec.id);
    for (mark, id) in steps.iter().zip(&named) {
        text.push_str(&format!("Surety-Step: {id}\nSurety-Attempt: {}\n", mark.attempt));
    }
    text
}
