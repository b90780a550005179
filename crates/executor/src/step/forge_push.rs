//! The tool `forge_push`: the work on a task goes to the branch of its event.
//!
//! ```text
//!   workspace --commit on top of the branch--> refs/heads/BRANCH   by the assignee's credential, never forced
//! ```
//!
//! The branch is at the commit that the run began from, or at one that the run pushed before: the work of others is never
//! replaced. The row names each commit before its push; a message proves nothing, because a rebase keeps it. Where a new
//! branch has other work, such as that of an earlier run, this run gets another one. A call that is repeated finds its
//! commit on the branch.

use super::leased_run::LeasedRun;
use super::repository_git::{self as ours, Reuse, Stop};
use crate::tool::builtin::forge_push::message_of;
use crate::tool::{ErrorCode, ForgeOfTask, ToolContext, ToolError, ToolOutcome, unavailable};
use crate::workspace_git::{GitFailure, Pushed, Target};
use surety_common::crash;
use surety_common::domain::json::Value;
use surety_common::domain::receipt::Fact;
use surety_common::domain::repository::{RepositoryState, resolve};
use surety_common::domain::toolchain::PushBranch;
use surety_forge::PullState;
use uuid::Uuid;

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
    let is_new_branch = matches!(task.branch, Some(PushBranch::New(_)));
    let of_run = branch_of_run(&branch, run.spec.id);
    let git = ours::git_of(run).map_err(stopped)?;
    let names = ["HEAD".to_owned(), reference(&branch), reference(&of_run)];
    let listed = git.list(clone, &names).await.map_err(failed)?;
    let commit_of = |name: &str| resolve(name, &listed).map(|it| it.commit).unwrap_or_default();
    let (old, default) = (commit_of(&reference(&branch)), commit_of("HEAD"));
    let state = ours::state_of(run.execution().await.as_ref()).map_err(stopped)?;
    let start = state.commit.as_str();
    if !is_new_branch && old == default {
        return Err(refused(&format!(
            "{branch} is the default branch, or at its commit; open a pull request from another branch"
        )));
    }
    let own = commit_of(&reference(&of_run));
    let (branch, old) = match is_new_branch {
        true if !own.is_empty() || !is_of_run(&state, &old) => (of_run, own),
        true | false => (branch, old),
    };
    let parent = parent((&branch, &old), (&state, is_new_branch))?;
    // A clone that was made since the push lacks its commit.
    git.fetch(clone, &parent).await.map_err(failed)?;
    let committed =
        ours::commit(run, (&git, clone), &parent, (message, Reuse::Branch(start))).await;
    let (commit, _) = committed.map_err(failed)?;
    if commit == start {
        return Err(refused("the workspace has no change that could be pushed"));
    }
    if commit == old {
        return Ok(done(&branch, &commit, "was there already"));
    }
    let named = run.change_now(|draft| {
        draft.name_branch_commit(commit.clone());
        Ok(())
    });
    named.await.map_err(|_| ToolError::called_off())?;
    crash::point("executor.before_branch_push");
    let target =
        Target { reference: reference(&branch), old, new: commit.clone(), gone: String::new() };
    match git.push(clone, &target).await.map_err(failed)? {
        Pushed::Done => {
            crash::point("executor.after_branch_push");
            Ok(done(&branch, &commit, "pushed"))
        }
        Pushed::Moved => {
            let listed = git.list(clone, &[target.reference]).await.map_err(failed)?;
            let found = resolve(&reference(&branch), &listed).map(|it| it.commit);
            after_race(&branch, (&target.old, &commit), &found.unwrap_or_default())
        }
    }
}

/// What a push came to that found the branch moved, by the commit that it has now. Where that is the one before the push,
/// the answer to the push was none of git.
fn after_race(
    branch: &str,
    (old, new): (&str, &str),
    found: &str,
) -> Result<ToolOutcome, ToolError> {
    match found {
        found if found == new => Ok(done(branch, new, "pushed")),
        found if found == old => Err(ToolError::new(
            ErrorCode::ForgeFailed,
            format!(
                "the repository did not take the push, and {branch} is where it was; push again"
            ),
        )),
        _ => Err(moved(branch)),
    }
}

/// The commit that the branch has, and that the work goes on from.
fn parent(
    (branch, old): (&str, &str),
    (state, is_new_branch): (&RepositoryState, bool),
) -> Result<String, ToolError> {
    match old {
        "" if is_new_branch => Ok(state.commit.clone()),
        "" => Err(refused(&format!("the repository has no branch {branch:?}; it is gone"))),
        old if is_of_run(state, old) => Ok(old.to_owned()),
        _ => Err(moved(branch)),
    }
}

/// Whether a branch with this commit has no work but that of the run: it is not there, where the run began, or at a commit
/// that the row names.
fn is_of_run(state: &RepositoryState, old: &str) -> bool {
    old.is_empty() || old == state.commit || state.branch_commits.iter().any(|named| named == old)
}

/// The new branch of a run where the one that its event names has other work. The last digits of the run's id are random, the
/// first ones those of a time.
fn branch_of_run(branch: &str, run_id: Uuid) -> String {
    let (_, _, _, id) = run_id.as_fields();
    let [.., a, b, c, d] = id;
    format!("{branch}-{a:02x}{b:02x}{c:02x}{d:02x}")
}

fn reference(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// What names the run in the message of a commit.
fn trailer(run: &LeasedRun) -> String {
    format!("Surety-Run: {}", run.spec.id)
}

/// The one branch that the task pushes to.
async fn branch_of(task: &ForgeOfTask) -> Result<String, ToolError> {
    let number = match &task.branch {
        Some(PushBranch::New(branch) | PushBranch::OfBuild(branch)) => {
            return Ok(branch.clone());
        }
        Some(PushBranch::OfPull(number)) => *number,
        None => return Err(unavailable("the task asks for no change of code")),
    };
    let pull = task.forge.pull(&task.repo, number).await.map_err(|it| crate::tool::failed(&it))?;
    if pull.state != PullState::Open {
        return Err(refused(&format!("pull request {number} is not open")));
    }
    let head_repo = pull.head_repo.as_deref();
    if !head_repo.is_some_and(|name| name.eq_ignore_ascii_case(task.repo.as_str())) {
        return Err(refused(&format!(
            "pull request {number} comes from a fork, and no work is pushed there; say so in the report"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_has_no_work_of_others_at_the_start_and_at_commits_that_the_row_names() {
        let mut state = RepositoryState::at("a".repeat(40), String::new());
        state.branch_commits.push("b".repeat(40));
        for old in [String::new(), "a".repeat(40), "b".repeat(40)] {
            assert!(is_of_run(&state, &old), "{old}");
        }
        assert!(!is_of_run(&state, &"c".repeat(40)));
    }

    #[test]
    fn a_branch_that_is_where_it_was_has_no_commits_of_others() {
        let of = |found| after_race("fix", ("a", "b"), found).map(|it| it.success);
        assert_eq!(of("b"), Ok(true));
        assert_eq!(of("a").map_err(|it| it.code), Err(ErrorCode::ForgeFailed));
        assert_eq!(of("c").map_err(|it| it.code), Err(ErrorCode::ForgeRefused));
    }

    #[test]
    fn the_branch_of_a_run_ends_with_the_random_digits_of_its_id() {
        let run_id = Uuid::from_u128(0x0197_c1d2_0000_7000_8000_0000_0a1b_2c3d);
        assert_eq!(branch_of_run("fix/5-slow-list", run_id), "fix/5-slow-list-0a1b2c3d");
    }
}
