//! The kinds of checks.

use std::fmt;

/// How a check is decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CheckKind {
    /// The final text is not blank without its control JSON.
    OutputOnly,
    /// A file of the workspace changed.
    WorkspaceChange,
    /// A command succeeded, and nothing was written after it.
    CommandSuccess,
    /// A file exists.
    FileExists,
    /// A file contains a text.
    ContentContains,
    /// A verification by a tool passed.
    ToolFact,
    /// The assignee of a toolchain run reported.
    ActionReport,
    /// A CEL expression over the receipts' facts is true.
    Expression,
    /// An address answers as expected.
    HttpProbe,
    /// A kind that this version does not know, by its name; empty when none was given.
    Unknown(String),
}

impl CheckKind {
    /// Every known kind.
    pub const KNOWN: [Self; 9] = [
        Self::OutputOnly,
        Self::WorkspaceChange,
        Self::CommandSuccess,
        Self::FileExists,
        Self::ContentContains,
        Self::ToolFact,
        Self::ActionReport,
        Self::Expression,
        Self::HttpProbe,
    ];

    /// The kind with this name, in any case and with blanks around it. `command` is the older name
    /// of `command_success`.
    pub fn from_text(text: &str) -> Self {
        let word = text.trim().to_lowercase();
        let word = if word == "command" { "command_success".to_owned() } else { word };
        let known = Self::KNOWN.into_iter().find(|kind| kind.as_str() == word);
        known.unwrap_or(Self::Unknown(word))
    }

    /// The kind's name in the contract; an unknown kind's own name, in lower case.
    pub fn as_str(&self) -> &str {
        match self {
            Self::OutputOnly => "output_only",
            Self::WorkspaceChange => "workspace_change",
            Self::CommandSuccess => "command_success",
            Self::FileExists => "file_exists",
            Self::ContentContains => "content_contains",
            Self::ToolFact => "tool_fact",
            Self::ActionReport => "action_report",
            Self::Expression => "expression",
            Self::HttpProbe => "http_probe",
            Self::Unknown(word) => word,
        }
    }

    /// The params that decide a check of this kind, apart from `source`, which all have.
    pub const fn params(&self) -> &'static [&'static str] {
        match self {
            Self::WorkspaceChange => &["paths"],
            Self::CommandSuccess => &["min_tests", "max_skipped", "sandbox"],
            Self::FileExists => &["type"],
            Self::ContentContains => &["contains"],
            Self::ToolFact => &["tool", "scope"],
            Self::ActionReport => &["any_output", "any_long_comment"],
            Self::HttpProbe => &["status", "contains"],
            Self::OutputOnly | Self::Expression | Self::Unknown(_) => &[],
        }
    }

    /// Whether no kind was given.
    pub fn is_missing(&self) -> bool {
        self.as_str().is_empty()
    }
}

impl fmt::Display for CheckKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_in_any_case_and_an_unknown_one_keeps_its_word() {
        for kind in CheckKind::KNOWN {
            let written = format!(" {} ", kind.as_str().to_uppercase());
            assert_eq!(CheckKind::from_text(&written), kind);
        }
        assert_eq!(CheckKind::from_text("Command"), CheckKind::CommandSuccess);
        let unknown = CheckKind::from_text(" Later_Kind");
        assert_eq!(unknown, CheckKind::Unknown("later_kind".to_owned()));
        assert!(CheckKind::from_text("  ").is_missing() && !unknown.is_missing());
    }
}
