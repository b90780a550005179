//! Checks a run's rows in their order: that none is missing, that receipts chain, and that each was signed by the
//! service that may write it.

use super::Digest;
use super::anchor::{AnchoredVerdict, VerdictAnchor};
use super::columns::{FoundColumns, PlanColumns, RunColumns, TaskColumns};
use super::commit::{CommitLine, Row};
use super::entry::SignedEntry;
use super::envelope::message_of;
use super::history::HistoryCheck;
use super::key::SIGNATURE_BYTES;
use super::progress::{SignedState, StateChange};
use super::report::{EvidenceReport, StoredState, status};
use super::row::RowSignature;
use super::signers::signers;
use super::summary::SignedVerdict;
use super::trust::{Service, TrustedKeys};
use crate::domain::journal::{JournaledSteps, TaskHistory};
use crate::domain::machine::run::RunState;
use crate::domain::receipt::{ChainFinding, ChainReport, EvidenceReceipt, Place};
use crate::domain::step::StepState;
use data_encoding::HEXLOWER;
use std::collections::{BTreeMap, BTreeSet};

/// Checks a run's rows in their order.
#[derive(Debug)]
pub struct Verifier<'k> {
    keys: Option<&'k TrustedKeys>,
    run_id: String,
    report: ChainReport,
    place: Place,
    sequence: i64,
    signed_receipt_count: u64,
    /// The first row without a signature, and whether a later one has one.
    unsigned: Option<String>,
    first_signed: Option<i64>,
    found_run: RunColumns,
    found_task: Option<TaskColumns>,
    found_plans: BTreeMap<u32, [Digest; 5]>,
    signed_plans: BTreeMap<u32, String>,
    has_run: bool,
    /// The verdicts that the last rows announced and that have not come yet.
    awaited: u32,
    verdict: Option<(bool, u32)>,
    /// The first signature of the last verdict, and whether an anchor of it came.
    anchored: (Option<[u8; SIGNATURE_BYTES]>, bool),
    anchors: Vec<AnchoredVerdict>,
    /// The number of the last row and what it says of the run's mutable row, where it was signed.
    after: Option<(i64, SignedState)>,
    history: HistoryCheck,
}

impl<'k> Verifier<'k> {
    /// A check of the run with these columns in its rows.
    pub fn new(
        keys: Option<&'k TrustedKeys>,
        run_id: impl Into<String>,
        found: FoundColumns,
    ) -> Self {
        let FoundColumns { run: found_run, task: found_task, plans } = found;
        let mut verifier = Self {
            keys,
            run_id: run_id.into(),
            report: ChainReport::default(),
            place: Place::default(),
            sequence: 0,
            signed_receipt_count: 0,
            unsigned: None,
            first_signed: None,
            found_run,
            found_task,
            found_plans: BTreeMap::new(),
            signed_plans: BTreeMap::new(),
            has_run: false,
            awaited: 0,
            verdict: None,
            anchored: (None, false),
            anchors: Vec::new(),
            after: None,
            history: HistoryCheck::default(),
        };
        for PlanColumns { revision, columns } in plans {
            if verifier.found_plans.insert(revision, columns).is_some() {
                verifier.find(0, format!("plan revision {revision}: it is stored twice"));
            }
        }
        verifier
    }

    /// Records a fault that the caller found.
    pub fn find(&mut self, seq: u64, message: impl Into<String>) {
        self.report.findings.push(ChainFinding { seq, message: message.into() });
    }

    /// The next journal row.
    pub fn commit(&mut self, commit: &Row<'_>) {
        self.verdicts_have_come();
        let line = commit.line;
        let before = line.sequence.saturating_sub(line.entries.into());
        if before != self.sequence {
            let (expected, sequence) = (self.sequence, line.sequence);
            self.find(0, format!("journal row {sequence}: it follows event {before}, and event {expected} is the last before it; rows are missing, added or moved"));
        }
        if self.history.has_entries() {
            let sequence = line.sequence;
            self.find(
                0,
                format!("journal row {sequence}: it stands behind the entries of the task"),
            );
        }
        self.began_from(line);
        self.sequence = line.sequence;
        self.awaited = line.verdicts;
        self.after = line.change.map(|change| (line.sequence, change.after));
        commit.receipts.iter().for_each(|receipt| self.receipt(receipt));
        match (commit.signature, commit.unread.map(RowSignature::other_form)) {
            (Some(_), _) => self.signed(commit),
            (None, Some(None)) => {
                let sequence = line.sequence;
                self.find(0, format!("journal row {sequence}: its signature is in no known form"));
            }
            (None, Some(Some((form, is_later)))) => {
                let version = if is_later { "a later" } else { "an earlier" };
                let what = format!(
                    "a signature of form {form}, which {version} version wrote and this one does not check"
                );
                self.unsigned(line.sequence, &what);
            }
            (None, None) => self.unsigned(line.sequence, "no signature"),
        }
    }

