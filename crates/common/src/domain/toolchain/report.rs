//! Whether what is recorded about a task fulfils it.

use super::action::ActionType;
use super::task::EntryKind;
use super::words::words;
use crate::domain::mail::MailKind;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::fmt;

/// One entry of a task's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskEntry {
    /// The kind.
    pub kind: EntryKind,
    /// The agent that wrote it.
    pub author: String,
    /// The text.
    pub body: String,
    /// When it was written.
    pub at: DateTime<Utc>,
}

/// What is known about a task when it is judged.
#[derive(Debug, Clone, Copy)]
pub struct TaskFacts<'a> {
    /// What the task asks for, as its payload has it.
    pub action_type: &'a str,
    /// The agent that must act.
    pub assignee: &'a str,
    /// When the run began.
    pub began_at: DateTime<Utc>,
    /// The entries of its history.
    pub entries: &'a [TaskEntry],
    /// How many outputs are attached.
    pub outputs: usize,
}

/// The two switches of compatibility, both off by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compatibility {
    /// Any output counts as the report.
    pub any_output: bool,
    /// Any entry of [`LONG_COMMENT`] characters and more counts as the report.
    pub any_long_comment: bool,
}

/// The params of a check `action_report` that switch compatibility on, and the value that does.
pub const ANY_OUTPUT: &str = "any_output";
/// As [`ANY_OUTPUT`], for comments.
pub const ANY_LONG_COMMENT: &str = "any_long_comment";
const ON: &str = "true";

impl Compatibility {
    /// The switches of a check's params.
    pub fn of_params(params: &BTreeMap<String, String>) -> Self {
        let is_on = |name: &str| params.get(name).is_some_and(|value| value == ON);
        Self { any_output: is_on(ANY_OUTPUT), any_long_comment: is_on(ANY_LONG_COMMENT) }
    }
}

/// The caution about a report that names no file, no build and no review.
pub const THIN_REPORT: &str = ReportResult::ThinReport.as_str();

/// What is a long comment, in characters.
pub const LONG_COMMENT: usize = 20;

words! {
    /// The result of judging a task's history.
    ReportResult {
        /// The assignee reported.
        HasActionReport = "has_action_report",
        /// The assignee reported without naming a file, a build or a review.
        ThinReport = "thin_report",
        /// The task is a notice, or one of the infrastructure: it needs no report.
        NotNeeded = "report_not_needed",
        /// An output counts, by a switch of compatibility.
        HasOutput = "has_output",
        /// A long comment counts, by a switch of compatibility.
        HasLongComment = "has_long_comment",
        /// Nothing was reported.
        NoAction = "no_action",
        /// The report is blank.
        ReportEmpty = "report_empty",
        /// Another agent wrote the report.
        ReportAuthorMismatch = "report_author_mismatch",
        /// The report was written before the run began.
        ReportBeforeStart = "report_before_start",
    }
}

impl ReportResult {
    /// Whether the task is fulfilled.
    pub const fn passed(self) -> bool {
        match self {
            Self::HasActionReport
            | Self::ThinReport
            | Self::NotNeeded
            | Self::HasOutput
            | Self::HasLongComment => true,
            Self::NoAction
            | Self::ReportEmpty
            | Self::ReportAuthorMismatch
            | Self::ReportBeforeStart => false,
        }
    }
}

/// Judges a task by its history. One valid report is enough; else the reason is that of the last report.
pub fn judge(facts: &TaskFacts<'_>, compatibility: Compatibility) -> ReportResult {
    let needs_none = [ActionType::ReviewMerged, ActionType::InfrastructureFailure];
    if needs_none.iter().any(|action| action.as_str() == facts.action_type) {
        return ReportResult::NotNeeded;
    }
    let reports = facts.entries.iter().filter(|entry| entry.kind == EntryKind::ActionReport);
    let mut result = ReportResult::NoAction;
    for report in reports {
        result = judge_report(report, facts);
        if result.passed() {
            return result;
        }
    }
    let long = |entry: &TaskEntry| {
        let is_agent = entry.kind != EntryKind::System && entry.author == facts.assignee;
        is_agent && entry.body.trim().chars().count() >= LONG_COMMENT
    };
    if compatibility.any_output && facts.outputs > 0 {
        return ReportResult::HasOutput;
    }
    if compatibility.any_long_comment && facts.entries.iter().any(long) {
        return ReportResult::HasLongComment;
    }
    result
}

