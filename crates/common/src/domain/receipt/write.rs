//! Receipt to JSON: compact, with what is empty left out, and the digest over it.

use super::{Command, EvidenceReceipt, Fact};
use crate::domain::json::Value;
use chrono::{DateTime, SecondsFormat, Utc};

impl EvidenceReceipt {
    /// The form it is stored and exported in. Empty fields are left out; an instant is told to
    /// the microsecond, which is what Postgres keeps.
    pub fn to_json(&self) -> Value {
        let mut members = self.members();
        push_text(&mut members, "digest", &self.digest);
        Value::Object(members)
    }

    /// Hex SHA-256 over the canonical JSON of every field but the digest itself. The digest of
    /// the receipt before it is among them, which makes the chain.
    pub fn compute_digest(&self) -> String {
        Value::Object(self.members()).digest()
    }

    /// Puts the receipt behind the run's last one: its digest is an empty text for the first.
    pub fn seal(&mut self, prev_digest: impl Into<String>) {
        self.prev_digest = prev_digest.into();
        self.digest = self.compute_digest();
    }

    /// Everything but the digest. Every field is taken apart here, so that a new one cannot be
    /// left out of the digest unseen.
    fn members(&self) -> Vec<(String, Value)> {
        let Self {
            step_index,
            step_id,
            plan_revision,
            seq,
            call_id,
            source,
            name,
            arguments_digest,
            success,
            summary,
            facts,
            output_digest,
            started_at,
            finished_at,
            prev_digest,
            digest: _,
        } = self;
        let mut members = Vec::with_capacity(16);
        push(&mut members, "step_index", number(*step_index));
        push_text(&mut members, "step_id", step_id);
        if *plan_revision > 0 {
            push(&mut members, "plan_revision", number(*plan_revision));
        }
        if *seq > 0 {
            push(&mut members, "seq", number(*seq));
        }
        push_text(&mut members, "call_id", call_id);
        push_text(&mut members, "source", source.as_str());
        push_text(&mut members, "name", name);
        push_text(&mut members, "arguments_digest", arguments_digest);
        push(&mut members, "success", Value::Bool(*success));
        push_text(&mut members, "summary", summary);
        if !facts.is_empty() {
            let facts = facts.iter().map(Fact::to_json).collect();
            push(&mut members, "facts", Value::Array(facts));
        }
        push_text(&mut members, "output_digest", output_digest);
        push_instant(&mut members, "started_at", *started_at);
        push_instant(&mut members, "finished_at", *finished_at);
        push_text(&mut members, "prev_digest", prev_digest);
        members
    }
}

impl Fact {
    /// The kind of the fact, in the contract's word.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::FileWritten { .. } => "file_written",
            Self::FileObserved { .. } => "file_observed",
            Self::Command { .. } => "command",
            Self::Content { .. } => "content",
            Self::Verification { .. } => "verification",
            Self::Output { .. } => "output",
        }
    }

    /// The fact as an object whose `fact` names its kind. Unlike a receipt's, its texts are kept
    /// when they are empty.
    pub fn to_json(&self) -> Value {
        let mut members = Vec::with_capacity(4);
        push(&mut members, "fact", text(self.kind()));
        match self {
            Self::FileWritten { path, before_digest, after_digest } => {
                push(&mut members, "path", text(path));
                if let Some(digest) = before_digest {
                    push(&mut members, "before_digest", text(digest));
                }
                if let Some(digest) = after_digest {
                    push(&mut members, "after_digest", text(digest));
                }
            }
            Self::FileObserved { path, exists } => {
                push(&mut members, "path", text(path));
                push(&mut members, "exists", Value::Bool(*exists));
            }
            Self::Command { command, exit_code } => {
                match command {
                    Command::Argv(argv) => {
                        let argv = argv.iter().map(|argument| text(argument)).collect();
                        push(&mut members, "argv", Value::Array(argv));
                    }
                    Command::Line(line) => push(&mut members, "command_line", text(line)),
                }
                push(&mut members, "exit_code", number(*exit_code));
            }
            Self::Content { path, contains, found } => {
                push(&mut members, "path", text(path));
                push(&mut members, "contains", text(contains));
                push(&mut members, "found", Value::Bool(*found));
            }
            Self::Verification { tool, scope, passed } => {
                push(&mut members, "tool", text(tool));
                push(&mut members, "scope", text(scope));
                push(&mut members, "passed", Value::Bool(*passed));
            }
            Self::Output { key, value } => {
                push(&mut members, "key", text(key));
                push(&mut members, "value", text(value));
            }
        }
        Value::Object(members)
    }
}

fn push(members: &mut Vec<(String, Value)>, key: &str, value: Value) {
    members.push((key.to_owned(), value));
}

fn push_text(members: &mut Vec<(String, Value)>, key: &str, value: &str) {
    if !value.is_empty() {
        push(members, key, text(value));
    }
}

fn push_instant(members: &mut Vec<(String, Value)>, key: &str, instant: Option<DateTime<Utc>>) {
    if let Some(instant) = instant {
        let told = instant.to_rfc3339_opts(SecondsFormat::Micros, true);
        push(members, key, Value::String(told));
    }
}

fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

fn number(value: impl ToString) -> Value {
    Value::Number(value.to_string())
}
