//! Why a check does not hold.

use std::fmt;

/// The contract's reasons, for the checks that receipts and the final text decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The final text is blank.
    OutputEmpty,
    /// No file under the workspace is another than it was.
    NoWorkspaceChange,
    /// No matching command ever succeeded.
    NoSuccessfulCommand,
    /// A matching command succeeded, but the last one did not.
    CommandFailedLater,
    /// It was proved, and then another call wrote.
    StaleAfterWrite,
    /// Nothing is known about the file's being there.
    NoFileEvidence,
    /// The last that is known is that the file is not there.
    FileGone,
    /// The check names a path that leaves the workspace.
    PathOutsideWorkspace,
    /// The last look for the text did not find it, or nobody looked.
    NoContentEvidence,
    /// No such verification ever passed.
    NoToolFact,
    /// Such a verification passed, but the last one did not.
    FactFailedLater,
    /// No kind of that name is known.
    UnknownCheckKind,
}

impl Reason {
    /// Every reason, in the order of declaration.
    pub const ALL: &'static [Self] = &[
        Self::OutputEmpty,
        Self::NoWorkspaceChange,
        Self::NoSuccessfulCommand,
        Self::CommandFailedLater,
        Self::StaleAfterWrite,
        Self::NoFileEvidence,
        Self::FileGone,
        Self::PathOutsideWorkspace,
        Self::NoContentEvidence,
        Self::NoToolFact,
        Self::FactFailedLater,
        Self::UnknownCheckKind,
    ];

    /// The contract's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OutputEmpty => "output_empty",
            Self::NoWorkspaceChange => "no_workspace_change",
            Self::NoSuccessfulCommand => "no_successful_command",
            Self::CommandFailedLater => "command_failed_later",
            Self::StaleAfterWrite => "stale_after_write",
            Self::NoFileEvidence => "no_file_evidence",
            Self::FileGone => "file_gone",
            Self::PathOutsideWorkspace => "path_outside_workspace",
            Self::NoContentEvidence => "no_content_evidence",
            Self::NoToolFact => "no_tool_fact",
            Self::FactFailedLater => "fact_failed_later",
            Self::UnknownCheckKind => "unknown_check_kind",
        }
    }

    /// What it means, in one sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::OutputEmpty => "The final text is blank.",
            Self::NoWorkspaceChange => "No file under the workspace is another than it was.",
            Self::NoSuccessfulCommand => "No matching command ever succeeded.",
            Self::CommandFailedLater => "A matching command succeeded, but the last one did not.",
            Self::StaleAfterWrite => "It was proved, and then another call wrote.",
            Self::NoFileEvidence => "Nothing is known about the file's being there.",
            Self::FileGone => "The last that is known is that the file is not there.",
            Self::PathOutsideWorkspace => "The check names a path that leaves the workspace.",
            Self::NoContentEvidence => {
                "The last look for the text did not find it, or nobody looked."
            }
            Self::NoToolFact => "No such verification ever passed.",
            Self::FactFailedLater => "Such a verification passed, but the last one did not.",
            Self::UnknownCheckKind => "No kind of that name is known.",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
