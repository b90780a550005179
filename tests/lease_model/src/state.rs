//! What the world of the model consists of: rows, executors, and writes that are on their way.

use super::protocol::Protocol;

/// Who wrote something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Author {
    /// An executor, by its place among the identities.
    Executor(usize),
    /// A writer without a lease: the planner for a user, or the gate.
    Outside,
}

/// A step of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Step {
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
pub(crate) struct Content {
    /// The step that is worked on, by its place in the plan.
    pub(crate) step: usize,
    /// The step's effect is written down and its outcome is not.
    pub(crate) open: bool,
    /// The user allowed the open effect to be repeated once.
    pub(crate) may_repeat: bool,
    /// The run waits for the user.
    pub(crate) asks: bool,
    /// The run is over.
    pub(crate) ended: bool,
}

/// What a write must still find, and whose row it was thought out over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Seen {
    /// The row's version.
    pub(crate) version: u8,
    /// The row's lease epoch.
    pub(crate) epoch: u8,
    /// The writer of that version. No guard reads it: it shows the laws what the guards let
    /// through.
    pub(crate) by: Author,
}

/// One run's row in the database.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    /// What a write must name.
    pub(crate) fence: Seen,
    /// Who holds the lease.
    pub(crate) owner: Option<usize>,
    /// What the work moves.
    pub(crate) content: Content,
    /// Who wrote first under the present epoch.
    pub(crate) epoch_of: Author,
    /// What happened to each step, for the laws.
    pub(crate) tallies: Vec<Tally>,
}

/// What happened to one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tally {
    /// An intent was stored.
    pub(crate) intended: bool,
    /// How often its effect was begun.
    pub(crate) begun: u8,
    /// How often a user decided that it may be repeated.
    pub(crate) decided: u8,
    /// How often its end was stored.
    pub(crate) finished: u8,
}

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Life {
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
pub(crate) struct Executor {
    /// The state of the process.
    pub(crate) life: Life,
    /// It was asked to stop.
    pub(crate) draining: bool,
    /// Heartbeat intervals since its last heartbeat, up to the limit.
    pub(crate) silent: u8,
    /// The leases it works under, as far as it knows, by run and epoch.
    pub(crate) held: Vec<Held>,
}

/// Work under one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Held {
    /// The run.
    pub(crate) run: usize,
    /// The lease's epoch.
    pub(crate) lease: u8,
    /// The row as the changes so far leave it, stored or not.
    pub(crate) head: Seen,
    /// The same row's content.
    pub(crate) content: Content,
    /// How far the work is.
    pub(crate) work: Work,
    /// A change is known to be lost.
    pub(crate) overtaken: bool,
}

/// How far the work under a lease is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Work {
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
pub(crate) struct Flight {
    /// The executor that handed it in.
    pub(crate) by: usize,
    /// The run.
    pub(crate) run: usize,
    /// The lease it was handed in under.
    pub(crate) lease: u8,
    /// A copy whose answer is not awaited any more.
    pub(crate) stray: bool,
    /// What it was thought out over.
    pub(crate) read: Seen,
    /// Who holds the lease afterwards.
    pub(crate) owner: Option<usize>,
    /// The row's content afterwards.
    pub(crate) content: Content,
    /// The step whose end it stores.
    pub(crate) finishes: Option<usize>,
    /// It was sent before, with an unknown outcome.
    pub(crate) again: bool,
    /// The journal holds it.
    pub(crate) stored: bool,
    /// The answer, on its way back.
    pub(crate) outcome: Option<Outcome>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// It is stored.
    Applied,
    /// Its guard found another row.
    Lost,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The rows, by run.
    pub(crate) rows: Vec<Row>,
    /// The processes, by identity.
    pub(crate) executors: Vec<Executor>,
    /// Writes on their way; those of one lease in the order they were handed in.
    pub(crate) wire: Vec<Flight>,
    /// Remaining faults.
    pub(crate) mishaps: u8,
    /// Changes of mind of the user that can still happen.
    pub(crate) cancels: u8,
    /// Laws that were broken. Nothing happens after that.
    pub(crate) broken: Vec<super::laws::Law>,
}

impl Row {
    /// A run that waits for an executor.
    pub(crate) fn new(steps: usize) -> Self {
        Self {
            fence: Seen { version: 1, epoch: 0, by: Author::Outside },
            owner: None,
            content: Content { step: 0, open: false, may_repeat: false, asks: false, ended: false },
            epoch_of: Author::Outside,
            tallies: vec![Tally::default(); steps],
        }
    }

    /// Whether an executor could continue it.
    pub(crate) fn needs_executor(&self) -> bool {
        !self.content.ended && !self.content.asks
    }
}

impl Held {
    /// Whether an effect is under way that others would repeat without asking.
    pub(crate) fn is_repeated(&self, protocol: &Protocol) -> bool {
        let Work::Acting(place) = self.work else { return false };
        protocol.step(place) == Some(Step::Effect { repeatable: true })
    }
}

impl Executor {
    /// A process, started or not.
    pub(crate) fn new(life: Life) -> Self {
        Self { life, draining: false, silent: 0, held: Vec::new() }
    }

    /// Whether it takes steps.
    pub(crate) fn acts(&self) -> bool {
        matches!(self.life, Life::Awake | Life::Mute)
    }

    /// Whether an effect of a run is running that others repeat without asking, and the process
    /// could have ended it.
    pub(crate) fn is_repeated(&self, protocol: &Protocol, run: usize) -> bool {
        let acting = |held: &Held| held.run == run && held.is_repeated(protocol);
        self.life == Life::Mute && self.held.iter().any(acting)
    }

    /// Whether it can take leases. One without contact takes none here; a real one might, and would
    /// lose them at the next scan of another.
    pub(crate) fn claims(&self) -> bool {
        self.life == Life::Awake && self.silent == 0
    }
}

impl State {
    /// The writes of one lease whose answers are waited for, in order.
    pub(crate) fn pending(&self, by: usize, held: &Held) -> impl Iterator<Item = &Flight> {
        let (run, lease) = (held.run, held.lease);
        self.wire.iter().filter(move |flight| flight.is_of(by, run, lease) && !flight.stray)
    }

    /// Work under a lease, when the executor knows that it holds it.
    pub(crate) fn held(&mut self, by: usize, run: usize, lease: u8) -> Option<&mut Held> {
        let held = &mut self.executors.get_mut(by)?.held;
        held.iter_mut().find(|held| held.run == run && held.lease == lease)
    }

    /// Ends the work under a lease.
    pub(crate) fn forget(&mut self, by: usize, run: usize, lease: u8) {
        if let Some(executor) = self.executors.get_mut(by) {
            executor.held.retain(|held| held.run != run || held.lease != lease);
        }
    }

    /// Drops answers that are not awaited, and normalizes the order of the wire per lease.
    pub(crate) fn tidy(&mut self) {
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
    pub(crate) fn is_over(&self) -> bool {
        self.rows.iter().all(|row| row.content.ended)
    }
}

impl Flight {
    /// Whether it was handed in under this lease.
    pub(crate) fn is_of(&self, by: usize, run: usize, lease: u8) -> bool {
        self.by == by && self.run == run && self.lease == lease
    }
}