    /// Compares the state that a row began from with the one that the row before left: a service signs what it makes of a
    /// rewritten row of the run as of any other.
    fn began_from(&mut self, line: &CommitLine) {
        let Some(StateChange { before, .. }) = line.change else { return };
        let sequence = line.sequence;
        match (before, self.after) {
            (Some(before), Some((row, after))) if before != after => {
                let changed = if before.progress == after.progress {
                    "execution.state"
                } else {
                    "execution.progress"
                };
                self.find(0, format!("{changed}: journal row {sequence} began from another one than was signed with journal row {row}; it was rewritten between them"));
            }
            (Some(_), None) if self.sequence == 0 => {
                self.find(
                    0,
                    format!(
                        "journal row {sequence}: it is the first, and began from an earlier one"
                    ),
                );
            }
            (None, _) if self.sequence > 0 => {
                self.find(0, format!("journal row {sequence}: it began as the first, and is not"));
            }
            (Some(_) | None, _) => {}
        }
    }

    fn receipt(&mut self, receipt: &Result<&EvidenceReceipt, &str>) {
        self.report.receipt_count += 1;
        match receipt {
            Ok(receipt) => {
                for kind in self.place.breaks(receipt).into_iter().flatten() {
                    self.find(receipt.seq, kind.to_string());
                }
                self.report.chain_digest.clone_from(&receipt.digest);
                self.place.follow(receipt);
            }
            Err(reason) => {
                self.find(self.place.expected(), *reason);
                self.report.chain_digest.clear();
                self.place.skip();
            }
        }
    }

    fn unsigned(&mut self, sequence: i64, has: &str) {
        match self.first_signed {
            Some(first) if self.keys.is_some() => self.find(
                0,
                format!("journal row {sequence}: it has {has}, and row {first} before it has one"),
            ),
            Some(_) | None => {
                self.unsigned.get_or_insert_with(|| format!("journal row {sequence} has {has}"));
            }
        }
    }

    fn signed(&mut self, commit: &Row<'_>) {
        let Some(keys) = self.keys else { return };
        let Some(signature) = commit.signature else { return };
        let sequence = commit.line.sequence;
        self.first_signed.get_or_insert(sequence);
        let leaves = commit.leaves_in(&self.run_id);
        let named = format!("journal row {sequence}{}", numbers(commit));
        let Some(root) = signature.proof.root(&leaves) else {
            return self.find(0, format!("{named}: its inclusion proof does not fit it"));
        };
        let checked = keys.check_root(
            (signature.key_id, &signature.signature),
            signers(commit),
            (&root, signature.proof.leaf_count, signature.signed_at),
        );
        match checked {
            Ok(()) => {
                let receipts = u64::try_from(commit.receipts.len()).unwrap_or(u64::MAX);
                self.signed_receipt_count = self.signed_receipt_count.saturating_add(receipts);
            }
            Err(why) => self.find(0, format!("{named}: {why}")),
        }
        let columns = &signature.columns;
        columns.run.iter().for_each(|run| self.run_columns(run, columns.task.as_ref()));
        columns.plans.iter().for_each(|plan| self.plan_columns(plan));
    }

    fn run_columns(&mut self, signed: &RunColumns, task: Option<&TaskColumns>) {
        if std::mem::replace(&mut self.has_run, true) {
            self.find(0, "run: it was signed twice");
        }
        let found = self.found_run.clone();
        for ((name, found), signed) in RunColumns::NAMES.iter().zip(found.0).zip(signed.0) {
            if found != signed {
                self.find(0, format!("run.{name}: it is not what the planner signed"));
            }
        }
        match (self.found_task.clone(), task) {
            (Some(found), Some(signed)) => {
                for ((name, found), signed) in TaskColumns::NAMES.iter().zip(found.0).zip(signed.0)
                {
                    if found != signed {
                        self.find(0, format!("task.{name}: it is not what the planner signed"));
                    }
                }
            }
            (None, Some(_)) => self.find(0, "task: its row is missing"),
            (Some(_), None) => self.find(0, "task: it was not signed with the run"),
            (None, None) => {}
        }
    }

