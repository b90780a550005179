//! What is known when a check is decided: the receipts, in an order and a form that each kind of
//! check can walk once.

use crate::domain::command::CommandLine;
use crate::domain::path::Workspace;
use crate::domain::receipt::{EvidenceReceipt, Fact};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Everything a check is decided from. What several checks need is worked out once, when the
/// first of them asks, so that a check costs one short walk over the receipts.
///
/// A receipt of a failure proves nothing: its facts never count for a check. They count against
/// one all the same, so that a failing test or a half-done write is not overlooked because the
/// call that made it is recorded as a failure.
#[derive(Debug)]
pub struct Evidence<'a> {
    workspace: Workspace,
    receipts: &'a [EvidenceReceipt],
    final_text: &'a str,
    files: OnceLock<Vec<FileFact<'a>>>,
    runs: OnceLock<Vec<Run<'a>>>,
}

/// The tool call a fact comes from: facts of one call are not stale to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call<'a> {
    /// The call has a name.
    Named(&'a str),
    /// The receipt, by its place, names no call and so is a call of its own.
    Unnamed(usize),
}

/// Where a fact stands and what it is worth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    /// The place among all facts; a later fact has a higher one.
    pub(super) at: usize,
    pub(super) call: Call<'a>,
    /// Whether the receipt is one of a success.
    pub(super) proves: bool,
}

/// One fact about a file under the workspace.
#[derive(Debug)]
pub(super) struct FileFact<'a> {
    pub(super) origin: Origin<'a>,
    /// Relative to the workspace's root, and clean.
    pub(super) path: Cow<'a, str>,
    pub(super) seen: Seen<'a>,
}

/// What was seen of a file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Seen<'a> {
    Written {
        write: Write<'a>,
        /// Whether the file is another than it was known to be.
        changed: bool,
    },
    Observed {
        exists: bool,
    },
    Content {
        contains: &'a str,
        found: bool,
    },
}

/// What a write says about the file before and after it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Write<'a> {
    /// Nobody looked, so it counts as a change.
    Unseen,
    /// Nothing is said about before: a new file, unless the file is known from earlier.
    Made { after: &'a str },
    /// Nothing is there any more.
    Deleted { before: &'a str },
    /// Both are known, and may be equal.
    Rewritten { before: &'a str, after: &'a str },
}

/// What is known of a file's content at one moment; none when it is known not to be there.
pub(super) type Content<'a> = Option<&'a str>;

/// One command that ran to its end.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) origin: Origin<'a>,
    pub(super) command: CommandLine<'a>,
    pub(super) succeeded: bool,
}

impl<'a> Evidence<'a> {
    /// Gathers what is known: the run's receipts in the order of the chain, and its final text.
    pub fn new(workspace_root: &str, receipts: &'a [EvidenceReceipt], final_text: &'a str) -> Self {
        Self {
            workspace: Workspace::new(workspace_root),
            receipts,
            final_text,
            files: OnceLock::new(),
            runs: OnceLock::new(),
        }
    }

