//! What is written without a value between has the bytes of one with sorted keys, as another writer of JSON gives them.

use super::commit::{line_leaf, receipt_leaf};
use super::*;
use crate::domain::journal::VerdictRecord;
use crate::domain::machine::run::RunState;
use crate::domain::stop::StopReason;
use crate::domain::verdict::{CheckResult, Strength, Verdict};
use chrono::{DateTime, Utc};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use sha2::Digest as _;

const RUN: &str = "0199f4d0-0000-7000-8000-000000000001";

/// Texts with what is escaped, and with what is not.
fn text() -> impl Strategy<Value = String> {
    let letters = [
        'a', 'z', ' ', '/', '"', '\\', '\u{0}', '\u{8}', '\t', '\n', '\u{c}', '\r', '\u{1f}',
        '\u{7f}', '\u{2028}', '写', '🦀',
    ];
    let letters = prop::collection::vec(prop::sample::select(letters.to_vec()), 0..9);
    letters.prop_map(String::from_iter)
}

fn time() -> impl Strategy<Value = DateTime<Utc>> {
    let micros = -1_000_000_000_000_000..9_000_000_000_000_000_i64;
    micros.prop_map(|micros| DateTime::from_timestamp_micros(micros).unwrap())
}

fn shown(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn state() -> impl Strategy<Value = SignedState> {
    let state = prop::sample::select(RunState::ALL.to_vec());
    (state, any::<Digest>())
        .prop_map(|(state, progress)| SignedState { state: state.into(), progress })
}

fn named(names: &[&str], digests: &[Digest]) -> Json {
    let members = names.iter().zip(digests);
    members.map(|(name, digest)| ((*name).to_owned(), Json::from(hex(digest)))).collect()
}

fn result() -> impl Strategy<Value = CheckResult> {
    let name = prop_oneof![
        text(),
        Just("output_only".to_owned()),
        Just("system.todo_failed".to_owned()),
        Just("system.project_tests".to_owned()),
    ];
    (name, any::<bool>()).prop_map(|(name, passed)| CheckResult {
        name,
        passed,
        reason: String::new(),
        optional: false,
    })
}

fn record() -> impl Strategy<Value = VerdictRecord> {
    let results = prop::collection::vec(result(), 0..4);
    let strength = prop::sample::select(vec![Strength::Independent, Strength::SelfChecked]);
    let digests = (text(), text(), text());
    (any::<u32>(), any::<bool>(), results, strength, digests).prop_map(
        |(plan_revision, accepted, results, strength, digests)| {
            let (workspace_digest, last_receipt_digest, plan_digest) = digests;
            let stop_reason =
                if accepted { StopReason::Accepted } else { StopReason::AcceptCheckFailed };
            VerdictRecord {
                plan_revision,
                verdict: Verdict {
                    accepted,
                    stop_reason,
                    results,
                    strength,
                    round: 1,
                    cautions: Vec::new(),
                    workspace_digest,
                    sandbox: String::new(),
                    approvals: Vec::new(),
                    repository: None,
                },
                receipts: plan_revision,
                last_receipt_digest,
                plan_digest,
                history: None,
            }
        },
    )
}

/// The statements of a verdict whose whole text is taken from the first of them.
fn statements_of(at: DateTime<Utc>, record: &VerdictRecord, whole: &Json) -> Vec<String> {
    let verdict = &record.verdict;
    let result = if verdict.accepted { "PASSED" } else { "FAILED" };
    let level = match verdict.strength {
        _ if !verdict.accepted => "FAILED",
        Strength::Independent => "SURETY_INDEPENDENT",
        Strength::SelfChecked => "SURETY_SELF_CHECKED",
    };
    let described = |uri: String, digest: &str| json!({"digest": {"sha256": digest}, "uri": uri});
    let plan_uri = format!("urn:surety:plan:{RUN}:{}", record.plan_revision);
    let plan = described(plan_uri, &record.plan_digest);
    let receipts = described(format!("urn:surety:receipts:{RUN}"), &record.last_receipt_digest);
    let run = hex(&sha2::Sha256::digest(format!("{RUN}\n{}", record.last_receipt_digest)));
    let mut subject = vec![json!({
        "digest": {"sha256": run},
        "name": format!("urn:surety:run:{RUN}"),
    })];
    if !verdict.workspace_digest.is_empty() {
        let digest = json!({"suretyWorkspace": verdict.workspace_digest});
        subject.push(json!({"digest": digest, "name": "workspace"}));
    }
    let statement = |kind: &str, predicate: Json| {
        json!({
            "_type": "https://in-toto.io/Statement/v1",
            "predicate": predicate,
            "predicateType": kind,
            "subject": subject,
        })
        .to_string()
    };
    let summary = json!({
        "inputAttestations": [receipts],
        "policy": plan,
        "resourceUri": format!("urn:surety:run:{RUN}"),
        "slsaVersion": "1.0",
        "surety": whole,
        "timeVerified": shown(at),
        "verificationResult": result,
        "verifiedLevels": [level],
        "verifier": {"id": "urn:surety:acceptgate"},
    });
    let mut statements = vec![statement("https://slsa.dev/verification_summary/v1", summary)];
    let names = |passed: bool| -> Vec<&str> {
        let results = verdict.results.iter().filter(|result| result.passed == passed);
        results.map(|result| result.name.as_str()).collect()
    };
    let is_tested = verdict.results.iter().any(|result| {
        let name = result.name.as_str();
        !matches!(name, "output_only" | "system.todo_failed")
    });
    if is_tested {
        let tests = json!({
            "configuration": [plan],
            "failedTests": names(false),
            "passedTests": names(true),
            "result": result,
        });
        statements.push(statement("https://in-toto.io/attestation/test-result/v0.1", tests));
    }
    statements
}

proptest! {
    #[test]
    fn a_journal_row_is_written_with_sorted_keys(
        sequence in any::<i64>(), entries in any::<u32>(), at in time(), actor in text(),
        entries_digest in any::<Digest>(), verdicts in any::<u32>(), answers in 0..3_u32,
        change in prop::option::of((prop::option::of(state()), state())),
    ) {
        let mut commit = json!({
            "actor": actor, "at": shown(at), "entries": entries, "entries_digest": hex(&entries_digest),
            "sequence": sequence, "verdicts": verdicts,
        });
        if answers > 0 {
            commit["answers"] = answers.into();
        }
        let members = |of: SignedState| json!({"progress": hex(&of.progress), "state": of.state.as_str()});
        if let Some((before, after)) = change {
            if let Some(before) = before {
                commit["before"] = members(before);
            }
            commit["progress"] = hex(&after.progress).into();
            commit["state"] = after.state.as_str().into();
        }
        let change = change.map(|(before, after)| StateChange { before, after });
        let line =
            CommitLine { sequence, entries, at, actor, entries_digest, verdicts, answers, change };
        prop_assert_eq!(line.to_line(), json!({"commit": commit}).to_string());
    }

    #[test]
    fn columns_are_written_with_sorted_keys(
        run in any::<[Digest; 10]>(), task in prop::option::of(any::<[Digest; 6]>()),
        plans in prop::collection::vec(any::<(u32, [Digest; 5])>(), 0..3),
    ) {
        let (found_run, found_task) = (RunColumns(run), task.map(TaskColumns));
        let run = named(&RunColumns::NAMES, &run);
        let task = task.map(|task| named(&TaskColumns::NAMES, &task));
        let found_plans: Vec<PlanColumns> =
            plans.iter().map(|(revision, columns)| PlanColumns { revision: *revision, columns: *columns }).collect();
        let plans: Vec<Json> = plans
            .iter()
            .map(|(revision, columns)| {
                let mut plan = named(&PlanColumns::NAMES, columns);
                plan["revision"] = (*revision).into();
                plan
            })
            .collect();
        prop_assert_eq!(found_run.to_line(), json!({"run": run}).to_string());
        for (found, task) in found_task.iter().zip(&task) {
            prop_assert_eq!(found.to_line(), json!({"task": task}).to_string());
        }
        for (found, plan) in found_plans.iter().zip(&plans) {
            prop_assert_eq!(found.to_line(), json!({"plan": plan}).to_string());
        }
        let mut stored = json!({"plans": plans, "run": run});
        if let Some(task) = task {
            stored["task"] = task;
        }
        let found = FoundColumns { run: found_run, task: found_task, plans: found_plans };
        prop_assert_eq!(stored_line(&found), json!({"stored": stored}).to_string());
    }

    #[test]
    fn an_entry_is_written_with_sorted_keys(
        number in any::<u32>(), at in time(), texts in (text(), text(), text()),
        body in any::<Digest>(), links in any::<Digest>(), previous in prop::option::of(any::<Digest>()),
    ) {
        let (kind, author, attachment) = texts;
        let entry = json!({
            "at": shown(at), "attachment": attachment, "author": author, "body": hex(&body), "kind": kind,
            "links": hex(&links), "number": number,
            "previous": previous.map_or_else(String::new, |previous| hex(&previous)),
        });
        let line = EntryLine { number, at, kind, author, body, links, attachment, previous };
        prop_assert_eq!(line.to_line(), json!({"entry": entry}).to_string());
    }

    #[test]
    fn a_root_is_written_with_sorted_keys(root in any::<Digest>(), leaf_count in any::<u32>(), at in time()) {
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1",
            "predicate": {"leaf_count": leaf_count, "signed_at": shown(at)},
            "predicateType": "urn:surety:predicate:receipts-root:v1",
            "subject": [{"digest": {"sha256": hex(&root)}, "name": "receipts"}],
        });
        prop_assert_eq!(root_statement(&root, leaf_count, at), statement.to_string());
    }

    #[test]
    fn a_verdict_is_written_with_sorted_keys(at in time(), record in record()) {
        let written = verdict_statements(RUN, at, &record);
        let summary: Json = serde_json::from_str(&written[0]).unwrap();
        let whole = &summary["predicate"]["surety"];
        prop_assert_eq!(whole["plan_revision"].as_u64(), Some(record.plan_revision.into()));
        prop_assert_eq!(&written, &statements_of(at, &record, whole));
    }

    #[test]
    fn a_leaf_is_the_digest_of_its_text(run in text(), seq in any::<u64>(), line in text()) {
        let digest = |text: String| -> Digest { sha2::Sha256::digest(text).into() };
        prop_assert_eq!(receipt_leaf(&run, seq, &line), digest(format!("\0{run}\n{seq}\n{line}")));
        prop_assert_eq!(line_leaf(&run, &line), digest(format!("\0{run}\n{line}")));
    }
}
