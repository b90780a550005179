//! What each action does, and when it can happen: `None` when it cannot.

use super::laws::{Law, broken_by_write};
use super::protocol::{Action, Claim, Fate, Protocol};
use super::state::{Author, Flight, Held, Life, Outcome, Row, Seen, State, Step, Work};
use super::work;

/// Makes one action happen.
pub(crate) fn happen(protocol: &Protocol, state: &mut State, action: Action) -> Option<()> {
    match action {
        Action::Tick => tick(protocol, state),
        Action::Process(by, fate) => befall(protocol, state, by, fate),
        Action::Lease { by, run, claim, heard } => {
            if !heard {
                state.mishaps = state.mishaps.checked_sub(1)?;
            }
            lease(protocol, state, (by, run, claim), heard)
        }
        Action::Work { by, run, lease, deed } => work::act(protocol, state, (by, run, lease), deed),
        Action::Arrive(flight) => arrive(protocol, state, flight),
        Action::Doubt(flight) => doubt(state, flight),
        Action::Answer(run) => from_outside(state, run, |row| {
            let open = row.content.step;
            row.tallies.get_mut(open)?.decided += 1;
            row.content.may_repeat = true;
            std::mem::take(&mut row.content.asks).then_some(())
        }),
        Action::Cancel(run) => {
            state.cancels = state.cancels.checked_sub(1)?;
            from_outside(state, run, end)
        }
        Action::Judge(run) => {
            let row = state.rows.get(run)?;
            let judged = protocol.step(row.content.step) == Some(Step::Verdict);
            (judged && row.owner.is_some()).then_some(())?;
            from_outside(state, run, |row| {
                row.tallies.get_mut(row.content.step)?.finished += 1;
                end(row)
            })
        }
    }
}

/// Time is counted in heartbeats: every executor that can send one does so in each interval. Before
/// an executor has been silent for the limit, it has ended the calls that others would repeat. A
/// frozen one does so before its next heartbeat. Submitted writes may still arrive.
fn tick(protocol: &Protocol, state: &mut State) -> Option<()> {
    let mut passed = false;
    for executor in &mut state.executors {
        let silent = match executor.life {
            Life::Unborn | Life::Awake => 0,
            Life::Mute | Life::Frozen | Life::Gone => (executor.silent + 1).min(protocol.age_limit),
        };
        passed |= silent != executor.silent;
        let too_long = silent.max(executor.silent) >= protocol.age_limit;
        if too_long && executor.life != Life::Frozen && protocol.guards.silence_ends {
            executor.held.retain(|held| !held.is_repeated(protocol));
        }
        executor.silent = silent;
    }
    passed.then_some(())
}

fn befall(protocol: &Protocol, state: &mut State, by: usize, fate: Fate) -> Option<()> {
    let awake = state.executors.iter().filter(|executor| executor.life == Life::Awake).count();
    let next = state.executors.iter().position(|executor| executor.life == Life::Unborn);
    let pending = state.wire.iter().any(|flight| flight.by == by && !flight.stray);
    let executor = state.executors.get_mut(by)?;
    let possible = match fate {
        Fate::Start => {
            executor.life == Life::Unborn && awake < protocol.at_once && next == Some(by)
        }
        Fate::Crash => executor.acts(),
        Fate::Freeze | Fate::Mute => executor.life == Life::Awake,
        Fate::Thaw => executor.life == Life::Frozen,
        Fate::Unmute => executor.life == Life::Mute,
        Fate::Drain => executor.acts() && !executor.draining,
        Fate::Stop => executor.acts() && executor.draining && executor.held.is_empty() && !pending,
    };
    possible.then_some(())?;
    match fate {
        Fate::Start | Fate::Thaw | Fate::Unmute => executor.life = Life::Awake,
        Fate::Crash | Fate::Stop => end_process(state, by)?,
        Fate::Freeze => executor.life = Life::Frozen,
        Fate::Mute => executor.life = Life::Mute,
        Fate::Drain => executor.draining = true,
    }
    state.mishaps = state.mishaps.checked_sub(u8::from(fate.is_mishap()))?;
    Some(())
}

