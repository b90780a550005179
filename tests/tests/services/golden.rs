//! Exported receipts and their digests, written out: other programs that check a chain must compute
//! the same. The texts and the digests were generated with another language's JSON (keys sorted, no
//! blanks, UTF-8 unescaped) and SHA-256.

use chrono::{DateTime, Utc};
use surety_common::domain::receipt::{Command, EvidenceReceipt, EvidenceSource, Fact};

const FIRST: &str = concat!(
    r#"{"arguments_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","#,
    r#""call_id":"019ab000-0000-7000-8000-000000000001","#,
    r#""facts":[{"after_digest":"1111111111111111111111111111111111111111111111111111111111111111","#,
    r#""before_digest":"0000000000000000000000000000000000000000000000000000000000000000","#,
    r#""fact":"file_written","path":"src/ü.rs"},"#,
    r#"{"argv":["cargo","test","a \"b\""],"exit_code":0,"fact":"command"}],"#,
    r#""finished_at":"2026-01-02T03:04:06.000000Z","name":"run_command","#,
    r#""output_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","#,
    r#""plan_revision":1,"seq":1,"source":"write_receipt","#,
    r#""started_at":"2026-01-02T03:04:05.000006Z","step_id":"build","step_index":0,"#,
    r#""success":true,"summary":"It did\nwhat it was asked."}"#,
);
const FIRST_DIGEST: &str = "0d9295227508874cc1ca32d12cad8cbe7c1b73d9a5cb105aecfd5b348d570cf8";
const SECOND_DIGEST: &str = "69a36dbaa1f35e91f991c4e1190fb1293a8e70bb6be1e1d943a41d9ddec7ce16";

fn at(text: &str) -> Option<DateTime<Utc>> {
    let read = text.parse();
    assert!(read.is_ok(), "{text}");
    read.ok()
}

fn first() -> EvidenceReceipt {
    EvidenceReceipt {
        step_index: 0,
        step_id: "build".to_owned(),
        plan_revision: 1,
        seq: 1,
        call_id: "019ab000-0000-7000-8000-000000000001".to_owned(),
        probe_of: None,
        source: EvidenceSource::WriteReceipt,
        name: "run_command".to_owned(),
        arguments_digest: "a".repeat(64),
        success: true,
        summary: "It did\nwhat it was asked.".to_owned(),
        facts: vec![
            Fact::FileWritten {
                path: "src/ü.rs".to_owned(),
                before_digest: Some("0".repeat(64)),
                after_digest: Some("1".repeat(64)),
            },
            Fact::Command {
                command: Command::Argv(["cargo", "test", "a \"b\""].map(str::to_owned).to_vec()),
                exit_code: 0,
                conditions: None,
            },
        ],
        output_digest: "b".repeat(64),
        sandbox: String::new(),
        started_at: at("2026-01-02T03:04:05.000006Z"),
        finished_at: at("2026-01-02T03:04:06Z"),
        prev_digest: String::new(),
        digest: String::new(),
    }
}

/// Of the run as a whole, with nothing that can be left out, and every other kind of fact.
fn second() -> EvidenceReceipt {
    let (text, none) = (str::to_owned, String::new);
    EvidenceReceipt {
        step_index: 3,
        step_id: none(),
        plan_revision: 2,
        seq: 2,
        call_id: text("019ab000-0000-7000-8000-000000000002"),
        probe_of: None,
        source: EvidenceSource::Probe,
        name: text("observe"),
        arguments_digest: none(),
        success: false,
        summary: none(),
        facts: vec![
            Fact::FileObserved { path: text("src/ü.rs"), exists: true },
            Fact::Content { path: text("a"), contains: text("x"), found: false },
            Fact::Command {
                command: Command::Line(text("make test")),
                exit_code: -1,
                conditions: None,
            },
            Fact::Verification { tool: text("t"), scope: none(), passed: false },
            Fact::Output { key: text("k"), value: none() },
        ],
        output_digest: none(),
        sandbox: String::new(),
        started_at: None,
        finished_at: None,
        prev_digest: none(),
        digest: none(),
    }
}

#[test]
fn a_receipt_has_the_text_and_the_digest_that_others_compute() {
    let mut receipt = first();
    assert_eq!(receipt.to_text(), FIRST);
    receipt.seal("");
    assert_eq!(receipt.digest, FIRST_DIGEST);
}

#[test]
fn a_chain_of_two_has_the_digests_that_others_compute() {
    let mut receipts = [first(), second()];
    let mut last = String::new();
    for receipt in &mut receipts {
        receipt.seal(last.as_str());
        last.clone_from(&receipt.digest);
    }
    assert_eq!(receipts.map(|receipt| receipt.digest), [FIRST_DIGEST, SECOND_DIGEST]);
}
