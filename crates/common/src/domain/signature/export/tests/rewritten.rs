//! Each way to rewrite rows, and each signature of a service that may not make it, is named.

use super::*;

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
        ("run.policy", |story| story.found.run.0[6] = [1; 32], "run.policy: it is not what"),
        ("run.workspace", |story| story.found.run.0[9] = [1; 32], "run.workspace: it is not what"),
        (
            "plan.body",
            |story| story.found.plans[0].columns[0] = [1; 32],
            "plan.body of revision 1: it is not",
        ),
        (
            "plan.digest",
            |story| story.found.plans[0].columns[2] = [1; 32],
            "plan.digest of revision 1: it is not",
        ),
        (
            "plan row added",
            |story| story.found.plans[0].revision = 2,
            "plan revision 2: it was not signed",
        ),
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
                after.state = RunState::Verifying.into();
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
fn each_way_to_rewrite_a_task_is_named() {
    let rows: [Row; 15] = [
        ("action_type", |story| task(story).0[0] = [1; 32], "task.action_type: it is not what"),
        ("addressee", |story| task(story).0[1] = [1; 32], "task.addressee: it is not what"),
        ("assignee", |story| task(story).0[2] = [1; 32], "task.assignee: it is not what"),
        ("forge", |story| task(story).0[3] = [1; 32], "task.forge: it is not what"),
        ("happened_at", |story| task(story).0[4] = [1; 32], "task.happened_at: it is not what"),
        ("payload", |story| task(story).0[5] = [1; 32], "task.payload: it is not what"),
        ("task deleted", |story| story.found.task = None, "task: its row is missing"),
        ("entry.at", |story| story.entries[1].line.at = at(9), "task entry 2: it is not what"),
        (
            "entry.author",
            |story| story.entries[1].line.author.push('x'),
            "task entry 2: it is not what",
        ),
        (
            "entry.body",
            |story| story.entries[0].line.body = [1; 32],
            "task entry 2: it does not follow the entry before it",
        ),
        (
            "entry deleted",
            |story| drop(story.entries.remove(0)),
            "task entry 2: it does not follow",
        ),
        ("tail deleted", |story| story.entries.truncate(1), "rests on 2 entries of the task"),
        ("entries swapped", |story| story.entries.swap(0, 1), "task entry 2: it does not follow"),
        (
            "entry of another run",
            |story| story.entries[1] = entries(OTHER).remove(1),
            "task entry 2: it does not follow",
        ),
        (
            "signature stripped",
            |story| story.entries[2].signature = None,
            "task entry 3: it has no signature, and the run has one",
        ),
    ];
    for (what, change, words) in rows {
        let mut story = told(RUN, Told { is_task: true, ..Told::default() });
        change(&mut story);
        let found = story.found();
        assert!(found.contains(words), "{what}: {found}");
    }
    // A task beside a run that is none, and entries of such a run.
    let mut added = story(RUN);
    added.found.task = told(RUN, Told { is_task: true, ..Told::default() }).found.task;
    assert!(added.found().contains("task: it was not signed with the run"), "{}", added.found());
}

fn task(story: &mut Story) -> &mut TaskColumns {
    story.found.task.as_mut().unwrap()
}

#[test]
fn only_the_planner_signs_entries_beside_reports() {
    for (kind, service, is_refused) in [
        (EntryKind::ActionReport, Service::Planner, false),
        (EntryKind::ActionReport, Service::Executor, false),
        (EntryKind::ActionReport, Service::Gate, true),
        (EntryKind::Assignment, Service::Planner, false),
        (EntryKind::Assignment, Service::Executor, true),
        (EntryKind::System, Service::Executor, true),
        (EntryKind::Note, Service::Gate, true),
    ] {
        let mut story = told(RUN, Told { is_task: true, ..Told::default() });
        let entry = &mut story.entries[2];
        entry.line.kind = kind.as_str().to_owned();
        entry.signature = Some(EntrySignature::sign(&key(service), RUN, &entry.line, at(5)));
        let found = story.found();
        assert_eq!(
            found.contains("which may not sign it"),
            is_refused,
            "{kind} {service}: {found}"
        );
    }
}

#[test]
fn a_service_signs_only_what_it_may_write() {
    let mut forged = story(RUN);
    let commit = Commit { signature: None, ..forged.commits[1].clone() };
    forged.commits[1] = signed(Service::Planner, RUN, commit, SignedColumns::default());
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
    story.commits[2] = signed(service, RUN, commit, SignedColumns::default());
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