    /// The next entry in the history of the run's task, behind all journal rows.
    pub fn entry(&mut self, entry: &SignedEntry) {
        self.verdicts_have_come();
        let SignedEntry { line, signature } = entry;
        let named = format!("task entry {}", line.number);
        if !self.history.follows(&self.run_id, line) {
            self.find(0, format!("{named}: it does not follow the entry before it; entries are missing, added or changed"));
        }
        let Some(keys) = self.keys else { return };
        match signature {
            Some(signature) => {
                let key = (signature.key_id, &signature.signature);
                let root = line.digest(&self.run_id);
                let checked = keys.check_root(key, line.signers(), (&root, 1, signature.signed_at));
                checked.unwrap_or_else(|why| self.find(0, format!("{named}: {why}")));
            }
            None if self.has_run => {
                self.find(0, format!("{named}: it has no signature, and the run has one"));
            }
            None => {
                self.unsigned.get_or_insert_with(|| format!("{named} has no signature"));
            }
        }
    }

    fn plan_columns(&mut self, signed: &PlanColumns) {
        let revision = signed.revision;
        if self.signed_plans.contains_key(&revision) {
            self.find(0, format!("plan revision {revision}: it was signed twice"));
        }
        let digest =
            signed.columns.get(2).map(|digest| HEXLOWER.encode(digest)).unwrap_or_default();
        self.signed_plans.insert(revision, digest);
        let Some(found) = self.found_plans.get(&revision).copied() else {
            return self.find(0, format!("plan revision {revision}: its row is missing"));
        };
        for ((name, found), signed) in PlanColumns::NAMES.iter().zip(found).zip(signed.columns) {
            if found != signed {
                self.find(
                    0,
                    format!(
                        "plan.{name} of revision {revision}: it is not what the planner signed"
                    ),
                );
            }
        }
    }

    /// The next verdict, behind the row that announced it.
    pub fn verdict(&mut self, verdict: &SignedVerdict) {
        let SignedVerdict { at, record, signed, anchor } = verdict;
        let revision = record.plan_revision;
        let named = format!("verdict on plan revision {revision}");
        match self.awaited.checked_sub(1) {
            Some(left) => self.awaited = left,
            None => self.find(0, format!("{named}: no journal row announces it")),
        }
        let expected = u64::from(record.receipts);
        if self.place.expected() != expected + 1
            || self.report.chain_digest != record.last_receipt_digest
        {
            self.find(
                0,
                format!("{named}: it rests on {expected} receipts, and other ones are before it"),
            );
        }
        if let Some(keys) = self.keys {
            let digest =
                HEXLOWER.encode(&crate::domain::json::sha256(&[record.plan_digest.as_bytes()]));
            match self.signed_plans.get(&revision) {
                Some(signed) if *signed != digest => {
                    self.find(
                        0,
                        format!("{named}: it is about another plan than the planner signed"),
                    );
                }
                None if self.first_signed.is_some() && self.has_run => {
                    self.find(0, format!("{named}: no plan of this revision was signed"));
                }
                Some(_) | None => {}
            }
            match (verdict.envelopes(&self.run_id), signed) {
                (Some(envelopes), _) => {
                    for envelope in envelopes {
                        let signature = (envelope.key_id, &envelope.signature);
                        let message = message_of(&envelope.payload);
                        if let Err(why) = keys.check(signature, &[Service::Gate], *at, &message) {
                            self.find(0, format!("{named}: {why}"));
                        }
                    }
                }
                (None, Some(_)) => self.find(
                    0,
                    format!("{named}: it has another number of signatures than statements"),
                ),
                (None, None) if self.first_signed.is_some() => {
                    self.find(0, format!("{named}: it has no signature"));
                }
                (None, None) => {
                    self.unsigned.get_or_insert_with(|| format!("the {named} has no signature"));
                }
            }
        }
        self.history.named_by(revision, record.history.as_ref());
        self.verdict = Some((record.verdict.accepted, revision));
        let first = signed.as_ref().and_then(|(_, signatures)| signatures.first().copied());
        self.anchored = (first, false);
        anchor.iter().for_each(|anchor| self.anchor(anchor));
    }

    /// The anchor of the last verdict.
    pub fn anchor(&mut self, anchor: &VerdictAnchor) {
        let plan_revision = self.verdict.map(|(_, revision)| revision).unwrap_or_default();
        let named = format!("the anchor of the verdict on plan revision {plan_revision}");
        let (signature, is_second) = self.anchored;
        self.anchored.1 = true;
        let Some(signature) = signature.filter(|_| !is_second) else {
            return self.find(0, format!("{named}: no signed verdict is before it"));
        };
        let authority = self.keys.and_then(TrustedKeys::time_authority);
        match anchor.check(&self.run_id, &signature, authority) {
            Ok(at) => {
                let is_checked = authority.is_some();
                self.anchors.push(AnchoredVerdict { plan_revision, at, is_checked });
            }
            Err(why) => self.find(0, format!("{named}: {why}")),
        }
    }

