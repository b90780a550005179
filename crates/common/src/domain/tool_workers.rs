//! Which identities may serve which tools as workers, and what counts of what they say of themselves.

use super::json::Value;
use super::problem::{Code, Problem};
use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The most tools of workers in a namespace.
pub const MAX_WORKER_TOOLS: usize = 200;
/// The most identities that may serve one tool.
const MAX_IDENTITIES: usize = 100;
/// The longest name of a tool, in bytes.
const MAX_TOOL_NAME: usize = 64;
/// The longest name of an identity, in bytes.
const MAX_IDENTITY: usize = 100;
/// The attempts of a call where the policy names none, and the most of them.
const ATTEMPTS: u32 = 3;
const MAX_ATTEMPTS: u32 = 100;
/// The time before the second attempt where the policy names none, and the longest, in seconds.
const BACKOFF_S: u32 = 1;
const MAX_BACKOFF_S: u32 = 3600;
/// The keys of an entry in a file.
pub const ENTRY_KEYS: [&str; 8] = [
    "tool",
    "identities",
    "read_only",
    "destructive",
    "idempotent",
    "open_world",
    "max_attempts",
    "retry_backoff_s",
];
/// Every identity with the role worker.
const EVERY: &str = "*";

/// What an operator says of one tool that workers serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolWorkerPolicy {
    /// The name of the tool.
    pub tool: String,
    /// The names of the identities that may serve it; `*` alone for all.
    pub identities: Vec<String>,
    /// The annotations that count.
    pub annotations: WorkerAnnotations,
    /// The most attempts of one call; 0 for the default.
    pub max_attempts: u32,
    /// Seconds before the second attempt; 0 for the default.
    pub retry_backoff_s: u32,
}

/// The possible effects of a tool of a worker. The default has the safe values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerAnnotations {
    /// It changes nothing.
    pub read_only: bool,
    /// It may overwrite or remove existing data.
    pub destructive: bool,
    /// A repeated call with the same idempotency key has no further effect.
    pub idempotent: bool,
    /// It may have effects outside the workspace.
    pub open_world: bool,
}

impl Default for WorkerAnnotations {
    fn default() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

impl WorkerAnnotations {
    /// Whether a call whose worker was lost may be made again.
    #[must_use]
    pub const fn may_repeat(self) -> bool {
        self.read_only || self.idempotent
    }
}

/// How often a call may be made, and when again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// The most attempts, at least 1.
    pub most: u32,
    /// Seconds before the second one.
    pub backoff_s: u32,
}

impl Attempts {
    /// The pause before the attempt after `attempt`: doubled each time, one hour at most.
    #[must_use]
    pub fn pause_after(self, attempt: u32) -> TimeDelta {
        let doublings = attempt.saturating_sub(1).min(16);
        let seconds = u64::from(self.backoff_s) << doublings;
        let seconds = seconds.min(u64::from(MAX_BACKOFF_S));
        TimeDelta::seconds(i64::try_from(seconds).unwrap_or(i64::from(MAX_BACKOFF_S)))
    }
}

impl ToolWorkerPolicy {
    /// Whether an identity may serve the tool.
    #[must_use]
    pub fn admits(&self, identity: &str) -> bool {
        self.identities.iter().any(|name| name == EVERY || name == identity)
    }

    /// How often a call of the tool may be made.
    #[must_use]
    pub const fn attempts(&self) -> Attempts {
        let most = if self.max_attempts == 0 { ATTEMPTS } else { self.max_attempts };
        let backoff_s = if self.retry_backoff_s == 0 { BACKOFF_S } else { self.retry_backoff_s };
        Attempts { most, backoff_s }
    }

