//! Reads a receipt from JSON: blanks at the edges are trimmed in external input, and kept in stored
//! text.

use super::{CheckProbe, Command, Conditions, EvidenceReceipt, EvidenceSource, Fact, Inputs};
use crate::domain::json::Value;
use crate::domain::problem::{Code, Problem};
use crate::domain::tests_seen::Counts;
use chrono::{DateTime, Utc};

/// How blanks at the edges of a receipt's texts are treated.
#[derive(Clone, Copy)]
enum Edges {
    Trimmed,
    Kept,
}

/// Reads and normalizes a receipt: its texts are trimmed, the texts inside its facts are not.
/// Unknown keys are ignored.
///
/// # Errors
/// `step_index_missing` (null counts as missing), `step_index_negative`, `type_mismatch` with the
/// field, `evidence_source_unknown`; the first of them in this order.
pub fn read_receipt(value: &Value) -> Result<EvidenceReceipt, Problem> {
    read(value, Edges::Trimmed)
}

/// Reads the output of [`EvidenceReceipt::to_text`] exactly, so that its digest stays the same.
///
/// # Errors
/// Those of [`read_receipt`].
pub fn read_stored(value: &Value) -> Result<EvidenceReceipt, Problem> {
    read(value, Edges::Kept)
}

/// The key and the signature beside a receipt, trimmed; each may be empty.
pub(super) fn read_signature(value: &Value) -> Result<(String, String), Problem> {
    let fields = Fields { object: value, path: "", edges: Edges::Trimmed };
    Ok((fields.text("key_id")?, fields.text("signature")?))
}

fn read(value: &Value, edges: Edges) -> Result<EvidenceReceipt, Problem> {
    let step_index = read_step_index(value.get("step_index"))?;
    if value.as_object().is_none() {
        return Err(mismatch("receipt", "an object", value));
    }
    let fields = Fields { object: value, path: "", edges };
    let source = fields.text("source")?;
    let mut receipt = EvidenceReceipt {
        step_index,
        step_id: fields.text("step_id")?,
        plan_revision: fields.integer("plan_revision")?.unwrap_or_default(),
        seq: fields.integer("seq")?.unwrap_or_default(),
        call_id: fields.text("call_id")?,
        probe_of: read_probe(&fields)?,
        source: EvidenceSource::ToolObservation,
        name: fields.text("name")?,
        arguments_digest: fields.text("arguments_digest")?,
        success: fields.truth("success")?,
        summary: fields.text("summary")?,
        facts: read_facts(value.get("facts"))?,
        output_digest: fields.text("output_digest")?,
        sandbox: fields.text("sandbox")?,
        started_at: fields.instant("started_at")?,
        finished_at: fields.instant("finished_at")?,
        prev_digest: fields.text("prev_digest")?,
        digest: fields.text("digest")?,
    };
    receipt.source = EvidenceSource::from_text(&source).ok_or_else(|| {
        let known = EvidenceSource::ALL.map(EvidenceSource::as_str).join(", ");
        Problem::at(
            Code::EvidenceSourceUnknown,
            "source",
            format!("`{source}` is not a source of evidence; use one of {known}"),
        )
    })?;
    Ok(receipt)
}

fn read_probe(fields: &Fields<'_>) -> Result<Option<CheckProbe>, Problem> {
    let (round, inputs) = (fields.integer("round")?.unwrap_or_default(), fields.text("inputs")?);
    let inputs = Inputs::from_text(&inputs).ok_or_else(|| {
        let known = "original, original_with_ignored, as_left";
        let message = format!("`{inputs}` is not what a check runs with; use one of {known}");
        Problem::at(Code::TypeMismatch, "inputs", message)
    })?;
    Ok(probe_of(fields.text("check_id")?, round, inputs))
}

/// The check that a receipt names; none where it names none.
pub fn probe_of(check_id: String, round: u32, inputs: Inputs) -> Option<CheckProbe> {
    (round > 0 || !check_id.is_empty()).then_some(CheckProbe { check_id, round, inputs })
}

fn read_step_index(value: Option<&Value>) -> Result<u32, Problem> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Err(Problem::at(
            Code::StepIndexMissing,
            "step_index",
            "the receipt has no step_index; set it to the step's index in the plan, from 0",
        ));
    };
    let expected = "a whole number from 0";
    let spelling = value.as_number().ok_or_else(|| mismatch("step_index", expected, value))?;
    if is_negative(spelling) {
        return Err(Problem::at(
            Code::StepIndexNegative,
            "step_index",
            format!("{spelling} is below zero; steps are counted from 0"),
        ));
    }
    spelling.trim_start_matches('-').parse().map_err(|_| mismatch("step_index", expected, value))
}

/// Whether a number is below zero, which `-0` is not. A fraction below zero is.
fn is_negative(spelling: &str) -> bool {
    let digits = spelling.split(['e', 'E']).next().unwrap_or_default();
    spelling.starts_with('-') && digits.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

fn read_facts(value: Option<&Value>) -> Result<Vec<Fact>, Problem> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(Vec::new());
    };
    value
        .as_array()
        .ok_or_else(|| mismatch("facts", "a list", value))?
        .iter()
        .enumerate()
        .map(|(place, fact)| read_fact(fact, &format!("facts[{place}]")))
        .collect()
}