/// A process loses its memory; its sent writes remain.
fn end_process(state: &mut State, by: usize) -> Option<()> {
    let executor = state.executors.get_mut(by)?;
    executor.life = Life::Gone;
    executor.held.clear();
    Some(())
}

/// One transaction over a locked row: it is read, and the lease is written.
fn lease(
    protocol: &Protocol,
    state: &mut State,
    (by, run, claim): (usize, usize, Claim),
    heard: bool,
) -> Option<()> {
    let guards = &protocol.guards;
    let executor = state.executors.get(by)?;
    let row = state.rows.get(run)?;
    let owner = row.owner.and_then(|owner| state.executors.get(owner));
    let silent = owner.is_some_and(|owner| owner.silent >= protocol.age_limit);
    let known = executor.held.iter().any(|held| held.run == run && held.lease == row.fence.epoch);
    let may = match claim {
        Claim::Free => row.owner.is_none() && row.needs_executor(),
        Claim::Orphaned => {
            guards.silent_lose
                && owner.is_some()
                && row.owner != Some(by)
                && (silent || !guards.beats_renew)
        }
        Claim::Forgotten | Claim::Unwanted => {
            guards.forgotten_found && row.owner == Some(by) && !known
        }
    };
    (may && executor.claims()).then_some(())?;
    if executor.draining && guards.drain_refuses {
        return (claim == Claim::Forgotten && heard).then(|| give_back(state, by, run))?;
    }
    if claim == Claim::Unwanted {
        return release(state, by, run);
    }
    let mut broken = Vec::new();
    if executor.draining {
        broken.push(Law::DrainTakesNothing);
    }
    if claim == Claim::Orphaned && !silent {
        broken.push(Law::LivingKeepTheirLeases);
    }
    if claim == Claim::Orphaned && owner.is_some_and(|owner| owner.is_repeated(protocol, run)) {
        broken.push(Law::OneAtWork);
    }
    let row = state.rows.get_mut(run)?;
    write_lease(row, by, guards.epoch_rises, &mut broken);
    let at_the_gate = protocol.step(row.content.step) == Some(Step::Verdict);
    let work = match claim {
        // The claim of a free run is one statement, and its steps are started by the next change.
        Claim::Free if !at_the_gate => Work::Starting,
        Claim::Free | Claim::Orphaned | Claim::Forgotten | Claim::Unwanted => Work::Thinking,
    };
    let held = fresh(run, row, work);
    state.broken.append(&mut broken);
    if heard {
        let leases = &mut state.executors.get_mut(by)?.held;
        leases.retain(|known| known.run != run || known.lease != held.lease);
        leases.push(held);
        leases.sort_unstable();
    }
    Some(())
}

/// A process that drains and whose work is over gives back what it holds without knowing: one
/// transaction over the locked row, which says under which lease.
fn give_back(state: &mut State, by: usize, run: usize) -> Option<()> {
    let pending = state.wire.iter().any(|flight| flight.by == by && !flight.stray);
    (!pending && state.executors.get(by)?.held.is_empty()).then_some(())?;
    release(state, by, run)
}

fn release(state: &mut State, by: usize, run: usize) -> Option<()> {
    let row = state.rows.get_mut(run)?;
    row.owner = None;
    row.fence = Seen { version: row.fence.version + 1, by: Author::Executor(by), ..row.fence };
    Some(())
}

fn write_lease(row: &mut Row, by: usize, epoch_rises: bool, broken: &mut Vec<Law>) {
    let author = Author::Executor(by);
    let fresh = epoch_rises || row.epoch_of == Author::Outside;
    if !fresh && row.epoch_of != author {
        broken.push(Law::OneWriterAnEpoch);
    }
    row.owner = Some(by);
    row.epoch_of = author;
    let epoch = row.fence.epoch + u8::from(fresh);
    row.fence = Seen { version: row.fence.version + 1, epoch, by: author };
}

fn fresh(run: usize, row: &Row, work: Work) -> Held {
    Held {
        run,
        lease: row.fence.epoch,
        head: row.fence,
        content: row.content,
        work,
        overtaken: false,
    }
}

