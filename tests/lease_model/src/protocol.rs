//! The protocol: how large its world is, which guards stand, and what can happen next.
//!
//! ```text
//!   executor                     the wire                   the row
//!   ────────                     ────────                   ───────
//!   lease ──────────────────────────────────────────────▶  epoch + 1, version + 1
//!   work: the head moves ──▶ flight (version, epoch) ────▶  fits? applied : lost
//!   hear  ◀─────────────────────── answer ◀───────────────
//! ```
//!
//! A flight may arrive late, twice, or after its executor is gone; its answer may be lost.

use super::rules;
use super::state::{Executor, Held, Life, Row, State, Step, Work};
use stateright::{Model, Property};

/// The world's size, and what can go wrong in it.
#[derive(Debug, Clone)]
pub struct Protocol {
    /// What the steps of every run ask for.
    pub plan: Vec<Step>,
    /// How many runs there are.
    pub runs: usize,
    /// The number of working executors. One that has ended or hangs is replaced.
    pub at_once: usize,
    /// The most faults: a crash, a freeze, lost heartbeats, a drain, a lost answer.
    pub mishaps: u8,
    /// How often a user changes a run from outside.
    pub cancels: u8,
    /// Heartbeat intervals of silence after which a process is taken for dead.
    pub age_limit: u8,
    /// The active guards.
    pub guards: Guards,
}

/// The guards of the protocol, each of which can be taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guards {
    /// A write names the version that it was thought out over.
    pub version: bool,
    /// A write names the epoch that it was thought out under.
    pub epoch: bool,
    /// Every lease raises the epoch.
    pub epoch_rises: bool,
    /// An executor that reads the row again checks that it still holds the lease.
    pub lease_looked_at: bool,
    /// What was thought out over a lost change is lost.
    pub line_ends: bool,
    /// A writer without an answer reads the journal.
    pub journal_asked: bool,
    /// An effect begins when its intent is stored.
    pub intent_first: bool,
    /// An effect that must not be repeated and may have happened is asked about.
    pub unknown_asked: bool,
    /// A heartbeat renews the leases.
    pub beats_renew: bool,
    /// A draining executor takes no lease.
    pub drain_refuses: bool,
    /// Leases of the silent are taken over.
    pub silent_lose: bool,
    /// A heartbeat shows leases that its executor does not know of.
    pub forgotten_found: bool,
    /// An executor without contact for the limit has ended the calls that others would repeat, and
    /// starts none.
    pub silence_ends: bool,
}

impl Guards {
    /// The protocol as it is.
    pub const ALL: Self = Self {
        version: true,
        epoch: true,
        epoch_rises: true,
        lease_looked_at: true,
        line_ends: true,
        journal_asked: true,
        intent_first: true,
        unknown_asked: true,
        beats_renew: true,
        drain_refuses: true,
        silent_lose: true,
        forgotten_found: true,
        silence_ends: true,
    };
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A heartbeat interval passes.
    Tick,
    /// Something happens to a process.
    Process(usize, Fate),
    /// An executor takes a lease.
    Lease {
        /// Who.
        by: usize,
        /// Which run.
        run: usize,
        /// Why it may.
        claim: Claim,
        /// Whether it receives the answer.
        heard: bool,
    },
    /// An executor takes the next step under a lease.
    Work {
        /// Who.
        by: usize,
        /// Which run.
        run: usize,
        /// Under which lease.
        lease: u8,
        /// What.
        deed: Deed,
    },
    /// A flight reaches the database.
    Arrive(usize),
    /// An executor gives up waiting for the answer to a flight, and sends it again.
    Doubt(usize),
    /// The user allows an open effect to be repeated.
    Answer(usize),
    /// The user ends a run.
    Cancel(usize),
    /// The gate ends a run.
    Judge(usize),
}

/// What can happen to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It starts.
    Start,
    /// It is killed.
    Crash,
    /// It is stopped in the middle of everything.
    Freeze,
    /// It continues.
    Thaw,
    /// Its heartbeats no longer arrive.
    Mute,
    /// They arrive again.
    Unmute,
    /// It is asked to stop.
    Drain,
    /// It ends, with nothing in its hands.
    Stop,
}

/// Why a lease may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Claim {
    /// No executor holds it.
    Free,
    /// Its holder has been silent for too long.
    Orphaned,
    /// It is the executor's own, and it does not know.
    Forgotten,
    /// The same, and the executor has no free slot: it is released.
    Unwanted,
}

/// One step of the work under a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Deed {
    /// Starts the steps of a run that was free.
    Start,
    /// Takes a turn without an effect, and continues.
    Look,
    /// Hands an intent in.
    Intend,
    /// Uses the user's leave to repeat an effect.
    UseAnswer,
    /// Begins the effect.
    Begin,
    /// Hands the outcome in.
    Conclude,
    /// Asks the user about an open effect and gives the lease back.
    Ask,
    /// Gives the lease back, because it drains.
    GiveBack,
    /// Receives the answer to the first write.
    Hear,
    /// Reads the row again after a change was lost.
    CatchUp,
    /// Learns that the lease is another's.
    Notice,
}

