//! Whether the model allows the observed writes: a row over time, compared with everything that the
//! model could have done between two observations.

use super::protocol::Protocol;
use super::state::{Author, Content, Row, State};
use stateright::Model;
use std::collections::HashSet;

/// A row after a write, as it was observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    /// The row's version.
    pub version: u8,
    /// The row's lease epoch.
    pub epoch: u8,
    /// Who wrote it, where that is known.
    pub by: Option<Author>,
    /// Who holds the lease.
    pub owner: Option<usize>,
    /// What the work moves.
    pub content: Content,
}

impl Sight {
    fn is_of(&self, row: &Row) -> bool {
        row.fence.version == self.version
            && row.fence.epoch == self.epoch
            && row.owner == self.owner
            && row.content == self.content
            && self.by.is_none_or(|by| by == row.fence.by)
    }
}

/// The first write that the model does not know.
#[derive(Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Its place in the trace.
    pub place: usize,
    /// How it left the row.
    pub seen: Sight,
}

/// Follows a trace of the one run of a world through the model.
///
/// # Errors
/// The first write that no sequence of the model's actions leads to from the writes before it.
pub fn follow(protocol: &Protocol, trace: &[Sight]) -> Result<(), Unknown> {
    let mut now: HashSet<State> = protocol.init_states().into_iter().collect();
    for (place, &seen) in trace.iter().enumerate() {
        now = reach(protocol, now, &seen);
        if now.is_empty() {
            return Err(Unknown { place, seen });
        }
    }
    Ok(())
}

/// The states just after the write that was seen. What is stored together, as one new row, is one
/// write here and several in the model.
fn reach(protocol: &Protocol, from: HashSet<State>, seen: &Sight) -> HashSet<State> {
    let mut reached = HashSet::new();
    let mut todo: Vec<State> = from.iter().cloned().collect();
    let mut known = from;
    while let Some(state) = todo.pop() {
        for next in protocol.next_states(&state) {
            let (Some(before), Some(row)) = (state.rows.first(), next.rows.first()) else {
                continue;
            };
            if !next.broken.is_empty() {
                continue;
            }
            if before.fence != row.fence && seen.is_of(row) {
                reached.insert(next);
            } else if row.fence.version < seen.version && known.insert(next.clone()) {
                todo.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EFFECT;
    use crate::state::Step;

    const AT_WORK: Content =
        Content { step: 0, open: false, may_repeat: false, asks: false, ended: false };

    fn sight(version: u8, epoch: u8, by: usize, content: Content) -> Sight {
        let by = Some(Author::Executor(by));
        let owner = by.and_then(|by| match by {
            Author::Executor(by) => Some(by),
            Author::Outside => None,
        });
        Sight { version, epoch, by, owner: owner.filter(|_| !content.ended), content }
    }

    fn protocol() -> Protocol {
        Protocol { mishaps: 1, ..Protocol::new(&[EFFECT, Step::Look]) }
    }

    #[test]
    fn a_run_that_changes_hands_is_known_to_the_model() {
        let open = Content { open: true, ..AT_WORK };
        let asks = Content { asks: true, ..open };
        let asked = Sight { owner: None, ..sight(6, 2, 1, asks) };
        let (leased, started) = (sight(2, 1, 0, AT_WORK), sight(3, 1, 0, AT_WORK));
        let trace = [leased, started, sight(4, 1, 0, open), sight(5, 2, 1, open), asked];
        assert_eq!(follow(&protocol(), &trace), Ok(()));
    }

    #[test]
    fn changes_stored_as_one_are_known_to_the_model() {
        let ended = Content { step: 2, ended: true, ..AT_WORK };
        let plan = [Step::Look, Step::Look];
        let trace = [sight(2, 1, 0, AT_WORK), sight(5, 1, 0, ended)];
        assert_eq!(follow(&Protocol { mishaps: 0, ..Protocol::new(&plan) }, &trace), Ok(()));
    }

    #[test]
    fn a_forged_trace_is_refused_at_the_write_that_no_executor_could_make() {
        let open = Content { open: true, ..AT_WORK };
        let next = Content { step: 1, ..AT_WORK };
        let ended = Content { step: 2, ended: true, ..AT_WORK };
        let (leased, started) = (sight(2, 1, 0, AT_WORK), sight(3, 1, 0, AT_WORK));
        let taken = sight(4, 2, 1, AT_WORK);
        let forged = [
            ("a write under an old epoch", vec![leased, started, taken, sight(5, 1, 0, open)]),
            (
                "a write of one that lost its lease",
                vec![leased, started, taken, sight(5, 2, 0, open)],
            ),
            ("a lease under the epoch before", vec![leased, sight(3, 1, 1, AT_WORK)]),
            ("a version that is used twice", vec![leased, sight(2, 1, 0, open)]),
            ("an outcome without an intent", vec![leased, started, sight(4, 1, 0, next)]),
            (
                "an unknown effect that is made again",
                vec![
                    leased,
                    started,
                    sight(4, 1, 0, open),
                    sight(5, 2, 1, open),
                    sight(6, 2, 1, next),
                ],
            ),
            (
                "a write over an end",
                vec![
                    leased,
                    started,
                    sight(4, 1, 0, open),
                    sight(5, 1, 0, next),
                    sight(6, 1, 0, ended),
                    sight(7, 1, 0, next),
                ],
            ),
        ];
        for (what, trace) in forged {
            let place = trace.len() - 1;
            assert_eq!(follow(&protocol(), &trace[..place]), Ok(()), "before {what}");
            let unknown = Unknown { place, seen: trace[place] };
            assert_eq!(follow(&protocol(), &trace), Err(unknown), "{what}");
        }
    }
}