/// Reads one fact; `path` is its field path, for errors. Its texts are not trimmed. A missing
/// boolean is false, because an absent statement proves nothing.
///
/// # Errors
/// `type_mismatch` with the field for a fact of an unknown kind, and for a missing or mistyped
/// field.
pub fn read_fact(value: &Value, path: &str) -> Result<Fact, Problem> {
    if value.as_object().is_none() {
        return Err(mismatch(path, "an object", value));
    }
    let fields = Fields { object: value, path, edges: Edges::Kept };
    match fields.needed_text("fact")?.as_str() {
        "file_written" => Ok(Fact::FileWritten {
            path: fields.needed_text("path")?,
            before_digest: fields.optional_text("before_digest")?,
            after_digest: fields.optional_text("after_digest")?,
        }),
        "file_observed" => Ok(Fact::FileObserved {
            path: fields.needed_text("path")?,
            exists: fields.truth("exists")?,
        }),
        "command" => Ok(Fact::Command {
            command: read_command(&fields)?,
            exit_code: fields
                .integer("exit_code")?
                .ok_or_else(|| fields.missing("exit_code", "a whole number"))?,
            conditions: read_conditions(&fields)?,
        }),
        "content" => Ok(Fact::Content {
            path: fields.needed_text("path")?,
            contains: fields.needed_text("contains")?,
            found: fields.truth("found")?,
        }),
        "verification" => Ok(Fact::Verification {
            tool: fields.text("tool")?,
            scope: fields.text("scope")?,
            passed: fields.truth("passed")?,
        }),
        "output" => {
            Ok(Fact::Output { key: fields.needed_text("key")?, value: fields.text("value")? })
        }
        "tests" => Ok(Fact::Tests {
            runner: fields.needed_text("runner")?,
            counts: Counts {
                ran: fields.count("ran")?,
                failed: fields.count("failed")?,
                skipped: fields.count("skipped")?,
                missing: fields.count("missing")?,
            },
        }),
        _ => Err(fields.missing("fact", "a known kind of fact")),
    }
}

/// An argument list is more precise than a line, so it wins when both are given.
fn read_command(fields: &Fields<'_>) -> Result<Command, Problem> {
    match read_texts(fields, "argv")? {
        Some(argv) => Ok(Command::Argv(argv)),
        None => fields.needed_text("command_line").map(Command::Line),
    }
}

fn read_conditions(fields: &Fields<'_>) -> Result<Option<Conditions>, Problem> {
    let Some(cwd) = fields.optional_text("cwd")? else { return Ok(None) };
    Ok(Some(Conditions {
        cwd,
        environment: read_texts(fields, "environment")?.unwrap_or_default(),
        workspace_before: fields.text("workspace_before")?,
        workspace_after: fields.text("workspace_after")?,
    }))
}

fn read_texts(fields: &Fields<'_>, key: &str) -> Result<Option<Vec<String>>, Problem> {
    let Some(list) = fields.get(key) else { return Ok(None) };
    let wrong = || mismatch(&fields.at(key), "a list of texts", list);
    let texts = list.as_array().ok_or_else(wrong)?.iter();
    texts
        .map(|text| text.as_str().map(str::to_owned).ok_or_else(wrong))
        .collect::<Result<_, _>>()
        .map(Some)
}

/// Reads the members of one object by name. Null counts as missing.
struct Fields<'v> {
    object: &'v Value,
    path: &'v str,
    edges: Edges,
}

impl<'v> Fields<'v> {
    fn get(&self, key: &str) -> Option<&'v Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn missing(&self, key: &str, expected: &str) -> Problem {
        let found = self.object.get(key).unwrap_or(&Value::Null);
        mismatch(&self.at(key), expected, found)
    }

    fn optional_text(&self, key: &str) -> Result<Option<String>, Problem> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let text = value.as_str().ok_or_else(|| mismatch(&self.at(key), "a text", value))?;
        Ok(Some(match self.edges {
            Edges::Trimmed => text.trim().to_owned(),
            Edges::Kept => text.to_owned(),
        }))
    }

    fn text(&self, key: &str) -> Result<String, Problem> {
        self.optional_text(key).map(Option::unwrap_or_default)
    }

    fn needed_text(&self, key: &str) -> Result<String, Problem> {
        self.optional_text(key)?.ok_or_else(|| self.missing(key, "a text"))
    }

    fn truth(&self, key: &str) -> Result<bool, Problem> {
        let Some(value) = self.get(key) else {
            return Ok(false);
        };
        value.as_bool().ok_or_else(|| mismatch(&self.at(key), "true or false", value))
    }

    fn integer<N: std::str::FromStr>(&self, key: &str) -> Result<Option<N>, Problem> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        value
            .as_number()
            .and_then(|spelling| spelling.parse().ok())
            .map(Some)
            .ok_or_else(|| mismatch(&self.at(key), "a whole number in range", value))
    }

    /// A number that is 0 where it is left out.
    fn count(&self, key: &str) -> Result<u64, Problem> {
        self.integer(key).map(Option::unwrap_or_default)
    }

    fn instant(&self, key: &str) -> Result<Option<DateTime<Utc>>, Problem> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        value
            .as_str()
            .and_then(|text| DateTime::parse_from_rfc3339(text.trim()).ok())
            .map(|instant| Some(instant.to_utc()))
            .ok_or_else(|| mismatch(&self.at(key), "an instant as RFC 3339 text", value))
    }
}

