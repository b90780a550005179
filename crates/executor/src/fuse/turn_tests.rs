//! Parallel steps in any order of events: none of the limits that they share, or have for themselves, is overspent.

mod world;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use std::collections::BTreeSet;
use surety_common::domain::confirmation::{AfterDenial, AfterExpiry};
use surety_common::domain::limits::Limits;
use surety_common::domain::run::OnBudget;
use surety_common::domain::stop::StopReason;
use world::{Policy, World};

/// What happens to a run; a number selects among the steps that it applies to.
#[derive(Debug, Clone, Copy)]
enum Op {
    /// An executor leases the run, and steps.
    Lease,
    /// A running step asks its driver.
    Ask(usize),
    /// A driver replies, and says what it cost, or nothing.
    Reply(usize, Option<u64>),
    /// A reply becomes a turn.
    Turn(usize, Kind),
    /// A reply asks for the confirmation of a call.
    Confirm(usize),
    /// A person approves a call, in its time or late.
    Approve(usize),
    /// An approved call begins and ends.
    Begin(usize),
    /// The scan ends the waits whose time has passed.
    Expire,
    Finish(usize),
    Recover,
    Judge,
    /// Seconds pass.
    Pass(i64),
    Extend,
}

/// What a reply holds.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A decision without a call.
    Plain,
    /// A call, with the same result as others or with its own.
    Call { same: bool },
    /// A decision that is refused.
    Refused,
    /// Text without a decision.
    Text,
    /// Thinking alone.
    Thinking,
}

fn worlds() -> impl Strategy<Value = World> {
    let counts = (1_u32..6, 1_u32..9, 1_u32..9, 1_u32..5, 0_u32..3, 0_u32..3, 1_u32..4);
    let fuses = (1_u32..4, 1_u32..4, 1_u32..4, 20_u64..400, 1_u64..20);
    let budgets =
        (prop::option::of(1_u64..60), prop::option::of(1_u64..60), prop::option::of(1_u64..20));
    let policies = (any::<bool>(), any::<bool>());
    (1_usize..8, counts, 5_u64..50, fuses, budgets, policies).prop_map(
        |(
            steps,
            (run, step, calls, parallel, replans, repairs, corrections),
            deadline,
            (missing, thinking, cycle, run_deadline, confirm_ttl_s),
            (token_budget, cost_budget_micros, max_turn_tokens),
            (ends_for_budget, ends_late),
        )| {
            let limits = Limits {
                max_run_rounds: run * 3,
                max_step_rounds: step,
                max_step_tool_calls: calls,
                max_parallel_steps: parallel,
                max_replans: replans,
                max_repairs: repairs,
                max_consecutive_corrections: corrections,
                max_missing_completion: missing,
                max_thinking_only: thinking,
                max_repeat_cycle: cycle,
                step_deadline_s: deadline,
                run_deadline_s: run_deadline,
                confirm_ttl_s,
                token_budget,
                cost_budget_micros,
                max_turn_tokens,
                ..Limits::default()
            };
            let policy = Policy {
                on_budget: if ends_for_budget { OnBudget::Fail } else { OnBudget::Block },
                on_expired: match ends_late {
                    true => AfterExpiry::Stop,
                    false => AfterExpiry::Denied(AfterDenial::Continue),
                },
            };
            World::new(steps, limits, policy)
        },
    )
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        2 => Just(Kind::Plain),
        8 => prop::bool::weighted(0.7).prop_map(|same| Kind::Call { same }),
        2 => Just(Kind::Refused),
        2 => Just(Kind::Text),
        2 => Just(Kind::Thinking),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let step = 0_usize..8;
    let op = prop_oneof![
        8 => Just(Op::Lease),
        8 => step.clone().prop_map(Op::Ask),
        8 => (step.clone(), prop::option::of(0_u64..20)).prop_map(|(at, cost)| Op::Reply(at, cost)),
        16 => (step.clone(), kinds()).prop_map(|(at, kind)| Op::Turn(at, kind)),
        2 => step.clone().prop_map(Op::Confirm),
        2 => step.clone().prop_map(Op::Approve),
        2 => step.clone().prop_map(Op::Begin),
        1 => Just(Op::Expire),
        1 => step.prop_map(Op::Finish),
        4 => Just(Op::Recover),
        2 => Just(Op::Judge),
        2 => (1_i64..10).prop_map(Op::Pass),
        1 => Just(Op::Extend),
    ];
    prop::collection::vec(op, 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_limit_is_overspent_by_steps_that_run_beside_one_another(
        mut world in worlds(),
        ops in ops(),
    ) {
        for op in ops {
            world.play(op);
            world.check();
        }
    }
}

/// A world of one running step that may repeat a call once.
fn repeating() -> World {
    let limits = Limits { max_repeat_cycle: 1, ..Limits::default() };
    let policy = Policy { on_budget: OnBudget::Fail, on_expired: AfterExpiry::Stop };
    let mut world = World::new(1, limits, policy);
    world.play(Op::Lease);
    world
}

/// What the property above says of worlds in which nothing happens would hold of any code.
#[test]
fn the_worlds_take_turns_and_reach_every_limit() {
    let mut runner = TestRunner::deterministic();
    let (mut turns, mut reached) = (0, BTreeSet::new());
    // By chance a step seldom makes the same call often enough.
    let mut world = repeating();
    for _ in 0..3 {
        let reply = [Op::Ask(0), Op::Reply(0, None), Op::Lease];
        let call = Op::Turn(0, Kind::Call { same: true });
        reply.into_iter().chain([call]).for_each(|op| world.play(op));
        world.check();
    }
    reached.extend(world.row.stop_reason().map(StopReason::as_str));
    for _ in 0..512 {
        let mut world = worlds().new_tree(&mut runner).expect("a world").current();
        for op in ops().new_tree(&mut runner).expect("operations").current() {
            world.play(op);
        }
        turns += world.turns;
        reached.extend(world.reached.iter().copied());
        reached.extend(world.row.stop_reason().map(StopReason::as_str));
    }
    for limit in [
        "run_deadline_s",
        "max_run_rounds",
        "max_step_rounds",
        "step_deadline_s",
        "max_step_tool_calls",
        "token_budget",
        "cost_budget_micros",
        "confirm_ttl",
        StopReason::BudgetExceeded.as_str(),
        StopReason::ConfirmationExpired.as_str(),
        StopReason::MaxConsecutiveCorrections.as_str(),
        StopReason::MissingCompletionSignal.as_str(),
        StopReason::RepeatCycle.as_str(),
        StopReason::MaxReplansReached.as_str(),
        StopReason::AcceptCheckFailed.as_str(),
    ] {
        assert!(reached.contains(limit), "no world reaches {limit}: {reached:?}");
    }
    assert!(turns > 1_000, "only {turns} turns began");
}
