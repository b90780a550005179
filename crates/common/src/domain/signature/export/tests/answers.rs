//! Journal rows with answers of persons, which only the planner signs: also in an export, and also where the row was signed
//! before rows counted them.

use super::story::behind;
use super::*;

const OWNER: &str = "which may not sign it";

/// A story with a row of one answer before the verdict, without a receipt. A row of an earlier version does not count it.
fn answered(service: Service, is_counted: bool) -> String {
    let mut story = story(RUN);
    let gate = story.commits.pop().unwrap();
    let row = Commit {
        line: CommitLine {
            answers: u32::from(is_counted),
            ..story::line(11, 1, (0, RunState::Executing))
        },
        receipts: Vec::new(),
        uncounted_answers: u32::from(!is_counted),
        signature: None,
        unread: None,
    };
    let row = behind(&story.commits, row);
    story.commits.push(signed(service, RUN, row, SignedColumns::default()));
    let mut last = Commit { signature: None, ..gate };
    last.line.entries = 1;
    story.commits.push(signed(Service::Gate, RUN, last, SignedColumns::default()));
    story.verdicts[0].0 += 1;
    story.file()
}

/// The file with so many uncounted answers in a proof, the first for 0.
fn with_answers(file: &str, place: usize, answers: u32) -> String {
    let proof = "{\"proof\":{";
    let (at, _) = file.match_indices(proof).nth(place).unwrap();
    let (head, rest) = file.split_at(at + proof.len());
    format!("{head}\"answers\":{answers},{rest}")
}

pub(super) fn of_form_5(file: &str) -> String {
    let changed = file.replacen("surety receipts 6", "surety receipts 5", 1);
    assert_ne!(changed, file);
    changed
}

pub(super) fn good() -> [(&'static str, String); 3] {
    [
        ("answers", answered(Service::Planner, true)),
        ("answers-of-an-earlier-version", answered(Service::Planner, false)),
        ("form-5", of_form_5(&story(RUN).file())),
    ]
}

pub(super) fn bad() -> Vec<(&'static str, &'static str, String)> {
    let form = "its answers are not in the canonical form";
    let line = "it is not in the canonical form";
    let counted = answered(Service::Planner, true);
    let place = 3;
    vec![
        ("answers-by-the-executor", OWNER, answered(Service::Executor, true)),
        ("earlier-answers-by-the-executor", OWNER, answered(Service::Executor, false)),
        ("answers-by-the-gate", OWNER, answered(Service::Gate, true)),
        ("answers-in-form-5", form, of_form_5(&counted)),
        ("earlier-answers-in-form-5", form, of_form_5(&answered(Service::Planner, false))),
        ("answers-twice", form, with_answers(&counted, place, 1)),
        ("answers-of-none", line, with_answers(&counted, place, 0)),
        ("answers-elsewhere", OWNER, with_answers(&counted, 1, 1)),
        ("answers-left-out", "is not what was signed", counted.replacen("\"answers\":1,", "", 1)),
        ("another-form", "", counted.replacen("surety receipts 6", "surety receipts 7", 1)),
    ]
}

#[test]
fn answers_of_persons_are_signed_by_the_planner_also_in_an_export() {
    for (name, file) in good() {
        let report = check_export(&file, Some(&trusted()));
        assert_eq!(report.status, SignatureStatus::Signed, "{name}: {report:#?}");
    }
    for (name, words, file) in bad() {
        let found = found(&file);
        assert!(found.contains(words) && !found.is_empty(), "{name}: {found}");
    }
}

#[test]
fn the_column_of_a_row_with_answers_has_a_form_of_its_own() {
    for answers in [0, 2] {
        let mut line = story::line(3, 3, (0, RunState::Executing));
        line.answers = answers;
        let row = RowLeaves::of(RUN, &[], SignedColumns::default(), &line);
        let signature = RowSignature::sign(&key(Service::Planner), at(5), vec![row]).remove(0);
        let mut bytes = signature.as_ref().unwrap().to_bytes();
        assert_eq!(bytes[0], if answers > 0 { 6 } else { 5 });
        assert_eq!(RowSignature::from_bytes(&bytes), signature);
        assert_eq!(RowSignature::of_row(&bytes, answers), signature);
        // A row without answers has one form, so that no second one of it goes unnoticed.
        bytes[0] = 6;
        assert_eq!(RowSignature::of_row(&bytes, 0), None);
    }
}
