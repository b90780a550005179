//! Forks: runs that begin at a step of an earlier run, with its plan and its done steps as given.
//!
//! ```text
//!   earlier run   a done   b done   c failed
//!                   |        |
//!   fork from c   a done   b done   c anew --> its own receipts, its own verification
//!                 (inherited)
//! ```

use super::Graph;
use super::draft::Draft;
use crate::domain::fork::ForkedFrom;
use crate::domain::journal::Entry;
use crate::domain::machine::Refusal;
use crate::domain::step::StepState;

impl Draft {
    /// Accepts the plan of an earlier run, whose steps that the fork names are done from the start.
    ///
    /// # Errors
    /// [`Refusal`] unless the run is in INTAKE or PLANNING, and for a step that the plan does not have.
    pub fn start_fork(
        &mut self,
        graph: &Graph,
        revision: u32,
        fork: &ForkedFrom,
    ) -> Result<(), Refusal> {
        let inherited = fork.steps.iter().map(|id| graph.place(id).ok_or(Refusal::Meaningless));
        let inherited = inherited.collect::<Result<Vec<_>, _>>()?;
        self.journal(Entry::Forked(Box::new(fork.clone())));
        let cause = format!("it was done in run {}", fork.run_id);
        self.start_plan_after(graph, revision, (&inherited, cause))
    }
}

/// The steps that a fork from the step at `from` has as done: of those before it in the plan that do not depend on
/// it, and of those that any of them needs, the ones that are done. In the plan's order.
///
/// # Errors
/// The steps that it depends on, directly or through others, and that are not done.
pub fn inherited_steps(
    graph: &Graph,
    from: usize,
    states: &[StepState],
) -> Result<Vec<usize>, Vec<usize>> {
    let is_done = |index: &usize| states.get(*index) == Some(&StepState::Done);
    let needed = needed_by(graph, vec![from]);
    let open: Vec<usize> =
        needed.iter().copied().filter(|index| *index != from && !is_done(index)).collect();
    if !open.is_empty() {
        return Err(open);
    }
    let before = (0..from).filter(|index| !needed_by(graph, vec![*index]).contains(&from));
    // What is not done cannot have been needed by a done step.
    let given = before.filter(is_done).chain(graph.dependencies(from).iter().copied()).collect();
    Ok(needed_by(graph, given).into_iter().filter(is_done).collect())
}

/// These steps and all that they depend on, in the plan's order.
fn needed_by(graph: &Graph, steps: Vec<usize>) -> Vec<usize> {
    let mut found = vec![false; graph.len()];
    let mut open = steps;
    while let Some(index) = open.pop() {
        let Some(seen) = found.get_mut(index) else { continue };
        if !std::mem::replace(seen, true) {
            open.extend(graph.dependencies(index));
        }
    }
    (0..graph.len()).filter(|index| found.get(*index) == Some(&true)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::plan::{Plan, PlanStep};

    /// A plan, the step of the fork, the states, and what is inherited or open.
    type Case = (&'static [&'static str], usize, &'static str, Result<&'static str, &'static str>);

    /// A plan from lines such as `c: a b`.
    fn graph(lines: &[&str]) -> Graph {
        let step = |line: &&str| {
            let (id, needs) = line.split_once(':').unwrap();
            let dependencies = needs.split_whitespace().map(str::to_owned).collect();
            PlanStep { id: id.to_owned(), dependencies, ..PlanStep::default() }
        };
        Graph::of(&Plan { steps: lines.iter().map(step).collect(), ..Plan::default() })
    }

    fn states(letters: &str) -> Vec<StepState> {
        let state = |letter| match letter {
            'd' => StepState::Done,
            'f' => StepState::Failed,
            _ => StepState::Pending,
        };
        letters.chars().map(state).collect()
    }

    #[test]
    fn a_fork_has_the_done_steps_before_its_own() {
        let names = |found: Vec<usize>| {
            found.into_iter().filter_map(|index| "abcd".get(index..=index)).collect::<String>()
        };
        let cases: [Case; 11] = [
            // A chain: what comes before.
            (&["a:", "b: a", "c: b"], 1, "ddd", Ok("a")),
            (&["a:", "b: a", "c: b"], 2, "ddf", Ok("ab")),
            (&["a:", "b: a", "c: b"], 0, "ddd", Ok("")),
            // A step that needs none is inherited when it stands before, and is done.
            (&["a:", "b:", "c:"], 2, "ddd", Ok("ab")),
            (&["a:", "b:", "c:"], 2, "fdd", Ok("b")),
            (&["a:", "b:", "c:"], 0, "ddd", Ok("")),
            // What depends on the step begins anew, wherever it stands.
            (&["a: c", "b:", "c:"], 2, "ddd", Ok("b")),
            // What an inherited step needs is inherited, wherever it stands.
            (&["a: d", "b:", "c:", "d:"], 1, "dddd", Ok("ad")),
            (&["a: c", "b:", "c:"], 0, "ddd", Ok("c")),
            // What the step needs has to be done, through others too.
            (&["a:", "b: a", "c: b"], 2, "dpf", Err("b")),
            (&["a:", "b: a", "c: b"], 2, "ffp", Err("ab")),
        ];
        for (lines, from, letters, expected) in cases {
            let found = inherited_steps(&graph(lines), from, &states(letters));
            let found = found.map(names).map_err(names);
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(found, expected, "{lines:?} from {from} with {letters}");
        }
    }
}
