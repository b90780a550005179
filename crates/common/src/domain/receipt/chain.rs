//! The chain: each receipt of a run contains the digest of the one before it, so that a changed,
//! dropped, added or moved receipt is detected.

use super::EvidenceReceipt;

/// Where a chain of receipts is broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("receipt {seq}: {kind}")]
pub struct ChainBreak {
    /// The number of the first invalid receipt, as it states itself.
    pub seq: u64,
    /// What is invalid.
    pub kind: BreakKind,
}

/// What is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BreakKind {
    /// A receipt is missing, repeated, or out of order.
    #[error("receipt {expected} is expected here")]
    SeqUnexpected {
        /// The expected number.
        expected: u64,
    },
    /// It does not follow the receipt before it.
    #[error("its previous digest is not that of the receipt before it")]
    PrevDigestDiffers,
    /// Its digest is not the digest of its fields.
    #[error("its digest is not the digest of its fields")]
    DigestDiffers,
}

/// Checks a run's receipts from the first one on.
///
/// # Errors
/// The first invalid receipt.
pub fn verify_chain(receipts: &[EvidenceReceipt]) -> Result<(), ChainBreak> {
    let mut place = Place::default();
    for receipt in receipts {
        if let Some(kind) = place.breaks(receipt).into_iter().flatten().next() {
            return Err(ChainBreak { seq: receipt.seq, kind });
        }
        place.follow(receipt);
    }
    Ok(())
}

/// The position in a chain that is being checked.
#[derive(Debug)]
pub(in crate::domain) struct Place {
    expected: u64,
    /// None after a receipt that could not be parsed, because its digest is unknown.
    prev_digest: Option<String>,
}

impl Default for Place {
    fn default() -> Self {
        Self { expected: 1, prev_digest: Some(String::new()) }
    }
}

impl Place {
    /// All faults of the next receipt.
    pub(in crate::domain) fn breaks(&self, receipt: &EvidenceReceipt) -> [Option<BreakKind>; 3] {
        let expected = self.expected;
        let follows = self.prev_digest.as_ref().is_none_or(|digest| *digest == receipt.prev_digest);
        [
            (receipt.seq != expected).then_some(BreakKind::SeqUnexpected { expected }),
            (!follows).then_some(BreakKind::PrevDigestDiffers),
            (receipt.digest != receipt.compute_digest()).then_some(BreakKind::DigestDiffers),
        ]
    }

    /// Moves past a receipt, trusting its own digest, so that one fault is reported once.
    pub(in crate::domain) fn follow(&mut self, receipt: &EvidenceReceipt) {
        self.expected = receipt.seq.saturating_add(1);
        self.prev_digest = Some(receipt.digest.clone());
    }

    /// Moves past a receipt that could not be parsed.
    pub(in crate::domain) fn skip(&mut self) {
        self.expected = self.expected.saturating_add(1);
        self.prev_digest = None;
    }

    /// The number the next receipt should have.
    pub(in crate::domain) const fn expected(&self) -> u64 {
        self.expected
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, EvidenceSource, Fact, read_stored};
    use super::*;
    use crate::domain::json::{Value, parse};
    use crate::domain::tests_seen::Counts;
    use chrono::DateTime;
    use proptest::prelude::*;

    fn facts() -> impl Strategy<Value = Vec<Fact>> {
        let text = "[ a-c\"\\\\变]{0,6}";
        let digest = || prop::option::of("[0-9a-f]{0,4}");
        let fact = prop_oneof![
            (text, digest(), digest()).prop_map(|(path, before_digest, after_digest)| {
                Fact::FileWritten { path, before_digest, after_digest }
            }),
            (text, any::<bool>()).prop_map(|(path, exists)| Fact::FileObserved { path, exists }),
            (prop::collection::vec(text, 0..3), any::<i32>()).prop_map(|(argv, exit_code)| {
                Fact::Command { command: Command::Argv(argv), exit_code, conditions: None }
            }),
            (text, any::<i32>()).prop_map(|(line, exit_code)| Fact::Command {
                command: Command::Line(line),
                exit_code,
                conditions: None,
            }),
            (text, text, any::<bool>()).prop_map(|(path, contains, found)| Fact::Content {
                path,
                contains,
                found,
            }),
            (text, text, any::<bool>()).prop_map(|(tool, scope, passed)| Fact::Verification {
                tool,
                scope,
                passed,
            }),
            (text, text).prop_map(|(key, value)| Fact::Output { key, value }),
            (text, any::<[u64; 4]>()).prop_map(|(runner, [ran, failed, skipped, missing])| {
                Fact::Tests { runner, counts: Counts { ran, failed, skipped, missing } }
            }),
        ];
        prop::collection::vec(fact, 0..4)
    }

