//! False claims and honest runs, each played against real services.
//!
//! ```text
//!   case (YAML) --> workspace --> run, with direct calls on the way --> accepted or refused
//!                       |                                                    |
//!                       +-- truth: a command in the final workspace ---------+--> right or wrong
//! ```
//!
//! A false claim that is accepted and an honest run that is refused are defects of the same weight. Cases
//! lie in `tests/liars/`; each names the rule that decides it.

mod base;
mod calls;
pub mod case;
mod direct;
mod driven;
pub mod modelled;
mod place;
mod play;
pub mod report;
mod served;

use crate::harness::Deployment;
use anyhow::Result;
pub(crate) use calls::checks;
use case::Case;
use futures::{StreamExt, stream};
use modelled::Models;
use report::{Answer, Report};

/// Cases that are played at the same time.
const AT_ONCE: usize = 4;
/// Of the cases that are not slow, the short form plays one in so many.
const SHORT_FORM: usize = 5;

/// Which cases are played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A part of every kind, in less than a minute.
    Short,
    /// Every case that waits for no mechanism.
    All,
    /// Only those that wait for a mechanism, to find out which of them wait no longer.
    Waiting,
}

/// Plays the cases whose id contains one of the filters; all without filters.
///
/// # Errors
/// A case cannot be read. A failure while a case is played is that case's answer.
pub async fn play_all(
    deployment: &Deployment,
    models: &Models,
    form: Form,
    filters: &[String],
) -> Result<Report> {
    let cases = case::all()?;
    let mut report = Report::of(&cases);
    let mut chosen = Vec::new();
    for (place, case) in cases.iter().enumerate() {
        let asked = filters.is_empty() || filters.iter().any(|filter| case.id.contains(filter));
        match (form, &case.waits_for) {
            (Form::Waiting, Some(_)) => chosen.push(case),
            (Form::Waiting, None) => {}
            (_, Some(mechanism)) => report.skip(case, &format!("waits for {mechanism}")),
            (_, None) if !asked => {}
            (Form::All, None) => chosen.push(case),
            (Form::Short, None) => {
                let is_short = !case.slow && place.is_multiple_of(SHORT_FORM);
                if is_short || !filters.is_empty() {
                    chosen.push(case);
                }
            }
        }
    }
    let chosen: Vec<&Case> = chosen.into_iter().filter(|case| report.can_play(case)).collect();
    let played = stream::iter(chosen)
        .map(|case| async move { (case, play::play(deployment, models, case).await) })
        .buffer_unordered(AT_ONCE);
    let answers: Vec<(&Case, Result<Answer>)> = played.collect().await;
    for (case, answer) in answers {
        report.add(case, answer);
    }
    Ok(report)
}
