use super::super::commit::instant;
use super::super::row::RowLeaves;
use super::super::{SecretKey, Service, TrustedKey};
use super::super::{SignedState, VerdictAnchor, progress_digest};
use super::*;
use crate::domain::journal::VerdictRecord;
use crate::domain::json::sha256;
use crate::domain::receipt::{EvidenceSource, Fact};
use crate::domain::stop::StopReason;
use crate::domain::timestamp::read_response;
use crate::domain::verdict::{Caution, CheckResult, Strength, Verdict};
use chrono::{TimeDelta, Utc};

mod since;

const RUN: &str = "0199f4d0-0000-7000-8000-000000000001";
/// A time stamp of OpenSSL over another digest than that of any story.
const SAMPLE: &[u8] = include_bytes!("../../timestamp/samples/p256.tsr");
const OTHER: &str = "0199f4d0-0000-7000-8000-000000000002";

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 123_000).unwrap()
}

fn key(service: Service) -> SecretKey {
    let seed = Service::ALL.iter().position(|known| *known == service).unwrap();
    SecretKey::from_seed([u8::try_from(seed + 1).unwrap(); 32]).unwrap()
}

fn trusted() -> TrustedKeys {
    let key = |service| TrustedKey {
        service,
        key: key(service).public(),
        valid_from: at(-100),
        valid_until: None,
    };
    TrustedKeys::new(Service::ALL.map(key).to_vec())
}

/// The rows of one run as they are made and stored.
struct Story {
    run_id: &'static str,
    run: RunColumns,
    plan: PlanColumns,
    commits: Vec<Commit>,
    verdicts: Vec<(usize, SignedVerdict)>,
    state: StoredState,
}

fn receipt(number: u64, prev: &str) -> EvidenceReceipt {
    let mut receipt = EvidenceReceipt {
        step_index: 0,
        step_id: "写 \u{8}\u{7f}\"\\".to_owned(),
        plan_revision: 1,
        seq: number,
        call_id: format!("call-{number}"),
        probe_of: None,
        source: EvidenceSource::WriteReceipt,
        name: "write_file".to_owned(),
        arguments_digest: String::new(),
        success: true,
        summary: format!(" wrote {number}\n"),
        facts: vec![Fact::Output { key: "n".to_owned(), value: number.to_string() }],
        output_digest: String::new(),
        sandbox: "full".to_owned(),
        started_at: Some(at(1)),
        finished_at: None,
        prev_digest: String::new(),
        digest: String::new(),
    };
    receipt.seal(prev);
    receipt
}

fn line(sequence: i64, entries: u32, verdicts: u32) -> CommitLine {
    let actor = "executor/1".to_owned();
    let entries_digest = sha256(&[&sequence.to_be_bytes()]);
    let state = if verdicts > 0 { "DONE" } else { "EXECUTING" };
    let after = Some(SignedState { state, progress: progress() });
    CommitLine { sequence, entries, at: at(sequence), actor, entries_digest, verdicts, after }
}

/// Of a run in its first verification round, without todos and grants.
fn progress() -> Digest {
    progress_digest(1, ["{}", "[]", "{}"])
}

/// Signs a row beside rows of another run, as in a group commit.
fn signed(
    service: Service,
    run_id: &str,
    mut commit: Commit,
    stored: (Option<RunColumns>, Vec<PlanColumns>),
) -> Commit {
    let own = RowLeaves::of(run_id, commit.receipts.iter().flatten(), stored, &commit.line);
    let other = RowLeaves::of(OTHER, &[], (None, Vec::new()), &line(9, 1, 0));
    let rows = vec![other.clone(), own, other];
    let mut signatures = RowSignature::sign(&key(service), at(5), rows);
    let signature = signatures.swap_remove(1).unwrap();
    // As the column keeps it.
    commit.signature = Some(RowSignature::from_bytes(&signature.to_bytes()).unwrap());
    commit
}

