//! What was taken earlier names a rollback.

use super::super::super::since::{is_about_a_verdict, missing_since, verdicts_end_line};
use super::answers::{self, of_form_5};
use super::mutate::mutate;
use super::*;

/// The state before the last rows, whole in itself.
fn rolled_back() -> String {
    let mut cut = story(RUN);
    cut.commits.truncate(2);
    cut.verdicts.clear();
    let state = "EXECUTING".to_owned();
    cut.state =
        StoredState { state, plan_revision: 1, sequence: 8, progress: progress(), history: None };
    let file = cut.file();
    assert_eq!(check_export(&file, Some(&trusted())).status, SignatureStatus::Signed);
    file
}

#[test]
fn a_rolled_back_file_is_named_against_an_earlier_one() {
    let later = story(RUN).file();
    assert_eq!(missing_since(&later, &later, None), Ok(Vec::new()));
    let found = missing_since(&rolled_back(), &later, None).unwrap().join("\n");
    assert!(found.contains("receipt 3 (line") && found.contains("journal row 10"), "{found}");
}

#[test]
fn an_earlier_export_that_is_cut_or_changed_says_so() {
    let later = story(RUN).file();
    let lines = later.lines().count();
    for count in 1..lines {
        let cut: String = later.lines().take(count).map(|line| format!("{line}\n")).collect();
        let said = missing_since(&later, &cut, None).unwrap_err();
        assert!(said.contains("it was cut"), "{count} lines: {said}");
    }
    let changed = later.replacen("\"seq\":2", "\"seq\":", 1);
    let said = missing_since(&later, &changed, None).unwrap_err();
    assert!(said.contains("is not JSON"), "{said}");
    for file in [&later, &of_form_5(&later)] {
        let changed = file.replacen("\"seq\":2", "\"seq\": 2", 1);
        assert_ne!(&changed, file);
        let said = missing_since(&later, &changed, None).unwrap_err();
        assert!(said.contains("is not in the canonical form, so it was changed"), "{said}");
    }
}

#[test]
fn an_earlier_export_without_answers_is_compared_whole() {
    let [_, (_, later), _] = answers::good();
    let without = |file: &str| {
        let changed = file.replacen("\"answers\":1,", "", 1);
        assert_ne!(changed, file);
        changed
    };
    let earlier = of_form_5(&without(&later));
    assert_eq!(missing_since(&later, &earlier, None), Ok(Vec::new()));
    // Rows of which no receipt tells.
    let found = missing_since(&rolled_back(), &earlier, None).unwrap().join("\n");
    assert!(found.contains("journal row 11") && found.contains("journal row 12"), "{found}");
    // Without signatures the row itself counts its answers in the form of today only.
    let unsigned = story_of(RUN, StoryShape::UNSIGNED).file();
    let later = unsigned.replacen("\"at\":", "\"answers\":1,\"at\":", 2);
    let row = later.lines().find(|line| line.contains("\"answers\":1")).unwrap();
    assert!(row.starts_with("{\"commit\""), "{row}");
    let earlier = of_form_5(&unsigned);
    assert_eq!(missing_since(&later, &earlier, None), Ok(Vec::new()));
    let cut = later.replacen(&format!("{row}\n"), "", 1);
    let found = missing_since(&cut, &earlier, None).unwrap().join("\n");
    assert!(found.starts_with("journal row 3 "), "{found}");
}

#[test]
fn an_earlier_export_of_another_form_is_compared_by_its_receipts_and_verdicts() {
    let later = story(RUN).file();
    // A version without `before` in its rows.
    let of_form =
        later.replace("surety receipts 6", "surety receipts 4").replace("\"before\":", "\"was\":");
    assert_ne!(of_form, later);
    assert_eq!(missing_since(&later, &of_form, None), Ok(Vec::new()));
    let found = missing_since(&rolled_back(), &of_form, None).unwrap();
    assert_eq!(found.len(), 3, "a receipt, a summary and a test result: {found:#?}");
}

#[test]
fn a_rolled_back_file_is_named_against_the_verdicts_of_the_run() {
    let later = story(RUN).file();
    let verdicts: Vec<&str> = later.lines().filter(|line| is_about_a_verdict(line)).collect();
    assert_eq!(verdicts.len(), 2, "a summary and a test result");
    let end = |count| verdicts_end_line(RUN, count) + "\n";
    let verdicts = verdicts.join("\n") + "\n" + &end(2);
    let keys = trusted();
    for cut in (0..3).map(|kept| verdicts.lines().take(kept).collect::<Vec<_>>().join("\n") + "\n")
    {
        let said = missing_since(&later, &cut, Some(&keys)).unwrap_err();
        let words = if cut.len() > 1 { "it was cut" } else { "neither a signed export" };
        assert!(said.contains(words), "{said}");
    }
    let none = missing_since(&later, &end(0), Some(&keys)).unwrap_err();
    assert!(none.contains("it has no verdict of the run"), "{none}");
    assert_eq!(missing_since(&later, &verdicts, Some(&keys)), Ok(Vec::new()));
    let found = missing_since(&rolled_back(), &verdicts, Some(&keys)).unwrap().join("\n");
    assert!(found.contains("on 3 receipts (line 1"), "{found}");
    // A changed file is no rollback of the run.
    let count = mutate(&verdicts, |changed, place| {
        let said = missing_since(&later, changed, Some(&keys));
        assert!(said.is_err(), "at {place}: {said:?}");
    });
    assert!(count > 60, "{count}");
    let blank = verdicts.replacen("\"payload\":", "\"payload\": ", 1);
    let said = missing_since(&later, &blank, Some(&keys)).unwrap_err();
    assert_eq!(said, "line 1: it is not in the canonical form");

    let of_other = story(OTHER).file().replace(RUN, OTHER);
    for (later, since, words) in [
        (later.as_str(), with_payload(&verdicts, "PASSED", "FAILED"), "not what was signed"),
        (&of_other, verdicts.clone(), "about another run"),
        (&of_other, later.clone(), "an export of the run"),
        (&later, "{\"form\":\"surety verdict 1\"}".to_owned(), "surety verify --still"),
        (&later, String::new(), "neither a signed export"),
        ("{}", verdicts, "the later file is no signed export"),
    ] {
        let said = missing_since(later, &since, Some(&keys)).unwrap_err();
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn evidence_that_lacks_what_there_was_earlier_is_broken() {
    let mut report = check_export(&story(RUN).file(), Some(&trusted()));
    assert_eq!(report.status, SignatureStatus::Signed);
    for missing in ["a row is missing", "a verdict is missing"] {
        report.find(missing.to_owned());
    }
    assert_eq!(report.status, SignatureStatus::Broken("a row is missing".to_owned()));
    assert_eq!(report.chain.findings.len(), 2);
    assert!(!report.chain.is_whole());
}
