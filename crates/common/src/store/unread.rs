//! Runs whose rows cannot be decoded: a defect, or the work of a newer program.

use super::StoreError;
use super::run_row::RunRow;
use crate::domain::run::RunRecord;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::postgres::PgRow;
use sqlx::{FromRow, Row};
use std::collections::HashMap;
use uuid::Uuid;

/// How long a process leaves such a run alone before it tries to decode it again.
const LEFT_ALONE: TimeDelta = TimeDelta::minutes(1);
/// How many of them a process remembers; a forgotten one is logged again.
const REMEMBERED: usize = 1000;

/// A run whose row cannot be decoded.
#[derive(Debug)]
pub struct Unread {
    /// The run.
    pub run_id: Uuid,
    /// The column and the reason.
    pub why: StoreError,
}

/// Separates rows that decode from those that do not, so that one row does not block the others.
pub(super) fn sort(rows: &[PgRow]) -> Result<(Vec<RunRecord>, Vec<Unread>), StoreError> {
    let (mut read, mut unread) = (Vec::new(), Vec::new());
    for row in rows {
        match record(row) {
            Ok(record) => read.push(record),
            Err(why) => unread.push(Unread { run_id: row.try_get("run_id")?, why }),
        }
    }
    Ok((read, unread))
}

/// The rows that decode, for a list of runs, and the runs of the others, which are logged.
pub(super) fn readable(rows: &[PgRow]) -> Result<(Vec<RunRecord>, Vec<Uuid>), StoreError> {
    let (read, unread) = sort(rows)?;
    let logged = unread.into_iter().map(|Unread { run_id, why }| {
        tracing::error!(%run_id, error = %why, "store: a run's row cannot be read; the run is listed by its id alone");
        run_id
    });
    Ok((read, logged.collect()))
}

fn record(row: &PgRow) -> Result<RunRecord, StoreError> {
    RunRow::from_row(row)?.into_record()
}

/// The runs that a process could not decode. Each is logged once and not claimed again for a while.
#[derive(Debug, Default)]
pub struct Unreadable(HashMap<Uuid, Known>);

#[derive(Debug)]
struct Known {
    why: String,
    until: DateTime<Utc>,
}

impl Unreadable {
    /// The runs that are not claimed at `now`.
    pub fn left_alone(&self, now: DateTime<Utc>) -> Vec<Uuid> {
        let alone = self.0.iter().filter(|(_, known)| known.until > now);
        alone.map(|(run_id, _)| *run_id).collect()
    }

    /// Stops claiming a run from `now` on. Returns whether to log it: the run or the reason is new.
    pub fn leave_alone(&mut self, run_id: Uuid, why: &str, now: DateTime<Utc>) -> bool {
        let known = Known { why: why.to_owned(), until: now + LEFT_ALONE };
        let before = self.0.insert(run_id, known);
        while self.0.len() > REMEMBERED {
            let oldest = self.0.iter().min_by_key(|(_, known)| known.until);
            let Some(oldest) = oldest.map(|(run_id, _)| *run_id) else { break };
            self.0.remove(&oldest);
        }
        before.is_none_or(|before| before.why != why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    #[test]
    fn a_run_that_does_not_read_is_news_once_for_each_reason_and_is_looked_at_again() {
        let run = Uuid::from_u128(1);
        let mut unreadable = Unreadable::default();
        assert!(unreadable.leave_alone(run, "column progress", later(0)));
        assert_eq!(unreadable.left_alone(later(59)), [run]);
        assert!(unreadable.left_alone(later(60)).is_empty());
        assert!(!unreadable.leave_alone(run, "column progress", later(60)));
        assert_eq!(unreadable.left_alone(later(61)), [run]);
        assert!(unreadable.leave_alone(run, "column limits", later(120)));
    }

    #[test]
    fn of_too_many_that_do_not_read_those_met_last_are_remembered() {
        let mut unreadable = Unreadable::default();
        for (n, at) in (0..=1000).zip(0..) {
            assert!(unreadable.leave_alone(Uuid::from_u128(n), "", later(at)));
        }
        assert_eq!(unreadable.0.len(), REMEMBERED);
        assert!(!unreadable.0.contains_key(&Uuid::from_u128(0)));
    }
}
