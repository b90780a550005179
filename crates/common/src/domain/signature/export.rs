//! A run's evidence as a file, one canonical line of JSON each, and the check of such a file.
//!
//! ```text
//!   {"export":{"form":...,"run_id":...}}
//!   {"stored":{"plans":[...],"run":{...}}}          digests of the columns as the database has them; "task":{...} of a task
//!   of each journal row:
//!     {"payload":...}                               the signed root; absent for a row without a signature
//!     {"proof":{"first":...,"nodes":[...]}}         null for a row without a signature, {"column":...} where it does not read
//!     {...receipt...} {"run":...} {"task":...} {"plan":...}   the leaves
//!     {"commit":{...}}                              the last leaf
//!     {"payload":...}                               the statements about its verdict, or {"verdict":...} unsigned
//!     {"anchor":{...}}                              the verdict's anchor, where it has one
//!   of each entry in the history of the run's task:
//!     {"payload":...} {"proof":...} {"entry":{...}} a tree whose only leaf is the entry
//!   {"state":{...}}
//!   {"chain_end":{...}}
//! ```

mod parts;

use self::parts::{Proof, Root, read_proof, read_root, read_state};
use super::anchor::VerdictAnchor;
use super::columns::{FoundColumns, PlanColumns, RunColumns, SignedColumns, TaskColumns};
use super::commit::{Commit, CommitLine};
use super::entry::{EntryLine, EntrySignature, SignedEntry};
use super::envelope::{Envelope, instant, line_with, number, object, text};
use super::merkle::RangeProof;
use super::report::{EvidenceReport, SignatureStatus, StoredState};
use super::row::{ROOT, RowSignature};
use super::summary::{SUMMARY, SignedVerdict, TEST_RESULT, is_tested};
use super::trust::TrustedKeys;
use super::verifier::Verifier;
use crate::domain::journal::{read_verdict_text, verdict_text};
use crate::domain::json::{ObjectText, Value, parse_stored, write_list};
use crate::domain::receipt::{ChainEnd, EvidenceReceipt, check_plain, read_stored};
use chrono::DateTime;
use data_encoding::HEXLOWER;

/// Names the form of the file; another form has another name.
const FORM: &str = "surety receipts 6";
/// The form before: it does not say which rows have answers of persons.
const WITHOUT_ANSWERS: &str = "surety receipts 5";

/// The first line of an export.
pub fn header_line(run_id: &str) -> String {
    header_of(FORM, run_id)
}

fn header_of(form: &str, run_id: &str) -> String {
    let header = object([("form", text(form)), ("run_id", text(run_id))]);
    object([("export", header)]).to_canonical()
}

/// The second line of an export: the columns as they are stored.
pub fn stored_line(found: &FoundColumns) -> String {
    let FoundColumns { run, task, plans } = found;
    line_with("stored", |out| {
        let stored = ObjectText::begin(out)
            .with("plans", |out| write_list(out, plans, |out, plan| plan.write(out)))
            .with("run", |out| run.write(out));
        match task {
            Some(task) => stored.with("task", |out| task.write(out)),
            None => stored,
        }
        .end();
    })
}

/// The line before the last one.
pub fn state_line(state: &StoredState) -> String {
    let StoredState { state, plan_revision, sequence, progress, history: _ } = state;
    let mut members = vec![
        ("plan_revision", number(plan_revision)),
        ("sequence", number(sequence)),
        ("state", text(state)),
    ];
    members.push(("progress", text(HEXLOWER.encode(progress))));
    let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
    object([("state", Value::Object(members.collect()))]).to_canonical()
}

impl SignedVerdict {
    /// The lines of an export, in their order.
    pub fn to_lines(&self, run_id: &str) -> Vec<String> {
        if let Some(envelopes) = self.envelopes(run_id) {
            let anchor = self.anchor.iter().map(VerdictAnchor::to_line);
            return envelopes.iter().map(Envelope::to_line).chain(anchor).collect();
        }
        let record = parse_stored(&verdict_text(&self.record)).map(|parsed| parsed.value);
        let verdict =
            object([("at", text(instant(self.at))), ("record", record.unwrap_or(Value::Null))]);
        vec![object([("verdict", verdict)]).to_canonical()]
    }
}

