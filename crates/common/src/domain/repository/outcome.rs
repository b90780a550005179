//! What a verification round records of a run's repository, and what a verdict says of it.

use crate::domain::receipt::{EvidenceReceipt, Fact};
use crate::domain::verification::probed;
use serde::{Deserialize, Serialize};

/// The check id of the runner's record of the repository, which is also the name of its result.
pub const REPOSITORY_CHECK: &str = "system.repository";

/// The outputs of that record.
const REFERENCE: &str = "repository_ref";
const COMMIT: &str = "repository_commit";
const BASE: &str = "repository_base";
const DIFFERENCE: &str = "repository_difference";
/// The most paths that are named, and the longest of them in bytes. git has the rest.
const MAX_PATHS: usize = 200;
const MAX_PATH: usize = 400;

/// The commit that a verdict is about, and how it differs from the start of the run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RepositoryOutcome {
    /// The run's ref.
    pub reference: String,
    /// Its commit.
    pub commit: String,
    /// The commit of the start.
    pub base: String,
    /// The number of changed files.
    pub files: u32,
    /// Lines that were added and removed, in files that are text.
    pub insertions: u64,
    /// Lines that were removed.
    pub deletions: u64,
    /// The first changed files, by their paths.
    pub changed: Vec<ChangedFile>,
}

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Its path from the top of the repository; shortened where it is very long.
    pub path: String,
    /// Lines that were added.
    pub insertions: u64,
    /// Lines that were removed.
    pub deletions: u64,
    /// Whether it is no text, so that lines are not counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
}

/// The counts and the paths of a difference, as they stand in one fact.
#[derive(Serialize, Deserialize)]
struct Difference {
    files: u32,
    insertions: u64,
    deletions: u64,
    changed: Vec<ChangedFile>,
}

impl RepositoryOutcome {
    /// The facts of the runner's record.
    pub fn facts(&self) -> Vec<Fact> {
        let Self { reference, commit, base, files, insertions, deletions, changed } = self;
        let difference = Difference {
            files: *files,
            insertions: *insertions,
            deletions: *deletions,
            changed: changed.clone(),
        };
        // Texts and numbers always have a form in JSON.
        let difference = serde_json::to_string(&difference).unwrap_or_default();
        vec![
            Fact::of_output(REFERENCE, reference),
            Fact::of_output(COMMIT, commit),
            Fact::of_output(BASE, base),
            Fact::of_output(DIFFERENCE, &difference),
        ]
    }

    /// The last record of a round; none where the runner made none, or where its facts do not read.
    pub fn of_round(receipts: &[EvidenceReceipt], round: u32) -> Option<Self> {
        let last = probed(receipts, round, Some(REPOSITORY_CHECK)).pop()?;
        let one = |key: &str| last.outputs(key).next().map(str::to_owned);
        let difference: Difference = serde_json::from_str(&one(DIFFERENCE)?).ok()?;
        let Difference { files, insertions, deletions, changed } = difference;
        let (reference, commit, base) = (one(REFERENCE)?, one(COMMIT)?, one(BASE)?);
        Some(Self { reference, commit, base, files, insertions, deletions, changed })
    }

    /// The difference that `git diff-tree --numstat -z` lists: `ADDED TAB REMOVED TAB PATH NUL` each, with `-` for
    /// what is no text.
    #[must_use]
    pub fn with_difference(mut self, listed: &[u8]) -> Self {
        for file in read_numstat(listed) {
            self.files = self.files.saturating_add(1);
            self.insertions = self.insertions.saturating_add(file.insertions);
            self.deletions = self.deletions.saturating_add(file.deletions);
            if self.changed.len() < MAX_PATHS {
                self.changed.push(file);
            }
        }
        self
    }
}

/// The files that `git diff-tree --numstat -z` lists. What does not read is left out.
pub fn read_numstat(listed: &[u8]) -> impl Iterator<Item = ChangedFile> {
    listed.split(|byte| *byte == 0).filter_map(|line| {
        let mut parts = line.splitn(3, |byte| *byte == b'\t');
        let (added, removed, path) = (parts.next()?, parts.next()?, parts.next()?);
        let count = |part: &[u8]| std::str::from_utf8(part).ok()?.parse::<u64>().ok();
        let binary = added == b"-";
        Some(ChangedFile {
            path: shown(path),
            insertions: if binary { 0 } else { count(added)? },
            deletions: if binary { 0 } else { count(removed)? },
            binary,
        })
    })
}

/// A path without characters that would change how a line is shown.
fn shown(path: &[u8]) -> String {
    let mut text = String::new();
    for letter in String::from_utf8_lossy(path).chars() {
        if text.len() >= MAX_PATH {
            text.push('…');
            break;
        }
        match letter {
            letter if letter.is_control() => text.extend(letter.escape_default()),
            letter => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_counted_whole_and_its_first_paths_are_named() {
        let listed = b"3\t1\tsrc/a.rs\0-\t-\tlogo.png\x000\t2\tb\nc\0broken\0";
        let outcome = RepositoryOutcome::default().with_difference(listed);
        assert_eq!((outcome.files, outcome.insertions, outcome.deletions), (3, 3, 3));
        let paths: Vec<_> = outcome.changed.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["src/a.rs", "logo.png", "b\\nc"]);
        assert!(outcome.changed[1].binary);
        let many: String = (0..300).map(|at| format!("1\t0\t{at}\0")).collect();
        let outcome = RepositoryOutcome::default().with_difference(many.as_bytes());
        assert_eq!((outcome.files, outcome.changed.len()), (300, MAX_PATHS));
        let long = format!("1\t0\t{}\0", "x".repeat(2 * MAX_PATH));
        let outcome = RepositoryOutcome::default().with_difference(long.as_bytes());
        assert!(outcome.changed[0].path.len() < MAX_PATH + 8);
    }
}