/// The database's whole part: a guarded update.
fn arrive(protocol: &Protocol, state: &mut State, place: usize) -> Option<()> {
    let flight = *state.wire.get(place)?;
    (flight.outcome.is_none() && is_sent(state, place)?).then_some(())?;
    let row = state.rows.get_mut(flight.run)?;
    let guards = &protocol.guards;
    let fits = (!guards.version || row.fence.version == flight.read.version)
        && (!guards.epoch || row.fence.epoch == flight.read.epoch);
    let outcome = if fits {
        let mut broken = broken_by_write(row, &flight);
        store(row, &flight);
        state.broken.append(&mut broken);
        for twin in state.wire.iter_mut().filter(|twin| is_twin(twin, &flight)) {
            twin.stored = true;
        }
        Outcome::Applied
    } else if flight.again && flight.stored && guards.journal_asked {
        Outcome::Applied
    } else {
        Outcome::Lost
    };
    answer(protocol, state, place, outcome)
}

/// Whether it left its executor: it does when what was handed in before it is known.
fn is_sent(state: &State, place: usize) -> Option<bool> {
    let flight = state.wire.get(place)?;
    let waits = state.wire.iter().take(place).any(|earlier| {
        earlier.is_of(flight.by, flight.run, flight.lease)
            && !earlier.stray
            && earlier.outcome.is_none()
    });
    Some(flight.stray || !waits)
}

fn store(row: &mut Row, flight: &Flight) {
    if let Some(tally) = flight.finishes.and_then(|step| row.tallies.get_mut(step)) {
        tally.finished += 1;
    }
    if flight.content.open
        && let Some(tally) = row.tallies.get_mut(flight.content.step)
    {
        tally.intended = true;
    }
    row.owner = flight.owner;
    row.content = flight.content;
    let Seen { version, epoch, .. } = flight.read;
    row.fence = Seen { version: version + 1, epoch, by: Author::Executor(flight.by) };
}

fn is_twin(one: &Flight, other: &Flight) -> bool {
    one.is_of(other.by, other.run, other.lease) && one.read == other.read
}

/// Sends the answer back. When a change is lost, those behind it on its line are turned away.
fn answer(protocol: &Protocol, state: &mut State, place: usize, outcome: Outcome) -> Option<()> {
    let flight = *state.wire.get(place)?;
    state.wire.get_mut(place)?.outcome = Some(outcome);
    if outcome == Outcome::Lost && !flight.stray && protocol.guards.line_ends {
        for later in state
            .wire
            .iter_mut()
            .filter(|later| later.is_of(flight.by, flight.run, flight.lease) && !later.stray)
        {
            later.outcome.get_or_insert(Outcome::Lost);
        }
    }
    Some(())
}

/// The answer is lost on its way, or late: the same write is sent again, and the first copy, where it
/// has not arrived, still may.
fn doubt(state: &mut State, place: usize) -> Option<()> {
    let flight = *state.wire.get(place)?;
    let waited_for = !flight.stray && !flight.again && flight.outcome != Some(Outcome::Lost);
    let acts = state.executors.get(flight.by)?.acts();
    (waited_for && acts && is_sent(state, place)?).then_some(())?;
    state.mishaps = state.mishaps.checked_sub(1)?;
    if flight.outcome.is_none() {
        state.wire.push(Flight { stray: true, ..flight });
    }
    let stored = flight.outcome == Some(Outcome::Applied);
    *state.wire.get_mut(place)? = Flight { again: true, stored, outcome: None, ..flight };
    Some(())
}

/// A change by a writer without a lease: read and written under the row's own version.
fn from_outside(
    state: &mut State,
    run: usize,
    change: impl FnOnce(&mut Row) -> Option<()>,
) -> Option<()> {
    let row = state.rows.get_mut(run)?;
    (!row.content.ended).then_some(())?;
    change(row)?;
    row.fence = Seen { version: row.fence.version + 1, by: Author::Outside, ..row.fence };
    Some(())
}

fn end(row: &mut Row) -> Option<()> {
    row.owner = None;
    row.content.ended = true;
    row.content.asks = false;
    Some(())
}