/// Whether a text shows nothing: white space, control characters, and characters without a shape, such as U+200B.
pub fn is_blank(text: &str) -> bool {
    let is_invisible = |c: char| {
        matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
    };
    text.chars().all(|c| c.is_whitespace() || c.is_control() || is_invisible(c))
}

fn judge_report(report: &TaskEntry, facts: &TaskFacts<'_>) -> ReportResult {
    match () {
        () if is_blank(&report.body) => ReportResult::ReportEmpty,
        () if report.author != facts.assignee => ReportResult::ReportAuthorMismatch,
        () if report.at < facts.began_at => ReportResult::ReportBeforeStart,
        // The report of a message is that it was read or answered.
        () if is_mail(facts.action_type) => ReportResult::HasActionReport,
        () if is_thin(&report.body) => ReportResult::ThinReport,
        () => ReportResult::HasActionReport,
    }
}

/// Whether the task is a message.
fn is_mail(action_type: &str) -> bool {
    MailKind::from_text(action_type).is_some()
}

/// Words of the external state that a report names, in lower case.
const STATES: [&str; 30] = [
    "ci",
    "build",
    "builds",
    "built",
    "test",
    "tests",
    "tested",
    "review",
    "reviews",
    "reviewed",
    "merge",
    "merges",
    "merged",
    "push",
    "pushes",
    "pushed",
    "deploy",
    "deploys",
    "deployed",
    "deployment",
    "commit",
    "commits",
    "committed",
    "rebuilt",
    "approve",
    "approved",
    "redeployed",
    "retested",
    "workflow",
    "pipeline",
];
/// The same in a language without spaces between its words.
const CHINESE_STATES: [&str; 5] = ["合并", "评审", "测试", "部署", "推送"];
/// Words with a slash or a full stop that name no file.
const NO_FILES: [&str; 12] = [
    "and/or",
    "either/or",
    "n/a",
    "w/o",
    "yes/no",
    "he/she",
    "his/her",
    "pass/fail",
    "e.g",
    "i.e",
    "a.m",
    "p.m",
];

/// Whether a report names no file, no build, no review and no address.
fn is_thin(report: &str) -> bool {
    let text = report.to_lowercase();
    // `latest` and `preview` name no state.
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let names_state = words.any(|word| STATES.contains(&word))
        || CHINESE_STATES.iter().any(|word| text.contains(word));
    let is_named = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '#');
        let is_number = word.strip_prefix('#').is_some_and(|rest| rest.parse::<u64>().is_ok());
        is_number || is_file(word)
    };
    !names_state && !text.contains("://") && !text.split_whitespace().any(is_named)
}

/// Whether a word looks like a path or the name of a file.
fn is_file(word: &str) -> bool {
    if NO_FILES.contains(&word) {
        return false;
    }
    let Some((stem, extension)) = word.rsplit_once('.') else {
        // A name on each side of each slash, but for one that begins or ends the path.
        let path = word.trim_matches('/');
        return path.contains('/') && path.split('/').all(|name| !name.is_empty());
    };
    let is_extension = (1..=5).contains(&extension.len())
        && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && extension.bytes().any(|byte| byte.is_ascii_alphabetic());
    !stem.is_empty() && is_extension
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_a_visible_character_is_blank() {
        for text in ["", " \n\t", "\u{200b}\u{2060}\u{feff}", "\u{ad} \u{e0020}\u{fe0f}\u{0}"] {
            assert!(is_blank(text), "{text:?}");
        }
        for text in [".", "做", "\u{200b}a", "é", "🙂\u{fe0f}"] {
            assert!(!is_blank(text), "{text:?}");
        }
    }
}
