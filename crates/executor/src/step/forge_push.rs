//! The tool `forge_push`: the work on a task goes to the branch of its event.
//!
//! ```text
//!   workspace --commit on top of the branch--> refs/heads/BRANCH   by the assignee's credential, never forced
//! ```
//!
//! The branch is at the commit that the run began from, or at one that the run pushed before: the work of others is never
//! replaced. A call that is repeated finds its commit on the branch.

use super::leased_run::LeasedRun;
use super::repository_git::{self as ours, Reuse, Stop};
use crate::tool::builtin::forge_push::message_of;
use crate::tool::{ErrorCode, ForgeOfTask, ToolContext, ToolError, ToolOutcome, unavailable};
use crate::workspace_git::{CloneFolder, Git, GitFailure, Pushed, Target};
use surety_common::domain::json::Value;
use surety_common::domain::receipt::Fact;
use surety_common::domain::repository::resolve;
use surety_common::domain::toolchain::PushBranch;
use surety_forge::PullState;

/// Pushes the work so far.
pub(super) async fn push(run: &LeasedRun, context: &ToolContext, args: &Value) -> ToolOutcome {
    try_push(run, context, args).await.unwrap_or_else(ToolOutcome::from)
}

async fn try_push(
    run: &LeasedRun,
    context: &ToolContext,
    args: &Value,
) -> Result<ToolOutcome, ToolError> {
    let message = format!("{}\n\n{}\n", message_of(args)?, trailer(run));
    let clone = run.clone_folder().filter(|clone| clone.is_open());
    let clone = clone.ok_or_else(|| unavailable("the task has no clone of its repository"))?;
    let task = context.forge.open().await?;
    let branch = branch_of(task).await?;
    let git = ours::git_of(run).map_err(stopped)?;
    let reference = format!("refs/heads/{branch}");
    let listed = git.list(clone, &["HEAD".to_owned(), reference.clone()]).await.map_err(failed)?;
    let commit_of = |name: &str| resolve(name, &listed).map(|it| it.commit).unwrap_or_default();
    let (old, default) = (commit_of(&reference), commit_of("HEAD"));
    let start = ours::state_of(run.execution().await.as_ref()).map_err(stopped)?.commit;
    let is_new_branch = matches!(task.branch, Some(PushBranch::OfIssue(_)));
    if !is_new_branch && task.number.is_none() && old == default {
        return Err(refused(&format!(
            "{branch} is the default branch, or at its commit; open a pull request from another branch"
        )));
    }
    let parent = parent((run, (&git, clone)), (&branch, &old), (&start, is_new_branch)).await?;
    let committed = ours::commit(run, (&git, clone), &parent, (message, Reuse::Accepted)).await;
    let (commit, _) = committed.map_err(failed)?;
    if commit == start {
        return Err(refused("the workspace has no change that could be pushed"));
    }
    if commit == old {
        return Ok(done(&branch, &commit, "was there already"));
    }
    let target = Target { reference, old, new: commit.clone(), gone: String::new() };
    match git.push(clone, &target).await.map_err(failed)? {
        Pushed::Done => Ok(done(&branch, &commit, "pushed")),
        Pushed::Moved => Err(moved(&branch)),
    }
}

/// The commit that the branch has, and that the work goes on from.
async fn parent(
    (run, (git, clone)): (&LeasedRun, (&Git, &CloneFolder)),
    (branch, old): (&str, &str),
    (start, is_new_branch): (&str, bool),
) -> Result<String, ToolError> {
    match old {
        "" if is_new_branch => Ok(start.to_owned()),
        "" => Err(refused(&format!(
            "the repository has no branch {branch:?}: the pull request comes from a fork, or its branch is gone"
        ))),
        old if old == start => Ok(old.to_owned()),
        old => {
            let message = git.message_of(clone, old).await.map_err(failed)?;
            let is_own = message.lines().any(|line| line == trailer(run));
            if is_own { Ok(old.to_owned()) } else { Err(moved(branch)) }
        }
    }
}

/// What names the run in the message of a commit.
fn trailer(run: &LeasedRun) -> String {
    format!("Surety-Run: {}", run.spec.id)
}

/// The one branch that the task pushes to.
async fn branch_of(task: &ForgeOfTask) -> Result<String, ToolError> {
    let number = match &task.branch {
        Some(PushBranch::OfIssue(branch) | PushBranch::OfBuild(branch)) => {
            return Ok(branch.clone());
        }
        Some(PushBranch::OfPull(number)) => *number,
        None => return Err(unavailable("the task asks for no change of code")),
    };
    let pull = task.forge.pull(&task.repo, number).await.map_err(|it| crate::tool::failed(&it))?;
    if pull.state != PullState::Open {
        return Err(refused(&format!("pull request {number} is not open")));
    }
    if pull.head_branch == pull.base_branch {
        return Err(refused(&format!(
            "the branch of pull request {number} has the name of the one that it changes: it comes from a fork"
        )));
    }
    Ok(pull.head_branch)
}

fn refused(why: &str) -> ToolError {
    ToolError::new(ErrorCode::ForgeRefused, why)
}

fn moved(branch: &str) -> ToolError {
    refused(&format!(
        "{branch} has commits that are not of this task; say so in the report, because no work of others is replaced"
    ))
}

fn failed(failure: GitFailure) -> ToolError {
    match failure {
        GitFailure::Final(code, why) => refused(&format!("{}: {why}", code.as_str())),
        GitFailure::Passing(why) => ToolError::new(ErrorCode::ForgeFailed, why),
        GitFailure::Tool(error) => error,
    }
}

fn stopped(stop: Stop) -> ToolError {
    match stop {
        Stop::Refused(code, why) => unavailable(&format!("{}: {why}", code.as_str())),
        Stop::Ended(_) => ToolError::called_off(),
    }
}

fn done(branch: &str, commit: &str, when: &str) -> ToolOutcome {
    let said = format!("commit {commit} on {branch}: {when}");
    let fact = Fact::Output {
        key: "forge.push".to_owned(),
        value: format!("commit {commit} on {branch}"),
    };
    ToolOutcome::done(said.clone(), said.into_bytes(), vec![fact])
}