    fn check(&self, at: &str) -> Result<(), Problem> {
        let problem = |code, field: &str, message: String| {
            Problem::at(code, format!("{at}.{field}"), message)
        };
        check_tool_name(&self.tool).map_err(|error| problem(error.code, "tool", error.message))?;
        if self.identities.is_empty() {
            let message = "is empty; name the identities that may serve the tool, or `*`";
            return Err(problem(Code::FieldMissing, "identities", message.to_owned()));
        }
        if self.identities.len() > MAX_IDENTITIES {
            let message = format!("has more than {MAX_IDENTITIES} names; leave some out");
            return Err(problem(Code::TooLarge, "identities", message));
        }
        for name in &self.identities {
            let plain = |letter: char| {
                letter.is_ascii_alphanumeric()
                    || matches!(letter, '.' | '_' | '@' | ':' | '/' | '-')
            };
            let named = !name.is_empty() && name.len() <= MAX_IDENTITY && name.chars().all(plain);
            let is_every = name == EVERY && self.identities.len() == 1;
            if !(named || is_every) {
                let message = format!("{name:?} is no name of an identity, and not `*` alone");
                return Err(problem(Code::TypeMismatch, "identities", message));
            }
        }
        for (field, value, most) in [
            ("max_attempts", self.max_attempts, MAX_ATTEMPTS),
            ("retry_backoff", self.retry_backoff_s, MAX_BACKOFF_S),
        ] {
            if value > most {
                let message = format!("{value} is above {most}; choose less");
                return Err(problem(Code::LimitOutOfRange, field, message));
            }
        }
        Ok(())
    }

    pub(super) fn to_json(&self) -> Value {
        let Self { tool, identities, annotations, max_attempts, retry_backoff_s } = self;
        let WorkerAnnotations { read_only, destructive, idempotent, open_world } = *annotations;
        let member = |key: &str, value| (key.to_owned(), value);
        let names = identities.iter().cloned().map(Value::String).collect();
        Value::Object(vec![
            member("tool", Value::String(tool.clone())),
            member("identities", Value::Array(names)),
            member("read_only", Value::Bool(read_only)),
            member("destructive", Value::Bool(destructive)),
            member("idempotent", Value::Bool(idempotent)),
            member("open_world", Value::Bool(open_world)),
            member("max_attempts", Value::Number(max_attempts.to_string())),
            member("retry_backoff_s", Value::Number(retry_backoff_s.to_string())),
        ])
    }

    /// Reads an entry of a stored policy. What is absent has the safe value.
    fn from_json(value: &Value) -> Self {
        let safe = WorkerAnnotations::default();
        let truth = |key: &str, safe| value.get(key).and_then(Value::as_bool).unwrap_or(safe);
        let number = |key: &str| {
            let number = value.get(key).and_then(Value::as_number);
            number.and_then(|number| number.parse().ok()).unwrap_or_default()
        };
        let names = value.get("identities").and_then(Value::as_array).unwrap_or_default();
        Self {
            tool: value.get("tool").and_then(Value::as_str).unwrap_or_default().to_owned(),
            identities: names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            annotations: WorkerAnnotations {
                read_only: truth("read_only", safe.read_only),
                destructive: truth("destructive", safe.destructive),
                idempotent: truth("idempotent", safe.idempotent),
                open_world: truth("open_world", safe.open_world),
            },
            max_attempts: number("max_attempts"),
            retry_backoff_s: number("retry_backoff_s"),
        }
    }
}

/// The name of a tool in a decision: 1 to 64 letters, digits, `_`, `-` and `.`.
///
/// # Errors
/// `field_missing`, `too_large`, `type_mismatch`; without a path.
pub fn check_tool_name(name: &str) -> Result<(), Problem> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
    if name.is_empty() {
        return Err(Problem::new(Code::FieldMissing, "is missing; set it"));
    }
    if name.len() > MAX_TOOL_NAME {
        let message = format!("is longer than {MAX_TOOL_NAME} bytes; shorten it");
        return Err(Problem::new(Code::TooLarge, message));
    }
    if !name.chars().all(plain) {
        let message =
            format!("{name:?} is no name of a tool; use letters, digits, `_`, `-` and `.`");
        return Err(Problem::new(Code::TypeMismatch, message));
    }
    Ok(())
}

