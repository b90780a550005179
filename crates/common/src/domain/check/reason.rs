//! Reasons why a check does not hold.

use std::fmt;

/// The contract's reasons for the checks that receipts and the final text decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The final text is blank.
    OutputEmpty,
    /// No file under the workspace changed.
    NoWorkspaceChange,
    /// No matching command ever succeeded.
    NoSuccessfulCommand,
    /// A matching command succeeded, but the last one did not.
    CommandFailedLater,
    /// A call succeeded, and then another call wrote.
    StaleAfterWrite,
    /// No fact states whether the file exists.
    NoFileEvidence,
    /// The last fact states that the file does not exist.
    FileGone,
    /// The check names a path that leaves the workspace.
    PathOutsideWorkspace,
    /// The last search did not find the text, or no call searched for it.
    NoContentEvidence,
    /// No such verification ever passed.
    NoToolFact,
    /// Such a verification passed, but the last one did not.
    FactFailedLater,
    /// The kind is unknown.
    UnknownCheckKind,
    /// The project's own tests failed.
    ProjectTestsFailed,
    /// The project's own tests could not be started, or the runner has no record of them.
    ProjectTestsNotRun,
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
        Self::ProjectTestsFailed,
        Self::ProjectTestsNotRun,
    ];

    /// The value's name in the contract.
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
            Self::ProjectTestsFailed => "project_tests_failed",
            Self::ProjectTestsNotRun => "project_tests_not_run",
        }
    }

    /// What the reason means, in one sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::OutputEmpty => "The final text is blank.",
            Self::NoWorkspaceChange => "No file under the workspace changed.",
            Self::NoSuccessfulCommand => "No matching command ever succeeded.",
            Self::CommandFailedLater => "A matching command succeeded, but the last one did not.",
            Self::StaleAfterWrite => "A call proved it, and then another call wrote.",
            Self::NoFileEvidence => "No fact states whether the file exists.",
            Self::FileGone => "The last fact states that the file does not exist.",
            Self::PathOutsideWorkspace => "The check names a path that leaves the workspace.",
            Self::NoContentEvidence => {
                "The last search did not find the text, or no call searched for it."
            }
            Self::NoToolFact => "No such verification ever passed.",
            Self::FactFailedLater => "Such a verification passed, but the last one did not.",
            Self::UnknownCheckKind => "The kind is unknown.",
            Self::ProjectTestsFailed => "The project's own tests failed.",
            Self::ProjectTestsNotRun => {
                "The project's own tests could not be started, or the runner has no record of them."
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
