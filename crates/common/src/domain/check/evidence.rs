//! The input of a check: the receipts, in an order and a form that each kind of check scans once.

use super::{AcceptCheck, Reason};
use crate::domain::command::CommandLine;
use crate::domain::path::Workspace;
use crate::domain::receipt::{Conditions, EvidenceReceipt, EvidenceSource, Fact};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The input of every check. Data that several checks need is computed once, on first use.
///
/// Facts of a failed receipt never prove a check. They still count against it, so that a failing
/// test or a partial write is not ignored.
#[derive(Debug)]
pub struct Evidence<'a> {
    workspace: Workspace,
    receipts: &'a [EvidenceReceipt],
    final_text: &'a str,
    /// Whether what workers reported proves a check.
    reports_prove: bool,
    without_reports: OnceLock<Option<Box<Self>>>,
    files: OnceLock<Vec<FileFact<'a>>>,
    runs: OnceLock<Vec<Run<'a>>>,
}

/// The tool call of a fact: facts of one call do not make each other stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call<'a> {
    /// The call's id.
    Named(&'a str),
    /// The index of a receipt without a call id, which counts as a call of its own.
    Unnamed(usize),
}

/// The position of a fact, and whether it can prove a check.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    /// The position among all facts; later facts have higher ones.
    pub(super) at: usize,
    /// The index of the receipt.
    receipt: usize,
    pub(super) call: Call<'a>,
    /// Whether the receipt records a success.
    pub(super) proves: bool,
}

/// One fact about a file under the workspace.
#[derive(Debug)]
pub(super) struct FileFact<'a> {
    pub(super) origin: Origin<'a>,
    /// Relative to the workspace root, and normalized.
    pub(super) path: Cow<'a, str>,
    pub(super) seen: Seen<'a>,
}

