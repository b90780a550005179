//! Receipts that a worker reported: what it says it saw, recorded as its words.
//!
//! They count as evidence that work on a step was done. To a check of a user or an operator they prove nothing,
//! and a verification round of the runner does not look at them.

use super::{EvidenceReceipt, EvidenceSource, Fact};

/// Facts of the service itself have keys that begin so.
pub const RESERVED_KEYS: &str = "surety.";
/// The fact that names the worker.
const REPORTED_BY: &str = "surety.reported_by";

impl EvidenceReceipt {
    /// The same receipt as the words of the worker with this name, whatever it says of itself: a tool's
    /// observation, made for no check, under no sandbox, without an output.
    #[must_use]
    pub fn reported_by(mut self, worker: &str) -> Self {
        self.output_digest.clear();
        self.in_words_of(worker)
    }

    /// As [`Self::reported_by`], with the output that the service stored.
    #[must_use]
    pub fn in_words_of(mut self, worker: &str) -> Self {
        self.source = EvidenceSource::ToolObservation;
        self.probe_of = None;
        self.sandbox.clear();
        for fact in &mut self.facts {
            // Only the runner states the conditions of a command.
            if let Fact::Command { conditions, .. } = fact {
                *conditions = None;
            }
        }
        let by = Fact::Output { key: REPORTED_BY.to_owned(), value: worker.to_owned() };
        self.facts.insert(0, by);
        self
    }

    /// The worker that reported it; none for a receipt of the runner.
    pub fn reporter(&self) -> Option<&str> {
        match self.facts.first() {
            Some(Fact::Output { key, value }) if key == REPORTED_BY => Some(value),
            Some(_) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json;
    use crate::domain::receipt::read_receipt;

    #[test]
    fn a_report_names_its_worker_and_nothing_that_only_the_runner_says() {
        let text = r#"{"step_index": 0, "source": "probe", "check_id": "c", "round": 3, "sandbox": "full",
            "success": true, "output_digest": "d", "facts": [{"fact": "command", "argv": ["make"],
            "exit_code": 0, "cwd": ".", "workspace_before": "a", "workspace_after": "a"}]}"#;
        let sent = read_receipt(&json::parse(text).unwrap().value).unwrap();
        assert_eq!(sent.reporter(), None);
        let kept = sent.reported_by("ci");
        assert_eq!((kept.reporter(), kept.source), (Some("ci"), EvidenceSource::ToolObservation));
        assert_eq!((kept.probe_of.clone(), kept.sandbox.as_str()), (None, ""));
        let plain = |fact: &Fact| matches!(fact, Fact::Command { conditions: None, .. });
        assert!(kept.facts.iter().any(plain), "{kept:?}");
    }
}