/// The entry of a policy for a tool.
pub fn entry_of<'p>(entries: &'p [ToolWorkerPolicy], tool: &str) -> Option<&'p ToolWorkerPolicy> {
    entries.iter().find(|entry| entry.tool == tool)
}

/// Looks at the entries of a policy.
///
/// # Errors
/// `too_large`, `field_missing`, `type_mismatch`, `limit_out_of_range`.
pub(super) fn check_entries(field: &str, entries: &[ToolWorkerPolicy]) -> Result<(), Problem> {
    if entries.len() > MAX_WORKER_TOOLS {
        let message = format!("has more than {MAX_WORKER_TOOLS} tools; leave some out");
        return Err(Problem::at(Code::TooLarge, field, message));
    }
    let mut known = BTreeSet::new();
    for (place, entry) in entries.iter().enumerate() {
        let at = format!("{field}[{place}]");
        entry.check(&at)?;
        if !known.insert(entry.tool.as_str()) {
            let message = format!("{:?} has two entries; join them", entry.tool);
            return Err(Problem::at(Code::TypeMismatch, format!("{at}.tool"), message));
        }
    }
    Ok(())
}

/// Reads the entries of a stored policy.
#[must_use]
pub fn read_entries(policy: &Value) -> Vec<ToolWorkerPolicy> {
    let entries = policy.get("tool_workers").and_then(Value::as_array).unwrap_or_default();
    entries.iter().map(ToolWorkerPolicy::from_json).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tool: &str, identities: &[&str]) -> ToolWorkerPolicy {
        ToolWorkerPolicy {
            tool: tool.to_owned(),
            identities: identities.iter().map(|name| (*name).to_owned()).collect(),
            annotations: WorkerAnnotations::default(),
            max_attempts: 0,
            retry_backoff_s: 0,
        }
    }

    #[test]
    fn an_entry_admits_the_identities_that_it_names() {
        assert!(entry("build", &["farm"]).admits("farm"));
        assert!(!entry("build", &["farm"]).admits("other"));
        assert!(entry("build", &["*"]).admits("other"));
    }

    #[test]
    fn entries_are_checked_and_the_bad_field_is_named() {
        let many = ToolWorkerPolicy { max_attempts: 101, ..entry("build", &["farm"]) };
        for (entries, expected) in [
            (vec![entry("", &["farm"])], "w[0].tool"),
            (vec![entry("a b", &["farm"])], "w[0].tool"),
            (vec![entry("build", &[])], "w[0].identities"),
            (vec![entry("build", &["*", "farm"])], "w[0].identities"),
            (vec![entry("build", &["farm"]), entry("build", &["farm"])], "w[1].tool"),
            (vec![many], "w[0].max_attempts"),
        ] {
            let refused = check_entries("w", &entries).expect_err(expected);
            assert_eq!(refused.field.as_deref(), Some(expected));
        }
        assert_eq!(check_entries("w", &[entry("build", &["*"])]), Ok(()));
    }

    #[test]
    fn the_pause_before_an_attempt_doubles_up_to_an_hour() {
        let attempts = Attempts { most: 100, backoff_s: 2 };
        let seconds = [1, 2, 3, 12, 99].map(|attempt| attempts.pause_after(attempt).num_seconds());
        assert_eq!(seconds, [2, 4, 8, 3600, 3600]);
    }

    #[test]
    fn what_a_policy_does_not_say_of_a_tool_has_the_safe_value() {
        let text = r#"{"tool_workers": [{"tool": "build", "identities": ["farm"]}]}"#;
        let policy = crate::domain::json::parse(text).expect("a policy").value;
        assert_eq!(read_entries(&policy), [entry("build", &["farm"])]);
        let unsaid = WorkerAnnotations::default();
        assert!(!unsaid.read_only && unsaid.destructive && unsaid.open_world);
    }
}
