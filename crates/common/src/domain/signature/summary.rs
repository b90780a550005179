//! The statements about a verdict: a SLSA Verification Summary, and a test result where something was tested.
//!
//! The summary has the whole verdict as its member `surety`; readers of SLSA ignore it.

use super::anchor::VerdictAnchor;
use super::envelope::{Envelope, Statement, instant, message_of, statement_text, write_subject};
use super::key::{KeyId, SIGNATURE_BYTES, SecretKey};
use crate::domain::journal::{VerdictRecord, read_verdict_text, verdict_text};
use crate::domain::json::{ObjectText, parse_stored, sha256_hex, write_list, write_string};
use crate::domain::verdict::Strength;
use crate::domain::verification::PROJECT_TESTS_CHECK;
use chrono::{DateTime, Utc};

/// The predicate of a Verification Summary.
pub(super) const SUMMARY: &str = "https://slsa.dev/verification_summary/v1";
/// The predicate of a test result.
pub(super) const TEST_RESULT: &str = "https://in-toto.io/attestation/test-result/v0.1";
/// The result of a plan without checks: nothing was tested.
const NO_TEST: &str = "output_only";
/// What the names of the gate's own results begin with.
const RULES: &str = "system.";

/// A verdict with what signs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedVerdict {
    /// When the gate decided.
    pub at: DateTime<Utc>,
    /// The verdict.
    pub record: VerdictRecord,
    /// The key of the gate, and a signature for each of the [`verdict_statements`]; one more where an earlier version signed
    /// a test result although nothing was tested.
    pub signed: Option<(KeyId, Vec<[u8; SIGNATURE_BYTES]>)>,
    /// What anchors it; none before it is anchored, and where no authority is configured.
    pub anchor: Option<VerdictAnchor>,
}

/// Whether a result is that of a check or of the project's own tests. The others are rules of the gate.
fn is_test(name: &str) -> bool {
    name != NO_TEST && (!name.starts_with(RULES) || name == PROJECT_TESTS_CHECK)
}

/// Whether a verdict says what was tested.
pub(super) fn is_tested(record: &VerdictRecord) -> bool {
    record.verdict.results.iter().any(|result| is_test(&result.name))
}

/// The statements about a verdict on a run: a summary, and a test result where something was tested.
pub fn verdict_statements(run_id: &str, at: DateTime<Utc>, record: &VerdictRecord) -> Vec<String> {
    let subjects = subjects(run_id, record);
    let mut statements = vec![summary(&subjects, run_id, at, record)];
    if is_tested(record) {
        statements.push(test_result(&subjects, run_id, record));
    }
    statements
}

/// The run by its evidence, and the workspace where a round recorded it.
fn subjects(run_id: &str, record: &VerdictRecord) -> String {
    let mut list = String::with_capacity(384);
    list.push('[');
    let run = sha256_hex(format!("{run_id}\n{}", record.last_receipt_digest).as_bytes());
    write_subject(&mut list, &format!("urn:surety:run:{run_id}"), "sha256", &run);
    let workspace = &record.verdict.workspace_digest;
    if !workspace.is_empty() {
        list.push(',');
        write_subject(&mut list, "workspace", "suretyWorkspace", workspace);
    }
    list.push(']');
    list
}

fn summary(subjects: &str, run_id: &str, at: DateTime<Utc>, record: &VerdictRecord) -> String {
    let VerdictRecord { verdict, last_receipt_digest, .. } = record;
    let level = match (verdict.accepted, verdict.strength) {
        (true, Strength::Independent) => "SURETY_INDEPENDENT",
        (true, Strength::SelfChecked) => "SURETY_SELF_CHECKED",
        (false, _) => "FAILED",
    };
    let receipts = format!("urn:surety:receipts:{run_id}");
    let text = |text: &'static str| move |out: &mut String| write_string(text, out);
    let predicate = |out: &mut String| {
        ObjectText::begin(out)
            .with("inputAttestations", |out| {
                write_list(out, [last_receipt_digest], |out, digest| {
                    write_described(out, &receipts, digest);
                });
            })
            .with("policy", |out| write_plan(out, run_id, record))
            .text("resourceUri", &format!("urn:surety:run:{run_id}"))
            .with("slsaVersion", text("1.0"))
            .with("surety", |out| write_whole(out, record))
            .text("timeVerified", &instant(at))
            .with("verificationResult", text(result_of(record)))
            .with("verifiedLevels", |out| {
                write_list(out, [level], |out, level| write_string(level, out));
            })
            .with("verifier", |out| {
                ObjectText::begin(out).with("id", text("urn:surety:acceptgate")).end();
            })
            .end();
    };
    statement_text(SUMMARY, predicate, |out| out.push_str(subjects))
}

