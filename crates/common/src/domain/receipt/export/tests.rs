use super::*;
use crate::domain::receipt::{EvidenceSource, Fact};

const RUN: &str = "0199f4d0-0000-7000-8000-000000000001";

fn chain(length: u32) -> Vec<EvidenceReceipt> {
    let mut prev_digest = String::new();
    (1..=length)
        .map(|number| {
            let mut receipt = EvidenceReceipt {
                step_index: 0,
                step_id: "写".to_owned(),
                plan_revision: 1,
                seq: number.into(),
                call_id: format!("call-{number}"),
                probe_of: None,
                source: EvidenceSource::WriteReceipt,
                name: "write_file".to_owned(),
                arguments_digest: String::new(),
                success: true,
                // Blanks at the edges are part of the sealed text.
                summary: format!(" wrote {number}\n"),
                facts: vec![Fact::Output { key: "n".to_owned(), value: number.to_string() }],
                output_digest: String::new(),
                sandbox: String::new(),
                started_at: None,
                finished_at: None,
                prev_digest: String::new(),
                digest: String::new(),
            };
            receipt.seal(prev_digest.as_str());
            prev_digest.clone_from(&receipt.digest);
            receipt
        })
        .collect()
}

fn lines(receipts: &[EvidenceReceipt]) -> Vec<String> {
    let mut lines: Vec<String> = receipts.iter().map(EvidenceReceipt::to_text).collect();
    lines.push(ChainEnd::of(RUN, receipts).to_line());
    lines
}

fn findings(lines: &[String]) -> Vec<(u64, String)> {
    let report = check_plain(&lines.join("\n"));
    report.findings.into_iter().map(|finding| (finding.seq, finding.message)).collect()
}

#[test]
fn an_untouched_export_holds_and_names_its_end() {
    for length in [0, 1, 5] {
        let receipts = chain(length);
        let report = check_plain(&(lines(&receipts).join("\n") + "\n"));
        assert!(report.is_whole(), "{report:?}");
        assert_eq!(report.receipt_count, u64::from(length));
        let last = receipts.last().map_or("", |last| last.digest.as_str());
        assert_eq!(report.chain_digest, last);
    }
}

type Change = fn(&mut Vec<String>);
/// The name and function of a change, and the expected findings: the receipt and part of the
/// message.
type Row = (&'static str, Change, &'static [(u64, &'static str)]);

const ROWS: [Row; 8] = [
    (
        "a text changed",
        |lines| lines[1] = lines[1].replace("wrote 2", "wrote 9"),
        &[(2, "its digest is not")],
    ),
    (
        "a receipt dropped",
        |lines| drop(lines.remove(1)),
        &[(3, "receipt 2 is expected here"), (3, "its previous digest"), (0, "4 receipts")],
    ),
    (
        "the tail dropped",
        |lines| drop(lines.remove(3)),
        &[(0, "4 receipts are expected, and 3 are"), (0, "the last receipt")],
    ),
    (
        "two swapped",
        |lines| lines.swap(1, 2),
        &[
            (3, "receipt 2 is expected"),
            (3, "its previous digest"),
            (2, "receipt 4 is expected"),
            (2, "its previous digest"),
            (4, "receipt 3 is expected"),
            (4, "its previous digest"),
        ],
    ),
    ("the end dropped", |lines| drop(lines.pop()), &[(0, "is missing")]),
    ("a line cut", |lines| lines[2].truncate(20), &[(3, "the line is not JSON")]),
    (
        "an envelope",
        |lines| lines[0] = r#"{"payloadType":"x"}"#.to_owned(),
        &[(1, "signed envelope")],
    ),
    (
        "more lines after the end",
        |lines| lines.push(lines[0].clone()),
        &[
            (1, "receipt 5 is expected"),
            (1, "its previous digest"),
            (0, "4 receipts"),
            (0, "the last receipt"),
            (0, "after the chain's end"),
        ],
    ),
];

#[test]
fn each_change_of_an_export_is_found_at_its_receipt() {
    for (what, change, expected) in ROWS {
        let mut lines = lines(&chain(4));
        change(&mut lines);
        let found = findings(&lines);
        let fits = found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|((seq, message), (at, words))| seq == at && message.contains(words));
        assert!(fits, "{what}: {found:#?}");
    }
}

#[test]
fn no_text_makes_the_reader_panic() {
    let odd =
        ["", "\n\n", "[]", "{}", "null", r#"{"chain_end":{}}"#, r#"{"chain_end":7}"#, "\u{0}"];
    for text in odd {
        assert!(!check_plain(text).is_whole(), "{text:?}");
    }
}
