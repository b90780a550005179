use super::tests::decision;
use super::*;
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::limits::Limits;
use surety_common::domain::plan::{Evidence, ToolCall};
use surety_common::domain::problem::Code;
use surety_common::domain::receipt::PROVES_NOTHING;
use surety_common::domain::verdict::CheckResult;

const TOOLS: [ToolView<'static>; 3] = [
    ToolView { name: "read_file", read_only: true, requires_confirmation: false },
    ToolView { name: "write_file", read_only: false, requires_confirmation: false },
    ToolView { name: "deploy", read_only: false, requires_confirmation: true },
];

fn fits(_: &ToolCall) -> Result<(), String> {
    Ok(())
}

fn calling(action: &str, tool: &str) -> ExecuteDecision {
    decision(&format!(r#"{{"action":"{action}","tool_call":{{"name":"{tool}"}}}}"#))
}

/// A view that allows and proves every decision.
fn open_view<R>(change: impl FnOnce(&mut RunView<'_>) -> R) -> R {
    let limits = Limits::default();
    let mut view = RunView {
        step: StepView {
            tools_expected: &[],
            evidence: Evidence::Required,
            proven: true,
            checks: &[],
        },
        signalled: false,
        other_steps_open: false,
        tools: &TOOLS,
        always_allowed: &[],
        pending_confirmation: false,
        limits: &limits,
        spent: Spent::default(),
        repeats: false,
        fits_schema: &fits,
    };
    change(&mut view)
}

fn refusal(decision: ExecuteDecision, view: &RunView<'_>) -> Option<(ValidationName, Code)> {
    let judged = judge(decision, view);
    let refusal = judged.refusal()?;
    Some((refusal.name, refusal.code?))
}

fn flow(code: Code) -> Option<(ValidationName, Code)> {
    Some((ValidationName::Flow, code))
}

fn safety(code: Code) -> Option<(ValidationName, Code)> {
    Some((ValidationName::Safety, code))
}

#[test]
fn every_action_passes_where_all_is_proven_and_allowed() {
    for text in [
        r#"{"action":"continue"}"#,
        r#"{"action":"continue","tool_call":{"name":"write_file"}}"#,
        r#"{"action":"ask_user"}"#,
        r#"{"action":"confirm","tool_call":{"name":"deploy"}}"#,
        r#"{"action":"next_plan","goal_check":"g"}"#,
        r#"{"action":"done","goal_check":"g"}"#,
        r#"{"action":"abort","abort":{"user_message":"m"}}"#,
    ] {
        let judged = open_view(|view| judge(decision(text), view));
        assert_eq!(judged.refusal(), None, "{text}");
        assert_eq!(judged.decision, decision(text));
    }
}

#[test]
fn flow_refuses_what_is_not_legal_now() {
    let done = || decision(r#"{"action":"done"}"#);
    open_view(|view| {
        view.other_steps_open = true;
        assert_eq!(refusal(done(), view), flow(Code::GoalCheckMissing));
        let early = decision(r#"{"action":"done","goal_check":"g"}"#);
        assert_eq!(refusal(early, view), flow(Code::StepsRemaining));
        let next = decision(r#"{"action":"next_plan","goal_check":"g"}"#);
        assert_eq!(refusal(next, view), None);
        let next = decision(r#"{"action":"next_plan"}"#);
        assert_eq!(refusal(next, view), flow(Code::GoalCheckMissing));
        view.other_steps_open = false;
        view.signalled = true;
        assert_eq!(refusal(done(), view), None, "a completion signal needs no goal check");
    });
}

#[test]
fn flow_refuses_tools_that_are_unknown_not_allowed_or_unconfirmed() {
    let expected = ["read_file".to_owned(), "deploy".to_owned()];
    open_view(|view| {
        let view = &mut { *view };
        view.step.tools_expected = &expected;
        for (action, tool, code) in [
            ("continue", "read_file", None),
            ("continue", "Read_File", Some(Code::UnknownTool)),
            ("confirm", "nothing", Some(Code::UnknownTool)),
            ("continue", "write_file", Some(Code::ToolNotAllowed)),
            ("continue", "deploy", Some(Code::WriteRequiresConfirm)),
            ("confirm", "deploy", None),
        ] {
            let found = refusal(calling(action, tool), view).map(|(_, code)| code);
            assert_eq!(found, code, "{action} {tool}");
        }
        view.always_allowed = &["write_file"];
        assert_eq!(refusal(calling("continue", "write_file"), view), None);
    });
}

#[test]
fn a_confirm_of_a_tool_that_only_reads_becomes_a_continue() {
    open_view(|view| {
        let judged = judge(calling("confirm", "read_file"), view);
        assert_eq!(judged.decision.action, Action::Continue);
        assert_eq!(judged.refusal(), None);
        let judged = judge(calling("confirm", "write_file"), view);
        assert_eq!(judged.decision.action, Action::Confirm);
    });
}

#[test]
fn the_policy_and_not_the_tool_says_whether_a_read_needs_a_confirmation() {
    let guarded = [ToolView { name: "read_file", read_only: true, requires_confirmation: true }];
    open_view(|view| {
        let view = &mut { *view };
        view.tools = &guarded;
        let judged = judge(calling("confirm", "read_file"), view);
        assert_eq!(judged.decision.action, Action::Confirm);
        assert_eq!(
            refusal(calling("continue", "read_file"), view),
            flow(Code::WriteRequiresConfirm)
        );
    });
}

#[test]
fn while_a_confirmation_is_open_a_driver_may_only_give_up() {
    open_view(|view| {
        view.pending_confirmation = true;
        let pending = flow(Code::PendingConfirmation);
        assert_eq!(refusal(calling("confirm", "deploy"), view), pending);
        assert_eq!(refusal(decision(r#"{"action":"continue"}"#), view), pending);
        let abort = decision(r#"{"action":"abort","abort":{"user_message":"m"}}"#);
        assert_eq!(refusal(abort, view), None);
    });
}

#[test]
fn a_claim_without_evidence_is_refused_unless_the_step_needs_none() {
    let claim = || decision(r#"{"action":"next_plan","goal_check":"g"}"#);
    open_view(|view| {
        view.step.proven = false;
        let missing = Some((ValidationName::Evidence, Code::EvidenceMissing));
        assert_eq!(refusal(claim(), view), missing);
        let judged = judge(claim(), view);
        let reason = &judged.refusal().unwrap().reason;
        for tool in PROVES_NOTHING {
            assert!(reason.contains(tool), "{reason}");
        }
        assert_eq!(refusal(decision(r#"{"action":"ask_user"}"#), view), None);
        view.step.evidence = Evidence::None;
        assert_eq!(refusal(claim(), view), None);
    });
}

#[test]
fn a_steps_own_required_check_must_hold() {
    let check = |optional| CheckResult {
        name: "builds".into(),
        passed: false,
        reason: "no_successful_command".into(),
        optional,
    };
    open_view(|view| {
        let required = [check(false)];
        let view = &mut { *view };
        view.step.checks = &required;
        view.step.evidence = Evidence::None;
        let judged = judge(decision(r#"{"action":"done","goal_check":"g"}"#), view);
        let refused = judged.refusal().unwrap();
        assert_eq!(refused.code, Some(Code::StepCheckFailed));
        assert!(refused.reason.contains("builds") && refused.reason.contains("no_successful"));
    });
    open_view(|view| {
        let optional = [check(true)];
        let view = &mut { *view };
        view.step.checks = &optional;
        let claim = decision(r#"{"action":"done","goal_check":"g"}"#);
        assert_eq!(refusal(claim, view), None);
    });
}

#[test]
fn safety_refuses_what_a_fuse_forbids() {
    type Change = fn(&mut RunView<'_>);
    let cases: [(Change, Code); 5] = [
        (|view| view.spent.used.step_tool_calls = 24, Code::FuseReached),
        (|view| view.spent.used.step_rounds = 60, Code::FuseReached),
        (|view| view.spent.used.run_rounds = 500, Code::FuseReached),
        (|view| view.repeats = true, Code::RepeatCycle),
        (|view| view.fits_schema = &|_| Err("path is missing".into()), Code::ArgumentsInvalid),
    ];
    for (change, code) in cases {
        open_view(|view| {
            change(view);
            assert_eq!(refusal(calling("continue", "write_file"), view), safety(code));
        });
    }
}

#[test]
fn the_last_allowed_turn_and_call_still_pass() {
    open_view(|view| {
        view.spent.used.step_tool_calls = 23;
        view.spent.used.step_rounds = 59;
        view.spent.used.run_rounds = 499;
        assert_eq!(refusal(calling("continue", "write_file"), view), None);
        view.spent.used.step_tool_calls = 24;
        assert_eq!(refusal(decision(r#"{"action":"ask_user"}"#), view), None);
    });
}

#[test]
fn a_used_up_budget_stops_what_goes_on_and_not_what_ends() {
    let limits =
        Limits { token_budget: Some(10), cost_budget_micros: Some(5), ..Limits::default() };
    for spent in [(10, 0), (0, 5)] {
        open_view(|view| {
            let mut view = RunView { limits: &limits, ..*view };
            (view.spent.tokens, view.spent.cost_micros) = spent;
            let going_on = decision(r#"{"action":"continue"}"#);
            assert_eq!(refusal(going_on, &view), safety(Code::BudgetExhausted));
            let claim = decision(r#"{"action":"done","goal_check":"g"}"#);
            assert_eq!(refusal(claim, &view), None);
        });
    }
}

#[test]
fn all_three_validations_are_recorded_even_when_the_first_refuses() {
    open_view(|view| {
        view.step.proven = false;
        view.repeats = true;
        let judged = judge(decision(r#"{"action":"done"}"#), view);
        let codes: Vec<Option<Code>> = judged.validations.iter().map(|each| each.code).collect();
        assert_eq!(
            codes,
            [Some(Code::GoalCheckMissing), Some(Code::EvidenceMissing), Some(Code::RepeatCycle)]
        );
    });
}