/// The verdict as the journal has it, in its canonical form.
fn write_whole(out: &mut String, record: &VerdictRecord) {
    match parse_stored(&verdict_text(record)) {
        Ok(parsed) => parsed.value.write_canonical(out),
        Err(_) => out.push_str("null"),
    }
}

fn test_result(subjects: &str, run_id: &str, record: &VerdictRecord) -> String {
    let names = |passed: bool| {
        move |out: &mut String| {
            let results = record.verdict.results.iter().filter(|result| result.passed == passed);
            write_list(out, results, |out, result| write_string(&result.name, out));
        }
    };
    let predicate = |out: &mut String| {
        ObjectText::begin(out)
            .with("configuration", |out| {
                write_list(out, [record], |out, record| write_plan(out, run_id, record));
            })
            .with("failedTests", names(false))
            .with("passedTests", names(true))
            .text("result", result_of(record))
            .end();
    };
    statement_text(TEST_RESULT, predicate, |out| out.push_str(subjects))
}

const fn result_of(record: &VerdictRecord) -> &'static str {
    if record.verdict.accepted { "PASSED" } else { "FAILED" }
}

fn write_plan(out: &mut String, run_id: &str, record: &VerdictRecord) {
    let VerdictRecord { plan_revision, plan_digest, .. } = record;
    write_described(out, &format!("urn:surety:plan:{run_id}:{plan_revision}"), plan_digest);
}

fn write_described(out: &mut String, uri: &str, digest: &str) {
    ObjectText::begin(out)
        .with("digest", |out| {
            ObjectText::begin(out).with("sha256", |out| write_string(digest, out)).end();
        })
        .with("uri", |out| write_string(uri, out))
        .end();
}

impl SignedVerdict {
    /// Signs a verdict.
    pub fn sign(
        key: &SecretKey,
        run_id: &str,
        at: DateTime<Utc>,
        record: &VerdictRecord,
    ) -> Vec<[u8; SIGNATURE_BYTES]> {
        let statements = verdict_statements(run_id, at, record);
        statements.iter().map(|statement| key.sign(&message_of(statement))).collect()
    }

    /// Its statements, each in its envelope; none without a signature, or with another number of
    /// them.
    pub fn envelopes(&self, run_id: &str) -> Option<Vec<Envelope>> {
        let (key_id, signatures) = self.signed.as_ref()?;
        let mut statements = verdict_statements(run_id, self.at, &self.record);
        if signatures.len() == 2 && !is_tested(&self.record) {
            statements.push(test_result(&subjects(run_id, &self.record), run_id, &self.record));
        }
        if statements.len() != signatures.len() {
            return None;
        }
        let pairs = statements.into_iter().zip(signatures.iter().copied());
        let envelopes =
            pairs.map(|(payload, signature)| Envelope { payload, key_id: *key_id, signature });
        Some(envelopes.collect())
    }

    /// Reads the verdict in a summary.
    pub(super) fn of_summary(statement: &Statement) -> Option<(DateTime<Utc>, VerdictRecord)> {
        let at = statement.predicate.get("timeVerified")?.as_str()?;
        let at = DateTime::parse_from_rfc3339(at).ok()?.to_utc();
        let record = statement.predicate.get("surety")?.to_canonical();
        Some((at, read_verdict_text(&record).ok()?))
    }
}
