//! The time limit of a tool call: doubled after a timeout, reset by any other result.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use surety_common::domain::json::Value;
use surety_common::domain::plan::ToolCall;

/// The default time limit of a call, in seconds.
pub const DEFAULT_S: u64 = 20;

/// The shortest time limit of a workspace scan, in seconds.
pub const SCAN_MIN_S: u64 = 60;

/// The longest time limit that doubling reaches, in seconds.
const MAX_RAISED_S: u64 = 160;

/// Words in a tool's name that mark it as a scan of the workspace.
const SCAN_WORDS: &[&str] = &["grep", "rg", "glob", "search", "find", "scan"];

/// Arguments that name the folder in which a scan starts.
const BASE_ARGUMENTS: &[&str] = &["root", "cwd", "workdir"];

/// Arguments that name the scanned folder, from there.
const FOLDER_ARGUMENTS: &[&str] = &["dir", "directory", "path", "paths", "folder", "scope"];

/// The raised time limits of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// Seconds by a call's key.
    raised: BTreeMap<String, u64>,
}

/// How a call ended with regard to its time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// It returned, with a success or an error, whatever its text says about timeouts.
    Returned,
    /// Its deadline passed.
    DeadlinePassed,
}

/// The time limit of a call before any timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    key: String,
    usual_s: u64,
    doubles: bool,
}

impl Timing {
    /// `base_s` is what the tool, its policy or the call's arguments request, none for the default;
    /// it may exceed what doubling reaches. `folder` is the folder that a tool reports to scan; by
    /// default it is inferred from the names of the tool and its arguments.
    pub fn of(call: &ToolCall, base_s: Option<u64>, folder: Option<&str>) -> Self {
        let scans = folder.is_some() || is_scan(&call.name);
        let fixed = fixed_budget_s(&call.name, base_s);
        let usual_s = base_s.unwrap_or(DEFAULT_S).max(if scans { SCAN_MIN_S } else { 0 });
        Self {
            key: match folder {
                Some(folder) => format!("{} in {}", call.name, folder_in("", folder)),
                None => format!("{}:{}", call.name, shared_arguments(call).digest()),
            },
            usual_s: fixed.unwrap_or(usual_s),
            doubles: fixed.is_none(),
        }
    }

    /// The key of a shared time limit: the same tool with the same arguments, and for scans the
    /// same tool in the same folder.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl Timeouts {
    /// The current time limit of a call in seconds.
    pub fn budget_s(&self, timing: &Timing) -> u64 {
        let raised = self.raised.get(&timing.key).copied().unwrap_or_default();
        raised.max(timing.usual_s)
    }

    /// Counts the end of a call: a timeout raises the next limit, any other end resets it.
    pub fn record(&mut self, timing: &Timing, end: CallEnd) {
        match end {
            CallEnd::DeadlinePassed if timing.doubles => {
                let doubled = self.budget_s(timing).saturating_mul(2);
                self.raised.insert(timing.key.clone(), doubled.min(MAX_RAISED_S));
            }
            CallEnd::DeadlinePassed => {}
            CallEnd::Returned => {
                self.raised.remove(&timing.key);
            }
        }
    }
}

/// The arguments that distinguish calls: all of them, or for a scan the folders, each in one spelling.
fn shared_arguments(call: &ToolCall) -> Value {
    if !is_scan(&call.name) {
        return call.arguments.clone();
    }
    let base = texts_of(call, BASE_ARGUMENTS).next().unwrap_or_default();
    let mut folders: Vec<String> =
        texts_of(call, FOLDER_ARGUMENTS).map(|folder| folder_in(base, folder)).collect();
    if folders.is_empty() {
        folders.push(folder_in(base, ""));
    }
    folders.sort();
    folders.dedup();
    Value::Array(folders.into_iter().map(Value::String).collect())
}

/// The texts of arguments with these names, also in lists.
fn texts_of<'c>(call: &'c ToolCall, names: &'c [&str]) -> impl Iterator<Item = &'c str> {
    let members = call.arguments.as_object().unwrap_or_default().iter();
    let named = members.filter(|(key, _)| names.contains(&key.as_str()));
    named.flat_map(|(_, value)| {
        let items = value.as_array().unwrap_or(std::slice::from_ref(value));
        items.iter().filter_map(Value::as_str)
    })
}