/// What a fact states about a file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Seen<'a> {
    Written {
        write: Write<'a>,
        /// Whether the file's content differs from the last known one.
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

/// What a write states about the file before and after it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Write<'a> {
    /// Without digests: it counts as a change.
    Unseen,
    /// Without a digest before: a new file, unless an earlier fact names the file.
    Made { after: &'a str },
    /// The file was deleted.
    Deleted { before: &'a str },
    /// With both digests, which may be equal.
    Rewritten { before: &'a str, after: &'a str },
}

/// The digest of a file's content at one time; none when the file is known not to exist.
pub(super) type Content<'a> = Option<&'a str>;

/// One command that ran to its end.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) origin: Origin<'a>,
    pub(super) command: CommandLine<'a>,
    pub(super) conditions: Option<&'a Conditions>,
    pub(super) succeeded: bool,
}

impl<'a> Evidence<'a> {
    /// Collects the run's receipts in the order of the chain, and its final text.
    pub fn new(workspace_root: &str, receipts: &'a [EvidenceReceipt], final_text: &'a str) -> Self {
        Self {
            workspace: Workspace::new(workspace_root),
            receipts,
            final_text,
            reports_prove: true,
            without_reports: OnceLock::new(),
            files: OnceLock::new(),
            runs: OnceLock::new(),
        }
    }

    /// The evidence for one check. To a check of a user or an operator that does not ask for it, the reports of
    /// workers prove nothing; they still count against it.
    pub(super) fn of_check(&self, check: &AcceptCheck) -> &Self {
        if check.takes_any_source() {
            return self;
        }
        let without = self.without_reports.get_or_init(|| {
            let reported = self.receipts.iter().any(|receipt| receipt.reporter().is_some());
            reported.then(|| Box::new(self.with_reports_that_prove_nothing()))
        });
        without.as_deref().unwrap_or(self)
    }

    fn with_reports_that_prove_nothing(&self) -> Self {
        Self {
            workspace: self.workspace.clone(),
            receipts: self.receipts,
            final_text: self.final_text,
            reports_prove: false,
            without_reports: OnceLock::new(),
            files: OnceLock::new(),
            runs: OnceLock::new(),
        }
    }

    /// The receipts, in order.
    pub const fn receipts(&self) -> &'a [EvidenceReceipt] {
        self.receipts
    }

    /// The run's final text.
    pub const fn final_text(&self) -> &'a str {
        self.final_text
    }

    /// The workspace that paths are resolved against.
    pub const fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Every fact about a file under the workspace. Facts about other files have no effect.
    pub(super) fn files(&self) -> &[FileFact<'a>] {
        self.files.get_or_init(|| self.gather_files())
    }

    /// The file that a check's own probe looked at, where the evidence is that probe alone. The runner sees to which file an
    /// absolute path leads, by whatever name of the workspace; its text does not tell.
    pub(super) fn probed_file(&self) -> Option<&str> {
        let (first, rest) = self.receipts.split_first()?;
        let check = |receipt: &'a EvidenceReceipt| {
            let probe = receipt.probe_of.as_ref().map(|probe| &probe.check_id);
            probe.filter(|_| receipt.source == EvidenceSource::Probe)
        };
        let own = check(first)?;
        let is_alone = rest.iter().all(|receipt| check(receipt) == Some(own));
        self.files().last().filter(|_| is_alone).map(|file| file.path.as_ref())
    }

    /// The path of a check's target, relative to the root.
    ///
    /// # Errors
    /// `path_outside_workspace`.
    pub(super) fn target<'t>(&'t self, check: &'t AcceptCheck) -> Result<Cow<'t, str>, Reason> {
        let target = check.target.as_str();
        let by_text = self.workspace.resolve(target);
        let found = || self.probed_file().filter(|_| target.starts_with('/')).map(Cow::Borrowed);
        by_text.or_else(found).ok_or(Reason::PathOutsideWorkspace)
    }

    /// Every command that ran, parsed once for all checks.
    pub(super) fn runs(&self) -> &[Run<'a>] {
        self.runs.get_or_init(|| {
            let runs = self.facts().filter_map(|(origin, fact)| {
                let Fact::Command { command, exit_code, conditions } = fact else {
                    return None;
                };
                Some(Run {
                    origin,
                    command: CommandLine::of(command),
                    conditions: conditions.as_ref(),
                    succeeded: origin.proves && *exit_code == 0,
                })
            });
            runs.collect()
        })
    }

    /// The digest of the workspace as the runner read it last, after a fact: empty where it could not be read, none where
    /// the runner did not read it since.
    pub(super) fn workspace_after(&self, fact: Origin<'_>) -> Option<&'a str> {
        let later = self.receipts.iter().skip(fact.receipt.saturating_add(1));
        later.rev().find_map(EvidenceReceipt::workspace_read)
    }

    /// Every fact in the order in which it was observed.
    pub(super) fn facts(
        &self,
    ) -> impl DoubleEndedIterator<Item = (Origin<'a>, &'a Fact)> + use<'a> {
        // Each position combines the indexes of the receipt and the fact, so the iterator works
        // from both ends.
        let (receipts, reports_prove) = (self.receipts, self.reports_prove);
        let width = receipts.iter().map(|receipt| receipt.facts.len()).max();
        let width = width.unwrap_or_default();
        receipts.iter().enumerate().flat_map(move |(place, receipt)| {
            let call = if receipt.call_id.is_empty() {
                Call::Unnamed(place)
            } else {
                Call::Named(&receipt.call_id)
            };
            let proves = receipt.success && (reports_prove || receipt.reporter().is_none());
            receipt.facts.iter().enumerate().map(move |(nth, fact)| {
                let at = place.saturating_mul(width).saturating_add(nth);
                (Origin { at, receipt: place, call, proves }, fact)
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
    /// The path of a fact as it was written, and what the fact states about it.
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
            Fact::Command { .. }
            | Fact::Verification { .. }
            | Fact::Output { .. }
            | Fact::Tests { .. } => None,
        }
    }
}

impl<'a> Write<'a> {
    /// An empty digest counts as absent.
    fn of(before: Option<&'a str>, after: Option<&'a str>) -> Self {
        let digest = |digest: &&str| !digest.is_empty();
        match (before.filter(digest), after.filter(digest)) {
            (None, None) => Self::Unseen,
            (None, Some(after)) => Self::Made { after },
            (Some(before), None) => Self::Deleted { before },
            (Some(before), Some(after)) => Self::Rewritten { before, after },
        }
    }

    /// The file's content before, as far as the write states it.
    pub(super) const fn before(self) -> Option<Content<'a>> {
        match self {
            Self::Unseen => None,
            Self::Made { .. } => Some(None),
            Self::Deleted { before } | Self::Rewritten { before, .. } => Some(Some(before)),
        }
    }

    /// The file's content now; none when the write does not state it.
    pub(super) const fn after(self) -> Option<Content<'a>> {
        match self {
            Self::Unseen => None,
            Self::Deleted { .. } => Some(None),
            Self::Made { after } | Self::Rewritten { after, .. } => Some(Some(after)),
        }
    }

    /// Whether the write changed the file, given the content known from earlier writes. Only a
    /// write that states nothing about before depends on it.
    fn changes(self, known: Option<Content<'_>>) -> bool {
        match self {
            Self::Unseen | Self::Deleted { .. } => true,
            Self::Made { after } => known != Some(Some(after)),
            Self::Rewritten { before, after } => before != after,
        }
    }
}