    fn receipt() -> impl Strategy<Value = EvidenceReceipt> {
        let text = "[ a-c\n变]{0,6}";
        let source = prop::sample::select(EvidenceSource::ALL.to_vec());
        let micros = prop::option::of(0..2_000_000_000_000_000_i64);
        (any::<u32>(), source, any::<bool>(), text, facts(), micros).prop_map(
            |(step_index, source, success, name, facts, micros)| EvidenceReceipt {
                step_index,
                step_id: "s".into(),
                plan_revision: 1,
                seq: 0,
                call_id: String::new(),
                probe_of: None,
                source,
                name: name.clone(),
                arguments_digest: String::new(),
                success,
                summary: name,
                facts,
                output_digest: String::new(),
                sandbox: if step_index % 2 == 0 { String::new() } else { "full".into() },
                started_at: micros.and_then(DateTime::from_timestamp_micros),
                finished_at: None,
                prev_digest: String::new(),
                digest: String::new(),
            },
        )
    }

    fn chained(mut receipts: Vec<EvidenceReceipt>) -> Vec<EvidenceReceipt> {
        let mut prev_digest = String::new();
        for (seq, receipt) in (1..).zip(&mut receipts) {
            receipt.seq = seq;
            receipt.seal(prev_digest.as_str());
            prev_digest.clone_from(&receipt.digest);
        }
        receipts
    }

    fn chain() -> impl Strategy<Value = Vec<EvidenceReceipt>> {
        prop::collection::vec(receipt(), 2..6).prop_map(chained)
    }

    proptest! {
        #[test]
        fn a_stored_receipt_comes_back_to_the_letter(receipts in chain()) {
            for receipt in receipts {
                let stored = parse(&receipt.to_text()).unwrap().value;
                prop_assert_eq!(read_stored(&stored).unwrap(), receipt);
            }
        }

        #[test]
        fn a_chain_shows_whatever_was_done_to_it(receipts in chain(), at in any::<prop::sample::Index>()) {
            prop_assert_eq!(verify_chain(&receipts), Ok(()));
            let at = at.index(receipts.len());

            let mut changed = receipts.clone();
            changed[at].success = !changed[at].success;
            let broken = verify_chain(&changed).unwrap_err();
            prop_assert_eq!(broken, ChainBreak { seq: at as u64 + 1, kind: BreakKind::DigestDiffers });

            changed[at].digest = changed[at].compute_digest();
            let resealed = verify_chain(&changed);
            let next = ChainBreak { seq: at as u64 + 2, kind: BreakKind::PrevDigestDiffers };
            // Only the signed chain digest protects the last receipt.
            prop_assert_eq!(resealed, if at + 1 < receipts.len() { Err(next) } else { Ok(()) });

            let mut dropped = receipts.clone();
            dropped.remove(at);
            prop_assert_eq!(verify_chain(&dropped).is_ok(), at + 1 == receipts.len());

            let mut doubled = receipts.clone();
            doubled.insert(at, receipts[at].clone());
            prop_assert!(verify_chain(&doubled).is_err());
        }
    }

    #[test]
    fn the_digest_covers_every_field_of_the_stored_form() {
        let stored = r#"{"step_index":0,"step_id":"a","plan_revision":1,"seq":1,"call_id":"c",
            "source":"probe","name":"n","arguments_digest":"x","success":true,"summary":"s",
            "facts":[{"fact":"output","key":"k","value":"v"}],"output_digest":"y","sandbox":"none",
            "started_at":"2026-01-02T03:04:05.000006Z","finished_at":"2026-01-02T03:04:06Z",
            "prev_digest":"p"}"#;
        let Value::Object(members) = parse(stored).unwrap().value else {
            panic!("an object was written above");
        };
        let digest_of = |members: &[(String, Value)]| {
            read_stored(&Value::Object(members.to_vec())).map(|receipt| receipt.compute_digest())
        };
        let whole = digest_of(&members).unwrap();
        for left_out in 0..members.len() {
            let mut fewer = members.clone();
            fewer.remove(left_out);
            assert_ne!(digest_of(&fewer), Ok(whole.clone()), "{:?}", members[left_out]);
        }
    }
}