/// Checks the bytes of an export. Without keys only digests and the chain are checked.
pub fn check_export(file: &str, keys: Option<&TrustedKeys>) -> EvidenceReport {
    let mut lines = (1..).zip(file.split_terminator('\n'));
    let head = lines.next().and_then(|(_, line)| read_header(line));
    let (Some((form, run_id)), Some(found)) =
        (head, lines.next().and_then(|(_, line)| read_stored_line(line)))
    else {
        return plain(file);
    };
    let mut reader = Reader {
        verifier: Verifier::new(keys, run_id.as_str(), found.clone()),
        form,
        run_id,
        group: Group::default(),
        verdict: None,
        is_behind_verdict: false,
        state: None,
        end: None,
    };
    let canonical = [header_of(form, &reader.run_id), stored_line(&found)];
    reader.compare(1, file.split_terminator('\n'), &canonical);
    if !found.plans.is_sorted_by_key(|plan| plan.revision) {
        reader.verifier.find(0, "line 2: its plans are not in the order of their revisions");
    }
    if !file.ends_with('\n') {
        reader.verifier.find(0, "the file does not end with a line end: it was cut or changed");
    }
    for (number, line) in lines {
        reader.line(number, line);
    }
    reader.finish()
}

/// A file of an earlier version, or none that is known.
fn plain(file: &str) -> EvidenceReport {
    let chain = check_plain(file);
    let status = match chain.findings.first() {
        Some(found) => SignatureStatus::Broken(found.message.clone()),
        None => SignatureStatus::Unsigned("the file has no signatures".to_owned()),
    };
    EvidenceReport { chain, signed_receipt_count: 0, status, anchors: Vec::new() }
}

/// The form of an export, where it is one that is read.
pub(super) fn form_of(first: &Value) -> Option<&'static str> {
    let form = first.get("export")?.get("form")?.as_str()?;
    [FORM, WITHOUT_ANSWERS].into_iter().find(|known| *known == form)
}

/// The form and the run.
fn read_header(line: &str) -> Option<(&'static str, String)> {
    let value = parse_stored(line).ok()?.value;
    let run_id = value.get("export")?.get("run_id")?.as_str()?;
    Some((form_of(&value)?, run_id.to_owned()))
}

fn read_stored_line(line: &str) -> Option<FoundColumns> {
    let value = parse_stored(line).ok()?.value;
    let stored = value.get("stored")?;
    let plans = stored.get("plans")?.as_array()?.iter().map(PlanColumns::read);
    let task = match stored.get("task") {
        Some(task) => Some(TaskColumns::read(task)?),
        None => None,
    };
    let run = RunColumns::read(stored.get("run")?)?;
    Some(FoundColumns { run, task, plans: plans.collect::<Option<_>>()? })
}

/// The lines of one journal row, as far as they were read.
#[derive(Debug, Default)]
struct Group<'f> {
    first: usize,
    lines: Vec<&'f str>,
    root: Option<(Envelope, Root)>,
    proof: Option<Proof>,
    receipts: Vec<Result<EvidenceReceipt, String>>,
    columns: SignedColumns,
}

/// The envelopes of a verdict, as far as they were read.
#[derive(Debug)]
struct Announced<'f> {
    first: usize,
    lines: Vec<&'f str>,
    verdict: SignedVerdict,
}

struct Reader<'k, 'f> {
    verifier: Verifier<'k>,
    form: &'static str,
    run_id: String,
    group: Group<'f>,
    verdict: Option<Announced<'f>>,
    /// Whether the line before ended a verdict: only there an anchor may stand.
    is_behind_verdict: bool,
    state: Option<StoredState>,
    end: Option<ChainEnd>,
}

