//! A git repository in place of a folder: what a request names, what a run's row remembers of it, and what a
//! verdict says about it.
//!
//! ```text
//!   Repository --first claim--> RepositoryState {commit, head}
//!                                 | a step is accepted: head = its commit on refs/surety/runs/RUN
//!                                 | the lease is released: saved = its unfinished work, on refs/surety/work/RUN
//!                                 `--> RepositoryOutcome of a round: ref, commit, difference
//! ```

mod address;
mod outcome;

pub use address::{
    Repository, RepositoryRemote, RepositoryScheme, is_object_name, is_repository_prefix,
    read_repository, remote_of,
};
pub use outcome::{ChangedFile, REPOSITORY_CHECK, RepositoryOutcome, read_numstat};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The cause of the transition by which a step begins anew, because its files are gone with a clone.
pub const WORK_LOST: &str = "its unfinished work was lost with the clone of another executor";

/// What a repository of a run is known by, in its row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryState {
    /// The commit that the request's revision named at the first claim: the run's start.
    pub commit: String,
    /// The branch that the revision named; empty for a tag and for a commit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub branch: String,
    /// The commit with the work of every accepted step: the run's ref. Other steps may have begun by then.
    pub head: SavedWork,
    /// The work of a step that is not accepted yet, where it was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<SavedWork>,
    /// The commits for the branch of a task, the oldest first. Each is named before it is pushed, so one whose push did
    /// not happen may be among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branch_commits: Vec<String>,
}

/// A commit with work of a run, and how far the steps were that had begun and had not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedWork {
    /// The commit. Its parent is the head before it.
    pub commit: String,
    /// How far the steps were.
    pub marks: Vec<StepMark>,
}

/// How far a step is that has begun and has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepMark {
    /// The step by its index in the plan.
    pub step: usize,
    /// Its attempt.
    pub attempt: u32,
    /// Its finished calls in this attempt.
    pub calls: u32,
}

impl RepositoryState {
    /// A run at its start.
    pub fn at(commit: String, branch: String) -> Self {
        let head = SavedWork { commit: commit.clone(), marks: Vec::new() };
        Self { head, commit, branch, saved: None, branch_commits: Vec::new() }
    }
}

/// The ref with the commits of a run's accepted steps.
pub fn run_ref(run_id: Uuid) -> String {
    format!("refs/surety/runs/{run_id}")
}

/// The ref with the work of a run's unfinished step.
pub fn work_ref(run_id: Uuid) -> String {
    format!("refs/surety/work/{run_id}")
}

/// What a revision names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The commit.
    pub commit: String,
    /// The branch; empty for a tag and for a commit.
    pub branch: String,
}

/// The patterns of refs to list, so that a revision that is no commit can be resolved.
pub fn ref_patterns(revision: &str) -> Vec<String> {
    if revision == "HEAD" || revision.starts_with("refs/") {
        return vec![revision.to_owned(), format!("{revision}^{{}}")];
    }
    vec![
        format!("refs/heads/{revision}"),
        format!("refs/tags/{revision}"),
        format!("refs/tags/{revision}^{{}}"),
    ]
}

/// Finds a revision in what `git ls-remote` lists: `COMMIT TAB REF`, a line each. A branch wins over a tag of its
/// name. None where nothing has the name.
pub fn resolve(revision: &str, listed: &str) -> Option<Resolved> {
    let refs: Vec<(&str, &str)> = listed.lines().filter_map(|line| line.split_once('\t')).collect();
    let find = |name: &str| {
        let object = refs.iter().find(|(_, listed)| *listed == name).map(|(object, _)| *object);
        object.filter(|object| is_object_name(object)).map(str::to_owned)
    };
    // The object that a tag names is listed behind the tag itself.
    let peeled = |name: &str| find(&format!("{name}^{{}}")).or_else(|| find(name));
    let is_whole = revision == "HEAD" || revision.starts_with("refs/");
    let names = match is_whole {
        true => vec![revision.to_owned()],
        false => ["heads", "tags"].map(|kind| format!("refs/{kind}/{revision}")).to_vec(),
    };
    names.iter().find_map(|name| {
        let branch = name.strip_prefix("refs/heads/").unwrap_or_default().to_owned();
        Some(Resolved { commit: peeled(name)?, branch })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    #[test]
    fn a_revision_is_a_branch_a_tag_or_a_whole_ref() {
        let listed = format!(
            "{A}\trefs/heads/main\n{B}\trefs/tags/v1\n{A}\trefs/tags/v1^{{}}\n{B}\tHEAD\n{B}\trefs/tags/main\n"
        );
        for (revision, commit, branch) in [
            ("main", Some(A), "main"),
            ("v1", Some(A), ""),
            ("refs/tags/main", Some(B), ""),
            ("refs/heads/main", Some(A), "main"),
            ("HEAD", Some(B), ""),
            ("other", None, ""),
            ("heads/main", None, ""),
        ] {
            let expected = commit
                .map(|commit| Resolved { commit: commit.to_owned(), branch: branch.to_owned() });
            assert_eq!(resolve(revision, &listed), expected, "{revision}");
        }
        assert_eq!(resolve("x", "not an object\trefs/heads/x\n"), None);
        assert_eq!(ref_patterns("v1"), ["refs/heads/v1", "refs/tags/v1", "refs/tags/v1^{}"]);
        assert_eq!(ref_patterns("HEAD"), ["HEAD", "HEAD^{}"]);
    }
}
