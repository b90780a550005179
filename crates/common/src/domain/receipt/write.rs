//! Writes a receipt as compact JSON without empty fields, and computes its digest.

use super::{
    Command, Conditions, EvidenceReceipt, EvidenceSource, Fact, WORKSPACE_CHECK, WORKSPACE_DIGEST,
};
use crate::domain::json::{ObjectText, Value, sha256_hex, write_list};
use crate::domain::tests_seen::Counts;
use chrono::{DateTime, SecondsFormat, Utc};

impl EvidenceReceipt {
    /// The canonical form for storage and export. Empty fields are omitted; times have
    /// microseconds, as in Postgres.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    /// Appends the output of [`Self::to_text`].
    pub fn write(&self, out: &mut String) {
        self.write_with(&self.digest, ("", ""), out);
    }

    /// The SHA-256, in hexadecimal, of the canonical JSON of every field except the digest itself.
    /// It includes the previous receipt's digest, which makes the chain.
    pub fn compute_digest(&self) -> String {
        let mut out = String::with_capacity(1024);
        self.write_with("", ("", ""), &mut out);
        sha256_hex(out.as_bytes())
    }

    /// Links the receipt to the run's last one, whose digest is empty for the first, and sets its
    /// own digest.
    pub fn seal(&mut self, prev_digest: impl Into<String>) {
        self.prev_digest = prev_digest.into();
        self.digest = self.compute_digest();
    }

    /// Destructures every field, so that the compiler refuses a new field without a place in the
    /// digest. The fields are in the order of their names, as in canonical text.
    pub(super) fn write_with(
        &self,
        own_digest: &str,
        (key_id, signature): (&str, &str),
        out: &mut String,
    ) {
        let Self {
            step_index,
            step_id,
            plan_revision,
            seq,
            call_id,
            probe_of,
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
            sandbox,
        } = self;
        let write_fact = |out: &mut String, fact: &Fact| fact.to_json().write_canonical(out);
        let object = ObjectText::begin(out)
            .text("arguments_digest", arguments_digest)
            .text("call_id", call_id)
            .text("check_id", probe_of.as_ref().map_or("", |probe| &probe.check_id))
            .text("digest", own_digest);
        let object = match facts.is_empty() {
            true => object,
            false => object.with("facts", |out| write_list(out, facts, write_fact)),
        };
        let object = object
            .text("finished_at", &instant(*finished_at))
            .text("inputs", probe_of.as_ref().map_or("", |probe| probe.inputs.as_str()))
            .text("key_id", key_id)
            .text("name", name)
            .text("output_digest", output_digest);
        let object = positive(object, "plan_revision", u64::from(*plan_revision))
            .text("prev_digest", prev_digest);
        let round = probe_of.as_ref().map_or(0, |probe| probe.round);
        let object = positive(object, "round", u64::from(round)).text("sandbox", sandbox);
        positive(object, "seq", *seq)
            .text("signature", signature)
            .text("source", source.as_str())
            .text("started_at", &instant(*started_at))
            .text("step_id", step_id)
            .number("step_index", step_index)
            .with("success", |out| out.push_str(if *success { "true" } else { "false" }))
            .text("summary", summary)
            .end();
    }
}

fn positive<'o>(object: ObjectText<'o>, key: &str, number: u64) -> ObjectText<'o> {
    if number > 0 { object.number(key, number) } else { object }
}

fn instant(instant: Option<DateTime<Utc>>) -> String {
    instant.map_or_else(String::new, |at| at.to_rfc3339_opts(SecondsFormat::Micros, true))
}

impl EvidenceReceipt {
    /// The values of its outputs of this key, in the order of its facts.
    pub fn outputs<'r>(&'r self, wanted: &'r str) -> impl Iterator<Item = &'r str> {
        self.facts.iter().filter_map(move |fact| fact.output(wanted))
    }

    /// The digest of the workspace, where this is the runner's observation of it: empty where it could not be read.
    pub fn workspace_read(&self) -> Option<&str> {
        let probe = self.probe_of.as_ref().map(|probe| probe.check_id.as_str());
        (self.source == EvidenceSource::Probe && probe == Some(WORKSPACE_CHECK))
            .then(|| self.outputs(WORKSPACE_DIGEST).next().unwrap_or_default())
    }
}

impl Fact {
    /// An output of this key.
    pub fn of_output(key: &str, value: impl Into<String>) -> Self {
        Self::Output { key: key.to_owned(), value: value.into() }
    }

    fn output(&self, wanted: &str) -> Option<&str> {
        match self {
            Self::Output { key, value } => (key == wanted).then_some(value.as_str()),
            Self::FileWritten { .. }
            | Self::FileObserved { .. }
            | Self::Command { .. }
            | Self::Content { .. }
            | Self::Verification { .. }
            | Self::Tests { .. } => None,
        }
    }

    /// The kind of the fact, as the contract names it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::FileWritten { .. } => "file_written",
            Self::FileObserved { .. } => "file_observed",
            Self::Command { .. } => "command",
            Self::Content { .. } => "content",
            Self::Verification { .. } => "verification",
            Self::Output { .. } => "output",
            Self::Tests { .. } => "tests",
        }
    }

    /// The fact as an object whose `fact` names its kind. Unlike in a receipt, empty texts are
    /// kept.
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
            Self::Command { command, exit_code, conditions } => {
                match command {
                    Command::Argv(argv) => {
                        let argv = argv.iter().map(|argument| text(argument)).collect();
                        push(&mut members, "argv", Value::Array(argv));
                    }
                    Command::Line(line) => push(&mut members, "command_line", text(line)),
                }
                push(&mut members, "exit_code", number(*exit_code));
                if let Some(conditions) = conditions {
                    push_conditions(&mut members, conditions);
                }
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
            Self::Tests { runner, counts } => {
                let Counts { ran, failed, skipped, missing } = counts;
                push(&mut members, "runner", text(runner));
                for (key, count) in
                    [("ran", ran), ("failed", failed), ("skipped", skipped), ("missing", missing)]
                {
                    push(&mut members, key, number(count));
                }
            }
        }
        Value::Object(members)
    }
}

fn push(members: &mut Vec<(String, Value)>, key: &str, value: Value) {
    members.push((key.to_owned(), value));
}

fn push_conditions(members: &mut Vec<(String, Value)>, conditions: &Conditions) {
    let Conditions { cwd, environment, workspace_before, workspace_after } = conditions;
    push(members, "cwd", text(cwd));
    if !environment.is_empty() {
        let environment = environment.iter().map(|added| text(added)).collect();
        push(members, "environment", Value::Array(environment));
    }
    for (key, digest) in
        [("workspace_before", workspace_before), ("workspace_after", workspace_after)]
    {
        if !digest.is_empty() {
            push(members, key, text(digest));
        }
    }
}

fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

fn number(value: impl ToString) -> Value {
    Value::Number(value.to_string())
}
