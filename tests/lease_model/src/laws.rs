//! What must hold whatever happens, and what must be able to happen.

use super::protocol::Protocol;
use super::state::{Author, Flight, Life, Outcome, Row, State, Step};
use stateright::Property;

/// An invariant of the lease protocol. It is checked when the row changes, so a violation appears
/// in the step that causes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Law {
    /// Of two executors, one at most has writes accepted under one epoch.
    OneWriterAnEpoch,
    /// An accepted write names the epoch that the row has.
    EpochIsCurrent,
    /// Epochs never fall.
    EpochNeverFalls,
    /// An accepted write was thought out over the row that it replaces.
    NothingUnreadIsReplaced,
    /// The first end of a run stays.
    EndStays,
    /// A step's end is stored once.
    FinishedOnce,
    /// No effect begins before its intent is stored.
    IntentBeforeEffect,
    /// An effect that must not be repeated begins once, and once more for each decision that it may.
    EffectBegunOnce,
    /// No executor with heartbeats in time loses a lease to another.
    LivingKeepTheirLeases,
    /// A draining executor takes no lease.
    DrainTakesNothing,
    /// An executor that only lost contact has no running call that another repeats without asking,
    /// when that takes its lease.
    OneAtWork,
}

impl Law {
    /// Every law with its name.
    pub const ALL: [(Self, &'static str); 11] = [
        (Self::OneWriterAnEpoch, "one writer an epoch"),
        (Self::EpochIsCurrent, "an accepted write names the current epoch"),
        (Self::EpochNeverFalls, "epochs never fall"),
        (Self::NothingUnreadIsReplaced, "nothing is replaced that its writer has not read"),
        (Self::EndStays, "the first end of a run stays"),
        (Self::FinishedOnce, "a step is finished once"),
        (Self::IntentBeforeEffect, "no effect without a stored intent"),
        (Self::EffectBegunOnce, "an effect is begun once for each decision"),
        (Self::LivingKeepTheirLeases, "who is heard in time keeps its leases"),
        (Self::DrainTakesNothing, "a draining executor takes no lease"),
        (Self::OneAtWork, "who is unheard has ended what another repeats unasked"),
    ];

    /// Its name, as a property.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(law, _)| *law == self).map_or("", |(_, name)| name)
    }
}

fn keeps(state: &State, law: Law) -> bool {
    !state.broken.contains(&law)
}

fn always(law: Law, condition: fn(&Protocol, &State) -> bool) -> Property<Protocol> {
    Property::always(law.name(), condition)
}

/// The laws, and what shows that they are not kept by nothing ever happening.
pub fn properties() -> Vec<Property<Protocol>> {
    vec![
        always(Law::OneWriterAnEpoch, |_, state| keeps(state, Law::OneWriterAnEpoch)),
        always(Law::EpochIsCurrent, |_, state| keeps(state, Law::EpochIsCurrent)),
        always(Law::EpochNeverFalls, |_, state| keeps(state, Law::EpochNeverFalls)),
        always(Law::NothingUnreadIsReplaced, |_, state| keeps(state, Law::NothingUnreadIsReplaced)),
        always(Law::EndStays, |_, state| keeps(state, Law::EndStays)),
        always(Law::FinishedOnce, |_, state| keeps(state, Law::FinishedOnce)),
        always(Law::IntentBeforeEffect, |_, state| keeps(state, Law::IntentBeforeEffect)),
        always(Law::EffectBegunOnce, |_, state| keeps(state, Law::EffectBegunOnce)),
        always(Law::LivingKeepTheirLeases, |_, state| keeps(state, Law::LivingKeepTheirLeases)),
        always(Law::DrainTakesNothing, |_, state| keeps(state, Law::DrainTakesNothing)),
        always(Law::OneAtWork, |_, state| keeps(state, Law::OneAtWork)),
        Property::sometimes("a late write is refused", |_, state: &State| {
            state.wire.iter().any(|flight| is_refused_late(state, flight))
        }),
        Property::sometimes("a run outlives its executor", |_, state: &State| {
            ended_by_another(state, |executor| executor.life == Life::Gone && !executor.draining)
        }),
        Property::sometimes("a run goes on behind a drain", |_, state: &State| {
            ended_by_another(state, |executor| executor.life == Life::Gone && executor.draining)
        }),
        Property::sometimes("a doubtful write proves to be stored", |_, state: &State| {
            let applied = Some(Outcome::Applied);
            state
                .wire
                .iter()
                .any(|flight| flight.again && flight.stored && flight.outcome == applied)
        }),
        Property::sometimes("one executor works under two leases of a run", |_, state: &State| {
            let twice = |held: &[super::state::Held]| {
                held.windows(2).any(|pair| pair[0].run == pair[1].run)
            };
            state.executors.iter().any(|executor| twice(&executor.held))
        }),
        Property::sometimes("every run ends", |_, state: &State| state.is_over()),
    ]
}

fn is_refused_late(state: &State, flight: &Flight) -> bool {
    let epoch = state.rows.get(flight.run).map(|row| row.fence.epoch);
    flight.outcome == Some(Outcome::Lost) && epoch.is_some_and(|epoch| epoch > flight.lease)
}

/// Whether a run was taken up after its first holder and is over, and such an executor is there.
fn ended_by_another(state: &State, first: impl Fn(&super::state::Executor) -> bool) -> bool {
    let again = |row: &Row| {
        row.content.ended && row.fence.epoch > 1 && row.tallies.iter().all(|t| t.finished == 1)
    };
    state.rows.iter().any(again) && state.executors.iter().any(first)
}

/// The laws that an accepted write breaks.
pub fn broken_by_write(row: &Row, flight: &Flight) -> Vec<Law> {
    let by = Author::Executor(flight.by);
    let twice = flight
        .finishes
        .is_some_and(|step| row.tallies.get(step).is_some_and(|tally| tally.finished > 0));
    let laws = [
        (row.epoch_of != by && row.fence.epoch == flight.read.epoch, Law::OneWriterAnEpoch),
        (row.fence.epoch != flight.read.epoch, Law::EpochIsCurrent),
        (row.fence.epoch > flight.read.epoch, Law::EpochNeverFalls),
        (row.fence != flight.read, Law::NothingUnreadIsReplaced),
        (row.content.ended, Law::EndStays),
        (twice, Law::FinishedOnce),
    ];
    of_those(&laws)
}

/// The laws that the beginning of an effect breaks.
pub fn broken_by_effect(row: &Row, place: usize, step: Step) -> Vec<Law> {
    let Some(tally) = row.tallies.get(place) else { return Vec::new() };
    let repeatable = step == Step::Effect { repeatable: true };
    of_those(&[
        (!tally.intended, Law::IntentBeforeEffect),
        (!repeatable && tally.begun > tally.decided, Law::EffectBegunOnce),
    ])
}

fn of_those(laws: &[(bool, Law)]) -> Vec<Law> {
    laws.iter().filter(|(broken, _)| *broken).map(|(_, law)| *law).collect()
}
