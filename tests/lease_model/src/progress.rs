//! Whether every run can still end, from wherever the world has come to.
//!
//! The checker's own "eventually" knows only paths without loops, and this world has loops (a
//! heartbeat may pass any number of times). So the whole graph is walked: from every state that can
//! be reached, whatever mishaps lie behind it, an end must be in reach by actions that are certain
//! to happen. In a finite graph that is liveness under fairness: no certain action is put off for
//! ever.

use super::protocol::{Action, Protocol};
use super::state::State;
use stateright::Model;
use std::collections::{HashMap, VecDeque};

/// Whether an action may never happen: a run must reach its end without it.
fn is_certain(action: Action) -> bool {
    match action {
        Action::Tick | Action::Arrive(_) | Action::Answer(_) | Action::Judge(_) => true,
        Action::Work { .. } => true,
        Action::Lease { heard, .. } => heard,
        Action::Process(_, fate) => fate.is_certain(),
        Action::Doubt(_) | Action::Cancel(_) => false,
    }
}

/// A state from which no certain actions lead to the end of every run; none when there is none.
pub(crate) fn stuck(protocol: &Protocol) -> Option<State> {
    let mut graph = Graph::default();
    let mut todo: VecDeque<usize> =
        protocol.init_states().into_iter().map(|state| graph.enter(state).0).collect();
    while let Some(place) = todo.pop_front() {
        let state = graph.states[place].clone();
        let mut actions = Vec::new();
        protocol.actions(&state, &mut actions);
        for action in actions {
            let Some(next) = protocol.next_state(&state, action) else { continue };
            let (next, new) = graph.enter(next);
            if is_certain(action) {
                graph.before[next].push(place);
            }
            if new {
                todo.push_back(next);
            }
        }
    }
    graph.first_without_end()
}

/// Every state that can be reached, and from where each is reached by certain actions.
#[derive(Default)]
struct Graph {
    places: HashMap<State, usize>,
    states: Vec<State>,
    before: Vec<Vec<usize>>,
}

impl Graph {
    fn enter(&mut self, state: State) -> (usize, bool) {
        if let Some(place) = self.places.get(&state) {
            return (*place, false);
        }
        let place = self.states.len();
        self.places.insert(state.clone(), place);
        self.states.push(state);
        self.before.push(Vec::new());
        (place, true)
    }

    fn first_without_end(self) -> Option<State> {
        let mut ends = vec![false; self.states.len()];
        let mut todo: Vec<usize> =
            (0..self.states.len()).filter(|place| self.states[*place].is_over()).collect();
        todo.iter().for_each(|place| ends[*place] = true);
        while let Some(place) = todo.pop() {
            for &before in &self.before[place] {
                if !std::mem::replace(&mut ends[before], true) {
                    todo.push(before);
                }
            }
        }
        self.states.into_iter().zip(ends).find(|(_, ends)| !ends).map(|(state, _)| state)
    }
}
