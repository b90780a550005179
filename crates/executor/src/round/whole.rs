//! A whole round at once, for a verification that no database keeps: every probe in its order, and a chain
//! of their receipts.

use super::Round;
use super::ended::Ended;
use super::record::{EndedCall, Place, call_of, observing, receipt};
use crate::tool::{ToolError, ToolOutcome};
use chrono::{DateTime, Utc};
use std::sync::Arc;
use surety_common::clock;
use surety_common::domain::acceptance::{Answered, DIFFERENCE_CHECK, Resolution};
use surety_common::domain::check_inputs::names_ignored;
use surety_common::domain::plan::ToolCall;
use surety_common::domain::receipt::{CheckProbe, EvidenceReceipt, EvidenceSource, Fact, Inputs};
use surety_common::domain::verification::{Probe, UNNAMED_HIDDEN_CHECK, WORKSPACE_CHECK};
use tokio::sync::mpsc::UnboundedSender;
use uuid::Uuid;

/// Receipts, each sealed behind the one before it.
#[derive(Debug, Default)]
pub struct Chain {
    receipts: Vec<EvidenceReceipt>,
    listener: Option<UnboundedSender<Begun>>,
}

/// A probe of a round begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The round, from 1.
    pub round: u32,
    /// The place of the probe in its round, from 0.
    pub place: usize,
    /// How many probes the round has.
    pub of: usize,
    /// The check that it is about; a hidden one is not named, because a participant may read it.
    pub check_id: String,
}

/// A probe that was carried out.
#[derive(Debug)]
pub struct CarriedOut {
    /// The probe.
    pub probe: Probe,
    /// What it was carried out with.
    pub inputs: Inputs,
    /// What it observed.
    pub outcome: ToolOutcome,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub finished_at: DateTime<Utc>,
}

impl Chain {
    /// An empty chain that says when each probe begins, to a listener that may be gone.
    pub fn heard_by(listener: Option<UnboundedSender<Begun>>) -> Self {
        Self { receipts: Vec::new(), listener }
    }

    fn begins(&self, begun: Begun) {
        if let Some(listener) = &self.listener {
            // A listener that is gone wants to hear nothing.
            listener.send(begun).ok();
        }
    }

    /// Every receipt, in order.
    pub fn receipts(&self) -> &[EvidenceReceipt] {
        &self.receipts
    }

    /// Adds what the runner observed without a probe. Nothing is added for no facts.
    pub fn observe(&mut self, summary: &str, facts: Vec<Fact>) {
        if facts.is_empty() {
            return;
        }
        let now = clock::now();
        let outcome = ToolOutcome::done(summary, Vec::new(), facts);
        self.push(made(&observing(), &outcome, (Uuid::now_v7(), now, now)));
    }

    /// Adds the answer of a person to what a verdict was in doubt about.
    pub fn answer(&mut self, answer: &Resolution) {
        let (wait_id, at) = (Uuid::now_v7(), clock::now());
        let answered = Answered { step_count: 0, plan_revision: 1, wait_id, at };
        self.push(answer.receipt(answered));
    }

    fn push(&mut self, mut receipt: EvidenceReceipt) {
        let last = self.receipts.last().map(|last| (last.seq, last.digest.clone()));
        let (seq, digest) = last.unwrap_or_default();
        receipt.seq = seq + 1;
        receipt.seal(digest);
        self.receipts.push(receipt);
    }
}

fn made(
    tool_call: &ToolCall,
    outcome: &ToolOutcome,
    (id, started_at, finished_at): (Uuid, DateTime<Utc>, DateTime<Utc>),
) -> EvidenceReceipt {
    let place = Place { plan_revision: 1, ..Place::default() };
    let call = EndedCall { id, tool_call, outcome, started_at, finished_at };
    receipt(place, EvidenceSource::Probe, call)
}

impl Round {
    /// Adds what the run did to check inputs, for a person who may be asked to accept it, to the receipts of the
    /// round with this number. Answers the text; none where the round compared nothing.
    ///
    /// # Errors
    /// The workspace cannot be opened.
    pub async fn add_difference(
        self: &Arc<Self>,
        number: u32,
        carried: &[CarriedOut],
        chain: &mut Chain,
    ) -> Result<Option<String>, ToolError> {
        let Some(start) = self.start()? else { return Ok(None) };
        // A run that fails with the ignored files decides nothing by them.
        let with_ignored = carried.iter().filter(|run| run.outcome.success).any(|run| {
            run.inputs == Inputs::OriginalWithIgnored || names_ignored(&run.outcome.facts)
        });
        let (id, began) = (Uuid::now_v7(), clock::now());
        let originals = Arc::clone(&start.originals);
        let Some(outcome) = self.difference(originals, with_ignored).await? else {
            return Ok(None);
        };
        let mut receipt = made(&observing(), &outcome, (id, began, clock::now()));
        let check_id = DIFFERENCE_CHECK.to_owned();
        receipt.probe_of = Some(CheckProbe { check_id, round: number, inputs: Inputs::Unstated });
        chain.push(receipt);
        Ok(Some(String::from_utf8_lossy(&outcome.output).into_owned()))
    }

    /// Carries out all probes of the round with this number, one after another, and adds their receipts and that
    /// of the workspace at the end. Answers the probes and that workspace.
    ///
    /// # Errors
    /// The workspace cannot be read before or after the commands; the round was cancelled.
    pub async fn carry_out(
        self: &Arc<Self>,
        probes: Vec<Probe>,
        number: u32,
        chain: &mut Chain,
    ) -> Result<(Vec<CarriedOut>, Option<Ended>), ToolError> {
        if self.open(&probes).await?
            && let Some(start) = self.start()?
        {
            self.give(Arc::clone(&start.originals)).await?;
        }
        let mut carried = Vec::with_capacity(probes.len());
        let of = probes.len();
        for (place, probe) in probes.into_iter().enumerate() {
            let is_named = !probe.is_hidden();
            let check_id = if is_named { probe.check_id.as_str() } else { UNNAMED_HIDDEN_CHECK };
            chain.begins(Begun { round: number, place, of, check_id: check_id.to_owned() });
            let mut so_far = Vec::new();
            while let Some(inputs) = self.next_inputs(&probe, &so_far) {
                if inputs.is_at_start()
                    && !self.has_originals()
                    && let Some(start) = self.start()?
                {
                    self.give(Arc::clone(&start.originals)).await?;
                }
                let (id, started_at) = (Uuid::now_v7(), clock::now());
                let outcome = self.probe(&probe, inputs, &so_far, id).await;
                if self.setup.cancel.is_cancelled() {
                    return Err(ToolError::called_off());
                }
                let finished_at = clock::now();
                let mut receipt = made(&call_of(&probe), &outcome, (id, started_at, finished_at));
                let check_id = probe.check_id.clone();
                receipt.probe_of = Some(CheckProbe { check_id, round: number, inputs });
                chain.push(receipt);
                so_far.push((inputs, outcome.success));
                let probe = probe.clone();
                carried.push(CarriedOut { probe, inputs, outcome, started_at, finished_at });
            }
        }
        let end = self.end().await?;
        if let Some(end) = &end {
            let now = clock::now();
            let mut receipt = made(&observing(), &end.outcome(), (Uuid::now_v7(), now, now));
            let check_id = WORKSPACE_CHECK.to_owned();
            receipt.probe_of =
                Some(CheckProbe { check_id, round: number, inputs: Inputs::Unstated });
            chain.push(receipt);
        }
        Ok((carried, end))
    }
}
