//! What the world of the model consists of: rows, executors, and writes that are on their way.

use super::protocol::Protocol;

/// Who wrote something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Author {
    /// An executor, by its place among the identities.
    Executor(usize),
    /// A writer without a lease: the planner for a user, or the gate.
    Outside,
}

/// A step of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A turn that does nothing to the world.
    Look,
    /// A tool call that does.
    Effect {
        /// Whether it may be repeated when it is unknown whether it happened.
        repeatable: bool,
    },
    /// The gate's verdict, which ends the run.
    Verdict,
}

/// What of a row the work moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Content {
    /// The step that is worked on, by its place in the plan.
    pub step: usize,
    /// The step's effect is written down and its outcome is not.
    pub open: bool,
    /// The user allowed the open effect to be repeated once.
    pub may_repeat: bool,
    /// The run waits for the user.
    pub asks: bool,
    /// The run is over.
    pub ended: bool,
}

/// What a write must still find, and whose row it was thought out over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seen {
    /// The row's version.
    pub version: u8,
    /// The row's lease epoch.
    pub epoch: u8,
    /// The writer of that version. No guard reads it: it shows the laws what the guards let
    /// through.
    pub by: Author,
}

/// One run's row in the database.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Row {
    /// What a write must name.
    pub fence: Seen,
    /// Who holds the lease.
    pub owner: Option<usize>,
    /// What the work moves.
    pub content: Content,
    /// Who wrote first under the present epoch.
    pub epoch_of: Author,
    /// What happened to each step, for the laws.
    pub tallies: Vec<Tally>,
}

/// What happened to one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// An intent was stored.
    pub intended: bool,
    /// How often its effect was begun.
    pub begun: u8,
    /// How often a user decided that it may be repeated.
    pub decided: u8,
    /// How often its end was stored.
    pub finished: u8,
}

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Life {
    /// Not started.
    Unborn,
    /// At work.
    Awake,
    /// At work, but its heartbeats do not arrive.
    Mute,
    /// Stopped at any point, and possibly continued later.
    Frozen,
    /// Killed, or ended.
    Gone,
}

/// One executor process, which never restarts under the same identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Executor {
    /// The state of the process.
    pub life: Life,
    /// It was asked to stop.
    pub draining: bool,
    /// Heartbeat intervals since its last heartbeat, up to the limit.
    pub silent: u8,
    /// The leases it works under, as far as it knows, by run and epoch.
    pub held: Vec<Held>,
}

/// Work under one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Held {
    /// The run.
    pub run: usize,
    /// The lease's epoch.
    pub lease: u8,
    /// The row as the changes so far leave it, stored or not.
    pub head: Seen,
    /// The same row's content.
    pub content: Content,
    /// How far the work is.
    pub work: Work,
    /// A change is known to be lost.
    pub overtaken: bool,
}

/// How far the work under a lease is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// A free run was claimed: its steps are to be started.
    Starting,
    /// The next turn can be taken.
    Thinking,
    /// An intent was handed in.
    Intending,
    /// The effect of a step was begun; its outcome is not handed in.
    Acting(usize),
    /// The outcome was handed in.
    Concluding(usize),
    /// A change that gives the lease back was handed in.
    Leaving,
}

/// A submitted write whose answer was not received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flight {
    /// The executor that handed it in.
    pub by: usize,
    /// The run.
    pub run: usize,
    /// The lease it was handed in under.
    pub lease: u8,
    /// A copy whose answer is not awaited any more.
    pub stray: bool,
    /// What it was thought out over.
    pub read: Seen,
    /// Who holds the lease afterwards.
    pub owner: Option<usize>,
    /// The row's content afterwards.
    pub content: Content,
    /// The step whose end it stores.
    pub finishes: Option<usize>,
    /// It was sent before, with an unknown outcome.
    pub again: bool,
    /// The journal holds it.
    pub stored: bool,
    /// The answer, on its way back.
    pub outcome: Option<Outcome>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// It is stored.
    Applied,
    /// Its guard found another row.
    Lost,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The rows, by run.
    pub rows: Vec<Row>,
    /// The processes, by identity.
    pub executors: Vec<Executor>,
    /// Writes on their way; those of one lease in the order they were handed in.
    pub wire: Vec<Flight>,
    /// Remaining faults.
    pub mishaps: u8,
    /// Changes of mind of the user that can still happen.
    pub cancels: u8,
    /// Laws that were broken. Nothing happens after that.
    pub broken: Vec<super::laws::Law>,
}

