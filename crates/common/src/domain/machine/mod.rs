//! The only source of state transitions: `decide(state, event)`.
//!
//! ```text
//!  INTAKE -> PLANNING -> EXECUTING -> VERIFYING -> DONE
//!                ^         |    ^          |
//!                |         v    |          |
//!                +------ RECOVERING <------+
//!
//!  any of these <-> BLOCKED      any of these, and BLOCKED -> FAILED | CANCELLED
//!
//!  pending -> ready -> running -> done | failed
//!     |          ^        |
//!     |          +- waiting        any of these four -> cancelled
//!     +-> blocked | skipped <- ready
//! ```
//!
//! The functions use no time, ids or counters: callers pass such data beside the event.

pub mod run;
pub mod step;

/// An event that does not change the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The state is terminal; the first terminal state is never overwritten.
    #[error("the state is terminal and never changes")]
    Terminal,
    /// The event is not defined in this state.
    #[error("the event is not defined in this state")]
    Meaningless,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// One line for every pair, so that a review shows every changed outcome.
    #[test]
    fn every_pair_of_state_and_event_has_its_written_outcome() {
        let mut table = String::new();
        for state in run::RunState::ALL {
            for event in run::RunEvent::ALL {
                row(&mut table, "run", &state, &event, &run::decide(state, event));
            }
        }
        for state in crate::domain::step::StepState::ALL {
            for event in step::StepEvent::ALL {
                row(&mut table, "step", &state, &event, &step::decide(state, event));
            }
        }
        insta::assert_snapshot!(table);
    }

    fn row<S: std::fmt::Debug, E: std::fmt::Debug, T: std::fmt::Debug>(
        table: &mut String,
        subject: &str,
        state: &S,
        event: &E,
        outcome: &Result<T, Refusal>,
    ) {
        let outcome = match outcome {
            Ok(next) => format!("{next:?}"),
            Err(refusal) => format!("refused: {refusal:?}"),
        };
        writeln!(
            table,
            "{subject:<5}{:<22}{:<18}{outcome}",
            format!("{state:?}"),
            format!("{event:?}")
        )
        .unwrap();
    }

    #[test]
    fn no_event_leaves_a_terminal_run() {
        for state in run::RunState::ALL.into_iter().filter(|state| state.is_terminal()) {
            for event in run::RunEvent::ALL {
                assert_eq!(run::decide(state, event), Err(Refusal::Terminal));
            }
        }
    }

    #[test]
    fn a_blocked_run_returns_to_the_state_it_left() {
        for phase in run::Phase::ALL {
            let blocked = run::decide(phase.state(), run::RunEvent::Blocked).unwrap();
            assert_eq!(run::decide(blocked, run::RunEvent::Unblocked), Ok(phase.state()));
        }
    }

    #[test]
    fn requests_are_recorded_and_change_no_state_by_themselves() {
        for state in run::RunState::ALL.into_iter().filter(|state| !state.is_terminal()) {
            for event in [run::RunEvent::PauseRequested, run::RunEvent::ResumeRequested] {
                assert_eq!(run::decide(state, event), Ok(state));
            }
        }
    }

    #[test]
    fn done_is_reached_only_by_an_accepting_verdict() {
        for state in run::RunState::ALL {
            for event in run::RunEvent::ALL {
                if run::decide(state, event) == Ok(run::RunState::Done) {
                    assert_eq!(event, run::RunEvent::VerdictAccepted);
                    assert_eq!(state, run::RunState::Verifying);
                }
            }
        }
    }
}
