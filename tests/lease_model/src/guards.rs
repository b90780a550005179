//! Each guard is taken away alone, and the model finds what it was there for.

use super::laws::Law;
use super::protocol::{Guards, Protocol};
use super::state::Step;
use super::worlds::check;
use super::{EFFECT, progress};
use stateright::{Checker, HasDiscoveries, Model};

/// A model with one fault and one change by a user, in which some guards are missing.
fn without(guards: Guards, plan: &[Step]) -> Protocol {
    Protocol { mishaps: 1, guards, ..Protocol::new(plan) }
}

/// The shortest way to a broken law.
fn way_to_break(law: Law, protocol: Protocol) -> Option<String> {
    let wanted = HasDiscoveries::AnyOf([law.name()].into());
    let checker = protocol.checker().finish_when(wanted).spawn_bfs().join();
    checker.discovery(law.name()).map(|path| path.to_string())
}

#[test]
fn without_a_guard_the_law_it_stands_for_is_broken() {
    let all = Guards::ALL;
    let look_first = [Step::Look, EFFECT];
    let effect_first = [EFFECT, Step::Look];
    let repeated = [Step::Look, Step::Effect { repeatable: true }];
    let cases = [
        (Guards { version: false, epoch: false, ..all }, look_first, Law::EpochIsCurrent),
        (Guards { version: false, epoch: false, ..all }, look_first, Law::EpochNeverFalls),
        (Guards { version: false, ..all }, look_first, Law::NothingUnreadIsReplaced),
        (Guards { version: false, ..all }, look_first, Law::EndStays),
        (Guards { version: false, ..all }, look_first, Law::FinishedOnce),
        (Guards { epoch_rises: false, ..all }, look_first, Law::OneWriterAnEpoch),
        (Guards { lease_looked_at: false, ..all }, look_first, Law::OneWriterAnEpoch),
        (Guards { line_ends: false, ..all }, look_first, Law::NothingUnreadIsReplaced),
        (Guards { line_ends: false, ..all }, look_first, Law::EndStays),
        (Guards { journal_asked: false, ..all }, effect_first, Law::FinishedOnce),
        (Guards { intent_first: false, ..all }, look_first, Law::IntentBeforeEffect),
        (Guards { unknown_asked: false, ..all }, look_first, Law::EffectBegunOnce),
        (Guards { beats_renew: false, ..all }, look_first, Law::LivingKeepTheirLeases),
        (Guards { drain_refuses: false, ..all }, look_first, Law::DrainTakesNothing),
        (Guards { silence_ends: false, ..all }, repeated, Law::OneAtWork),
    ];
    for (guards, plan, law) in cases {
        let way = way_to_break(law, without(guards, &plan));
        let way = way.unwrap_or_else(|| panic!("{law:?} holds without its guard: {guards:?}"));
        println!("{law:?}, {guards:?}\n{way}");
    }
}

/// The epoch in the fence is a second lock: every lease raises the version too, so a write that
/// names the version it was thought out over can name no later epoch. It stays in the fence because
/// it says who was late, and holds should a change ever leave the version alone.
#[test]
fn the_version_alone_keeps_every_law() {
    check(without(Guards { epoch: false, ..Guards::ALL }, &[Step::Look, EFFECT]), true);
}

#[test]
fn without_a_look_for_lost_leases_a_run_stands_still_for_ever() {
    let plan = [Step::Look, EFFECT];
    for guards in [
        Guards { silent_lose: false, ..Guards::ALL },
        Guards { forgotten_found: false, ..Guards::ALL },
    ] {
        let stuck = progress::stuck(&Protocol { cancels: 0, ..without(guards, &plan) });
        let stuck = stuck.unwrap_or_else(|| panic!("every run can end without {guards:?}"));
        assert!(stuck.rows.iter().any(|row| row.owner.is_some()), "{stuck:#?}");
    }
}