impl Row {
    /// A run that waits for an executor.
    pub fn new(steps: usize) -> Self {
        Self {
            fence: Seen { version: 1, epoch: 0, by: Author::Outside },
            owner: None,
            content: Content { step: 0, open: false, may_repeat: false, asks: false, ended: false },
            epoch_of: Author::Outside,
            tallies: vec![Tally::default(); steps],
        }
    }

    /// Whether an executor could continue it.
    pub fn needs_executor(&self) -> bool {
        !self.content.ended && !self.content.asks
    }
}

impl Held {
    /// Whether an effect is under way that others would repeat without asking.
    pub fn is_repeated(&self, protocol: &Protocol) -> bool {
        let Work::Acting(place) = self.work else { return false };
        protocol.step(place) == Some(Step::Effect { repeatable: true })
    }
}

impl Executor {
    /// A process, started or not.
    pub fn new(life: Life) -> Self {
        Self { life, draining: false, silent: 0, held: Vec::new() }
    }

    /// Whether it takes steps.
    pub fn acts(&self) -> bool {
        matches!(self.life, Life::Awake | Life::Mute)
    }

    /// Whether an effect of a run is running that others repeat without asking, and the process
    /// could have ended it.
    pub fn is_repeated(&self, protocol: &Protocol, run: usize) -> bool {
        let acting = |held: &Held| held.run == run && held.is_repeated(protocol);
        self.life == Life::Mute && self.held.iter().any(acting)
    }

    /// Whether it can take leases. One without contact takes none here; a real one might, and would
    /// lose them at the next scan of another.
    pub fn claims(&self) -> bool {
        self.life == Life::Awake && self.silent == 0
    }
}

impl State {
    /// The writes of one lease whose answers are waited for, in order.
    pub fn pending(&self, by: usize, held: &Held) -> impl Iterator<Item = &Flight> {
        let (run, lease) = (held.run, held.lease);
        self.wire.iter().filter(move |flight| flight.is_of(by, run, lease) && !flight.stray)
    }

    /// Work under a lease, when the executor knows that it holds it.
    pub fn held(&mut self, by: usize, run: usize, lease: u8) -> Option<&mut Held> {
        let held = &mut self.executors.get_mut(by)?.held;
        held.iter_mut().find(|held| held.run == run && held.lease == lease)
    }

    /// Ends the work under a lease.
    pub fn forget(&mut self, by: usize, run: usize, lease: u8) {
        if let Some(executor) = self.executors.get_mut(by) {
            executor.held.retain(|held| held.run != run || held.lease != lease);
        }
    }

    /// Drops answers that are not awaited, and normalizes the order of the wire per lease.
    pub fn tidy(&mut self) {
        let executors = &self.executors;
        self.wire.retain(|flight| {
            let held = executors.get(flight.by).map(|executor| &executor.held);
            let listens = held.is_some_and(|held| {
                held.iter().any(|held| flight.is_of(flight.by, held.run, held.lease))
            });
            flight.outcome.is_none() || (listens && !flight.stray)
        });
        self.wire.sort_by_key(|flight| (flight.by, flight.run, flight.lease, flight.stray));
    }

    /// Whether every run has ended.
    pub fn is_over(&self) -> bool {
        self.rows.iter().all(|row| row.content.ended)
    }
}

impl Flight {
    /// Whether it was handed in under this lease.
    pub fn is_of(&self, by: usize, run: usize, lease: u8) -> bool {
        self.by == by && self.run == run && self.lease == lease
    }
}
