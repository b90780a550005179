//! The open contracts of all workspaces, in short.

use super::file::{Contract, What};
use crate::text::{columns, one_line};

/// An open contract, as it is listed.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The contract.
    pub contract: Contract,
    /// Whether a server of it lives, with which an agent may be at work.
    pub is_served: bool,
}

impl Listed {
    /// What is known of the work, in a few words: the last verdict, and whether the agent stopped without one.
    #[must_use]
    pub fn outcome(&self) -> String {
        let contract = &self.contract;
        let verdict = contract.verdict.as_ref().map(|verdict| match verdict.accepted {
            true => "accepted".to_owned(),
            false => format!("refused: {}", verdict.stop_reason),
        });
        // A proposal or a round after the end of a connection is the work of another one.
        let last = contract.events.iter().rev().find(|event| match event.what {
            What::EndedWithoutVerdict
            | What::StoppedRefused
            | What::Decided
            | What::Proposed
            | What::Checked => true,
            What::Opened | What::Closed => false,
        });
        let mut since =
            contract.events.iter().rev().take_while(|event| event.what != What::Decided);
        let replanned = since.any(|event| event.what == What::Proposed);
        let is_about_it = last.is_some_and(|event| {
            let digest = contract.verdict.as_ref().map(|verdict| verdict.digest.as_str());
            event.what == What::Checked
                && !replanned
                && digest.is_some_and(|digest| event.detail.ends_with(digest))
        });
        match (last.map(|event| event.what), verdict) {
            (Some(What::EndedWithoutVerdict), None) => "no verdict: the agent stopped".to_owned(),
            (Some(What::EndedWithoutVerdict), Some(before)) => {
                format!("no verdict of the last work: the agent stopped (before: {before})")
            }
            (Some(What::StoppedRefused), Some(verdict)) => {
                format!("{verdict}; the agent stopped")
            }
            // The verdict is about another plan or another state of the workspace.
            (Some(What::Proposed | What::Checked), Some(before)) if !is_about_it => {
                let alone = if self.is_served { "" } else { "; no agent is connected" };
                format!("no verdict of the last work{alone} (before: {before})")
            }
            (Some(_) | None, Some(verdict)) => verdict,
            (Some(_) | None, None) if self.is_served => "no verdict yet".to_owned(),
            (Some(_) | None, None) => "no verdict yet; no agent is connected".to_owned(),
        }
    }
}

/// Open contracts, one per line.
#[must_use]
pub fn table(listed: &[Listed]) -> String {
    let row = |listed: &Listed| {
        let contract = &listed.contract;
        vec![
            one_line(&contract.workspace),
            one_line(&listed.outcome()),
            contract.rounds.to_string(),
            one_line(&contract.opened_at),
        ]
    };
    let header = ["CONTRACT OF", "STATE", "ROUNDS", "OPENED"];
    columns(&header, listed.iter().map(row).collect())
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
        let mut listed = Listed { contract: contract(), is_served: true };
        assert_eq!(listed.outcome(), "no verdict yet");
        listed.is_served = false;
        assert_eq!(listed.outcome(), "no verdict yet; no agent is connected");
        listed.contract.note(What::EndedWithoutVerdict, "the contract has none");
        assert_eq!(listed.outcome(), "no verdict: the agent stopped");
        assert!(table(&[listed.clone()]).contains("no verdict: the agent stopped"));
        // Another connection goes on.
        listed.is_served = true;
        listed.contract.note(What::Checked, "later");
        assert_eq!(listed.outcome(), "no verdict yet");
        for (accepted, word) in [(false, "refused: accept_check_failed"), (true, "accepted")] {
            listed.contract.verdict = Some(decided(accepted));
            listed.contract.note(What::Decided, "x");
            assert_eq!(listed.outcome(), word);
        }
        // A later round without a verdict is about other work, unless the workspace is the same.
        listed.contract.note(What::Checked, "accepted at d");
        assert_eq!(listed.outcome(), "accepted");
        for what in [What::Checked, What::Proposed] {
            listed.contract.note(what, "accept_check_failed at another");
            assert_eq!(listed.outcome(), "no verdict of the last work (before: accepted)");
        }
        // The same workspace under another plan.
        listed.contract.note(What::Checked, "accept_check_failed at d");
        assert_eq!(listed.outcome(), "no verdict of the last work (before: accepted)");
        listed.is_served = false;
        let alone = "no verdict of the last work; no agent is connected (before: accepted)";
        assert_eq!(listed.outcome(), alone);
        listed.is_served = true;
        listed.contract.note(What::EndedWithoutVerdict, "changed");
        let left = "no verdict of the last work: the agent stopped (before: accepted)";
        assert_eq!(listed.outcome(), left);
        listed.contract.verdict = Some(decided(false));
        listed.contract.note(What::Decided, "x");
        listed.contract.note(What::StoppedRefused, "x");
        assert_eq!(listed.outcome(), "refused: accept_check_failed; the agent stopped");
    }
}
