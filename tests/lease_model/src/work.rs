//! What an executor does under a lease.

use super::laws::broken_by_effect;
use super::protocol::{Deed, Protocol};
use super::state::{Content, Flight, Held, Outcome, Seen, State, Step, Work};

/// Takes one step under a lease; `None` when it cannot be taken.
pub(crate) fn act(
    protocol: &Protocol,
    state: &mut State,
    (by, run, lease): (usize, usize, u8),
    deed: Deed,
) -> Option<()> {
    let executor = state.executors.get(by)?;
    let (acts, draining) = (executor.acts(), executor.draining);
    let held = *state.held(by, run, lease)?;
    let stand = Stand { held, settled: state.pending(by, &held).next().is_none(), draining };
    let step = protocol.step(held.content.step);
    acts.then_some(())?;
    match deed {
        Deed::Hear => return hear(state, by, held),
        Deed::CatchUp => return catch_up(protocol, state, by, &stand),
        Deed::Notice => return notice(state, by, held),
        Deed::Begin => return begin(protocol, state, by, &stand),
        Deed::Start
        | Deed::Look
        | Deed::Intend
        | Deed::UseAnswer
        | Deed::Conclude
        | Deed::Ask
        | Deed::GiveBack => {}
    }
    (!held.overtaken).then_some(())?;
    let (change, work) = stand.change(protocol, deed, step?)?;
    hand_in(protocol, state, (by, held), change, work)
}

/// The state of the work.
struct Stand {
    held: Held,
    /// Every answer is received.
    settled: bool,
    draining: bool,
}

/// A change in the making.
struct Change {
    content: Content,
    gives_back: bool,
    finishes: Option<usize>,
}

impl Stand {
    /// What a deed changes, and how far the work is then; `None` when it is not its time.
    fn change(&self, protocol: &Protocol, deed: Deed, step: Step) -> Option<(Change, Work)> {
        let Content { step: place, open, may_repeat, .. } = self.held.content;
        let thinking = self.held.work == Work::Thinking && !self.draining;
        let effect = matches!(step, Step::Effect { .. });
        let unknown = thinking && effect && open;
        match (deed, self.held.work) {
            (Deed::Start, Work::Starting) => Some((Change::to(self.held.content), Work::Thinking)),
            (Deed::Look, _) if thinking && step == Step::Look => {
                Some(self.finish(protocol, place, Work::Thinking))
            }
            (Deed::Intend, _) if thinking && effect && !open => {
                let content = Content { open: true, ..self.held.content };
                Some((Change::to(content), Work::Intending))
            }
            (Deed::UseAnswer, _) if unknown && may_repeat => {
                let content = Content { may_repeat: false, ..self.held.content };
                Some((Change::to(content), Work::Intending))
            }
            (Deed::Ask, _) if unknown && !may_repeat && !may_begin_again(protocol, step) => {
                let content = Content { asks: true, ..self.held.content };
                Some((Change { gives_back: true, ..Change::to(content) }, Work::Leaving))
            }
            (Deed::Conclude, Work::Acting(place)) if self.settled => {
                Some(self.finish(protocol, place, Work::Concluding(place)))
            }
            (Deed::GiveBack, Work::Thinking | Work::Acting(_)) if self.draining && self.settled => {
                let change = Change::to(self.held.content);
                Some((Change { gives_back: true, ..change }, Work::Leaving))
            }
            (_, _) => None,
        }
    }

    /// The end of the step at `place`, which is the run's when it was the last one.
    fn finish(&self, protocol: &Protocol, place: usize, work: Work) -> (Change, Work) {
        let step = self.held.content.step.max(place + 1);
        let ended = step >= protocol.plan.len();
        let content = Content { step, open: false, may_repeat: false, ended, ..self.held.content };
        let change = Change { content, gives_back: ended, finishes: Some(place) };
        (change, if ended && work == Work::Thinking { Work::Leaving } else { work })
    }
}

impl Change {
    fn to(content: Content) -> Self {
        Self { content, gives_back: false, finishes: None }
    }
}

/// The rule for an effect that may have happened: it begins again only where its tool allows that.
fn may_begin_again(protocol: &Protocol, step: Step) -> bool {
    step == Step::Effect { repeatable: true } || !protocol.guards.unknown_asked
}

