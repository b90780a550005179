//! Walks through whole worlds: every law holds in each state, and what is to be possible happens.

use super::protocol::Protocol;
use super::state::Step;
use super::{EFFECT, progress};
use stateright::{Checker, Expectation, Model};

/// Walks a whole world. Every law holds in it and, where `all_happens`, everything that is to be
/// possible is; answers how many states it has.
pub(crate) fn check(protocol: Protocol, all_happens: bool) -> usize {
    let began = std::time::Instant::now();
    let name = format!("{protocol:?}");
    let checker = protocol.checker().threads(2).spawn_bfs().join();
    let states = checker.unique_state_count();
    println!("{states} states in {:.1?}: {name}", began.elapsed());
    for property in checker.model().properties() {
        match property.expectation {
            Expectation::Always | Expectation::Eventually => {
                checker.assert_no_discovery(property.name);
            }
            Expectation::Sometimes if all_happens => {
                checker.assert_any_discovery(property.name);
            }
            Expectation::Sometimes => {}
        }
    }
    states
}

#[test]
fn every_law_holds_whatever_single_mishap_happens_and_a_user_steps_in() {
    for plan in [[Step::Look, EFFECT], [EFFECT, Step::Look]] {
        let states = check(Protocol { mishaps: 1, ..Protocol::new(&plan) }, true);
        assert!(states > 10_000, "the world has become too small to say anything: {states}");
    }
}

#[test]
fn every_law_holds_for_an_effect_that_may_be_repeated() {
    let plan = [Step::Effect { repeatable: true }, Step::Verdict];
    check(Protocol { mishaps: 1, ..Protocol::new(&plan) }, false);
}

#[test]
fn every_law_holds_for_three_executors() {
    let plan = [Step::Look, EFFECT];
    check(Protocol { at_once: 3, mishaps: 1, age_limit: 2, ..Protocol::new(&plan) }, true);
}

#[test]
fn every_law_holds_for_two_runs_side_by_side() {
    check(Protocol { runs: 2, mishaps: 1, cancels: 0, ..Protocol::new(&[Step::Look]) }, false);
}

#[test]
fn every_law_holds_for_a_drain_that_meets_an_unknown_lease() {
    check(Protocol { cancels: 0, ..Protocol::new(&[Step::Look]) }, false);
}

#[test]
fn every_run_can_still_end_whatever_happened_to_it() {
    let protocol = Protocol { mishaps: 1, cancels: 0, ..Protocol::new(&[Step::Look, EFFECT]) };
    assert_eq!(progress::stuck(&protocol), None);
}

#[test]
#[ignore = "millions of states: make model runs it"]
fn every_law_holds_whatever_two_mishaps_happen_to_one_effect() {
    check(Protocol { cancels: 0, ..Protocol::new(&[EFFECT]) }, true);
}
