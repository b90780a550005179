//! The chain of the entries in the history of a task, and the verdicts that rest on it.

use super::entry::EntryLine;
use super::merkle::Digest;
use crate::domain::journal::TaskHistory;
use data_encoding::HEXLOWER;

/// The entries as they come, and what verdicts named of them.
#[derive(Debug, Default)]
pub(super) struct HistoryCheck {
    digests: Vec<Digest>,
    /// The plan revision of each verdict, and what it rests on.
    named: Vec<(u32, TaskHistory)>,
}

impl HistoryCheck {
    /// Whether an entry came.
    pub(super) const fn has_entries(&self) -> bool {
        !self.digests.is_empty()
    }

    /// The next entry; returns whether it is the one that follows.
    pub(super) fn follows(&mut self, run_id: &str, line: &EntryLine) -> bool {
        let follows = usize::try_from(line.number).ok() == self.digests.len().checked_add(1)
            && line.previous.as_ref() == self.digests.last();
        self.digests.push(line.digest(run_id));
        follows
    }

    /// What a verdict rests on.
    pub(super) fn named_by(&mut self, revision: u32, history: Option<&TaskHistory>) {
        self.named.extend(history.map(|history| (revision, history.clone())));
    }

    /// The verdicts whose entries are not those that came, by the plan revision and the number of entries.
    pub(super) fn unlike(&self) -> Vec<(u32, u32)> {
        let unlike = self.named.iter().filter(|(_, history)| !self.has(history));
        unlike.map(|(revision, history)| (*revision, history.entries)).collect()
    }

    /// Whether the entries that came begin with this history.
    pub(super) fn has(&self, history: &TaskHistory) -> bool {
        let last = usize::try_from(history.entries).ok().and_then(|it| it.checked_sub(1));
        let found = last.and_then(|last| self.digests.get(last));
        found.is_some_and(|digest| HEXLOWER.encode(digest) == history.last_digest)
    }
}