impl<'f> Reader<'_, 'f> {
    fn line(&mut self, number: usize, line: &'f str) {
        if self.end.is_some() {
            return self
                .verifier
                .find(0, format!("line {number}: there are more lines after the chain's end"));
        }
        let read = parse_stored(line).map_err(|error| format!("it is not JSON: {error}"));
        let done = read.and_then(|parsed| self.value(number, line, &parsed.value));
        if let Err(why) = done {
            // A line of a row that does not read leaves the row without a leaf, which its signature shows.
            self.verifier.find(0, format!("line {number}: {why}"));
        }
    }

    fn value(&mut self, number: usize, line: &'f str, value: &Value) -> Result<(), String> {
        let key = |name: &str| value.get(name);
        if key("payload").is_none() {
            self.verdict_is_over();
        }
        self.is_in_place(value)?;
        if self.group.lines.is_empty() {
            self.group.first = number;
        }
        if key("payload").is_some() || key("payloadType").is_some() {
            return self.envelope(number, line, value);
        }
        if let Some(proof) = key("proof") {
            self.group.lines.push(line);
            self.group.proof = Some(read_proof(proof)?);
        } else if let Some(run) = key("run") {
            self.group.lines.push(line);
            self.group.columns.run =
                Some(RunColumns::read(run).ok_or("the columns of a run do not read")?);
        } else if let Some(task) = key("task") {
            self.group.lines.push(line);
            let task = TaskColumns::read(task).ok_or("the columns of a task do not read")?;
            self.group.columns.task = Some(task);
        } else if let Some(entry) = key("entry") {
            self.group.lines.push(line);
            let entry = EntryLine::read(entry).ok_or("an entry of the task does not read")?;
            self.entry(entry);
        } else if let Some(plan) = key("plan") {
            self.group.lines.push(line);
            let plan = PlanColumns::read(plan).ok_or("the columns of a plan do not read")?;
            self.group.columns.plans.push(plan);
        } else if let Some(commit) = key("commit") {
            self.group.lines.push(line);
            let commit = CommitLine::read(commit).ok_or("a journal row does not read")?;
            self.commit(commit);
        } else if let Some(anchor) = key("anchor") {
            let anchor =
                VerdictAnchor::read(anchor).ok_or("the anchor of a verdict does not read")?;
            self.compare(number, [line], &[anchor.to_line()]);
            self.verifier.anchor(&anchor);
        } else if let Some(verdict) = key("verdict") {
            self.unsigned_verdict(number, line, verdict)?;
        } else if let Some(state) = key("state") {
            let state = read_state(state).ok_or("the state does not read")?;
            self.compare(number, [line], &[state_line(&state)]);
            self.state = Some(state);
        } else if let Some(end) = key("chain_end") {
            let end = ChainEnd::read(end).ok_or("the chain's end does not read")?;
            self.compare(number, [line], &[end.to_line()]);
            self.end = Some(end);
        } else {
            self.group.lines.push(line);
            let receipt = read_stored(value).map_err(|why| format!("it is no receipt: {why}"));
            self.group.receipts.push(receipt);
        }
        Ok(())
    }

    /// Each line has one place: a verdict behind its row, its anchor next, and the state before the end alone.
    fn is_in_place(&mut self, value: &Value) -> Result<(), String> {
        let has = |name: &str| value.get(name).is_some();
        let is_behind_verdict = std::mem::take(&mut self.is_behind_verdict);
        let wrong = if self.state.is_some() && !has("chain_end") {
            "it stands behind the run's state"
        } else if has("anchor") && !is_behind_verdict {
            "it does not stand behind a verdict"
        } else if (has("state") || has("verdict")) && !self.group.lines.is_empty() {
            "it stands within a journal row"
        } else {
            return Ok(());
        };
        Err(wrong.to_owned())
    }

    fn envelope(&mut self, number: usize, line: &'f str, value: &Value) -> Result<(), String> {
        let envelope = Envelope::read(value)?;
        let statement = envelope.statement()?;
        if statement.predicate_type != ROOT && !self.group.lines.is_empty() {
            return Err("it stands within a journal row".to_owned());
        }
        if statement.predicate_type != TEST_RESULT {
            self.verdict_is_over();
            self.is_behind_verdict = false;
        }
        match statement.predicate_type.as_str() {
            ROOT => {
                let root = read_root(&statement).ok_or("the statement of a root does not read")?;
                self.group.lines.push(line);
                self.group.root = Some((envelope, root));
            }
            SUMMARY => {
                let (at, record) = SignedVerdict::of_summary(&statement)
                    .ok_or("the summary of a verdict does not read")?;
                let signed = Some((envelope.key_id, vec![envelope.signature]));
                let verdict = SignedVerdict { at, record, signed, anchor: None };
                self.verdict = Some(Announced { first: number, lines: vec![line], verdict });
            }
            TEST_RESULT => {
                let mut announced =
                    self.verdict.take().ok_or("a test result stands without its verdict")?;
                announced.lines.push(line);
                let signed = announced.verdict.signed.iter_mut();
                signed.for_each(|(_, signatures)| signatures.push(envelope.signature));
                self.verdict_has_come(&announced);
            }
            unknown => return Err(format!("the predicate {unknown:?} is unknown")),
        }
        Ok(())
    }

    /// Checks a verdict once all of its envelopes are there.
    fn verdict_has_come(&mut self, announced: &Announced<'f>) {
        let Announced { first, lines, verdict } = announced;
        self.compare(*first, lines.iter().copied(), &verdict.to_lines(&self.run_id));
        self.verifier.verdict(verdict);
        self.is_behind_verdict = true;
    }

    /// Ends a verdict without a test result behind its summary.
    fn verdict_is_over(&mut self) {
        let Some(mut announced) = self.verdict.take() else { return };
        if !is_tested(&announced.verdict.record) {
            return self.verdict_has_come(&announced);
        }
        let line = announced.first;
        self.verifier.find(0, format!("line {line}: the test result of the verdict is missing"));
        announced.verdict.signed = None;
        self.verifier.verdict(&announced.verdict);
    }

    fn unsigned_verdict(
        &mut self,
        number: usize,
        line: &'f str,
        value: &Value,
    ) -> Result<(), String> {
        let at = value.get("at").and_then(Value::as_str).unwrap_or_default();
        let at = DateTime::parse_from_rfc3339(at).map_err(|_| "the verdict has no time")?.to_utc();
        let record = value.get("record").map(Value::to_canonical).unwrap_or_default();
        let record = read_verdict_text(&record).map_err(|_| "the verdict does not read")?;
        let verdict = SignedVerdict { at, record, signed: None, anchor: None };
        self.compare(number, [line], &verdict.to_lines(&self.run_id));
        self.verifier.verdict(&verdict);
        Ok(())
    }

    /// Ends the lines of a journal row.
    fn commit(&mut self, line: CommitLine) {
        let Group { first, lines, root, proof, receipts, columns } =
            std::mem::take(&mut self.group);
        let sequence = line.sequence;
        let (mut unread, mut uncounted_answers) = (None, 0);
        let signature = match (root, proof, line.change) {
            (Some((envelope, root)), Some(Proof::Range(place, nodes, answers)), Some(change)) => {
                uncounted_answers = answers;
                Some(RowSignature {
                    key_id: envelope.key_id,
                    signed_at: root.signed_at,
                    proof: RangeProof { leaf_count: root.leaf_count, first: place, nodes },
                    signature: envelope.signature,
                    columns,
                    change,
                    counts_answers: line.answers > 0,
                })
            }
            (None, Some(Proof::None), None) if columns.is_empty() => None,
            (None, Some(Proof::Column(bytes)), None) if columns.is_empty() => {
                unread = Some(bytes);
                None
            }
            _ => {
                self.verifier.find(0, format!("journal row {sequence}: its signed root and its proof do not belong together"));
                None
            }
        };
        let has_both = line.answers > 0 && uncounted_answers > 0;
        let has_any = line.answers > 0 || uncounted_answers > 0;
        if has_both || has_any && self.form == WITHOUT_ANSWERS {
            self.verifier.find(
                0,
                format!("journal row {sequence}: its answers are not in the canonical form"),
            );
        }
        let commit = Commit { line, receipts, uncounted_answers, signature, unread };
        self.compare(first, lines, &commit.to_lines(&self.run_id));
        self.verifier.commit(&commit.as_row());
    }

    /// Ends the lines of an entry of the task.
    fn entry(&mut self, line: EntryLine) {
        let Group { first, lines, root, proof, receipts, columns } =
            std::mem::take(&mut self.group);
        let is_alone = receipts.is_empty() && columns.is_empty();
        let signature = match (root, proof) {
            (Some((envelope, root)), Some(Proof::Range(..))) if is_alone => Some(EntrySignature {
                key_id: envelope.key_id,
                signed_at: root.signed_at,
                signature: envelope.signature,
            }),
            (None, Some(Proof::None)) if is_alone => None,
            _ => {
                let number = line.number;
                self.verifier.find(
                    0,
                    format!(
                        "task entry {number}: its signed root and its proof do not belong together"
                    ),
                );
                None
            }
        };
        let entry = SignedEntry { line, signature };
        self.compare(first, lines, &entry.to_lines(&self.run_id));
        self.verifier.entry(&entry);
    }

    /// An export has one form: what was read, written again, is the same bytes.
    fn compare<'l>(
        &mut self,
        first: usize,
        lines: impl IntoIterator<Item = &'l str>,
        again: &[String],
    ) {
        let mut lines = lines.into_iter();
        for (number, again) in (first..).zip(again) {
            if lines.next() != Some(again) {
                self.verifier.find(0, format!("line {number}: it is not in the canonical form, or belongs to another run or row"));
            }
        }
    }

    fn finish(mut self) -> EvidenceReport {
        if !self.group.lines.is_empty() {
            let first = self.group.first;
            self.verifier.find(0, format!("line {first}: the journal row that begins here is cut"));
        }
        let Some(end) = self.end.take() else {
            // What is missing with it is no finding of its own.
            self.verifier.find(0, "the last line, which states the chain's end, is missing");
            return self.verifier.report();
        };
        self.verdict_is_over();
        if end.run_id != self.run_id {
            self.verifier.find(0, "the chain's end belongs to another run");
        }
        let Some(state) = self.state else {
            self.verifier.find(0, "the line with the run's state is missing");
            self.verifier.ends_with(end.receipt_count, &end.chain_digest);
            return self.verifier.report();
        };
        self.verifier.finish(&state, (end.receipt_count, &end.chain_digest))
    }
}

#[cfg(test)]
mod tests;
