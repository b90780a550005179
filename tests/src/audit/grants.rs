//! Grants in the journal: made by an answer, used by later calls, revoked.

use anyhow::{Context, Result, ensure};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use surety_common::domain::confirmation::CONFIRMED;
use surety_common::domain::grant::{CallGrant, GRANT, GRANT_REVOKED, GRANT_USED, USE};
use surety_common::domain::receipt::{EvidenceReceipt, EvidenceSource};

/// The grants of one run, as its receipts say them.
#[derive(Debug, Default)]
pub(super) struct Grants(BTreeMap<String, Grant>);

#[derive(Debug)]
struct Grant {
    tool: String,
    uses: u32,
    used: u32,
    expires_at: DateTime<Utc>,
    revoked: bool,
}

/// What a receipt says about a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// An answer that may have made one.
    Answer,
    /// One use.
    Use,
    /// The end by a person.
    Revocation,
}

impl About {
    pub(super) fn of(receipt: &EvidenceReceipt) -> Option<Self> {
        if receipt.source != EvidenceSource::Approval {
            return None;
        }
        match receipt.name.as_str() {
            CONFIRMED => Some(Self::Answer),
            GRANT_USED => Some(Self::Use),
            GRANT_REVOKED => Some(Self::Revocation),
            _ => None,
        }
    }
}

impl Grants {
    /// Takes a receipt in: no use exceeds the count, or comes after the end.
    pub(super) fn take(&mut self, about: About, receipt: &EvidenceReceipt) -> Result<()> {
        let fact = |key| receipt.outputs(key).next().map(str::to_owned);
        let Some(id) = fact(GRANT) else {
            ensure!(about == About::Answer, "a receipt about a grant names none: {receipt:?}");
            return Ok(());
        };
        match about {
            About::Answer => {
                ensure!(receipt.success, "a denial granted something");
                let (used, uses) = counted(&fact(USE).context("no count")?)?;
                ensure!(used == 1, "the shown call is use {used}");
                let expires_at = fact("expires_at").context("no expiry")?.parse()?;
                let tool = fact("tool").context("no tool")?;
                let grant = Grant { tool, uses, used, expires_at, revoked: false };
                ensure!(self.0.insert(id, grant).is_none(), "one grant was made twice");
                Ok(())
            }
            About::Use => {
                let grant = self.0.get_mut(&id).context("a use of no grant")?;
                grant.used += 1;
                let (nth, of) = counted(&fact(USE).context("no count")?)?;
                ensure!((nth, of) == (grant.used, grant.uses), "use {nth} of {of} of {grant:?}");
                ensure!(nth <= of, "a grant was used too often: {grant:?}");
                ensure!(!grant.revoked, "a grant was used after its revocation");
                let at = receipt.started_at.context("a use without a time")?;
                // Text has fewer digits than the time that was compared.
                ensure!(at <= grant.expires_at, "a grant was used after its time: {grant:?}");
                let tool = fact("tool");
                ensure!(tool.as_ref() == Some(&grant.tool), "a grant of another tool was used");
                Ok(())
            }
            About::Revocation => {
                let grant = self.0.get_mut(&id).context("the end of no grant")?;
                ensure!(!grant.revoked, "a grant was revoked twice");
                grant.revoked = true;
                Ok(())
            }
        }
    }

    /// The row has the grants that the receipts say.
    pub(super) fn compare(&self, row: &[CallGrant]) -> Result<()> {
        ensure!(self.0.len() == row.len(), "{} grants, the row has {}", self.0.len(), row.len());
        for grant in row {
            let said = self.0.get(&grant.id.to_string()).context("a grant without an answer")?;
            let same = said.used == grant.used
                && said.uses == grant.uses
                && said.tool == grant.tool
                && said.revoked == grant.revoked.is_some();
            ensure!(same, "the row has {grant:?}, the journal {said:?}");
        }
        Ok(())
    }
}

/// The numbers of `2 of 3`.
fn counted(text: &str) -> Result<(u32, u32)> {
    let (nth, of) = text.split_once(" of ").context("no count")?;
    Ok((nth.parse()?, of.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;
    use surety_common::domain::confirmation::{AnsweredAt, CallResolution, CallToConfirm};
    use surety_common::domain::grant::GrantTerms;
    use uuid::Uuid;

    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn call() -> CallToConfirm {
        CallToConfirm {
            digest: "d".repeat(64),
            tool: "write_file".to_owned(),
            arguments_json: "{}".to_owned(),
            expires_at: NOW,
            asked_by: String::new(),
        }
    }

    fn grant() -> Result<CallGrant> {
        let terms = GrantTerms { arguments: BTreeMap::new(), uses: 3, ttl: TimeDelta::seconds(9) };
        Ok(CallGrant::new(Uuid::from_u128(7), &call(), &terms, ("alice", NOW))?)
    }

    fn at(seconds: i64) -> AnsweredAt<'static> {
        let (wait_id, at) = (Uuid::from_u128(8), NOW + TimeDelta::seconds(seconds));
        AnsweredAt { step_index: 0, step_id: "s", plan_revision: 1, wait_id, at }
    }

    /// Takes receipts in, after the answer that grants.
    fn take(receipts: &[EvidenceReceipt]) -> Result<Grants> {
        let by = Some("alice".to_owned());
        let answer =
            CallResolution { by, approved: true, comment: String::new(), grant: Some(grant()?) };
        let mut grants = Grants::default();
        for receipt in [answer.receipt(&call(), at(0))].iter().chain(receipts) {
            grants.take(About::of(receipt).context("nothing about a grant")?, receipt)?;
        }
        Ok(grants)
    }

    fn used(used: u32, seconds: i64) -> Result<EvidenceReceipt> {
        Ok(CallGrant { used, ..grant()? }.receipt_of_use(&call(), at(seconds)))
    }

    #[test]
    fn uses_beyond_the_count_the_time_or_the_revocation_are_found() -> Result<()> {
        let end = grant()?.receipt_of_end("bob", at(1));
        let grants = take(&[used(2, 1)?, used(3, 8)?])?;
        grants.compare(&[CallGrant { used: 3, ..grant()? }])?;
        ensure!(grants.compare(&[grant()?]).is_err() && grants.compare(&[]).is_err());
        for (what, receipts) in [
            ("twice the same use", vec![used(2, 1)?, used(2, 1)?]),
            ("too often", vec![used(2, 1)?, used(3, 1)?, used(4, 1)?]),
            ("too late", vec![used(2, 10)?]),
            ("revoked", vec![end.clone(), used(2, 1)?]),
            ("revoked twice", vec![end.clone(), end]),
        ] {
            ensure!(take(&receipts).is_err(), "{what} is not found");
        }
        Ok(())
    }
}
