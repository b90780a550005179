//! How long a tool call may take: longer after a timeout, the usual again after anything else.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use surety_common::domain::json::Value;
use surety_common::domain::plan::ToolCall;

/// Seconds a call may take when nothing else is said.
pub const DEFAULT_S: u64 = 20;

/// Seconds a scan of the workspace may take at least.
const SCAN_MIN_S: u64 = 60;

/// Seconds that doubling goes up to.
const MAX_RAISED_S: u64 = 160;

/// Words in a tool's name that make it a scan of the workspace.
const SCAN_WORDS: &[&str] = &["grep", "rg", "glob", "search", "find", "scan"];

/// Arguments that say which folder is scanned.
const FOLDER_ARGUMENTS: &[&str] =
    &["dir", "directory", "path", "paths", "folder", "root", "scope", "cwd", "workdir"];

/// The raised budgets, stored with the step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// Seconds by [`timeout_key`].
    raised: BTreeMap<String, u64>,
}

/// How a call ended, as far as its time is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// It came back, with a success or an error, whatever its text says about timeouts.
    Returned,
    /// Its deadline passed.
    DeadlinePassed,
}

impl Timeouts {
    /// Seconds a call may take now. `base_s` is what the tool or the policy asks for, none for
    /// the default.
    pub fn budget_s(&self, call: &ToolCall, base_s: Option<u64>) -> u64 {
        if let Some(fixed) = fixed_budget_s(&call.name, base_s) {
            return fixed;
        }
        let base = usual_s(&call.name, base_s);
        let raised = self.raised.get(&timeout_key(call)).copied();
        raised.unwrap_or(base).max(base)
    }

    /// Counts how a call ended.
    pub fn record(&mut self, call: &ToolCall, base_s: Option<u64>, end: CallEnd) {
        let key = timeout_key(call);
        let doubles = fixed_budget_s(&call.name, base_s).is_none();
        match end {
            CallEnd::DeadlinePassed if doubles => {
                let doubled = self.budget_s(call, base_s).saturating_mul(2);
                self.raised.insert(key, doubled.min(MAX_RAISED_S));
            }
            CallEnd::DeadlinePassed => {}
            CallEnd::Returned => {
                self.raised.remove(&key);
            }
        }
    }
}

/// What shares a budget: the same tool with the same arguments, and for scans the same tool in
/// the same folder, whatever is looked for.
pub fn timeout_key(call: &ToolCall) -> String {
    let arguments = if is_scan(&call.name) {
        let members = call.arguments.as_object().unwrap_or_default().iter();
        let folders = members.filter(|(key, _)| FOLDER_ARGUMENTS.contains(&key.as_str()));
        &Value::Object(folders.cloned().collect())
    } else {
        &call.arguments
    };
    format!("{}:{}", call.name, arguments.digest())
}

fn usual_s(tool: &str, base_s: Option<u64>) -> u64 {
    let base = base_s.unwrap_or(DEFAULT_S);
    if is_scan(tool) { base.max(SCAN_MIN_S) } else { base }
}

/// Whether a tool looks through the workspace, by its name.
pub fn is_scan(tool: &str) -> bool {
    tool.to_ascii_lowercase()
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .any(|word| SCAN_WORDS.contains(&word))
}

/// Tools whose time is a person's, another agent's or a whole machine's: doubling after a
/// timeout says nothing about them.
fn fixed_budget_s(tool: &str, base_s: Option<u64>) -> Option<u64> {
    match tool {
        "ask_user" => Some(base_s.unwrap_or(300).clamp(300, 3600)),
        "spawn_subagent" => Some(base_s.unwrap_or(180).clamp(30, 600)),
        "diagnose" => Some(base_s.unwrap_or(60).max(60)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::domain::json;

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { name: name.into(), arguments: json::parse(arguments).unwrap().value }
    }

    /// The budgets before each timeout, and the one after the last.
    fn budgets(name: &str, base_s: Option<u64>, timeouts: usize) -> Vec<u64> {
        let call = call(name, "{}");
        let mut state = Timeouts::default();
        let mut seen = vec![state.budget_s(&call, base_s)];
        for _ in 0..timeouts {
            state.record(&call, base_s, CallEnd::DeadlinePassed);
            seen.push(state.budget_s(&call, base_s));
        }
        seen
    }

    #[test]
    fn a_timeout_doubles_the_budget_up_to_160_seconds() {
        for (name, base_s, expected) in [
            ("run_command", None, vec![20, 40, 80, 160, 160]),
            ("filesystem_grep", Some(20), vec![60, 120, 160, 160]),
            ("codebase_search_text", Some(90), vec![90, 160]),
            ("slow", Some(300), vec![300, 300]),
            ("ask_user", None, vec![300, 300]),
            ("spawn_subagent", Some(10_000), vec![600, 600]),
            ("diagnose", Some(20), vec![60, 60]),
        ] {
            assert_eq!(budgets(name, base_s, expected.len() - 1), expected, "{name}");
        }
    }

    #[test]
    fn anything_but_a_timeout_brings_the_usual_budget_back() {
        let call = call("run_command", r#"{"argv":["x"]}"#);
        let mut state = Timeouts::default();
        state.record(&call, None, CallEnd::DeadlinePassed);
        state.record(&call, None, CallEnd::DeadlinePassed);
        assert_eq!(state.budget_s(&call, None), 80);
        state.record(&call, None, CallEnd::Returned);
        assert_eq!(state.budget_s(&call, None), 20);
    }

    #[test]
    fn scans_share_a_budget_by_folder_and_other_tools_by_all_arguments() {
        let key = |name, arguments| timeout_key(&call(name, arguments));
        assert_eq!(
            key("grep", r#"{"dir":"src","pattern":"x"}"#),
            key("grep", r#"{"pattern":"y","dir":"src"}"#)
        );
        assert_ne!(key("grep", r#"{"dir":"src"}"#), key("grep", r#"{"dir":"doc"}"#));
        assert_ne!(key("grep", r#"{"dir":"src"}"#), key("glob", r#"{"dir":"src"}"#));
        assert_ne!(key("bash", r#"{"command":"x"}"#), key("bash", r#"{"command":"y"}"#));
    }

    #[test]
    fn one_calls_timeout_raises_no_other_calls_budget() {
        let mut state = Timeouts::default();
        state.record(&call("bash", r#"{"command":"x"}"#), None, CallEnd::DeadlinePassed);
        assert_eq!(state.budget_s(&call("bash", r#"{"command":"y"}"#), None), 20);
    }
}
