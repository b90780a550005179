//! What a push came to.

use super::failure::{GitFailure, shortened};
use surety_common::domain::fault::FaultCode;

/// A reference to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The reference.
    pub(crate) reference: String,
    /// Its commit so far; empty where it is not there.
    pub(crate) old: String,
    /// Its next commit.
    pub(crate) new: String,
    /// A reference that is deleted with it; empty for none.
    pub(crate) gone: String,
}

/// What a push came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The reference names the commit.
    Done,
    /// Another process moved the reference.
    Moved,
}

/// Reads what `git push --porcelain` says: a line each reference, `FLAG TAB FROM:TO TAB SUMMARY (REASON)`.
pub(super) fn read_push(
    reference: &str,
    (exit_code, stdout, stderr): (i32, &str, &str),
) -> Result<Pushed, GitFailure> {
    let wanted = format!(":{reference}");
    let mut lines = stdout.lines().filter_map(|line| {
        let mut parts = line.splitn(3, '\t');
        let (flag, names, summary) = (parts.next()?, parts.next()?, parts.next()?);
        names.ends_with(&wanted).then_some((flag, summary))
    });
    match lines.next() {
        Some((flag, _)) if flag != "!" => Ok(Pushed::Done),
        Some((_, summary)) => {
            let is_race = [
                "stale info",
                "fetch first",
                "non-fast-forward",
                "failed to update ref",
                "cannot lock ref",
            ];
            if is_race.iter().any(|text| summary.contains(text)) {
                return Ok(Pushed::Moved);
            }
            let why = shortened(&format!("{stderr}\n{summary}"));
            Err(GitFailure::Final(FaultCode::RepositoryPushRefused, why))
        }
        None if exit_code == 0 => Ok(Pushed::Done),
        None => Err(match GitFailure::of(stderr) {
            // The repository was read with the same credential.
            GitFailure::Final(FaultCode::RepositoryDenied, why) => {
                GitFailure::Final(FaultCode::RepositoryPushRefused, why)
            }
            failure @ (GitFailure::Final(..) | GitFailure::Passing(_) | GitFailure::Tool(_)) => {
                failure
            }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_done_moved_by_another_or_refused() {
        let read =
            |exit, stdout: &str, stderr: &str| match read_push("refs/r", (exit, stdout, stderr)) {
                Ok(pushed) => format!("{pushed:?}"),
                Err(GitFailure::Final(code, _)) => code.as_str().to_owned(),
                Err(GitFailure::Passing(_)) => "passing".to_owned(),
                Err(GitFailure::Tool(error)) => error.to_string(),
            };
        for (exit, stdout, stderr, expected) in [
            (0, "To x\n*\tabc:refs/r\t[new reference]\nDone\n", "", "Done"),
            (0, "To x\n=\tabc:refs/r\t[up to date]\nDone\n", "", "Done"),
            (
                1,
                "To x\n \tabc:refs/r\ta..b\n!\t:refs/w\t[remote rejected] (deletion prohibited)\n",
                "",
                "Done",
            ),
            (1, "To x\n!\tabc:refs/r\t[rejected] (stale info)\n", "", "Moved"),
            (1, "To x\n!\tabc:refs/r\t[remote rejected] (failed to update ref)\n", "", "Moved"),
            (
                1,
                "To x\n!\tabc:refs/r\t[remote rejected] (pre-receive hook declined)\n",
                "remote: no",
                "repository_push_refused",
            ),
            (128, "", "The requested URL returned error: 403", "repository_push_refused"),
            (128, "", "Could not resolve host: a.org", "passing"),
        ] {
            assert_eq!(read(exit, stdout, stderr), expected, "{stdout}{stderr}");
        }
    }
}
