//! The leases of waits as a model: agents that lease, die, are late and repeat themselves, over a step of two
//! turns.
//!
//! The fence is the pair of the wait's present lease and the number of the turn. Each of the two can be left
//! out, and then the model finds the law that breaks.

use stateright::{Checker, Model, Property};

/// The turns of the step.
const TURNS: u8 = 2;
/// The most leases that are given.
const LEASES: u8 = 3;

/// What a submitted decision is compared with.
#[derive(Debug, Clone, Copy)]
struct Waits {
    agents: u8,
    /// Whether an answer has to come under the present lease.
    fenced: bool,
    /// Whether an answer has to name the turn that is next.
    numbered: bool,
}

/// A decision as it was sent. It may arrive later, again, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Decision {
    epoch: u8,
    turn: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    /// The number of the next turn; TURNS when the step is done.
    next: u8,
    /// The token of the present lease.
    lease: Option<u8>,
    given: u8,
    answered: Option<Decision>,
    /// What each agent works on.
    held: Vec<Option<Decision>>,
    sent: Vec<Decision>,
    /// The decisions that became turns.
    taken: Vec<Decision>,
    /// Whether an answer was stored of an agent that did not hold the wait.
    usurped: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Lease(usize),
    /// The lease is released, or nothing was heard of its agent.
    End,
    Send(usize),
    Arrive(Decision),
    /// The executor takes the turn; the next wait of the step is leased to the same agent.
    Take,
    /// The agent learns of its next turn.
    Learn(usize),
    Die(usize),
}

impl Model for Waits {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let held = vec![None; usize::from(self.agents)];
        let (next, given) = (0, 0);
        let (lease, answered) = (None, None);
        let (sent, taken) = (Vec::new(), Vec::new());
        vec![State { next, lease, given, answered, held, sent, taken, usurped: false }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let open = state.next < TURNS && state.answered.is_none();
        for (agent, held) in state.held.iter().enumerate() {
            match held {
                None if open && state.lease.is_none() && state.given < LEASES => {
                    actions.push(Action::Lease(agent));
                }
                None => {}
                Some(work) => {
                    actions.push(Action::Die(agent));
                    if !state.sent.contains(work) {
                        actions.push(Action::Send(agent));
                    }
                    if state.lease == Some(work.epoch) && open && state.next > work.turn {
                        actions.push(Action::Learn(agent));
                    }
                }
            }
        }
        if state.lease.is_some() {
            actions.push(Action::End);
        }
        actions.extend(state.sent.iter().copied().map(Action::Arrive));
        if state.answered.is_some() {
            actions.push(Action::Take);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Lease(agent) => {
                state.given += 1;
                state.lease = Some(state.given);
                state.held[agent] = Some(Decision { epoch: state.given, turn: state.next });
            }
            Action::End => state.lease = None,
            Action::Send(agent) => {
                state.sent.extend(state.held[agent]);
                state.sent.sort_unstable();
            }
            Action::Arrive(decision) => {
                let held = state.lease == Some(decision.epoch);
                let open = state.next < TURNS && state.answered.is_none();
                let fits =
                    (held || !self.fenced) && (decision.turn == state.next || !self.numbered);
                if !(open && fits) {
                    return None;
                }
                state.usurped |= !held;
                state.answered = Some(decision);
            }
            Action::Take => {
                state.taken.extend(state.answered.take());
                state.next += 1;
                if state.next == TURNS {
                    state.lease = None;
                }
            }
            Action::Learn(agent) => {
                let next = state.next;
                state.held[agent].iter_mut().for_each(|work| work.turn = next);
            }
            Action::Die(agent) => state.held[agent] = None,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no decision becomes two turns", |_, state: &State| {
                (1..state.taken.len()).all(|at| !state.taken[..at].contains(&state.taken[at]))
            }),
            Property::always("only the holder answers", |_, state: &State| !state.usurped),
            Property::always("no turn follows one of a later lease", |_, state: &State| {
                state.taken.windows(2).all(|pair| pair[0].epoch <= pair[1].epoch)
            }),
            Property::sometimes("two agents share the step", |_, state: &State| {
                state.taken.len() == 2 && state.taken[0].epoch != state.taken[1].epoch
            }),
            Property::sometimes("one agent does it all", |_, state: &State| {
                state.taken.len() == 2 && state.taken[0].epoch == state.taken[1].epoch
            }),
        ]
    }
}

/// The laws that break.
fn broken(model: Waits) -> Vec<&'static str> {
    let checker = model.checker().threads(2).spawn_bfs().join();
    let found = checker.discoveries();
    let laws = checker.model().properties().into_iter().map(|property| property.name);
    let held = ["two agents share the step", "one agent does it all"];
    for wanted in held {
        assert!(found.contains_key(wanted), "{wanted}: is not possible");
    }
    laws.filter(|name| !held.contains(name) && found.contains_key(name)).collect()
}

#[test]
fn a_wait_is_answered_once_by_its_holder_whatever_dies_or_is_late() {
    assert_eq!(broken(Waits { agents: 2, fenced: true, numbered: true }), Vec::<&str>::new());
    assert_eq!(broken(Waits { agents: 3, fenced: true, numbered: true }), Vec::<&str>::new());
}

#[test]
fn each_half_of_the_fence_is_needed() {
    let unfenced = broken(Waits { agents: 2, fenced: false, numbered: true });
    assert_eq!(unfenced, ["only the holder answers"]);
    let unnumbered = broken(Waits { agents: 2, fenced: true, numbered: false });
    assert_eq!(unnumbered, ["no decision becomes two turns"]);
}