/// A folder relative to another one, without empty and `.` parts; `..` takes the part before it away.
fn folder_in(base: &str, folder: &str) -> String {
    let (base, folder) = (base.trim(), folder.trim());
    let is_absolute = folder.starts_with('/');
    let parts = if is_absolute { folder.to_owned() } else { format!("{base}/{folder}") };
    let is_absolute = is_absolute || base.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    for part in parts.split('/') {
        match (part, kept.last()) {
            ("" | ".", _) => {}
            ("..", Some(last)) if *last != ".." => {
                kept.pop();
            }
            (part, _) => kept.push(part),
        }
    }
    let kept = kept.join("/");
    if is_absolute { format!("/{kept}") } else { kept }
}

/// Whether a tool scans the workspace, by its name.
fn is_scan(tool: &str) -> bool {
    tool.to_ascii_lowercase()
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .any(|word| SCAN_WORDS.contains(&word))
}

/// Tools that wait for a user, another agent or a whole machine have a fixed limit: doubling does
/// not help them.
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

    fn timing(name: &str, arguments: &str) -> Timing {
        Timing::of(&call(name, arguments), None, None)
    }

    /// The limits before each timeout, and the one after the last.
    fn budgets(timing: &Timing, timeouts: usize) -> Vec<u64> {
        let mut state = Timeouts::default();
        let mut seen = vec![state.budget_s(timing)];
        for _ in 0..timeouts {
            state.record(timing, CallEnd::DeadlinePassed);
            seen.push(state.budget_s(timing));
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
            let timing = Timing::of(&call(name, "{}"), base_s, None);
            assert_eq!(budgets(&timing, expected.len() - 1), expected, "{name}");
        }
    }

    #[test]
    fn anything_but_a_timeout_brings_the_usual_budget_back() {
        let timing = timing("run_command", r#"{"argv":["x"]}"#);
        let mut state = Timeouts::default();
        state.record(&timing, CallEnd::DeadlinePassed);
        state.record(&timing, CallEnd::DeadlinePassed);
        assert_eq!(state.budget_s(&timing), 80);
        state.record(&timing, CallEnd::Returned);
        assert_eq!(state.budget_s(&timing), 20);
    }

    #[test]
    fn scans_share_a_budget_by_folder_and_other_tools_by_all_arguments() {
        let key = |name, arguments| timing(name, arguments).key;
        assert_eq!(
            key("grep", r#"{"dir":"src","pattern":"x"}"#),
            key("grep", r#"{"pattern":"y","dir":"src"}"#)
        );
        assert_ne!(key("grep", r#"{"dir":"src"}"#), key("grep", r#"{"dir":"doc"}"#));
        for spelling in [
            r#"{"dir":"./src"}"#,
            r#"{"dir":"src/"}"#,
            r#"{"dir":"doc/../src//."}"#,
            r#"{"path":"src"}"#,
            r#"{"cwd":"src"}"#,
            r#"{"cwd":".","paths":["src"]}"#,
        ] {
            assert_eq!(key("grep", r#"{"dir":"src"}"#), key("grep", spelling), "{spelling}");
        }
        for whole in
            ["{}", r#"{"dir":"."}"#, r#"{"dir":""}"#, r#"{"dir":null}"#, r#"{"path":"./"}"#]
        {
            assert_eq!(key("grep", r#"{"pattern":"x"}"#), key("grep", whole), "{whole}");
        }
        assert_ne!(key("grep", "{}"), key("grep", r#"{"dir":"/"}"#));
        assert_ne!(key("grep", r#"{"dir":"../src"}"#), key("grep", r#"{"dir":"src"}"#));
        assert_ne!(key("grep", r#"{"dir":"src"}"#), key("grep", r#"{"dir":"Src"}"#));
        assert_ne!(key("grep", r#"{"dir":"src"}"#), key("glob", r#"{"dir":"src"}"#));
        assert_ne!(key("bash", r#"{"command":"x"}"#), key("bash", r#"{"command":"y"}"#));
    }

    #[test]
    fn a_tool_that_names_the_folder_it_scans_is_taken_at_its_word() {
        let scan = |name, folder| Timing::of(&call(name, "{}"), Some(20), Some(folder));
        assert_eq!(budgets(&scan("tree", "src"), 2), [60, 120, 160]);
        assert_eq!(scan("tree", "src").key(), scan("tree", "src").key());
        assert_ne!(scan("tree", "src").key(), scan("tree", "doc").key());
    }

    #[test]
    fn one_calls_timeout_raises_no_other_calls_budget() {
        let mut state = Timeouts::default();
        state.record(&timing("bash", r#"{"command":"x"}"#), CallEnd::DeadlinePassed);
        assert_eq!(state.budget_s(&timing("bash", r#"{"command":"y"}"#)), 20);
    }
}
