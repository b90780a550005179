use super::super::envelope::instant;
use super::super::merkle::Digest;
use super::super::row::RowLeaves;
use super::super::{SecretKey, Service, TrustedKey};
use super::super::{SignedState, StateChange, VerdictAnchor, links_digest, progress_digest};
use super::*;
use crate::domain::journal::{TaskHistory, VerdictRecord};
use crate::domain::json::sha256;
use crate::domain::machine::run::RunState;
use crate::domain::receipt::{EvidenceSource, Fact};
use crate::domain::stop::StopReason;
use crate::domain::timestamp::read_response;
use crate::domain::toolchain::EntryKind;
use crate::domain::verdict::{Caution, CheckResult, Strength, Verdict};
use chrono::{TimeDelta, Utc};
use story::{
    OTHER, RUN, Story, StoryShape, at, entries, found, key, progress, signed, story, story_of,
    trusted,
};

mod answers;
mod mutate;
mod mutations;
mod other;
mod rewritten;
mod since;
mod story;
mod untested;

/// A time stamp of OpenSSL over another digest than that of any story.
const SAMPLE: &[u8] = include_bytes!("../../timestamp/samples/p256.tsr");

#[test]
fn what_was_stored_as_it_was_signed_is_signed() {
    let file = story(RUN).file();
    for (shape, receipts) in StoryShape::SIGNED.into_iter().zip([3, 4, 3, 4]) {
        let report = check_export(&story::story_of(RUN, shape).file(), Some(&trusted()));
        assert_eq!(report.status, SignatureStatus::Signed, "{shape:?}: {report:#?}");
        let counts = (report.chain.receipt_count, report.signed_receipt_count);
        assert_eq!(counts, (receipts, receipts), "{shape:?}");
    }
    let without = story_of(RUN, StoryShape::UNSIGNED).file();
    let report = check_export(&without, Some(&trusted()));
    assert!(matches!(report.status, SignatureStatus::Unsigned(_)), "{report:#?}");
    let unchecked = check_export(&file, None);
    assert!(unchecked.chain.is_whole(), "{unchecked:#?}");
    assert!(matches!(unchecked.status, SignatureStatus::Unsigned(_)));
    if let Some(path) = std::env::var_os("SURETY_TEST_EXPORT") {
        std::fs::write(path, file).unwrap();
    }
}

#[test]
fn bad_files_are_named_and_none_panics() {
    let file = story(RUN).file();
    for (what, bad, words) in [
        ("cut in a row", file.lines().take(6).collect::<Vec<_>>().join("\n") + "\n", "is cut"),
        (
            "without its end",
            file.replace("{\"chain_end\"", "{\"chain_gone\""),
            "chain's end, is missing",
        ),
        ("unknown predicate", with_payload(&file, "receipts-root", "receipts-boot"), "is unknown"),
        (
            "no payload",
            file.replacen("{\"payload\":\"", "{\"payload\":\"\",\"p\":\"", 1),
            "has no payload",
        ),
        ("empty", String::new(), "is missing"),
    ] {
        let found = found(&bad);
        assert!(found.contains(words), "{what}: {found}");
    }
    let foreign = check_export(&file, Some(&TrustedKeys::default()));
    let SignatureStatus::Broken(place) = foreign.status else { panic!("{foreign:#?}") };
    assert!(place.contains("which is not trusted"), "{place}");
    for length in (0..file.len()).step_by(97) {
        let Some(cut) = file.get(..length) else { continue };
        assert_ne!(check_export(cut, Some(&trusted())).status, SignatureStatus::Signed);
    }
}

#[test]
fn of_a_cut_file_only_the_cut_is_named() {
    let file = story(RUN).file();
    let lines: Vec<&str> = file.lines().collect();
    for kept in 2..lines.len() {
        let cut = lines.iter().take(kept).fold(String::new(), |text, line| text + line + "\n");
        for keys in [None, Some(&trusted())] {
            let report = check_export(&cut, keys);
            let said = report.chain.findings.iter().map(|found| found.message.as_str());
            let said: Vec<_> = said.filter(|said| !said.ends_with("begins here is cut")).collect();
            let missing = "the last line, which states the chain's end, is missing";
            assert_eq!(said, [missing], "{kept} lines");
        }
    }
    let state = lines.iter().find(|line| line.starts_with("{\"state\"")).unwrap();
    let found = found(&file.replace(&format!("{state}\n"), ""));
    assert_eq!(found, "0: the line with the run's state is missing\n");
}

/// The file with another text in its first payload.
fn with_payload(file: &str, from: &str, to: &str) -> String {
    let line = file.lines().find(|line| line.starts_with("{\"payload\"")).unwrap();
    let value = parse_stored(line).unwrap().value;
    let envelope = Envelope::read(&value).unwrap();
    let changed = Envelope { payload: envelope.payload.replace(from, to), ..envelope };
    file.replace(line, &changed.to_line())
}
