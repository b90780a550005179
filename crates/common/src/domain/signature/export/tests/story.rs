//! The rows of runs as they are made and stored: what the tests change.

use super::*;
use data_encoding::HEXLOWER;

pub(super) const RUN: &str = "0199f4d0-0000-7000-8000-000000000001";
pub(super) const OTHER: &str = "0199f4d0-0000-7000-8000-000000000002";

pub(super) fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 123_000).unwrap()
}

pub(super) fn key(service: Service) -> SecretKey {
    let seed = Service::ALL.iter().position(|known| *known == service).unwrap();
    SecretKey::from_seed([u8::try_from(seed + 1).unwrap(); 32]).unwrap()
}

pub(super) fn trusted() -> TrustedKeys {
    let key = |service| TrustedKey {
        service,
        key: key(service).public(),
        valid_from: at(-100),
        valid_until: None,
    };
    TrustedKeys::new(Service::ALL.map(key).to_vec())
}

/// What a run has beside one plan, three receipts and a signed verdict.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StoryShape {
    /// A refused verdict, a second plan revision and a receipt for it.
    pub(super) is_replanned: bool,
    /// A task with three entries.
    pub(super) is_task: bool,
    /// No service has a key.
    pub(super) is_unsigned: bool,
    /// The plan has no checks.
    pub(super) is_untested: bool,
}

impl StoryShape {
    const ONE_PLAN: Self =
        Self { is_replanned: false, is_task: false, is_unsigned: false, is_untested: false };
    /// What is signed: one plan, two plans, a task, and two plans without checks.
    pub(super) const SIGNED: [Self; 4] = [
        Self::ONE_PLAN,
        Self { is_replanned: true, ..Self::ONE_PLAN },
        Self { is_task: true, ..Self::ONE_PLAN },
        Self { is_replanned: true, is_untested: true, ..Self::ONE_PLAN },
    ];
    /// A replanned task without a signature.
    pub(super) const UNSIGNED: Self =
        Self { is_replanned: true, is_task: true, is_unsigned: true, ..Self::ONE_PLAN };
}

/// The rows of one run.
pub(super) struct Story {
    pub(super) run_id: &'static str,
    pub(super) found: FoundColumns,
    pub(super) commits: Vec<Commit>,
    pub(super) verdicts: Vec<(usize, SignedVerdict)>,
    pub(super) entries: Vec<SignedEntry>,
    pub(super) state: StoredState,
}

