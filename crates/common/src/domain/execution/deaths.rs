//! Deaths of executors in the middle of the same work, which a run must not cause for ever.
//!
//! ```text
//!   an executor dies --> counted for each turn, and each verification, that it was in the middle of
//!                         |-- fewer than the limit: the next executor takes the run over
//!                         `-- the limit: the run waits for an operator
//! ```
//!
//! A turn that ended since the last death starts its count anew. All runs of a dead executor are counted, because
//! it is not known which of them was the cause.

use super::draft::Draft;
use super::{Deaths, Execution, OpenCall};
use crate::domain::machine::run::RunState;
use crate::domain::step::StepState;

impl Deaths {
    fn is_same_work(&self, other: &Self) -> bool {
        (self.step, self.attempt, self.round) == (other.step, other.attempt, other.round)
    }
}

impl Draft {
    /// Counts the death of the run's executor, for all work that was in progress. Answers the work with the most
    /// deaths; none when no work was in progress. Called before the leases of the steps are ended.
    pub fn count_death(&mut self) -> Option<Deaths> {
        let mut deaths = in_progress(&self.execution);
        for work in &mut deaths {
            let before =
                self.execution.counters.deaths.iter().find(|known| known.is_same_work(work));
            work.count = before.map_or(1, |known| known.count.saturating_add(1));
        }
        self.execution.counters.deaths.clone_from(&deaths);
        deaths.into_iter().max_by_key(|work| work.count)
    }

    /// Forgets the deaths: an operator lets the run go on.
    pub(super) fn forget_deaths(&mut self) {
        self.execution.counters.deaths.clear();
    }
}

fn in_progress(execution: &Execution) -> Vec<Deaths> {
    match execution.state {
        RunState::Executing => {
            let running = execution.steps_in(StepState::Running);
            let work = running.filter_map(|index| {
                let step = execution.step(index)?;
                Some(Deaths {
                    step: Some(index),
                    attempt: step.attempt,
                    round: step.rounds,
                    count: 1,
                })
            });
            work.collect()
        }
        RunState::Verifying => {
            let round = execution.counters.verification_round;
            vec![Deaths { step: None, attempt: 0, round, count: 1 }]
        }
        RunState::Intake
        | RunState::Planning
        | RunState::Recovering
        | RunState::Blocked(_)
        | RunState::Done
        | RunState::Failed
        | RunState::Cancelled => Vec::new(),
    }
}

/// The call that a step was in the middle of; none before its intent is stored and for tools that only read.
pub fn open_call<'e>(execution: &'e Execution, deaths: &Deaths) -> Option<&'e OpenCall> {
    execution.step(deaths.step?)?.open_call.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::execution::StepProgress;
    use crate::domain::journal::Actor;
    use chrono::{DateTime, Utc};
    use std::sync::Arc;
    use uuid::Uuid;

    const NOW: DateTime<Utc> = DateTime::<Utc>::UNIX_EPOCH;

    fn running(rounds: &[u32]) -> Execution {
        let mut execution = Execution::new(Uuid::nil(), "deaths".to_owned(), NOW, NOW);
        execution.state = RunState::Executing;
        let step = |rounds: &u32| {
            Arc::new(StepProgress {
                state: StepState::Running,
                attempt: 1,
                rounds: *rounds,
                ..StepProgress::default()
            })
        };
        execution.steps = rounds.iter().map(step).collect();
        execution
    }

    fn died(execution: Execution) -> (Execution, Option<(Option<usize>, u32)>) {
        let mut draft = Draft::new(execution, Actor("executor".into()), NOW);
        let worst = draft.count_death().map(|work| (work.step, work.count));
        (draft.execution().clone(), worst)
    }

    #[test]
    fn deaths_in_the_middle_of_the_same_turn_add_up_and_a_finished_turn_starts_anew() {
        let (row, worst) = died(running(&[4, 7]));
        assert_eq!(worst.map(|(_, count)| count), Some(1));
        let (mut row, worst) = died(row);
        assert_eq!(worst.map(|(_, count)| count), Some(2));
        row.step_mut(0).unwrap().rounds += 1;
        let (mut row, worst) = died(row);
        assert_eq!(worst, Some((Some(1), 3)), "the other turn is still the same");
        row.step_mut(1).unwrap().rounds += 1;
        row.step_mut(0).unwrap().attempt += 1;
        let (row, worst) = died(row);
        assert_eq!(worst.map(|(_, count)| count), Some(1));
        assert_eq!(row.counters.deaths.len(), 2, "finished work is forgotten");
    }

    #[test]
    fn a_verification_is_counted_by_its_round_and_a_run_without_work_not_at_all() {
        let mut row = running(&[0]);
        row.state = RunState::Verifying;
        row.counters.verification_round = 1;
        let (row, _) = died(row);
        let (mut row, worst) = died(row);
        assert_eq!(worst, Some((None, 2)));
        row.counters.verification_round = 2;
        let (mut row, worst) = died(row);
        assert_eq!(worst, Some((None, 1)));
        row.state = RunState::Recovering;
        assert_eq!(died(row).1, None);
    }
}
