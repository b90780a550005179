//! A run's receipts as a file, and the report of a check of that file.
//!
//! ```text
//!   {"step_index":0,...,"prev_digest":"","digest":"..."}            one line per receipt, in order
//!   {"chain_end":{"run_id":"...","receipt_count":1,"chain_digest":"..."}}            the last line
//! ```
//!
//! The digests detect a changed line. They cannot detect a file that was written anew as a whole:
//! that needs a signature, which the lines of an earlier version do not have; `domain::signature` has the present form.

use super::chain::Place;
use super::{EvidenceReceipt, read_stored};
use crate::domain::json::{Value, parse_stored};

/// The key of the last line.
const CHAIN_END: &str = "chain_end";
/// A key that only a signed envelope has.
const ENVELOPE_KEY: &str = "payloadType";

/// The last line of an export; without it a truncated chain would not be detected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainEnd {
    /// The run.
    pub run_id: String,
    /// How many receipts it has.
    pub receipt_count: u64,
    /// Digest of the last one; empty when there is none.
    pub chain_digest: String,
}

/// The result of checking a chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChainReport {
    /// The number of receipts, including those that could not be parsed.
    pub receipt_count: u64,
    /// The last receipt's digest, as it states itself; empty without one or when it could not be
    /// parsed.
    pub chain_digest: String,
    /// The faults, in the chain's order.
    pub findings: Vec<ChainFinding>,
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainFinding {
    /// The receipt's own number, or its position when it could not be parsed; 0 for the whole
    /// chain.
    pub seq: u64,
    /// What is wrong.
    pub message: String,
}

impl ChainEnd {
    /// The end of these receipts.
    pub fn of(run_id: impl Into<String>, receipts: &[EvidenceReceipt]) -> Self {
        let start = Self { run_id: run_id.into(), receipt_count: 0, chain_digest: String::new() };
        start.after(receipts)
    }

    /// The end after these further receipts.
    #[must_use]
    pub fn after(mut self, receipts: &[EvidenceReceipt]) -> Self {
        let count = u64::try_from(receipts.len()).unwrap_or(u64::MAX);
        self.receipt_count = self.receipt_count.saturating_add(count);
        if let Some(last) = receipts.last() {
            self.chain_digest.clone_from(&last.digest);
        }
        self
    }

    /// The last line of an export, without a line end.
    pub fn to_line(&self) -> String {
        let Self { run_id, receipt_count, chain_digest } = self;
        let text = |text: &str| Value::String(text.to_owned());
        let members = vec![
            ("run_id".to_owned(), text(run_id)),
            ("receipt_count".to_owned(), Value::Number(receipt_count.to_string())),
            ("chain_digest".to_owned(), text(chain_digest)),
        ];
        Value::Object(vec![(CHAIN_END.to_owned(), Value::Object(members))]).to_canonical()
    }

    pub(in crate::domain) fn read(value: &Value) -> Option<Self> {
        let text = |key| value.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            run_id: text("run_id")?,
            receipt_count: value.get("receipt_count")?.as_number()?.parse().ok()?,
            chain_digest: text("chain_digest")?,
        })
    }
}

impl ChainReport {
    /// Whether no fault was found.
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }

    /// Compares the chain with its expected end, which detects a truncated one.
    #[must_use]
    pub fn ending(mut self, receipt_count: u64, chain_digest: &str) -> Self {
        if self.receipt_count != receipt_count {
            let found = self.receipt_count;
            self.find(0, format!("{receipt_count} receipts are expected, and {found} are present"));
        }
        if self.chain_digest != chain_digest {
            self.find(0, "the last receipt does not match the chain's end");
        }
        self
    }

    fn find(&mut self, seq: u64, message: impl Into<String>) {
        self.findings.push(ChainFinding { seq, message: message.into() });
    }
}

/// Checks receipts from the first one on. An error replaces a receipt that could not be parsed.
pub fn check_chain(receipts: &[Result<EvidenceReceipt, String>]) -> ChainReport {
    let (mut report, mut place) = (ChainReport::default(), Place::default());
    for receipt in receipts {
        report.receipt_count += 1;
        match receipt {
            Ok(receipt) => {
                for kind in place.breaks(receipt).into_iter().flatten() {
                    report.find(receipt.seq, kind.to_string());
                }
                report.chain_digest.clone_from(&receipt.digest);
                place.follow(receipt);
            }
            Err(reason) => {
                report.find(place.expected(), reason);
                report.chain_digest.clear();
                place.skip();
            }
        }
    }
    report
}

/// Checks an export of an earlier version, which has no signatures: every line, every link, and the end. Blank
/// lines are skipped.
pub(in crate::domain) fn check_plain(text: &str) -> ChainReport {
    let mut receipts = Vec::new();
    let mut end = None;
    let mut after_end = false;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        after_end |= end.is_some();
        match read_line(line) {
            Ok(Line::Receipt(receipt)) => receipts.push(Ok(*receipt)),
            Ok(Line::End(found)) => end = Some(found),
            Err(reason) => receipts.push(Err(reason)),
        }
    }
    let mut report = check_chain(&receipts);
    match end {
        Some(end) => report = report.ending(end.receipt_count, &end.chain_digest),
        None => report.find(0, "the last line, which states the chain's end, is missing"),
    }
    if after_end {
        report.find(0, "there are more lines after the chain's end");
    }
    report
}

enum Line {
    Receipt(Box<EvidenceReceipt>),
    End(ChainEnd),
}

fn read_line(line: &str) -> Result<Line, String> {
    let value = parse_stored(line).map_err(|error| format!("the line is not JSON: {error}"))?.value;
    if let Some(end) = value.get(CHAIN_END) {
        let end = ChainEnd::read(end).map(Line::End);
        return end
            .ok_or_else(|| "the line that states the chain's end cannot be parsed".to_owned());
    }
    if value.get(ENVELOPE_KEY).is_some() {
        return Err(
            "the line is a signed envelope, and the file's first line names no form".to_owned()
        );
    }
    let receipt =
        read_stored(&value).map_err(|problem| format!("the line is not a receipt: {problem}"))?;
    Ok(Line::Receipt(Box::new(receipt)))
}

#[cfg(test)]
mod tests;
