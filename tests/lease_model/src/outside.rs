//! Changes of a run by processes that hold no lease of it, as a model: planners that end sleeps, and workers
//! that report receipts, beside an executor that works and a user who cancels.
//!
//! ```text
//!   planner:  look for due sleeps --> read the row --> end the sleep, under the version that was read
//!   worker:   send --> read the row and the answers --> receipt + answer, under that version --lost--> read again
//! ```
//!
//! Each guard can be left out, and then the model finds the law that breaks.

use stateright::{Checker, HasDiscoveries, Model, Property};

/// The last instant of the clock.
const LAST: u8 = 3;
/// The sleeps of the step, one after the other.
const SLEEPS: u8 = 2;
/// How often a worker sends the same report.
const SENT: u8 = 2;
/// The most changes of a run: each sleep begins and ends, one report, one cancel. Only a world that misses a
/// guard has more.
const CHANGES: u8 = 2 * SLEEPS + 2;

/// Which guards stand.
#[derive(Debug, Clone, Copy)]
struct Outside {
    /// A write names the version that its writer has read.
    versioned: bool,
    /// The answer of a report is stored with it, and read before it is recorded.
    answered: bool,
    /// A sleep is ended only if its own time has passed in the row that was read.
    timed: bool,
}

/// What the changes move.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Row {
    version: u8,
    /// When the present sleep ends.
    sleeps_until: Option<u8>,
    /// How many sleeps began.
    slept: u8,
    /// Which sleeps were ended, when they were to end, and when they did.
    ended_sleeps: Vec<(u8, u8, u8)>,
    /// How often the report was recorded.
    reports: u8,
    /// The answer of the report is stored.
    answer: bool,
    terminal: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    row: Row,
    clock: u8,
    /// What each planner has read of a run whose sleep it found due.
    planners: Vec<Option<Row>>,
    /// A planner has found the run due, and not read it yet.
    found: Vec<bool>,
    /// What each copy of the report has read; the outer none: not sent.
    copies: Vec<Option<Option<Row>>>,
    /// A change was replaced that its replacer had not read.
    overwrote: bool,
    /// A run changed after its end.
    revived: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Pass,
    /// The executor begins the next sleep of the step, which ends one instant later.
    Sleep,
    /// A planner's statement returns the run as due.
    Find(usize),
    Read(usize),
    /// A planner writes, or its write is lost.
    Wake(usize),
    /// A copy of the report is sent.
    Send(usize),
    /// The executor that received a copy reads the row and the stored answers.
    Look(usize),
    Record(usize),
    Cancel,
}

impl Outside {
    /// Writes `next` over the row where the guard allows it; whether it was written.
    fn write(self, state: &mut State, read: &Row, next: Row) -> bool {
        if self.versioned && read.version != state.row.version {
            return false;
        }
        state.overwrote |= read.version != state.row.version;
        state.revived |= state.row.terminal;
        let version = state.row.version + 1;
        state.row = Row { version, ..next };
        true
    }

    fn wake(self, state: &mut State, planner: usize) -> Option<()> {
        let read = state.planners[planner].take()?;
        let until = read.sleeps_until?;
        if read.terminal || (self.timed && until > state.clock) {
            return Some(());
        }
        let mut next = Row { sleeps_until: None, ..read.clone() };
        next.ended_sleeps.push((read.slept, until, state.clock));
        self.write(state, &read, next);
        Some(())
    }

    fn record(self, state: &mut State, copy: usize) -> Option<()> {
        let read = state.copies[copy].take()??;
        if read.terminal || (self.answered && read.answer) {
            return Some(());
        }
        let next = Row { reports: read.reports + 1, answer: true, ..read.clone() };
        if !self.write(state, &read, next) {
            state.copies[copy] = Some(None);
        }
        Some(())
    }
}