fn story(run_id: &'static str) -> Story {
    let created = instant(at(0));
    let run = RunColumns::of([&created, "script", "", "goal", "{}", "ns", "{}", "", "alice", "/w"]);
    let plan = PlanColumns::of(1, ["{\"steps\":[]}", &created, "plan-digest", "", "created"]);
    let row = |sequence, entries, receipts: &[EvidenceReceipt], verdicts| Commit {
        line: line(sequence, entries, verdicts),
        receipts: receipts.iter().cloned().map(Ok).collect(),
        signature: None,
    };
    let one = receipt(1, "");
    let two = receipt(2, &one.digest);
    let three = receipt(3, &two.digest);
    let none = || (None, Vec::new());
    let commits = vec![
        signed(
            Service::Planner,
            run_id,
            row(3, 3, &[], 0),
            (Some(run.clone()), vec![plan.clone()]),
        ),
        signed(Service::Executor, run_id, row(8, 5, &[one, two], 0), none()),
        signed(Service::Executor, run_id, row(10, 2, std::slice::from_ref(&three), 0), none()),
        signed(Service::Gate, run_id, row(12, 2, &[], 1), none()),
    ];
    let record = VerdictRecord {
        plan_revision: 1,
        verdict: Verdict {
            accepted: true,
            stop_reason: StopReason::Accepted,
            results: vec![CheckResult {
                name: "tests".to_owned(),
                passed: true,
                reason: String::new(),
                optional: false,
            }],
            strength: Strength::Independent,
            round: 1,
            cautions: vec![Caution {
                code: "canary_not_run".to_owned(),
                check: "tests".to_owned(),
                detail: "it took long".to_owned(),
            }],
            workspace_digest: "ab".repeat(32),
            approvals: Vec::new(),
            repository: None,
        },
        receipts: 3,
        last_receipt_digest: three.digest,
        plan_digest: "plan-digest".to_owned(),
    };
    let gate = key(Service::Gate);
    let signatures = SignedVerdict::sign(&gate, run_id, at(12), &record);
    let verdict = SignedVerdict {
        at: at(12),
        record,
        signed: Some((gate.public().id(), signatures)),
        anchor: None,
    };
    let state = StoredState {
        state: "DONE".to_owned(),
        plan_revision: 1,
        sequence: 12,
        progress: progress(),
    };
    Story { run_id, run, plan, commits, verdicts: vec![(3, verdict)], state }
}

impl Story {
    fn file(&self) -> String {
        let mut lines = vec![
            header_line(self.run_id),
            stored_line(&self.run, std::slice::from_ref(&self.plan)),
        ];
        let mut end = ChainEnd::of(self.run_id, &[]);
        for (place, commit) in self.commits.iter().enumerate() {
            lines.extend(commit.to_lines(self.run_id));
            let receipts: Vec<_> = commit.receipts.iter().flatten().cloned().collect();
            end = end.after(&receipts);
            let given = self.verdicts.iter().filter(|(behind, _)| *behind == place);
            lines.extend(given.flat_map(|(_, verdict)| verdict.to_lines(self.run_id)));
        }
        lines.push(state_line(&self.state));
        lines.push(end.to_line());
        lines.join("\n") + "\n"
    }

    fn found(&self) -> String {
        found(&self.file())
    }
}

fn found(file: &str) -> String {
    let report = check_export(file, Some(&trusted()));
    let findings = report.chain.findings.into_iter();
    findings.map(|found| format!("{}: {}\n", found.seq, found.message)).collect()
}

#[test]
fn what_was_stored_as_it_was_signed_is_signed() {
    let file = story(RUN).file();
    let report = check_export(&file, Some(&trusted()));
    assert_eq!(report.status, SignatureStatus::Signed, "{report:#?}");
    assert_eq!((report.chain.receipt_count, report.signed_receipt_count), (3, 3));
    let unchecked = check_export(&file, None);
    assert!(unchecked.chain.is_whole(), "{unchecked:#?}");
    assert!(matches!(unchecked.status, SignatureStatus::Unsigned(_)));
    if let Some(path) = std::env::var_os("SURETY_TEST_EXPORT") {
        std::fs::write(path, file).unwrap();
    }
}

