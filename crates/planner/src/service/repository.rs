//! The repository of a request: converts it to the input of intake.

use surety_common::domain::check::Author;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::repository::{Repository, read_repository};
use surety_common::wire::v1;

/// Reads the repository of a request.
///
/// # Errors
/// `repository_invalid`; `type_mismatch` beside a folder; `policy_exceeded` for a secret from a driver.
pub(super) fn read(
    named: Option<v1::Repository>,
    workspace: &str,
    author: Author,
) -> Result<Option<Repository>, Problem> {
    let Some(named) = named else { return Ok(None) };
    // The rest is output.
    let v1::Repository { url, revision, secret, base_commit: _, r#ref: _, commit: _ } = named;
    if !workspace.is_empty() {
        let message = "names a repository beside a workspace; leave one of them out";
        return Err(Problem::at(Code::TypeMismatch, "repository", message));
    }
    if !secret.is_empty() && !matches!(author, Author::Submitter | Author::Operator) {
        let message = "only a user or an operator lets a run use a secret; leave it out";
        return Err(Problem::at(Code::PolicyExceeded, "repository.secret", message));
    }
    read_repository("repository", (&url, &revision, &secret)).map(Some)
}

/// The limits of a run on a repository: one step at a time, so that each commit is the work of one step.
///
/// # Errors
/// `limit_out_of_range` for more.
pub(super) fn one_at_a_time(limits: v1::Limits) -> Result<v1::Limits, Problem> {
    if limits.max_parallel_steps.is_some_and(|steps| steps > 1) {
        let message = "is 1 for a run on a repository, so that each commit is the work of one step; leave it out";
        return Err(Problem::at(Code::LimitOutOfRange, "limits.max_parallel_steps", message));
    }
    Ok(v1::Limits { max_parallel_steps: limits.max_parallel_steps.or(Some(1)), ..limits })
}