impl Model for Outside {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let row = Row {
            version: 0,
            sleeps_until: None,
            slept: 0,
            ended_sleeps: Vec::new(),
            reports: 0,
            answer: false,
            terminal: false,
        };
        let (planners, found) = (vec![None; 2], vec![false; 2]);
        let copies = vec![None; usize::from(SENT)];
        vec![State { row, clock: 0, planners, found, copies, overwrote: false, revived: false }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.clock < LAST {
            actions.push(Action::Pass);
        }
        let row = &state.row;
        if row.sleeps_until.is_none() && row.slept < SLEEPS && !row.terminal {
            actions.push(Action::Sleep);
        }
        for planner in 0..state.planners.len() {
            let due = !row.terminal && row.sleeps_until.is_some_and(|until| until <= state.clock);
            if due && !state.found[planner] && state.planners[planner].is_none() {
                actions.push(Action::Find(planner));
            }
            if state.found[planner] {
                actions.push(Action::Read(planner));
            }
            if state.planners[planner].is_some() {
                actions.push(Action::Wake(planner));
            }
        }
        for (copy, sent) in state.copies.iter().enumerate() {
            match sent {
                None if !row.answer => actions.push(Action::Send(copy)),
                None => {}
                Some(None) => actions.push(Action::Look(copy)),
                Some(Some(_)) => actions.push(Action::Record(copy)),
            }
        }
        if !row.terminal {
            actions.push(Action::Cancel);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Pass => state.clock += 1,
            Action::Sleep => {
                state.row.sleeps_until = Some(state.clock + 1);
                state.row.slept += 1;
                state.row.version += 1;
            }
            Action::Find(planner) => state.found[planner] = true,
            Action::Read(planner) => {
                state.found[planner] = false;
                state.planners[planner] = Some(state.row.clone());
            }
            Action::Wake(planner) => self.wake(&mut state, planner)?,
            Action::Send(copy) => state.copies[copy] = Some(None),
            Action::Look(copy) => state.copies[copy] = Some(Some(state.row.clone())),
            Action::Record(copy) => self.record(&mut state, copy)?,
            Action::Cancel => {
                state.row.terminal = true;
                state.row.version += 1;
            }
        }
        Some(state)
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.row.version <= CHANGES
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a sleep ends once", |_, state: &State| {
                state.row.ended_sleeps.windows(2).all(|pair| pair[0].0 < pair[1].0)
            }),
            Property::always("no sleep ends before its time", |_, state: &State| {
                state.row.ended_sleeps.iter().all(|(_, until, at)| until <= at)
            }),
            Property::always("a report is recorded once", |_, state: &State| {
                state.row.reports <= 1
            }),
            Property::always("nothing unread is replaced", |_, state: &State| !state.overwrote),
            Property::always("the end of a run stays", |_, state: &State| !state.revived),
            Property::sometimes("every sleep ends and the report is kept", |_, state: &State| {
                state.row.ended_sleeps.len() == usize::from(SLEEPS) && state.row.reports == 1
            }),
        ]
    }
}

const WANTED: &str = "every sleep ends and the report is kept";

/// The laws that break in a whole world.
fn broken(model: Outside) -> Vec<&'static str> {
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{} states: {model:?}", checker.unique_state_count());
    let found = checker.discoveries();
    assert!(found.contains_key(WANTED), "{WANTED}: is not possible");
    let laws = checker.model().properties().into_iter().map(|property| property.name);
    laws.filter(|name| *name != WANTED && found.contains_key(name)).collect()
}

#[test]
fn sleeps_and_reports_change_a_run_once_beside_every_other_writer() {
    let all = Outside { versioned: true, answered: true, timed: true };
    assert_eq!(broken(all), Vec::<&str>::new());
}

#[test]
fn each_guard_of_a_change_without_a_lease_is_needed() {
    let all = Outside { versioned: true, answered: true, timed: true };
    // Most laws break without the version, so the search ends with the first two.
    let laws = ["nothing unread is replaced", "the end of a run stays"];
    let search = Outside { versioned: false, ..all }.checker();
    let search = search.threads(2).finish_when(HasDiscoveries::AllOf(laws.into()));
    let found = search.spawn_bfs().join().discoveries();
    assert!(laws.iter().all(|law| found.contains_key(law)), "{:?}", found.keys());
    let unanswered = broken(Outside { answered: false, ..all });
    assert_eq!(unanswered, ["a report is recorded once"]);
    // A planner that found the first sleep due reads the row while the second one runs.
    let untimed = broken(Outside { timed: false, ..all });
    assert_eq!(untimed, ["no sleep ends before its time"]);
}
