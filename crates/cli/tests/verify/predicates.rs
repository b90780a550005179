//! What Surety signs has the form of the published JSON Schemas.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use std::path::Path;
use surety_common::domain::journal::{TaskHistory, VerdictRecord};
use surety_common::domain::json::parse_stored;
use surety_common::domain::signature::{
    Envelope, SecretKey, root_statement, sign_document, verdict_statements,
};
use surety_common::domain::stop::StopReason;
use surety_common::domain::verdict::{Approval, Caution, CheckResult, Strength, Verdict};

fn schema(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn at() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 1_000).unwrap()
}

/// The predicate of a statement, whose type must be this one.
fn predicate(statement: &str, kind: &str) -> Value {
    let statement: Value = serde_json::from_str(statement).unwrap();
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["predicateType"], kind);
    assert!(statement["subject"][0]["digest"].is_object(), "{statement:#}");
    statement["predicate"].clone()
}

/// The predicate is valid; without one of its required members, with another type or with one more it is not.
#[track_caller]
fn assert_form(name: &str, predicate: &Value) {
    let schema = schema(name);
    let validator =
        jsonschema::options().should_validate_formats(true).build(&schema).expect("a schema");
    let errors = validator.iter_errors(predicate).map(|error| error.to_string());
    let errors: Vec<String> = errors.collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}\n{predicate:#}");
    for member in schema["required"].as_array().unwrap() {
        let mut without = predicate.clone();
        without.as_object_mut().unwrap().remove(member.as_str().unwrap());
        assert!(!validator.is_valid(&without), "{name} without {member}");
        let mut other = predicate.clone();
        other[member.as_str().unwrap()] = json!([{"x": null}, 1.5]);
        assert!(!validator.is_valid(&other), "{name} with another {member}");
    }
    let mut more = predicate.clone();
    more["surprise"] = json!(true);
    assert!(!validator.is_valid(&more), "{name}: the schema names every member");
}

fn record(accepted: bool, history: Option<TaskHistory>) -> VerdictRecord {
    let stop_reason = if accepted { StopReason::Accepted } else { StopReason::AcceptCheckFailed };
    VerdictRecord {
        plan_revision: 2,
        verdict: Verdict {
            accepted,
            stop_reason,
            results: vec![CheckResult {
                name: "tests".to_owned(),
                passed: accepted,
                reason: "exit code 1".to_owned(),
                optional: false,
            }],
            strength: if accepted { Strength::Independent } else { Strength::SelfChecked },
            round: 1,
            cautions: vec![Caution {
                code: "thin_check".to_owned(),
                check: "tests".to_owned(),
                detail: "it cannot fail".to_owned(),
            }],
            workspace_digest: "ab".repeat(32),
            sandbox: "full".to_owned(),
            approvals: vec![Approval { by: "ann".to_owned(), digest: "cd".repeat(32) }],
            repository: None,
        },
        receipts: 3,
        last_receipt_digest: "ef".repeat(32),
        plan_digest: "01".repeat(32),
        history,
    }
}

#[test]
fn every_predicate_has_the_published_form() {
    let root = root_statement(&[7; 32], 4, at());
    let root = predicate(&root, "urn:surety:predicate:receipts-root:v1");
    assert_form("receipts-root.schema.json", &root);

    let history = Some(TaskHistory { entries: 2, last_digest: "23".repeat(32) });
    for record in [record(true, None), record(true, history), record(false, None)] {
        let run_id = "0199f4d0-0000-7000-8000-000000000001";
        let statements = verdict_statements(run_id, at(), &record);
        let [summary, _] = statements.as_slice() else { panic!("{statements:#?}") };
        let summary = predicate(summary, "https://slsa.dev/verification_summary/v1");
        assert_form("verdict-summary.schema.json", &summary);
    }

    let key = SecretKey::from_seed([3; 32]).unwrap();
    let document = parse_stored("{\"form\":\"surety verdict 1\"}").unwrap().value;
    let line = sign_document(&key, at(), &document);
    let envelope = Envelope::read(&parse_stored(&line).unwrap().value).unwrap();
    let file = predicate(&envelope.payload, "urn:surety:predicate:verdict-file:v1");
    assert_form("verdict-file.schema.json", &file);
}
