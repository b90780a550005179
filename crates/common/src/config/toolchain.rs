//! The file with the operator's rules for tasks.
//!
//! ```text
//!   templates_dir = "templates"
//!   own_accounts = ["surety-bot"]
//!   [reminder_hours]
//!   default = 4
//!   ci_failure = 2
//!   [retention_days]
//!   mail = 30
//!   [risk]
//!   high = ["migrations/**"]
//!   [steps.review_request]
//!   en = ["Read the diff.", "Submit the review."]
//!   [[added_steps]]
//!   action_type = "ci_failure"
//!   en = "Run the job {{ context.failed_jobs }} again."
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::ConfigError;

/// The most bytes of the file.
const MAX_BYTES: usize = 1 << 20;
/// The longest time before a reminder, in hours: the longest deadline of a run.
pub const MAX_REMINDER_HOURS: u32 = 720;
/// The longest time that ended tasks are kept, in days; as of runs.
const MAX_RETENTION_DAYS: u32 = 36_500;
/// The time before a reminder where the file names none, in hours.
pub const REMINDER_HOURS: u32 = 4;
/// The key of `reminder_hours` for actions that it does not name.
pub const DEFAULT_REMINDER: &str = "default";

/// The operator's rules for tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolchainConfig {
    /// A folder with templates in place of the built-in ones; relative to the file.
    pub templates_dir: Option<PathBuf>,
    /// Accounts of the service itself: their marked comments are ignored.
    pub own_accounts: Vec<String>,
    /// Whether any output counts as the report.
    pub report_any_output: bool,
    /// Whether any comment of 20 characters and more counts as the report.
    pub report_any_long_comment: bool,
    /// Hours without a report after which a task is handed again, by action; 0 for never.
    pub reminder_hours: BTreeMap<String, u32>,
    /// Days that an ended task is kept, by task type; 0 for ever. Of a type that is not named, the type's own.
    pub retention_days: BTreeMap<String, u32>,
    /// Globs of files whose change is a risk.
    pub risk: RiskConfig,
    /// Steps in place of the built-in ones, by action.
    pub steps: BTreeMap<String, StepsConfig>,
    /// Steps that are added to tasks that they fit.
    pub added_steps: Vec<AddedStepConfig>,
}

/// Globs of files whose change is a risk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RiskConfig {
    /// A medium risk.
    pub medium: Vec<String>,
    /// A high risk.
    pub high: Vec<String>,
}

/// The steps of one action, without the last one, which asks for the report.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StepsConfig {
    /// In English; empty keeps the built-in ones.
    pub en: Vec<String>,
    /// In Chinese; empty keeps the built-in ones.
    pub zh: Vec<String>,
}

/// A step that is added before the last one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AddedStepConfig {
    /// Only tasks of this action; empty for every one.
    pub action_type: String,
    /// Only tasks of this event; empty for every one.
    pub event_type: String,
    /// Only repositories that match this glob; empty for every one.
    pub repo: String,
    /// Only tasks whose context has these fields with texts that match these globs.
    pub context: BTreeMap<String, String>,
    /// The step in English; a template as of the instructions.
    pub en: String,
    /// The step in Chinese; empty for the English one.
    pub zh: String,
}

impl ToolchainConfig {
    /// The hours without a report after which a task of this action is handed again; 0 for never.
    #[must_use]
    pub fn reminder_hours_of(&self, action_type: &str) -> u32 {
        let named = self.reminder_hours.get(action_type);
        let named = named.or_else(|| self.reminder_hours.get(DEFAULT_REMINDER));
        named.copied().unwrap_or(REMINDER_HOURS)
    }
}

/// Reads the rules in the file at `path`.
///
/// # Errors
/// The file cannot be read, is too long, is no TOML, or has a key that is unknown or out of its range.
pub(super) fn read_toolchain(path: &Path) -> Result<ToolchainConfig, ConfigError> {
    let unreadable = |source| ConfigError::ToolchainUnreadable { path: path.to_owned(), source };
    let invalid = |place: &str, why: String| ConfigError::ToolchainInvalid {
        path: path.to_owned(),
        place: place.to_owned(),
        why,
    };
    let text = fs::read_to_string(path).map_err(unreadable)?;
    if text.len() > MAX_BYTES {
        return Err(invalid("the file", format!("is longer than {MAX_BYTES} bytes; shorten it")));
    }
    let mut config: ToolchainConfig = toml::from_str(&text)
        .map_err(|error| invalid("a key", format!("cannot be used: {error}")))?;
    for (action, hours) in &config.reminder_hours {
        if *hours > MAX_REMINDER_HOURS {
            let why = format!("is {hours}; choose 0..{MAX_REMINDER_HOURS} hours");
            return Err(invalid(&format!("reminder_hours.{action}"), why));
        }
    }
    for (task_type, days) in &config.retention_days {
        if *days > MAX_RETENTION_DAYS {
            let why = format!("is {days}; choose 0..{MAX_RETENTION_DAYS} days");
            return Err(invalid(&format!("retention_days.{task_type}"), why));
        }
    }
    if let Some(folder) = &config.templates_dir
        && let Some(beside) = path.parent()
    {
        config.templates_dir = Some(beside.join(folder));
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(text: &str) -> Result<ToolchainConfig, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        read_toolchain(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn rules_are_read_and_what_cannot_be_used_is_named() {
        let config = read(
            "own_accounts = [\"bot\"]\n[reminder_hours]\ndefault = 8\nci_failure = 1\n\
             [[added_steps]]\naction_type = \"ci_failure\"\nen = \"Look.\"\n",
        )
        .unwrap();
        assert_eq!(config.reminder_hours_of("ci_failure"), 1);
        assert_eq!(config.reminder_hours_of("mention"), 8);
        assert_eq!(ToolchainConfig::default().reminder_hours_of("mention"), REMINDER_HOURS);
        for (text, named) in [
            ("own_account = []", "own_account"),
            ("[reminder_hours]\ndefault = 721", "reminder_hours.default"),
            ("[retention_days]\nmail = 36501", "retention_days.mail"),
            ("[steps.mention]\nfr = []", "fr"),
            ("x", "a key"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