    fn verdicts_have_come(&mut self) {
        if std::mem::take(&mut self.awaited) > 0 {
            let sequence = self.sequence;
            self.find(0, format!("journal row {sequence}: the verdict that it announces is missing from the table of verdicts"));
        }
    }

    /// Compares the steps of the run's mutable row with the transitions in its journal, which its rows sign.
    pub fn steps<'s>(
        &mut self,
        stored: impl IntoIterator<Item = (&'s str, StepState)>,
        journaled: &JournaledSteps,
    ) {
        if self.keys.is_none() {
            return;
        }
        for (id, state) in stored {
            if !journaled.agree(id, state) {
                self.find(
                    0,
                    format!(
                        "execution.step_states: the step {id:?} is {}, and no journal row says so",
                        state.as_str()
                    ),
                );
            }
        }
    }

    /// The number of receipts so far.
    pub const fn receipt_count(&self) -> u64 {
        self.report.receipt_count
    }

    /// Compares the chain with its expected end.
    pub(super) fn ends_with(&mut self, receipt_count: u64, chain_digest: &str) {
        let report = std::mem::take(&mut self.report);
        self.report = report.ending(receipt_count, chain_digest);
    }

    /// What was found so far.
    pub(super) fn report(self) -> EvidenceReport {
        let Self { report: chain, keys, unsigned, signed_receipt_count, anchors, .. } = self;
        let status = status(&chain, keys, unsigned);
        EvidenceReport { chain, signed_receipt_count, status, anchors }
    }

    /// Compares the run's mutable row with what was found, and ends the check.
    pub fn finish(
        mut self,
        state: &StoredState,
        (receipt_count, chain_digest): (u64, &str),
    ) -> EvidenceReport {
        self.verdicts_have_come();
        for (revision, entries) in self.history.unlike() {
            self.find(0, format!("verdict on plan revision {revision}: it rests on {entries} entries of the task, and other ones are stored"));
        }
        let StoredState { state, plan_revision, sequence, progress, history } = state;
        if let Some(TaskHistory { entries, .. }) =
            history.as_ref().filter(|it| !self.history.has(it))
        {
            self.find(
                0,
                format!(
                    "task: its report was taken with {entries} entries, and other ones are stored"
                ),
            );
        }
        if let Some((row, after)) = self.after {
            if after.progress != *progress {
                self.find(0, format!("execution.progress: its todos, its grants, its questions, its steps, its verification round, its snapshot of the start, its verdict, its answer or its end are not what was signed with journal row {row}"));
            }
            if after.state.as_str() != state {
                let signed = after.state.as_str();
                self.find(0, format!("execution.state: it is {state}, and {signed} was signed with journal row {row}"));
            }
        }
        if *sequence != self.sequence {
            let last = self.sequence;
            self.find(0, format!("execution.sequence: it is {sequence}, and the last journal row ends with event {last}"));
        }
        let accepted = self.verdict.is_some_and(|(accepted, _)| accepted);
        let is_done = state == RunState::Done.as_str();
        if !RunState::ALL.iter().any(|known| known.as_str() == state) {
            self.find(0, format!("execution.state: {state:?} is no state"));
        } else if is_done != accepted {
            self.find(
                0,
                format!(
                    "execution.state: it is {state}, and the last verdict {}",
                    if accepted { "accepts" } else { "does not accept" }
                ),
            );
        }
        if self.verdict.is_some_and(|(accepted, of)| accepted && of != *plan_revision) {
            self.find(0, format!("execution.plan_revision: it is {plan_revision}, and the verdict is about another"));
        }
        if self.has_run {
            let signed: BTreeSet<u32> = self.signed_plans.keys().copied().collect();
            let added: Vec<u32> =
                self.found_plans.keys().filter(|found| !signed.contains(found)).copied().collect();
            for revision in added {
                self.find(0, format!("plan revision {revision}: it was not signed"));
            }
            let last = signed.last().copied().unwrap_or_default();
            if last != *plan_revision {
                self.find(0, format!("execution.plan_revision: it is {plan_revision}, and the last plan that was signed is {last}"));
            }
        } else if self.keys.is_some() && self.unsigned.is_none() {
            self.find(0, "run: it was not signed");
        }
        self.ends_with(receipt_count, chain_digest);
        self.report()
    }
}

/// The receipts of a row, in words.
fn numbers(commit: &Row<'_>) -> String {
    let mut numbers = commit.receipts.iter().flatten().map(|receipt| receipt.seq);
    match (numbers.next(), numbers.next_back()) {
        (None, _) => String::new(),
        (Some(only), None) => format!(" with receipt {only}"),
        (Some(first), Some(last)) => format!(" with receipts {first} to {last}"),
    }
}