pub(super) fn receipt(number: u64, prev: &str) -> EvidenceReceipt {
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

pub(super) fn line(sequence: i64, entries: u32, (verdicts, state): (u32, RunState)) -> CommitLine {
    let actor = "executor/1".to_owned();
    let entries_digest = sha256(&[&sequence.to_be_bytes()]);
    let after = SignedState { state: state.into(), progress: progress() };
    let change = Some(StateChange { before: None, after });
    let at = at(sequence);
    CommitLine { sequence, entries, at, actor, entries_digest, verdicts, answers: 0, change }
}

/// Of a run in its first verification round, without todos and grants.
pub(super) fn progress() -> Digest {
    progress_digest(1, ["{}", "[]", "{}"])
}

/// Signs a row beside rows of another run, as in a group commit.
pub(super) fn signed(
    service: Service,
    run_id: &str,
    mut commit: Commit,
    stored: SignedColumns,
) -> Commit {
    let own = RowLeaves::of(run_id, commit.receipts.iter().flatten(), stored, &commit.line);
    let none = SignedColumns::default();
    let other = RowLeaves::of(OTHER, &[], none, &line(9, 1, (0, RunState::Executing)));
    let rows = vec![other.clone(), own, other];
    let mut signatures = RowSignature::sign(&key(service), at(5), rows);
    let signature = signatures.swap_remove(1).unwrap();
    // As the column keeps it.
    commit.signature = Some(RowSignature::from_bytes(&signature.to_bytes()).unwrap());
    commit
}

/// The row, begun from what the last of these rows left.
pub(super) fn behind(rows: &[Commit], mut row: Commit) -> Commit {
    let before = rows.last().and_then(|last| last.line.change).map(|change| change.after);
    row.line.change = row.line.change.map(|change| StateChange { before, ..change });
    row
}

/// The entries of a task: a note, a report by the tool of the runner, and the end.
pub(super) fn entries(run_id: &str) -> Vec<SignedEntry> {
    let mut entries: Vec<SignedEntry> = Vec::new();
    for (number, kind, by) in [
        (1, EntryKind::Note, Service::Planner),
        (2, EntryKind::ActionReport, Service::Executor),
        (3, EntryKind::System, Service::Planner),
    ] {
        let line = EntryLine {
            number,
            at: at(number.into()),
            kind: kind.as_str().to_owned(),
            author: "agent-写".to_owned(),
            body: sha256(&[b"done"]),
            links: links_digest(&["https://forge/1".to_owned()]),
            attachment: String::new(),
            previous: entries.last().map(|last| last.line.digest(run_id)),
        };
        let signature = EntrySignature::sign(&key(by), run_id, &line, at(5));
        entries.push(SignedEntry { line, signature: Some(signature) });
    }
    entries
}

/// Results as the gate makes them: those of its rules, and that of the check; without checks that of the answer.
fn results(accepted: bool, is_untested: bool) -> Vec<CheckResult> {
    let result = |name: &str, passed| CheckResult {
        name: name.to_owned(),
        passed,
        reason: String::new(),
        optional: false,
    };
    let own = if is_untested { "output_only" } else { "tests" };
    vec![
        result("system.todo_failed", true),
        result("system.todo_unconverged", true),
        result(own, accepted),
    ]
}

fn record(
    (accepted, is_untested): (bool, bool),
    plan_revision: u32,
    last: &EvidenceReceipt,
) -> VerdictRecord {
    VerdictRecord {
        plan_revision,
        verdict: Verdict {
            accepted,
            stop_reason: if accepted {
                StopReason::Accepted
            } else {
                StopReason::AcceptCheckFailed
            },
            results: results(accepted, is_untested),
            strength: Strength::Independent,
            round: 1,
            cautions: vec![Caution {
                code: "canary_not_run".to_owned(),
                check: "tests".to_owned(),
                detail: "it took long".to_owned(),
            }],
            workspace_digest: "ab".repeat(32),
            sandbox: "full".to_owned(),
            approvals: Vec::new(),
            repository: None,
        },
        receipts: u32::try_from(last.seq).unwrap(),
        last_receipt_digest: last.digest.clone(),
        plan_digest: format!("plan-digest-{plan_revision}"),
        history: None,
    }
}

fn plan(revision: u32) -> PlanColumns {
    let parent = if revision == 1 { String::new() } else { "plan-digest-1".to_owned() };
    let digest = format!("plan-digest-{revision}");
    PlanColumns::of(revision, ["{\"steps\":[]}", &instant(at(0)), &digest, &parent, "made"])
}

pub(super) fn story(run_id: &'static str) -> Story {
    story_of(run_id, StoryShape::default())
}

pub(super) fn story_of(run_id: &'static str, shape: StoryShape) -> Story {
    let created = instant(at(0));
    let run = RunColumns::of([&created, "script", "", "goal", "{}", "ns", "{}", "", "alice", "/w"]);
    let texts = ["issue_assigned", "account dev", "dev", "gitea", &created, "{}"];
    let task = shape.is_task.then(|| TaskColumns::of(texts));
    let entries = if shape.is_task { entries(run_id) } else { Vec::new() };
    let row = |sequence, entries, receipts: &[&EvidenceReceipt], ends| Commit {
        line: line(sequence, entries, ends),
        receipts: receipts.iter().map(|receipt| Ok((*receipt).clone())).collect(),
        uncounted_answers: 0,
        signature: None,
        unread: None,
    };
    let one = receipt(1, "");
    let two = receipt(2, &one.digest);
    let three = receipt(3, &two.digest);
    let none = SignedColumns::default;
    let first = SignedColumns { run: Some(run.clone()), task: task.clone(), plans: vec![plan(1)] };
    let (at_work, mut commits) = ((0, RunState::Executing), Vec::<Commit>::new());
    let mut found = FoundColumns { run, task, plans: vec![plan(1)] };
    let mut add = |service, made: Commit, columns| {
        let made = behind(&commits, made);
        commits.push(signed(service, run_id, made, columns));
    };
    add(Service::Planner, row(3, 3, &[], at_work), first);
    add(Service::Executor, row(8, 5, &[&one, &two], at_work), none());
    add(Service::Executor, row(10, 2, &[&three], at_work), none());
    let (mut records, mut sequence, mut last) = (Vec::new(), 12, three);
    if shape.is_replanned {
        add(Service::Gate, row(12, 2, &[], (1, RunState::Recovering)), none());
        records.push((3, 12, record((false, shape.is_untested), 1, &last)));
        let second = SignedColumns { plans: vec![plan(2)], ..none() };
        add(Service::Planner, row(14, 2, &[], at_work), second);
        let four = receipt(4, &last.digest);
        add(Service::Executor, row(16, 2, &[&four], at_work), none());
        found.plans.push(plan(2));
        (last, sequence) = (four, 18);
    }
    let revision = u32::try_from(found.plans.len()).unwrap();
    let last_digest = |report: &SignedEntry| HEXLOWER.encode(&report.line.digest(run_id));
    let history = entries.get(1).map(|it| TaskHistory { entries: 2, last_digest: last_digest(it) });
    add(Service::Gate, row(sequence, 2, &[], (1, RunState::Done)), none());
    records.push((
        commits.len() - 1,
        sequence,
        VerdictRecord { history, ..record((true, shape.is_untested), revision, &last) },
    ));
    let gate = key(Service::Gate);
    let verdicts = records.into_iter().map(|(behind, sequence, record)| {
        let signatures = SignedVerdict::sign(&gate, run_id, at(sequence), &record);
        let signed = Some((gate.public().id(), signatures));
        (behind, SignedVerdict { at: at(sequence), record, signed, anchor: None })
    });
    let state = StoredState {
        state: "DONE".to_owned(),
        plan_revision: revision,
        sequence,
        progress: progress(),
        history: None,
    };
    let mut story = Story { run_id, found, verdicts: verdicts.collect(), commits, entries, state };
    if shape.is_unsigned {
        for commit in &mut story.commits {
            commit.signature = None;
            commit.line.change = None;
        }
        story.verdicts.iter_mut().for_each(|(_, verdict)| verdict.signed = None);
        story.entries.iter_mut().for_each(|entry| entry.signature = None);
    }
    story
}

impl Story {
    pub(super) fn file(&self) -> String {
        let mut lines = vec![header_line(self.run_id), stored_line(&self.found)];
        let mut end = ChainEnd::of(self.run_id, &[]);
        for (place, commit) in self.commits.iter().enumerate() {
            lines.extend(commit.to_lines(self.run_id));
            let receipts: Vec<_> = commit.receipts.iter().flatten().cloned().collect();
            end = end.after(&receipts);
            let given = self.verdicts.iter().filter(|(behind, _)| *behind == place);
            lines.extend(given.flat_map(|(_, verdict)| verdict.to_lines(self.run_id)));
        }
        lines.extend(self.entries.iter().flat_map(|entry| entry.to_lines(self.run_id)));
        lines.push(state_line(&self.state));
        lines.push(end.to_line());
        lines.join("\n") + "\n"
    }

    pub(super) fn found(&self) -> String {
        found(&self.file())
    }
}

/// Every finding in a file.
pub(super) fn found(file: &str) -> String {
    let report = check_export(file, Some(&trusted()));
    let findings = report.chain.findings.into_iter();
    findings.map(|found| format!("{}: {}\n", found.seq, found.message)).collect()
}