/// The column, or what was done, the change, and words of a finding.
type Row = (&'static str, fn(&mut Story), &'static str);

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn each_way_to_rewrite_rows_is_named() {
    fn other() -> Story {
        story(OTHER)
    }
    fn reseal(story: &mut Story, from: usize) {
        let mut prev = String::new();
        for commit in &mut story.commits[..from] {
            for receipt in commit.receipts.iter_mut().flatten() {
                receipt.seal(prev.as_str());
                prev.clone_from(&receipt.digest);
            }
        }
    }
    let rows: [Row; 24] = [
        ("run.policy", |story| story.run.0[6] = [1; 32], "run.policy: it is not what"),
        ("run.workspace", |story| story.run.0[9] = [1; 32], "run.workspace: it is not what"),
        (
            "plan.body",
            |story| story.plan.columns[0] = [1; 32],
            "plan.body of revision 1: it is not",
        ),
        (
            "plan.digest",
            |story| story.plan.columns[2] = [1; 32],
            "plan.digest of revision 1: it is not",
        ),
        ("plan row added", |story| story.plan.revision = 2, "plan revision 2: it was not signed"),
        (
            "journal.entries",
            |story| story.commits[1].line.entries_digest = [1; 32],
            "journal row 8 with receipts 1 to 2: it is not",
        ),
        (
            "journal.actor",
            |story| story.commits[2].line.actor.push('x'),
            "journal row 10 with receipt 3: it is not",
        ),
        ("journal.at", |story| story.commits[2].line.at += TimeDelta::seconds(1), "journal row 10"),
        ("journal.sequence", |story| story.commits[2].line.sequence = 11, "journal row 11"),
        (
            "a receipt, its chain sealed again",
            |story| {
                story.commits[1].receipts[0].as_mut().unwrap().success = false;
                reseal(story, 3);
            },
            "journal row 8 with receipts 1 to 2: it is not",
        ),
        (
            "a receipt",
            |story| story.commits[1].receipts[1].as_mut().unwrap().success = false,
            "2: its digest is not",
        ),
        ("row deleted", |story| drop(story.commits.remove(1)), "rows are missing"),
        (
            "row added",
            |story| {
                let row = story.commits[1].clone();
                story.commits.insert(2, row);
            },
            "rows are missing, added or moved",
        ),
        (
            "row of another run",
            |story| story.commits[2] = other().commits.remove(2),
            "journal row 10 with receipt 3: it is not",
        ),
        (
            "receipt of another run",
            |story| {
                story.commits[2].receipts[0].as_mut().unwrap().summary = "other".to_owned();
                story.commits[2].receipts[0].as_mut().unwrap().seal("0");
            },
            "3: its previous digest",
        ),
        (
            "signature stripped",
            |story| story.commits[2].signature = None,
            "it has no signature, and row 3",
        ),
        (
            "verdict.accepted",
            |story| story.verdicts[0].1.record.verdict.accepted = false,
            "verdict on plan revision 1: it is not what",
        ),
        (
            "verdict.decided_at",
            |story| story.verdicts[0].1.at = at(1),
            "verdict on plan revision 1: it is not",
        ),
        (
            "verdict deleted",
            |story| story.verdicts.clear(),
            "is missing from the table of verdicts",
        ),
        (
            "execution.state",
            |story| story.state.state = "FAILED".to_owned(),
            "execution.state: it is FAILED",
        ),
        (
            "execution.plan_revision",
            |story| story.state.plan_revision = 2,
            "execution.plan_revision: it is 2",
        ),
        (
            "execution.progress, a todo added",
            |story| story.state.progress = progress_digest(1, ["{\"added\":[]}", "[]", "{}"]),
            "execution.progress: its todos",
        ),
        (
            "state of a row",
            |story| {
                let after = story.commits[2].line.after.as_mut().unwrap();
                after.state = "VERIFYING";
                story.commits[2].signature.as_mut().unwrap().after = *after;
            },
            "journal row 10 with receipt 3: it is not",
        ),
        (
            "an anchor of something else",
            |story| {
                let proof = RangeProof { leaf_count: 1, first: 0, nodes: Vec::new() };
                let token = read_response(SAMPLE, &[7; 32], [1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
                let token = token.der().to_vec();
                story.verdicts[0].1.anchor = Some(VerdictAnchor { proof, token });
            },
            "the anchor of the verdict on plan revision 1: its time stamp is about something else",
        ),
    ];
    for (what, change, words) in rows {
        let mut story = story(RUN);
        change(&mut story);
        let found = story.found();
        assert!(found.contains(words), "{what}: {found}");
    }
}

#[test]
fn a_service_signs_only_what_it_may_write() {
    let none = || (None, Vec::new());
    let mut forged = story(RUN);
    let commit = Commit { signature: None, ..forged.commits[1].clone() };
    forged.commits[1] = signed(Service::Planner, RUN, commit, none());
    assert!(forged.found().contains("of the planner, which may not sign it"), "{}", forged.found());

    let mut forged = story(RUN);
    let executor = key(Service::Executor);
    let (_, verdict) = &mut forged.verdicts[0];
    let signatures = SignedVerdict::sign(&executor, RUN, verdict.at, &verdict.record);
    verdict.signed = Some((executor.public().id(), signatures));
    assert!(
        forged.found().contains("of the executor, which may not sign it"),
        "{}",
        forged.found()
    );
}

/// A row with one receipt of this kind after the two first ones, signed by a service.
fn found_for(service: Service, source: EvidenceSource, name: &str, by: Option<&str>) -> String {
    let mut story = story(RUN);
    let mut commit = Commit { signature: None, ..story.commits[2].clone() };
    let told = commit.receipts[0].as_mut().unwrap();
    let by = by.map(|by| Fact::Output { key: "by".to_owned(), value: by.to_owned() });
    told.success = by.is_some();
    told.facts = by.into_iter().collect();
    (told.source, told.name) = (source, name.to_owned());
    let prev = told.prev_digest.clone();
    told.seal(prev);
    story.commits[2] = signed(service, RUN, commit, (None, Vec::new()));
    story.found()
}

#[test]
fn what_a_person_says_is_signed_by_the_planner_only() {
    use EvidenceSource::{Approval, UserReply};
    let refused = "which may not sign it";
    for (source, name) in [
        (Approval, "confirm_call"),
        (Approval, "approve_plan"),
        (Approval, "accept_changes"),
        (UserReply, "ask_user"),
    ] {
        let found = |service| found_for(service, source, name, Some("alice"));
        assert!(!found(Service::Planner).contains(refused), "{name}");
        assert!(found(Service::Executor).contains(refused), "{name}");
        assert!(found(Service::Gate).contains(refused), "{name}");
    }
    // What the executor records: a use of a grant, and a person's word about its own call.
    for (source, name) in [(Approval, "use_grant"), (UserReply, "write_file")] {
        let found = |service| found_for(service, source, name, Some("alice"));
        assert!(!found(Service::Executor).contains(refused), "{name}");
        assert!(found(Service::Planner).contains(refused), "{name}");
    }
    // That time has passed, any service finds.
    for service in [Service::Planner, Service::Executor, Service::Gate] {
        let found = found_for(service, EvidenceSource::Approval, "confirm_call", None);
        assert!(!found.contains(refused), "{found}");
    }
}

/// Changes of each class of bytes in each line, so that no part of a file is without protection.
#[test]
fn two_hundred_mutations_of_a_file_are_all_named() {
    let file = story(RUN).file();
    let bytes = file.as_bytes();
    let mut mutations = 0;
    let step = bytes.len() / 230;
    for place in (0..bytes.len()).step_by(step) {
        let byte = bytes[place];
        let changed = match byte {
            b'0'..=b'8' | b'a'..=b'y' | b'A'..=b'Y' => byte + 1,
            b'9' => b'0',
            b'z' | b'Z' => byte - 1,
            b'\n' => b' ',
            _ => b'x',
        };
        let mut mutated = bytes.to_vec();
        mutated[place] = changed;
        check(&mutated, place);
        mutated = bytes.to_vec();
        mutated.remove(place);
        check(&mutated, place);
        mutations += 2;
    }
    for (place, _) in file.match_indices([',', ':', '{', '\n']).step_by(9) {
        for blank in [" ", "\t", "\n", "\r"] {
            let mut mutated = file.clone();
            mutated.insert_str(place, blank);
            check(mutated.as_bytes(), place);
            mutations += 1;
        }
    }
    assert!(mutations > 400, "{mutations}");
}

fn check(mutated: &[u8], place: usize) {
    let Ok(text) = std::str::from_utf8(mutated) else { return };
    let report = check_export(text, Some(&trusted()));
    let around = &text[text.floor_char_boundary(place.saturating_sub(30))..];
    let around: String = around.chars().take(60).collect();
    assert!(
        matches!(report.status, SignatureStatus::Broken(_)),
        "at {place}: {around}: {report:#?}"
    );
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

/// The file with another text in its first payload.
fn with_payload(file: &str, from: &str, to: &str) -> String {
    let line = file.lines().find(|line| line.starts_with("{\"payload\"")).unwrap();
    let value = parse_stored(line).unwrap().value;
    let envelope = Envelope::read(&value).unwrap();
    let changed = Envelope { payload: envelope.payload.replace(from, to), ..envelope };
    file.replace(line, &changed.to_line())
}

#[test]
fn verifiers_that_others_wrote_agree_on_good_and_changed_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| {
        std::fs::write(folder.path().join("files").join(name), text).unwrap()
    };
    std::fs::create_dir(folder.path().join("files")).unwrap();
    let keys = folder.path().join("keys.json");
    std::fs::write(&keys, trusted().to_text()).unwrap();
    let file = story(RUN).file();
    write("good-whole", file.as_bytes());
    let bytes = file.as_bytes();
    for (number, place) in (0..bytes.len()).step_by(bytes.len() / 100).enumerate() {
        let mut changed = bytes.to_vec();
        changed[place] = if bytes[place] == b'0' { b'1' } else { b'0' };
        if std::str::from_utf8(&changed).is_ok() {
            write(&format!("bad-byte-{number}"), &changed);
        }
    }
    for (number, (place, _)) in file.match_indices([',', '\n']).step_by(7).enumerate() {
        let mut changed = file.clone();
        changed.insert(place, ' ');
        write(&format!("bad-blank-{number}"), changed.as_bytes());
    }
    for count in [1, 3, 9, file.lines().count() - 1] {
        let cut: String = file.lines().take(count).map(|line| format!("{line}\n")).collect();
        write(&format!("bad-cut-{count}"), cut.as_bytes());
    }
    for (number, line) in file.lines().enumerate().skip(2) {
        let without = file.replacen(&format!("{line}\n"), "", 1);
        write(&format!("bad-without-{number}"), without.as_bytes());
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/attestations.sh");
    let ran = std::process::Command::new(script)
        .arg(folder.path().join("files"))
        .arg(&keys)
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    match ran.status.code() {
        Some(0) => println!("{said}"),
        Some(77) => eprintln!("{said}"),
        code => panic!("{code:?}: {said}"),
    }
}
