//! Each way to rewrite rows, and each signature of a service that may not make it, is named.

use super::story::line;
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
    let rows: [Row; 27] = [
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
            "plan row of the same revision, before the one that was signed",
            |story| {
                let mut foreign = story.found.plans[0].clone();
                foreign.columns[0] = [1; 32];
                story.found.plans.insert(0, foreign);
            },
            "plan revision 1: it is stored twice",
        ),
        (
            "plan rows in another order",
            |story| {
                let plan = story.found.plans[0].clone();
                story.found.plans.insert(0, PlanColumns { revision: 2, ..plan });
            },
            "line 2: its plans are not in the order",
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
                let change = story.commits[2].line.change.as_mut().unwrap();
                change.after.state = RunState::Verifying.into();
                story.commits[2].signature.as_mut().unwrap().change = *change;
            },
            "journal row 10 with receipt 3: it is not",
        ),
        (
            "state before a row",
            |story| {
                let change = story.commits[2].line.change.as_mut().unwrap();
                change.before.as_mut().unwrap().progress = [1; 32];
                story.commits[2].signature.as_mut().unwrap().change = *change;
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
        let mut story = story_of(RUN, StoryShape { is_task: true, ..StoryShape::default() });
        change(&mut story);
        let found = story.found();
        assert!(found.contains(words), "{what}: {found}");
    }
    // A task beside a run that is none, and entries of such a run.
    let mut added = story(RUN);
    added.found.task =
        story_of(RUN, StoryShape { is_task: true, ..StoryShape::default() }).found.task;
    assert!(added.found().contains("task: it was not signed with the run"), "{}", added.found());
}

fn task(story: &mut Story) -> &mut TaskColumns {
    story.found.task.as_mut().unwrap()
}

/// The findings where the third row was signed from this state, and the fourth from what it left.
fn found_from(before: Option<SignedState>, after: Option<SignedState>) -> String {
    let mut story = story(RUN);
    let mut commit = Commit { signature: None, ..story.commits[2].clone() };
    let change = commit.line.change.as_mut().unwrap();
    change.before = before;
    change.after = after.unwrap_or(change.after);
    story.commits[2] = signed(Service::Executor, RUN, commit, SignedColumns::default());
    story.found()
}

#[test]
fn a_row_that_went_on_from_a_rewritten_run_is_named_although_its_service_signed_it() {
    let state = |state: RunState, progress| Some(SignedState { state: state.into(), progress });
    let executing = |progress| state(RunState::Executing, progress);
    assert_eq!(found_from(executing(progress()), None), "");
    let todo_added = progress_digest(1, ["{\"added\":[]}", "[]", "{}"]);
    for (before, after, words) in [
        (executing(todo_added), None, "execution.progress: journal row 10 began from another one"),
        (
            executing(progress_digest(0, ["{}", "[]", "{}"])),
            None,
            "execution.progress: journal row 10 began from another one",
        ),
        (
            state(RunState::Verifying, progress()),
            None,
            "execution.state: journal row 10 began from another one",
        ),
        (
            executing(progress()),
            executing(todo_added),
            "execution.progress: journal row 12 began from another one",
        ),
        (None, None, "journal row 10: it began as the first, and is not"),
    ] {
        let found = found_from(before, after);
        assert!(found.contains(words), "{words}: {found}");
        assert_eq!(found.lines().count(), 1, "{words}: {found}");
    }
    let mut first = story(RUN);
    let mut commit = Commit { signature: None, ..first.commits[0].clone() };
    commit.line.change.as_mut().unwrap().before = executing(progress());
    let columns = first.commits[0].signature.as_ref().unwrap().columns.clone();
    first.commits[0] = signed(Service::Planner, RUN, commit, columns);
    assert!(first.found().contains("journal row 3: it is the first"), "{}", first.found());
}

#[test]
fn a_signature_has_one_form_in_its_column_for_each_state_that_a_row_began_from() {
    let new = progress_digest(0, ["{}", "[]", "{}"]);
    let at_work = |progress| SignedState { state: RunState::Executing.into(), progress };
    for (before, after, more) in [
        (None, new, 0),
        (None, progress(), 32),
        (Some(new), new, 0),
        (Some(progress()), progress(), 32),
        (Some(new), progress(), 32),
        (Some(progress()), new, 32),
        (Some([7; 32]), progress(), 64),
    ] {
        let change = StateChange { before: before.map(at_work), after: at_work(after) };
        let mut line = line(3, 3, (0, RunState::Executing));
        line.change = Some(change);
        let row = RowLeaves::of(RUN, &[], SignedColumns::default(), &line);
        let signature = RowSignature::sign(&key(Service::Executor), at(5), vec![row]).remove(0);
        let bytes = signature.as_ref().unwrap().to_bytes();
        assert_eq!(bytes.len(), 100 + more, "{before:?}");
        assert_eq!(RowSignature::from_bytes(&bytes), signature, "{before:?}");
        // The same with other flags, or with a digest that the flags say without it, is no form.
        for bit in 0..8 {
            let mut other = bytes.clone();
            other[98] ^= 1 << bit;
            assert_ne!(RowSignature::from_bytes(&other), signature, "{before:?}, bit {bit}");
            other.splice(100..100, new);
            assert_ne!(RowSignature::from_bytes(&other), signature, "{before:?}, bit {bit}");
        }
    }
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
        let mut story = story_of(RUN, StoryShape { is_task: true, ..StoryShape::default() });
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
    let shape = commit.receipts[0].as_mut().unwrap();
    let by = by.map(|by| Fact::Output { key: "by".to_owned(), value: by.to_owned() });
    shape.success = by.is_some();
    shape.facts = by.into_iter().collect();
    (shape.source, shape.name) = (source, name.to_owned());
    let prev = shape.prev_digest.clone();
    shape.seal(prev);
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
    // A fact beside the words of a person would count as an observation of the runner's.
    let observing = |by: Option<&str>| {
        let mut story = story(RUN);
        let mut commit = Commit { signature: None, ..story.commits[2].clone() };
        let shape = commit.receipts[0].as_mut().unwrap();
        (shape.source, shape.name) = (Approval, "confirm_call".to_owned());
        let by = by.map(|by| Fact::Output { key: "by".to_owned(), value: by.to_owned() });
        shape.success = by.is_some();
        let seen = Fact::FileObserved { path: "a".to_owned(), exists: true };
        shape.facts = by.into_iter().chain([seen]).collect();
        let prev = shape.prev_digest.clone();
        shape.seal(prev);
        story.commits[2] = signed(Service::Planner, RUN, commit, SignedColumns::default());
        story.found()
    };
    assert!(observing(Some("alice")).contains(refused), "{}", observing(Some("alice")));
    assert!(observing(None).contains(refused), "{}", observing(None));
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