/// Moves the head at once and sends the change on its way.
fn hand_in(
    protocol: &Protocol,
    state: &mut State,
    (by, held): (usize, Held),
    change: Change,
    work: Work,
) -> Option<()> {
    let lost = |flight: &Flight| flight.outcome == Some(Outcome::Lost);
    let too_late = protocol.guards.line_ends && state.pending(by, &held).any(lost);
    state.wire.push(Flight {
        by,
        run: held.run,
        lease: held.lease,
        stray: false,
        read: held.head,
        owner: (!change.gives_back).then_some(by),
        content: change.content,
        finishes: change.finishes,
        again: false,
        stored: false,
        outcome: too_late.then_some(Outcome::Lost),
    });
    let known = state.held(by, held.run, held.lease)?;
    let Seen { version, epoch, .. } = held.head;
    known.head = Seen { version: version + 1, epoch, by: super::state::Author::Executor(by) };
    known.content = change.content;
    known.work = work;
    Some(())
}

/// The world is touched, unless others may take this process for dead.
fn begin(protocol: &Protocol, state: &mut State, by: usize, stand: &Stand) -> Option<()> {
    let held = stand.held;
    let place = held.content.step;
    let step = protocol.step(place)?;
    let stored = stand.settled || !protocol.guards.intent_first;
    let may = match held.work {
        Work::Intending => stored,
        Work::Thinking => {
            let open = matches!(step, Step::Effect { .. }) && held.content.open;
            open && !stand.draining && stand.settled && may_begin_again(protocol, step)
        }
        Work::Starting | Work::Acting(_) | Work::Concluding(_) | Work::Leaving => false,
    };
    let unheard = state.executors.get(by)?.silent >= protocol.age_limit;
    let heard = !unheard || !protocol.guards.silence_ends;
    (may && heard && !held.overtaken).then_some(())?;
    let row = state.rows.get_mut(held.run)?;
    state.broken.append(&mut broken_by_effect(row, place, step));
    row.tallies.get_mut(place)?.begun += 1;
    state.held(by, held.run, held.lease)?.work = Work::Acting(place);
    Some(())
}

fn hear(state: &mut State, by: usize, held: Held) -> Option<()> {
    let first = state
        .wire
        .iter()
        .position(|flight| flight.is_of(by, held.run, held.lease) && !flight.stray)?;
    let outcome = state.wire.get(first)?.outcome?;
    state.wire.remove(first);
    let settled = state.pending(by, &held).next().is_none();
    let known = state.held(by, held.run, held.lease)?;
    known.overtaken |= outcome == Outcome::Lost;
    if settled && !known.overtaken {
        match known.work {
            Work::Leaving => state.forget(by, held.run, held.lease),
            Work::Concluding(_) if known.content.ended => {
                state.forget(by, held.run, held.lease);
            }
            Work::Concluding(_) => known.work = Work::Thinking,
            Work::Starting | Work::Thinking | Work::Intending | Work::Acting(_) => {}
        }
    }
    Some(())
}

fn catch_up(protocol: &Protocol, state: &mut State, by: usize, stand: &Stand) -> Option<()> {
    let held = stand.held;
    (held.overtaken && stand.settled).then_some(())?;
    let row = state.rows.get(held.run)?;
    let is_held = row.owner == Some(by) && row.fence.epoch == held.lease;
    if !is_held && protocol.guards.lease_looked_at {
        state.forget(by, held.run, held.lease);
        return Some(());
    }
    let (head, content) = (row.fence, row.content);
    let known = state.held(by, held.run, held.lease)?;
    let work = match held.work {
        Work::Acting(place) | Work::Concluding(place) => Work::Acting(place),
        Work::Starting => Work::Starting,
        Work::Thinking | Work::Intending | Work::Leaving => Work::Thinking,
    };
    *known = Held { head, content, work, overtaken: false, ..held };
    Some(())
}

fn notice(state: &mut State, by: usize, held: Held) -> Option<()> {
    let row = state.rows.get(held.run)?;
    let gone = row.owner != Some(by) || row.fence.epoch != held.lease;
    gone.then(|| state.forget(by, held.run, held.lease))
}
