//! The repository of a run, and the commit that a verdict is about.

use surety_common::wire::v1;

use crate::text::one_line;

/// Changed files that are shown; the API has the first 200, and git all of them.
const SHOWN: usize = 20;

/// Where a run works, and from which commit it began.
pub(super) fn named(repository: &v1::Repository) -> String {
    let v1::Repository { url, revision, base_commit, .. } = repository;
    let from = if base_commit.is_empty() { String::new() } else { format!(" ({base_commit})") };
    one_line(&format!("{url} at {revision}{from}"))
}

/// The commit, and the files that differ from the start.
pub(super) fn outcome(outcome: &v1::RepositoryOutcome) -> String {
    let v1::RepositoryOutcome { r#ref, commit, base_commit, files_changed, .. } = outcome;
    let v1::RepositoryOutcome { insertions, deletions, changed, .. } = outcome;
    let mut text = format!(
        "\n  commit {}\n  files changed from {}: {files_changed}, +{insertions} -{deletions}",
        one_line(&format!("{commit} on {}", r#ref)),
        one_line(base_commit)
    );
    for v1::ChangedFile { path, insertions, deletions, binary } in changed.iter().take(SHOWN) {
        let lines = match binary {
            true => "binary".to_owned(),
            false => format!("+{insertions} -{deletions}"),
        };
        text.push_str(&format!("\n    {}  {lines}", one_line(path)));
    }
    let left = usize::try_from(*files_changed).unwrap_or(usize::MAX);
    let left = left.saturating_sub(changed.len().min(SHOWN));
    if left > 0 {
        text.push_str(&format!("\n    and {left} more: git diff --stat {base_commit} {commit}"));
    }
    text
}