fn mismatch(field: &str, expected: &str, found: &Value) -> Problem {
    Problem::at(Code::TypeMismatch, field, format!("expected {expected}, found {}", found.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::parse;

    fn value(text: &str) -> Value {
        parse(text).unwrap().value
    }

    #[test]
    fn a_receipt_is_trimmed_and_its_facts_are_not() {
        let receipt = read_receipt(&value(
            r#"{"step_index": 3, "source": " write_receipt\n", "name": " 写 ", "summary": "\t",
                "success": true, "extra": 1, "facts": [
                {"fact": "file_written", "path": " a ", "after_digest": " d "}]}"#,
        ))
        .unwrap();
        assert_eq!((receipt.step_index, receipt.success), (3, true));
        assert_eq!(receipt.source, EvidenceSource::WriteReceipt);
        assert_eq!((receipt.name.as_str(), receipt.summary.as_str()), ("写", ""));
        let written = Fact::FileWritten {
            path: " a ".into(),
            before_digest: None,
            after_digest: Some(" d ".into()),
        };
        assert_eq!(receipt.facts, [written]);
    }

    #[test]
    fn the_first_error_in_the_named_order_is_told() {
        let index = "step_index";
        for (text, code, field) in [
            (r#"{"source": "x"}"#, Code::StepIndexMissing, index),
            (r#"{"step_index": null, "name": 1}"#, Code::StepIndexMissing, index),
            (r#"{"step_index": -1, "name": 1}"#, Code::StepIndexNegative, index),
            (r#"{"step_index": -1.5}"#, Code::StepIndexNegative, index),
            (r#"{"step_index": -99999999999999999999}"#, Code::StepIndexNegative, index),
            (r#"{"step_index": 1.5, "source": "x"}"#, Code::TypeMismatch, index),
            (r#"{"step_index": 1e0}"#, Code::TypeMismatch, index),
            (r#"{"step_index": "1"}"#, Code::TypeMismatch, index),
            (r#"{"step_index": true}"#, Code::TypeMismatch, index),
            (r#"{"step_index": 4294967296}"#, Code::TypeMismatch, index),
            (
                r#"{"step_index": 0, "source": "x", "success": "yes"}"#,
                Code::TypeMismatch,
                "success",
            ),
            (r#"{"step_index": 0, "source": 5}"#, Code::TypeMismatch, "source"),
            (r#"{"step_index": 0}"#, Code::EvidenceSourceUnknown, "source"),
            (r#"{"step_index": 0, "source": "PROBE"}"#, Code::EvidenceSourceUnknown, "source"),
            (r#"{"step_index": 0, "source": "model"}"#, Code::EvidenceSourceUnknown, "source"),
            (
                r#"{"step_index": 0, "source": "probe", "started_at": "now"}"#,
                Code::TypeMismatch,
                "started_at",
            ),
            (r"[]", Code::StepIndexMissing, index),
        ] {
            let problem = read_receipt(&value(text)).unwrap_err();
            assert_eq!((problem.code, problem.field.as_deref()), (code, Some(field)), "{text}");
        }
    }

    #[test]
    fn a_minus_zero_is_zero() {
        let text = r#"{"step_index": -0, "source": "probe"}"#;
        assert_eq!(read_receipt(&value(text)).unwrap().step_index, 0);
    }

    #[test]
    fn a_fact_that_says_too_little_is_refused_with_its_place() {
        for (fact, field) in [
            (r#"{"path": "a"}"#, "facts[0].fact"),
            (r#"{"fact": "claim"}"#, "facts[0].fact"),
            (r#"{"fact": "file_written"}"#, "facts[0].path"),
            (r#"{"fact": "file_observed", "path": "a", "exists": 1}"#, "facts[0].exists"),
            (r#"{"fact": "command", "exit_code": 0}"#, "facts[0].command_line"),
            (r#"{"fact": "command", "command_line": "a"}"#, "facts[0].exit_code"),
            (r#"{"fact": "command", "argv": ["a", 1], "exit_code": 0}"#, "facts[0].argv"),
            (r#"{"fact": "content", "path": "a", "found": true}"#, "facts[0].contains"),
            (r#""text""#, "facts[0]"),
        ] {
            let text = format!(r#"{{"step_index": 0, "source": "probe", "facts": [{fact}]}}"#);
            let problem = read_receipt(&value(&text)).unwrap_err();
            assert_eq!((problem.code, problem.field.as_deref()), (Code::TypeMismatch, Some(field)));
        }
    }
}
