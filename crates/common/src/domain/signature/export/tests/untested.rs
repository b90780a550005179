//! The statements about a verdict where nothing was tested, and what a key of a service alone can make of a file.

use super::super::super::envelope::message_of;
use super::super::super::since::is_about_a_verdict;
use super::*;
use serde_json::{Value as Json, json};

/// Two statements for each verdict, as earlier versions signed them.
fn of_earlier_version() -> Story {
    let mut story = story::story_of(RUN, StoryShape::SIGNED[3]);
    for (_, verdict) in &mut story.verdicts {
        let summary = verdict.envelopes(RUN).unwrap().remove(0).payload;
        let test_result = test_result_beside(&summary);
        let (_, signatures) = verdict.signed.as_mut().unwrap();
        signatures.push(key(Service::Gate).sign(&message_of(&test_result)));
    }
    story
}

/// The test result that says what a summary says.
fn test_result_beside(summary: &str) -> String {
    let summary: Json = serde_json::from_str(summary).unwrap();
    let predicate = &summary["predicate"];
    let results = predicate["surety"]["results"].as_array().unwrap();
    let names = |passed: bool| -> Vec<&Json> {
        let has = |result: &&Json| result["passed"].as_bool().unwrap_or_default() == passed;
        results.iter().filter(has).map(|result| &result["name"]).collect()
    };
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "predicate": {
            "configuration": [predicate["policy"]],
            "failedTests": names(false),
            "passedTests": names(true),
            "result": predicate["verificationResult"],
        },
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "subject": summary["subject"],
    });
    statement.to_string()
}

/// A use of a grant that did not succeed and names no person: any service may find it.
fn failed_grant() -> Story {
    let mut story = story(RUN);
    let mut commit = Commit { signature: None, ..story.commits[2].clone() };
    let receipt = commit.receipts[0].as_mut().unwrap();
    (receipt.source, receipt.name) = (EvidenceSource::Approval, "use_grant".to_owned());
    (receipt.success, receipt.facts) = (false, Vec::new());
    let prev = receipt.prev_digest.clone();
    receipt.seal(prev);
    let last = receipt.digest.clone();
    story.commits[2] = signed(Service::Planner, RUN, commit, SignedColumns::default());
    let (_, verdict) = &mut story.verdicts[0];
    verdict.record.last_receipt_digest = last;
    let gate = key(Service::Gate);
    let signatures = SignedVerdict::sign(&gate, RUN, verdict.at, &verdict.record);
    verdict.signed = Some((gate.id(), signatures));
    story
}

/// An entry of a kind that is not known, signed by the planner.
fn unknown_entry() -> Story {
    let mut story = story_of(RUN, StoryShape::SIGNED[2]);
    let entry = &mut story.entries[2];
    entry.line.kind = "decree".to_owned();
    entry.signature = Some(EntrySignature::sign(&key(Service::Planner), RUN, &entry.line, at(5)));
    story
}

/// A run whose rows are all gone, and which counts none.
fn without_rows() -> Story {
    let mut story = story(RUN);
    (story.commits, story.verdicts, story.found.plans) = Default::default();
    let state = "EXECUTING".to_owned();
    story.state =
        StoredState { state, plan_revision: 0, sequence: 0, progress: progress(), history: None };
    story
}

/// The file with other words in a statement about its verdict, signed by the gate.
fn contradicting(file: &str, kind: &str, from: &str, to: &str) -> String {
    let mut lines: Vec<String> = file.lines().map(str::to_owned).collect();
    for line in &mut lines {
        let Ok(envelope) = Envelope::read(&parse_stored(line).unwrap().value) else { continue };
        if !envelope.payload.contains(kind) || !envelope.payload.contains(from) {
            continue;
        }
        let payload = envelope.payload.replacen(from, to, 1);
        let signature = key(Service::Gate).sign(&message_of(&payload));
        *line = Envelope { payload, signature, ..envelope }.to_line();
    }
    let changed = lines.join("\n") + "\n";
    assert_ne!(changed, file, "{from}");
    changed
}

/// Files that hold.
pub(super) fn good() -> [(&'static str, String); 2] {
    [("earlier-untested", of_earlier_version().file()), ("failed-grant", failed_grant().file())]
}

/// Files that do not hold, of which most need the key of a service.
pub(super) fn bad() -> Vec<(String, String)> {
    let (file, mut bad) = (story(RUN).file(), Vec::new());
    for (number, (kind, from, to)) in [
        (
            "verification_summary",
            "\"verificationResult\":\"PASSED\"",
            "\"verificationResult\":\"FAILED\"",
        ),
        ("verification_summary", "SURETY_INDEPENDENT", "SURETY_SELF_CHECKED"),
        ("verification_summary", "urn:surety:plan:", "urn:surety:other:"),
        ("verification_summary", "\"name\":\"workspace\"", "\"name\":\"other\""),
        ("test-result", "\"result\":\"PASSED\"", "\"result\":\"FAILED\""),
        ("test-result", "\"failedTests\":[]", "\"failedTests\":[\"tests\"]"),
    ]
    .into_iter()
    .enumerate()
    {
        bad.push((format!("contradicting-{number}"), contradicting(&file, kind, from, to)));
    }
    bad.push(("unknown-entry".to_owned(), unknown_entry().file()));
    bad.push(("no-rows".to_owned(), without_rows().file()));
    bad
}

#[test]
fn a_verdict_where_nothing_was_tested_has_no_test_result() {
    let untested = story::story_of(RUN, StoryShape::SIGNED[3]);
    let tested = story::story_of(RUN, StoryShape::SIGNED[1]);
    for (story, count) in [(untested, 1), (tested, 2)] {
        for (_, verdict) in &story.verdicts {
            let envelopes = verdict.envelopes(RUN).unwrap();
            assert_eq!(envelopes.len(), count);
            let is_about_tests = |it: &Envelope| it.payload.contains("test-result");
            assert_eq!(envelopes.iter().filter(|it| is_about_tests(it)).count(), count - 1);
        }
    }
}

#[test]
fn the_test_result_that_an_earlier_version_signed_of_every_verdict_still_reads() {
    for (name, file) in good() {
        let report = check_export(&file, Some(&trusted()));
        assert_eq!(report.status, SignatureStatus::Signed, "{name}: {report:#?}");
    }
    let file = of_earlier_version().file();
    assert_eq!(file.lines().filter(|line| is_about_a_verdict(line)).count(), 4);
    let words = "verdict on plan revision 1: it is not what was signed";
    let mut changed = of_earlier_version();
    let (_, signatures) = changed.verdicts[0].1.signed.as_mut().unwrap();
    signatures[1][5] ^= 1;
    assert!(changed.found().contains(words), "{}", changed.found());
    let mut three = of_earlier_version();
    let (_, signatures) = three.verdicts[0].1.signed.as_mut().unwrap();
    signatures.push(signatures[1]);
    assert!(three.found().contains("verdict on plan revision 1"), "{}", three.found());
}

#[test]
fn a_run_without_any_row_is_not_signed() {
    let found = without_rows().found();
    assert!(found.contains("run: it was not signed"), "{found}");
}

#[test]
fn what_the_key_of_a_service_can_make_is_named_too() {
    for (name, file) in bad() {
        let status = check_export(&file, Some(&trusted())).status;
        assert!(matches!(status, SignatureStatus::Broken(_)), "{name}: {status:?}");
    }
}