    /// The receipts, in order.
    pub const fn receipts(&self) -> &'a [EvidenceReceipt] {
        self.receipts
    }

    /// The text the run ends with.
    pub const fn final_text(&self) -> &'a str {
        self.final_text
    }

    /// The workspace that paths are judged against.
    pub const fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Every fact about a file under the workspace. Facts about other files decide nothing.
    pub(super) fn files(&self) -> &[FileFact<'a>] {
        self.files.get_or_init(|| self.gather_files())
    }

    /// Every command that ran, split once for all checks.
    pub(super) fn runs(&self) -> &[Run<'a>] {
        self.runs.get_or_init(|| {
            let runs = self.facts().filter_map(|(origin, fact)| {
                let Fact::Command { command, exit_code } = fact else {
                    return None;
                };
                Some(Run {
                    origin,
                    command: CommandLine::of(command),
                    succeeded: origin.proves && *exit_code == 0,
                })
            });
            runs.collect()
        })
    }

    /// Every fact in the order it was seen.
    pub(super) fn facts(
        &self,
    ) -> impl DoubleEndedIterator<Item = (Origin<'a>, &'a Fact)> + use<'a> {
        // Places are made of the receipt's and the fact's own, so that both ends can be walked.
        let receipts = self.receipts;
        let width = receipts.iter().map(|receipt| receipt.facts.len()).max();
        let width = width.unwrap_or_default();
        receipts.iter().enumerate().flat_map(move |(place, receipt)| {
            let call = if receipt.call_id.is_empty() {
                Call::Unnamed(place)
            } else {
                Call::Named(&receipt.call_id)
            };
            receipt.facts.iter().enumerate().map(move |(nth, fact)| {
                let origin = Origin {
                    at: place.saturating_mul(width).saturating_add(nth),
                    call,
                    proves: receipt.success,
                };
                (origin, fact)
            })
        })
    }

    fn gather_files(&self) -> Vec<FileFact<'a>> {
        let mut known: HashMap<Cow<'a, str>, Content<'a>> = HashMap::new();
        let mut files = Vec::new();
        for (origin, fact) in self.facts() {
            let Some((path, seen)) = Seen::of(fact) else {
                continue;
            };
            let Some(path) = self.workspace.resolve(path) else {
                continue;
            };
            let seen = match seen {
                Seen::Written { write, .. } => {
                    let before = known.get(&path).copied();
                    match write.after() {
                        Some(content) => known.insert(path.clone(), content),
                        None => known.remove(&path),
                    };
                    Seen::Written { write, changed: write.changes(before) }
                }
                Seen::Observed { .. } | Seen::Content { .. } => seen,
            };
            files.push(FileFact { origin, path, seen });
        }
        files
    }
}

impl<'a> Seen<'a> {
    /// The path a fact is about, as it was written, and what the fact says about it.
    fn of(fact: &'a Fact) -> Option<(&'a str, Self)> {
        match fact {
            Fact::FileWritten { path, before_digest, after_digest } => {
                let write = Write::of(before_digest.as_deref(), after_digest.as_deref());
                let changed = write.changes(None);
                Some((path, Self::Written { write, changed }))
            }
            Fact::FileObserved { path, exists } => Some((path, Self::Observed { exists: *exists })),
            Fact::Content { path, contains, found } => {
                let found = *found;
                Some((path, Self::Content { contains, found }))
            }
            Fact::Command { .. } | Fact::Verification { .. } | Fact::Output { .. } => None,
        }
    }
}

impl<'a> Write<'a> {
    /// An empty digest is the digest of nothing, and so none.
    fn of(before: Option<&'a str>, after: Option<&'a str>) -> Self {
        let digest = |digest: &&str| !digest.is_empty();
        match (before.filter(digest), after.filter(digest)) {
            (None, None) => Self::Unseen,
            (None, Some(after)) => Self::Made { after },
            (Some(before), None) => Self::Deleted { before },
            (Some(before), Some(after)) => Self::Rewritten { before, after },
        }
    }

    /// What the file was before, as far as the write itself says.
    pub(super) const fn before(self) -> Option<Content<'a>> {
        match self {
            Self::Unseen => None,
            Self::Made { .. } => Some(None),
            Self::Deleted { before } | Self::Rewritten { before, .. } => Some(Some(before)),
        }
    }

    /// What the file is now; none when the write does not say.
    pub(super) const fn after(self) -> Option<Content<'a>> {
        match self {
            Self::Unseen => None,
            Self::Deleted { .. } => Some(None),
            Self::Made { after } | Self::Rewritten { after, .. } => Some(Some(after)),
        }
    }

    /// Whether the write changed the file, given what earlier writes made of it. Only a write
    /// that says nothing about before goes on from there; the others say it themselves.
    fn changes(self, known: Option<Content<'_>>) -> bool {
        match self {
            Self::Unseen | Self::Deleted { .. } => true,
            Self::Made { after } => known != Some(Some(after)),
            Self::Rewritten { before, after } => before != after,
        }
    }
}
