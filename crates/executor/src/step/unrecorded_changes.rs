//! Changes of the workspace that no call recorded: by an agent beside its tools, by a person, by a process that a
//! call left.
//!
//! The project's own tests are due where files were written, whatever wrote them. So a round that would run them
//! compares its first snapshot with that of the start, and records what differs.

use super::call_setup::{Done, called_off};
use super::ended::Ended;
use super::evidence::Record;
use super::leased_run::LeasedRun;
use super::probing::{self, About, begin};
use super::snapshots;
use crate::round::{Round, observing};
use crate::tool::ToolOutcome;
use std::sync::Arc;
use surety_common::domain::verification::{Probe, probes, wants_project_tests};

const SUMMARY: &str = "compared with the start of the run: files differ that no call recorded";

/// Whether the runner observes anything before the gate decides.
pub(super) async fn observes(run: &LeasedRun) -> bool {
    !wanted(run, run.wrote_files().await).is_empty()
        || are_asked_for(run).await
        || snapshots::is_read_for_receipts(run).await
}

/// The round of the whole run and its probes, with the record of changes that no call recorded.
///
/// # Errors
/// The work on the run was called off.
pub(super) async fn begin_round(
    run: &LeasedRun,
    about: &About,
) -> Result<(Arc<Round>, Vec<Probe>, Vec<Record>), Ended> {
    let of_run = wanted(run, run.wrote_files().await);
    let round = begin(run, &of_run, about).await?;
    if !are_asked_for(run).await {
        return Ok((round, of_run, Vec::new()));
    }
    let Some(record) = record(run, &round, about).await? else {
        return Ok((round, of_run, Vec::new()));
    };
    if let Some(latest) = round.latest() {
        run.known.history.remember(&latest);
    }
    let of_run = wanted(run, true);
    let round = begin(run, &of_run, about).await?;
    Ok((round, of_run, vec![record]))
}

fn wanted(run: &LeasedRun, wrote_files: bool) -> Vec<Probe> {
    probes(&run.plan.verify, &run.spec.policy, wrote_files)
}

/// Whether it decides anything that files were written, and no receipt says so yet.
async fn are_asked_for(run: &LeasedRun) -> bool {
    wants_project_tests(&run.plan.verify, run.spec.policy.verify_commands, true)
        && !run.wrote_files().await
        && snapshots::may_be_written(run).await
}

/// The record of what differs at the start of the round; none where nothing does.
async fn record(run: &LeasedRun, round: &Round, about: &About) -> Result<Option<Record>, Ended> {
    let facts = match round.written_since_start() {
        Ok(facts) if facts.is_empty() => return Ok(None),
        Ok(facts) => facts,
        Err(error) => {
            // The end of the round is then not known either, which refuses the run.
            called_off(run, &error.into())?;
            return Ok(None);
        }
    };
    let outcome = ToolOutcome::done(SUMMARY, Vec::new(), facts);
    let done = Done::now(run, probing::call(observing()), outcome);
    probing::record(run, done, about).await.map(Some)
}
