//! The statements about a verdict: a SLSA Verification Summary, and a test result where checks ran.
//!
//! The summary has the whole verdict as its member `surety`; readers of SLSA ignore it.

use super::anchor::VerdictAnchor;
use super::commit::instant;
use super::envelope::{Envelope, Statement, list, message_of, object, subject, text};
use super::key::{KeyId, SIGNATURE_BYTES, SecretKey};
use crate::domain::journal::{VerdictRecord, read_verdict_text, verdict_text};
use crate::domain::json::{Value, parse_stored, sha256_hex};
use crate::domain::verdict::Strength;
use chrono::{DateTime, Utc};

/// The predicate of a Verification Summary.
pub(super) const SUMMARY: &str = "https://slsa.dev/verification_summary/v1";
/// The predicate of a test result.
pub(super) const TEST_RESULT: &str = "https://in-toto.io/attestation/test-result/v0.1";
/// The result of a plan without checks: nothing was tested.
const NO_TEST: &str = "output_only";

/// A verdict with what signs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedVerdict {
    /// When the gate decided.
    pub at: DateTime<Utc>,
    /// The verdict.
    pub record: VerdictRecord,
    /// The key of the gate, and a signature for each of the [`verdict_statements`].
    pub signed: Option<(KeyId, Vec<[u8; SIGNATURE_BYTES]>)>,
    /// What anchors it; none before it is anchored, and where no authority is configured.
    pub anchor: Option<VerdictAnchor>,
}

/// The statements about a verdict on a run.
pub fn verdict_statements(run_id: &str, at: DateTime<Utc>, record: &VerdictRecord) -> Vec<String> {
    let statement = |predicate_type: &str, predicate| Statement {
        predicate_type: predicate_type.to_owned(),
        predicate,
        subject: subjects(run_id, record),
    };
    let mut statements = vec![statement(SUMMARY, summary(run_id, at, record)).to_text()];
    if record.verdict.results.iter().any(|result| result.name != NO_TEST) {
        statements.push(statement(TEST_RESULT, test_result(run_id, record)).to_text());
    }
    statements
}

/// The run by its evidence, and the workspace where a round recorded it.
fn subjects(run_id: &str, record: &VerdictRecord) -> Value {
    let run = format!("{run_id}\n{}", record.last_receipt_digest);
    let run = subject(format!("urn:surety:run:{run_id}"), "sha256", &sha256_hex(run.as_bytes()));
    match record.verdict.workspace_digest.as_str() {
        "" => list([run]),
        digest => list([run, subject("workspace", "suretyWorkspace", digest)]),
    }
}

fn summary(run_id: &str, at: DateTime<Utc>, record: &VerdictRecord) -> Value {
    let VerdictRecord { plan_revision, verdict, last_receipt_digest, plan_digest, .. } = record;
    let strength = match verdict.strength {
        Strength::Independent => "SURETY_INDEPENDENT",
        Strength::SelfChecked => "SURETY_SELF_CHECKED",
    };
    let levels = if verdict.accepted { vec![text(strength)] } else { vec![text("FAILED")] };
    let digest = |digest: &str| object([("sha256", text(digest))]);
    let plan = format!("urn:surety:plan:{run_id}:{plan_revision}");
    let receipts = format!("urn:surety:receipts:{run_id}");
    object([
        ("inputAttestations", list([described(&receipts, digest(last_receipt_digest))])),
        ("policy", described(&plan, digest(plan_digest))),
        ("resourceUri", text(format!("urn:surety:run:{run_id}"))),
        ("slsaVersion", text("1.0")),
        ("surety", whole(record)),
        ("timeVerified", text(instant(at))),
        ("verificationResult", text(if verdict.accepted { "PASSED" } else { "FAILED" })),
        ("verifiedLevels", Value::Array(levels)),
        ("verifier", object([("id", text("urn:surety:acceptgate"))])),
    ])
}

/// The verdict as the journal has it, in its canonical form.
fn whole(record: &VerdictRecord) -> Value {
    parse_stored(&verdict_text(record)).map_or(Value::Null, |parsed| parsed.value)
}

fn test_result(run_id: &str, record: &VerdictRecord) -> Value {
    let names = |passed: bool| {
        let results = record.verdict.results.iter().filter(move |result| result.passed == passed);
        Value::Array(results.map(|result| text(&result.name)).collect())
    };
    let plan = format!("urn:surety:plan:{run_id}:{}", record.plan_revision);
    let digest = object([("sha256", text(&record.plan_digest))]);
    object([
        ("configuration", list([described(&plan, digest)])),
        ("failedTests", names(false)),
        ("passedTests", names(true)),
        ("result", text(if record.verdict.accepted { "PASSED" } else { "FAILED" })),
    ])
}

fn described(uri: &str, digest: Value) -> Value {
    object([("digest", digest), ("uri", text(uri))])
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
        let statements = verdict_statements(run_id, self.at, &self.record);
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