impl Deed {
    /// What an executor could do while the work is so far.
    fn during(work: Work) -> &'static [Self] {
        match work {
            Work::Starting => &[Self::Start, Self::Notice],
            Work::Thinking => &[
                Self::Look,
                Self::Intend,
                Self::UseAnswer,
                Self::Begin,
                Self::Ask,
                Self::GiveBack,
                Self::Hear,
                Self::CatchUp,
                Self::Notice,
            ],
            Work::Intending => &[Self::Begin, Self::Hear, Self::CatchUp, Self::Notice],
            Work::Acting(_) => {
                &[Self::Conclude, Self::GiveBack, Self::Hear, Self::CatchUp, Self::Notice]
            }
            Work::Concluding(_) | Work::Leaving => &[Self::Hear, Self::CatchUp, Self::Notice],
        }
    }
}

impl Fate {
    /// What could happen to a process.
    fn of(life: Life) -> &'static [Self] {
        match life {
            Life::Unborn => &[Self::Start],
            Life::Awake => &[Self::Crash, Self::Freeze, Self::Mute, Self::Drain, Self::Stop],
            Life::Mute => &[Self::Crash, Self::Unmute, Self::Drain, Self::Stop],
            Life::Frozen => &[Self::Thaw],
            Life::Gone => &[],
        }
    }

    /// Whether it must happen when it can: a hanging process is replaced and a finished one ends,
    /// but a frozen process may never continue.
    pub fn is_certain(self) -> bool {
        match self {
            Self::Start | Self::Stop => true,
            Self::Crash | Self::Freeze | Self::Thaw | Self::Mute | Self::Unmute | Self::Drain => {
                false
            }
        }
    }

    /// Whether it is one of those that happen so often at most.
    pub fn is_mishap(self) -> bool {
        match self {
            Self::Crash | Self::Freeze | Self::Mute | Self::Drain => true,
            Self::Start | Self::Thaw | Self::Unmute | Self::Stop => false,
        }
    }
}

impl Protocol {
    /// The protocol with every guard, over runs of `plan`.
    pub fn new(plan: &[Step]) -> Self {
        Self {
            plan: plan.to_vec(),
            runs: 1,
            at_once: 2,
            mishaps: 2,
            cancels: 1,
            age_limit: 1,
            guards: Guards::ALL,
        }
    }

    /// The current step of a run; none when all are done.
    pub fn step(&self, place: usize) -> Option<Step> {
        self.plan.get(place).copied()
    }

    fn leases(state: &State, by: usize, actions: &mut Vec<Action>) {
        for (run, row) in state.rows.iter().enumerate() {
            let claim = match row.owner {
                None => Claim::Free,
                Some(owner) if owner == by => Claim::Forgotten,
                Some(_) => Claim::Orphaned,
            };
            actions.push(Action::Lease { by, run, claim, heard: true });
            if claim == Claim::Forgotten {
                actions.push(Action::Lease { by, run, claim: Claim::Unwanted, heard: true });
            }
            if state.mishaps > 0 {
                actions.push(Action::Lease { by, run, claim, heard: false });
            }
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        // Each fault may cost one process, and one must be left.
        let identities = self.at_once + usize::from(self.mishaps);
        let life = |place| if place < self.at_once { Life::Awake } else { Life::Unborn };
        vec![State {
            rows: vec![Row::new(self.plan.len()); self.runs],
            executors: (0..identities).map(|place| Executor::new(life(place))).collect(),
            wire: Vec::new(),
            mishaps: self.mishaps,
            cancels: self.cancels,
            broken: Vec::new(),
        }]
    }

    /// Everything that could be tried; what cannot happen has no next state.
    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if !state.broken.is_empty() {
            return;
        }
        actions.push(Action::Tick);
        for (by, executor) in state.executors.iter().enumerate() {
            let fates = Fate::of(executor.life).iter();
            let possible = fates.filter(|fate| state.mishaps > 0 || !fate.is_mishap());
            actions.extend(possible.map(|fate| Action::Process(by, *fate)));
            if executor.acts() {
                Self::leases(state, by, actions);
                for &Held { run, lease, work, .. } in &executor.held {
                    let deeds = Deed::during(work).iter();
                    actions.extend(deeds.map(|&deed| Action::Work { by, run, lease, deed }));
                }
            }
        }
        for (place, flight) in state.wire.iter().enumerate() {
            if flight.outcome.is_none() {
                actions.push(Action::Arrive(place));
            }
            if state.mishaps > 0 {
                actions.push(Action::Doubt(place));
            }
        }
        for run in 0..state.rows.len() {
            actions.extend([Action::Answer(run), Action::Cancel(run), Action::Judge(run)]);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        rules::happen(self, &mut next, action)?;
        next.tidy();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        super::laws::properties()
    }
}
