//! The open contracts of all workspaces, in short.

use super::file::{Contract, What};
use crate::text::{columns, one_line};

impl Contract {
    /// What is known of the work, in a few words: the last verdict, and whether the agent stopped without one.
    #[must_use]
    pub fn outcome(&self) -> String {
        let verdict = self.verdict.as_ref().map(|verdict| match verdict.accepted {
            true => "accepted".to_owned(),
            false => format!("refused: {}", verdict.stop_reason),
        });
        let last = self.events.iter().rev().find(|event| match event.what {
            What::EndedWithoutVerdict | What::StoppedRefused | What::Decided => true,
            What::Opened | What::Proposed | What::Checked | What::Closed => false,
        });
        match (last.map(|event| event.what), verdict) {
            (Some(What::EndedWithoutVerdict), None) => "no verdict: the agent stopped".to_owned(),
            (Some(What::EndedWithoutVerdict), Some(before)) => {
                format!("no verdict of the last work: the agent stopped (before: {before})")
            }
            (Some(What::StoppedRefused), Some(verdict)) => {
                format!("{verdict}; the agent stopped")
            }
            (Some(_) | None, Some(verdict)) => verdict,
            (Some(_) | None, None) => "no verdict yet".to_owned(),
        }
    }
}

/// Open contracts, one per line.
#[must_use]
pub fn table(contracts: &[Contract]) -> String {
    let row = |contract: &Contract| {
        vec![
            one_line(&contract.workspace),
            one_line(&contract.outcome()),
            contract.rounds.to_string(),
            one_line(&contract.opened_at),
        ]
    };
    let header = ["CONTRACT OF", "STATE", "ROUNDS", "OPENED"];
    columns(&header, contracts.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Decided;
    use crate::contract::fixture::contract;

    fn decided(accepted: bool) -> Decided {
        Decided {
            accepted,
            stop_reason: if accepted { "accepted" } else { "accept_check_failed" }.to_owned(),
            digest: "d".to_owned(),
            file: "f".to_owned(),
            at: "t".to_owned(),
        }
    }

    #[test]
    fn an_agent_that_stopped_without_a_verdict_is_named() {
        let mut contract = contract();
        assert_eq!(contract.outcome(), "no verdict yet");
        contract.note(What::EndedWithoutVerdict, "the contract has none");
        contract.note(What::Checked, "later");
        assert_eq!(contract.outcome(), "no verdict: the agent stopped");
        assert!(table(&[contract.clone()]).contains("no verdict: the agent stopped"));
        for (accepted, word) in [(false, "refused: accept_check_failed"), (true, "accepted")] {
            contract.verdict = Some(decided(accepted));
            contract.note(What::Decided, "x");
            assert_eq!(contract.outcome(), word);
        }
        contract.note(What::EndedWithoutVerdict, "changed");
        let left = "no verdict of the last work: the agent stopped (before: accepted)";
        assert_eq!(contract.outcome(), left);
        contract.verdict = Some(decided(false));
        contract.note(What::Decided, "x");
        contract.note(What::StoppedRefused, "x");
        assert_eq!(contract.outcome(), "refused: accept_check_failed; the agent stopped");
    }
}
